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
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar, final

from attrs import define, frozen

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.streams.errors import BufferFullError, FlushError, Record
from solus_hbase.streams.mapping import TableMapping

P = TypeVar("P")

Ack: TypeAlias = Callable[[Record], object]
"""Called with a record once it is written."""

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

    ``failed``: those not known to be written, in order; ``doubtful``: those among them that may be; ``error``: the
    first one, if any failed.
    """

    failed: list[Entry[P]]
    doubtful: list[Entry[P]]
    error: SolusError | None


@final
class Buffer(Generic[P]):
    """At most ``mapping.write_buffer_size`` bytes of entries, written by ``write``; threads may share it.

    ``clock``: epoch milliseconds, for ages. ``patience``: seconds that :meth:`add` waits for room. Not in batch
    mode, each entry is written at once, and what failed is kept and written before anything else.
    """

    def __init__(
        self,
        write: Callable[[list[Entry[P]]], Outcome[P]],
        mapping: TableMapping,
        clock: Callable[[], int],
        patience: float,
    ) -> None:
        self._write = write
        self._batch = mapping.batch
        self._capacity = mapping.write_buffer_size
        self._interval = mapping.interval_ms
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
        return len(self._entries)

    def __del__(self) -> None:
        if getattr(self, "_entries", None) and self._pid == os.getpid():
            warnings.warn(f"{len(self._entries)} records were never flushed: close the sink", ResourceWarning, 2)

    def add(self, entry: Entry[P]) -> None:
        """Take an entry; flush before if it does not fit, and after if the oldest one is due.

        ``BufferFullError``: it was not taken. ``FlushError``: it was, and is kept with the others.
        """
        self._own()
        if not self._batch:
            self._add_single(entry)
            return
        if not self._take(entry):
            self._make_room(entry)
        # Where another thread is flushing already, it is told what goes wrong.
        if self._clock() - self._since >= self._interval and not self._turn.locked():
            self._flush_due()

    def flush(self) -> None:
        """Write all that is there; returns once it is written, and raises ``FlushError`` if some of it isn't."""
        self._own()
        with self._turn:
            done, failure = self._flush()
        _acknowledge(done, failure)

    def tick(self) -> int | None:
        """Flush if the oldest entry is due; answers the milliseconds until one will be, None when it is empty."""
        self._own()
        self._flush_due()
        with self._changed:
            return max(0, self._since + self._interval - self._clock()) if self._entries else None

    def close(self) -> None:
        """Flush, and take nothing more. After a ``FlushError`` it is still open."""
        self.flush()
        self._closed = True
        # An entry may have come in between.
        self.flush()

    def take_back(self) -> list[Record]:
        """All records that are not written, in order; they are forgotten here."""
        self._own()
        with self._turn, self._changed:
            entries, self._entries, self._bytes = self._entries, [], 0
            self._changed.notify_all()
            return [entry.record for entry in entries]

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

    def _make_room(self, entry: Entry[P]) -> None:
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            failure: FlushError | None = None
            done: list[Entry[P]] = []
            if self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
                try:
                    # Another thread may have made room meanwhile.
                    if self._take(entry):
                        return
                    done, failure = self._flush()
                finally:
                    self._turn.release()
            taken = self._take(entry)
            _acknowledge(done, None)
            if taken:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise _full(entry.record, self._patience, failure) from failure
            if failure is not None:
                with self._changed:
                    self._changed.wait(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _add_single(self, entry: Entry[P]) -> None:
        with self._changed:
            self._check_open()
            kept = bool(self._entries)
        if kept:
            self._retry_kept(entry)
        outcome = self._write([entry])
        if outcome.error is None:
            _acknowledge([entry], None)
            return
        with self._changed:
            if not self._entries:
                self._since = self._clock()
            self._entries.append(entry)
            self._bytes += entry.size
        raise _failure(outcome, 1) from outcome.error.__cause__

    def _retry_kept(self, entry: Entry[P]) -> None:
        deadline, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                self.flush()
            except FlushError as failure:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _full(entry.record, self._patience, failure) from failure
                with self._changed:
                    self._changed.wait(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    def _flush_due(self) -> None:
        done: list[Entry[P]] = []
        failure: FlushError | None = None
        with self._turn:
            # Another thread may have flushed it while this one waited.
            if self._entries and self._clock() - self._since >= self._interval:
                done, failure = self._flush()
        _acknowledge(done, failure)

    def _flush(self) -> tuple[list[Entry[P]], FlushError | None]:
        """Write what is there now; answers what is done. Only for who has the turn."""
        with self._changed:
            batch = self._entries[:]
        if not batch:
            return [], None
        outcome = self._write(batch)
        failed = set(map(id, outcome.failed))
        with self._changed:
            self._entries[: len(batch)] = outcome.failed
            self._bytes = sum(entry.size for entry in self._entries)
            self._since = self._clock()
            self._changed.notify_all()
        if outcome.error is None:
            return batch, None
        failure = _failure(outcome, len(batch))
        failure.__cause__ = outcome.error.__cause__ or outcome.error
        return [entry for entry in batch if id(entry) not in failed], failure

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this sink is closed")

    def _own(self) -> None:
        if self._pid != os.getpid():
            # Forked: what the parent had buffered is the parent's to write, and its locks may be held.
            self._begin()


def _acknowledge(done: list[Entry[P]], failure: FlushError | None) -> None:
    """Tell whoever waits for these records, all of them; then raise what went wrong."""
    raised: BaseException | None = None
    for entry in done:
        if entry.ack is not None:
            try:
                entry.ack(entry.record)
            except Exception as error:  # raised below, once all have been told
                raised = raised or error
    if failure is not None:
        raise failure
    if raised is not None:
        raise raised


def _failure(outcome: Outcome[P], taken: int) -> FlushError:
    assert outcome.error is not None
    return FlushError(
        outcome.error,
        [entry.record for entry in outcome.failed],
        [entry.record for entry in outcome.doubtful],
        taken,
    )


def _full(record: Record, waited: float, failure: FlushError | None) -> BufferFullError:
    if failure is None:
        return BufferFullError(record, waited, ErrorCode.HBASE_ERROR, "another thread's flush has not ended")
    return BufferFullError(record, waited, failure.code, failure.message)
