"""The stores that are handed out when metrics are on: they pass everything on and tell a recorder about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar, final

import numpy as np

from solus_core.errors import ErrorCode, SolusError, StoreBatchError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.stores import Bools, DataStore, Probes, SingleProbeStore, StoreStats

if TYPE_CHECKING:
    from solus_core.metrics.observer import Recorder

T = TypeVar("T")

VERBS: Final = ("absent", "add", "add_if_absent", "absent_one", "add_one", "add_if_absent_one", "stats")
"""The methods of a store that are measured."""

_log = logging.getLogger(__name__)


class MeteredStore:
    """A ``DataStore`` (see there) that does what ``inner`` does, and tells the recorder of each verb."""

    def __init__(self, inner: DataStore, recorders: Mapping[str, Recorder]) -> None:
        self._inner = inner
        self._recorders = recorders
        self._broken: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._inner!r}>"

    @property
    def atomicity(self) -> Atomicity:
        return self._inner.atomicity

    @property
    def layout(self) -> str:
        return self._inner.layout

    def check_config(self, config: DeDuperConfig) -> None:
        self._inner.check_config(config)

    def absent(self, probes: Probes, now: int) -> Bools:
        return self._measured("absent", len(probes), lambda: self._inner.absent(probes, now))

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        self._measured("add", len(probes), lambda: self._inner.add(probes, now, expires_at))

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        return self._measured("add_if_absent", len(probes), lambda: self._inner.add_if_absent(probes, now, expires_at))

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        return self._measured("stats", 0, lambda: self._inner.stats(deduper, now))

    def close(self) -> None:
        self._inner.close()

    def _measured(self, verb: str, entities: int, call: Callable[[], T]) -> T:
        begun = perf_counter()
        try:
            answers = call()
        except Exception as error:
            self._failed(verb, begun, error)
            raise
        self._tell(verb, perf_counter() - begun, entities, answers)
        return answers

    def _tell(
        self, verb: str, seconds: float, entities: int, answers: object = None, error: ErrorCode | None = None
    ) -> None:
        try:
            absent = int(np.count_nonzero(answers)) if isinstance(answers, np.ndarray) else 0
            self._recorders[verb](seconds, entities, absent, error)
        except Exception:
            self._complain(verb)

    def _failed(self, verb: str, begun: float, error: Exception) -> None:
        seconds = perf_counter() - begun
        # What a store must not raise, the engine will call so, too.
        code = error.code if isinstance(error, SolusError) else ErrorCode.INTERNAL_ERROR
        if isinstance(error, StoreBatchError):
            self._tell(verb, seconds, int(np.count_nonzero(error.done)), error.answers & error.done, code)
        else:
            self._tell(verb, seconds, 0, error=code)

    def _complain(self, verb: str) -> None:
        """Log the exception in hand, once for each verb: metrics that fail must not fail what they measure."""
        if verb not in self._broken:
            self._broken.add(verb)
            _log.exception("the metrics of %s failed; this is said once", verb)


@final
class MeteredSingleProbeStore(MeteredStore):
    """The same for a store with verbs for one entity, which are written out: a call costs what many an answer does."""

    def __init__(self, inner: DataStore, recorders: Mapping[str, Recorder]) -> None:
        super().__init__(inner, recorders)
        assert isinstance(inner, SingleProbeStore)
        self._single: SingleProbeStore = inner
        self._add_if_absent_one = inner.add_if_absent_one
        self._tell_absent_one = recorders["absent_one"]
        self._tell_add_one = recorders["add_one"]
        self._tell_add_if_absent_one = recorders["add_if_absent_one"]

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        begun = perf_counter()
        try:
            absent = self._single.absent_one(deduper, shard, positions, now)
        except Exception as error:
            self._failed("absent_one", begun, error)
            raise
        try:
            self._tell_absent_one(perf_counter() - begun, 1, absent, None)
        except Exception:
            self._complain("absent_one")
        return absent

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        begun = perf_counter()
        try:
            self._single.add_one(deduper, shard, positions, now, expires_at)
        except Exception as error:
            self._failed("add_one", begun, error)
            raise
        try:
            self._tell_add_one(perf_counter() - begun, 1, 0, None)
        except Exception:
            self._complain("add_one")

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        begun = perf_counter()
        try:
            added = self._add_if_absent_one(deduper, shard, positions, now, expires_at)
        except Exception as error:
            self._failed("add_if_absent_one", begun, error)
            raise
        try:
            self._tell_add_if_absent_one(perf_counter() - begun, 1, added, None)
        except Exception:
            self._complain("add_if_absent_one")
        return added
