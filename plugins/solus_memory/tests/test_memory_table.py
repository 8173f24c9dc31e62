"""The table, case by case: time, forms, room, interrupts."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from solus_core.errors import ErrorCode, InvalidArgumentError, StoreError
from solus_core.model import DeDuperConfig
from solus_memory import figures, numpy_table
from solus_memory.dense import DenseForm
from solus_memory.numpy_table import NumpyTable
from solus_memory.sparse import SparseForm, slots_for
from solus_memory.stamps import MAX_STAMP, Scale

NOW = 1_700_000_000_000
DAY = 86_400_000
Tiny = Callable[..., DeDuperConfig]


def table_of(config: DeDuperConfig, form: str = "sparse") -> NumpyTable:
    table = NumpyTable(config, NOW, lambda _needed, _held: None)
    if form == "dense":
        table._form = DenseForm(table._total, table._form.base)
    return table


def random_rows(rng: np.random.Generator, config: DeDuperConfig, n: int, k: int = 7) -> tuple[np.ndarray, np.ndarray]:
    return (
        rng.integers(0, config.shards, n, dtype=np.int64),
        rng.integers(0, config.bits_per_shard, (n, k), dtype=np.int32),
    )


both_forms = pytest.mark.parametrize("form", ["sparse", "dense"])


@both_forms
def test_boundary_is_exact_to_the_millisecond_r1(tiny: Tiny, form: str) -> None:
    table = table_of(tiny(100, 1_000), form)
    table.add_one(3, [1, 2, 2], NOW, NOW + 1_000)
    assert not table.absent_one(3, [1, 2, 2], NOW + 1_000)
    assert table.absent_one(3, [1, 2, 2], NOW + 1_001)


@pytest.mark.parametrize(
    ("expiry_seconds", "unit"), [(1, 1), (864_000, 1), (2_147_483, 1), (2_147_484, 2), (3 * 365 * 86_400, 45)]
)
def test_unit_is_a_millisecond_while_twice_the_expiry_fits(expiry_seconds: int, unit: int) -> None:
    scale = Scale.of(expiry_seconds)
    assert scale.unit == unit
    assert scale.count(scale.base(NOW), NOW + expiry_seconds * 1_000) < MAX_STAMP
    # A step back of a third of the expiry stays in range.
    assert scale.count(scale.base(NOW), NOW - expiry_seconds * 333) >= 1


@both_forms
def test_a_coarse_unit_never_shortens_and_stays_below_one_unit_late(tiny: Tiny, form: str) -> None:
    table = table_of(tiny(100, 1_000, expiry_seconds=3 * 365 * 86_400), form)
    for ttl in range(1, 100):
        table.add_one(ttl, [1], NOW, NOW + ttl)
        assert not table.absent_one(ttl, [1], NOW + ttl)
        assert table.absent_one(ttl, [1], NOW + ttl + 45)


@both_forms
@pytest.mark.parametrize("batch", [False, True])
def test_a_shorter_ttl_never_shortens_another_entity_r4(tiny: Tiny, form: str, batch: bool) -> None:
    table = table_of(tiny(100, 1_000), form)
    table.add_one(3, [1, 2, 3], NOW, NOW + DAY)
    if batch:
        assert table.add_if_absent(np.array([3]), np.array([[3, 4, 5]], np.int32), NOW, NOW + 10).all()
    else:
        assert table.add_if_absent_one(3, [3, 4, 5], NOW, NOW + 10)
    assert not table.absent_one(3, [1, 2, 3], NOW + DAY)
    assert table.absent_one(3, [3, 4, 5], NOW + 11)


@both_forms
def test_base_moves_without_touching_live_marks(tiny: Tiny, form: str) -> None:
    """A mark every five days for a year, each alive for ten: the base moves many times."""
    table = table_of(tiny(100, 1_000), form)
    bases = set()
    for i in range(73):
        now = NOW + i * 5 * DAY
        assert table.add_if_absent_one(i, [1, 2], now, now + 10 * DAY)
        bases.add(table._form.base)
        for age, alive in ((1, True), (2, True), (3, False)):
            if i >= age:
                assert table.absent_one(i - age, [1, 2], now) is not alive
    assert len(bases) > 10


def test_an_older_now_after_the_base_moved_r24(tiny: Tiny) -> None:
    """Two threads take their ``now`` before the lock: the later one may come first and move the base."""
    table = table_of(tiny(100, 1_000), "dense")
    brink = table._form.base + MAX_STAMP
    older, later = brink - 10 * DAY, brink - 10 * DAY + 5
    assert table.add_if_absent_one(1, [1], older, brink)
    table.add(np.array([2]), np.array([[1]], np.int32), later, brink + 5)
    assert table._form.base > NOW - 15 * DAY
    assert not table.add_if_absent_one(1, [1], older, brink)
    assert table.add_if_absent_one(3, [1], older, brink)
    assert not table.absent_one(3, [1], brink)


@both_forms
def test_a_clock_far_back_never_loses_a_mark_r2(tiny: Tiny, form: str) -> None:
    table = table_of(tiny(100, 1_000), form)
    table.add_one(1, [1, 2], NOW, NOW + DAY)
    past = NOW - 1_000 * DAY
    assert not table.absent_one(1, [1, 2], past)
    assert table.add_if_absent_one(2, [1, 2], past, past + DAY)
    assert not table.add_if_absent_one(2, [1, 2], past, past + DAY)
    assert not table.absent(np.array([1, 2]), np.array([[1, 2], [1, 2]], np.int32), past + DAY).any()
    assert not table.absent_one(1, [1, 2], NOW + DAY)


@both_forms
def test_everything_expires_in_the_end(tiny: Tiny, form: str) -> None:
    table = table_of(tiny(100, 1_000), form)
    table.add_one(1, [1, 2], NOW, NOW + DAY)
    far = NOW + 36_500 * DAY
    assert table.count(far) == (0, 100_000)
    assert table.absent(np.array([1]), np.array([[1, 2]], np.int32), far).all()
    assert table.add_if_absent(np.array([1]), np.array([[1, 2]], np.int32), far, far + DAY).all()
    assert not table.absent_one(1, [1, 2], far + DAY)


def test_an_expiry_beyond_the_de_dupers_is_refused_not_cut(tiny: Tiny) -> None:
    table = table_of(tiny(100, 1_000))
    with pytest.raises(InvalidArgumentError, match="864000000"):
        table.add_one(1, [1], NOW, NOW + 100 * DAY)
    assert table.absent_one(1, [1], NOW)


@both_forms
def test_negative_numbers_are_keys_of_their_own(tiny: Tiny, form: str) -> None:
    """The Java library's arithmetic yields one in about 4e9; -1 must not be the last position or shard."""
    config = tiny(100, 1_000)
    for shard, position in ((-1, 5), (5, -1), (-3, -3), (99, 1_000), (100, 0)):
        table = table_of(config, form)
        assert table.add_if_absent_one(shard, [position, 7], NOW, NOW + 100)
        assert not table.add_if_absent(np.array([shard]), np.array([[7, position]], np.int32), NOW, NOW + 1).any()
        neighbours = [(s, p) for s in (0, 4, 5, 6, 98, 99) for p in (0, 5, 999)]
        shards = np.array([s for s, _ in neighbours])
        positions = np.array([[p, p] for _, p in neighbours], np.int32)
        assert table.absent(shards, positions, NOW).all()
        table.add_one(shard, [position, 7], NOW, NOW + 50)
        assert not table.absent_one(shard, [position, 7], NOW + 100)
        assert table.absent_one(shard, [position, 7], NOW + 101)


