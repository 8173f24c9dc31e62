"""Thrift 2, the newer interface: the only one with an atomic check that writes several cells."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, final

from solus_core.errors import StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Cells, Pairs
from solus_hbase.gateway.wire import Wire, WireConnection, hopeless, load_idl, lost, partly, reason
from solus_hbase.pool import ConnectionPool
from solus_hbase.retry import Caller, Verdict

IDL: Final[Any] = load_idl(str(Path(__file__).with_name("hbase2.thrift")), "solus_hbase2_thrift")

_SCAN_ROWS: Final = 500
_EQUAL: Final = 2
_TTL: Final = struct.Struct(">q")


@final
class Thrift2Gateway:
    """A :class:`~solus_hbase.gateway.base.Gateway`, see there."""

    atomic = True

    def __init__(self, wire: Wire, config: HBaseConfig) -> None:
        self.wire = wire
        self.pool: ConnectionPool[WireConnection] = ConnectionPool(
            lambda: wire.open(IDL.THBaseService), size=config.pool_size, wait=config.pool_wait
        )
        self._calls = Caller(self.pool, judge, attempts=config.attempts, backoff=config.backoff)

    @property
    def calls(self) -> Caller[WireConnection]:
        """Makes the calls that other modules of this package have beyond those of a ``Gateway``."""
        return self._calls

    def get(self, table: str, family: bytes, wanted: Sequence[tuple[bytes, Sequence[bytes] | None]]) -> list[Cells]:
        name, column = table.encode(), IDL.TColumn
        gets = [
            IDL.TGet(row, [column(family)] if qualifiers is None else [column(family, one) for one in qualifiers])
            for row, qualifiers in wanted
        ]
        if len(gets) == 1:
            return [_cells(self._calls.read(f"get from {table}", lambda to: to.client.get(name, gets[0])))]
        return [
            _cells(result)
            for result in self._calls.read(f"get from {table}", lambda to: to.client.getMultiple(name, gets))
        ]

    def put(
        self,
        table: str,
        family: bytes,
        rows: Sequence[tuple[bytes, Pairs]],
        timestamp: int | None = None,
        ttl: int | None = None,
    ) -> None:
        name = table.encode()
        puts = [_put(family, row, cells, timestamp, ttl) for row, cells in rows]
        if len(puts) == 1:
            self._calls.write(f"put into {table}", lambda to: to.client.put(name, puts[0]))
            return
        try:
            self._calls.write(f"put into {table}", lambda to: to.client.putMultiple(name, puts))
        except StoreError as error:
            raise partly(error, len(puts)) from error.__cause__

    def check_and_put(
        self,
        table: str,
        family: bytes,
        row: bytes,
        check: tuple[bytes, bytes | None],
        cells: Pairs,
        timestamp: int | None = None,
        ttl: int | None = None,
    ) -> bool:
        qualifier, value = check
        mutations = IDL.TRowMutations(row, [IDL.TMutation(_put(family, row, cells, timestamp, ttl))])
        # An empty value stands for "absent"; None would crash in the server.
        args = (table.encode(), row, family, qualifier, _EQUAL, value or b"", mutations)
        return self._calls.write(f"check and put into {table}", lambda to: bool(to.client.checkAndMutate(*args)))

    def scan(
        self, table: str, family: bytes, equal: tuple[bytes, bytes], qualifiers: Sequence[bytes]
    ) -> Iterable[tuple[bytes, Cells]]:
        wanted = IDL.TScan(
            columns=[IDL.TColumn(family, one) for one in qualifiers],
            caching=_SCAN_ROWS,
            filterString=equals_filter(family, *equal),
        )

        def all_rows(to: WireConnection) -> list[Any]:
            scanner, found = to.client.openScanner(table.encode(), wanted), []
            while rows := to.client.getScannerRows(scanner, _SCAN_ROWS):
                found += rows
            to.client.closeScanner(scanner)
            return found

        return [(result.row, _cells(result)) for result in self._calls.read(f"scan of {table}", all_rows)]

    def families(self, table: str) -> frozenset[bytes] | None:
        name = table_name(table)
        if not self._calls.read(f"look for table {table}", lambda to: to.client.tableExists(name)):
            return None
        described = self._calls.read(f"description of {table}", lambda to: to.client.getTableDescriptor(name))
        return frozenset(family.name for family in described.columns or ())

    def available(self, table: str) -> bool:
        name = table_name(table)
        return bool(self._calls.read(f"state of {table}", lambda to: to.client.isTableAvailable(name)))

    def create_table(self, table: str, family: bytes, compression: str, split_keys: Sequence[bytes]) -> None:
        described = IDL.TTableDescriptor(
            table_name(table),
            [
                IDL.TColumnFamilyDescriptor(
                    name=family, compressionType=getattr(IDL.TCompressionAlgorithm, compression), maxVersions=1
                )
            ],
        )
        keys = list(split_keys) or None
        self._calls.once(f"create table {table}", lambda to: to.client.createTable(described, keys))

    def close(self) -> None:
        self._calls.close()


def equals_filter(family: bytes, qualifier: bytes, value: bytes) -> bytes:
    """The server-side filter for rows whose cell has this value, in HBase's filter language."""
    quoted = [text.replace(b"'", b"''") for text in (family, qualifier, value)]
    return b"SingleColumnValueFilter('%b','%b',=,'binary:%b',true,true)" % tuple(quoted)


def _put(family: bytes, row: bytes, cells: Pairs, timestamp: int | None, ttl: int | None) -> Any:
    column = IDL.TColumnValue
    attributes = None if ttl is None else {b"_ttl": _TTL.pack(ttl)}
    return IDL.TPut(row, [column(family, qualifier, value) for qualifier, value in cells], timestamp, attributes)


def _cells(result: Any) -> Cells:
    return {cell.qualifier: (cell.value, cell.timestamp) for cell in result.columnValues or ()}


def table_name(table: str) -> Any:
    namespace, _, name = table.rpartition(":")
    return IDL.TTableName(namespace.encode() or None, name.encode())


def judge(error: Exception) -> Verdict | None:
    if isinstance(error, IDL.TIOError):
        again = error.canRetry is not False and not hopeless(error)
        return Verdict(reason(error), broken=False, curable=again, refused=not again)
    if isinstance(error, IDL.TIllegalArgument):
        return Verdict(reason(error), broken=False, curable=False, refused=True)
    return lost(error)
