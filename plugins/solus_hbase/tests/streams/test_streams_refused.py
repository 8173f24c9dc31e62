"""Rows that the server refuses: told apart from an outage, and taken out so that the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from thriftpy2.thrift import TApplicationException

from solus_core import SolusEngine
from solus_hbase import HBaseContext
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import BufferFullError, CounterSink, FlushError, PutSink, Record, RecordError, TableMapping

Lost = Callable[[], Exception]
SINKS = [PutSink, CounterSink]


def mapping(**settings: Any) -> TableMapping:
    given = {"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, "flush_interval": 3_600_000}
    return TableMapping(**{**given, **settings})


def record(number: int) -> Record:
    return {"id": f"r{number}", "v": "clicks"}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("batch", [False, True])
def test_they_go_where_bad_records_go(context: HBaseContext, table: Any, sink: Any, batch: bool) -> None:
    """And the rest goes on, without an error."""
    table.refuses = {b"r0", b"r3", b"r4"}
    told: list[RecordError] = []
    acked: list[Record] = []
    with sink(context, mapping(batch=batch), on_bad=told.append) as writer:
        for number in range(8):
            writer.add(record(number), acked.append)
    assert [error.record for error in told] == [record(0), record(3), record(4)]
    assert acked == [record(number) for number in (1, 2, 5, 6, 7)]
    assert told[0].field == "id"
    assert "the server refuses: " in told[0].message
    assert isinstance(told[0].__cause__, IDL.TIOError)


@pytest.mark.parametrize("sink", SINKS)
def test_without_a_place_for_them_they_are_named(context: HBaseContext, table: Any, sink: Any) -> None:
    table.refuses = {b"r3", b"r5"}
    writer = sink(context, mapping())
    for number in range(8):
        writer.add(record(number))
    with pytest.raises(FlushError) as caught:
        writer.flush()
    assert caught.value.refused == caught.value.records == (record(3), record(5))
    assert writer.take_back([record(3)]) == []  # an equal record is another one
    assert writer.take_back(caught.value.refused) == [record(3), record(5)]
    writer.close()


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("bad", [False, True])
def test_refused_rows_in_an_outage(table: Any, connect_to: Any, lost: Lost, sink: Any, bad: bool) -> None:
    """The error is that of the outage, about the records that wait for its end."""
    table.refuses = {b"r0"}
    told: list[RecordError] = []
    writer = sink(connect_to(pool_size=1), mapping(), on_bad=told.append if bad else None)
    # Of puts: all, the first half, a quarter, r0, r1.
    table.faults.fail_at(4 if sink is PutSink else 1, lost)
    for number in range(8):
        writer.add(record(number))
    with pytest.raises(FlushError, match="the connection was lost") as caught:
        writer.flush()
    assert [error.record for error in told] == [record(0)] * bad
    assert caught.value.refused == (() if bad else (record(0),))
    assert caught.value.records[0] == record(int(bad))
    assert isinstance(caught.value.__cause__, type(lost()))
    writer.take_back(caught.value.refused)
    writer.close()


def test_a_full_buffer_names_them_too(context: HBaseContext, table: Any) -> None:
    table.refuses = {b"r0"}
    sink = PutSink(context, mapping(write_buffer_size=50), patience=0)
    sink.add(record(0))
    with pytest.raises(BufferFullError) as caught:
        sink.add(record(1))
    assert isinstance(caught.value.__cause__, FlushError)
    assert sink.take_back(caught.value.__cause__.refused) == [record(0)]
    sink.add(record(1))
    sink.close()


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(
    "what",
    [
        "TableNotFoundException: no",
        "TableNotEnabledException: no",
        "regionserver.NoSuchColumnFamilyException: no",
        "security.AccessDeniedException: no",
        "quotas.SpaceLimitingException: NO_WRITES",
        "regionserver.InvalidMutationDurabilityException: no",
        "DoNotRetryIOException: region is read only",
    ],
)
def test_what_is_wrong_with_the_table_is_no_fault_of_a_record(
    context: HBaseContext, table: Any, sink: Any, what: str
) -> None:
    """Nothing is thrown out; what was sent waits, and goes when the table is mended."""
    told: list[RecordError] = []
    acked: list[Record] = []
    writer = sink(context, mapping(), on_bad=told.append)
    for number in range(4):
        writer.add(record(number), acked.append)
    table.faults.fail(lambda: IDL.TIOError(b"org.apache.hadoop.hbase.%b" % what.encode(), False))
    with pytest.raises(FlushError, match=what) as caught:
        writer.flush()
    assert (caught.value.refused, len(writer), told) == ((), 4, [])
    table.faults.end()
    writer.close()
    assert acked == [record(number) for number in range(4)]


@pytest.mark.parametrize("sink", SINKS)
def test_a_server_that_knows_no_such_call(context: HBaseContext, table: Any, sink: Any) -> None:
    """One of the hosts may speak another interface: that is no fault of a record either."""
    told: list[RecordError] = []
    writer = sink(context, mapping(), on_bad=told.append)
    writer.add(record(1))
    unknown = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'put'")
    table.faults.fail(lambda: unknown)
    with pytest.raises(FlushError, match="Invalid method name"):
        writer.flush()
    assert (len(writer), told) == (1, [])
    table.faults.end()
    writer.close()


@pytest.mark.parametrize("sink", SINKS)
def test_a_row_that_is_named_like_an_error(context: HBaseContext, table: Any, sink: Any) -> None:
    """It is in the message, and is refused like any other."""
    told: list[RecordError] = []
    with sink(context, mapping(), on_bad=told.append) as writer:
        writer.add({"id": "AccessDenied", "v": "clicks"})
        table.faults.fail(lambda: IDL.TIOError(b"a.b.DoNotRetryIOException: row 'AccessDenied' is bad", False))
        writer.flush()
    assert len(told) == 1


def test_a_doubt_about_what_is_refused(context: HBaseContext, table: Any) -> None:
    """R26: whoever is handed it must not take it for uncounted."""
    told: list[RecordError] = []
    internal = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing increment")
    with CounterSink(context, mapping(), on_bad=told.append) as sink:
        sink.add(record(1))
        table.faults.fail_at(0, lambda: internal, applied=True)
        sink.flush()
        table.faults.end()
        table.refuses = {b"r2"}
        sink.add(record(2))
    assert [(error.record, error.in_doubt) for error in told] == [(record(1), True), (record(2), False)]


def test_many_bad_ones_among_good_ones(context: HBaseContext, table: Any) -> None:
    table.refuses = {b"r%d" % number for number in range(0, 200, 4)}
    told: list[RecordError] = []
    acked: list[Record] = []
    with PutSink(context, mapping(), on_bad=told.append) as sink:
        for number in range(200):
            sink.add(record(number), acked.append)
    assert (len(told), len(acked)) == (50, 150)


@pytest.mark.parametrize("sink", SINKS)
def test_where_all_are_refused_it_may_be_the_table(table: Any, connect_to: Any, sink: Any) -> None:
    """Whatever the message: of a flush at most 21 are handed on, and the rest waits."""
    table.refuses = {b"r%d" % number for number in range(60)}
    told: list[RecordError] = []
    writer = sink(connect_to(pool_size=1), mapping(), on_bad=told.append)
    for number in range(60):
        writer.add(record(number))
    with pytest.raises(FlushError):
        writer.flush()
    assert 0 < len(told) <= 21
    assert len(writer.take_back()) == 60 - len(told)


@pytest.mark.parametrize("kind", [LookupError, KeyboardInterrupt])
def test_what_on_bad_raises(context: HBaseContext, table: Any, kind: type[BaseException]) -> None:
    """As an acknowledgement: the others are told, and it is raised in the end."""
    table.refuses = {b"r0", b"r1"}
    told: list[Record] = []

    def on_bad(error: RecordError) -> None:
        told.append(error.record)
        raise kind("no room for it")

    acked: list[Record] = []
    sink = PutSink(context, mapping(), on_bad=on_bad)
    for number in range(3):
        sink.add(record(number), acked.append)
    with pytest.raises(kind):
        sink.flush()
    assert (told, acked, len(sink)) == ([record(0), record(1)], [record(2)], 0)
    sink.close()


def test_with_deduplication(context: HBaseContext, table: Any) -> None:
    """R25: a refused row is not marked; what repeats its key gets a chance of its own, with the next flush."""
    pytest.importorskip("solus_memory", reason="needs solus-memory: pip install ./plugins/solus_memory")
    table.refuses = {b"r0"}
    told: list[RecordError] = []
    acked: list[Record] = []
    with SolusEngine.open("memory://", client_id="streams") as engine:
        engine.register("events")
        seen = engine.deduper("events")
        sink = PutSink(
            context, mapping(), unique=seen, key=lambda one: str(one["event"]), ttl=60_000, on_bad=told.append
        )
        sink.add({**record(0), "event": 1}, acked.append)
        sink.add({**record(1), "event": 1}, acked.append)
        with pytest.raises(FlushError) as caught:
            sink.flush()
        assert (len(told), caught.value.records) == (1, ({**record(1), "event": 1},))
        sink.close()
        assert acked == [{**record(1), "event": 1}]
        assert not seen.check_absence("1")


def test_on_hbase(real_table: Any) -> None:
    """A cell that is no counter, among others: HBase refuses its row alone."""
    context, calls = real_table("streams_refused")
    row = f"{time.time_ns()}-"
    told: list[RecordError] = []
    where = mapping(table="streams_refused", column_families={"data": ["v"]})
    with PutSink(context, mapping(table="streams_refused", column_families={"data": ["clicks"]})) as puts:
        puts.add({"id": f"{row}2", "clicks": "abc"})
    with CounterSink(context, where, on_bad=told.append) as sink:
        for number in range(5):
            sink.add({"id": f"{row}{number}", "v": "clicks"})
    assert [error.record["id"] for error in told] == [f"{row}2"]
    found = calls.get([(f"{row}{number}".encode(), [(b"data", b"clicks")]) for number in (1, 2, 3)])
    assert [value for cells in found for value in cells.values()] == [bytes(7) + b"\1", b"abc", bytes(7) + b"\1"]
