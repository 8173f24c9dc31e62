"""A registered de-duper as a row of the meta table.

The columns ``name hf sh bps a level ctime utime`` are the Java library's. Ours beside them, which Java ignores:
``expiry`` (long, seconds), ``hasher`` and ``layout`` (text), ``keys`` (long). Rows that Java wrote have none of
ours: the default expiry, the hasher that Java has, and the layout that Java writes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from attrs import asdict

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DEFAULT_EXPIRY_SECONDS, DeDuper, DeDuperConfig, Level
from solus_hbase.config import JAVA
from solus_hbase.gateway.base import Cells, Pairs
from solus_hbase.layout import INT, LONG

NAME: Final = b"name"
ACTIVE: Final = b"a"
UPDATED: Final = b"utime"
CLAIM: Final = b"claim"
"""The whole record as JSON, written first where a gateway can't write several cells atomically."""

YES: Final = b"\xff"
NO: Final = b"\x00"
JAVA_HASHER: Final = "murmur3-md5"

_COLUMNS: Final = (b"name", b"hf", b"sh", b"bps", b"a", b"level", b"ctime", b"utime")
_OURS: Final = (b"expiry", b"hasher", b"layout", b"keys")
COLUMNS: Final = (*_COLUMNS, *_OURS, CLAIM)


def encode(deduper: DeDuper) -> Pairs:
    """All cells of a record but the claim."""
    config = deduper.config
    return [
        (b"name", deduper.name.encode()),
        (b"hf", INT.pack(config.hash_functions)),
        (b"sh", LONG.pack(config.shards)),
        (b"bps", INT.pack(config.bits_per_shard)),
        *activity(deduper.active, deduper.updated_at),
        (b"level", config.level.value.encode()),
        (b"ctime", LONG.pack(deduper.created_at)),
        (b"expiry", LONG.pack(config.expiry_seconds)),
        (b"hasher", deduper.hasher.encode()),
        # An empty value and an absent cell can't be told apart by everyone.
        (b"layout", (deduper.layout or "-").encode()),
        (b"keys", LONG.pack(deduper.planned_keys)),
    ]


def activity(active: bool, updated_at: int) -> Pairs:
    """The cells that change when a de-duper is registered again or unregistered."""
    return [(ACTIVE, YES if active else NO), (UPDATED, LONG.pack(updated_at))]


def decode(client_id: str, cells: Cells, row: str) -> DeDuper:
    """The record that a row with a name holds; one that can't be read is a ``StoreError``."""
    values = {name: cell[0] for name, cell in cells.items()}
    try:
        layout = values[b"layout"].decode() if b"layout" in values else JAVA
        return DeDuper(
            name=values[b"name"].decode(),
            client_id=client_id,
            config=DeDuperConfig(
                hash_functions=INT.unpack(values[b"hf"])[0],
                shards=LONG.unpack(values[b"sh"])[0],
                bits_per_shard=INT.unpack(values[b"bps"])[0],
                level=Level(values[b"level"].decode()),
                expiry_seconds=_long(values, b"expiry", DEFAULT_EXPIRY_SECONDS),
            ),
            hasher=values[b"hasher"].decode() if b"hasher" in values else JAVA_HASHER,
            layout="" if layout == "-" else layout,
            active=values.get(ACTIVE) == YES,
            planned_keys=_long(values, b"keys", 0),
            created_at=_long(values, b"ctime", 0),
            updated_at=_long(values, UPDATED, 0),
        )
    except Exception as error:
        raise StoreError(
            ErrorCode.HBASE_ERROR,
            f"row {row} of the de-dupers of client {client_id!r} can't be read: {type(error).__name__}: {error}",
        ) from error


def encode_claim(deduper: DeDuper) -> bytes:
    """The whole record in one value."""
    return json.dumps(asdict(deduper), default=str).encode()


def decode_claim(value: bytes) -> DeDuper:
    """The record in a claim."""
    fields: dict[str, Any] = json.loads(value)
    config: dict[str, Any] = fields.pop("config")
    return DeDuper(config=DeDuperConfig(**{**config, "level": Level(config["level"])}), **fields)


def _long(values: dict[bytes, bytes], name: bytes, default: int) -> int:
    return int(LONG.unpack(values[name])[0]) if name in values else default
