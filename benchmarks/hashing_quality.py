"""False positives of each way to hash, in one full shard, against what independent positions would give.

    python benchmarks/hashing_quality.py [--probes N]

For each number of hash functions and positions a shard is filled with near-identical keys to the given fill, then
probed with keys that were never added. ``ideal`` is the number of false positives that independent positions would
give at this fill. ``progression`` is textbook double hashing ``(h1 + i*h2) mod bits`` with ``h2`` forced odd, from the
same 128-bit murmur3, for comparison: why ``murmur3-double`` has a multiplier of its own for each function.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

from solus_core import DeDuperConfig
from solus_core.hashing import MurmurDoubleHasher, MurmurMd5Hasher

STEP = 200_000
Positions = NDArray[np.int32]
Ways = dict[str, Callable[[Sequence[bytes], DeDuperConfig], Positions]]


def progression(data: Sequence[bytes], config: DeDuperConfig) -> Positions:
    """Textbook double hashing, positions ``(n, k)``."""
    digests = np.frombuffer(b"".join(map(mmh3.mmh3_x64_128_digest, data)), "<u8").reshape(-1, 2)
    first, step = digests[:, 0] >> np.uint64(32), (digests[:, 1] >> np.uint64(32)) | np.uint64(1)
    index = np.arange(config.hash_functions, dtype=np.uint64)
    sums = first[:, None] + index[None, :] * step[:, None]
    positions: Positions = (sums % np.uint64(config.bits_per_shard)).astype(np.int32)
    return positions


WAYS: Ways = {
    "murmur3-md5": lambda data, config: MurmurMd5Hasher().probes(data, config)[1],
    "murmur3-double": lambda data, config: MurmurDoubleHasher().probes(data, config)[1],
    "progression": progression,
}


def false_positives(way: str, config: DeDuperConfig, keys: int, probes: int) -> tuple[int, float]:
    """How many probes were found, and how many independent positions would give at the same fill."""
    taken = np.zeros(config.bits_per_shard, np.bool_)
    taken[np.abs(WAYS[way]([b"event-%09d" % i for i in range(keys)], config))] = True
    found = 0
    for start in range(10**8, 10**8 + probes, STEP):
        positions = WAYS[way]([b"event-%09d" % i for i in range(start, start + STEP)], config)
        found += int(taken[np.abs(positions)].all(axis=1).sum())
    return found, probes * float(taken.mean()) ** config.hash_functions


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probes", type=int, default=2_000_000, help="a multiple of 200,000")
    probes = parser.parse_args().probes
    print(f"{probes:,} probes each; found / ideal, and their ratio")
    print(f"{'k':>3} {'positions':>9} {'keys':>6}  " + "".join(f"{way:>30}" for way in WAYS))
    for functions in (7, 10, 13):
        for bits in (1_000, 1_001, 1_009, 1_024, 5_000, 16_384, 30_000):
            for load in (20, 10):
                config = DeDuperConfig(hash_functions=functions, bits_per_shard=bits)
                keys = bits // load
                cells = []
                for way in WAYS:
                    found, ideal = false_positives(way, config, keys, probes)
                    ratio = f"{found / ideal:.2f}" if ideal >= 10 else "-"
                    cells.append(f"{f'{found:,} / {ideal:,.2f}':>22}{ratio:>8}")
                print(f"{functions:>3} {bits:>9,} {keys:>6,}  " + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
