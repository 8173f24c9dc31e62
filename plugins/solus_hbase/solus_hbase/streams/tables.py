"""Tables for the sinks, which themselves create none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import stream_calls
from solus_hbase.streams.mapping import bad_family, bad_table
from solus_hbase.tables import created, wait_until_usable

_MOST: Final = 2**31 - 1
"""Versions, and seconds: HBase has 32 bits for each."""


def create_table(context: HBaseContext, table: str, families: Mapping[str, tuple[int, int | None]]) -> None:
    """Create a table unless it is there; of each family the versions kept, and the seconds to live (None: for ever).

    ``table`` is a name as in ``TableMapping``. A table that is there stays as it is. Of two who create it at once
    one is refused by the server; both go on. Returns once it can be used. Needs Thrift 2. Raises
    ``InvalidConfigError`` with all that is wrong with the arguments, and ``StoreError`` with the code
    ``TABLE_CREATION_ERROR``.
    """
    problems = [*bad_table(table), *_bad_families(families)]
    if problems:
        raise InvalidConfigError("create_table", problems)
    calls = stream_calls(context, table, what="create_table")
    try:
        if context.gateway.families(calls.table) is None:
            created(context.gateway, calls.table, lambda: calls.create_table(families))
        wait_until_usable(context.gateway, calls.table)
    except StoreError as error:
        raise StoreError(ErrorCode.TABLE_CREATION_ERROR, f"table {calls.table!r}: {error.message}") from error.__cause__


def _bad_families(families: object) -> list[str]:
    if not isinstance(families, Mapping) or not families:
        return [f"families is {families!r}, allowed are (versions, seconds to live) by family, one at least"]
    problems = []
    for family, given in families.items():
        problems += bad_family(family)
        if not isinstance(given, tuple) or len(given) != 2:
            problems.append(f"family {family!r} has {given!r}, allowed are (versions, seconds to live)")
            continue
        versions, seconds = given
        if not _is_count(versions):
            problems.append(f"family {family!r} has {versions!r} versions, allowed are 1 to {_MOST}")
        if seconds is not None and not _is_count(seconds):
            problems.append(f"family {family!r} lives {seconds!r} seconds, allowed are 1 to {_MOST}, None: for ever")
    return problems


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= _MOST
