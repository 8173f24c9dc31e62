"""A store against its model: a dict of positions, driven by random programs with time moving forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import numpy as np
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from solus_core.model import DeDuper
from solus_core.stores import Bools, DataStore, SingleProbeStore
from solus_core.testing.lab import craft, singles

Row = tuple[int, Sequence[int]]

# So small that most entities share positions: that is where stores go wrong.
_SHARDS: Final = (-1, 0, 1)
_POSITIONS: Final = (-2, -1, 0, 1, 2, 3, 11, 21)
_TTLS: Final = (1, 2, 10, 999, 60_000, 864_000_000)
_ADVANCES: Final = (0, 1, 1, 9, 1_000)

# Mostly entities that come again, or the same set otherwise written, or a part of another.
_OFTEN: Final[Sequence[Row]] = (
    (0, (1, 2, 3)),
    (0, (3, 1, 2)),
    (0, (1, 2, 2, 3)),
    (1, (1, 2, 3)),
    (-1, (1, 2, 3)),
    (0, (2, 3)),
    (0, (3, 11, -1)),
)
_seldom: Final = st.tuples(
    st.sampled_from(_SHARDS), st.lists(st.sampled_from(_POSITIONS), min_size=1, max_size=7).map(tuple)
)
_rows: Final = st.lists(st.sampled_from(_OFTEN) | st.sampled_from(_OFTEN) | _seldom, max_size=8)


@final
class PositionModel:
    """What a right store would hold: for each de-duper, shard and position the expiry time."""

    def __init__(self) -> None:
        self._expiries: dict[tuple[str, int, int], int] = {}

    def absent(self, name: str, row: Row, now: int) -> bool:
        """Is some position of the row unset, or its expiry before ``now`` (R1)?"""
        shard, positions = row
        return any(self._expiries.get((name, shard, position), now - 1) < now for position in positions)

    def add(self, name: str, row: Row, expires_at: int) -> None:
        """Raise every position of the row to ``expires_at`` (R4)."""
        shard, positions = row
        for position in positions:
            key = (name, shard, position)
            self._expiries[key] = max(self._expiries.get(key, expires_at), expires_at)

    def add_if_absent(self, name: str, rows: Sequence[Row], now: int, expires_at: int, answers: Bools) -> None:
        """Follow a batch that gave ``answers``; an answer that no right store could give is an AssertionError.

        A row that was absent before the batch and is covered by other rows of it may be either (R6), but a
        row with the same set of positions as an earlier one may not be True.
        """
        absent_before = [self.absent(name, row, now) for row in rows]
        sets_seen = set()
        for i, (row, answer) in enumerate(zip(rows, answers.tolist(), strict=True)):
            as_set = (row[0], frozenset(row[1]))
            if self.absent(name, row, now):
                assert answer, f"R5: row {i} {row} was absent and has the answer False (a lost event)"
            elif not absent_before[i]:
                assert not answer, f"R5: row {i} {row} was present and has the answer True"
            elif as_set in sets_seen:
                assert not answer, f"R6: row {i} {row} repeats an earlier row of its batch, and both are True"
            sets_seen.add(as_set)
            if answer:
                self.add(name, row, expires_at)

    def expiries(self) -> list[int]:
        """All expiry times, in order, each once."""
        return sorted(set(self._expiries.values()))


def check_against_model(
    store: DataStore, new_deduper: Callable[[], DeDuper], start: int, *, examples: int, steps: int
) -> None:
    """Drive ``store`` with random programs (hypothesis); each program has two new de-dupers of its own."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.model = PositionModel()
            self.dedupers = (new_deduper(), new_deduper())
            self.now = start

        @rule(by=st.sampled_from(_ADVANCES))
        def advance(self, by: int) -> None:
            self.now += by

        @rule(data=st.data(), after=st.booleans())
        def advance_to_an_expiry(self, data: st.DataObject, after: bool) -> None:
            ahead = [at + after for at in self.model.expiries() if at + after >= self.now]
            if ahead:
                # Seldom the ten days: after those little of the program is left alive.
                self.now = data.draw(st.sampled_from(ahead[:3]))
                note(f"now is {self.now - start:+}")

        @rule(which=st.sampled_from((0, 1)), rows=_rows, ttl=st.sampled_from(_TTLS), single=st.booleans())
        def add(self, which: int, rows: list[Row], ttl: int, single: bool) -> None:
            deduper = self.dedupers[which]
            probes = craft(deduper, *rows)
            if single and isinstance(store, SingleProbeStore):
                singles(store, "add", probes, self.now, self.now + ttl)
            else:
                store.add(probes, self.now, self.now + ttl)
            for row in rows:
                self.model.add(deduper.name, row, self.now + ttl)

        @rule(which=st.sampled_from((0, 1)), rows=_rows, ttl=st.sampled_from(_TTLS), single=st.booleans())
        def add_if_absent(self, which: int, rows: list[Row], ttl: int, single: bool) -> None:
            deduper = self.dedupers[which]
            if single and isinstance(store, SingleProbeStore):
                for row in rows:
                    answer = singles(store, "add_if_absent", craft(deduper, row), self.now, self.now + ttl)
                    self.model.add_if_absent(deduper.name, [row], self.now, self.now + ttl, answer)
            else:
                answers = store.add_if_absent(craft(deduper, *rows), self.now, self.now + ttl)
                self.model.add_if_absent(deduper.name, rows, self.now, self.now + ttl, answers)

        @rule(which=st.sampled_from((0, 1)), rows=_rows, single=st.booleans())
        def absent(self, which: int, rows: list[Row], single: bool) -> None:
            self.check(which, rows, single)

        @rule(which=st.sampled_from((0, 1)), single=st.booleans())
        def absent_one_position_each(self, which: int, single: bool) -> None:
            # The whole small world, position by position: a wrong one can't hide behind its row.
            self.check(which, [(shard, [position]) for shard in _SHARDS for position in _POSITIONS], single)

        def check(self, which: int, rows: list[Row], single: bool) -> None:
            deduper = self.dedupers[which]
            probes = craft(deduper, *rows)
            if single and isinstance(store, SingleProbeStore):
                answers = singles(store, "absent", probes, self.now)
            else:
                answers = store.absent(probes, self.now)
            expected = [self.model.absent(deduper.name, row, self.now) for row in rows]
            assert np.asarray(answers).tolist() == expected, f"R1: absent of {rows} at {self.now - start:+}"

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,  # a remote store is as slow as it is
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
