"""A table in memory behind the real gateway, with calls that can be made to fail before or after they are applied."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any, cast, final

import pytest
from attrs import define, field
from thriftpy2.transport import TTransportException

from solus_hbase import HBaseConfig, HBaseContext
from solus_hbase.gateway.stream_calls import StreamCalls
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway
from solus_hbase.gateway.wire import Wire, WireConnection
from solus_hbase.streams import IdempotentCounterSink

COUNTER = struct.Struct(">q")


@final
class Killed(BaseException):
    """The process ends here: nothing catches it."""


@final
@define
class Faults:
    """What happens to calls. ``plan`` sees the number of a call (from 0), its name, and whether it was applied
    (asked before and after); what it raises, the caller gets instead of an answer."""

    plan: Callable[[int, str, bool], None] = lambda number, name, applied: None
    calls: list[str] = field(factory=list)
    lock: threading.Lock = field(factory=threading.Lock)

    def fail(self, error: Callable[[], BaseException], *names: str, times: int = 10**9) -> None:
        """The next so many calls, of any name unless some are given, fail before they are applied."""
        left = [times]

        def plan(number: int, name: str, applied: bool) -> None:
            if not applied and left[0] > 0 and (not names or name in names):
                left[0] -= 1
                raise error()

        self.plan = plan

    def fail_at(self, number: int | None, error: Callable[[], BaseException], *, applied: bool = False) -> None:
        """The call of that number fails, before it is applied or after."""

        def plan(at: int, name: str, is_applied: bool) -> None:
            if at == number and is_applied is applied:
                raise error()

        self.plan = plan

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self.plan = lambda number, name, applied: None

    def around(self, name: str, call: Callable[[], Any]) -> Any:
        with self.lock:
            number = len(self.calls)
            self.calls.append(name)
        self.plan(number, name, False)
        answer = call()
        self.plan(number, name, True)
        return answer


@final
class Client:
    """The calls of a Thrift 2 client that the sinks make, on ``table``: cells by row and column."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._table, f"do_{name}")
        if name in ("tableExists", "getTableDescriptor", "isTableAvailable"):
            return call
        return lambda *args: self._table.faults.around(name, lambda: call(*args))


