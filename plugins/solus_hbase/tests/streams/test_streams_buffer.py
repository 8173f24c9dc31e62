"""What comes in between while the buffer is at work: a record, a closing, a tick of the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from solus_core.errors import StoreError
from solus_core.testing import FakeClock
from solus_hbase import HBaseContext
from solus_hbase.streams import FlushError, PutSink, Record, TableMapping


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int) -> Record:
    return {"id": f"r{number}", "v": f"value {number}"}


def test_a_record_that_comes_while_the_sink_is_closed(context: HBaseContext, table: Any) -> None:
    """R26: one that was taken is written."""
    acked: list[Record] = []
    sink = PutSink(context, mapping())
    sink.add(record(1), lambda _: sink.add(record(2), acked.append))
    sink.close()
    assert (table.rows_put, acked) == ([b"r1", b"r2"], [record(2)])


def test_close_that_fails_for_what_came_in_between(
    context: HBaseContext, table: Any, lost: Callable[[], Exception]
) -> None:
    """R26: the sink is still open."""
    table.faults.fail_at(1, lost)
    sink = PutSink(context, mapping())
    sink.add(record(1), lambda _: sink.add(record(2)))
    with pytest.raises(FlushError) as caught:
        sink.close()
    assert caught.value.records == (record(2),)
    sink.add(record(3))
    sink.close()
    assert table.rows_put == [b"r1", b"r2", b"r3"]
    with pytest.raises(StoreError, match="this sink is closed"):
        sink.add(record(4))


@pytest.mark.parametrize("batch", [False, True])
def test_a_closed_sink_takes_nothing(context: HBaseContext, table: Any, batch: bool) -> None:
    sink = PutSink(context, mapping(batch=batch))
    sink.close()
    with pytest.raises(StoreError, match="this sink is closed"):
        sink.add(record(1))
    assert (len(sink), table.rows_put) == (0, [])


def test_closed_while_room_is_made(context: HBaseContext, table: Any) -> None:
    """R26: the record was not taken, and who waits for those that were written is told of them all the same."""

    def plan(number: int, name: str, applied: bool) -> None:
        sink._buffer._closed = True  # as another thread's close does

    acked: list[Record] = []
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000))
    sink.add(record(1), acked.append)
    table.faults.plan = plan
    with pytest.raises(StoreError, match="this sink is closed"):
        sink.add(record(2))
    assert (acked, len(sink)) == ([record(1)], 0)


def test_a_record_that_is_due_as_the_tick_ends(context: HBaseContext) -> None:
    """R26: the next call is due at once, and not some milliseconds ago, which nobody can sleep."""
    times = iter([0, 0, 499, 501])
    sink = PutSink(context, mapping(flush_interval=500), clock=lambda: next(times))
    sink.add(record(1))
    assert sink.tick() == 0
    sink.take_back()


def test_what_single_mode_kept_is_due_after_the_interval(
    context: HBaseContext, table: Any, lost: Callable[[], Exception]
) -> None:
    """R26"""
    table.faults.fail_at(0, lost)
    clock = FakeClock()
    sink = PutSink(context, mapping(batch=False, flush_interval=500), clock=clock)
    with pytest.raises(FlushError):
        sink.add(record(1))
    clock.advance(100)
    assert sink.tick() == 400
    clock.advance(400)
    assert sink.tick() is None
    assert table.rows_put == [b"r1"]
