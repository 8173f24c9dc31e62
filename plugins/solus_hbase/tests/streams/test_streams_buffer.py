"""What comes in between while the buffer is at work: a record, a closing, a tick of the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from solus_core.errors import StoreError
from solus_core.testing import FakeClock
from solus_hbase import HBaseContext
from solus_hbase.streams import FlushError, IdempotentCounterSink, PutSink, Record, RecordError, TableMapping


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


def test_transactions_take_records_alone(context: HBaseContext, table: Any) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(TypeError, match="mapping of field names"):
        sink.transaction(1).add([record(1)])  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("table_name", ["t", "n" * 80])
def test_what_a_framed_transport_takes(connect_to: Any, table: Any, table_name: str) -> None:
    """2 MiB a call, all told. A larger one would end each connection, and nothing behind it would go on."""
    told: list[RecordError] = []
    long = mapping(table=table_name, write_buffer_size=2**23)
    acked: list[Record] = []
    # As large as HBase takes it: measured at a real server, whose name for the table is as long.
    largest = 2_097_082 - len(table_name)
    with PutSink(connect_to(transport="framed"), long, on_bad=told.append) as sink:
        sink.add({"id": "l", "v": "x" * (largest + 1)})
        sink.add({"id": "f", "v": "x" * (largest - 100)}, acked.append)
        for letter in "ab":
            sink.add({"id": letter, "v": "x" * (largest // 2 - 10)}, acked.append)
    assert [one["id"] for one in acked] == ["f", "a", "b"]
    assert table.faults.calls == ["put"] * 3, "the last two are too large for one"
    assert "over transport=framed a call has 2,09" in told[0].message
    with PutSink(connect_to(), long) as sink:
        sink.add({"id": "l", "v": "x" * (largest + 1)})


def test_calls_that_read_are_no_larger_than_a_frame(context: HBaseContext, table: Any) -> None:
    asked: list[int] = []
    get_multiple = table.do_getMultiple

    def watched(name: bytes, gets: list[Any]) -> Any:
        asked.append(sum(len(get.row) + sum(len(column.qualifier) for column in get.columns) for get in gets))
        return get_multiple(name, gets)

    table.do_getMultiple = watched
    with IdempotentCounterSink(context, mapping()) as sink, sink.transaction(1) as transaction:
        for number in range(2_000):
            transaction.add({"id": f"{number:01000}", "v": "clicks"})
    assert len(asked) > 1
    assert max(asked) < 1_000_000
    assert table.count(b"0" * 996 + b"1999", b"data", b"clicks") == 1
