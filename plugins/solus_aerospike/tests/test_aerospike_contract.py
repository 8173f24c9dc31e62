"""The contract kit on the server of these tests: both layouts, alone and with other farms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from solus_aerospike import AerospikeConfig, AerospikeContext, connect
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.meta_store import AerospikeMetaStore
from solus_core.model import DeDuper
from solus_core.stores import DataStore
from solus_core.testing import DataStoreContract
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.data_batches import BatchesContract
from solus_core.testing.data_isolation import IsolationContract
from solus_core.testing.lab import Lab, OpenStore

# The server counts storage expiry by its own clock.
NOW = time.time_ns() // 1_000_000


class RegisteringLab:
    """A ``Lab`` whose de-dupers are registered, by every farm that takes part: that is how farms know of each other."""

    def __init__(self, lab: Lab, contexts: Callable[[str], AerospikeContext], farms: tuple[str, ...]) -> None:
        self._lab = lab
        self._contexts = contexts
        self._farms = dict.fromkeys(farms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab, name)

    def open(self, client_id: str | None = None, farm: str = "dc1") -> DataStore:
        self._farms[farm] = None
        return self._lab.open(client_id, farm)

    def deduper(self, *arguments: Any, **settings: Any) -> DeDuper:
        made = self._lab.deduper(*arguments, **settings)
        for farm in self._farms:
            AerospikeMetaStore(self._contexts(farm), made.client_id).create(made)
        return made


class OnServer(DataStoreCase):
    """Stores on the server of these tests."""

    start = NOW
    examples = 20
    steps = 20
    big_batch = 5_000
    layout = "map"
    farms: ClassVar[tuple[str, ...]] = ("dc1",)

    @pytest.fixture
    def contexts(
        self, aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str
    ) -> Iterator[Callable[[str], AerospikeContext]]:
        """The context of a farm."""
        opened: dict[str, AerospikeContext] = {}

        def of(farm: str) -> AerospikeContext:
            if farm not in opened:
                hosts = ",".join(f"{host}:{port}" for host, port in aerospike_hosts)
                opened[farm] = connect(
                    AerospikeConfig(
                        hosts=hosts,
                        namespace=aerospike_namespace,
                        set=aerospike_set,
                        farm=farm,
                        layout=self.layout,
                        timeout=15,
                        attempts=20,
                    )
                )
            return opened[farm]

        yield of
        for context in opened.values():
            context.close()

    @pytest.fixture
    def open_store(self, contexts: Callable[[str], AerospikeContext]) -> OpenStore:
        return lambda client_id, farm: AerospikeDataStore(contexts(farm), client_id)

    @pytest.fixture
    def lab(self, open_store: OpenStore, contexts: Callable[[str], AerospikeContext]) -> Iterator[RegisteringLab]:
        lab = Lab(open_store, self.start)
        yield RegisteringLab(lab, contexts, self.farms)
        lab.close_all()


class TestMap(OnServer, DataStoreContract):
    pass


@pytest.mark.thorough
class TestBins(OnServer, DataStoreContract):
    layout = "bins"
    examples = 10
    big_batch = 1_000


@pytest.mark.thorough
class TestMapAmongFarms(OnServer, BatchesContract, IsolationContract):
    """Every answer is found in the maps of three farms."""

    farms = ("dc1", "dc2", "a-farm-of-12")
    examples = 10
    big_batch = 1_000


@pytest.mark.thorough
class TestBinsAmongFarms(OnServer, BatchesContract, IsolationContract):
    layout = "bins"
    farms = ("dc1", "dc-345")
    examples = 6
    steps = 12
    big_batch = 300
