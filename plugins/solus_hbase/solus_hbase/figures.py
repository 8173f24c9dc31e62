"""What a sample of a de-duper's rows says about all of its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from solus_core.stores import StoreStats
from solus_hbase.batches import ROWS
from solus_hbase.cells import Place
from solus_hbase.gateway.base import Cells, Gateway
from solus_hbase.layout import DATA_FAMILY, INT, LONG, SHARD, qualifier

SAMPLE_SHARDS: Final = 20_000
"""Shards to look at, where they hold little: about a second's worth of reading."""

SAMPLE_CELLS: Final = 200_000
"""Cells after which no further shards are read: about a second's worth as well."""

_CALL_CELLS: Final = 50_000
"""Cells in one answer, roughly: 2.5 MB."""

_PICKED: Final = 1_000
"""Expiry times that are told of, at most."""


def sampled(gateway: Gateway, place: Place, now: int) -> StoreStats:
    """Counted in whole shards that are picked at random: ``SAMPLE_SHARDS``, or fewer if these hold much."""
    config, random = place.deduper.config, np.random.default_rng()
    shards = random.choice(config.shards, min(config.shards, SAMPLE_SHARDS), replace=False).tolist()
    live: list[int] = []
    looked = cells = 0
    rows = max(1, _CALL_CELLS // config.bits_per_shard)
    while looked < len(shards) and cells < SAMPLE_CELLS:
        wanted = [(place.row_key(shard), None) for shard in shards[looked : looked + rows]]
        for held in gateway.get(place.table, DATA_FAMILY, wanted):
            cells += len(held)
            live += _expiries(place, held, now)
        looked += len(wanted)
        # As many as fit into one answer if they hold what those before held.
        rows = min(ROWS, max(1, _CALL_CELLS * looked // (cells + looked)))
    expiries = live
    if len(live) > _PICKED:
        # The last one among them: it says when all will have expired.
        expiries = [*random.choice(live, _PICKED - 1, replace=False).tolist(), max(live)]
    bits = config.bits_per_shard
    return StoreStats(live=len(live), seen=looked * bits, total=config.shards * bits, expiries=tuple(expiries))


def _expiries(place: Place, cells: Cells, now: int) -> Iterator[int]:
    """When the live positions of one row expire (epoch ms)."""
    for name, (value, written) in cells.items():
        if name.endswith(b"#ttl"):
            if len(value) == LONG.size and LONG.unpack(value)[0] >= now:
                yield LONG.unpack(value)[0]
        elif (
            not place.native
            and len(name) == INT.size
            and name != SHARD
            and value not in (b"\0", b"")
            and qualifier(INT.unpack(name)[0]) not in cells
        ):
            # A legacy cell counts until HBase drops it, which is then if its table has the usual TTL.
            yield max(now, written + place.expiry_ms)
