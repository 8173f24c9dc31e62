"""The contract classes on every mutant. Collected by kit_runner.py only: these tests have to fail."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import mutants_data_add
import mutants_data_keep
import mutants_hasher
import mutants_meta
import mutants_plugin
import pytest
from hypothesis import Phase, settings
from test_kit_reference import MemoryState, ReferenceMetaStore, ReferenceStore

from solus_core.stores import DataStore, Hasher, MetaStore
from solus_core.testing import DataStoreContract, HasherContract, MetaStoreContract, PluginContract

# That a counter-example is found is enough; to make it short takes most of the time.
settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), database=None, derandomize=True)
settings.load_profile("mutants")


def _data(kind: Any) -> type:
    class OfStore(DataStoreContract):
        big_batch = 2_000

        @pytest.fixture
        def open_store(self) -> Callable[[str, str], DataStore]:
            state = MemoryState()
            return lambda client_id, farm: kind(state, client_id, farm)

    return OfStore


def _meta(kind: Any) -> type:
    class OfMetaStore(MetaStoreContract):
        @pytest.fixture
        def open_store(self) -> Callable[[str], MetaStore]:
            state = MemoryState()
            return lambda client_id: kind(state, client_id)

    return OfMetaStore


def _hasher(kind: Any) -> type:
    class OfHasher(HasherContract):
        @pytest.fixture
        def hasher(self) -> Hasher:
            hasher: Hasher = kind()
            return hasher

    return OfHasher


def _plugin(plugin: Any) -> type:
    class OfPlugin(PluginContract):
        scheme = plugin.scheme
        # Discovery is of all plugins at once: only one of them is to blame for it.
        drivers = ("sqlite3",) if isinstance(plugin, mutants_plugin.ImportsDriver) else ()

        @pytest.fixture
        def target(self) -> str:
            return f"{plugin.scheme}://?name=y"

    return OfPlugin


def _kinds(module: ModuleType, base: type) -> list[type]:
    found = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)]
    return [kind for kind in found if kind is not base]


for _module in (mutants_data_add, mutants_data_keep):
    for _kind in _kinds(_module, ReferenceStore):
        globals()[f"Test{_kind.__name__}"] = _data(_kind)
for _kind in _kinds(mutants_meta, ReferenceMetaStore):
    globals()[f"Test{_kind.__name__}"] = _meta(_kind)
for _kind in _kinds(mutants_hasher, mutants_hasher.Delegating):
    globals()[f"Test{_kind.__name__}"] = _hasher(_kind)
for _each in mutants_plugin.PLUGINS:
    globals()[f"Test{type(_each).__name__}"] = _plugin(_each)
