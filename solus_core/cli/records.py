"""From blocks of bytes to records, each kept as the exact bytes that came in, its terminator included."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Final, Protocol, final

from attrs import field, frozen

from solus_core.cli.failures import EXIT_USAGE, CommandError, one_line
from solus_core.cli.keys import RECORD_LIMIT, BadRecordError, csv_fields
from solus_core.cli.sources import BLOCK, Source

BOM: Final = b"\xef\xbb\xbf"
# A chunk ends at this many bytes even if its records are few: it is held in memory as a whole.
_CHUNK_BYTES: Final = 8 << 20
_QUOTED_REST: Final = re.compile(rb'[^"]*(?:""[^"]*)*')


@final
class Format(str, Enum):
    """How the input is cut into records."""

    JSONL = "jsonl"
    CSV = "csv"
    LINES = "lines"
    NUL = "nul"


@final
@frozen
class Layout:
    """``header``: the first record of a CSV file names its columns. ``delimiter``: one byte, CSV only."""

    format: Format
    delimiter: bytes = b","
    header: bool = False


@final
@frozen
class Chunk:
    """Records that follow each other in one input. ``first``: number of the first one's line, from 1."""

    records: list[bytes]
    source: str
    first: int

    def place(self, index: int, layout: Layout, line: int = 0) -> str:
        """Where a record of this chunk begins, as ``file:line`` (NUL-separated: the number of the record).

        ``line``: of the record, from 0, in CSV.
        """
        if layout.format is Format.CSV:
            return f"{one_line(self.source)}:{self.first + _lines(self.records[:index]) + line}"
        return f"{one_line(self.source)}:{self.first + index}"


@final
@frozen
class Stream:
    """An input that has begun. ``prologue``: byte-order mark and header, to be written before any record.

    ``columns``: of the CSV header, or None.
    """

    layout: Layout
    prologue: bytes
    columns: tuple[str, ...] | None
    chunks: Iterator[Chunk]


class Splitter(Protocol):
    """Cuts blocks into records, wherever the blocks were cut."""

    def feed(self, block: bytes) -> list[bytes]:
        """The records that are complete with this block."""

    def finish(self) -> list[bytes]:
        """What is left at the end of the input: at most one record, without its terminator."""


@final
class LineSplitter:
    """Records end with one byte: a newline or a NUL."""

    def __init__(self, terminator: bytes) -> None:
        self._terminator = terminator
        self._parts: list[bytes] = []  # joined only when the record is complete: a long one costs linear time

    def feed(self, block: bytes) -> list[bytes]:
        end = block.rfind(self._terminator) + 1
        if end == 0:
            if block:
                self._parts.append(block)
            return []
        whole = b"".join((*self._parts, block[:end]))
        self._parts = [block[end:]] if end < len(block) else []
        if self._terminator == b"\n":
            return io.BytesIO(whole).readlines()
        return [record + self._terminator for record in whole.split(self._terminator)[:-1]]

    def finish(self) -> list[bytes]:
        rest, self._parts = b"".join(self._parts), []
        return [rest] if rest else []


@final
class CsvSplitter:
    """Records end with a newline outside quotes (RFC 4180; as Python's csv, a quote opens only a field's start).

    A quote that is not closed within ``RECORD_LIMIT`` bytes ends with its line then: what follows is read as
    records again.
    """

    def __init__(self, delimiter: bytes) -> None:
        self._opening = delimiter + b'"'
        self._lines = LineSplitter(b"\n")
        self._open: list[bytes] = []  # the lines so far of a record that ended inside quotes
        self._open_bytes = 0

    def feed(self, block: bytes) -> list[bytes]:
        lines = self._lines.feed(block)
        records: list[bytes] = []
        for line in lines:
            if not self._open and b'"' not in line:
                records.append(line)
                continue
            inside = self._ends_inside(line, inside=bool(self._open))
            self._open.append(line)
            self._open_bytes += len(line)
            if not inside or self._open_bytes >= RECORD_LIMIT:
                records.append(b"".join(self._open))
                self._open, self._open_bytes = [], 0
        return records

    def finish(self) -> list[bytes]:
        rest, self._open = b"".join((*self._open, *self._lines.finish())), []
        return [rest] if rest else []

    def _ends_inside(self, line: bytes, *, inside: bool) -> bool:
        if inside or line.startswith(b'"'):
            at = 0 if inside else 1
        else:
            at = line.find(self._opening) + len(self._opening)
            if at < len(self._opening):
                return False
        while True:
            rest = _QUOTED_REST.match(line, at)
            closing = rest.end() if rest else len(line)
            if closing >= len(line):
                return True
            opening = line.find(self._opening, closing + 1)
            if opening < 0:
                return False
            at = opening + len(self._opening)


def _lines(records: Sequence[bytes]) -> int:
    return sum(record.count(b"\n") for record in records)


def terminator_of(layout: Layout, header: bytes) -> bytes:
    """What ends a record: needed where one came without and another follows it in the output."""
    if layout.format is Format.NUL:
        return b"\0"
    return b"\r\n" if layout.format is Format.CSV and header.endswith(b"\r\n") else b"\n"


