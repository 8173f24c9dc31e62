"""One HBase for all tests of this package, started by the first that asks for it."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
import thriftpy2
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TClient

from solus_hbase import HBaseConfig, HBaseContext, connect
from solus_hbase.dev_server import DevServerError, HBaseServer
from solus_hbase.dev_server.tools import class_path, java
from solus_hbase.pool import ConnectionPool, Place


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_hbase: every test that starts or uses a real HBase; set by itself")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "hbase_tools" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_hbase)


CREATION: Any = thriftpy2.load_fp(
    io.StringIO("""
        struct TTableName { 2: required binary qualifier }
        struct TColumnFamilyDescriptor {
          1: required binary name, 2: optional map<binary, binary> attributes, 10: optional i32 maxVersions
        }
        struct TTableDescriptor {
          1: required TTableName tableName,
          2: optional list<TColumnFamilyDescriptor> columns,
          3: optional map<binary, binary> attributes
        }
        service Creation { void createTable(1: required TTableDescriptor desc, 2: optional list<binary> splitKeys) }
    """),
    "creation_thrift",
)


@pytest.fixture(scope="session")
def hbase_tools() -> None:
    """Skips where HBase can't be had, and fails there under ``SOLUS_REQUIRE_HBASE=1``."""
    try:
        java()
        class_path()
    except DevServerError as error:
        if os.environ.get("SOLUS_REQUIRE_HBASE") == "1":
            pytest.fail(f"SOLUS_REQUIRE_HBASE=1 and there is no HBase: {error}", pytrace=False)
        pytest.skip(f"needs Java 17 and Maven: apt-get install openjdk-17-jre-headless maven ({error})")


@pytest.fixture(scope="session")
def hbase_server(hbase_tools: None) -> Iterator[HBaseServer]:
    """The server of the whole run, with both gateways. Whoever kills a part of it starts that part again."""
    with HBaseServer() as server:
        yield server


@pytest.fixture
def open_context() -> Iterator[Callable[..., HBaseContext]]:
    """Opens contexts on the gateways of these ports, with these settings; closes them at the end of the test."""
    opened: list[HBaseContext] = []

    def make(*ports: int, **settings: Any) -> HBaseContext:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        opened.append(connect(HBaseConfig(**{"hosts": hosts, **settings})))
        return opened[-1]

    yield make
    for context in opened:
        context.close()


@pytest.fixture
def create_table(hbase_server: HBaseServer) -> Callable[..., None]:
    """Creates a table with what ``createTable`` of Thrift 2 takes: settings of each family, and of the table."""

    def create(
        name: str, families: Mapping[bytes, Mapping[bytes, bytes]], settings: Mapping[bytes, bytes], versions: int = 1
    ) -> None:
        columns = [CREATION.TColumnFamilyDescriptor(one, dict(of) or None, versions) for one, of in families.items()]
        table = CREATION.TTableDescriptor(CREATION.TTableName(name.encode()), columns, dict(settings))
        with closing(make_client(CREATION.Creation, hbase_server.host, hbase_server.port(2), timeout=60_000)) as admin:
            admin.createTable(table, None)

    return create


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every message that any Thrift client sends, by name."""
    sent: Counter[str] = Counter()
    send = TClient._send

    def counted(self: TClient, api: str, **arguments: Any) -> None:
        sent[api] += 1
        send(self, api, **arguments)

    monkeypatch.setattr(TClient, "_send", counted)
    return sent


class Line:
    """A connection that is made up."""

    def __init__(self) -> None:
        self.place: Place | None = None
        self.state = "open"
        self.dead = False
        self.shunned = False

    def is_dead(self) -> bool:
        return self.dead

    def close(self) -> None:
        self.state = "closed"

    def shun(self) -> None:
        self.shunned = True

    def abandon(self) -> None:
        self.state = "abandoned"


class Switchboard:
    """Opens made-up connections, and has the clock of their pools."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.now = 0.0

    def open(self) -> Line:
        self.lines.append(Line())
        return self.lines[-1]

    def pool(self, size: int = 2, wait: float = 0.01) -> ConnectionPool[Line]:
        return ConnectionPool(self.open, size=size, wait=wait, clock=lambda: self.now)


@pytest.fixture
def board() -> Switchboard:
    return Switchboard()
