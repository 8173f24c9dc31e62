"""A store under load while a test does something to its server: what was added must be there, whatever failed (R23).

    with Load(store, deduper, now, expires_at) as load:
        load.wait_for(100)
        server.kill()
        server.start()
        load.wait_for(100)
    assert load.errors
    load.check()

An error of the store is none of the load's: its threads try again, and know what may have been added.
"""

from __future__ import annotations

import threading
import time
from typing import Final, final

from solus_core.errors import StoreBatchError, StoreError
from solus_core.model import DeDuper
from solus_core.stores import DataStore, SingleProbeStore
from solus_core.testing.lab import craft

_THREADS: Final = 4
_PATIENCE: Final = 120.0
_PAUSE: Final = 0.01


@final
class Load:
    """Threads that add entities of their own, by all verbs, each until it has succeeded, and look them up.

    ``deduper``: with 1,000,000 shards of 1,000 positions, or more. ``added``: shard and positions of what was added.
    ``errors``: what the store raised meanwhile. What is wrong is raised at the end of the ``with`` block.
    """

    def __init__(self, store: DataStore, deduper: DeDuper, now: int, expires_at: int) -> None:
        assert isinstance(store, SingleProbeStore)
        self.added: list[tuple[int, tuple[int, ...]]] = []
        self.errors: list[StoreError | StoreBatchError] = []
        self._wrong: list[str] = []
        self._unexpected: list[BaseException] = []
        self._store, self._single, self._deduper = store, store, deduper
        self._now, self._expires_at = now, expires_at
        self._stopped = False
        self._threads = [threading.Thread(target=self._work, args=(i,)) for i in range(_THREADS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join(_PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads), "a call has not ended"
        assert not self._unexpected, self._unexpected
        assert not self._wrong, self._wrong

    def wait_for(self, more: int) -> None:
        """Until so many more entities were added; ``AssertionError`` after two minutes."""
        wanted, deadline = len(self.added) + more, time.monotonic() + _PATIENCE
        while len(self.added) < wanted and not self._unexpected:
            assert time.monotonic() < deadline, f"stuck, the last error was {self.errors[-1:]}"
            time.sleep(_PAUSE)  # the load is the clock

    def wait_for_error(self) -> None:
        """Until the store has raised something; ``AssertionError`` after two minutes."""
        deadline = time.monotonic() + _PATIENCE
        while not self.errors and not self._unexpected:
            assert time.monotonic() < deadline, "nothing has failed"
            time.sleep(_PAUSE)  # the load is the clock

    def check(self) -> None:
        """All that was added is there."""
        absent = self._store.absent(craft(self._deduper, *self.added), self._now)
        assert not absent.any(), f"{absent.sum()} of {len(absent)} are said to be absent"

    def _work(self, number: int) -> None:
        try:
            for i in range(10**6):
                if self._stopped:
                    return
                self._add(number, (number * 250_000 + i // 100, (i % 100 * 10, i % 100 * 10 + 1)))
        except BaseException as error:
            self._unexpected.append(error)

    def _add(self, number: int, row: tuple[int, tuple[int, ...]]) -> None:
        times, maybe_added = (self._now, self._expires_at), False
        while not self._stopped:
            try:
                if number % 2:
                    self._single.add_one(self._deduper, *row, *times)
                else:
                    try:
                        won = self._single.add_if_absent_one(self._deduper, *row, *times)
                    except StoreError as error:
                        maybe_added = maybe_added or error.in_doubt
                        raise
                    if not won and not maybe_added:
                        self._wrong.append(f"{row} was new and is said to be present")
                    maybe_added = True
                if number >= _THREADS // 2:
                    self._store.add(craft(self._deduper, row), *times)
                if self._single.absent_one(self._deduper, *row, self._now):
                    self._wrong.append(f"{row} was added and is said to be absent")
            except (StoreError, StoreBatchError) as error:
                self.errors.append(error)
            else:
                self.added.append(row)
                return