def test_expired_negative_numbers_are_dropped(tiny: Tiny) -> None:
    table = table_of(tiny(100, 1_000))
    for i in range(5_000):
        table.add_one(-1 - i, [1], NOW + i, NOW + i + 10)
    assert len(table._odd) <= 1_001


@both_forms
def test_repeats_inside_a_row_and_a_batch_r3_r6(tiny: Tiny, form: str) -> None:
    table = table_of(tiny(100, 1_000), form)
    shards = np.array([1, 1, 1, 2, 1, 1])
    positions = np.array([[5, 5, 9], [9, 5, 5], [9, 9, 5], [5, 5, 9], [5, 9, 8], [5, 8, 9]], np.int32)
    answers = table.add_if_absent(shards, positions, NOW, NOW + 10)
    assert answers.tolist() == [True, False, False, True, True, False]
    assert not table.add_if_absent(shards, positions, NOW, NOW + 10).any()


def test_a_batch_of_one_entity_only_r6(tiny: Tiny) -> None:
    table = table_of(tiny(100, 1_000))
    shards, positions = np.full(5_000, 3), np.tile(np.array([1, 2, 3], np.int32), (5_000, 1))
    assert table.add_if_absent(shards, positions, NOW, NOW + 10).nonzero()[0].tolist() == [0]


def test_empty_batches_r7(tiny: Tiny) -> None:
    table = table_of(tiny(100, 1_000))
    shards, positions = np.empty(0, np.int64), np.empty((0, 7), np.int32)
    assert table.absent(shards, positions, NOW).tolist() == []
    assert table.add_if_absent(shards, positions, NOW, NOW + 1).tolist() == []
    table.add(shards, positions, NOW, NOW + 1)


