"""Rows that are deleted logically: a flag cell hides them, and the newest of all marks and restores decides.

Events may arrive in any order, and more than once: an event's own time is the timestamp of the cell that it writes,
and HBase orders cells by timestamp. See the how-to "Delete rows logically" for what that leaves open.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, final

from attrs import frozen

from solus_core.errors import BatchError, InvalidArgumentError, InvalidConfigError, StoreError
from solus_hbase.batches import BYTES, ROWS
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.flag_cells import RESTORED, Cell, Column, FlagCells
from solus_hbase.gateway.thrift2 import Thrift2Gateway
from solus_hbase.workers import Workers

__all__ = ["RESTORED", "FlaggedRow", "LogicalDelete"]

Name = str | bytes
"""A row key or a part of a column's name; text stands for its UTF-8 bytes."""

Event = tuple[Name, int]
"""Row, and time of the event in ms."""

_LONGEST: Final = 32_767
"""Bytes of a row key at most."""
_TABLE: Final = re.compile(r"(?:\w+:)?\w[\w.-]*")
_LATEST: Final = 2**63 - 2
"""In HBase the largest long means "now"."""
_DELETE_BYTES: Final = 60
"""Of one row's delete on the wire, names aside."""
_MOST_ROWS: Final = 10_000


@final
@frozen
class FlaggedRow:
    """A row that a scan found. ``cells``: its values by ``family:qualifier``, without the flags that the scan knew;
    ``flags``: those among them that the row carries, each with the time of its newest mark in ms.
    """

    row: bytes
    cells: dict[bytes, bytes]
    flags: dict[bytes, int]


