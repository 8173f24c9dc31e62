"""Do a farm's name and full shards fit? Positions that expired stay in a record, so that in time shards are full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from solus_aerospike.config import BIN_BYTES, BINS, BINS_FARM_BYTES, JAVAS_FARM, MAP
from solus_aerospike.layout import BINS_OF_RECORD, v2_bin
from solus_aerospike.segments import longest_map_bin

_RECORD_BYTES: Final = 200
"""Of a record without positions, at most."""

_MAP_POSITION_BYTES: Final = 12.1
"""Measured with 30,000 positions in a record of Aerospike 8.1.2."""

_BIN_BYTES: Final = 11
"""Of a bin in a record, beside its name: measured with 1,000 to 30,000 bins, names of 6 to 13 bytes."""


def problems(layout: str, bits_per_shard: int, farms: Sequence[str], most_bytes: int) -> list[str]:
    """Why full shards of these farms don't fit into records of up to ``most_bytes``."""
    found = []
    several = f" of {len(farms)} farms" if len(farms) > 1 else ""
    bins = bits_per_shard * len(farms)
    if layout == BINS and bins > BINS_OF_RECORD:
        found.append(
            f"bits_per_shard is {bits_per_shard}, and a full shard{several} takes {bins:,} bins, where a record has "
            f"{BINS_OF_RECORD:,} at most: use fewer bits_per_shard, or the layout map"
        )
    position = sum(
        _BIN_BYTES + len(v2_bin(farm, bits_per_shard - 1)) if layout == BINS else _MAP_POSITION_BYTES for farm in farms
    )
    needed = _RECORD_BYTES + round(bits_per_shard * position)
    if needed > most_bytes:
        found.append(
            f"bits_per_shard is {bits_per_shard}, and a full shard{several} takes {needed:,} bytes, where the "
            f"namespace has a max-record-size of {most_bytes:,}: raise it, to 8M at most, or use fewer bits_per_shard"
        )
    return found


def bad_farm(layout: str, bits_per_shard: int, farm: str) -> list[str]:
    """What makes a farm's name too long for the bins of such a de-duper."""
    if layout == BINS:
        most, why = BINS_FARM_BYTES, f"in the layout {BINS}; {JAVAS_FARM}"
    else:
        most = BIN_BYTES - longest_map_bin("", bits_per_shard)
        why = f"in the layout {MAP} with bits_per_shard {bits_per_shard}"
    if len(farm) <= most:
        return []
    return [f"farm is {farm!r}, which has {len(farm)} bytes, allowed are {most} {why}"]
