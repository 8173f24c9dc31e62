"""What logical deletes want from a table, over Thrift 2."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, final

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway, table_name

RESTORED: Final = b"restored"
"""The value of a flag cell that says: not flagged, as of its timestamp. A cell with any other value flags the row."""

_NOT_EQUAL: Final = 3
_TOKEN_BYTES: Final = 16

Column = tuple[bytes, bytes | None]
"""Family and qualifier; no qualifier: the whole family."""

Cell = tuple[bytes, bytes, bytes, int]
"""Family, qualifier, value, timestamp in ms."""


@final
class FlagCells:
    """The flag cells in one family of one table. Every method may be called by many threads, and is repeated after
    failures that a repeat can cure: applied twice, a write is the same as once. Failures are as of a ``Gateway``.
    """

    def __init__(self, gateway: Thrift2Gateway, table: str, family: bytes) -> None:
        self._calls = gateway.calls
        self._table = table
        self._name = table.encode()
        self._family = family

    def table_families(self) -> dict[bytes, Mapping[bytes, bytes]] | None:
        """The families of the table with their attributes as HBase writes them; None if there is no such table."""
        of = table_name(self._table)
        if not self._calls.read(f"look for table {self._table}", lambda to: to.client.tableExists(of)):
            return None
        described = self._calls.read(f"description of {self._table}", lambda to: to.client.getTableDescriptor(of))
        return {family.name: family.attributes or {} for family in described.columns or ()}

    def put_if_present(self, row: bytes, present: bytes, qualifier: bytes, value: bytes, at: int) -> bool:
        """Write the cell with timestamp ``at``, in one atomic step, if the row has a cell ``present``; has it?

        The server compares ``given OP stored``, and a stored cell that is absent fails every comparison with a value.
        So "holds any value" is: unlike a value that nobody has stored, here 16 fresh random bytes. An ordering
        can't say it: no value is the largest, and given an empty one the server takes empty for absent.
        """
        put = IDL.TPut(row, [IDL.TColumnValue(self._family, qualifier, value, at)])
        mutations = IDL.TRowMutations(row, [IDL.TMutation(put)])
        args = (self._name, row, self._family, present, _NOT_EQUAL, os.urandom(_TOKEN_BYTES), mutations)
        return self._calls.write(f"flag in {self._table}", lambda to: bool(to.client.checkAndMutate(*args)))

    def delete(self, qualifier: bytes, rows: Sequence[tuple[bytes, int]]) -> None:
        """Delete the cells of each row up to its timestamp, that included. Not atomic over the rows."""
        deletes = [IDL.TDelete(row, [IDL.TColumn(self._family, qualifier, at)]) for row, at in rows]
        what = f"delete flags in {self._table}"
        failed = self._calls.write(what, lambda to: to.client.deleteMultiple(self._name, deletes))
        if failed:
            raise StoreError(
                ErrorCode.HBASE_ERROR, f"{what}: the server did not apply {len(failed)} of {len(rows)}", in_doubt=True
            )

    def page(
        self,
        start: bytes | None,
        stop: bytes | None,
        columns: Sequence[Column] | None,
        skip: Sequence[bytes],
        rows: int,
    ) -> list[tuple[bytes, list[Cell]]]:
        """The first ``rows`` rows from ``start`` to before ``stop`` in which no cell of ``skip`` flags the row.

        The server sees only the columns that are asked for: those of ``skip`` have to be among them.
        """
        wanted = IDL.TScan(
            startRow=start,
            stopRow=stop,
            columns=None if columns is None else [IDL.TColumn(*column) for column in columns],
            caching=rows,
            filterString=unflagged_filter(self._family, skip) if skip else None,
        )
        results = self._calls.read(
            f"scan of {self._table}", lambda to: to.client.getScannerResults(self._name, wanted, rows)
        )
        return [
            (result.row, [(cell.family, cell.qualifier, cell.value, cell.timestamp) for cell in result.columnValues])
            for result in results
        ]


def unflagged_filter(family: bytes, flags: Sequence[bytes]) -> bytes:
    """The server-side filter, in HBase's filter language, for rows that none of these columns flags.

    A row stays if the newest cell of each column is absent or ``RESTORED``. ``SKIP`` over a filter of values would
    look at older cells too where a family keeps more than one version, and over a filter of qualifiers alone at
    those of other families.
    """
    return b" AND ".join(
        b"SingleColumnValueFilter('%b','%b',=,'binary:%b',false,true)"
        % (family.replace(b"'", b"''"), flag.replace(b"'", b"''"), RESTORED)
        for flag in flags
    )
