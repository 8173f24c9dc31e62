"""Tables of their own for logical deletes, and what an administrator does to them."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest
import thriftpy2
from thriftpy2.rpc import make_client

from solus_hbase import HBaseConfig, HBaseContext, connect
from solus_hbase.dev_server import HBaseServer
from solus_hbase.logical_delete import LogicalDelete

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
    "logical_delete_creation_thrift",
)

FAMILIES = (b"d", b"e", b"it's")


@final
class Lab:
    """A table with the families ``d``, ``e`` and ``it's``, another client that sees all of it, and flags on ``d``."""

    def __init__(self, admin: Any, context: HBaseContext, name: str) -> None:
        self.admin = admin
        self.context = context
        self.name = name
        self.table = admin.table(name)

    def flag(self, name: str | bytes = "deleted", *, keep: bool = False, **settings: Any) -> LogicalDelete:
        arguments = {"family": "d", "must_exist": "name", "keep_restores": keep, **settings}
        return LogicalDelete(self.context, self.name, flag=name, **arguments)

    def create_rows(self, *rows: bytes, value: bytes = b"x") -> None:
        with self.table.batch() as batch:
            for row in rows:
                batch.put(row, {b"d:name": value})

    def flush(self) -> None:
        """What is in memory goes into a file, and the region is opened anew."""
        self.admin.disable_table(self.name)
        self.admin.enable_table(self.name)


@pytest.fixture(scope="session")
def hbase_admin(hbase_server: HBaseServer) -> Iterator[Any]:
    connection = happybase.Connection(hbase_server.host, hbase_server.port(1), timeout=60_000)
    yield connection
    connection.close()


@pytest.fixture
def lab(hbase_server: HBaseServer, hbase_admin: Any) -> Iterator[Callable[..., Lab]]:
    """Makes labs: ``versions`` and ``family`` attributes of its families, ``attributes`` of the table."""
    contexts: list[HBaseContext] = []

    def make(
        versions: int = 1,
        family: Mapping[bytes, bytes] | None = None,
        attributes: Mapping[bytes, bytes] | None = None,
        **settings: Any,
    ) -> Lab:
        name = f"ld{uuid.uuid4().hex[:10]}"
        families = [CREATION.TColumnFamilyDescriptor(one, dict(family or {}) or None, versions) for one in FAMILIES]
        creator = make_client(CREATION.Creation, hbase_server.host, hbase_server.port(2), timeout=60_000)
        described = CREATION.TTableDescriptor(CREATION.TTableName(name.encode()), families, dict(attributes or {}))
        creator.createTable(described, None)
        creator.close()
        host = f"{hbase_server.host}:{hbase_server.port(2)}"
        contexts.append(connect(HBaseConfig(**{"hosts": host, "table": "unused", "timeout": 60, **settings})))
        return Lab(hbase_admin, contexts[-1], name)

    yield make
    for context in contexts:
        context.close()
