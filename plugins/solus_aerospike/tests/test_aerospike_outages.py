"""Aerospike that stops, starts and freezes: every answer is right or an error, never wrong (R23)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import pytest
from aerospike_samples import BOTH, DAY, NOW, batch, deduper, with_farms_known

from solus_aerospike.data_store import AerospikeDataStore
from solus_core.errors import StoreBatchError, StoreError
from solus_core.model import DeDuper
from solus_core.testing import craft

if TYPE_CHECKING:
    from aerospike_double import Double

END = NOW + DAY
Opened = Callable[..., AerospikeDataStore]


def test_a_stopped_server(double: Double, opened: Opened) -> None:
    """R23: an error, in bounded time, never an answer, also where the client says that all is well; and it heals.

    With no node left, a batch "succeeds" with records that nobody touched.
    """
    store = opened(attempts=2)
    of = with_farms_known(store, deduper())
    store.add(batch(of), NOW, END)
    new = craft(of, (21, (1, 2)), (22, (1, 2)))
    calls: list[Callable[[], object]] = [
        lambda: store.absent_one(of, 0, (1, 2, 3), NOW),
        lambda: store.add_one(of, 21, (1, 2), NOW, END),
        lambda: store.add_if_absent_one(of, 21, (1, 2), NOW, END),
        lambda: store.absent(batch(of), NOW),
        lambda: store.add(new, NOW, END),
        lambda: store.add_if_absent(new, NOW, END),
        lambda: store.stats(of, NOW),
    ]
    double.stop()
    try:
        seen, deadline = set[str](), time.monotonic() + 60
        # Connections refused at first; some seconds later the client has no node any more.
        while "no node can be reached" not in " ".join(seen):
            assert time.monotonic() < deadline, seen
            for call in calls:
                with pytest.raises((StoreError, StoreBatchError)) as caught:
                    call()
                assert not caught.value.in_doubt or "can't be told" not in caught.value.message
                assert caught.value.__cause__ is not None
                seen.add(caught.value.message)
    finally:
        double.start()
    assert "within the timeout" not in " ".join(seen), "nothing was waited for"
    deadline = time.monotonic() + 60
    while True:
        try:
            assert not store.absent(batch(of), NOW).any()
            break
        except StoreBatchError:
            assert time.monotonic() < deadline
    assert store.add_if_absent(new, NOW, END).all(), "something was applied by a server that was stopped"


@final
class Load:
    """Threads that add entities of their own, and know afterwards what must be there."""

    def __init__(self, store: AerospikeDataStore, of: DeDuper) -> None:
        self.errors: list[StoreError | StoreBatchError] = []
        self.unexpected: list[BaseException] = []
        self.wrong: list[str] = []
        self.added: list[tuple[int, tuple[int, ...]]] = []
        self._store, self._of = store, of
        self._stopped = False
        self._threads = [threading.Thread(target=self._work, args=(i,)) for i in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for thread in self._threads:
            thread.join(120)
        assert not self.unexpected, self.unexpected
        assert not self.wrong, self.wrong

    def wait_for(self, more: int) -> None:
        """Until so many more entities were added."""
        wanted, deadline = len(self.added) + more, time.monotonic() + 120
        while len(self.added) < wanted and not self.unexpected:
            assert time.monotonic() < deadline, f"stuck, the last error was {self.errors[-1:]}"
            time.sleep(0.01)  # the load is the clock

    def _work(self, number: int) -> None:
        try:
            for i in range(10**6):
                if self._stopped:
                    return
                self._one(number, (number * 250_000 + i // 100, (i % 100 * 10, i % 100 * 10 + 1)))
        except BaseException as error:
            self.unexpected.append(error)

    def _one(self, number: int, row: tuple[int, tuple[int, ...]]) -> None:
        doubtful = False
        while not self._stopped:
            try:
                if number % 2:
                    self._store.add_one(self._of, *row, NOW, END)
                elif not self._store.add_if_absent_one(self._of, *row, NOW, END) and not doubtful:
                    self.wrong.append(f"{row} was new and is said to be present")
                elif number == 2:
                    self._store.add(craft(self._of, row), NOW, END)
                if self._store.absent_one(self._of, *row, NOW):
                    self.wrong.append(f"{row} was added and is said to be absent")
            except (StoreError, StoreBatchError) as error:
                self.errors.append(error)
                # After True the rest of the round may have failed.
                doubtful = doubtful or error.in_doubt or "adding" not in error.message or number == 2
            else:
                self.added.append(row)
                return


@BOTH
def test_stopped_and_started_under_load(double: Double, opened: Opened, layout: str) -> None:
    """R2, R5, R23: what was added is there, and what was new was not said to be present without a doubt."""
    store = opened(timeout=1.0, attempts=2)
    of = with_farms_known(store, deduper(layout))
    with Load(store, of) as load:
        load.wait_for(100)
        double.stop()
        while not load.errors:
            time.sleep(0.01)  # the load is the clock
        double.start()
        load.wait_for(100)
    assert not store.absent(craft(of, *load.added), NOW).any()
    assert load.errors


def test_a_frozen_server(double: Double, opened: Opened) -> None:
    """R23: an error after ``timeout`` for each try, in doubt for a write; then the late writes do no harm."""
    store = opened(timeout=0.2, attempts=2)
    of = with_farms_known(store, deduper())
    double.freeze()
    begin = time.monotonic()
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)") as reading:
        store.absent_one(of, 5, (1, 2), NOW)
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)") as writing:
        store.add_if_absent_one(of, 5, (1, 2), NOW, END)
    assert time.monotonic() - begin < 20
    assert (reading.value.in_doubt, writing.value.in_doubt) == (False, True)
    double.thaw()
