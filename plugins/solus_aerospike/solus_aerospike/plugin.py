"""What solus-aerospike offers to Solus."""

from __future__ import annotations

from collections.abc import Iterable

from solus_aerospike.config import AerospikeConfig, settings_from_url
from solus_aerospike.context import AerospikeContext, connect
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.meta_store import AerospikeMetaStore
from solus_core.config import Backend, StorageContext
from solus_core.hookspecs import hookimpl

SOLUS_API_VERSION = 1


@hookimpl
def solus_backends() -> Iterable[Backend]:
    return [Backend("aerospike", AerospikeConfig, settings_from_url, connect, "Aerospike, through its Python client")]


@hookimpl
def solus_open_data_store(context: StorageContext, client_id: str) -> AerospikeDataStore | None:
    return AerospikeDataStore(context, client_id) if isinstance(context, AerospikeContext) else None


@hookimpl
def solus_open_meta_store(context: StorageContext, client_id: str) -> AerospikeMetaStore | None:
    return AerospikeMetaStore(context, client_id) if isinstance(context, AerospikeContext) else None
