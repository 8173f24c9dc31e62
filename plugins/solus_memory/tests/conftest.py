"""What the tests of this package share: small de-dupers and hand-made probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.stores import Probes


@pytest.fixture(scope="session")
def tiny() -> Callable[..., DeDuperConfig]:
    """Makes configs smaller than users may have: tables that fill up within a test."""

    def make(shards: int, bits: int, *, expiry_seconds: int = 864_000) -> DeDuperConfig:
        config = DeDuperConfig(expiry_seconds=expiry_seconds)
        object.__setattr__(config, "shards", shards)
        object.__setattr__(config, "bits_per_shard", bits)
        return config

    return make


@pytest.fixture(scope="session")
def deduper() -> Callable[..., DeDuper]:
    def make(name: str = "orders", client_id: str = "shop", *, level: Level = Level.XDC) -> DeDuper:
        return DeDuper(name=name, client_id=client_id, config=DeDuperConfig(level=level))

    return make


@pytest.fixture(scope="session")
def probes() -> Callable[..., Probes]:
    """Makes probes of rows, each a shard and its positions."""

    def make(of: DeDuper, *rows: tuple[int, Sequence[int]]) -> Probes:
        shards = np.array([shard for shard, _ in rows], np.int64)
        positions = np.array([list(row) for _, row in rows], np.int32).reshape(len(rows), -1)
        return Probes(of, shards, positions)

    return make
