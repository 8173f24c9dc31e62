"""What the sinks with a buffer have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

from solus_core.errors import InvalidArgumentError
from solus_hbase.streams.buffer import Buffer
from solus_hbase.streams.errors import Record, RecordError
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.outcome import Ack, Entry, OnBad, Outcome

P = TypeVar("P")
S = TypeVar("S", bound="BufferedSink[Any]")


class BufferedSink(Generic[P]):
    """``convert`` makes of a record what ``write`` writes, and its bytes on the wire. ``repeatable``: to write a record
    twice does no harm.

    Use it as a context manager, or call :meth:`close`. Threads may share it; a forked child begins with an empty
    buffer. Acknowledgements are called in the thread that flushes. One that raises does not keep the others from
    being called, nor a record from being taken: its error is raised last. Where a flush failed, or a record was not
    taken, it is the ``__context__`` of the error that says so. What runs in the middle of a flush, such as a logger,
    may ``add`` alone: what waits for the flush would wait for itself.

    After an interrupt (``KeyboardInterrupt``) a sink can be used as before, and is to be closed: what is known to be
    written and not yet acknowledged is, once, by the next ``add``, ``flush``, ``tick`` or ``close``, and doubts that
    were not told are raised there. An acknowledgement that was cut off itself is not called again.
    """

    def __init__(
        self,
        convert: Callable[[Record], tuple[P, int]],
        write: Callable[[Outcome[P]], None],
        mapping: TableMapping,
        on_bad: OnBad | None,
        clock: Callable[[], int],
        patience: float,
        *,
        repeatable: bool,
    ) -> None:
        if isinstance(patience, bool) or not isinstance(patience, (int, float)):
            raise TypeError(f"patience must be a number of seconds, not {type(patience).__name__}")
        if not 0 <= patience <= threading.TIMEOUT_MAX:
            most = int(threading.TIMEOUT_MAX)
            raise InvalidArgumentError(f"patience is {patience!r}, allowed are seconds from 0 to {most}")
        check_callable("on_bad", on_bad)
        self._convert = convert
        self._on_bad = on_bad
        self._buffer = Buffer(write, mapping, on_bad, clock, patience, repeatable)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Records that are not known to be written; after an interrupt, until the next call, perhaps some more."""
        return len(self._buffer)

    def add(self, record: Record, ack: Ack | None = None) -> None:
        """Take a record; ``ack`` is called with it once it is written, and never before.

        Where the buffer is full or old, this writes. ``BufferFullError``: it was full, and ``patience`` seconds of
        trying did not help; the record was not taken. ``FlushError``: the last flush failed, or one within
        ``patience`` left increments in doubt although the next one wrote them; this record was taken, as all that
        the error names. ``RecordError``: the record can't be written and was not taken; with ``on_bad`` that is called
        instead, and the record is not acknowledged. Any other ``Exception`` comes out of an acknowledgement, and the
        record was taken. An interrupt (``KeyboardInterrupt``), as all that a signal handler raises, leaves open whether
        it was.
        """
        check_callable("ack", ack)
        check_record(record)
        try:
            payload, size = self._convert(record)
        except RecordError as error:
            if self._on_bad is None:
                raise
            self._on_bad(error)
            return
        self._buffer.add(Entry(record, payload, size, ack))

    def flush(self) -> None:
        """Write all that is buffered; ``FlushError`` says what could not be."""
        self._buffer.flush()

    def tick(self) -> int | None:
        """Flush if the oldest record is as old as the flush interval; to be called from time to time.

        Answers after how many milliseconds the next call is due, None while nothing is buffered.
        """
        return self._buffer.tick()

    def take_back(self, records: Sequence[Record] | None = None) -> list[Record]:
        """Records that are not known to be written, in order; the sink forgets them, and calls no ``ack``.

        All of them, or those among ``records``: the same objects, such as ``FlushError.refused``.
        """
        return self._buffer.take_back(records)

    def close(self) -> None:
        """Flush, and take nothing more. After a ``FlushError`` it is still open: try again, or take them back."""
        self._buffer.close()


def check_record(given: object) -> None:
    """Refuse what has no fields."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a record must be a mapping of field names to values, not {type(given).__name__}")


def check_callable(what: str, given: object) -> None:
    """Refuse what can't be called later, where nobody would know whose it is."""
    if given is not None and not callable(given):
        raise TypeError(f"{what} must be callable, not {type(given).__name__}")