# ---- forms and room


def test_the_smaller_form_by_itself_and_back_again(tiny: Tiny) -> None:
    """Sparse while little is set, dense when that is smaller, sparse once most has expired (row 11)."""
    config = tiny(1_000, 1_000)
    table, rng = table_of(config), np.random.default_rng(1)
    rows = random_rows(rng, config, 200_000)
    assert table.add_if_absent(rows[0][:2_000], rows[1][:2_000], NOW, NOW + DAY).all()
    assert isinstance(table._form, SparseForm)
    assert table.nbytes < 2_000 * 120
    table.add(*rows, NOW, NOW + DAY)
    assert isinstance(table._form, DenseForm)
    assert table.nbytes == 4_000_000
    assert not table.absent(*rows, NOW + DAY).any()
    later = NOW + DAY + 1
    for start in range(0, 100_000, 1_000):
        part = slice(start, start + 1_000)
        live = table.count(later)[0]
        table.add_if_absent(rows[0][part], rows[1][part], later, later + DAY)
        if isinstance(table._form, SparseForm):
            break
    assert isinstance(table._form, SparseForm), f"{live} live, still dense"
    assert not table.absent(rows[0][:start], rows[1][:start], later + DAY).any()


def test_a_quiet_table_is_looked_through_once_an_expiry(tiny: Tiny) -> None:
    config = tiny(1_000, 1_000)
    table = table_of(config, "dense")
    rows = random_rows(np.random.default_rng(1), config, 3_000)
    table.add(*rows, NOW, NOW + DAY)
    table.add(*rows, NOW + 11 * DAY, NOW + 12 * DAY)
    assert isinstance(table._form, SparseForm)
    assert not table.absent(*rows, NOW + 12 * DAY).any()


def test_room_for_expired_marks_that_are_set_again(tiny: Tiny) -> None:
    """A table at its limit, built anew for a batch of which it holds nearly all, expired."""
    config = tiny(1_000_000, 1_000)
    table, rows = table_of(config), random_rows(np.random.default_rng(1), config, 1_000)
    table.add(*rows, NOW, NOW + 10)
    assert isinstance(table._form, SparseForm)
    table._form.used = int(table._form.slots * 0.8)
    rows[1][0] = 5
    later = NOW + 20
    assert table.add_if_absent(*rows, later, later + 10).all()
    assert isinstance(table._form, SparseForm)
    assert table._form.used <= table._form.slots * 0.8
    assert not table.absent(*rows, later + 10).any()


def test_a_form_left_behind_is_not_written(tiny: Tiny) -> None:
    """The calls of one millisecond share what they found; a new form ends that."""
    table = table_of(tiny(1_000, 1_000), "dense")
    assert table.add_if_absent_one(1, [1], NOW, NOW + 10)
    table._rebuild(0, 1)
    assert isinstance(table._form, SparseForm)
    assert table.add_if_absent_one(2, [1], NOW, NOW + 10)
    assert not table.add_if_absent_one(1, [1], NOW, NOW + 10)
    assert not table.absent_one(2, [1], NOW)


def test_storage_stops_growing_once_adds_and_expiries_balance(tiny: Tiny) -> None:
    config = tiny(1_000_000, 1_000, expiry_seconds=100)
    table, rng, sizes = table_of(config), np.random.default_rng(1), []
    for i in range(120):
        now = NOW + i * 10_000
        table.add_if_absent(*random_rows(rng, config, 500), now, now + 100_000)
        sizes.append(table.nbytes)
    assert max(sizes[20:]) <= 1.02 * max(sizes[:20])
    assert max(sizes) < 11 * 500 * 7 * 30


@pytest.mark.parametrize(("shards", "slot"), [(4_294_967, 8), (150_000_000, 12)])
def test_keys_of_four_bytes_where_they_suffice(tiny: Tiny, shards: int, slot: int) -> None:
    config = tiny(shards, 1_000)
    table = table_of(config)
    rows = random_rows(np.random.default_rng(1), config, 20_000)
    rows[0][0], rows[1][0] = shards - 1, 999
    assert table.add_if_absent(*rows, NOW, NOW + 1).all()
    assert not table.absent(*rows, NOW).any()
    assert table.absent(*random_rows(np.random.default_rng(2), config, 20_000), NOW).all()
    assert table._form.nbytes / slot <= slots_for(int(20_000 * 7 * 1.4)) * 1.3


