"""Names and keys in Aerospike: of sets, records and bins.

A data record is one shard of one de-duper, its key the text ``<shard>|<client_id>|<deduper>``. In the layout ``map``
each farm has one bin of its name, a key-ordered map from position to expiry in epoch milliseconds. In the layout
``bins``, the Java library's, each position of each farm has a bin whose value is the expiry: ``<farm>#b<position>``
(V2), or what older releases of it wrote and only reading knows, ``<farm>##b_<position>_ttl`` (V1) and
``b_<position>_ttl`` (V0, of no farm).
"""

from __future__ import annotations

from typing import Final, final

from solus_aerospike.config import META_SUFFIX, SET_BYTES, AerospikeConfig
from solus_core.errors import InvalidArgumentError
from solus_core.model import Level

RECORD_TTL: Final = 315_360_000
"""The longest record TTL that Aerospike takes, in seconds: ten years of 365 days."""

BINS_OF_RECORD: Final = 32_767
"""Bins in one record at most, in Aerospike."""


@final
class RecordKeys:
    """The record keys of one de-duper's data, without namespace and set."""

    __slots__ = ("_rest",)

    def __init__(self, client_id: str, deduper: str) -> None:
        self._rest = f"|{client_id}|{deduper}"

    def __call__(self, shard: int) -> str:
        return f"{shard}{self._rest}"


def v2_bin(farm: str, position: int) -> str:
    """The bin of a position's expiry in the layout ``bins``."""
    return f"{farm}#b{position}"


def v1_bin(farm: str, position: int) -> str:
    """The bin that Java wrote before V2."""
    return f"{farm}##b_{position}_ttl"


def v0_bin(position: int) -> str:
    """The bin that Java wrote before it knew farms."""
    return f"b_{position}_ttl"


def data_set(config: AerospikeConfig, level: Level) -> str:
    """The set of the data of a level (R19)."""
    return config.set if level is Level.XDC else f"{config.farm}_{config.set}"


def meta_set(client_id: str) -> str:
    """The set of a client's registered de-dupers; ``InvalidArgumentError`` if its name would be too long (R17)."""
    name = f"{client_id}{META_SUFFIX}"
    if len(name) > SET_BYTES:
        raise InvalidArgumentError(
            f"client_id {client_id!r} has {len(client_id)} bytes, allowed are {SET_BYTES - len(META_SUFFIX)} with "
            f"Aerospike: its de-dupers are in the set <client_id>{META_SUFFIX}, and names of sets have at most "
            f"{SET_BYTES}"
        )
    return name


def meta_key(client_id: str, deduper: str) -> str:
    return f"{client_id}|{deduper}"
