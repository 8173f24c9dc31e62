"""Both forms of the table against a dict of positions, with time moving both ways (R1 to R6, R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solus_core.model import DeDuperConfig
from solus_memory import numpy_table
from solus_memory.dense import DenseForm
from solus_memory.numpy_table import NumpyTable
from solus_memory.sparse import SparseForm

START = 1_700_000_000_000
SHARDS, BITS, K = 40, 30, 3
Row = tuple[int, tuple[int, ...]]
Step = tuple[str, Any, float]


class Model:
    """For each position the least and the greatest expiry that the table may hold.

    They differ where a mark expired, may have been dropped since, and the clock then stepped back.
    """

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.bounds: dict[tuple[int, int], tuple[int, int]] = {}
        self.latest = 0

    def unset(self, row: Row, now: int) -> set[tuple[int, int]]:
        """The positions of the row that are certainly unset: with one, the row is absent."""
        shard, positions = row
        return {
            (shard, position)
            for position in positions
            if self.bounds.get((shard, position), (-1, -1))[1] + self.unit <= now
        }

    def present(self, row: Row, now: int) -> bool:
        """Certainly present."""
        shard, positions = row
        lows = [self.bounds.get((shard, position), (-1, -1))[0] for position in positions]
        return min(lows) >= max(now, self.latest)

    def add(self, row: Row, now: int, expires_at: int) -> None:
        shard, positions = row
        self.latest = max(self.latest, now)
        for position in set(positions):
            low, high = self.bounds.get((shard, position), (-1, -1))
            low = expires_at if low < self.latest else max(low, expires_at)
            self.bounds[shard, position] = (low, max(high, expires_at))


def check_batch(model: Model, rows: list[Row], answers: list[bool], now: int, *, wild: bool) -> None:
    won: set[Row] = set()
    covered: set[tuple[int, int]] = set()
    for row, answer in zip(rows, answers, strict=True):
        shard, positions = row
        same = (shard, tuple(sorted(set(positions))))
        if same in won or model.present(row, now):
            assert not answer, f"{row} was present at {now}"
        elif not wild and model.unset(row, now) - covered:
            assert answer, f"{row} was absent at {now}"
        if answer:
            won.add(same)
            covered |= {(shard, position) for position in positions}


def switch(table: NumpyTable, form: str) -> None:
    """Turn the table over to another form, as it does by itself when that is smaller."""
    old = table._form
    new = (
        DenseForm(old.total, old.base)
        if form == "dense"
        else SparseForm(old.total, numpy_table.slots_for(old.live(1) + 1), old.base)  # type: ignore[attr-defined]  # patched here
    )
    for flat, stamps in old.items(1):
        new.load(flat, stamps)
    table._form = new
    table._memo_now = None


@contextmanager
def small_tables() -> Iterator[None]:
    """Sparse tables of a few slots, so that they grow all the time, and a busy sweep."""
    primes = [5, 7, 11, 17, 29, 53, 97, 193, 389, 769, 1543, 3079, 6151]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_table, "slots_for", lambda n: next(p for p in primes if p * 0.8 >= n))
        patch.setattr(numpy_table, "_SWEEP", 20)
        yield


regular = st.tuples(st.integers(0, 1), st.lists(st.integers(0, 5), min_size=K, max_size=K).map(tuple))
odd = st.tuples(
    st.sampled_from([-1, 0, SHARDS - 1, SHARDS]),
    st.lists(st.sampled_from([-2, -1, 0, 1, BITS - 1, BITS]), min_size=K, max_size=K).map(tuple),
)
spread = st.tuples(st.integers(0, SHARDS - 1), st.lists(st.integers(0, BITS - 1), min_size=K, max_size=K).map(tuple))
batches = st.lists(regular, max_size=6) | st.lists(regular | odd, max_size=6) | st.lists(spread, max_size=40)
ttls = st.sampled_from([0.0, 0.3, 0.6, 1.0])
verbs = st.tuples(st.sampled_from(["absent", "add", "add_if_absent"]), batches, ttls)
single_verbs = st.tuples(st.sampled_from(["absent_one", "add_one", "add_if_absent_one"]), regular | regular | odd, ttls)
moves = st.one_of(
    st.tuples(st.just("move"), st.none(), st.sampled_from([1e-9, 0.2, 0.5, 1, 3, -1e-9, -0.1, -0.3])),
    st.tuples(st.just("edge"), st.integers(0, 30), st.sampled_from([-1, 0, 1])),
    st.tuples(st.just("brink"), st.none(), st.sampled_from([0.5, 1.0])),
    st.tuples(st.just("switch"), st.sampled_from(["dense", "sparse"]), st.just(0.0)),
)
scripts = st.lists(st.tuples(verbs | single_verbs, verbs | single_verbs, moves), max_size=25)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("expiry_seconds", [1, 864_000, 3 * 365 * 86_400])
@settings(max_examples=60, deadline=None)
@given(script=scripts)
def test_table_answers_as_a_dict_of_positions(
    tiny: Callable[..., DeDuperConfig], expiry_seconds: int, wild: bool, script: list[tuple[Step, Step, Step]]
) -> None:
    """``wild``: the clock may also go back further than the table keeps room for; then marks may last
    longer, and are still never lost."""
    expiry = expiry_seconds * 1_000
    now = START
    with small_tables():
        table = NumpyTable(tiny(SHARDS, BITS, expiry_seconds=expiry_seconds), now, lambda _needed, _held: None)
        model = Model(max(1, -(-2 * expiry // (2**32 - 1))))
        for verb, what, part in chain.from_iterable(script):
            expires_at = now + max(1, int(part * expiry))
            if verb == "move":
                by = int(part * expiry) or (1 if part > 0 else -1)
                now = now + 3 * by if wild else max(now + by, model.latest - expiry // 3)
            elif verb == "edge":
                # To the end of some mark, or a millisecond beside it, if that is ahead.
                ends = sorted(high for _, high in model.bounds.values() if high >= now)
                now = ends[what % len(ends)] + int(part) if ends else now
            elif verb == "brink":
                # So near to where the base has to move that the next add makes it move.
                now = max(now, table._form.base + (2**32 - 1) * model.unit - int(part * expiry))
            elif verb == "switch":
                switch(table, what)
            elif verb.endswith("_one"):
                one_step(table, model, verb, what, now, expires_at, wild=wild)
            else:
                batch_step(table, model, verb, what, now, expires_at, wild=wild)


def one_step(table: NumpyTable, model: Model, verb: str, row: Row, now: int, expires_at: int, *, wild: bool) -> None:
    if verb == "absent_one":
        check_batch(model, [row], [table.absent_one(*row, now)], now, wild=wild)
        return
    if verb == "add_if_absent_one":
        answer = table.add_if_absent_one(*row, now, expires_at)
        check_batch(model, [row], [answer], now, wild=wild)
    else:
        answer = True
        table.add_one(*row, now, expires_at)
    if answer:
        model.add(row, now, expires_at)


def batch_step(
    table: NumpyTable, model: Model, verb: str, batch: list[Row], now: int, expires_at: int, *, wild: bool
) -> None:
    shards = np.array([shard for shard, _ in batch], np.int64)
    positions = np.array([positions for _, positions in batch], np.int32).reshape(-1, K)
    if verb == "absent":
        answers = table.absent(shards, positions, now).tolist()
        for row, answer in zip(batch, answers, strict=True):
            check_batch(model, [row], [answer], now, wild=wild)
        return
    if verb == "add":
        table.add(shards, positions, now, expires_at)
        answers = [True] * len(batch)
    else:
        answers = table.add_if_absent(shards, positions, now, expires_at).tolist()
        check_batch(model, batch, answers, now, wild=wild)
    for row, answer in zip(batch, answers, strict=True):
        if answer:
            model.add(row, now, expires_at)


def test_beyond_the_limit_of_a_sparse_table_there_is_the_dense_one(
    tiny: Callable[..., DeDuperConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_table, "MAX_SLOTS", 5_000)
    table, rng = NumpyTable(tiny(100, 1_000), START, lambda _needed, _held: None), np.random.default_rng(1)
    shards, positions = rng.integers(0, 100, 1_500), rng.integers(0, 1_000, (1_500, 7), dtype=np.int32)
    assert table.add_if_absent(shards, positions, START, START + 1_000).sum() > 1_490
    assert isinstance(table._form, DenseForm)
    assert not table.absent(shards, positions, START + 1_000).any()