@both_forms
def test_no_room_says_how_much_and_changes_nothing(tiny: Tiny, form: str) -> None:
    config = tiny(1_000_000, 1_000)
    limit = [10**12]

    def reserve(needed: int, _held: int) -> None:
        if needed > limit[0]:
            raise StoreError(ErrorCode.INTERNAL_ERROR, f"{needed} of {limit[0]}")

    table, rng = NumpyTable(config, NOW, reserve), np.random.default_rng(1)
    if form == "dense":
        limit[0] = 3 * 10**9
        with pytest.raises(StoreError, match="4000000000 of 3000000000"):
            table._rebuild(10**9, 1)
        return
    first, second = random_rows(rng, config, 1_000), random_rows(rng, config, 1_000)
    table.add(*first, NOW, NOW + DAY)
    limit[0], size = 1_000, table.nbytes
    with pytest.raises(StoreError, match="of 1000"):
        table.add_if_absent(*second, NOW, NOW + DAY)
    assert isinstance(table._form, SparseForm)
    left = int(table._form.slots * 0.8) - table._form.used
    for position in range(left):
        table.add_if_absent_one(500_000 + position, [position % 1_000], NOW, NOW + DAY)
    with pytest.raises(StoreError, match="of 1000"):
        table.add_if_absent_one(1, [1], NOW, NOW + DAY)
    assert table.absent(*second, NOW).all()
    assert not table.absent(*first, NOW).any()
    assert table.nbytes == size


def test_memory_refused_by_the_system_is_a_store_error(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    table, rows = table_of(tiny(1_000, 1_000)), np.arange(1_000)
    monkeypatch.setattr(numpy_table, "SparseForm", refuse)
    with pytest.raises(StoreError, match="refused") as caught:
        table.add(rows, rows.astype(np.int32)[:, None], NOW, NOW + 1)
    assert isinstance(caught.value.__cause__, MemoryError)


def test_count_of_a_large_dense_table_is_a_sample(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "BLOCK", 160)
    table = table_of(tiny(1_000, 1_000), "dense")
    for i in range(16):  # every other position
        table._form.stamps[i * 62_500 : (i + 1) * 62_500 : 2] = MAX_STAMP
    live, seen = table.count(NOW)
    assert (live, seen) == (320, 640)


# ---- interrupts


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_an_interrupt_while_the_base_moves_leaves_all_or_nothing(tiny: Tiny, form: str) -> None:
    """A signal at every point of the pass in turn: marks stay, nothing expired comes back to life."""
    raised = 0
    for at in range(60):
        table = table_of(tiny(100, 1_000), form)
        table.add_one(1, [1, 2], NOW, NOW + 9 * DAY)  # expires
        then = NOW + 15 * DAY
        table.add_one(2, [1, 2], then, then + 10 * DAY)  # lives
        now = then + 9 * DAY
        try:
            interrupt_at_line(at, partial(table._move_base, table._scale.count(table._form.base, now)))
        except Interrupted:
            raised += 1
        assert not table.absent_one(2, [1, 2], now)
        assert not table.absent_one(2, [1, 2], now + DAY)
        assert table.absent_one(2, [1, 2], now + DAY + 1)
        assert table.absent_one(1, [1, 2], now)
    assert raised > 3


@both_forms
def test_an_interrupt_inside_a_batch_leaves_no_garbage(tiny: Tiny, form: str) -> None:
    config = tiny(1_000_000, 1_000) if form == "sparse" else tiny(100, 1_000)
    rng = np.random.default_rng(1)
    first, second = random_rows(rng, config, 150), random_rows(rng, config, 150)
    raised = 0
    for at in range(0, 400, 7):
        table = table_of(config, form)
        table.add(*first, NOW, NOW + 100)
        try:
            interrupt_at_line(at, partial(table.add_if_absent, *second, NOW, NOW + 50))
        except Interrupted:
            raised += 1
        assert not table.absent(*first, NOW + 100).any()
        table.add_if_absent(*second, NOW, NOW + 50)
        assert not table.absent(*second, NOW + 50).any()
        everything = random_rows(np.random.default_rng(3), config, 5_000)
        assert table.absent(*everything, NOW + 101).all()
    assert raised > 3


def interrupt_at_line(at: int, call: Callable[[], object]) -> None:
    """Call it with a signal arriving at the ``at``-th line it runs; the handler raises."""

    lines = 0

    def handler(_signal: int, _frame: object) -> None:
        raise Interrupted

    def trace(_frame: object, event: str, _arg: object) -> object:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == at + 1:
                signal.raise_signal(signal.SIGUSR1)
        return trace

    before = signal.signal(signal.SIGUSR1, handler)
    traced = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # the stub wants itself as the answer
    try:
        call()
    finally:
        sys.settrace(traced)
        signal.signal(signal.SIGUSR1, before)
