"""Tables for the sinks, which themselves create none."""

from __future__ import annotations

from collections.abc import Mapping

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import stream_calls


def create_table(context: HBaseContext, table: str, families: Mapping[str, tuple[int, int | None]]) -> None:
    """Create a table unless it is there; of each family the versions kept, and the seconds to live (None: for ever).

    ``table`` is a name as in ``TableMapping``. A table that is there stays as it is. Of two who create it at once
    one is refused by the server; both go on. Needs Thrift 2; raises ``StoreError`` with the code
    ``TABLE_CREATION_ERROR``.
    """
    calls = stream_calls(context, table, what="create_table")
    try:
        if context.gateway.families(calls.table) is None:
            calls.create_table(families)
    except StoreError as error:
        if context.gateway.families(calls.table) is None:
            raise StoreError(ErrorCode.TABLE_CREATION_ERROR, error.message) from error.__cause__
