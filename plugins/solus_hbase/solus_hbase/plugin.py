"""What solus-hbase offers to Solus."""

from __future__ import annotations

from collections.abc import Iterable

from solus_core.config import Backend, StorageContext
from solus_core.hookspecs import hookimpl
from solus_hbase.config import HBaseConfig, settings_from_url
from solus_hbase.context import HBaseContext, connect
from solus_hbase.data_store import HBaseDataStore
from solus_hbase.meta_store import HBaseMetaStore

SOLUS_API_VERSION = 1


@hookimpl
def solus_backends() -> Iterable[Backend]:
    return [Backend("hbase", HBaseConfig, settings_from_url, connect, "HBase 2, through its Thrift server")]


@hookimpl
def solus_open_data_store(context: StorageContext, client_id: str) -> HBaseDataStore | None:
    return HBaseDataStore(context, client_id) if isinstance(context, HBaseContext) else None


@hookimpl
def solus_open_meta_store(context: StorageContext, client_id: str) -> HBaseMetaStore | None:
    return HBaseMetaStore(context, client_id) if isinstance(context, HBaseContext) else None
