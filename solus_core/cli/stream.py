"""The loop: check a chunk, write it, mark it, in this order (R25). Knows neither click nor a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Protocol, final

from attrs import define, field, frozen

from solus_core.cli.failures import EXIT_BAD_RECORD, CommandError, one_line
from solus_core.cli.keys import BadRecordError, KeyOf, line_count
from solus_core.cli.records import Chunk, Format, Layout
from solus_core.errors import BatchError

_PLACES_KEPT: Final = 5


@final
class OnError(str, Enum):
    """What becomes of a bad record: end the run, leave it out, or write it as it is, unmarked."""

    FAIL = "fail"
    SKIP = "skip"
    PASS = "pass"


class Handle(Protocol):
    """The verbs of a de-duper that the loop needs."""

    def check_absence_many(self, entities: Iterable[Any], /) -> dict[Any, bool]: ...

    def add_many(self, entities: Iterable[Any], ttl: int, /) -> None: ...

    def add_if_absent_many(self, entities: Iterable[Any], ttl: int, /) -> dict[Any, bool]: ...


class Sink(Protocol):
    """Where records go. When ``write`` returns, they are written."""

    def write(self, records: Sequence[bytes], /) -> None: ...


@final
@define
class Bad:
    """Bad records of one reason; ``places`` holds where the first few are. ``lines``: that all of them take up."""

    count: int = 0
    lines: int = 0
    places: list[str] = field(factory=list)


@final
@define
class Tally:
    """What a run has done so far. ``records = first_seen + repeats + bad``; blank lines are none of these."""

    first_seen: int = 0
    repeats: int = 0
    blank: int = 0
    bad: dict[str, Bad] = field(factory=dict)

    @property
    def bad_count(self) -> int:
        return sum(each.count for each in self.bad.values())

    @property
    def records(self) -> int:
        return self.first_seen + self.repeats + self.bad_count


@final
@frozen(eq=False)
class Run:
    """How a stream is de-duplicated. ``ttl``: milliseconds. ``repeats``: None if nobody wants to see them.

    ``after_chunk`` is called when a chunk is written and marked, or not touched; it may raise to end the run.
    """

    handle: Handle
    key_of: KeyOf
    layout: Layout
    ttl: int
    first_seen: Sink
    repeats: Sink | None
    on_error: OnError
    mark_first: bool
    after_chunk: Callable[[], None]

    def over(self, chunks: Iterator[Chunk], tally: Tally) -> None:
        """De-duplicate all chunks. ``tally`` is true to what was done, also if this raises."""
        for chunk in chunks:
            self._one(chunk, tally)
            self.after_chunk()

    def _one(self, chunk: Chunk, tally: Tally) -> None:
        records: list[bytes] = []
        keys: list[bytes | None] = []  # None: a bad record that is passed on
        key_of = self.key_of
        failure: CommandError | None = None
        for index, record in enumerate(chunk.records):
            try:
                key = key_of(record)
            except BadRecordError as bad:
                _note_bad(tally, bad, chunk, index, self.layout)
                if self.on_error is OnError.FAIL:
                    # What came before it is good: it is written and marked first.
                    detail = f" ({bad.detail})" if bad.detail else ""
                    place = chunk.place(index, self.layout, bad.line)
                    failure = CommandError(one_line(f"{place}: {bad.reason}{detail}"), EXIT_BAD_RECORD)
                    break
                if self.on_error is OnError.PASS:
                    records.append(record)
                    keys.append(None)
                continue
            if key is None:
                tally.blank += 1
                continue
            records.append(record)
            keys.append(key)
        if self.mark_first:
            self._claim_and_write(records, keys, tally)
        else:
            self._write_and_mark(records, keys, tally)
        if failure is not None:
            raise failure

    def _write_and_mark(self, records: list[bytes], keys: list[bytes | None], tally: Tally) -> None:
        distinct = list(dict.fromkeys(key for key in keys if key is not None))
        answers = self.handle.check_absence_many(distinct)
        absent = [key for key in distinct if answers[key]]
        self._write(records, keys, set(absent), tally)
        self.handle.add_many(absent, self.ttl)

    def _claim_and_write(self, records: list[bytes], keys: list[bytes | None], tally: Tally) -> None:
        distinct = list(dict.fromkeys(key for key in keys if key is not None))
        failure: BatchError | None = None
        try:
            answers = self.handle.add_if_absent_many(distinct, self.ttl)
        except BatchError as error:
            # Those that this call marked, or may have marked, are written all the same: nobody else will.
            failure = error
            answers = {**dict(error.answers), **dict.fromkeys(error.doubtful, True)}
            kept = [key is None or key in answers for key in keys]
            records = [record for record, keep in zip(records, kept, strict=True) if keep]
            keys = [key for key, keep in zip(keys, kept, strict=True) if keep]
        self._write(records, keys, {key for key in distinct if answers.get(key, False)}, tally)
        if failure is not None:
            raise failure

    def _write(self, records: list[bytes], keys: list[bytes | None], absent: set[bytes], tally: Tally) -> None:
        """Write both outputs. ``absent`` is used up: the first record of each key in it is first-seen."""
        first_seen: list[bytes] = []
        repeats: list[bytes] = []
        passed = 0
        for record, key in zip(records, keys, strict=True):
            if key in absent:
                absent.discard(key)
                first_seen.append(record)
            elif key is None:
                passed += 1
                first_seen.append(record)
            else:
                repeats.append(record)
        self.first_seen.write(first_seen)
        if self.repeats is not None:
            self.repeats.write(repeats)
        tally.first_seen += len(first_seen) - passed
        tally.repeats += len(repeats)


def _note_bad(tally: Tally, bad: BadRecordError, chunk: Chunk, index: int, layout: Layout) -> None:
    found = tally.bad.setdefault(bad.reason, Bad())
    found.count += 1
    # More than one only in CSV, where a stray quote takes in what follows it.
    found.lines += line_count(chunk.records[index]) if layout.format is Format.CSV else 1
    if len(found.places) < _PLACES_KEPT:
        found.places.append(chunk.place(index, layout, bad.line))
