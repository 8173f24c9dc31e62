"""How the positions of one farm are spread over bins in the layout ``map``. The same for ever: data depend on it.

A shard of up to ``WHOLE`` positions has one map for each farm, in a bin of the farm's name. The server looks through
all of a map to find a key; so that it needn't look far, a larger shard has several of about ``SEGMENT`` positions:
position p is in the bin ``<farm>#<p modulo the number of segments>``.
"""

from __future__ import annotations

from typing import Final

WHOLE: Final = 4_096
SEGMENT: Final = 512


def segments(bits_per_shard: int) -> int:
    """How many maps a farm has in one record."""
    return 1 if bits_per_shard <= WHOLE else -(-bits_per_shard // SEGMENT)


def map_bin(farm: str, position: int, of: int) -> str:
    """The bin with the position, where there are ``of`` segments."""
    return farm if of == 1 else f"{farm}#{position % of}"


def longest_map_bin(farm: str, bits_per_shard: int) -> int:
    """Bytes in the longest name of a bin."""
    return len(map_bin(farm, -1, segments(bits_per_shard)))
