"""An interrupt before any line of the metadata cache: nobody waits for ever for what will not be loaded."""

from __future__ import annotations

import contextlib
import inspect
import threading

import pytest

from solus_core import DeDuper, DeDuperConfig, SolusError
from solus_core import cache as module
from solus_core.cache import CacheSettings, MetadataCache
from solus_core.errors import ErrorCode, StoreError
from solus_core.testing.interrupts import Interrupted

WAIT = 30  # seconds after which a thread that should have answered counts as stuck
LINES = range(1, len(inspect.getsourcelines(module)[0]) + 1)


class Waiter:
    """Another thread that asks for the same name, begun at the first load."""

    def __init__(self, cache: MetadataCache, now: int) -> None:
        self._thread = threading.Thread(target=self._ask, args=(cache, now), daemon=True)
        self._lock = threading.Lock()
        self.answered: list[object] = []

    def start(self) -> None:
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def _ask(self, cache: MetadataCache, now: int) -> None:
        try:
            self.answered.append(cache.get("d", now))
        except SolusError as error:
            self.answered.append(error)

    def is_stuck(self) -> bool:
        self.start()
        self._thread.join(WAIT)
        return not self.answered


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("now", [0, 300_000], ids=["first", "refresh"])
def test_nobody_waits_for_ever(fails: bool, now: int) -> None:
    """R16. One who began to wait before the interrupt gets an answer, and so does whoever comes later."""
    happened = set()
    for line in LINES:
        begun: list[Waiter] = []

        def load(name: str, begun: list[Waiter] = begun) -> DeDuper:
            for waiter in begun:
                waiter.start()
            if fails and begun:
                raise StoreError(ErrorCode.INTERNAL_ERROR, "gone")
            return DeDuper(name=name, client_id="c", config=DeDuperConfig())

        cache = MetadataCache(load, CacheSettings())
        if now:
            cache.get("d", 0)
        begun.append(Waiter(cache, now))
        interrupted = Interrupted(module, line)
        with interrupted, contextlib.suppress(KeyboardInterrupt, SolusError):
            cache.get("d", now)
        if interrupted.happened:
            happened.add(line)
            assert not begun[0].is_stuck(), f"after an interrupt at line {line}"
            assert not Waiter(cache, now + 1).is_stuck(), f"later, after an interrupt at line {line}"
    assert len(happened) > 15
