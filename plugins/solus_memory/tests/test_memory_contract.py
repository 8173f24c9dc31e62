"""The whole contract kit on the in-memory backend: stores in this process and in a file."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from solus_core.stores import DataStore, MetaStore
from solus_core.testing import DataStoreContract, MetaStoreContract, PluginContract
from solus_memory.config import MemoryConfig
from solus_memory.context import connect
from solus_memory.data_store import MemoryDataStore
from solus_memory.meta_store import MemoryMetaStore


class TestMemoryDataStore(DataStoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[str, str], DataStore]:
        name = uuid.uuid4().hex
        return lambda client_id, farm: MemoryDataStore(connect(MemoryConfig(name=name, farm=farm)), client_id)


class TestMemoryMetaStore(MetaStoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[str], MetaStore]:
        name = uuid.uuid4().hex
        return lambda client_id: MemoryMetaStore(connect(MemoryConfig(name=name)), client_id)


class TestSharedByName(PluginContract):
    scheme = "memory"

    @pytest.fixture
    def target(self) -> str:
        return f"memory://?name={uuid.uuid4().hex}"


class TestOwn(PluginContract):
    scheme = "memory"
    not_shared = "memory:// is a store of its own for each engine"
    not_durable = "memory:// ends with its engine"

    @pytest.fixture
    def target(self) -> str:
        return "memory://"


class TestInAFile(PluginContract):
    scheme = "memory"
    not_shared = "a file is locked while an engine has it open"

    @pytest.fixture
    def target(self, tmp_path: Path) -> str:
        return f"memory://{tmp_path}/state"
