"""Records that wait to be written together (R26).

A flush is made by whoever calls: by :meth:`Buffer.add` when the buffer is full or old, by :meth:`Buffer.tick`, and
by :meth:`Buffer.flush` and :meth:`Buffer.close`. There is no thread behind it, so that acknowledgements are called
and failures raised in the caller's own thread, where somebody listens; the price is that somebody has to tick.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar, final

from attrs import define, frozen

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.streams.errors import BufferFullError, FlushError, Record, RecordError
from solus_hbase.streams.mapping import TableMapping

P = TypeVar("P")

Ack: TypeAlias = Callable[[Record], object]
"""Called with a record once it is written."""

OnBad: TypeAlias = Callable[[RecordError], object]
"""Called with the error of a record that can't be written, which is skipped then."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two tries to make room."""


@final
@define(eq=False)
class Entry(Generic[P]):
    """A record in the buffer: what to write, ``size`` in bytes on the wire, whom to tell."""

    record: Record
    payload: P
    size: int
    ack: Ack | None


@final
@frozen(eq=False)
class Outcome(Generic[P]):
    """What became of entries that were to be written.

    ``failed``: those not known to be written, in order; ``doubtful``: those among them that may be; ``error``: why,
    None if nothing went wrong; ``refused``: those of ``failed`` that the server looked at and refused, with what it
    said.
    """

    failed: list[Entry[P]]
    doubtful: list[Entry[P]]
    error: BaseException | None
    refused: Sequence[tuple[Entry[P], SolusError]] = ()


@final
@frozen(eq=False)
class _Flushed(Generic[P]):
    """Whom to tell after a flush, and what to raise then."""

    done: Sequence[Entry[P]] = ()
    bad: Sequence[RecordError] = ()
    failure: BaseException | None = None


