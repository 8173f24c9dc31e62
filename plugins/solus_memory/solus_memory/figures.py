"""What a table can say about itself without disturbing its users for long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from solus_memory.dense import BLOCK, DenseForm
from solus_memory.sparse import SparseForm
from solus_memory.stamps import MAX_STAMP, Scale

_SAMPLES: Final = 64
_PICKED: Final = 1_000
_LOOKED_AT: Final = 1 << 18


def count(form: SparseForm | DenseForm, scale: Scale, odd: Iterable[int], now: int) -> tuple[int, int]:
    """``(live, seen)``, see ``Table.count``. ``odd``: the expiry times that are kept beside the form."""
    cut = max(1, scale.count(form.base, now))
    live = sum(expiry >= now for expiry in odd)
    if cut > MAX_STAMP:
        return live, form.total
    if isinstance(form, SparseForm) or form.total <= _SAMPLES * BLOCK:
        return form.live(cut) + live, form.total
    size = BLOCK // 16
    starts = range(0, form.total - size, form.total // _SAMPLES)
    return sum(form.live(cut, i, i + size) for i in starts), size * len(starts)


def expiries(form: SparseForm | DenseForm, scale: Scale, now: int) -> tuple[int, ...]:
    """When live positions expire (epoch ms): at most 1,000 of them, picked at random, and the last one among them."""
    cut = max(1, scale.count(form.base, now))
    if cut > MAX_STAMP:
        return ()
    random, stamps = np.random.default_rng(), form.stamps
    last = stamps.max(initial=0) if len(stamps) <= _SAMPLES * BLOCK else np.uint32(0)
    if len(stamps) > _LOOKED_AT:
        # With repeats: of so few out of so many hardly any is picked twice.
        stamps = stamps.take(random.integers(0, len(stamps), _LOOKED_AT))
    live = stamps[stamps >= np.uint32(cut)]
    if len(live) > _PICKED:
        live = random.choice(live, _PICKED, replace=False)
    if last >= cut:
        live = np.append(live[1:], last)
    return tuple((form.base + live.astype(np.int64) * scale.unit).tolist())
