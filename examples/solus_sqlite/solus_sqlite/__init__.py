"""SQLite backend of Solus: ``sqlite:///path/to/file``."""

from solus_sqlite.config import SqliteConfig
from solus_sqlite.context import SqliteContext, connect
from solus_sqlite.data_store import SqliteDataStore
from solus_sqlite.meta_store import SqliteMetaStore

__all__ = ["SqliteConfig", "SqliteContext", "SqliteDataStore", "SqliteMetaStore", "connect"]