@final
class Buffer(Generic[P]):
    """At most ``mapping.write_buffer_size`` bytes of entries, written by ``write``; threads may share it.

    ``clock``: epoch milliseconds, for ages. ``patience``: seconds that :meth:`add` waits for room. ``on_bad``: takes
    what the server refuses, which is kept without it. Not in batch mode, each entry is written at once, and what
    failed is kept and written before anything else.

    What an acknowledgement or ``on_bad`` raises is raised last, once everybody has been told and the entry that is
    being added was taken. Where that was not, or a flush failed, it is the ``__context__`` of the error that says so.
    """

    def __init__(
        self,
        write: Callable[[list[Entry[P]]], Outcome[P]],
        mapping: TableMapping,
        on_bad: OnBad | None,
        clock: Callable[[], int],
        patience: float,
    ) -> None:
        self._write = write
        self._batch = mapping.batch
        self._capacity = mapping.write_buffer_size
        self._interval = mapping.interval_ms
        self._key = mapping.row_key_field
        self._on_bad = on_bad
        self._clock = clock
        self._patience = patience
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        # Held during a flush: one at a time, so that later records can't overtake earlier ones.
        self._turn = threading.Lock()
        self._entries: list[Entry[P]] = []
        self._bytes = 0
        self._since = 0

    def __len__(self) -> int:
        self._own()
        return len(self._entries)

    def __del__(self) -> None:
        if getattr(self, "_entries", None) and self._pid == os.getpid():
            warnings.warn(f"{len(self._entries)} records were never flushed: close the sink", ResourceWarning, 2)

    def add(self, entry: Entry[P]) -> None:
        """Take an entry; flush before if it does not fit, and after if the oldest one is due.

        ``BufferFullError``: it was not taken. ``FlushError``: it was, and is kept with the others. An interrupt
        leaves that open.
        """
        self._own()
        if not self._batch:
            self._add_single(entry)
            return
        raised = None if self._take(entry) else self._make_room(entry)
        # Where another thread is flushing already, it is told what goes wrong.
        if self._is_due() and not self._turn.locked():
            flushed = self._flush_due()
            _raise(flushed.failure, _graver(raised, self._tell(flushed)))
        elif raised is not None:
            raise raised

    def flush(self) -> None:
        """Write all that is there; returns once it is written, and raises ``FlushError`` if some of it isn't."""
        self._own()
        with self._turn:
            flushed = self._flush()
        _raise(flushed.failure, self._tell(flushed))

    def tick(self) -> int | None:
        """Flush if the oldest entry is due; answers the milliseconds until one will be, None when it is empty."""
        self._own()
        flushed = self._flush_due()
        _raise(flushed.failure, self._tell(flushed))
        with self._changed:
            return max(0, self._since + self._interval - self._clock()) if self._entries else None

    def close(self) -> None:
        """Flush, and take nothing more. After a ``FlushError`` it is still open."""
        self.flush()
        self._closed = True
        # An entry may have come in between.
        self.flush()

    def take_back(self, records: Sequence[Record] | None = None) -> list[Record]:
        """All records that are not written, or those of ``records`` (the same objects), in order; they are forgotten
        here."""
        self._own()
        wanted = None if records is None else set(map(id, records))
        with self._turn, self._changed:
            taken: list[Entry[P]] = []
            left: list[Entry[P]] = []
            for entry in self._entries:
                (taken if wanted is None or id(entry.record) in wanted else left).append(entry)
            self._entries, self._bytes = left, sum(entry.size for entry in left)
            self._changed.notify_all()
            return [entry.record for entry in taken]

    def _take(self, entry: Entry[P]) -> bool:
        with self._changed:
            self._check_open()
            # An entry that is larger than the buffer is alone in it.
            if self._entries and self._bytes + entry.size > self._capacity:
                return False
            if not self._entries:
                self._since = self._clock()
            self._entries.append(entry)
            self._bytes += entry.size
            return True

    def _make_room(self, entry: Entry[P]) -> BaseException | None:
        """Take an entry that does not fit; answers what an acknowledgement raised meanwhile."""
        began, pause = time.monotonic(), _FIRST_PAUSE
        raised: BaseException | None = None
        while True:
            flushed: _Flushed[P] = _Flushed()
            if self._turn.acquire(timeout=max(0.0, began + self._patience - time.monotonic())):
                try:
                    # Another thread may have made room meanwhile.
                    if self._take(entry):
                        return raised
                    flushed = self._flush()
                finally:
                    self._turn.release()
            taken = False
            try:
                taken = not _interrupts(flushed.failure) and self._take(entry)
            finally:
                raised = _graver(raised, self._tell(flushed))
            if taken:
                return raised
            pause = self._wait(entry, began, pause, flushed.failure, raised)

    def _wait(
        self,
        entry: Entry[P],
        began: float,
        pause: float,
        failure: BaseException | None,
        raised: BaseException | None,
    ) -> float:
        """Before the next try to take an entry; answers the pause after that. Raises if there is to be none."""
        if _interrupts(failure) or _interrupts(raised):
            _raise(failure, raised)
        waited = time.monotonic() - began
        if waited >= self._patience:
            _raise(_full(entry.record, waited, failure), raised)
        if failure is not None:
            with self._changed:
                self._changed.wait(min(pause, self._patience - waited))
        return min(2 * pause, _LONGEST_PAUSE)

    def _add_single(self, entry: Entry[P]) -> None:
        with self._changed:
            self._check_open()
            kept = bool(self._entries)
        raised = self._retry_kept(entry) if kept else None
        flushed = self._settle([entry], self._written([entry]), held=False)
        _raise(flushed.failure, _graver(raised, self._tell(flushed)))

    def _retry_kept(self, entry: Entry[P]) -> BaseException | None:
        """Write what is kept, before ``entry``; answers what an acknowledgement raised meanwhile."""
        began, pause = time.monotonic(), _FIRST_PAUSE
        raised: BaseException | None = None
        while True:
            with self._turn:
                flushed = self._flush()
            raised = _graver(raised, self._tell(flushed))
            if flushed.failure is None:
                return raised
            pause = self._wait(entry, began, pause, flushed.failure, raised)

    def _is_due(self) -> bool:
        # A clock that was put back says nothing about the age: better too early than not before it has caught up.
        return not 0 <= self._clock() - self._since < self._interval

    def _flush_due(self) -> _Flushed[P]:
        with self._turn:
            # Another thread may have flushed it while this one waited.
            return self._flush() if self._entries and self._is_due() else _Flushed()

    def _flush(self) -> _Flushed[P]:
        """Write what is there now. Only for who has the turn."""
        with self._changed:
            batch = self._entries[:]
        return self._settle(batch, self._written(batch), held=True) if batch else _Flushed()

    def _written(self, batch: list[Entry[P]]) -> Outcome[P]:
        try:
            return self._write(batch)
        except BaseException as error:  # told with the others of a flush, or raised once the books are in order
            return Outcome(batch, batch, error)

    def _settle(self, batch: list[Entry[P]], outcome: Outcome[P], *, held: bool) -> _Flushed[P]:
        """Keep what failed. ``held``: the batch is the first part of the buffer."""
        refused = outcome.refused if self._on_bad is not None else ()
        handed_on = {id(entry) for entry, _ in refused}
        kept = [entry for entry in outcome.failed if id(entry) not in handed_on]
        with self._changed:
            if held or not self._entries:
                self._since = self._clock()
            if held:
                self._entries[: len(batch)] = kept
            else:
                self._entries += kept
            self._bytes = sum(entry.size for entry in self._entries)
            self._changed.notify_all()
        if outcome.error is None:
            return _Flushed(batch)
        failed = set(map(id, outcome.failed))
        return _Flushed(
            [entry for entry in batch if id(entry) not in failed],
            [self._bad(entry, error) for entry, error in refused],
            _failure(outcome, kept, len(batch)) if kept or _interrupts(outcome.error) else None,
        )

    def _bad(self, entry: Entry[P], refused: SolusError) -> RecordError:
        error = RecordError(entry.record, self._key, f"is the key of a row that the server refuses: {refused.message}")
        error.__cause__ = refused.__cause__ or refused
        return error

    def _tell(self, flushed: _Flushed[P]) -> BaseException | None:
        """Tell whoever waits for these records, all of them; answers the first error that came of it."""
        raised: BaseException | None = None
        for entry in flushed.done:
            if entry.ack is not None:
                try:
                    entry.ack(entry.record)
                except BaseException as error:  # raised in the end, by who called us
                    raised = _graver(raised, error)
        for bad in flushed.bad:
            try:
                assert self._on_bad is not None
                self._on_bad(bad)
            except BaseException as error:  # as above
                raised = _graver(raised, error)
        return raised

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this sink is closed")

    def _own(self) -> None:
        if self._pid != os.getpid():
            # Forked: what the parent had buffered is the parent's to write, and its locks may be held.
            self._begin()