@final
class Table:
    """One table with the families ``data`` and ``daily``; ``refuses``: row keys that the server will not take."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[tuple[bytes, bytes], bytes]] = {}
        self.written: list[Any] = []
        self.refuses: set[bytes] = set()
        self.faults = Faults()
        self.exists = True
        self._lock = threading.Lock()

    def value(self, row: bytes, family: bytes, qualifier: bytes) -> bytes | None:
        return self.rows.get(row, {}).get((family, qualifier))

    def count(self, row: bytes, family: bytes, qualifier: bytes) -> int:
        return int(COUNTER.unpack(self.rows[row][family, qualifier])[0])

    def clicks(self) -> dict[str, int]:
        """The clicks of each row, after a look that the days say the same."""
        for row in self.rows:
            assert self.value(row, b"data", b"clicks") == self.value(row, b"daily", b"20120816")
        return {row.decode(): self.count(row, b"data", b"clicks") for row in self.rows}

    def first_clicks(self, rows: int) -> list[int]:
        """The clicks of the rows r0, r1 and so on."""
        return [self.count(b"r%d" % number, b"data", b"clicks") for number in range(rows)]

    @property
    def rows_put(self) -> list[bytes]:
        """The row of each put, in order."""
        return [put.row for put in self.written]

    def do_tableExists(self, _: Any) -> bool:  # noqa: N802  # the name of a Thrift call
        return self.exists

    def do_getTableDescriptor(self, name: Any) -> Any:  # noqa: N802  # as above
        families = [IDL.TColumnFamilyDescriptor(name=name) for name in (b"daily", b"data")]
        return IDL.TTableDescriptor(name, families)

    def do_isTableAvailable(self, _: Any) -> bool:  # noqa: N802  # as above
        return self.exists

    def do_createTable(self, *_: Any) -> None:  # noqa: N802  # as above
        self.exists = True

    def do_put(self, _: bytes, put: Any) -> None:
        if put.row in self.refuses:
            raise IDL.TIOError(b"DoNotRetryIOException: refused", False)
        with self._lock:
            self._apply(put)

    def do_putMultiple(self, _: bytes, puts: list[Any]) -> None:  # noqa: N802  # as above
        with self._lock:
            for put in puts:
                if put.row not in self.refuses:
                    self._apply(put)
        if any(put.row in self.refuses for put in puts):
            raise IDL.TIOError(b"Failed 1 action: DoNotRetryIOException: refused", True)

    def do_increment(self, _: bytes, increment: Any) -> Any:
        if increment.row in self.refuses:
            raise IDL.TIOError(b"DoNotRetryIOException: refused", False)
        with self._lock:
            row = self.rows.setdefault(increment.row, {})
            for one in increment.columns:
                held = COUNTER.unpack(row.get((one.family, one.qualifier), bytes(8)))[0]
                row[one.family, one.qualifier] = COUNTER.pack(held + one.amount)
        return IDL.TResult(increment.row, [])

    def do_get(self, _: bytes, get: Any) -> Any:
        with self._lock:
            row = self.rows.get(get.row, {})
            wanted = [(one.family, one.qualifier) for one in get.columns]
            return IDL.TResult(get.row, [IDL.TColumnValue(*column, row[column]) for column in wanted if column in row])

    def do_getMultiple(self, table: bytes, gets: list[Any]) -> list[Any]:  # noqa: N802  # as above
        return [self.do_get(table, get) for get in gets]

    def do_checkAndMutate(  # noqa: N802  # as above
        self, _: bytes, row: bytes, family: bytes, qualifier: bytes, op: int, value: bytes, mutations: Any
    ) -> bool:
        assert op == 2
        with self._lock:
            if (self.value(row, family, qualifier) or b"") != value:
                return False
            for mutation in mutations.mutations:
                self._apply(mutation.put)
            return True

    def _apply(self, put: Any) -> None:
        self.written.append(put)
        row = self.rows.setdefault(put.row, {})
        row.update({(cell.family, cell.qualifier): cell.value for cell in put.columnValues})


@final
class FakeWire:
    def __init__(self, table: Table) -> None:
        self._table = table
        self.reachable = True

    def open(self, service: Any) -> WireConnection:
        connection = WireConnection(service, None)
        connection.client = cast("Any", Client(self._table))
        return connection


@pytest.fixture
def table() -> Table:
    return Table()


def context_of(table: Table, **settings: Any) -> HBaseContext:
    config = HBaseConfig(**{"hosts": "fake", "table": "unused", "attempts": 1, "backoff": 1e-6, **settings})
    return HBaseContext(Thrift2Gateway(cast("Wire", FakeWire(table)), config), config)


@pytest.fixture
def connect_to(table: Table) -> Callable[..., HBaseContext]:
    """Opens a context on the table; settings are those of the config. One try for each call unless they say more."""
    return lambda **settings: context_of(table, **settings)


@pytest.fixture
def context(table: Table) -> HBaseContext:
    return context_of(table)


@pytest.fixture
def lost() -> Callable[[], Exception]:
    """Makes the error of a connection that breaks."""
    return lambda: TTransportException(TTransportException.NOT_OPEN, "cut")


@pytest.fixture
def killed() -> type[BaseException]:
    return Killed


@pytest.fixture
def run() -> Callable[..., int]:
    """Makes one transaction with a click for each letter of ``rows``; answers how many counters it raised."""

    def run(sink: IdempotentCounterSink, txid: int, rows: str, source: str | None = None) -> int:
        transaction = sink.transaction(txid, source)
        for row in rows:
            transaction.add({"shorturl": row, "date": 20120816})
        return transaction.commit()

    return run


@pytest.fixture
def real_table(
    hbase_server: Any, open_context: Callable[..., HBaseContext]
) -> Callable[..., tuple[HBaseContext, StreamCalls]]:
    """Makes a table of the short links on the real HBase; answers a context and calls on the table."""

    def make(name: str, port: int = 0, **settings: Any) -> tuple[HBaseContext, StreamCalls]:
        context = open_context(port or hbase_server.port(2), **{"table": "unused", "timeout": 30.0, **settings})
        assert isinstance(context.gateway, Thrift2Gateway)
        calls = StreamCalls(context.gateway, name)
        if context.gateway.families(name) is None:
            calls.create_table({"data": (3, None), "daily": (1, 604_800)})
        return context, calls

    return make