@final
class LogicalDelete:
    """Marks rows of ``table`` as deleted in the column ``flag`` of ``family``, and brings them back.

    A row is there if its column ``must_exist``, of the same family, holds any value: no mark ever creates a row.
    ``table`` is a full name (``namespace:table``) or one in the context's namespace; it has to exist. Use one object
    for each flag; rows can carry several.

    Times are whole ms, 0 to 2**63 - 2; the newest event of a row decides. A mark is a cell without a value, with the
    event's time. A restore deletes the flag's cells up to its time. Of a mark and a restore of the same time the
    restore wins. **A major compaction forgets restores**: a mark that arrives after it applies, though it is older.

    With ``keep_restores`` a restore is a cell too, with the value ``RESTORED``, and no compaction changes anything. Of
    events of the same time the last to arrive wins. Whoever reads the flag by its presence takes such rows for
    deleted; a scan here understands both ways, which can be mixed.

    Threads may share it. All calls are repeated by the context's settings where that can help; each is idempotent,
    so that one that failed, ``in_doubt`` or not, may simply be made again.

    Raises ``InvalidConfigError`` with all problems: names, a table or family that isn't there, a gateway other than
    Thrift 2, and a family with ``NEW_VERSION_BEHAVIOR``, under which a delete does not hide what arrives later,
    unless ``keep_restores``.
    """

    def __init__(
        self,
        context: HBaseContext,
        table: str,
        *,
        family: Name,
        flag: Name,
        must_exist: Name,
        keep_restores: bool = False,
    ) -> None:
        self._family = _bytes("family", family)
        self._flag = _bytes("flag", flag)
        self._must_exist = _bytes("must_exist", must_exist)
        self._keep_restores = keep_restores
        self._threads = context.config.pool_size
        if not isinstance(table, str):
            raise TypeError(f"table must be str, not {type(table).__name__}")
        if not isinstance(keep_restores, bool):
            raise TypeError(f"keep_restores must be a bool, not {type(keep_restores).__name__}")
        problems = [] if _TABLE.fullmatch(table) else [f"table is {table!r}, which can't be the name of one"]
        named = {"flag": self._flag, "must_exist": self._must_exist}
        problems += [f"{what} is empty" for what, name in named.items() if not name]
        if self._flag == self._must_exist:
            problems.append(f"flag and must_exist are both {self._flag!r}: rows would exist because they are deleted")
        if not isinstance(context.gateway, Thrift2Gateway):
            raise InvalidConfigError(
                "logical deletes",
                [*problems, "the gateway is not Thrift 2, which alone can check that a row exists as it marks it"],
            )
        if problems:
            raise InvalidConfigError("logical deletes", problems)
        full_name = table if ":" in table else context.config.table_name(table)
        self._cells = FlagCells(context.gateway, full_name, self._family)
        self._families: frozenset[bytes] = frozenset()
        problems = self._bad_table(full_name)
        if problems:
            raise InvalidConfigError("logical deletes", problems)

    def mark_deleted(self, row: Name, at: int) -> bool:
        """Mark a row as deleted by an event of that time; was the row there? If not, nothing is written.

        True does not mean that the row is deleted now: a newer restore hides the mark. False after a repeated try
        means that the row was gone at the last one.
        """
        key = _row(row)
        return self._cells.put_if_present(key, self._must_exist, self._flag, b"", _time(at))

    def restore(self, row: Name, at: int) -> bool:
        """Take back all marks up to that time; was it applied? With ``keep_restores`` only to a row that is there,
        without always: it counts for a row that is created later, too.
        """
        key, time = _row(row), _time(at)
        if self._keep_restores:
            return self._cells.put_if_present(key, self._must_exist, self._flag, RESTORED, time)
        self._cells.delete(self._flag, [(key, time)])
        return True

    def mark_deleted_many(self, events: Iterable[Event]) -> list[bool]:
        """:meth:`mark_deleted` for each event, up to ``pool_size`` at once; the answers in the same order.

        A failure part of the way is a ``BatchError`` in terms of events (R8); repeating the whole batch is fine.
        """
        return self._put_many(_events(events), b"")

    def restore_many(self, events: Iterable[Event]) -> list[bool]:
        """:meth:`restore` for each event; answers and failures as of :meth:`mark_deleted_many`.

        Without ``keep_restores`` it takes one call for up to 2,000 rows.
        """
        checked = _events(events)
        if self._keep_restores:
            return self._put_many(checked, RESTORED)
        done = 0
        for chunk in self._chunks(checked):
            try:
                self._cells.delete(self._flag, chunk)
            except StoreError as error:
                doubtful = chunk if error.in_doubt else []
                raise _failed(error, checked[done:], doubtful, dict.fromkeys(checked[:done], True)) from error.__cause__
            done += len(chunk)
        return [True] * done

    def scan(
        self,
        *,
        include_deleted: bool = False,
        flags: Sequence[Name] | None = None,
        start: Name | None = None,
        stop: Name | None = None,
        columns: Sequence[Name] | None = None,
        rows_per_call: int = 500,
    ) -> Iterator[FlaggedRow]:
        """The rows from ``start`` to before ``stop``, in the order of their keys, without those that any of ``flags``
        marks; the server leaves these out.

        ``flags``: columns of the family, of whichever objects; by default the flag of this one. ``include_deleted``:
        no row is left out, each says which of the flags it carries. ``columns``: ``family:qualifier`` or ``family``,
        by default all. Rows with nothing but flags are not there.

        Each ``rows_per_call`` rows are one call: memory holds no more, and a scan may take any time. Calls see what
        was written before each of them.
        """
        known = [self._flag] if flags is None else _names("flags", flags)
        if b"" in known:
            raise InvalidArgumentError("flags has an empty name")
        if self._must_exist in known:
            raise InvalidArgumentError(f"flags has {self._must_exist!r}, which is the column that must exist")
        if isinstance(rows_per_call, bool) or not isinstance(rows_per_call, int):
            raise TypeError(f"rows_per_call must be an int, not {type(rows_per_call).__name__}")
        if not 1 <= rows_per_call <= _MOST_ROWS:
            raise InvalidArgumentError(f"rows_per_call is {rows_per_call}, allowed are 1 to {_MOST_ROWS:,}")
        return self._pages(
            None if start is None else _row(start, "start"),
            None if stop is None else _row(stop, "stop"),
            None if columns is None else self._with_flags(columns, known),
            frozenset(known),
            [] if include_deleted else known,
            rows_per_call,
        )

    def _pages(
        self,
        start: bytes | None,
        stop: bytes | None,
        columns: list[Column] | None,
        known: frozenset[bytes],
        skip: list[bytes],
        rows: int,
    ) -> Iterator[FlaggedRow]:
        # A scan from a row to the same row would be HBase's way to ask for that row.
        while stop is None or (start or b"") < stop:
            page = self._cells.page(start, stop, columns, skip, rows)
            for row, cells in page:
                found = self._found(row, cells, known)
                if found.cells:
                    yield found
            if len(page) < rows:
                return
            start = _after(page[-1][0])
            if not start:
                return

    def _found(self, row: bytes, cells: list[Cell], known: frozenset[bytes]) -> FlaggedRow:
        found = FlaggedRow(row, {}, {})
        for family, qualifier, value, timestamp in cells:
            if family != self._family or qualifier not in known:
                found.cells[b"%b:%b" % (family, qualifier)] = value
            elif value != RESTORED:
                found.flags[qualifier] = timestamp
        return found

    def _with_flags(self, columns: Sequence[Name], known: list[bytes]) -> list[Column]:
        """``columns``, and the flags, which the server has to see."""
        wanted: list[Column] = []
        for name in _names("columns", columns):
            family, colon, qualifier = name.partition(b":")
            if not family:
                raise InvalidArgumentError(f"columns has {name!r}: write family:qualifier, or family for all of it")
            wanted.append((family, qualifier if colon else None))
        if not wanted:
            raise InvalidArgumentError("columns is empty: leave it out for all columns")
        wanted += [(self._family, flag) for flag in known]
        unknown = {family for family, _ in wanted} - self._families
        if unknown:  # or added since we last looked
            self._families = frozenset(self._cells.table_families() or ())
            unknown -= self._families
            if unknown:
                families = ", ".join(map(repr, sorted(self._families)))
                raise InvalidArgumentError(f"columns has family {min(unknown)!r}, the table has only {families}")
        # Asked for a family and for a column of it, the server answers with the column alone.
        whole = {family for family, qualifier in wanted if qualifier is None}
        return [(family, None) for family in whole] + [column for column in wanted if column[0] not in whole]

    def _put_many(self, events: list[tuple[bytes, int]], value: bytes) -> list[bool]:
        answers: dict[int, bool] = {}
        doubtful: list[tuple[bytes, int]] = []

        def putting(number: int, row: bytes, at: int) -> Callable[[], None]:
            def put() -> None:
                try:
                    answers[number] = self._cells.put_if_present(row, self._must_exist, self._flag, value, at)
                except StoreError as error:
                    if error.in_doubt:
                        doubtful.append((row, at))
                    raise

            return put

        workers = Workers(self._threads)
        try:
            workers.run([putting(number, *event) for number, event in enumerate(events)])
        except StoreError as error:
            rest = [event for number, event in enumerate(events) if number not in answers]
            told: dict[Hashable, bool] = {events[number]: answer for number, answer in answers.items()}
            raise _failed(error, rest, doubtful, told) from error.__cause__
        finally:
            workers.close()
        return [answers[number] for number in range(len(events))]

    def _chunks(self, events: list[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
        chunk: list[tuple[bytes, int]] = []
        size = 0
        for event in events:
            needs = len(event[0]) + len(self._family) + len(self._flag) + _DELETE_BYTES
            if chunk and (len(chunk) == ROWS or size + needs > BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(event)
            size += needs
        if chunk:
            yield chunk

    def _bad_table(self, name: str) -> list[str]:
        families = self._cells.table_families()
        if families is None:
            return [f"there is no table {name!r}"]
        self._families = frozenset(families)
        if self._family not in families:
            return [f"table {name!r} has no family {self._family!r}, only {', '.join(map(repr, sorted(families)))}"]
        if not self._keep_restores and families[self._family].get(b"NEW_VERSION_BEHAVIOR", b"").lower() == b"true":
            why = "under which an older mark that arrives after a restore applies: use keep_restores=True"
            return [f"family {self._family!r} of table {name!r} has NEW_VERSION_BEHAVIOR, {why}"]
        return []


def _failed(
    error: StoreError,
    unprocessed: Sequence[tuple[bytes, int]],
    doubtful: Sequence[tuple[bytes, int]],
    answers: Mapping[Hashable, bool],
) -> BatchError:
    return BatchError(error.code, error.message, unprocessed=unprocessed, doubtful=doubtful, answers=answers)


def _events(events: Iterable[Event]) -> list[tuple[bytes, int]]:
    """All events, checked before the first is applied."""
    checked = []
    given: Iterable[object] = events
    for event in given:
        if not isinstance(event, Sequence) or isinstance(event, (str, bytes)) or len(event) != 2:
            raise TypeError(f"an event must be a pair of row and time, not {reprlib.repr(event)}")
        checked.append((_row(event[0]), _time(event[1])))
    return checked


def _row(value: Name, what: str = "a row key") -> bytes:
    key = _bytes(what, value)
    if not key:
        raise InvalidArgumentError(f"{what} is empty")
    if len(key) > _LONGEST:
        raise InvalidArgumentError(f"{what} of {len(key):,} bytes is too long, HBase takes {_LONGEST:,}")
    return key


def _time(at: int) -> int:
    if isinstance(at, bool) or not isinstance(at, int):
        raise TypeError(f"at must be an int, the time of the event in ms, not {type(at).__name__}")
    if not 0 <= at <= _LATEST:
        raise InvalidArgumentError(f"at is {at}, allowed are ms from 0 to {_LATEST}")
    return at


def _names(what: str, names: Sequence[Name]) -> list[bytes]:
    if isinstance(names, (str, bytes)):
        raise TypeError(f"{what} must be several names, such as [{names!r}], not one")
    return list(dict.fromkeys(_bytes(f"each of {what}", name) for name in names))


def _bytes(what: str, value: Name) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str or bytes, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} is {value!r}, which has no UTF-8 form: {error.reason}") from error


def _after(row: bytes) -> bytes:
    """The smallest row key behind this one; empty if there is none."""
    if len(row) < _LONGEST:
        return row + b"\0"
    shorter = row.rstrip(b"\xff")
    return shorter and shorter[:-1] + bytes((shorter[-1] + 1,))
