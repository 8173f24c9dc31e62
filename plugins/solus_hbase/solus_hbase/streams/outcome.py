"""What becomes of records that are written together, and what is to be told of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

from attrs import define, field, frozen

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.gateway.stream_calls import refused
from solus_hbase.streams.errors import FlushError, Record, RecordError

P = TypeVar("P")

MOST_REFUSED: Final = 20
"""Rows that the server may refuse one after another before the rest of a flush is not tried: then it is the table."""

Ack: TypeAlias = Callable[[Record], object]
"""Called with a record once it is written."""

OnBad: TypeAlias = Callable[[RecordError], object]
"""Called with the error of a record that can't be written, which is skipped then."""


@final
@define(eq=False)
class Entry(Generic[P]):
    """A record in the buffer: what to write, ``size`` in bytes on the wire, whom to tell."""

    record: Record
    payload: P
    size: int
    ack: Ack | None


@final
@define(eq=False)
class Outcome(Generic[P]):
    """What becomes of ``batch``: who writes it notes at once what is known, so that an interrupt hides nothing.

    ``begun``: parts whose call has begun. ``done``: parts that are written, each entry once. ``unapplied``: parts of
    which the call failed and certainly wrote nothing. ``refused``: entries that the server looked at and refused,
    with what it said. ``errors``: what went wrong. What is in none of ``done`` is kept; what of that has begun, and
    is not known to be unapplied, is in doubt.
    """

    batch: list[Entry[P]]
    begun: list[Sequence[Entry[P]]] = field(factory=list)
    done: list[Sequence[Entry[P]]] = field(factory=list)
    unapplied: list[Sequence[Entry[P]]] = field(factory=list)
    refused: list[tuple[Entry[P], SolusError]] = field(factory=list)
    errors: list[Exception] = field(factory=list)

    def split(self) -> tuple[list[Entry[P]], list[Entry[P]]]:
        """The entries that are written, and those that are not known to be, in order."""
        if sum(map(len, self.done)) == len(self.batch):
            return self.batch, []
        done = _ids(self.done)
        return (
            [entry for entry in self.batch if id(entry) in done],
            [entry for entry in self.batch if id(entry) not in done],
        )

    def doubtful(self, kept: Sequence[Entry[P]]) -> list[Entry[P]]:
        """Those of ``kept`` that may be written all the same."""
        ids = _ids(self.begun) - _ids(self.unapplied)
        return [entry for entry in kept if id(entry) in ids]

    def failure(self, kept: Sequence[Entry[P]], before: Failure | None) -> Failure | None:
        """Why ``kept`` is kept, with the doubts and refusals of the tries ``before``."""
        if not kept:
            return before
        earlier, refused_before = ((), ()) if before is None else (before.doubtful, before.refused)
        return Failure(
            # An outage says more than rows that are refused: those have an error of their own.
            next((error for error in self.errors if not _refused(error)), next(iter(self.errors), None)),
            tuple(kept),
            (*earlier, *self.doubtful(kept)),
            (*refused_before, *(entry for entry, _ in self.refused)),
            len(self.batch),
        )


@final
@frozen(eq=False)
class Failure:
    """What a ``FlushError`` will say; ``error``: None if the flush was interrupted; ``tried``: records of the flush."""

    error: Exception | None
    kept: tuple[Entry[Any], ...]
    doubtful: tuple[Entry[Any], ...]
    refused: tuple[Entry[Any], ...]
    tried: int

    def now(self, entries: Sequence[Entry[Any]], repeatable: bool) -> Failure | None:
        """What of it is still so, and news, while ``entries`` are kept.

        ``repeatable``: what is written twice is as if it had been written once, so a doubt is news only while it lasts.
        """
        ids, never = set(map(id, entries)), set(map(id, self.refused))
        kept = tuple(entry for entry in self.kept if id(entry) in ids)
        doubtful = self.doubtful
        if repeatable:
            doubtful = tuple({id(entry): entry for entry in doubtful if id(entry) in ids}.values())
        refused = tuple(entry for entry in kept if id(entry) in never)
        return Failure(self.error, kept, doubtful, refused, self.tried) if kept or doubtful else None

    def told(self) -> FlushError:
        why = self.error
        if not isinstance(why, SolusError):
            met = "was interrupted" if why is None else f"met {why!r}"
            why = StoreError(ErrorCode.INTERNAL_ERROR, f"the flush {met}")
        records, doubtful, refused = (
            [entry.record for entry in entries] for entries in (self.kept, self.doubtful, self.refused)
        )
        failure = FlushError(why, records, doubtful, refused, self.tried)
        failure.__cause__ = why.__cause__ or self.error
        return failure


@final
@define(eq=False)
class News:
    """What one caller has to tell, taken out as it is told: an interrupt leaves the rest here.

    ``calls``: acknowledgements and ``on_bad``, each with its argument; ``failure``: of the flushes so far; ``raised``:
    an interrupt, or else the first error of those who were told.
    """

    calls: deque[tuple[Callable[[Any], object], object]] = field(factory=deque)
    failure: Failure | None = None
    raised: BaseException | None = None

    @property
    def is_open(self) -> bool:
        """Is something left to tell?"""
        return bool(self.calls or self.failure)

    @property
    def is_interrupted(self) -> bool:
        return is_interrupt(self.raised)

    def met(self, error: BaseException) -> None:
        """Remember an error for the end: the first one, unless a later one is an interrupt, which nothing may hide."""
        if self.raised is None or (is_interrupt(error) and not self.is_interrupted):
            self.raised = error

    def tell(self) -> None:
        """Tell whoever waits for these records, all of them.

        Each is called once: one that an interrupt cuts off is not called again.
        """
        # No interrupt gets in between taking out a call here and making it: with a call to take it out it would.
        with suppress(IndexError):
            for call, argument in iter(self.calls.popleft, None):
                try:
                    call(argument)
                except BaseException as error:  # raised in the end
                    self.met(error)

    def end(self, refusal: SolusError | None) -> None:
        """Raise what went wrong: an interrupt, else ``refusal`` (the record was not taken), else the failure.

        Each has the next of these as its cause, or what was raised by those who were told as its context.
        """
        failure = self.failure.told() if self.failure is not None else None
        error = self.raised if self.is_interrupted else refusal or failure or self.raised
        if error is None:
            return
        if error is not failure and failure is not None:
            error.__cause__ = failure
        if error is not self.raised and self.raised is not None:
            error.__context__ = self.raised
        # Nothing is called between these two, so that no interrupt gets in.
        self.failure = None
        raise error


def is_interrupt(error: BaseException | None) -> bool:
    """Is it one as by Ctrl-C?"""
    return error is not None and not isinstance(error, Exception)


def _refused(error: Exception) -> bool:
    return isinstance(error, SolusError) and refused(error)


def _ids(parts: Sequence[Sequence[Entry[P]]]) -> set[int]:
    return {id(entry) for part in parts for entry in part}
