"""Data stores that add wrongly, each in one way; the kit must refuse every one. Run by kit_runner.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from test_kit_reference import ReferenceStore

from solus_core.model import Atomicity, DeDuper
from solus_core.stores import Bools, Probes


class AddsUp(ReferenceStore):
    """The Java library's batch add: it adds to the stored expiry."""

    def merged(self, stored: int | None, expires_at: int) -> int:
        return expires_at if stored is None else stored + expires_at


class Overwrites(ReferenceStore):
    """A later, shorter TTL cuts an earlier one."""

    def merged(self, stored: int | None, expires_at: int) -> int:
        del stored
        return expires_at


class KeepsFirst(ReferenceStore):
    """A later, longer TTL does not extend."""

    def merged(self, stored: int | None, expires_at: int) -> int:
        return expires_at if stored is None else stored


class OverwritesInAddIfAbsent(ReferenceStore):
    """add keeps the later expiry, the add inside add_if_absent does not."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = np.zeros(len(probes), np.bool_)
        with self.held() as data:
            for i, row in enumerate(self.rows(probes)):
                answers[i] = self.row_absent(data, row, now)
                if answers[i]:
                    data.update(dict.fromkeys(row, expires_at))
        return answers


class ExtendsPresent(ReferenceStore):
    """An add_if_absent that answers False extends the TTL all the same."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = super().add_if_absent(probes, now, expires_at)
        self.add(probes, now, expires_at)
        return answers


class DropsSecondPosition(ReferenceStore):
    """One position of each row is not written."""

    def row_add(self, data: dict[Any, Any], keys: Sequence[Any], expires_at: int) -> None:
        super().row_add(data, [keys[0], *keys[2:]], expires_at)

    def row_absent(self, data: dict[Any, Any], keys: Sequence[Any], now: int) -> bool:
        return super().row_absent(data, [keys[0], *keys[2:]], now)


class DropsSecondRow(ReferenceStore):
    """The second row of a batch is answered, and not written."""

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        super().add(probes.rows(np.flatnonzero(np.arange(len(probes)) != 1)), now, expires_at)


class FirstPositionOnly(ReferenceStore):
    """An entity is held for present once its first position is set."""

    def row_absent(self, data: dict[Any, Any], keys: Sequence[Any], now: int) -> bool:
        return super().row_absent(data, keys[:1], now)


class ChecksThenAdds(ReferenceStore):
    """Not atomic: another caller gets in between the check and the add."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = np.zeros(len(probes), np.bool_)
        for i, row in enumerate(self.rows(probes)):
            with self.held() as data:
                answers[i] = self.row_absent(data, row, now)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.000_1)
            if answers[i]:
                with self.held() as data:
                    self.row_add(data, row, expires_at)
        return answers


class SinglesNotAtomic(ReferenceStore):
    """The batch verb is atomic, the single verb is not."""

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        answer = self.absent_one(deduper, shard, positions, now)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.000_1)
        if answer:
            self.add_one(deduper, shard, positions, now, expires_at)
        return answer


class SinglesLockedApart(SinglesNotAtomic):
    """Single calls are atomic among themselves, and so are batches; the two don't know of each other."""

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        with self.__dict__.setdefault("own_lock", threading.RLock()):
            return super().add_if_absent_one(deduper, shard, positions, now, expires_at)


class LocksEachView(ReferenceStore):
    """Atomic within one view; two views of one state don't know of each other."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        with self.__dict__.setdefault("own_lock", threading.RLock()):
            return ChecksThenAdds.add_if_absent(self, probes, now, expires_at)  # type: ignore[arg-type]  # borrowed


class LosesUpdates(ReferenceStore):
    """add reads, lets go, and writes: of two racing adds the shorter can come last."""

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        del now
        for row in self.rows(probes):
            with self.held() as data:
                merged = {key: self.merged(data.get(key), expires_at) for key in row}
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.000_1)
            with self.held() as data:
                data.update(merged)


class Rebuilds(ReferenceStore):
    """Grows by filling a new table, while readers look into it already."""

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        with self.held() as data:
            old = dict(data)
            data.clear()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.000_1)
        with self.held() as data:
            data.update(old)
        super().add(probes, now, expires_at)


class MakesTablesTwice(ReferenceStore):
    """Two threads that use a de-duper first each make a table for it, and one of them is lost."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        made = self.__dict__.setdefault("made", set())
        name = probes.deduper.name
        new = name not in made
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.000_1)
        with self.held() as data:
            for key in [key for key in data if new and key[2] == name]:
                del data[key]
            made.add(name)
            return super().add_if_absent(probes, now, expires_at)


class ClaimsCluster(ReferenceStore):
    """Declares one winner among processes, and has its state in one process."""

    atomicity = Atomicity.CLUSTER


class PlainNumber(ReferenceStore):
    """Declares its atomicity as a number of its own."""

    atomicity = 1  # type: ignore[assignment]  # the fault


class UnorderedAnswers(ReferenceStore):
    """Answers come grouped by shard instead of in row order."""

    def absent(self, probes: Probes, now: int) -> Bools:
        return super().absent(probes.rows(np.argsort(probes.shards, kind="stable")), now)


class UnorderedAdds(ReferenceStore):
    """The same in add_if_absent."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        return super().add_if_absent(probes.rows(np.argsort(probes.shards, kind="stable")), now, expires_at)


class LastRepeatWins(ReferenceStore):
    """Of rows that repeat inside a batch the last one gets True."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        return super().add_if_absent(probes.rows(slice(None, None, -1)), now, expires_at)[::-1]


class RepeatsWin(ReferenceStore):
    """Rows that repeat inside a batch all get True: checked first, added afterwards."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        with self.held():
            answers = self.absent(probes, now)
            self.add(probes.rows(np.flatnonzero(answers)), now, expires_at)
        return answers


class RepeatsByBytes(ReferenceStore):
    """Repeats inside a batch are found by equal rows, not by equal sets of positions."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        seen = set()
        with self.held():
            answers = self.absent(probes, now)
            for i, row in enumerate(self.rows(probes)):
                answers[i] &= tuple(row) not in seen
                seen.add(tuple(row))
            self.add(probes.rows(np.flatnonzero(answers)), now, expires_at)
        return answers