def _interrupts(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, Exception)


def _graver(first: BaseException | None, second: BaseException | None) -> BaseException | None:
    """The first error, unless the second one is an interrupt, which nothing may hide."""
    return second if first is None or (_interrupts(second) and not _interrupts(first)) else first


def _raise(failure: BaseException | None, raised: BaseException | None) -> None:
    """Raise what went wrong: the failure of a flush, with what an acknowledgement raised as its context."""
    if failure is None or (_interrupts(raised) and not _interrupts(failure)):
        failure, raised = raised, failure
    if failure is None:
        return
    if raised is not None:
        failure.__context__ = raised
    raise failure


def _failure(outcome: Outcome[P], kept: list[Entry[P]], taken: int) -> BaseException:
    """What to raise: a ``FlushError``, or the interrupt with that as its cause."""
    error = outcome.error
    assert error is not None
    told = error if isinstance(error, SolusError) else StoreError(ErrorCode.INTERNAL_ERROR, f"the flush met {error!r}")
    ids = set(map(id, kept))
    failure = FlushError(
        told,
        [entry.record for entry in kept],
        [entry.record for entry in outcome.doubtful if id(entry) in ids],
        [entry.record for entry, _ in outcome.refused if id(entry) in ids],
        taken,
    )
    if _interrupts(error):
        error.__cause__ = failure if kept else error.__cause__
        return error
    failure.__cause__ = (error.__cause__ if error is told else None) or error
    return failure


def _full(record: Record, waited: float, failure: BaseException | None) -> BufferFullError:
    code, why = ErrorCode.HBASE_ERROR, "another thread's flush has not ended"
    if isinstance(failure, FlushError):
        code, why = failure.code, failure.message
    error = BufferFullError(record, waited, code, why)
    error.__cause__ = failure
    return error
