"""The buffer and the sink of puts: when records are written, acknowledged, reported and kept."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_core.testing import FakeClock
from solus_hbase import HBaseContext
from solus_hbase.streams import BufferFullError, FlushError, PutSink, Record, RecordError, TableMapping

Lost = Callable[[], Exception]


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int, **more: object) -> Record:
    return {"id": f"r{number}", "v": f"value {number}", **more}


def refuse(_: Record) -> None:
    raise LookupError("gone")


def test_single_mode_is_one_call_a_record(context: HBaseContext, table: Any) -> None:
    acked: list[Record] = []
    with PutSink(context, mapping(batch=False)) as sink:
        for number in range(3):
            sink.add(record(number), acked.append)
            assert len(acked) == number + 1
    assert table.faults.calls == ["put"] * 3
    assert table.value(b"r2", b"data", b"v") == b"value 2"


def test_batch_mode_is_one_call_a_flush(context: HBaseContext, table: Any) -> None:
    """R26: acknowledged after the flush, in order, and not before."""
    acked: list[Record] = []
    sink = PutSink(context, mapping(flush_interval=10_000))
    records = [record(number) for number in range(100)]
    for one in records:
        sink.add(one, acked.append)
    assert (acked, len(sink), table.faults.calls) == ([], 100, [])
    sink.flush()
    assert (acked, len(sink), table.faults.calls) == (records, 0, ["putMultiple"])
    sink.flush()
    sink.close()
    assert table.faults.calls == ["putMultiple"]


def test_flushed_on_close(context: HBaseContext, table: Any) -> None:
    acked: list[Record] = []
    with PutSink(context, mapping()) as sink:
        sink.add(record(1), acked.append)
    assert acked == [record(1)]
    with pytest.raises(StoreError, match="closed"):
        sink.add(record(2))
    sink.close()
    assert table.rows_put == [b"r1"]


@pytest.mark.parametrize("size", [400, 1_000, 10_000])
def test_flushed_when_full(context: HBaseContext, table: Any, size: int) -> None:
    """No call is larger than the buffer, and none much smaller: the next record would not have fitted."""
    lengths: list[int] = []
    table.do_putMultiple = table.do_put = lambda _, puts: lengths.append(len(puts) if isinstance(puts, list) else 1)
    with PutSink(context, mapping(write_buffer_size=size, flush_interval=3_600_000)) as sink:
        for number in range(1_000, 1_500):
            sink.add(record(number))
    assert sum(lengths) == 500
    one = 44 + 5 + 24 + 4 + 1 + 10
    assert set(lengths[:-1]) == {size // one}


def test_a_large_buffer_is_several_calls(context: HBaseContext, table: Any, lost: Lost) -> None:
    """Of as much as the usual buffer each: HBase's servers take no more at once than they are set to."""
    sizes: list[int] = []

    def put(_: bytes, puts: Any) -> None:
        sizes.append(sum(len(one.columnValues[0].value) for one in (puts if isinstance(puts, list) else [puts])))
        if len(sizes) == 3:
            raise lost()

    table.do_putMultiple = table.do_put = put
    acked: list[Record] = []
    sink = PutSink(context, mapping(write_buffer_size=2**30, flush_interval=3_600_000))
    records = [record(number, v=b"x" * size) for number, size in enumerate([300_000] * 21 + [3_000_000, 5])]
    for one in records:
        sink.add(one, acked.append)
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert (acked, caught.value.records) == (records[:12], tuple(records[12:]))
    sink.close()
    assert sizes == [1_800_000] * 3 + [1_800_000, 900_000, 3_000_000, 5]
    assert acked == records


def test_the_usual_buffer_is_one_call(context: HBaseContext, table: Any) -> None:
    with PutSink(context, mapping(flush_interval=3_600_000)) as sink:
        for number in range(20):
            sink.add(record(number, v=b"x" * 100_000))
    assert table.faults.calls == ["putMultiple"]


def test_a_record_larger_than_the_buffer_goes_alone(context: HBaseContext, table: Any) -> None:
    with PutSink(context, mapping(write_buffer_size=200)) as sink:
        for number in range(3):
            sink.add(record(number, v="x" * 1_000))
            assert len(sink) == 1
    assert table.rows_put == [b"r0", b"r1", b"r2"]


def test_flushed_by_age(context: HBaseContext, table: Any) -> None:
    """R26, by the next record or by a tick: the clock is ours."""
    clock, acked = FakeClock(), list[Record]()
    sink = PutSink(context, mapping(flush_interval=500), clock=clock)
    assert sink.tick() is None
    sink.add(record(1), acked.append)
    clock.advance(300)
    sink.add(record(2), acked.append)
    assert (sink.tick(), acked) == (200, [])
    clock.advance(199)
    assert (sink.tick(), acked) == (1, [])
    clock.advance(1)
    assert (sink.tick(), acked) == (None, [record(1), record(2)])
    sink.add(record(3), acked.append)
    clock.advance(500)
    sink.add(record(4), acked.append)
    assert acked == [record(1), record(2), record(3), record(4)]
    sink.close()
    assert table.faults.calls == ["putMultiple"] * 2


