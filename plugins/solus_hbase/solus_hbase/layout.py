"""Keys and values in HBase, byte for byte those of the Java library.

A data row is one shard of one de-duper: a prefix byte that spreads the rows over the regions, then
``<shard>|<client_id>|<deduper>``. In it, each position has a cell ``<position>#ttl`` whose value is its expiry in
epoch milliseconds, as a big-endian long. Rows that Java wrote before may have boolean cells, whose qualifier is
the position as a 4-byte integer; such a cell counts where the position has no ``#ttl`` cell. Ours alone is
``<position>#add``, a random token that tells who won an ``add_if_absent`` there; nobody else asks for it.
"""

from __future__ import annotations

import struct
from typing import Final, final

from solus_core.model import Level
from solus_hbase.config import HBaseConfig

DATA_FAMILY: Final = b"S"
META_FAMILY: Final = b"C"
SHARD: Final = b"shid"

LONG: Final = struct.Struct(">q")
INT: Final = struct.Struct(">i")
TOKEN_BYTES: Final = 8
_MASK: Final = 0xFFFF_FFFF


def prefixed(key: bytes) -> bytes:
    """``key`` behind its prefix byte."""
    return _prefix(_hash(1, key)) + key


def _hash(seed: int, key: bytes) -> int:
    """Java's ``h = 31 * h + b`` over signed bytes, modulo 2**32."""
    for byte in key:
        seed = seed * 31 + (byte if byte < 128 else byte - 256) & _MASK
    return seed


def _prefix(hashed: int) -> bytes:
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    # For the smallest int Java's abs answers itself, whose low byte is 0, as here.
    return bytes((abs(signed) & 0xFF,))


@final
class RowKeys:
    """The row keys of one de-duper's data. The part behind the shard is hashed once, not for every key."""

    __slots__ = ("_factor", "_rest", "_rest_hash")

    def __init__(self, client_id: str, deduper: str) -> None:
        self._rest = f"|{client_id}|{deduper}".encode(errors="replace")
        self._rest_hash = _hash(0, self._rest)
        self._factor = pow(31, len(self._rest), 2**32)

    def __call__(self, shard: int) -> bytes:
        number = b"%d" % shard
        return _prefix(_hash(1, number) * self._factor + self._rest_hash & _MASK) + number + self._rest


def qualifier(position: int) -> bytes:
    """The column of a position's expiry."""
    return b"%d#ttl" % position


def token_qualifier(position: int) -> bytes:
    """The column that tells who won at a position. It never has the four bytes of a legacy column."""
    return b"%d#add" % position


def legacy_qualifier(position: int) -> bytes:
    """The column of a position's boolean cell, as Java wrote it before ``#ttl``."""
    return INT.pack(position)


def data_table(config: HBaseConfig, level: Level) -> str:
    """The full name of the data table of a level (R19)."""
    return config.table_name(config.table if level is Level.XDC else f"{config.farm}_{config.table}")


def meta_table(config: HBaseConfig, client_id: str) -> str:
    """The full name of the table of a client's registered de-dupers."""
    return config.table_name(f"{client_id}_dedupers")


def meta_row_key(client_id: str, deduper: str) -> bytes:
    return prefixed(f"deDuperConfig|{client_id}|{deduper}".encode())


def split_keys(count: int) -> list[bytes]:
    """``count`` one-byte keys, evenly spread: for 256 those of the Java library, 0x00 to 0xff."""
    return [bytes((i * 256 // count,)) for i in range(count)]
