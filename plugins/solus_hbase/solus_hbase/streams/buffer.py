"""Records that wait to be written together (R26).

A flush is made by whoever calls: by :meth:`Buffer.add` when the buffer is full or old, by :meth:`Buffer.tick`, and
by :meth:`Buffer.flush` and :meth:`Buffer.close`. There is no thread behind it, so that acknowledgements are called
and failures raised in the caller's own thread, where somebody listens; the price is that somebody has to tick.

An interrupt (Ctrl-C) may come between any two steps. So what a flush finds out is noted in an ``Outcome`` that hangs
on the buffer until it is booked, and what is to be told of it in a ``News``; who calls next takes up what an interrupt
has left of either.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, final
from weakref import WeakSet

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.streams.errors import BufferFullError, Record, RecordError
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.outcome import Entry, News, OnBad, Outcome, P

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two tries to make room."""

_BUFFERS: Final[WeakSet[Buffer[Any]]] = WeakSet()
# All buffers, weakly: a hook that runs at a fork can't be taken back, so there is one for all of them.


@final
class Buffer(Generic[P]):
    """At most ``mapping.write_buffer_size`` bytes of entries, written by ``write``; threads may share it.

    ``clock``: epoch milliseconds, for ages. ``patience``: seconds that :meth:`add` waits for room. ``on_bad``: takes
    what the server refuses, which is kept without it. ``repeatable``: to write an entry twice does no harm, so that a
    doubt which a later try has settled is no news. Not in batch mode, each entry is written at once, and what
    failed is kept and written before anything else.

    What an acknowledgement or ``on_bad`` raises, or a signal handler in a flush, is raised last, once everybody has
    been told and the entry that is being added was taken. Where that was not, or a flush failed, it is the
    ``__context__`` of the error that says so.

    An interrupt has the ``FlushError`` of what it left in doubt as its cause. What it kept from being booked or told,
    the next ``add``, ``flush``, ``tick`` or ``close`` books and tells: each entry that is known to be written is
    acknowledged, once. Open are: whether the entry that was being added was taken; what an acknowledgement did that
    was cut off itself, which is not called again; and what comes of a second interrupt before that next call is
    through.
    """

    def __init__(
        self,
        write: Callable[[Outcome[P]], None],
        mapping: TableMapping,
        on_bad: OnBad | None,
        clock: Callable[[], int],
        patience: float,
        repeatable: bool,
    ) -> None:
        self._write = write
        self._repeatable = repeatable
        self._batch = mapping.batch
        self._capacity = mapping.write_buffer_size
        self._interval = mapping.interval_ms
        self._key = mapping.row_key_field
        self._on_bad = on_bad
        self._clock = clock
        self._patience = patience
        self._closed = False
        self._begin()
        _BUFFERS.add(self)

    def _begin(self) -> None:
        # Entered itself, not by way of the condition: an interrupt gets into a method that is written in Python.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # Held during a flush: one at a time, so that later records can't overtake earlier ones. No RLock: a logger that
        # adds what it is told in a flush must not come in.
        self._turn = threading.Lock()
        self._entries: list[Entry[P]] = []
        self._bytes = 0
        self._since = 0
        # Of the first entries, while they are being written. Only for who has the turn.
        self._flight: Outcome[P] | None = None
        # What interrupts have left to tell.
        self._left: list[News] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __del__(self) -> None:
        if getattr(self, "_entries", None):
            warnings.warn(f"{len(self._entries)} records were never flushed: close the sink", ResourceWarning, 2)

    def add(self, entry: Entry[P]) -> None:
        """Take an entry; flush before if it does not fit, and after if the oldest one is due.

        ``BufferFullError``: it was not taken. ``FlushError``: it was, and a flush failed that was not mended, or was
        mended and left records in doubt. An interrupt leaves open whether it was taken.
        """
        if not self._batch:
            self._and_tell(partial(self._add_single, entry))
            return
        if not self._take(entry):
            self._and_tell(partial(self._make_room, entry, partial(self._take, entry)))
        # Where another thread is flushing already, it is told what goes wrong.
        if self._is_due() or self._is_left():
            self._and_tell(partial(self._flush_due, 0))

    def flush(self) -> None:
        """Write all that is there; returns once it is written, and raises ``FlushError`` if some of it isn't."""
        self._and_tell(self._flush_all)

    def tick(self) -> int | None:
        """Flush if the oldest entry is due; answers the milliseconds until one will be, None when it is empty."""
        self._and_tell(partial(self._flush_due, -1))
        with self._lock:
            return max(0, self._since + self._interval - self._clock()) if self._entries else None

    def close(self) -> None:
        """Flush, and take nothing more. After a ``FlushError`` it is still open."""
        self.flush()
        self._closed = True
        try:
            # An entry may have come in between.
            self.flush()
            while self._is_left():
                self.flush()
        except BaseException:  # raised on
            self._closed = False
            raise

    def take_back(self, records: Sequence[Record] | None = None) -> list[Record]:
        """All records that are not written, or those of ``records`` (the same objects), in order; they are forgotten
        here."""
        wanted = None if records is None else set(map(id, records))
        with self._turn:
            if self._flight is not None:
                # An interrupt left it; the next call tells.
                news = News()
                self._book(self._flight, news)
                self._left.append(news)
            with self._lock:
                taken: list[Record] = []
                left: list[Entry[P]] = []
                for entry in self._entries:
                    if wanted is None or id(entry.record) in wanted:
                        taken.append(entry.record)
                    else:
                        left.append(entry)
                size = sum(entry.size for entry in left)
                self._changed.notify_all()
                self._entries, self._bytes = left, size
        return taken

    def _and_tell(self, step: Callable[[News], None]) -> None:
        """Do what may flush, then tell what came of it, also what an interrupt had left to tell."""
        refusal: SolusError | None = None
        with self._lock:
            news = self._left.pop() if self._left else News()
        try:
            try:
                step(news)
            except SolusError as error:  # raised when all is told
                refusal = error
            except BaseException as error:  # as above
                news.met(error)
            news.tell()
            self._correct(news)
            news.end(refusal)
        finally:
            if news.is_open:  # an interrupt ended the telling
                news.raised = None
                self._left.append(news)

    def _is_left(self) -> bool:
        """Did an interrupt leave something? Not to be trusted while another thread has the turn."""
        return self._flight is not None or bool(self._left)

    def _take(self, entry: Entry[P]) -> bool:
        with self._lock:
            self._check_open()
            # An entry that is larger than the buffer is alone in it.
            if self._entries and self._bytes + entry.size > self._capacity:
                return False
            if not self._entries:
                self._since = self._clock()
            self._bytes += entry.size
            self._entries.append(entry)
            return True

    def _make_room(self, entry: Entry[P], is_made: Callable[[], bool], news: News) -> None:
        """Flush until there is room for an entry, or patience ends, which is a ``BufferFullError``."""

        def room() -> bool:
            # Another thread may have made it meanwhile.
            if is_made():
                return True
            self._flush(news)
            return False

        began, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            made = self._in_turn(max(0.0, began + self._patience - time.monotonic()), room)
            if made or news.is_interrupted or is_made():
                return
            news.tell()
            if news.is_interrupted:
                return
            self._correct(news)
            waited, failure = time.monotonic() - began, news.failure
            if waited >= self._patience:
                raise _full(entry.record, waited, None if failure is None else failure.told())
            if failure is not None and failure.kept:
                with self._lock:
                    self._changed.wait(min(pause, self._patience - waited))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _correct(self, news: News) -> None:
        """What a flush of this caller has left may have been written or taken back since."""
        if news.failure is not None:
            with self._lock:
                news.failure = news.failure.now(self._entries, self._repeatable)

    def _add_single(self, entry: Entry[P], news: News) -> None:
        with self._lock:
            self._check_open()
        if self._entries:
            self._make_room(entry, lambda: not self._entries, news)
            news.tell()
            if news.is_interrupted:
                return
        outcome = Outcome([entry])
        self._try(outcome, news)
        self._book(outcome, news)

    def _is_due(self) -> bool:
        # A clock that was put back says nothing about the age: better too early than not before it has caught up.
        return not 0 <= self._clock() - self._since < self._interval

    def _in_turn(self, wait: float, step: Callable[[], bool | None]) -> bool | None:
        """Do it with the turn, if that comes within so many seconds (-1: however long it takes)."""
        held: list[bool] = []
        try:
            # An interrupt right after a call loses its answer: so that of the lock goes into a list at once.
            held += map(self._turn.acquire, [True], [wait])
            return step() if held[0] else None
        finally:
            if held and held[0]:
                self._turn.release()

    def _flush_due(self, wait: float, news: News) -> None:
        def step() -> None:
            if self._flight is not None:
                self._book(self._flight, news)
            # Another thread may have flushed it while this one waited.
            if self._entries and self._is_due():
                self._flush(news)

        self._in_turn(wait, step)

    def _flush_all(self, news: News) -> None:
        with self._turn:
            self._flush(news)

    def _flush(self, news: News) -> None:
        """Write what is there now. Only for who has the turn."""
        if self._flight is not None:
            self._book(self._flight, news)
        with self._lock:
            batch = self._entries[:]
        if batch:
            self._flight = flight = Outcome(batch)
            self._try(flight, news)
            self._book(flight, news)

    def _try(self, outcome: Outcome[P], news: News) -> None:
        try:
            self._write(outcome)
        except Exception as error:  # told with the others of a flush
            outcome.errors.append(error)
            if not isinstance(error, SolusError):
                # Of a signal handler, or a bug: raised also where the next try succeeds.
                news.met(error)
        except BaseException as interrupt:  # raised once the books are in order
            news.met(interrupt)

    def _book(self, outcome: Outcome[P], news: News) -> None:
        """Keep what failed, and note what is to be told. Where an interrupt ends this it can be done again."""
        written, kept = outcome.split()
        calls = deque([*news.calls, *((entry.ack, entry.record) for entry in written if entry.ack is not None)])
        if self._on_bad is not None and outcome.refused:
            handed_on = {id(entry) for entry, _ in outcome.refused}
            kept = [entry for entry in kept if id(entry) not in handed_on]
            calls += [(self._on_bad, self._bad(entry, error)) for entry, error in outcome.refused]
        failure = outcome.failure(kept, news.failure)
        with self._lock:
            in_flight = outcome is self._flight
            entries = kept + self._entries[len(outcome.batch) :] if in_flight else self._entries + kept
            size = sum(entry.size for entry in entries)
            since = self._clock() if in_flight or not self._entries else self._since
            flight = None if in_flight else self._flight
            self._changed.notify_all()
            # In one statement, which an interrupt does not divide.
            self._entries, self._bytes, self._since, self._flight, news.calls, news.failure = (
                entries,
                size,
                since,
                flight,
                calls,
                failure,
            )

    def _bad(self, entry: Entry[P], refused: SolusError) -> RecordError:
        error = RecordError(
            entry.record,
            self._key,
            f"is the key of a row that the server refuses: {refused.message}",
            in_doubt=refused.in_doubt,
        )
        error.__cause__ = refused.__cause__ or refused
        return error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this sink is closed")


def _forked() -> None:
    """In a child, which has one thread yet: what the parent had buffered is the parent's, and locks may be held."""
    for buffer in list(_BUFFERS):
        buffer._begin()


os.register_at_fork(after_in_child=_forked)


def _full(record: Record, waited: float, failure: SolusError | None) -> BufferFullError:
    if failure is None:
        return BufferFullError(record, waited, ErrorCode.HBASE_ERROR, "another thread's flush has not ended")
    return BufferFullError(record, waited, failure.code, failure.message)
