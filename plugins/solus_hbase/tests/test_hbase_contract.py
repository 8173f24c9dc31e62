"""The contract kit on a real HBase: both gateways, both layouts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from solus_core.stores import DataStore, MetaStore
from solus_core.testing import DataStoreContract, MetaStoreContract, PluginContract
from solus_hbase import Gateway, HBaseConfig, HBaseContext, HBaseDataStore, HBaseMetaStore, connect
from solus_hbase.dev_server import HBaseServer

# HBase counts storage expiry by its own clock.
NOW = time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def gateways(hbase_server: HBaseServer) -> Iterator[dict[int, Gateway]]:
    """One for each Thrift interface, shared by all tests: tests don't wait for connections to be opened."""
    contexts = {
        kind: connect(HBaseConfig(hosts=f"{hbase_server.host}:{hbase_server.port(kind)}", table="unused"))
        for kind in (1, 2)
    }
    yield {kind: context.gateway for kind, context in contexts.items()}
    for context in contexts.values():
        context.close()


class Data(DataStoreContract):
    start = NOW
    examples = 12
    steps = 12
    big_batch = 3_000
    kind = 2
    layout = "native"

    @pytest.fixture
    def open_store(self, gateways: dict[int, Gateway]) -> Callable[[str, str], DataStore]:
        def open_store(client_id: str, farm: str) -> DataStore:
            # A table of its own for each class: a table that many others fill is slower to look into.
            config = HBaseConfig(
                hosts="unused", table=f"kit-{type(self).__name__}", farm=farm, layout=self.layout, splits=2
            )
            return HBaseDataStore(HBaseContext(gateways[self.kind], config), client_id)

        return open_store


class TestThrift2Native(Data):
    pass


class TestThrift2Java(Data):
    layout = "java"
    big_batch = 1_000


class TestThrift1Native(Data):
    kind = 1


class TestThrift1Java(Data):
    kind = 1
    layout = "java"
    big_batch = 300


class Meta(MetaStoreContract):
    start = NOW
    kind = 2
    layout = "native"

    @pytest.fixture
    def open_store(self, gateways: dict[int, Gateway]) -> Callable[[str], MetaStore]:
        config = HBaseConfig(hosts="unused", table="unused", splits=2)
        return lambda client_id: HBaseMetaStore(HBaseContext(gateways[self.kind], config), client_id)


class TestThrift2Meta(Meta):
    pass


class TestThrift1Meta(Meta):
    kind = 1
    layout = "java"


class Plugin(PluginContract):
    scheme = "hbase"
    drivers = ("thriftpy2", "happybase", "gssapi")
    start = NOW
    kind = 2
    options = "splits=2"

    @pytest.fixture
    def target(self, hbase_server: HBaseServer) -> str:
        return f"hbase://{hbase_server.host}:{hbase_server.port(self.kind)}/kit-plugin?{self.options}"


class TestThrift2Plugin(Plugin):
    pass


class TestThrift2PluginJava(Plugin):
    options = "splits=2&layout=java&gateway=thrift2"


class TestThrift1Plugin(Plugin):
    kind = 1
