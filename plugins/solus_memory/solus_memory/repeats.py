"""Entities of one batch that live at the same positions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_SET: Final = 62
"""A bit above all position numbers."""


def repeats(flat: NDArray[np.int64], held: NDArray[np.uint32], least: np.uint32) -> list[int]:
    """Rows (columns of ``flat``, all absent) whose set of positions an earlier one has (R3, R6).

    Rows with the same set have the same lowest unset position: a sort of those finds the few candidates.
    """
    low = np.left_shift(held >= least, _SET, dtype=np.int64)
    low |= flat
    lowest = low.min(0)
    ordered = np.sort(lowest)
    twice = ordered[1:] == ordered[:-1]
    if not twice.any():
        return []
    seen: set[frozenset[int]] = set()
    again = []
    for row in np.flatnonzero(np.isin(lowest, ordered[1:][twice])).tolist():
        key = frozenset(flat[:, row].tolist())
        if key in seen:
            again.append(row)
        seen.add(key)
    return again
