"""The calls of the sinks for streams, over Thrift 2: they need more than the stores do."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from solus_core.errors import InvalidConfigError, SolusError
from solus_hbase.batches import BYTES, ROWS
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway, judge, table_name

COUNTER: Final = struct.Struct(">q")
"""A counter as HBase's own ``increment`` stores it."""

Column: TypeAlias = tuple[bytes, bytes]
"""Family and qualifier."""

_EQUAL: Final = 2
_COLUMN_BYTES: Final = 40
"""Of a column in a call, beside its names."""

# What HBase refuses whatever the row is, so that no other record would get through: named by a class of Java, as the
# names of rows and tables in a message are anybody's; and what a server of another interface answers.
_OF_THE_TABLE: Final = re.compile(
    r"(?:^|[\s(])[\w.]*(?:"
    r"(?:TableNotFound|TableNotEnabled|NoSuchColumnFamily|AccessDenied|SpaceLimiting|InvalidMutationDurability)"
    r"\w*Exception(?=: |\)|$)|DoNotRetryIOException: region is read only)|^Invalid method name"
)


@final
class StreamCalls:
    """Calls on one table. Failures are as in :class:`~solus_hbase.gateway.base.Gateway`; threads may share it."""

    def __init__(self, gateway: Thrift2Gateway, table: str, *, write_to_wal: bool = True) -> None:
        self.table = table
        self._name = table.encode()
        self._durability = None if write_to_wal else IDL.TDurability.SKIP_WAL
        self._calls = gateway.calls

    def put(self, puts: Sequence[Any]) -> None:
        """Write rows, each a TPut, by one call; repeated after a failure. Those beside a bad one may be applied."""
        name, what = self._name, f"put into {self.table}"
        if len(puts) == 1:
            self._calls.write(what, lambda to: to.client.put(name, puts[0]))
        else:
            self._calls.write(what, lambda to: to.client.putMultiple(name, puts))

    def increment(self, row: bytes, amounts: Mapping[Column, int]) -> None:
        """Raise counters of one row, atomically; ``in_doubt`` if it may have been applied, and failed.

        Never repeated: only the caller can say that counting twice is better than not at all.
        """
        columns = [IDL.TColumnIncrement(*column, amount) for column, amount in amounts.items()]
        wanted = IDL.TIncrement(row, columns, self._durability)
        self._calls.once(f"increment in {self.table}", lambda to: to.client.increment(self._name, wanted))

    def get(self, wanted: Sequence[tuple[bytes, Sequence[Column]]]) -> list[dict[Column, bytes]]:
        """The values of these columns of each row."""
        found: list[dict[Column, bytes]] = []
        gets: list[Any] = []
        size = 0
        for row, columns in wanted:
            needs = len(row) + sum(_COLUMN_BYTES + len(family) + len(qualifier) for family, qualifier in columns)
            if gets and (len(gets) == ROWS or size + needs > BYTES):
                found += [_values(result) for result in self._get(gets)]
                gets, size = [], 0
            gets.append(IDL.TGet(row, [IDL.TColumn(*column) for column in columns]))
            size += needs
        return found + [_values(result) for result in self._get(gets)] if gets else found

    def replace(
        self, row: bytes, column: Column, old: bytes | None, cells: Sequence[tuple[bytes, bytes, bytes]]
    ) -> bool:
        """Write cells of one row in one atomic step if ``column`` still holds ``old`` (None: is absent).

        Never repeated here: what was applied may have been changed back meanwhile, and only the caller can look. True
        is certain. False may also come from an earlier try that was applied, of the HBase client in the Thrift
        server, which repeats calls by itself.
        """
        put = IDL.TPut(row, [IDL.TColumnValue(*cell) for cell in cells], None, None, self._durability)
        mutations = IDL.TRowMutations(row, [IDL.TMutation(put)])
        # An empty value stands for "absent"; None would crash in the server.
        args = (self._name, row, *column, _EQUAL, old or b"", mutations)
        return self._calls.once(f"check and put into {self.table}", lambda to: bool(to.client.checkAndMutate(*args)))

    def create_table(self, families: Mapping[str, tuple[int, int | None]]) -> None:
        """Create the table; of each family the versions and the seconds to live (None: for ever)."""
        described = IDL.TTableDescriptor(
            table_name(self.table),
            [
                IDL.TColumnFamilyDescriptor(name=name.encode(), maxVersions=versions, timeToLive=seconds)
                for name, (versions, seconds) in families.items()
            ],
        )
        self._calls.once(f"create table {self.table}", lambda to: to.client.createTable(described, None))

    def _get(self, gets: Sequence[Any]) -> Any:
        what = f"get from {self.table}"
        if len(gets) == 1:
            return [self._calls.read(what, lambda to: to.client.get(self._name, gets[0]))]
        return self._calls.read(what, lambda to: to.client.getMultiple(self._name, gets))


def stream_calls(
    context: HBaseContext, table: str, families: Sequence[str] = (), *, what: str, write_to_wal: bool = True
) -> StreamCalls:
    """Calls on ``table`` for ``what``, after a look whether it is there with its ``families``.

    Raises ``InvalidConfigError`` if not, or if the gateway does not speak Thrift 2.
    """
    gateway = context.gateway
    if not isinstance(gateway, Thrift2Gateway):
        raise InvalidConfigError(
            what, ["it needs the Thrift 2 server of HBase, and this context's gateway speaks another interface"]
        )
    full_name = table if ":" in table else context.config.table_name(table)
    if families:
        there = gateway.families(full_name)
        if there is None:
            raise InvalidConfigError(what, [f"table {full_name!r} is not there: create it first"])
        names = ", ".join(repr(name.decode(errors="replace")) for name in sorted(there))
        missing = [name for name in families if name.encode() not in there]
        if missing:
            raise InvalidConfigError(
                what, [f"table {full_name!r} has no column family {name!r}, only {names}" for name in missing]
            )
    return StreamCalls(gateway, full_name, write_to_wal=write_to_wal)


def refused(error: SolusError) -> bool:
    """Did the server look at a row that was sent and refuse it? Not if it has something against the whole table."""
    cause = error.__cause__
    verdict = judge(cause) if isinstance(cause, Exception) else None
    return verdict is not None and not verdict.curable and _OF_THE_TABLE.search(verdict.message) is None


def _values(result: Any) -> dict[Column, bytes]:
    return {(cell.family, cell.qualifier): cell.value for cell in result.columnValues or ()}
