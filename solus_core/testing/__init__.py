"""The public test kit: contract tests for stores, hashers and plugins, a fake clock, planned faults.

A backend's whole test is a subclass with one fixture::

    class TestMine(DataStoreContract):
        @pytest.fixture
        def open_store(self):
            return MyContext().open_data_store

What each contract wants is said in its docstring; every test cites the promise (``R1`` ... ``R27``) that it
checks. For testing an application, ``pytest_plugins = ["solus_core.testing.fixtures"]`` brings an engine in
memory and a clock that is moved by hand.
"""

from __future__ import annotations

try:
    import hypothesis as _hypothesis
    import pytest
except ImportError as missing:
    raise ImportError(
        f"solus_core.testing needs {missing.name}: pip install 'solus-core[testing]'", name=missing.name
    ) from missing

# Before the modules are imported: only then does a failed assert of the kit show its values.
pytest.register_assert_rewrite(
    *(
        f"solus_core.testing.{module}"
        for module in (
            "data_answers",
            "data_batches",
            "data_isolation",
            "data_lifetime",
            "data_races",
            "hasher",
            "lab",
            "load",
            "machine",
            "meta_store",
            "plugin",
        )
    )
)

from solus_core.testing.clock import FakeClock  # noqa: E402  # the rewriting must be asked for first
from solus_core.testing.data_store import DataStoreContract  # noqa: E402  # as above
from solus_core.testing.faults import (  # noqa: E402  # as above
    Fault,
    FaultyDataStore,
    FaultyMetaStore,
    FaultySingleProbeStore,
    Gate,
)
from solus_core.testing.hasher import HasherContract  # noqa: E402  # as above
from solus_core.testing.lab import craft, race, race_processes  # noqa: E402  # as above
from solus_core.testing.load import Load  # noqa: E402  # as above
from solus_core.testing.machine import PositionModel  # noqa: E402  # as above
from solus_core.testing.meta_store import MetaStoreContract  # noqa: E402  # as above
from solus_core.testing.plugin import PluginContract  # noqa: E402  # as above

del _hypothesis, pytest

__all__ = [
    "DataStoreContract",
    "FakeClock",
    "Fault",
    "FaultyDataStore",
    "FaultyMetaStore",
    "FaultySingleProbeStore",
    "Gate",
    "HasherContract",
    "Load",
    "MetaStoreContract",
    "PluginContract",
    "PositionModel",
    "craft",
    "race",
    "race_processes",
]
