"""The built-in hashers, registered as a plugin like anybody else's.

``murmur3-md5`` is the Java library's algorithm, bit for bit. ``murmur3-double`` is several times faster and for
de-dupers that no Java service shares.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, TypeVar, final

import numpy as np
from mmh3 import mmh3_x64_128_digest, mmh3_x64_128_stupledigest, mmh3_x64_128_utupledigest
from numpy.typing import NDArray

from solus_core.hookspecs import hookimpl
from solus_core.md5 import LONGEST, salted_md5
from solus_core.model import HASH_FUNCTIONS, DeDuperConfig
from solus_core.stores import Hasher

try:  # The interpreter's own takes half the time of OpenSSL's for so few bytes, and no security policy forbids it.
    from _md5 import md5  # type: ignore[import-not-found]  # there is no stub for it
except ImportError:  # a build without it
    md5 = partial(hashlib.md5, usedforsecurity=False)

SOLUS_API_VERSION = 1

Unsigned = TypeVar("Unsigned", np.uint32, np.uint64)

_INTS_A_DIGEST: Final = 4
_MIN_32: Final = -(2**31)
_MIN_64: Final = -(2**63)
_INTS: Final = [struct.Struct(f">{count}i") for count in range(HASH_FUNCTIONS[-1] + 1)]
_SALTS: Final = [bytes((salt,)) for salt in range(-(-HASH_FUNCTIONS[-1] // _INTS_A_DIGEST))]
_WORD: Final = np.uint64(32)
_LOW_WORD: Final = np.uint64(0xFFFFFFFF)


def java_abs_mod(value: int, modulus: int, minimum: int) -> int:
    """``Math.abs(value) % modulus`` as Java computes it: the absolute value of the minimum overflows."""
    return -(-minimum % modulus) if value == minimum else abs(value) % modulus


@final
class MurmurMd5Hasher:
    """The Java library's hashing.

    Shard: Java's abs-mod of the signed first 64 bits of murmur3 x64 128 (seed 0). Positions: for salts 0, 1, 2,
    ... the four big-endian signed ints of MD5(salt byte, data), until there are enough, each by Java's abs-mod.
    Both can be negative, about once in 4e9 ints. Source: the vectors that the Java code computed, in tests.
    """

    __slots__ = ()
    name = "murmur3-md5"

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        """Shard and positions of one entity."""
        shard = java_abs_mod(mmh3_x64_128_stupledigest(data)[0], config.shards, _MIN_64)
        bits, count = config.bits_per_shard, config.hash_functions
        salts = _SALTS[: -(-count // _INTS_A_DIGEST)]
        digests = b"".join([md5(salt + data).digest() for salt in salts])
        ints = _INTS[count].unpack_from(digests)
        if _MIN_32 in ints:
            return shard, [java_abs_mod(value, bits, _MIN_32) for value in ints]
        return shard, [abs(value) % bits for value in ints]

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Shards ``(n,)`` and positions ``(n, k)`` of many."""
        salts = -(-config.hash_functions // _INTS_A_DIGEST)
        ints = np.empty((salts * _INTS_A_DIGEST, len(data)), np.int32)
        short = [row for row, item in enumerate(data) if len(item) <= LONGEST]
        if len(short) == len(data):
            salted_md5(data, salts, ints)
        else:
            some = np.empty((len(ints), len(short)), np.int32)
            salted_md5([data[row] for row in short], salts, some)
            ints[:, short] = some
            for row, item in enumerate(data):
                if len(item) > LONGEST:
                    digests = [md5(salt + item).digest() for salt in _SALTS[:salts]]
                    ints[:, row] = np.frombuffer(b"".join(digests), ">i4")
        # np.abs of the minimum overflows and np.fmod takes the dividend's sign: both as Java does.
        positions = np.fmod(np.abs(ints[: config.hash_functions]), np.int32(config.bits_per_shard))
        first = _murmur3(data).view("<i8")[:, 0]
        return np.fmod(np.abs(first), np.int64(config.shards)), positions.T


@final
class MurmurDoubleHasher:
    """One 128-bit murmur3 for everything: the fast hasher.

    Shard: the first 64 bits modulo the shards. Position ``i``: with ``a`` and ``c`` the high and low 32 bits of
    the other 64, ``((a * A[i] + c * C[i]) mod 2**64 >> 32) mod bits``, ``A`` and ``C`` fixed odd 64-bit numbers.

    Textbook double hashing (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006) has ``h1 + i*h2``:
    arithmetic progressions, of which a shard of 1,000 positions has only 500,000 different ones, so that the
    false-positive rate can't fall below some 1e-4 whatever ``k`` is; and strides that share a factor with the
    number of positions visit few of them. A multiplier of its own for each ``i`` costs the same and has neither
    fault; ``benchmarks/hashing_quality.py`` measures both.
    """

    __slots__ = ()
    name = "murmur3-double"

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        """Shard and positions of one entity."""
        first, second = mmh3_x64_128_utupledigest(data)
        bits = config.bits_per_shard
        high, low, size, words = _LANES[config.hash_functions]
        # All k sums in two multiplications: each has a lane of 128 bits to itself, so none carries into another.
        sums = (second >> 32) * high + (second & 0xFFFFFFFF) * low
        return first % config.shards, [word % bits for word in words.unpack(sums.to_bytes(size, "little"))]

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Shards ``(n,)`` and positions ``(n, k)`` of many."""
        digests = _murmur3(data)
        second = np.ascontiguousarray(digests[:, 1])
        high, low = second >> _WORD, second & _LOW_WORD
        # One row for each hash function: numpy is fast along rows. What is answered is the transposed view.
        positions = np.empty((config.hash_functions, len(data)), np.int32)
        bits = np.uint32(config.bits_per_shard)
        for i, (a, c) in enumerate(_MULTIPLIERS[: config.hash_functions]):
            sums = high * np.uint64(a)
            sums += low * np.uint64(c)
            sums >>= _WORD
            positions[i] = _modulo(sums.astype(np.uint32), bits)
        return _modulo(digests[:, 0], np.uint64(config.shards)).astype(np.int64), positions.T


def _murmur3(data: Sequence[bytes]) -> NDArray[np.uint64]:
    """The 128-bit digests of many, shape ``(n, 2)``."""
    return np.frombuffer(b"".join(map(mmh3_x64_128_digest, data)), "<u8").reshape(-1, 2)


def _modulo(values: NDArray[Unsigned], modulus: Unsigned) -> NDArray[Unsigned]:
    """``values % modulus``, five times as fast: numpy divides by a number vectorised, but takes remainders singly."""
    remainders: NDArray[Unsigned] = values - values // modulus * modulus
    return remainders


def _multipliers(count: int) -> list[tuple[int, int]]:
    """Odd 64-bit numbers without a pattern: splitmix64 from 0 (Steele, Lea, Flood: "Fast splittable ...", 2014)."""
    mask, state, numbers = 2**64 - 1, 0, []
    for _ in range(2 * count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append((mixed ^ (mixed >> 31)) | 1)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


_MULTIPLIERS: Final = _multipliers(HASH_FUNCTIONS[-1])


def _lanes(count: int) -> tuple[int, int, int, struct.Struct]:
    """``count`` multipliers side by side in lanes of 128 bits, and how to read bits 32..63 of each lane back."""
    high = sum(a << (128 * i) for i, (a, _) in enumerate(_MULTIPLIERS[:count]))
    low = sum(c << (128 * i) for i, (_, c) in enumerate(_MULTIPLIERS[:count]))
    return high, low, 16 * count, struct.Struct("<" + "4xI8x" * count)


_LANES: Final = [_lanes(count) for count in range(HASH_FUNCTIONS[-1] + 1)]


@hookimpl
def solus_hashers() -> Iterable[Hasher]:
    """The two hashers of the core."""
    return (MurmurMd5Hasher(), MurmurDoubleHasher())
