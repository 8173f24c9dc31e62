"""Times, de-dupers, records and probes that several test modules use."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from solus_aerospike.data_store import AerospikeDataStore
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stores import Probes
from solus_core.testing import craft

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
BOTH = pytest.mark.parametrize("layout", ["map", "bins"])


def orders(client_id: str, layout: str, **config: Any) -> DeDuper:
    return DeDuper(name="orders", client_id=client_id, config=DeDuperConfig(**config), layout=layout)


def deduper(layout: str = "map", **config: Any) -> DeDuper:
    """A new one, for the stores that the fixture ``opened`` makes."""
    return DeDuper(name=uuid.uuid4().hex, client_id="faults", config=DeDuperConfig(**config), layout=layout)


def with_farms_known(store: AerospikeDataStore, of: DeDuper) -> DeDuper:
    """So that the calls that are counted, or go wrong, are those of the verb."""
    store.add(craft(of), NOW, NOW)
    return of


def batch(of: DeDuper) -> Probes:
    """Seven rows, of which the last asks for the entity of the first."""
    return craft(of, *((shard, (1, 2, 3)) for shard in range(6)), (0, (3, 2, 1)))


def java(of: str, **changes: object) -> dict[str, object]:
    """The bins that the Java library writes for one farm when it registers ``offers``; None leaves one out."""
    fields: dict[str, object] = {"name": "offers", "hashFns": 9, "shards": 2_000_000, "bps": 3_000, "active": True}
    fields |= {"level": "XDC", "updated": 1_700_000_000_000, "farm": True} | changes
    return {f"{of}##{field}": value for field, value in fields.items() if value is not None}
