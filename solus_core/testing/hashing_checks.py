"""What the hasher contract measures, on fixed keys: so a hasher always passes or always fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from solus_core.model import DeDuperConfig
from solus_core.stores import Hasher

FEW_KEYS: Final = (b"", b"\0", b"a", "é".encode(), b"\xff\xfe", b"x" * 1_000)


def sequential_keys(n: int, first: int = 0) -> list[bytes]:
    """Ids as services make them: numbered, all alike but for a few digits."""
    return [f"order-{first + i:012d}".encode() for i in range(n)]


def edges() -> list[DeDuperConfig]:
    """Small, prime, power-of-two and large sizes, with few and many hash functions."""
    return [
        DeDuperConfig(hash_functions=k, shards=shards, bits_per_shard=bits)
        for k, shards, bits in (
            (7, 1_000_000, 1_000),
            (13, 1 << 20, 1_024),
            (10, 150_000_000, 10_007),
            (13, 3_000_000, 16_384),
            (7, 77_777_777, 30_000),
        )
    ]


def config_id(config: DeDuperConfig) -> str:
    """A short name for a test's parameter."""
    return f"k{config.hash_functions}-{config.bits_per_shard}"


def one_by_one(hasher: Hasher, keys: Sequence[bytes], config: DeDuperConfig) -> tuple[list[int], list[list[int]]]:
    """Shards and positions of the keys, each hashed alone."""
    probes = [hasher.probe(key, config) for key in keys]
    return [shard for shard, _ in probes], [list(positions) for _, positions in probes]


def chi_square(values: NDArray[np.int64] | NDArray[np.int32], limit: int) -> float:
    """Pearson's statistic of ``values`` in ``(-limit, limit)`` over 100 classes by size: about 99 if even."""
    classes = np.abs(values.astype(np.int64)) * 100 // limit
    counts = np.bincount(classes, minlength=100)
    # A limit that isn't a multiple of 100 makes classes of unequal width.
    borders = -(-np.arange(101) * limit // 100)
    expected = np.diff(borders) * (len(values) / limit)
    return float((((counts - expected) ** 2) / expected).sum())


def false_positives(hasher: Hasher, config: DeDuperConfig) -> tuple[float, float, float]:
    """Measured and expected share of false positives, and the deviation of the measure.

    One shard is filled with ``bits / 10`` keys and asked for others; the shard number is left aside. This is
    averaged over so many fillings that 20,000 keys or more are asked for. The expectation is the textbook's
    ``(share of set positions) ** k`` with the share that was really set, so it only judges the positions.
    """
    k, bits = config.hash_functions, config.bits_per_shard
    fill, ask = bits // 10, 20_000
    hits, expected, fillings = 0, 0.0, max(3, 3_000 // fill)
    _, asked = hasher.probes(sequential_keys(ask, first=50_000_000), config)
    for filling in range(fillings):
        _, filled = hasher.probes(sequential_keys(fill, first=filling * fill), config)
        is_set = np.zeros(bits, np.bool_)
        is_set[np.abs(filled)] = True
        hits += int(is_set[np.abs(asked)].all(axis=1).sum())
        expected += float(is_set.mean()) ** k
    expected /= fillings
    tries = fillings * ask
    # The fillings share the asked keys, so they count as less than independent tries: twice the binomial's.
    return hits / tries, expected, 2 * (expected * (1 - expected) / tries) ** 0.5