def test_a_failed_flush_reports_and_keeps(context: HBaseContext, table: Any, lost: Lost) -> None:
    """R26: exactly what was not written, in order; the next flush writes it."""
    acked: list[Record] = []
    sink = PutSink(context, mapping(flush_interval=10_000))
    records = [record(number) for number in range(5)]
    for one in records:
        sink.add(one, acked.append)
    table.faults.fail(lost, times=1)
    with pytest.raises(FlushError, match=r"of 5 records 5 are not written, and kept: {'id': 'r0'") as caught:
        sink.flush()
    assert (list(caught.value.records), acked, len(sink)) == (records, [], 5)
    assert caught.value.code is ErrorCode.HBASE_ERROR
    assert type(caught.value.__cause__) is type(lost())
    assert list(pickle.loads(pickle.dumps(caught.value)).records) == records
    sink.add(record(5), acked.append)
    sink.close()
    assert acked == [*records, record(5)]
    assert table.rows_put == [b"r0", b"r1", b"r2", b"r3", b"r4", b"r5"]


def test_an_answer_that_was_lost(context: HBaseContext, table: Any, lost: Lost) -> None:
    """Puts may be repeated: what may have been written is in doubt, kept and written again."""
    table.faults.fail_at(0, lost, applied=True)
    sink = PutSink(context, mapping())
    sink.add(record(1))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert caught.value.in_doubt
    assert caught.value.doubtful == (record(1),)
    sink.close()
    assert table.rows_put == [b"r1", b"r1"]


def test_a_call_is_repeated_before_a_flush_fails(table: Any, connect_to: Any, lost: Lost) -> None:
    table.faults.fail(lost, times=2)
    with PutSink(connect_to(attempts=3), mapping()) as sink:
        sink.add(record(1))
    assert table.faults.calls == ["put"] * 3


@pytest.mark.parametrize("bad", [[0], [7], [3, 4], [0, 1, 9]])
def test_rows_that_the_server_refuses(context: HBaseContext, table: Any, bad: list[int]) -> None:
    """The others get through and are acknowledged; the refused are named, and can be taken back."""
    acked: list[Record] = []
    table.refuses = {b"r%d" % number for number in bad}
    sink = PutSink(context, mapping(flush_interval=10_000))
    for number in range(10):
        sink.add(record(number), acked.append)
    with pytest.raises(FlushError, match=f"of 10 records {len(bad)} are not written") as caught:
        sink.flush()
    assert list(caught.value.records) == [record(number) for number in bad]
    assert not caught.value.doubtful
    assert acked == [record(number) for number in range(10) if number not in bad]
    assert sink.take_back() == [record(number) for number in bad]
    assert len(sink) == 0
    sink.close()


def test_a_table_that_refuses_everything_is_not_asked_for_each_row(context: HBaseContext, table: Any) -> None:
    table.refuses = {b"r%d" % number for number in range(1_000)}
    sink = PutSink(context, mapping(flush_interval=10_000))
    for number in range(1_000):
        sink.add(record(number))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert list(caught.value.records) == [record(number) for number in range(1_000)]
    alone, beside = caught.value.refused, caught.value.doubtful
    assert 20 <= len(alone) < 30
    assert list(beside) == [one for one in caught.value.records if one not in alone], "of several, some may be written"
    assert len(table.faults.calls) < 100
    assert len(sink.take_back()) == 1_000


def test_nobody_is_asked_twice_where_nobody_answers(context: HBaseContext, table: Any, lost: Lost) -> None:
    """A refused row, then a connection that breaks: the rest of the flush fails without further calls."""
    table.refuses = {b"r0"}

    def plan(number: int, name: str, applied: bool) -> None:
        if number >= 2:
            raise lost()

    table.faults.plan = plan
    sink = PutSink(context, mapping())
    for number in range(8):
        sink.add(record(number))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert list(caught.value.records) == [record(number) for number in range(8)]
    assert len(table.faults.calls) == 3
    sink.take_back()


def test_a_clock_that_is_put_back(context: HBaseContext, table: Any) -> None:
    """R26: nobody knows how old the records are then, so they are written."""
    clock = FakeClock()
    sink = PutSink(context, mapping(flush_interval=1_000), clock=clock)
    sink.add(record(1))
    clock.advance(-3_600_000)
    assert sink.tick() is None
    assert table.rows_put == [b"r1"]
    sink.add(record(2))
    clock.advance(-3_600_000)
    sink.add(record(3))
    assert table.rows_put == [b"r1", b"r2", b"r3"]
    sink.close()


