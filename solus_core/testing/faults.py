"""Stores that fail as planned: wrap a real one, say what happens to which call, count the calls.

    store = FaultyDataStore(real)
    store.plan(Fault("add_if_absent", error=StoreError(ErrorCode.HBASE_ERROR, "gone", in_doubt=True), applied=True))

The next ``add_if_absent`` is done and reported as failed. Faults of one verb are used up in the order they were
planned, one a call; a call without a fault goes through. ``Fault(..., gate=Gate())`` holds a call, without any
sleeping, until the test opens the gate.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar, final

import numpy as np
from attrs import frozen

from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.stores import Bools, DataStore, MetaStore, Probes, SingleProbeStore, StoreStats

T = TypeVar("T")

DATA_VERBS: Final = ("absent", "add", "add_if_absent", "stats", "check_config", "close")
SINGLE_VERBS: Final = ("absent_one", "add_one", "add_if_absent_one")
META_VERBS: Final = ("create", "get", "set_active", "active", "close")


@final
class Gate:
    """Holds a call until it is opened. ``reached`` is set when a call has come to it."""

    __slots__ = ("_opened", "reached")

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        """Let the held call, and every later one, pass."""
        self._opened.set()

    def hold(self, timeout: float = 60.0) -> None:
        """Wait here for :meth:`open`; forgotten gates end in an error, not in a test that hangs."""
        self.reached.set()
        if not self._opened.wait(timeout):
            raise TimeoutError(f"a gate was not opened in {timeout:g} s")


@final
@frozen
class Fault:
    """What happens to one call of ``verb``.

    ``gate``: the call waits there first. ``error``: it is raised; without an error the call then goes on.
    ``rows``: that many first rows of a batch are done, then a ``StoreBatchError`` with the ``error``'s code and
    text (or of our own) is raised, so it needs no ``error``. ``applied``: what is reported as failed was
    written all the same; for a batch with ``rows`` the other rows are then reported as doubtful.
    """

    verb: str
    error: Exception | None = None
    gate: Gate | None = None
    rows: int | None = None
    applied: bool = False


class _Plan:
    """The planned faults of one store and the count of its calls; safe to use from many threads."""

    def __init__(self, verbs: Sequence[str]) -> None:
        self._verbs = verbs
        self._faults: dict[str, deque[Fault]] = {verb: deque() for verb in verbs}
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    def plan(self, *faults: Fault) -> None:
        """Add faults, each for one later call of its verb."""
        for fault in faults:
            if fault.verb not in self._faults:
                raise ValueError(f"{fault.verb!r} is not a verb, they are {', '.join(self._verbs)}")
            if fault.rows is not None and fault.verb not in ("absent", "add", "add_if_absent"):
                raise ValueError(f"{fault.verb!r} has no rows")
            with self._lock:
                self._faults[fault.verb].append(fault)

    @property
    def pending(self) -> tuple[Fault, ...]:
        """Planned faults that no call has met yet; a test may want to see none left."""
        with self._lock:
            return tuple(fault for faults in self._faults.values() for fault in faults)

    def _next(self, verb: str) -> Fault | None:
        with self._lock:
            self.calls[verb] += 1
            fault = self._faults[verb].popleft() if self._faults[verb] else None
        if fault is not None and fault.gate is not None:
            fault.gate.hold()
        return fault

    def _call(self, verb: str, call: Callable[[], T]) -> T:
        fault = self._next(verb)
        if fault is None or fault.error is None:
            return call()
        if fault.applied:
            call()
        raise fault.error


class FaultyDataStore(_Plan):
    """A data store that does what ``inner`` does, but for the planned faults. ``calls`` counts by verb.

    It has the batch verbs only, so an engine uses them for single entities as well; for a store with single
    verbs see :class:`FaultySingleProbeStore`.
    """

    def __init__(self, inner: DataStore, verbs: Sequence[str] = DATA_VERBS) -> None:
        super().__init__(verbs)
        self._inner = inner

    @property
    def atomicity(self) -> Atomicity:
        return self._inner.atomicity

    @property
    def layout(self) -> str:
        return self._inner.layout

    def check_config(self, config: DeDuperConfig) -> None:
        self._call("check_config", lambda: self._inner.check_config(config))

    def absent(self, probes: Probes, now: int) -> Bools:
        return self._batch("absent", probes, lambda rows: self._inner.absent(rows, now))

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        def add(rows: Probes) -> Bools:
            self._inner.add(rows, now, expires_at)
            return np.zeros(len(rows), np.bool_)

        self._batch("add", probes, add)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        return self._batch("add_if_absent", probes, lambda rows: self._inner.add_if_absent(rows, now, expires_at))

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        return self._call("stats", lambda: self._inner.stats(deduper, now))

    def close(self) -> None:
        self._call("close", self._inner.close)

    def _batch(self, verb: str, probes: Probes, call: Callable[[Probes], Bools]) -> Bools:
        fault = self._next(verb)
        if fault is None or (fault.error is None and fault.rows is None):
            return call(probes)
        if fault.rows is None:
            assert fault.error is not None
            if fault.applied:
                call(probes)
            raise fault.error
        n, rows = len(probes), min(fault.rows, len(probes))
        done = np.arange(n) < rows
        answers = np.zeros(n, np.bool_)
        answers[:rows] = call(probes.rows(slice(0, rows)))
        if fault.applied:
            call(probes.rows(slice(rows, n)))
        error = fault.error or StoreError(ErrorCode.INTERNAL_ERROR, f"planned fault after {rows} of {n} rows")
        raise StoreBatchError(
            getattr(error, "code", ErrorCode.INTERNAL_ERROR),
            getattr(error, "message", str(error)),
            done=done,
            answers=answers,
            doubtful=~done if fault.applied else np.zeros(n, np.bool_),
        ) from fault.error


@final
class FaultySingleProbeStore(FaultyDataStore):
    """The same around a store with single verbs, whose names are ``absent_one`` and so on."""

    def __init__(self, inner: DataStore) -> None:
        if not isinstance(inner, SingleProbeStore):
            raise TypeError(f"{type(inner).__name__} has no single verbs: use FaultyDataStore")
        super().__init__(inner, (*DATA_VERBS, *SINGLE_VERBS))
        self._single: SingleProbeStore = inner

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        return self._call("absent_one", lambda: self._single.absent_one(deduper, shard, positions, now))

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        self._call("add_one", lambda: self._single.add_one(deduper, shard, positions, now, expires_at))

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        return self._call(
            "add_if_absent_one",
            lambda: self._single.add_if_absent_one(deduper, shard, positions, now, expires_at),
        )


@final
class FaultyMetaStore(_Plan):
    """A meta-store that does what ``inner`` does, but for the planned faults. ``calls`` counts by verb."""

    def __init__(self, inner: MetaStore) -> None:
        super().__init__(META_VERBS)
        self._inner = inner

    def create(self, deduper: DeDuper) -> DeDuper:
        return self._call("create", lambda: self._inner.create(deduper))

    def get(self, name: str) -> DeDuper | None:
        return self._call("get", lambda: self._inner.get(name))

    def set_active(self, name: str, active: bool, now: int) -> None:
        self._call("set_active", lambda: self._inner.set_active(name, active, now))

    def active(self) -> Iterable[DeDuper]:
        return self._call("active", self._inner.active)

    def close(self) -> None:
        self._call("close", self._inner.close)
