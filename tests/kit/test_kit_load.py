"""A load finds a store that lost something or made something up while it failed, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.stores import Bools, Probes, StoreStats
from solus_core.testing import Fault, FaultySingleProbeStore, Load

OF = DeDuper(name="offers", client_id="c", config=DeDuperConfig())


class Remembers:
    """A right store: what was added is present for ever."""

    atomicity = Atomicity.PROCESS
    layout = ""

    def __init__(self) -> None:
        self.held: set[tuple[int, int]] = set()

    def check_config(self, config: DeDuperConfig) -> None:
        pass

    def absent(self, probes: Probes, now: int) -> Bools:
        return np.array([self.absent_one(OF, *row, now) for row in rows_of(probes)], np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        for row in rows_of(probes):
            self.add_one(OF, *row, now, expires_at)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        return np.array([self.add_if_absent_one(OF, *row, now, expires_at) for row in rows_of(probes)], np.bool_)

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        return not {(shard, at) for at in positions} <= self.held

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        self.held |= {(shard, at) for at in positions}

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        absent = self.absent_one(deduper, shard, positions, now)
        self.add_one(deduper, shard, positions, now, expires_at)
        return absent

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        raise NotImplementedError

    def close(self) -> None:
        pass


def rows_of(probes: Probes) -> list[tuple[int, list[int]]]:
    return list(zip(probes.shards.tolist(), probes.positions.tolist(), strict=True))


def under_load(store: Remembers, *faults: Fault) -> Load:
    faulty = FaultySingleProbeStore(store)
    faulty.plan(*faults)
    with Load(faulty, OF, 0, 1) as load:
        load.wait_for(50)
        if faults:
            load.wait_for_error()
    load.check()
    return load


@pytest.mark.parametrize("verb", ["absent_one", "add_one", "add_if_absent_one", "add"])
@pytest.mark.parametrize("applied", [False, True])
def test_errors_are_no_fault_of_the_answers(verb: str, applied: bool) -> None:
    """R23: also an add_if_absent that was applied and says that it may have been."""
    gone = StoreError(ErrorCode.HBASE_ERROR, "gone", in_doubt=applied)
    load = under_load(Remembers(), *[Fault(verb, error=gone, applied=applied)] * 3)
    assert len(load.errors) == 3
    assert len(set(load.added)) == len(load.added) >= 50


def test_an_error_that_should_have_said_in_doubt_is_found() -> None:
    """R23."""
    silent = StoreError(ErrorCode.HBASE_ERROR, "gone")
    with pytest.raises(AssertionError, match="was new and is said to be present"):
        under_load(Remembers(), Fault("add_if_absent_one", error=silent, applied=True))


class Forgets(Remembers):
    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        if len(self.held) < 20:
            super().add_one(deduper, shard, positions, now, expires_at)


class ForgetsLater(Remembers):
    def absent(self, probes: Probes, now: int) -> Bools:
        return np.array([i == 3 for i in range(len(probes))], np.bool_)


class Breaks(Remembers):
    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        raise RuntimeError("bug")


@pytest.mark.parametrize(
    ("store", "says"),
    [
        (Forgets(), "was added and is said to be absent"),
        (ForgetsLater(), r"1 of \d+ are said to be absent"),
        (Breaks(), "bug"),
    ],
)
def test_what_is_wrong_is_found(store: Remembers, says: str) -> None:
    """R2."""
    with pytest.raises(AssertionError, match=says):
        under_load(store)
