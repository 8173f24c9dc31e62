"""Records as increments of counters, at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias, final

from solus_core.clock import system_clock
from solus_core.errors import InvalidConfigError, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import Column, refused, stream_calls
from solus_hbase.streams.buffer import Entry, OnBad, Outcome
from solus_hbase.streams.errors import Record
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.rows import Rows
from solus_hbase.streams.sink import BufferedSink
from solus_hbase.workers import Workers

_Payload: TypeAlias = tuple[bytes, list[Column]]
"""Row key, and the counters to raise by one."""


@final
class CounterSink(BufferedSink[_Payload]):
    """Raises counters, by one for each record and qualifier of ``mapping``.

    A qualifier that names a field of the record stands for the field's value: with ``{"daily": ["date"]}`` a record
    whose ``date`` is 20120816 raises ``daily:20120816``. One that names no field stands for itself: ``clicks``.

    The increments of one flush are summed for each counter, and sent as one call for each row, several at a time.

    **At least once**: an increment whose answer was lost may have been applied, and is sent again with the next
    flush. ``IdempotentCounterSink`` counts once. ``FlushError.doubtful`` are the records that this is about. An
    interrupt (Ctrl-C) in a flush waits for the calls under way; those whose answer it cuts off are in doubt too, and
    a ``FlushError`` is its cause.
    ``on_bad``, ``clock``, ``patience``: as in ``PutSink``.
    """

    def __init__(
        self,
        context: HBaseContext,
        mapping: TableMapping,
        *,
        on_bad: OnBad | None = None,
        clock: Callable[[], int] = system_clock,
        patience: float = 30.0,
    ) -> None:
        check_counters(mapping, "CounterSink")
        self._rows = Rows(mapping)
        self._calls = stream_calls(
            context, mapping.table, list(mapping.column_families), what="CounterSink", write_to_wal=mapping.write_to_wal
        )
        self._workers = Workers(context.config.pool_size)
        super().__init__(self._payload, self._write, mapping, on_bad, clock, patience)

    def close(self) -> None:
        super().close()
        self._workers.close()

    def _payload(self, record: Record) -> tuple[_Payload, int]:
        row, columns, size = self._rows.counters(record)
        return (row, columns), size

    def _write(self, entries: list[Entry[_Payload]]) -> Outcome[_Payload]:
        rows: dict[bytes, Counter[Column]] = {}
        for entry in entries:
            row, columns = entry.payload
            rows.setdefault(row, Counter()).update(columns)
        errors: dict[bytes, StoreError] = {}
        tried: set[bytes] = set()
        done: set[bytes] = set()
        silent = False

        def send(row: bytes, amounts: Counter[Column]) -> None:
            nonlocal silent
            if silent:
                return
            tried.add(row)
            try:
                self._calls.increment(row, amounts)
            except StoreError as error:
                errors[row] = error
                # Where nobody answers, each further row would wait for that too.
                if not refused(error):
                    silent = True
            else:
                done.add(row)

        stopped: BaseException | None = None
        try:
            self._workers.run([_later(send, row, amounts) for row, amounts in rows.items()])
        except BaseException as error:  # what is done must be known to be done: sent again, it would count again
            stopped = error
        failed = [entry for entry in entries if entry.payload[0] not in done]
        # A row under way when we were stopped is as one whose answer was lost.
        doubtful = {row for row in tried - done if row not in errors or errors[row].in_doubt}
        bad = {row: error for row, error in errors.items() if refused(error)}
        outages = (error for row, error in errors.items() if row not in bad)
        return Outcome(
            failed,
            [entry for entry in failed if entry.payload[0] in doubtful],
            stopped or next(outages, next(iter(errors.values()), None)),
            [(entry, bad[entry.payload[0]]) for entry in failed if entry.payload[0] in bad],
        )


def check_counters(mapping: TableMapping, what: str) -> None:
    """Refuse what a mapping can say and a counter can't do."""
    if mapping.timestamp_field is not None:
        raise InvalidConfigError(
            what, [f"timestamp_field is {mapping.timestamp_field!r}, and an increment carries no timestamp"]
        )


def _later(send: Callable[[bytes, Counter[Column]], None], row: bytes, amounts: Counter[Column]) -> Callable[[], None]:
    return lambda: send(row, amounts)
