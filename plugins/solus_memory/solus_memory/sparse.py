"""The sparse form: an open-addressing hash table of the positions that were written.

Double hashing over a prime number of slots (Knuth, The Art of Computer Programming 3, 6.4, algorithm D), so
that probing reaches every slot. The first slot is the high half of a multiplicative hash scaled to the number
of slots (Lemire, Fast Random Integer Generation in an Interval, 2019). A slot is empty while its stamp is 0;
expired ones stay where they are, or the chains through them would break, until the table is built anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

LOAD: Final = 0.8
"""How full a table gets: misses cost 1 / (1 - LOAD) probes."""
MAX_SLOTS: Final = 2**32 - 5  # a prime; the scaling needs slots within 32 bits

_BLOCK: Final = 1 << 16  # slots that a pass handles at a time: temporary arrays stay in the cache
_FACTOR: Final = 0x9E3779B97F4A7C15  # 2**64 / golden ratio
_LOW: Final = 2**32 - 1
_U: Final = np.uint64


def slots_for(positions: int) -> int:
    """The least prime number of slots that holds so many positions at full load."""
    slots = max(1_021, int(positions / LOAD) + 2) | 1
    while not _is_prime(slots):
        slots += 2
    return slots


def _is_prime(odd: int) -> bool:
    return bool((odd % np.arange(3, int(odd**0.5) + 1, 2)).all())


def slot_bytes(total: int) -> int:
    """Bytes of a slot where there are ``total`` positions: a stamp, and a key of 4 bytes if that suffices."""
    return 8 if total <= _LOW + 1 else 12


def smallest_bytes(total: int) -> int:
    """What an empty table of ``total`` positions takes."""
    return slots_for(0) * slot_bytes(total)


@final
class SparseForm:
    """Positions and stamps by slot; ``base`` is what the stamps count from (epoch ms).

    A *cell* of a position is its slot, or ``~slot`` of the empty slot where it would go.
    """

    __slots__ = ("base", "key_view", "keys", "slots", "stamps", "total", "used", "view")

    def __init__(self, total: int, slots: int, base: int) -> None:
        self.base = base
        self.total = total
        self.slots = slots
        self.used = 0
        self.keys: NDArray[np.uint32] | NDArray[np.uint64] = np.zeros(
            slots, np.uint32 if slot_bytes(total) == 8 else np.uint64
        )
        self.stamps: NDArray[np.uint32] = np.zeros(slots, np.uint32)
        self.key_view = self.keys.data
        self.view = self.stamps.data

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.stamps.nbytes

    def has_room(self, more: int) -> bool:
        return self.used + more <= self.slots * LOAD

    def _first(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        slot = keys * _U(_FACTOR)
        slot >>= _U(32)
        slot *= _U(self.slots)
        slot >>= _U(32)
        first: NDArray[np.int64] = slot.view(np.int64)
        return first

    def _step(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        step = keys * _U(_FACTOR)
        step >>= _U(8)
        step &= _U(_LOW)
        step *= _U(self.slots - 1)
        step >>= _U(32)
        step += _U(1)
        signed: NDArray[np.int64] = step.view(np.int64)
        return signed

    def read(self, flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Cells of the positions (any shape) and the stamps they hold, 0 where there is none."""
        wide = flat.ravel().view(np.uint64)
        keys = wide.astype(self.keys.dtype, copy=False)
        slot = self._first(wide)
        cells, on = self._probe(slot, keys)
        left, step = on, self._step(wide[on])
        slot, keys = slot[on], keys[on]
        while left.size:
            slot += step
            slot -= self.slots * (slot >= self.slots)
            found, on = self._probe(slot, keys)
            cells[left] = found  # those still on their way are written again
            left, slot, keys, step = left[on], slot[on], keys[on], step[on]
        held = self.stamps.take(cells ^ (cells >> 63))
        return cells.reshape(flat.shape), held.reshape(flat.shape)

    def _probe(self, slot: NDArray[np.int64], keys: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The cells if the search ends at these slots, and which searches have to go on."""
        empty = self.stamps.take(slot) == 0
        on = np.flatnonzero((self.keys.take(slot) != keys) & ~empty)
        return slot ^ -empty.view(np.int8), on  # x ^ -1 is ~x

    def write(
        self,
        flat: NDArray[np.int64],
        cells: NDArray[np.int64],
        held: NDArray[np.uint32],
        stamp: np.uint32,
    ) -> None:
        """Raise the cells, of which ``held`` was read just before, to ``stamp``; insert those that are missing."""
        missing = cells < 0
        there = ~missing
        if there.any():
            self.stamps[cells[there]] = np.maximum(held[there], stamp)
        if missing.any():
            keys = flat[missing]
            self._insert(keys, ~cells[missing], np.broadcast_to(stamp, keys.shape))

    def load(self, flat: NDArray[np.int64], stamps: NDArray[np.uint32]) -> None:
        """Take over distinct positions of another form."""
        self._insert(flat, self._first(flat.view(np.uint64)), stamps)

    def _insert(self, flat: NDArray[np.int64], slot: NDArray[np.int64], stamps: NDArray[np.uint32]) -> None:
        # Repeats are counted once each: too many is safe, too few could fill the table to the last slot.
        self.used += len(flat)
        wide = flat.view(np.uint64)
        keys = wide.astype(self.keys.dtype, copy=False)
        step: NDArray[np.int64] | None = None
        while len(keys):
            empty = np.flatnonzero(self.stamps.take(slot) == 0)
            # Several keys may want one slot: one of them is in it afterwards, the others go on. An interrupt
            # before the stamps are written leaves the slots empty, whatever their keys.
            self.keys[slot[empty]] = keys[empty]
            mine = self.keys.take(slot) == keys
            self.stamps[slot[mine]] = stamps[mine]
            on = np.flatnonzero(~mine)
            step = self._step(wide[on]) if step is None else step[on]
            slot, keys, stamps = slot[on], keys[on], stamps[on]
            slot += step
            slot -= self.slots * (slot >= self.slots)

    def find(self, flat: int) -> int:
        """The cell of one position."""
        return self.find_all(flat, (0,))[0]

    def find_all(self, first: int, positions: Sequence[int]) -> list[int]:
        """The cells of ``first`` plus each of the positions."""
        # One loop with everything in it: the calls would cost more than what they do.
        slots, stamps, keys = self.slots, self.view, self.key_view
        cells = []
        for position in positions:
            flat = first + position
            mixed = flat * _FACTOR
            slot = ((mixed >> 32 & _LOW) * slots) >> 32
            if stamps[slot] and keys[slot] != flat:
                step = 1 + ((mixed >> 8 & _LOW) * (slots - 1) >> 32)
                while stamps[slot] and keys[slot] != flat:
                    slot += step
                    if slot >= slots:
                        slot -= slots
            cells.append(slot if stamps[slot] else ~slot)
        return cells

    def put(self, cell: int, flat: int, stamp: int) -> None:
        """Raise one position, found at ``cell`` just before, to ``stamp``."""
        self.put_all((cell,), flat, (0,), stamp)

    def put_all(self, cells: Sequence[int], first: int, positions: Sequence[int], stamp: int) -> None:
        """Raise ``first`` plus each position, found at ``cells`` just before, to ``stamp``."""
        stamps, keys = self.view, self.key_view
        for found, position in zip(cells, positions):  # noqa: B905  # as many; strict costs 0.1 us
            cell = found
            if cell < 0 and stamps[~cell]:
                cell = self.find(first + position)  # another position of the same entity went there
            if cell < 0:
                self.used += 1
                keys[~cell] = first + position
                stamps[~cell] = stamp
            elif stamps[cell] < stamp:  # max() is a slow call here
                stamps[cell] = stamp

    def live(self, cut: int) -> int:
        """How many stamps are at least ``cut``."""
        least = np.uint32(cut)
        return sum(int(np.count_nonzero(self.stamps[i : i + _BLOCK] >= least)) for i in range(0, self.slots, _BLOCK))

    def items(self, cut: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
        """Live positions and their stamps, block by block, in no order."""
        least = np.uint32(cut)
        for i in range(0, self.slots, _BLOCK):
            stamps = self.stamps[i : i + _BLOCK]
            found = np.flatnonzero(stamps >= least)
            if found.size:
                yield self.keys[i : i + _BLOCK][found].astype(np.int64), stamps[found]