def test_an_old_buffer_that_can_not_be_flushed(context: HBaseContext, table: Any, lost: Lost) -> None:
    """The caller is told, by the record that found out; that record is kept with the others."""
    clock = FakeClock()
    sink = PutSink(context, mapping(flush_interval=500), clock=clock)
    sink.add(record(1))
    clock.advance(500)
    table.faults.fail(lost, times=2)
    with pytest.raises(FlushError) as caught:
        sink.add(record(2))
    assert caught.value.records == (record(1), record(2))
    sink.add(record(3))  # not due again: the next try comes an interval later
    clock.advance(500)
    with pytest.raises(FlushError):
        sink.tick()
    clock.advance(500)
    assert sink.tick() is None
    assert table.rows_put == [b"r1", b"r2", b"r3"]


def test_single_mode_keeps_what_failed_and_writes_it_first(context: HBaseContext, table: Any, lost: Lost) -> None:
    acked: list[Record] = []
    sink = PutSink(context, mapping(batch=False), patience=0)
    table.faults.fail(lost, times=2)
    with pytest.raises(FlushError, match="of 1 records 1 are not written") as caught:
        sink.add(record(1), acked.append)
    assert caught.value.records == (record(1),)
    with pytest.raises(BufferFullError):
        sink.add(record(2), acked.append)
    sink.add(record(3), acked.append)
    assert acked == [record(1), record(3)]
    sink.close()


def test_close_that_fails_can_be_repeated(context: HBaseContext, table: Any, lost: Lost) -> None:
    sink = PutSink(context, mapping())
    sink.add(record(1))
    table.faults.fail(lost, times=1)
    with pytest.raises(FlushError):
        sink.close()
    sink.add(record(2))
    sink.close()
    assert table.rows_put == [b"r1", b"r2"]


def test_an_acknowledgement_that_raises(context: HBaseContext, table: Any) -> None:
    """The others are called all the same; nothing is written twice."""
    acked: list[Record] = []
    sink = PutSink(context, mapping())
    sink.add(record(1), refuse)
    sink.add(record(2), acked.append)
    with pytest.raises(LookupError, match="gone"):
        sink.flush()
    assert acked == [record(2)]
    sink.close()
    assert table.rows_put == [b"r1", b"r2"]


def test_an_acknowledgement_that_raises_while_room_is_made(context: HBaseContext, table: Any) -> None:
    """The record that needed the room is taken all the same."""
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000))
    sink.add(record(1), refuse)
    with pytest.raises(LookupError):
        sink.add(record(2))
    sink.close()
    assert table.rows_put == [b"r1", b"r2"]


def test_an_acknowledgement_may_use_the_sink(context: HBaseContext, table: Any) -> None:
    sink = PutSink(context, mapping())

    def acknowledge(_: Record) -> None:
        sink.add(record(2))
        sink.flush()

    sink.add(record(1), acknowledge)
    sink.flush()
    assert table.rows_put == [b"r1", b"r2"]
    sink.close()


def test_bad_records_stop_or_are_passed_on(context: HBaseContext, table: Any) -> None:
    """Nothing is lost silently: without a callback the first one raises, with one it is told of each."""
    batch = [record(0), {"id": "r1"}, record(2), {"id": "", "v": "x"}, record(4)]
    told: list[RecordError] = []
    acked: list[Record] = []
    with PutSink(context, mapping(), on_bad=told.append) as sink:
        for one in batch:
            sink.add(one, acked.append)
    assert [(error.record, error.field) for error in told] == [(batch[1], "v"), (batch[3], "id")]
    assert acked == [batch[0], batch[2], batch[4]]
    with PutSink(context, mapping()) as sink:
        sink.add(batch[0])
        with pytest.raises(RecordError, match="'v' is missing"):
            sink.add(batch[1])
    assert table.rows_put == [b"r0", b"r2", b"r4", b"r0"]


def test_what_is_no_record(context: HBaseContext) -> None:
    with PutSink(context, mapping()) as sink, pytest.raises(TypeError, match="must be a mapping"):
        sink.add(["r1", "x"])  # type: ignore[arg-type]  # on purpose


def test_a_sink_that_is_dropped_with_records_warns(context: HBaseContext) -> None:
    sinks = [PutSink(context, mapping())]
    sinks[0].add(record(1))
    gc.collect()
    with pytest.warns(ResourceWarning, match="1 records were never flushed"):
        drop(sinks)


def drop(sinks: list[PutSink]) -> None:
    sinks.clear()
    gc.collect()  # sink and buffer refer to each other
