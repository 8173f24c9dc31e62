"""Fixtures for the tests of an application: ``pytest_plugins = ["solus_core.testing.fixtures"]``.

def test_my_handler(solus_engine, solus_clock, solus_faults):
    solus_engine.register("orders")
    ...
    solus_clock.advance(timedelta(days=11))
    ...
    solus_faults.data.plan(Fault("add", error=StoreError(ErrorCode.HBASE_ERROR, "gone")))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import pytest

from solus_core.config import StorageContext
from solus_core.engine import SolusEngine
from solus_core.hookspecs import API_VERSION, hookimpl
from solus_core.plugins import PluginManager
from solus_core.stores import DataStore, MetaStore, SingleProbeStore
from solus_core.testing.clock import FakeClock
from solus_core.testing.faults import FaultyDataStore, FaultyMetaStore, FaultySingleProbeStore

_CLIENT_ID: Final = "test"


@final
class SolusFaults(StorageContext):
    """The stores below ``solus_engine``: plan faults for ``data`` and ``meta``, read their ``calls``."""

    __slots__ = ("data", "meta", "plugins")

    def __init__(self, plugins: PluginManager, data: DataStore, meta: MetaStore) -> None:
        single = isinstance(data, SingleProbeStore)
        self.data = FaultySingleProbeStore(data) if single else FaultyDataStore(data)
        self.meta = FaultyMetaStore(meta)
        self.plugins = plugins


@final
class _FaultsPlugin:
    """Hands an engine the stores of a :class:`SolusFaults`."""

    SOLUS_API_VERSION = API_VERSION

    @hookimpl
    def solus_open_data_store(self, context: StorageContext) -> DataStore | None:
        return context.data if isinstance(context, SolusFaults) else None

    @hookimpl
    def solus_open_meta_store(self, context: StorageContext) -> MetaStore | None:
        return context.meta if isinstance(context, SolusFaults) else None


@pytest.fixture
def solus_clock() -> FakeClock:
    """The clock of ``solus_engine``; it stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def solus_faults() -> Iterator[SolusFaults]:
    """The stores of ``solus_engine``, in memory and empty; without planned faults they just work."""
    plugins = PluginManager.load()
    plugins.register(_FaultsPlugin(), "solus-testing-faults")
    memory = plugins.connect(plugins.config_of("memory://"))
    yield SolusFaults(plugins, plugins.open_data_store(memory, _CLIENT_ID), plugins.open_meta_store(memory, _CLIENT_ID))
    memory.close()


@pytest.fixture
def solus_engine(solus_faults: SolusFaults, solus_clock: FakeClock) -> Iterator[SolusEngine]:
    """An engine of client id ``test``, in memory (needs solus-memory), empty, on ``solus_clock``."""
    with SolusEngine.open(
        solus_faults, client_id=_CLIENT_ID, clock=solus_clock, plugins=solus_faults.plugins
    ) as engine:
        yield engine
