"""The smallest config for a number of keys and a false-positive rate, and what each backend needs for it.

For each number of hash functions and each of some round numbers of positions a shard, the least number of shards
(three significant digits, within the limits) that keeps the exact rate is found; the one that takes the least memory
wins. Both the rate and the memory are monotone in the number of shards, so nothing smaller on that grid is missed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import partial
from math import expm1, log1p
from typing import Final, final

from attrs import frozen

from solus_core.errors import InvalidArgumentError
from solus_core.model import BITS_PER_SHARD, HASH_FUNCTIONS, SHARDS, DeDuperConfig
from solus_core.planning import (
    MAX_KEYS,
    average_false_positive_rate,
    check_keys,
    check_rate,
    false_positive_rate,
    fill,
)

BITS_GRID: Final = (
    *(1_000, 1_200, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000),
    *(10_000, 12_000, 15_000, 20_000, 25_000, 30_000),
)
SHARDS_GRID: Final = (
    *range(1_000_000, 10_000_000, 10_000),
    *range(10_000_000, 100_000_000, 100_000),
    *range(100_000_000, 150_000_000 + 1, 1_000_000),
)

# The in-memory backend: a stamp of 4 bytes for every position, or a hash table of those in use, whichever is
# smaller. The hash table is at most 0.8 full and is built anew for 1.4 times what it holds; a slot has 8 bytes,
# 12 where positions need more than 32 bits, and there are less than 2**32 slots.
_DENSE: Final = 4
_SLOTS_A_POSITION: Final = 1.4 / 0.8
_MAX_SLOTS: Final = 2**32 - 5
# Aerospike, map layout: 12.1 bytes a position (measured, Community 8.1.2, data in memory), and for each record its
# 64 bytes of primary index and about 100 of header, set name and stored key.
_AEROSPIKE_POSITION: Final = 12.1
_AEROSPIKE_RECORD: Final = 64 + 100
# HBase, an estimate: the cell as a KeyValue, before compression. Lengths 4 + 4 + 2 + 1, row 25, family 1, qualifier
# (a position and "#ttl") 8, timestamp and type 9, value 8, TTL tag 13.
_HBASE_POSITION: Final = 75


@final
@frozen(kw_only=True)
class Choice:
    """A config and what to expect of it while ``keys`` keys are alive.

    ``rate``: of false positives with all of them there. ``average_rate``: while the filter fills from empty.
    ``expected_losses``: how many of the first ``keys`` events are taken for repeats, on average.
    Bytes are those of one copy: a cluster that replicates needs them as many times. ``memory_bytes``: the most that
    the in-memory backend holds, whose table grows in steps. ``hbase_bytes``: an estimate, before compression.
    """

    config: DeDuperConfig
    keys: int
    rate: float
    average_rate: float
    expected_losses: float
    memory_bytes: int
    aerospike_bytes: int
    hbase_bytes: int


def describe(config: DeDuperConfig, keys: int) -> Choice:
    """What ``config`` gives with so many keys alive, whether it was chosen here or not."""
    average = average_false_positive_rate(config, keys)
    positions = config.shards * config.bits_per_shard * fill(config, keys)
    records = -config.shards * expm1(keys * log1p(-1 / config.shards))
    return Choice(
        config=config,
        keys=keys,
        rate=false_positive_rate(config, keys),
        average_rate=average,
        expected_losses=average * keys,
        memory_bytes=memory_bytes(config, keys),
        aerospike_bytes=round(positions * _AEROSPIKE_POSITION + records * _AEROSPIKE_RECORD),
        hbase_bytes=round(positions * _HBASE_POSITION),
    )


def memory_bytes(config: DeDuperConfig, keys: int) -> int:
    """The most that the in-memory backend's table holds: its sparse form or its dense one, whichever is smaller."""
    total = config.shards * config.bits_per_shard
    slots = total * fill(config, keys) * _SLOTS_A_POSITION
    dense = total * _DENSE
    return dense if slots > _MAX_SLOTS else min(dense, round(slots * (8 if total <= 2**32 else 12)))


def choices(keys: int, rate: float) -> list[Choice]:
    """The smallest config for each number of hash functions that has one, by that number.

    ``keys``: alive at once, at least 1. ``rate``: in (0, 1), kept when all of them are there.
    Raises ``InvalidArgumentError``, which says what is the best to be had, if no config keeps it.
    """
    rate = check_rate(rate)
    check_keys(keys, 1)
    found = []
    for functions in HASH_FUNCTIONS:
        configs = [config for bits in BITS_GRID if (config := _fewest_shards(functions, bits, keys, rate)) is not None]
        if configs:
            found.append(describe(min(configs, key=partial(_size, keys)), keys))
    if not found:
        raise _impossible(keys, rate)
    return found


def best(found: list[Choice]) -> Choice:
    """The choice that takes the least memory."""
    return min(found, key=lambda choice: _size(choice.keys, choice.config))


def smallest(keys: int, rate: float) -> DeDuperConfig:
    """The config that takes the least memory; arguments and errors as of :func:`choices`."""
    return best(choices(keys, rate)).config


def _size(keys: int, config: DeDuperConfig) -> tuple[int, int, int]:
    """What is compared: memory first, then positions, then work."""
    return memory_bytes(config, keys), config.shards * config.bits_per_shard, config.hash_functions


def _fewest_shards(functions: int, bits: int, keys: int, rate: float) -> DeDuperConfig | None:
    """The config with the fewest shards that keeps the rate; None if even the most of them do not."""

    def config(step: int) -> DeDuperConfig:
        return DeDuperConfig(hash_functions=functions, bits_per_shard=bits, shards=SHARDS_GRID[step])

    def keeps(step: int) -> bool:
        return false_positive_rate(config(step), keys) <= rate

    # The textbook's number of shards is a little low, much where there are few keys, and too high for rates near 1:
    # a window that grows from it both ways.
    load = -log1p(-min(rate ** (1 / functions), 1 - 1e-15))
    last = len(SHARDS_GRID) - 1
    low = min(last - 1, bisect_left(SHARDS_GRID, keys * functions / bits / load))
    high = low + 1
    while low > 0 and keeps(low):
        low = max(0, low - 2 * (high - low))
    while high < last and not keeps(high):
        low, high = high, min(last, high + 2 * (high - low))
    step = low + bisect_left(range(low, high), True, key=keeps)
    return config(step) if step < high or keeps(high) else None


def _impossible(keys: int, rate: float) -> InvalidArgumentError:
    """What can be had instead: the lowest rate for these keys, the most keys at this rate."""
    rates = [
        partial(
            false_positive_rate,
            DeDuperConfig(hash_functions=functions, bits_per_shard=BITS_PER_SHARD[-1], shards=SHARDS[-1]),
        )
        for functions in HASH_FUNCTIONS
    ]
    lowest = min(rate_of(keys) for rate_of in rates)
    most = max(bisect_right(range(MAX_KEYS), rate, key=rate_of) for rate_of in rates)
    instead = f", or {most - 1:,} keys at that rate" if most > 1 else ""
    return InvalidArgumentError(
        f"no config keeps a false-positive rate of {rate:g} with {keys:,} keys alive: "
        f"the best to be had is {lowest:.2g} with so many keys{instead}"
    )