def layout_by_name(paths: Sequence[str]) -> Layout | None:
    """What the extensions say (``.gz`` apart), None if they say nothing. Different answers are an error."""
    known = {
        ".jsonl": Layout(Format.JSONL),
        ".ndjson": Layout(Format.JSONL),
        ".json": Layout(Format.JSONL),
        ".csv": Layout(Format.CSV, header=True),
        ".tsv": Layout(Format.CSV, b"\t", header=True),
    }
    found = {}
    for path in paths:
        suffix = PurePath(path.lower().removesuffix(".gz")).suffix
        if suffix in known:
            found[known[suffix]] = path
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise CommandError(
            f"{one_line(first)} and {one_line(second)} are of different formats: give --format", EXIT_USAGE
        )
    return next(iter(found), None)


@final
@frozen
class _Begun:
    source: Source
    splitter: Splitter
    bom: bytes
    header: bytes
    pending: list[bytes] = field(factory=list)


def begin(sources: Iterator[Source], layout: Layout | None, has_keys: bool, batch_size: int) -> Stream:
    """Read as far as it takes to know the format (if ``layout`` is None) and the CSV header, and no further.

    By content, the first byte ``{`` means JSON Lines and anything else plain lines; an input without any byte
    is whatever suits the keys that were asked for.
    """
    for source in sources:
        head = _head(source, sniff=layout is None)
        if not head:
            continue
        if layout is None:
            found = head.removeprefix(BOM).lstrip().startswith(b"{")
            layout = Layout(Format.JSONL if found else Format.LINES)
        begun = _begin_one(source, head, layout)
        columns = _columns(begun.header, source.name, layout) if layout.header else None
        return Stream(layout, begun.bom + begun.header, columns, _chunks(begun, sources, layout, columns, batch_size))
    return Stream(layout or Layout(Format.JSONL if has_keys else Format.LINES), b"", None, iter(()))


def _head(source: Source, *, sniff: bool) -> bytes:
    head = b""
    while (block := source.read()) is not None:
        head += block
        if BOM.startswith(head):  # nothing yet, or less than the mark, or the mark alone
            continue
        if not sniff or len(head) > BLOCK or head.removeprefix(BOM).strip():
            break
    return head


def _begin_one(source: Source, head: bytes, layout: Layout) -> _Begun:
    bom = BOM if head.startswith(BOM) else b""
    terminator = terminator_of(layout, b"")
    splitter: Splitter = CsvSplitter(layout.delimiter) if layout.format is Format.CSV else LineSplitter(terminator)
    pending = splitter.feed(head[len(bom) :])
    if not layout.header:
        return _Begun(source, splitter, bom, b"", pending)
    while not pending and (block := source.read()) is not None:
        pending = splitter.feed(block)
    pending = pending or splitter.finish()
    return _Begun(source, splitter, bom, pending[0] if pending else b"", pending[1:])


def _columns(header: bytes, name: str, layout: Layout) -> tuple[str, ...]:
    if not header.endswith(b"\n") and b"\r" in header[:-1]:
        raise CommandError(
            f"{one_line(name)}: the CSV header never ends: it has carriage returns and no newline, as old Macs "
            "wrote; convert them first, as by tr '\\r' '\\n'",
            EXIT_USAGE,
        )
    try:
        return tuple(cell.decode() for cell in csv_fields(header, layout.delimiter))
    except UnicodeDecodeError as error:
        raise CommandError(f"{one_line(name)}: the CSV header is not UTF-8", EXIT_USAGE) from error
    except BadRecordError as bad:
        raise CommandError(f"{one_line(name)}: in the CSV header, {bad.reason}", EXIT_USAGE) from bad


def _chunks(
    begun: _Begun, later: Iterator[Source], layout: Layout, columns: tuple[str, ...] | None, batch_size: int
) -> Iterator[Chunk]:
    yield from _chunks_of(begun, layout, batch_size)
    for source in later:
        head = _head(source, sniff=False)
        if not head:
            continue
        begun = _begin_one(source, head, layout)
        if columns is not None and (found := _columns(begun.header, source.name, layout)) != columns:
            raise CommandError(
                f"{one_line(source.name)}: its CSV header has the columns {one_line(', '.join(found))}, "
                f"the first file has {one_line(', '.join(columns))}"
            )
        yield from _chunks_of(begun, layout, batch_size)


def _chunks_of(begun: _Begun, layout: Layout, batch_size: int) -> Iterator[Chunk]:
    first = 1 + begun.header.count(b"\n")
    for records in _batches(begun.source, begun.splitter, begun.pending, batch_size):
        yield Chunk(records, begun.source.name, first)
        first += _lines(records) if layout.format is Format.CSV else len(records)


def _batches(source: Source, splitter: Splitter, pending: list[bytes], batch_size: int) -> Iterator[list[bytes]]:
    """Full batches while there is enough to read, and whatever there is before any wait for more."""
    held = 0
    failure: CommandError | None = None
    block: bytes | None = b""  # the first turn is for what came along with the header
    while block is not None:
        pending += splitter.feed(block)
        held += len(block)
        flush = held >= _CHUNK_BYTES or not source.ready()
        due = len(pending) if flush else len(pending) - len(pending) % batch_size
        yield from _cut(pending[:due], batch_size)
        pending = pending[due:]
        held = 0 if due else held
        try:
            block = source.read()
        except CommandError as error:  # told once the records before the damage are done with
            failure, block = error, None
    yield from _cut(pending if failure else pending + splitter.finish(), batch_size)
    if failure is not None:
        raise failure


def _cut(records: list[bytes], batch_size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(records), batch_size):
        yield records[start : start + batch_size]
