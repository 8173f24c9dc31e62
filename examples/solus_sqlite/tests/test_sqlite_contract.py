"""The whole contract kit on the SQLite backend; all that it takes is where the store is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from solus_core.stores import DataStore, MetaStore
from solus_core.testing import DataStoreContract, MetaStoreContract, PluginContract
from solus_sqlite import SqliteConfig, SqliteContext, SqliteDataStore, SqliteMetaStore, connect

Connect = Callable[[str], SqliteContext]


@pytest.fixture
def context_of(tmp_path: Path) -> Iterator[Connect]:
    """``context_of(farm)``: one more context on this test's file; all are closed at the end."""
    with ExitStack() as opened:
        path = str(tmp_path / "solus.db")
        yield lambda farm: opened.enter_context(closing(connect(SqliteConfig(path=path, farm=farm))))


class TestSqliteDataStore(DataStoreContract):
    @pytest.fixture
    def open_store(self, context_of: Connect) -> Callable[[str, str], DataStore]:
        return lambda client_id, farm: SqliteDataStore(context_of(farm), client_id)


class TestSqliteMetaStore(MetaStoreContract):
    @pytest.fixture
    def open_store(self, context_of: Connect) -> Callable[[str], MetaStore]:
        return lambda client_id: SqliteMetaStore(context_of("dc1"), client_id)


class TestSqlitePlugin(PluginContract):
    scheme = "sqlite"

    @pytest.fixture
    def target(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/solus.db?farm=dc1"
