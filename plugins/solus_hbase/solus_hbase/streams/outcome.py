"""What becomes of records that are written together, and what is to be told of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeAlias, TypeVar, final

from attrs import define, field, frozen

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.gateway.stream_calls import refused
from solus_hbase.streams.errors import FlushError, Record, RecordError

P = TypeVar("P")

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

    def failure(self, kept: Sequence[Entry[P]], before: Failure | None, repeatable: bool) -> Failure | None:
        """Why ``kept`` is kept, with what is still to be told of the tries ``before``.

        ``repeatable``: what is written twice is as if it had been written once.
        """
        doubtful = [entry.record for entry in self.doubtful(kept)]
        earlier = () if before is None else before.doubtful
        if repeatable:
            # Once each, and only what is not settled.
            open_still = {id(entry.record) for entry in kept} - set(map(id, doubtful))
            earlier = tuple(record for record in earlier if id(record) in open_still)
        if not kept:
            # What a later try has mended is no news, unless it may have been written twice.
            return Failure(before.error, (), earlier, (), before.tried) if before is not None and earlier else None
        never = {id(entry.record) for entry, _ in self.refused}
        never.update(map(id, before.refused if before is not None else ()))
        return Failure(
            # An outage says more than rows that are refused: those have an error of their own.
            next((error for error in self.errors if not _refused(error)), next(iter(self.errors), None)),
            tuple(entry.record for entry in kept),
            (*earlier, *doubtful),
            tuple(entry.record for entry in kept if id(entry.record) in never),
            len(self.batch),
        )


@final
@frozen(eq=False)
class Failure:
    """What a ``FlushError`` will say; ``error``: None if the flush was interrupted; ``tried``: records of the flush."""

    error: Exception | None
    records: tuple[Record, ...]
    doubtful: tuple[Record, ...]
    refused: tuple[Record, ...]
    tried: int

    def now(self, kept: set[int], repeatable: bool) -> Failure | None:
        """What of it is still so, and news, while of all records (by id) these are kept."""
        records = tuple(record for record in self.records if id(record) in kept)
        doubtful = tuple(record for record in self.doubtful if not repeatable or id(record) in kept)
        refused = tuple(record for record in self.refused if id(record) in kept)
        return Failure(self.error, records, doubtful, refused, self.tried) if records or doubtful else None

    def told(self) -> FlushError:
        why = self.error
        if not isinstance(why, SolusError):
            met = "was interrupted" if why is None else f"met {why!r}"
            why = StoreError(ErrorCode.INTERNAL_ERROR, f"the flush {met}")
        failure = FlushError(why, self.records, self.doubtful, self.refused, self.tried)
        failure.__cause__ = why.__cause__ or self.error
        return failure


@final
@define(eq=False)
class News(Generic[P]):
    """What one caller has to tell, taken out as it is told: an interrupt leaves the rest here.

    ``done``: entries to acknowledge; ``bad``: for ``on_bad``; ``failure``: of the flushes so far; ``raised``: an
    interrupt, or else the first error of those who were told. ``busy``: somebody is at it.
    """

    done: deque[Entry[P]] = field(factory=deque)
    bad: deque[RecordError] = field(factory=deque)
    failure: Failure | None = None
    raised: BaseException | None = None
    busy: bool = True

    @property
    def is_open(self) -> bool:
        """Is something left to tell?"""
        return bool(self.done or self.bad or self.failure)

    @property
    def is_interrupted(self) -> bool:
        return is_interrupt(self.raised)

    def met(self, error: BaseException) -> None:
        """Remember an error for the end: the first one, unless a later one is an interrupt, which nothing may hide."""
        if self.raised is None or (is_interrupt(error) and not self.is_interrupted):
            self.raised = error

    def tell(self, on_bad: OnBad | None) -> None:
        """Tell whoever waits for these records, all of them.

        Each is called once: one that an interrupt cuts off is not called again.
        """
        # No interrupt gets in between taking out an entry here and calling: with a call to take it out it would.
        with suppress(IndexError):
            for entry in iter(self.done.popleft, None):
                if entry.ack is not None:
                    try:
                        entry.ack(entry.record)
                    except BaseException as error:  # raised in the end
                        self.met(error)
        with suppress(IndexError):
            for bad in iter(self.bad.popleft, None):
                if on_bad is not None:
                    try:
                        on_bad(bad)
                    except BaseException as error:  # as above
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
