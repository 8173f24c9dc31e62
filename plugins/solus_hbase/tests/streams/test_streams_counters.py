"""Counters that count at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from solus_core.testing import FakeClock, race
from solus_hbase import HBaseContext
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import CounterSink, FlushError, Record, RecordError, TableMapping

CLICK = {"shorturl": "http://bit.ly/LsaBa", "date": "20120816"}
ROW = b"http://bit.ly/LsaBa"


def mapping(**settings: Any) -> TableMapping:
    columns = {"data": ["clicks"], "daily": ["date"]}
    return TableMapping(**{"table": "t", "row_key_field": "shorturl", "column_families": columns, **settings})


def click(number: int, date: object = "20120816") -> Record:
    return {"shorturl": f"r{number}", "date": date}


def test_a_record_raises_its_counters(context: HBaseContext, table: Any) -> None:
    with CounterSink(context, mapping()) as sink:
        for _ in range(3):
            sink.add(CLICK)
        sink.add({**CLICK, "date": 20120817})
    assert table.count(ROW, b"data", b"clicks") == 4
    assert table.count(ROW, b"daily", b"20120816") == 3
    assert table.count(ROW, b"daily", b"20120817") == 1


def test_increments_of_a_flush_are_summed(context: HBaseContext, table: Any) -> None:
    """One call for each row, and R26 for each record."""
    acked: list[Record] = []
    sink = CounterSink(context, mapping(flush_interval=10_000))
    records = [click(number % 5) for number in range(100)]
    for one in records:
        sink.add(one, acked.append)
    assert (acked, table.faults.calls) == ([], [])
    sink.flush()
    assert (acked, table.faults.calls) == (records, ["increment"] * 5)
    assert table.first_clicks(5) == [20] * 5
    sink.close()
    assert sink._workers._executor is None, "its threads stay"


def test_two_qualifiers_that_mean_one_counter(context: HBaseContext, table: Any) -> None:
    """Sent twice in one call, a column would count one of the two."""
    with CounterSink(context, mapping(column_families={"data": ["from", "to"]})) as sink:
        sink.add({"shorturl": "r", "from": "x", "to": "x"})
    assert table.count(b"r", b"data", b"x") == 2


def test_single_mode_is_one_call_a_record(context: HBaseContext, table: Any) -> None:
    with CounterSink(context, mapping(batch=False)) as sink:
        for _ in range(3):
            sink.add(CLICK)
    assert table.faults.calls == ["increment"] * 3
    assert table.count(ROW, b"data", b"clicks") == 3


def test_flushed_by_age(context: HBaseContext, table: Any) -> None:
    clock = FakeClock()
    with CounterSink(context, mapping(flush_interval=500), clock=clock) as sink:
        sink.add(CLICK)
        assert sink.tick() == 500
        clock.advance(500)
        assert sink.tick() is None
        assert table.count(ROW, b"data", b"clicks") == 1


def test_rows_that_fail_are_reported_and_kept(context: HBaseContext, table: Any) -> None:
    """Exactly their records: those of the other rows count once, whatever is repeated."""
    acked: list[Record] = []
    table.refuses = {b"r1", b"r3"}
    sink = CounterSink(context, mapping(flush_interval=10_000))
    records = [click(number % 5) for number in range(20)]
    for one in records:
        sink.add(one, acked.append)
    bad = [one for one in records if one["shorturl"] in ("r1", "r3")]
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert list(caught.value.records) == bad
    assert not caught.value.in_doubt
    assert acked == [one for one in records if one not in bad]
    table.refuses = set()
    sink.close()
    assert table.first_clicks(5) == [4] * 5
    assert len(acked) == 20


@pytest.mark.parametrize("applied_first", [False, True])
def test_an_answer_that_was_lost_may_count_twice(
    table: Any, connect_to: Any, lost: Callable[[], Exception], applied_first: bool
) -> None:
    """At least once: not repeated behind the caller's back, whatever ``attempts`` says, named as doubtful, and
    repeated by the next flush."""
    table.faults.fail_at(0, lost, applied=applied_first)
    sink = CounterSink(connect_to(attempts=3), mapping())
    sink.add(CLICK)
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert caught.value.in_doubt
    assert caught.value.doubtful == (CLICK,)
    assert table.faults.calls == ["increment"]
    sink.close()
    assert table.count(ROW, b"data", b"clicks") == (2 if applied_first else 1)


def test_nobody_is_asked_again_where_nobody_answers(table: Any, connect_to: Any, lost: Callable[[], Exception]) -> None:
    """The rows that were not tried are kept, and are not in doubt."""
    table.faults.fail(lost)
    sink = CounterSink(connect_to(pool_size=1), mapping())
    for number in range(5):
        sink.add(click(number))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert caught.value.records == tuple(click(number) for number in range(5))
    assert caught.value.doubtful == (click(0),)
    assert table.faults.calls == ["increment"]
    sink.take_back()


def test_threads_share_a_sink(context: HBaseContext, table: Any) -> None:
    sink = CounterSink(context, mapping(write_buffer_size=1_000))

    def work() -> None:
        for number in range(700):
            sink.add(click(number % 7))

    race(*[work] * 4)
    sink.close()
    assert [table.count(b"r%d" % number, b"daily", b"20120816") for number in range(7)] == [400] * 7


def test_without_the_log(context: HBaseContext, table: Any) -> None:
    sent: list[Any] = []
    table.do_increment = lambda _, increment: sent.append(increment)
    for write_to_wal in (False, True):
        with CounterSink(context, mapping(write_to_wal=write_to_wal)) as sink:
            sink.add(CLICK)
    assert [increment.durability for increment in sent] == [IDL.TDurability.SKIP_WAL, None]


@pytest.mark.parametrize("date", ["20120816_txid", "_txid", "x_txid:y"])
def test_columns_of_ids_are_no_counters(context: HBaseContext, table: Any, date: str) -> None:
    """R27: what data says must not break the counters that count once."""
    with CounterSink(context, mapping()) as sink, pytest.raises(RecordError, match="ids of transactions") as caught:
        sink.add({**CLICK, "date": date})
    assert caught.value.field == "date"
    assert table.faults.calls == []


def test_on_hbase(real_table: Any) -> None:
    """Over several flushes; read back by HBase's own increment (of 0)."""
    context, calls = real_table("streams_counters")
    truth: Counter[tuple[str, object]] = Counter()
    with CounterSink(context, mapping(table="streams_counters", write_buffer_size=2_000)) as sink:
        for number in range(500):
            one = click(number % 7, 20120816 + number % 3)
            truth[str(one["shorturl"]), one["date"]] += 1
            sink.add(one)
    for (row, date), count in truth.items():
        column = (b"daily", str(date).encode())
        ((value,),) = (found.values() for found in calls.get([(row.encode(), [column])]))
        assert int.from_bytes(value, "big") == count
        calls.increment(row.encode(), {column: 1})
        assert calls.get([(row.encode(), [column])]) == [{column: (count + 1).to_bytes(8, "big")}]
