"""The dense form: one 4-byte stamp for every position there is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from operator import methodcaller
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 1 << 20
"""Positions that a pass handles at a time, so that its temporary arrays stay small."""


@final
class DenseForm:
    """Stamps by position; ``base`` is what they count from (epoch ms). ``view`` is the same memory for single
    accesses, which numpy is slow at."""

    __slots__ = ("base", "stamps", "total", "view")

    def __init__(self, total: int, base: int) -> None:
        self.base = base
        self.total = total
        # Zeroed lazily by the system: a page costs memory once it is written.
        self.stamps: NDArray[np.uint32] = np.zeros(total, np.uint32)
        self.view = self.stamps.data

    @property
    def nbytes(self) -> int:
        return self.stamps.nbytes

    def has_room(self, more: int) -> bool:  # noqa: ARG002  # the sparse form's answer depends on it
        return True

    def read(self, flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Cells of the positions (any shape) and the stamps they hold."""
        return flat, self.stamps.take(flat)

    def write(
        self,
        flat: NDArray[np.int64],  # noqa: ARG002  # the sparse form needs them beside the cells
        cells: NDArray[np.int64],
        held: NDArray[np.uint32],
        stamp: np.uint32,
    ) -> None:
        """Raise the cells, of which ``held`` was read just before, to ``stamp``. One statement writes all, so
        that an interrupt finds all of them or none."""
        self.stamps[cells] = stamp if held.max() <= stamp else np.maximum(held, stamp)

    def find(self, flat: int) -> int:
        return flat

    def put(self, cell: int, flat: int, stamp: int) -> None:  # noqa: ARG002  # as in write
        self.view[cell] = max(self.view[cell], stamp)

    def load(self, flat: NDArray[np.int64], stamps: NDArray[np.uint32]) -> None:
        """Take over distinct positions of another form."""
        self.stamps[flat] = stamps

    def live(self, cut: int, start: int = 0, stop: int | None = None) -> int:
        """How many stamps from ``start`` to ``stop`` are at least ``cut``."""
        part, least = self.stamps[start:stop], np.uint32(cut)
        return sum(int(np.count_nonzero(part[i : i + BLOCK] >= least)) for i in range(0, len(part), BLOCK))

    def items(self, cut: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
        """Live positions and their stamps, block by block."""
        least = np.uint32(cut)
        for i in range(0, len(self.stamps), BLOCK):
            block = self.stamps[i : i + BLOCK]
            found = np.flatnonzero(block >= least)
            if found.size:
                yield found + i, block[found]

    def move_base(self, units: int, base: int) -> None:
        """Lower all stamps by ``units`` (those below become unset) and set the new base, in place.

        An interrupt in between would leave stamps that count from another base. Python runs signal handlers
        between its own instructions only: C code that calls C code leaves no room for one.
        """
        by = np.uint32(units)
        steps = (
            partial(np.maximum, self.stamps, by, out=self.stamps),
            partial(np.subtract, self.stamps, by, out=self.stamps),
            partial(setattr, self, "base", base),
        )
        deque(map(methodcaller("__call__"), steps), maxlen=0)
