"""Thrift 1, the older interface, with happybase's description of it: no check that writes more than one cell."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, final

from solus_core.errors import StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Cells, Pairs
from solus_hbase.gateway.thrift2 import equals_filter
from solus_hbase.gateway.wire import Wire, WireConnection, hopeless, lost, partly, reason
from solus_hbase.pool import ConnectionPool
from solus_hbase.retry import Caller, Verdict

import_module("happybase")  # loads its Thrift description, as a module of this name:
idl: Final[Any] = import_module("Hbase_thrift")

_SCAN_ROWS: Final = 500
_GET_ROWS: Final = 250
"""Rows in one get: an answer holds more columns than asked for."""
_GET_COLUMNS: Final = 100
_TTL: Final = struct.Struct(">q")


@final
class Thrift1Gateway:
    """A :class:`~solus_hbase.gateway.base.Gateway`, see there. Tables are created without splits."""

    atomic = False

    def __init__(self, wire: Wire, config: HBaseConfig) -> None:
        self.wire = wire
        self.pool: ConnectionPool[WireConnection] = ConnectionPool(
            lambda: wire.open(idl.Hbase), size=config.pool_size, wait=config.pool_wait
        )
        self._calls = Caller(self.pool, _judge, attempts=config.attempts, backoff=config.backoff)

    def get(self, table: str, family: bytes, wanted: Sequence[tuple[bytes, Sequence[bytes] | None]]) -> list[Cells]:
        found: dict[bytes, Cells] = {}
        for first in range(0, len(wanted), _GET_ROWS):
            for result in self._get_rows(table, family, wanted[first : first + _GET_ROWS]):
                found[result.row] = _cells(result)
        # One answer holds the union of the columns of all its rows; rows that aren't there are left out.
        return [found.get(row, {}).copy() for row, _ in wanted]

    def _get_rows(self, table: str, family: bytes, wanted: Sequence[tuple[bytes, Sequence[bytes] | None]]) -> Any:
        name, rows, columns = table.encode(), [row for row, _ in wanted], _columns(family, wanted)
        return self._calls.read(f"get from {table}", lambda to: to.client.getRowsWithColumns(name, rows, columns, {}))

    def put(
        self,
        table: str,
        family: bytes,
        rows: Sequence[tuple[bytes, Pairs]],
        timestamp: int | None = None,
        ttl: int | None = None,
    ) -> None:
        name, attributes = table.encode(), _attributes(ttl)
        puts = [
            idl.BatchMutation(row, [_mutation(family, qualifier, value) for qualifier, value in cells])
            for row, cells in rows
        ]

        def write(to: WireConnection) -> None:
            if timestamp is None:
                to.client.mutateRows(name, puts, attributes)
            else:
                to.client.mutateRowsTs(name, puts, timestamp, attributes)

        try:
            self._calls.write(f"put into {table}", write)
        except StoreError as error:
            raise partly(error, len(puts)) from error.__cause__

    def check_and_put(
        self,
        table: str,
        family: bytes,
        row: bytes,
        check: tuple[bytes, bytes | None],
        cells: Pairs,
        timestamp: int | None = None,  # noqa: ARG002  # the interface has none here: the server's time is taken
        ttl: int | None = None,
    ) -> bool:
        ((qualifier, value),) = cells
        args = (
            table.encode(),
            row,
            b"%b:%b" % (family, check[0]),
            check[1],
            _mutation(family, qualifier, value),
            _attributes(ttl),
        )
        return self._calls.write(f"check and put into {table}", lambda to: bool(to.client.checkAndPut(*args)))

    def scan(
        self, table: str, family: bytes, equal: tuple[bytes, bytes], qualifiers: Sequence[bytes]
    ) -> Iterable[tuple[bytes, Cells]]:
        wanted = idl.TScan(
            columns=[b"%b:%b" % (family, one) for one in qualifiers],
            caching=_SCAN_ROWS,
            filterString=equals_filter(family, *equal),
        )

        def all_rows(to: WireConnection) -> list[Any]:
            scanner, found = to.client.scannerOpenWithScan(table.encode(), wanted, {}), []
            while rows := to.client.scannerGetList(scanner, _SCAN_ROWS):
                found += rows
            to.client.scannerClose(scanner)
            return found

        return [(result.row, _cells(result)) for result in self._calls.read(f"scan of {table}", all_rows)]

    def families(self, table: str) -> frozenset[bytes] | None:
        name = table.encode()
        if name not in self._calls.read("list of tables", lambda to: to.client.getTableNames()):
            return None
        described = self._calls.read(f"description of {table}", lambda to: to.client.getColumnDescriptors(name))
        return frozenset(family.rstrip(b":") for family in described)

    def available(self, table: str) -> bool:
        name = table.encode()
        return bool(self._calls.read(f"state of {table}", lambda to: to.client.isTableEnabled(name)))

    def create_table(
        self,
        table: str,
        family: bytes,
        compression: str,
        split_keys: Sequence[bytes],  # noqa: ARG002  # the interface can't split
    ) -> None:
        described = [idl.ColumnDescriptor(name=family + b":", maxVersions=1, compression=compression)]
        self._calls.once(f"create table {table}", lambda to: to.client.createTable(table.encode(), described))

    def close(self) -> None:
        self._calls.close()


def _columns(family: bytes, wanted: Sequence[tuple[bytes, Sequence[bytes] | None]]) -> list[bytes]:
    """The columns of all rows together; the whole family where these are too many to name."""
    union: set[bytes] = set()
    for _, qualifiers in wanted:
        union.update(qualifiers or ())
        if qualifiers is None or len(union) > _GET_COLUMNS:
            return [family]  # with a colon it would be the column without a name
    return [b"%b:%b" % (family, qualifier) for qualifier in union]


def _mutation(family: bytes, qualifier: bytes, value: bytes) -> Any:
    return idl.Mutation(column=b"%b:%b" % (family, qualifier), value=value)


def _attributes(ttl: int | None) -> dict[bytes, bytes]:
    return {} if ttl is None else {b"_ttl": _TTL.pack(ttl)}


def _cells(result: Any) -> Cells:
    return {name.partition(b":")[2]: (cell.value, cell.timestamp) for name, cell in (result.columns or {}).items()}


def _judge(error: Exception) -> Verdict | None:
    if isinstance(error, idl.IOError):
        again = not hopeless(error)
        return Verdict(reason(error), broken=False, curable=again, refused=not again)
    if isinstance(error, (idl.IllegalArgument, idl.AlreadyExists)):
        return Verdict(reason(error), broken=False, curable=False, refused=True)
    return lost(error)
