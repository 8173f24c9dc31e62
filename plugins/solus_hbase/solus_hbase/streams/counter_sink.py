"""Records as increments of counters, at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, final

from solus_core.clock import system_clock
from solus_core.errors import InvalidConfigError, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import Column, refused, stream_calls
from solus_hbase.streams.errors import Record
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.outcome import MOST_REFUSED, Entry, OnBad, Outcome
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
    flush. ``IdempotentCounterSink`` counts once. ``FlushError.doubtful`` are the records that this is about, each as
    often as it may count again. An interrupt (Ctrl-C) in a flush waits for the calls under way; those whose answer it
    cuts off are in doubt too, and a ``FlushError`` is its cause, or is raised by the next call.
    A counter at the largest number, 2^63 - 1, goes on at the smallest: HBase does not say so.
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
        super().__init__(self._payload, self._write, mapping, on_bad, clock, patience, repeatable=False)

    def close(self) -> None:
        super().close()
        self._workers.close()

    def _payload(self, record: Record) -> tuple[_Payload, int]:
        row, columns, size = self._rows.counters(record)
        return (row, columns), size

    def _write(self, outcome: Outcome[_Payload]) -> None:
        rows: dict[bytes, tuple[list[Entry[_Payload]], Counter[Column]]] = {}
        for entry in outcome.batch:
            row, columns = entry.payload
            part, amounts = rows.setdefault(row, ([], Counter()))
            part.append(entry)
            amounts.update(columns)
        silent, given_up = False, 0

        def send(row: bytes, part: list[Entry[_Payload]], amounts: Counter[Column]) -> None:
            nonlocal silent, given_up
            if silent:
                return
            outcome.begun.append(part)
            try:
                self._calls.increment(row, amounts)
            except StoreError as error:
                outcome.errors.append(error)
                if not error.in_doubt:
                    outcome.unapplied.append(part)
                if refused(error):
                    outcome.refused += [(entry, error) for entry in part]
                    given_up += 1
                if not refused(error) or given_up >= MOST_REFUSED:
                    # Where nobody answers, each further row would wait for that too.
                    silent = True
            else:
                outcome.done.append(part)
                given_up = 0

        self._workers.run([partial(send, row, part, amounts) for row, (part, amounts) in rows.items()])


def check_counters(mapping: TableMapping, what: str) -> None:
    """Refuse what a mapping can say and a counter can't do."""
    if mapping.timestamp_field is not None:
        raise InvalidConfigError(
            what, [f"timestamp_field is {mapping.timestamp_field!r}, and an increment carries no timestamp"]
        )
