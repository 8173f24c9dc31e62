"""What solus-memory offers to Solus."""

from __future__ import annotations

from collections.abc import Iterable

from solus_core.config import Backend, StorageContext
from solus_core.hookspecs import hookimpl
from solus_memory.config import MemoryConfig, settings_from_url
from solus_memory.context import MemoryContext, connect
from solus_memory.data_store import MemoryDataStore
from solus_memory.meta_store import MemoryMetaStore

SOLUS_API_VERSION = 1


@hookimpl
def solus_backends() -> Iterable[Backend]:
    return [Backend("memory", MemoryConfig, settings_from_url, connect, "in this process, or kept in a file")]


@hookimpl
def solus_open_data_store(context: StorageContext, client_id: str) -> MemoryDataStore | None:
    return MemoryDataStore(context, client_id) if isinstance(context, MemoryContext) else None


@hookimpl
def solus_open_meta_store(context: StorageContext, client_id: str) -> MemoryMetaStore | None:
    return MemoryMetaStore(context, client_id) if isinstance(context, MemoryContext) else None
