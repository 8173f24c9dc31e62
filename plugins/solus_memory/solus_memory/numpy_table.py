"""The table in numpy: a dense or a sparse form, whichever is smaller, under one lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from solus_core.errors import ErrorCode, InvalidArgumentError, StoreError
from solus_core.model import DeDuperConfig
from solus_core.stores import Bools
from solus_memory import figures
from solus_memory.dense import DenseForm
from solus_memory.dumps import dump_form, fill_form, live_positions
from solus_memory.repeats import repeats
from solus_memory.sparse import MAX_SLOTS, SparseForm, slot_bytes, slots_for
from solus_memory.stamps import MAX_STAMP, Scale
from solus_memory.tables import Dump, Read, Reserve

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

_SLACK: Final = 1.4
"""A sparse table is built for so many times the live positions; 2.5 moves for each insert at worst."""
_SWEEP: Final = 16_384
"""Position writes between two steps of the sweep through a dense table."""
_SWEEP_RATIO: Final = 4
"""Positions swept for each written: a whole round in a quarter of the table's size of writes."""


@final
class NumpyTable:
    """A ``Table`` (see there).

    Positions outside ``0 <= position < bits_per_shard`` and shards outside ``0 <= shard < shards`` (one in
    about 4e9 of the Java library's) live in a dict beside the form, by shard, position and exact expiry.
    """

    def __init__(self, config: DeDuperConfig, now: int, reserve: Reserve) -> None:
        self.config = config
        self.changed = False
        self._reserve = reserve
        self._shards = config.shards
        self._bits = config.bits_per_shard
        self._total = config.shards * config.bits_per_shard
        self._scale = Scale.of(config.expiry_seconds)
        self._unit = self._scale.unit
        self.lock = threading.Lock()
        self._frozen: str | None = None
        self._odd: dict[tuple[int, int], int] = {}
        self._odd_purge = 1_000
        self._highest = 0  # no stamp is above this one
        self._memo: tuple[memoryview, int, int, bool]
        self._memo_now: int | None = None
        self._memo_until = 0
        self._owed, self._swept, self._live, self._swept_at = _SWEEP, 0, 0, now
        self._form: SparseForm | DenseForm = self._build(0, self._scale.base(now))

    @property
    def nbytes(self) -> int:
        return self._form.nbytes + 200 * len(self._odd)

    def absent(self, shards: Longs, positions: Ints, now: int) -> Bools:
        flat = self._flat(shards, positions)
        with self.lock:
            self._check()
            if flat is None:
                pairs = zip(shards.tolist(), positions.tolist(), strict=True)
                return np.array([not self._has(s, p, now) for s, p in pairs], np.bool_)
            cut = self._scale.count(self._form.base, now)
            if cut > MAX_STAMP:
                return np.ones(len(shards), np.bool_)
            held = self._form.read(flat)[1]
        absent: Bools = held.min(0) < np.uint32(max(cut, 1))
        return absent

    def add(self, shards: Longs, positions: Ints, now: int, expires_at: int) -> None:
        flat = self._flat(shards, positions)
        with self.lock:
            cut, stamp = self._times(now, expires_at)
            if flat is None:
                for shard, row in zip(shards.tolist(), positions.tolist(), strict=True):
                    self._put(shard, row, now, expires_at)
            elif flat.size:
                cells, held = self._form.read(flat)
                self._write(flat, cells, held, cut, stamp, now)

    def add_if_absent(self, shards: Longs, positions: Ints, now: int, expires_at: int) -> Bools:
        flat = self._flat(shards, positions)
        with self.lock:
            cut, stamp = self._times(now, expires_at)
            if flat is None:
                pairs = zip(shards.tolist(), positions.tolist(), strict=True)
                return np.array([self._put_if_absent(s, p, now, expires_at) for s, p in pairs], np.bool_)
            if not flat.size:
                return np.zeros(len(shards), np.bool_)
            cells, held = self._form.read(flat)
            least = np.uint32(cut)
            absent: Bools = held.min(0) < least
            rows = np.flatnonzero(absent)
            if not rows.size:
                return absent
            if len(rows) < len(absent):
                flat, cells, held = flat.take(rows, 1), cells.take(rows, 1), held.take(rows, 1)
            again = repeats(flat, held, least)
            if again:
                keep = np.ones(len(rows), np.bool_)
                keep[again] = False
                absent[rows[again]] = False
                flat, cells, held = flat[:, keep], cells[:, keep], held[:, keep]
            self._write(flat, cells, held, cut, stamp, now)
            return absent

    def _flat(self, shards: Longs, positions: Ints) -> Longs | None:
        """Numbers of the positions, ``(k, n)``: reductions along the first axis are the fast ones. None if any
        is out of range."""
        # Seen as unsigned, a negative number is larger than any allowed one.
        if len(shards) and (
            int(np.ascontiguousarray(positions).view(np.uint32).max()) >= self._bits
            or int(np.ascontiguousarray(shards).view(np.uint64).max()) >= self._shards
        ):
            return None
        flat = np.empty(positions.shape[::-1], np.int64)
        np.add(positions.T, shards * self._bits, out=flat)
        return flat

    def _write(self, flat: Longs, cells: Longs, held: NDArray[np.uint32], cut: int, stamp: int, now: int) -> None:
        if not self._form.has_room(int(np.count_nonzero(cells < 0))):
            # Also for the expired ones that are in the table still: building it anew drops them.
            self._rebuild(int(np.count_nonzero(held < np.uint32(cut))), cut)
            cells, held = self._form.read(flat)
        self.changed = True
        self._form.write(flat, cells, held, np.uint32(stamp))
        self._owed -= flat.size
        if self._owed < 0:
            self._sweep(now)

    def absent_one(self, shard: int, positions: Sequence[int], now: int) -> bool:
        with self.lock:
            self._check()
            return not self._has(shard, positions, now)

    def add_one(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        with self.lock:
            self._times(now, expires_at)
            self._put(shard, positions, now, expires_at)

    def add_if_absent_one(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> bool:
        # Written out: every call and every attribute here is some hundredths of what an entity costs.
        with self.lock:
            if (now != self._memo_now or expires_at != self._memo_until) and not self._remember(now, expires_at):
                return self._put_if_absent(shard, positions, now, expires_at)
            bits, first = self._bits, shard * self._bits
            view, cut, stamp, highest = self._memo
            if not 0 <= shard < self._shards:
                return self._put_if_absent(shard, positions, now, expires_at)
            for position in positions:
                if not 0 <= position < bits:
                    return self._put_if_absent(shard, positions, now, expires_at)
                if view[first + position] < cut:
                    break
            else:
                return False
            self.changed = True
            for position in positions:
                if not 0 <= position < bits:
                    self._put(shard, positions, now, expires_at)
                    break
                if highest or view[first + position] < stamp:
                    view[first + position] = stamp
            self._owed -= len(positions)
            if self._owed < 0:
                self._sweep(now)
            return True

    def _remember(self, now: int, expires_at: int) -> bool:
        """Keep what the calls of the same millisecond share; False if the table is sparse."""
        self._memo_now = None
        cut, stamp = self._times(now, expires_at)
        if isinstance(self._form, SparseForm):
            return False
        self._memo = (self._form.view, cut, stamp, stamp >= self._highest)
        self._memo_until = expires_at
        self._memo_now = now  # last: it makes the others valid
        return True

    def _has(self, shard: int, positions: Sequence[int], now: int) -> bool:
        form = self._form
        cut = max(1, self._scale.count(form.base, now))
        if self._regular(shard, positions):
            view, first = form.view, shard * self._bits
            if isinstance(form, SparseForm):
                cells = form.find_all(first, positions)
                return min(cells) >= 0 and all(view[cell] >= cut for cell in cells)
            for position in positions:  # noqa: SIM110  # a generator costs more than the loop
                if view[first + position] < cut:
                    return False
            return True
        for position in positions:
            if not (0 <= position < self._bits and 0 <= shard < self._shards):
                if self._odd.get((shard, position), now - 1) < now:
                    return False
                continue
            cell = form.find(shard * self._bits + position)
            if cell < 0 or form.view[cell] < cut:
                return False
        return True

    def _put_if_absent(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> bool:
        cut, stamp = self._times(now, expires_at)
        form = self._form
        if isinstance(form, SparseForm) and self._regular(shard, positions) and form.has_room(len(positions)):
            cells = form.find_all(shard * self._bits, positions)
            if min(cells) >= 0 and all(form.view[cell] >= cut for cell in cells):
                return False
            self.changed = True
            form.put_all(cells, shard * self._bits, positions, stamp)
            return True
        if self._has(shard, positions, now):
            return False
        self._put(shard, positions, now, expires_at)
        return True

    def _regular(self, shard: int, positions: Sequence[int]) -> bool:
        return 0 <= shard < self._shards and min(positions) >= 0 and max(positions) < self._bits

    def _put(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        cut, stamp = self._times(now, expires_at)
        if not self._form.has_room(len(positions)):
            self._rebuild(len(positions), cut)
        form = self._form
        self.changed = True
        for position in positions:
            if 0 <= position < self._bits and 0 <= shard < self._shards:
                flat = shard * self._bits + position
                form.put(form.find(flat), flat, stamp)
            else:
                key = (shard, position)
                self._odd[key] = max(self._odd.get(key, expires_at), expires_at)
        if len(self._odd) > self._odd_purge:
            self._odd = {key: expiry for key, expiry in self._odd.items() if expiry >= now}
            self._odd_purge = 1_000 + 2 * len(self._odd)
        self._owed -= len(positions)
        if self._owed < 0:
            self._sweep(now)

    def _times(self, now: int, expires_at: int) -> tuple[int, int]:
        """``(cut, stamp)``: what a set position holds at least, and what one that is set now gets to hold.

        Moves the base if either would not fit.
        """
        self._check()
        cut = self._scale.count(self._form.base, now)
        stamp = self._scale.count(self._form.base, expires_at)
        if cut > MAX_STAMP or stamp > MAX_STAMP:
            self._move_base(cut)
            cut = self._scale.count(self._form.base, now)
            stamp = self._scale.count(self._form.base, expires_at)
            if stamp > MAX_STAMP:
                raise InvalidArgumentError(
                    f"expires_at is {expires_at - now} ms after now, allowed are at most "
                    f"{self.config.expiry_seconds * 1_000}, the expiry of the de-duper"
                )
        if stamp > self._highest:
            self._highest, self._memo_now = stamp, None
        return max(cut, 1), max(stamp, 1)

    def _move_base(self, cut: int) -> None:
        units = cut - self._scale.margin
        if units <= 0:
            return
        self._memo_now = None
        base = self._form.base + units * self._unit
        if isinstance(self._form, DenseForm):
            # More than there are stamps: all are below, all become unset.
            self._form.move_base(min(units, MAX_STAMP), base)
        else:
            self._rebuild(0, cut, units)
        # Last: too high a number costs a comparison, too low a one shortens marks (R4), and moving may fail.
        self._highest = max(1, self._highest - units)

    def _build(self, positions: int, base: int, held: int = 0) -> SparseForm | DenseForm:
        """An empty form for so many positions, the smaller one; all that can fail for want of memory is here."""
        slots = slots_for(int(positions * _SLACK))
        sparse, dense = slots * slot_bytes(self._total), self._total * 4
        # A sparse table has a limit of its own; beyond it there is only the dense one.
        is_dense = dense <= sparse or slots > MAX_SLOTS
        needed = dense if is_dense else sparse
        self._reserve(needed, held)
        try:
            return DenseForm(self._total, base) if is_dense else SparseForm(self._total, slots, base)
        except MemoryError as error:
            raise StoreError(
                ErrorCode.INTERNAL_ERROR, f"a table needs {needed:,} bytes, which the system refused"
            ) from error

    def _rebuild(self, more: int, cut: int, units: int = 0) -> None:
        """Make room for ``more`` positions without the expired ones, counting from a base ``units`` later."""
        self._memo_now = None
        old = self._form
        least = max(1, cut)
        if least > MAX_STAMP:
            new = self._build(more, old.base + units * self._unit, old.nbytes)
        else:
            new = self._build(old.live(least) + more, old.base + units * self._unit, old.nbytes)
            for flat, stamps in old.items(least):
                new.load(flat, stamps - np.uint32(units))
        self._form = new
        self._swept, self._live = 0, 0

    def _sweep(self, now: int) -> None:
        """Go on counting live stamps of a dense table; after a round, go sparse if few are left.

        A step is a multiple of what was written since, and at least the part of the table that the time since is
        of the expiry: a quiet table is looked through once an expiry.
        """
        form, written = self._form, _SWEEP - self._owed
        self._owed = _SWEEP
        if isinstance(form, SparseForm):
            return
        passed = max(0, now - self._swept_at)
        self._swept_at = now
        due = self._total * passed // (self.config.expiry_seconds * 1_000)
        cut = max(1, self._scale.count(form.base, now))
        stop = min(self._total, self._swept + max(_SWEEP_RATIO * written, due))
        self._live += form.live(cut, self._swept, stop)
        self._swept = stop
        if stop < self._total:
            return
        live, self._swept, self._live = self._live, 0, 0
        # Only if clearly smaller, or a table at the limit would change its form again and again.
        if 2 * slots_for(int(live * _SLACK)) * slot_bytes(self._total) < form.nbytes:
            # The marks are written already: having no room for the smaller form is no reason to fail.
            with suppress(StoreError, MemoryError):
                self._rebuild(0, cut)

    def dump(self) -> Dump:
        return dump_form(self._form, self._unit, self._odd)

    @classmethod
    def restored(cls, config: DeDuperConfig, header: Mapping[str, Any], read: Read, reserve: Reserve) -> NumpyTable:
        """The table that was dumped. Raises ``ValueError``, ``KeyError`` or ``TypeError`` if it makes no sense."""
        table = cls(config, 0, reserve)
        base, live = header["base"], live_positions(header, table._total)
        if header["unit"] != table._unit or type(base) is not int:
            raise ValueError(f"unit {header['unit']!r}, base {base!r}")
        table._odd = {(int(shard), int(position)): int(at) for shard, position, at in header["odd"]}
        table._form = table._build(live, base)
        fill_form(table._form, header, table._total, read)
        table._highest = int(table._form.stamps.max())
        return table

    def count(self, now: int) -> tuple[int, int]:
        with self.lock:
            return figures.count(self._form, self._scale, self._odd.values(), now)

    def expiries(self, now: int) -> tuple[int, ...]:
        with self.lock:
            return figures.expiries(self._form, self._scale, now)

    def freeze(self, why: str | None) -> None:
        with self.lock:
            self._memo_now = None
            self._frozen = why

    def _check(self) -> None:
        if self._frozen:
            raise StoreError(ErrorCode.INTERNAL_ERROR, self._frozen)

    def replace_lock(self, why: str) -> None:
        self._memo_now = None
        self.lock = threading.Lock()
        self._frozen = why
