"""Hashers that are each wrong in one way; the kit must refuse every one. Run by kit_runner.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from solus_core.hashing import MurmurDoubleHasher
from solus_core.model import DeDuperConfig


class Delegating:
    name = "mutant"

    def shard(self, data: bytes, config: DeDuperConfig) -> int:
        return MurmurDoubleHasher().probe(data, config)[0]

    def places(self, data: bytes, config: DeDuperConfig) -> Sequence[int]:
        return MurmurDoubleHasher().probe(data, config)[1]

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        return self.shard(data, config), self.places(data, config)

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        rows = [self.probe(item, config) for item in data]
        positions = np.array([row for _, row in rows], np.int32).reshape(-1, config.hash_functions)
        return np.array([shard for shard, _ in rows], np.int64), positions


class BuiltinHash(Delegating):
    """The interpreter's own hash, which differs by process."""

    def shard(self, data: bytes, config: DeDuperConfig) -> int:
        return hash(data) % config.shards


class Strides(Delegating):
    """Double hashing whose stride may be 0 or share a factor with the number of positions."""

    def places(self, data: bytes, config: DeDuperConfig) -> Sequence[int]:
        first, second = mmh3.hash64(data, signed=False)
        stride = second % 64 * 16
        return [(first + i * stride) % config.bits_per_shard for i in range(config.hash_functions)]


class BatchDiffers(Delegating):
    """The batch form hashes with another seed."""

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return super().probes([item + b"\0" for item in data], config)


class IgnoresTails(Delegating):
    """Only the first 16 bytes count."""

    def shard(self, data: bytes, config: DeDuperConfig) -> int:
        return super().shard(data[:16], config)


class UnevenShards(Delegating):
    """A hash of too few bits for the shards."""

    def shard(self, data: bytes, config: DeDuperConfig) -> int:
        return mmh3.hash(data, signed=False) % (config.shards // 2)


class BeyondTheLimit(Delegating):
    """Positions reach the number of positions itself."""

    def places(self, data: bytes, config: DeDuperConfig) -> Sequence[int]:
        return [position + 1 for position in super().places(data, config)]


class OddName(Delegating):
    """A name that can't be told from two."""

    name = "murmur, a new one"


class NumpyNumbers(Delegating):
    """One probe is made of numpy's numbers."""

    def shard(self, data: bytes, config: DeDuperConfig) -> int:
        number: Any = np.int64(super().shard(data, config))
        return number  # type: ignore[no-any-return]  # the fault


class StripsZeros(Delegating):
    """Zeros at the end don't count, as in a C string."""

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        return super().probe(data.rstrip(b"\0"), config)


class NoRowsNoColumns(Delegating):
    """No keys give an array without columns."""

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        shards, positions = super().probes(data, config)
        return (shards, positions) if len(data) else (shards, positions[:, :0])


class Chained(Delegating):
    """Each key's hash depends on the one before it."""

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        shards, positions = super().probes(data, config)
        return (shards + np.arange(len(data))) % config.shards, positions
