"""Tables of their own for logical deletes, and what an administrator does to them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_hbase import HBaseContext
from solus_hbase.dev_server import HBaseServer
from solus_hbase.logical_delete import LogicalDelete

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
def lab(
    hbase_server: HBaseServer,
    hbase_admin: Any,
    create_table: Callable[..., None],
    open_context: Callable[..., HBaseContext],
) -> Callable[..., Lab]:
    """Makes labs: ``versions`` and ``family`` attributes of its families, ``attributes`` of the table."""

    def make(
        versions: int = 1,
        family: Mapping[bytes, bytes] | None = None,
        attributes: Mapping[bytes, bytes] | None = None,
        **settings: Any,
    ) -> Lab:
        name = f"ld{uuid.uuid4().hex[:10]}"
        create_table(name, dict.fromkeys(FAMILIES, family or {}), attributes or {}, versions)
        context = open_context(hbase_server.port(2), **{"table": "unused", "timeout": 60, **settings})
        return Lab(hbase_admin, context, name)

    return make
