"""A registered de-duper as a record: what each farm has recorded of it.

In the layout ``bins`` the record has bins ``<farm>##<field>`` as the Java library writes them; the fields ``name
hashFns shards bps active level updated farm`` are its own. Ours beside them, which Java ignores: ``expiry``
(seconds), ``hasher``, ``layout``, ``created``, ``keys``. What Java wrote has none of ours: the default expiry, the
hasher that Java has, and its layout. In any other layout each farm has the same fields in a map, in a bin of its
name, and Java finds nothing of its own in the record.

The farm that changed the record last decides; what it lacks is taken from the others. A farm writes no other's bins,
but to make it active: where clusters send each other what changed, by bin, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from attrs import frozen

from solus_aerospike.config import BINS
from solus_aerospike.context import AerospikeContext
from solus_aerospike.layout import meta_key, meta_set
from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DEFAULT_EXPIRY_SECONDS, DeDuper, DeDuperConfig, Level

_MARK: Final = "##"
_JAVA_HASHER: Final = "murmur3-md5"

Fields = Mapping[str, Any]
"""What one farm has recorded."""


@final
@frozen
class MetaRecord:
    """``farms``: what each of them has recorded. ``in_bins``: as Java writes it. ``generation``: None if not stored."""

    farms: Mapping[str, Fields]
    in_bins: bool
    generation: int | None


def bins_of(farms: Mapping[str, Fields], *, in_bins: bool) -> dict[str, Any]:
    """The bins with what these farms record."""
    if not in_bins:
        return dict(farms)
    return {f"{farm}{_MARK}{field}": value for farm, fields in farms.items() for field, value in fields.items()}


def parse(bins: Mapping[str, Any], generation: int) -> MetaRecord:
    """What a record holds. Java may have added bins to one of ours: it has not read it, and does not decide."""
    ours: dict[str, Fields] = {}
    javas: dict[str, dict[str, Any]] = {}
    for name, value in bins.items():
        farm, mark, field = name.partition(_MARK)
        if mark:
            javas.setdefault(farm, {})[field] = value
        elif isinstance(value, Mapping):
            ours[farm] = value
    return MetaRecord(ours or javas, not ours, generation)


def encode(deduper: DeDuper) -> dict[str, Any]:
    """What one farm records."""
    config = deduper.config
    return {
        "name": deduper.name,
        "hashFns": config.hash_functions,
        "shards": config.shards,
        "bps": config.bits_per_shard,
        "active": deduper.active,
        "level": config.level.value,
        "updated": deduper.updated_at,
        "farm": True,
        "expiry": config.expiry_seconds,
        "hasher": deduper.hasher,
        "layout": deduper.layout,
        "created": deduper.created_at,
        "keys": deduper.planned_keys,
    }


def decode(client_id: str, name: str, record: MetaRecord) -> DeDuper:
    """The de-duper of a record; one that can't be read is a ``StoreError``."""
    try:
        values: dict[str, Any] = {}
        for _, fields in sorted(record.farms.items(), key=lambda item: (item[1].get("updated", 0), item[0])):
            values |= fields
        if not values.setdefault("name", name):
            raise ValueError("it has no name")
        said = [fields["active"] for fields in record.farms.values() if "active" in fields]
        return DeDuper(
            name=values["name"],
            client_id=client_id,
            config=DeDuperConfig(
                hash_functions=values["hashFns"],
                shards=values["shards"],
                bits_per_shard=values["bps"],
                level=Level(values.get("level", Level.XDC)),
                expiry_seconds=values.get("expiry", DEFAULT_EXPIRY_SECONDS),
            ),
            hasher=values.get("hasher", _JAVA_HASHER),
            layout=values.get("layout", BINS),
            # Java reads a bin that is missing as false.
            active=bool(said) and all(said),
            planned_keys=values.get("keys", 0),
            created_at=values.get("created", 0),
            updated_at=values.get("updated", 0),
        )
    except Exception as error:
        raise StoreError(
            ErrorCode.AEROSPIKE_ERROR,
            f"what is recorded of de-duper {name!r} can't be read: {type(error).__name__}: {error}",
        ) from error


def fetch(context: AerospikeContext, client_id: str, name: str) -> MetaRecord | None:
    """The record of a name as it is stored now."""
    from aerospike.exception import RecordNotFound  # noqa: PLC0415  # no driver before a store is opened

    key = (context.config.namespace, meta_set(client_id), meta_key(client_id, name))
    try:
        _, meta, bins = context.caller.read(
            f"reading de-duper {name!r}", lambda: context.client.get(key, context.reading())
        )
    except RecordNotFound:
        return None
    return parse(bins, meta["gen"])
