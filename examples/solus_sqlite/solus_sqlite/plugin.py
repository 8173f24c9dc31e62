"""What solus-sqlite offers to Solus."""

from __future__ import annotations

from collections.abc import Iterable

from solus_core.config import Backend, StorageContext
from solus_core.hookspecs import hookimpl
from solus_sqlite.config import SqliteConfig, settings_from_url
from solus_sqlite.context import SqliteContext, connect
from solus_sqlite.data_store import SqliteDataStore
from solus_sqlite.meta_store import SqliteMetaStore

SOLUS_API_VERSION = 1


@hookimpl
def solus_backends() -> Iterable[Backend]:
    return [Backend("sqlite", SqliteConfig, settings_from_url, connect, "one file, for all processes of a machine")]


@hookimpl
def solus_open_data_store(context: StorageContext, client_id: str) -> SqliteDataStore | None:
    return SqliteDataStore(context, client_id) if isinstance(context, SqliteContext) else None


@hookimpl
def solus_open_meta_store(context: StorageContext, client_id: str) -> SqliteMetaStore | None:
    return SqliteMetaStore(context, client_id) if isinstance(context, SqliteContext) else None
