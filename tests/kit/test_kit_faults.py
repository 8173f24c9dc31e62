"""The fault injection of the kit does what was planned, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.stores import Bools, Probes, SingleProbeStore, StoreStats
from solus_core.testing import (
    FakeClock,
    Fault,
    FaultyDataStore,
    FaultyMetaStore,
    FaultySingleProbeStore,
    Gate,
    craft,
    race,
)

DEDUPER = DeDuper(name="offers", client_id="c", config=DeDuperConfig())
ROWS = craft(DEDUPER, (1, [1]), (2, [2]), (3, [3]))
GONE = StoreError(ErrorCode.HBASE_ERROR, "gone", in_doubt=True)


class Remembers:
    """A data store that keeps the shards it was given."""

    atomicity = Atomicity.PROCESS
    layout = "some"

    def __init__(self) -> None:
        self.shards: set[int] = set()

    def check_config(self, config: DeDuperConfig) -> None:
        del config

    def absent(self, probes: Probes, now: int) -> Bools:
        del now
        return np.array([shard not in self.shards for shard in probes.shards.tolist()], np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        del now, expires_at
        self.shards |= set(probes.shards.tolist())

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = self.absent(probes, now)
        self.add(probes, now, expires_at)
        return answers

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        del deduper, now
        return StoreStats(live=len(self.shards), seen=9, total=9)

    def close(self) -> None:
        pass


class RemembersOne(Remembers):
    def absent_one(self, deduper: DeDuper, shard: int, positions: list[int], now: int) -> bool:
        del deduper, positions, now
        return shard not in self.shards

    def add_one(self, deduper: DeDuper, shard: int, positions: list[int], now: int, expires_at: int) -> None:
        del deduper, positions, now, expires_at
        self.shards.add(shard)

    def add_if_absent_one(self, deduper: DeDuper, shard: int, positions: list[int], now: int, expires_at: int) -> bool:
        answer = self.absent_one(deduper, shard, positions, now)
        self.add_one(deduper, shard, positions, now, expires_at)
        return answer


class Names:
    """A meta-store of names."""

    def __init__(self) -> None:
        self.records: dict[str, DeDuper] = {}

    def create(self, deduper: DeDuper) -> DeDuper:
        return self.records.setdefault(deduper.name, deduper)

    def get(self, name: str) -> DeDuper | None:
        return self.records.get(name)

    def set_active(self, name: str, active: bool, now: int) -> None:
        del name, active, now

    def active(self) -> list[DeDuper]:
        return list(self.records.values())

    def close(self) -> None:
        pass


def test_without_faults_calls_pass_and_are_counted() -> None:
    store = FaultyDataStore(Remembers())
    assert store.add_if_absent(ROWS, 0, 1).all()
    store.add(ROWS, 0, 1)
    assert not store.absent(ROWS, 0).any()
    assert store.stats(DEDUPER, 0).live == 3
    store.check_config(DEDUPER.config)
    store.close()
    assert store.calls == {
        "add_if_absent": 1,
        "add": 1,
        "absent": 1,
        "stats": 1,
        "check_config": 1,
        "close": 1,
    }
    assert (store.atomicity, store.layout) == (Atomicity.PROCESS, "some")
    assert not isinstance(store, SingleProbeStore)


def test_faults_are_used_up_in_order_each_by_its_own_verb() -> None:
    inner = Remembers()
    store = FaultyDataStore(inner)
    second = StoreError(ErrorCode.INTERNAL_ERROR, "second")
    store.plan(Fault("add", error=GONE), Fault("absent", error=GONE), Fault("add", error=second))
    for expected in (GONE, second):
        with pytest.raises(StoreError) as caught:
            store.add(ROWS, 0, 1)
        assert caught.value is expected
        assert not inner.shards, "the failed call was applied"
    assert [fault.verb for fault in store.pending] == ["absent"]
    store.add(ROWS, 0, 1)
    with pytest.raises(StoreError):
        store.absent(ROWS, 0)
    assert store.pending == ()
    assert store.calls["add"] == 3


def test_applied_but_reported_as_failed() -> None:
    """R23: what a caller must be told of as in doubt."""
    inner = Remembers()
    store = FaultyDataStore(inner)
    store.plan(Fault("add_if_absent", error=GONE, applied=True))
    with pytest.raises(StoreError, match="gone") as caught:
        store.add_if_absent(ROWS, 0, 1)
    assert caught.value.in_doubt
    assert inner.shards == {1, 2, 3}


@pytest.mark.parametrize("applied", [False, True])
def test_partial_batch(applied: bool) -> None:
    """R8: the first rows are done, the others aren't, or may be."""
    inner = Remembers()
    inner.shards = {1}
    store = FaultyDataStore(inner)
    store.plan(Fault("add_if_absent", rows=2, error=GONE, applied=applied))
    with pytest.raises(StoreBatchError) as caught:
        store.add_if_absent(ROWS, 0, 1)
    error = caught.value
    assert (error.code, error.message, error.__cause__) == (ErrorCode.HBASE_ERROR, "gone", GONE)
    assert error.done.tolist() == [True, True, False]
    assert error.answers.tolist() == [False, True, False]
    assert error.doubtful.tolist() == [False, False, applied]
    assert error.in_doubt is applied
    assert inner.shards == ({1, 2, 3} if applied else {1, 2})


