"""Records as rows of HBase: what is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final
from uuid import UUID

from solus_hbase.gateway.stream_calls import Column
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams.errors import Record, RecordError
from solus_hbase.streams.mapping import TableMapping

LONGEST_CELL: Final = 10 * 2**20
"""Bytes of a cell that HBase takes as it comes: value, row key, family, qualifier and 24 more."""

TXID: Final = b"_txid"
"""Behind the name of a counter, that of its id of a transaction; then ``:`` and the source, if it has a name."""

_CELL_REST: Final = 24
_LONGEST_KEY: Final = 32_767
_LAST_TIMESTAMP: Final = 2**63 - 2
"""One more means the server's time."""

_ROW_WIRE: Final = 44
_CELL_WIRE: Final = 24
"""What Thrift's binary protocol adds to the bytes of a row and of a cell, at the most."""


@final
class Rows:
    """Turns records into rows as ``mapping`` says; what can't be is a ``RecordError``."""

    __slots__ = ("_columns", "_durability", "_fields", "_key", "_timestamp")

    def __init__(self, mapping: TableMapping) -> None:
        self._key = mapping.row_key_field
        self._timestamp = mapping.timestamp_field
        self._fields = frozenset(mapping.fields or ())
        self._durability = None if mapping.write_to_wal else IDL.TDurability.SKIP_WAL
        self._columns = [
            (family.encode(), qualifier, qualifier.encode())
            for family, qualifiers in mapping.column_families.items()
            for qualifier in dict.fromkeys(qualifiers)
        ]

    def put(self, record: Record) -> tuple[Any, int]:
        """The row to put, as a TPut, and its bytes on the wire."""
        key = self._row_key(record)
        size = _ROW_WIRE + len(key)
        room = LONGEST_CELL - _CELL_REST - len(key)
        column, cells = IDL.TColumnValue, []
        for family, field, qualifier in self._columns:
            given = record.get(field)
            # What is usual stands here in line: this is done for each cell of each record.
            value = given.encode() if type(given) is str and given.isascii() else _bytes(record, field)
            length = len(value) + len(family) + len(qualifier)
            if length > room:
                raise RecordError(record, field, f"has {len(value)} bytes, and a cell of HBase is 10 MiB at the most")
            size += length + _CELL_WIRE
            cells.append(column(family, qualifier, value))
        timestamp = None if self._timestamp is None else _timestamp(record, self._timestamp)
        return IDL.TPut(key, cells, timestamp, None, self._durability), size

    def counters(self, record: Record) -> tuple[bytes, list[Column], int]:
        """The row key, the counters to raise by one, and the bytes on the wire.

        A qualifier that names a field stands for the field's value, another one for itself.
        """
        key = self._row_key(record)
        columns = list(self._counted(record))
        size = sum(_CELL_WIRE + len(family) + len(qualifier) for family, qualifier in columns)
        return key, columns, _ROW_WIRE + len(key) + size

    def _counted(self, record: Record) -> Iterator[Column]:
        for family, field, literal in self._columns:
            qualifier = _bytes(record, field) if field in record or field in self._fields else literal
            if not 0 < len(qualifier) <= _LONGEST_KEY:
                raise RecordError(
                    record, field, f"has {len(qualifier)} bytes, and names a column: allowed are 1 to {_LONGEST_KEY}"
                )
            if qualifier.endswith(TXID) or TXID + b":" in qualifier:
                name = qualifier.decode(errors="replace")
                raise RecordError(record, field, f"names column {name!r}, of those with ids of transactions")
            yield family, qualifier

    def _row_key(self, record: Record) -> bytes:
        key = _bytes(record, self._key)
        if not 0 < len(key) <= _LONGEST_KEY:
            raise RecordError(
                record, self._key, f"has {len(key)} bytes, and is the row key: allowed are 1 to {_LONGEST_KEY}"
            )
        return key


def _bytes(record: Record, field: str) -> bytes:
    """The value of a field: text in UTF-8, numbers and UUIDs as their text (as entities, R20)."""
    # Asked before it is read: a defaultdict would make one up.
    if field not in record:
        raise RecordError(record, field, "is missing")
    value = record[field]
    if isinstance(value, str):
        try:
            return str.encode(value)
        except UnicodeEncodeError:
            raise RecordError(record, field, "holds half a character (a lone surrogate)") from None
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, UUID):
        return str(value).encode()
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return int.__repr__(value).encode()
        except ValueError:
            raise RecordError(record, field, f"is a number of {value.bit_length()} bits: too long") from None
    raise RecordError(record, field, f"is of type {type(value).__name__}, allowed are str, bytes, int and UUID")


def _timestamp(record: Record, field: str) -> int:
    value = record.get(field)
    if type(value) is not int:
        raise RecordError(
            record, field, "is missing" if field not in record else f"is of type {type(value).__name__}, allowed is int"
        )
    if not 1 <= value <= _LAST_TIMESTAMP:
        raise RecordError(record, field, f"is {value}, and is the timestamp: allowed are epoch milliseconds from 1")
    return value
