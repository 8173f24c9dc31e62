"""What a sink can't do, and which records that is about."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias, final

from solus_core.errors import ErrorCode, SolusError

Record: TypeAlias = Mapping[str, object]
"""What comes out of a stream: values by the names of their fields."""

_SHOWN: Final = 3
_FIELDS: Final = 8
_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


@final
class RecordError(SolusError):
    """A record can't be written as it is; the sink does not keep it. ``field`` says where it is wrong.

    ``in_doubt``: the server refused it, and may have written it all the same.
    """

    def __init__(self, record: Record, field: str, problem: str, *, in_doubt: bool = False) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT, f"field {field!r} {problem}, in record {shown(record)}", in_doubt=in_doubt
        )
        self.record = record
        self.field = field


@final
class FlushError(SolusError):
    """A flush failed. The sink keeps what was not written: do not add it again.

    ``records``: exactly those that are not known to be written, in the order in which they were added; none if
    all were written or taken back within ``patience``. ``doubtful``: those that may have been written all the same,
    each as often as a try left that open. A put may be repeated, an increment counts again. ``refused``: those of
    ``records`` that the server looked at and refused: to send them again will not help, to ``take_back`` these lets
    the rest go on. The driver's error is the cause.

    Raised by ``add``, the record just given was taken, as with any error but ``BufferFullError`` and
    ``RecordError``. It is among ``records`` if it was part of the flush.
    """

    def __init__(
        self,
        error: SolusError,
        records: Sequence[Record],
        doubtful: Sequence[Record],
        refused: Sequence[Record],
        tried: int,
    ) -> None:
        shown_of = records or doubtful
        few = ", ".join(shown(record) for record in shown_of[:_SHOWN]) + (", ..." if len(shown_of) > _SHOWN else "")
        super().__init__(
            error.code,
            f"{error.message}; of {tried} records {len(records)} are not written, and kept: {few}"
            if records
            else f"{error.message}; nothing of that is kept any more, but perhaps it was written: {few}",
            in_doubt=bool(doubtful),
        )
        self.records = tuple(records)
        self.doubtful = tuple(doubtful)
        self.refused = tuple(refused)


@final
class BufferFullError(SolusError):
    """The buffer is full and could not be flushed in time. ``record`` was not taken: add it again later.

    The failed flush, a ``FlushError``, is the cause; without one, another thread was still at it.
    """

    def __init__(self, record: Record, waited: float, code: ErrorCode, why: str) -> None:
        super().__init__(
            code, f"the buffer stayed full for {waited:.2f} s, record {shown(record)} was not taken: {why}"
        )
        self.record = record


@final
class CounterError(SolusError):
    """A cell can't be raised: it holds no counter, or would exceed the largest number, or its id is no id.

    To commit again does not help before the cell is mended. ``row`` and ``column`` (``family:qualifier``) name it.
    """

    def __init__(self, row: bytes, column: bytes, problem: str) -> None:
        where = f"{row.decode(errors='replace')!r} {column.decode(errors='replace')}"
        super().__init__(ErrorCode.HBASE_ERROR, f"counter {where} {problem}")
        self.row = row
        self.column = column


@final
class StaleTransactionError(SolusError):
    """A transaction is older than one that a counter has seen of the same source; it is refused.

    ``txid`` is the refused id, ``stored`` the newer one.
    """

    def __init__(self, txid: int, stored: int, source: str | None, cell: str) -> None:
        of = "" if source is None else f" of source {source!r}"
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            f"transaction {txid}{of} is older than {stored}, which is in counter {cell} already: ids of a source must "
            "rise, and one transaction must be complete before the next begins",
        )
        self.txid = txid
        self.stored = stored


def shown(record: Record) -> str:
    """A record for a message: its first fields, long values cut."""
    parts = [f"{field!r}: {_short(value)}" for field, value in islice(record.items(), _FIELDS)]
    return "{" + ", ".join(parts) + (", ...}" if len(record) > _FIELDS else "}")


def _short(value: object) -> str:
    try:
        return _REPR.repr(value)
    except Exception:  # of whatever the value is: a message must come about all the same
        return f"<{type(value).__name__}>"