@pytest.mark.parametrize("verb", ["absent", "add"])
def test_partial_batch_of_other_verbs(verb: str) -> None:
    """R8: without an error of its own the fault has one."""
    store = FaultyDataStore(Remembers())
    store.plan(Fault(verb, rows=1))
    call: Callable[[], object] = partial(store.absent, ROWS, 0) if verb == "absent" else partial(store.add, ROWS, 0, 1)
    with pytest.raises(StoreBatchError, match="1 of 3 rows") as caught:
        call()
    assert caught.value.done.tolist() == [True, False, False]


def test_gate_holds_one_call_until_it_is_opened() -> None:
    inner = Remembers()
    store, gate = FaultyDataStore(inner), Gate()
    store.plan(Fault("add", gate=gate))
    held = threading.Thread(target=store.add, args=(ROWS, 0, 1))
    held.start()
    assert gate.reached.wait(30)
    assert not inner.shards
    assert store.absent(ROWS, 0).all(), "another call must not be held"
    gate.open()
    held.join(30)
    assert inner.shards == {1, 2, 3}


def test_forgotten_gate_is_an_error() -> None:
    with pytest.raises(TimeoutError, match="not opened"):
        Gate().hold(timeout=0.001)


def test_single_verbs() -> None:
    inner = RemembersOne()
    store = FaultySingleProbeStore(inner)
    assert isinstance(store, SingleProbeStore)
    store.plan(Fault("add_if_absent_one", error=GONE), Fault("add_one", error=GONE), Fault("absent_one", error=GONE))
    with pytest.raises(StoreError):
        store.add_if_absent_one(DEDUPER, 5, [1], 0, 1)
    with pytest.raises(StoreError):
        store.add_one(DEDUPER, 5, [1], 0, 1)
    with pytest.raises(StoreError):
        store.absent_one(DEDUPER, 5, [1], 0)
    assert store.add_if_absent_one(DEDUPER, 5, [1], 0, 1)
    store.add_one(DEDUPER, 6, [1], 0, 1)
    assert not store.absent_one(DEDUPER, 6, [1], 0)
    with pytest.raises(TypeError, match="no single verbs"):
        FaultySingleProbeStore(Remembers())


def test_meta_store() -> None:
    store = FaultyMetaStore(Names())
    store.plan(Fault("create", error=GONE, applied=True), Fault("get", error=GONE))
    with pytest.raises(StoreError):
        store.create(DEDUPER)
    with pytest.raises(StoreError):
        store.get("offers")
    assert store.get("offers") == DEDUPER
    store.set_active("offers", True, 0)
    assert list(store.active()) == [DEDUPER]
    store.close()
    assert store.calls == {"create": 1, "get": 2, "set_active": 1, "active": 1, "close": 1}


def test_impossible_plans_are_refused() -> None:
    store = FaultyDataStore(Remembers())
    with pytest.raises(ValueError, match="'adds' is not a verb, they are absent, add"):
        store.plan(Fault("adds"))
    with pytest.raises(ValueError, match="no rows"):
        store.plan(Fault("stats", rows=1))


def test_race_answers_in_order_and_raises_what_a_call_raised() -> None:
    assert race(*(partial(int, i) for i in range(5))) == list(range(5))

    def fail() -> int:
        raise GONE

    with pytest.raises(StoreError, match="gone"):
        race(int, fail)


def test_clock_moves_by_hand() -> None:
    clock = FakeClock(1_000)
    assert (clock(), clock.advance(5), clock()) == (1_000, 1_005, 1_005)
