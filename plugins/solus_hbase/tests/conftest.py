"""One HBase for all tests of this package, started by the first that asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from solus_hbase.dev_server import DevServerError, HBaseServer
from solus_hbase.dev_server.tools import class_path, java


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_hbase: every test that starts or uses a real HBase; set by itself")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "hbase_tools" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_hbase)


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
