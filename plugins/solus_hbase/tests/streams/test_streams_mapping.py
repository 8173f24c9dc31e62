"""What a mapping may say, and how records become rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from solus_core.errors import ErrorCode, InvalidConfigError
from solus_hbase import HBaseConfig, HBaseContext
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import CounterSink, IdempotentCounterSink, PutSink, RecordError, TableMapping
from solus_hbase.streams.rows import LONGEST_CELL, Rows

RECORD = {"shorturl": "http://bit.ly/ZK6t", "url": "www.arsenal.com/home", "name": "kinley", "date": 20120816}


def mapping(**settings: Any) -> TableMapping:
    given = {"table": "shorturl", "row_key_field": "shorturl", "column_families": {"data": ["url", "date"]}}
    return TableMapping(**{**given, **settings})


def cells(put: Any) -> list[tuple[bytes, bytes, bytes]]:
    return [(cell.family, cell.qualifier, cell.value) for cell in put.columnValues]


def test_defaults_are_those_of_the_source() -> None:
    given = mapping()
    assert (given.batch, given.write_buffer_size, given.write_to_wal) == (True, 2_097_152, True)
    assert mapping(flush_interval=timedelta(milliseconds=1_500)).interval_ms == 1_500
    assert given.interval_ms == 1_000  # no record waits for ever because somebody forgot to say how long


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"table": "-x"}, "table is '-x'"),
        ({"table": "a:b:c"}, "table is 'a:b:c'"),
        ({"table": None}, "table is None"),
        ({"row_key_field": ""}, "row_key_field is ''"),
        ({"timestamp_field": ""}, "timestamp_field is ''"),
        ({"column_families": {}}, "column_families is {}"),
        ({"column_families": ["data"]}, "column_families is"),
        ({"column_families": {"data": "url"}}, "family 'data' has 'url'"),
        ({"column_families": {"data": []}}, "family 'data' has \\[\\]"),
        ({"column_families": {"data": [""]}}, "family 'data' has \\[''\\]"),
        ({"column_families": {"da:ta": ["url"]}}, "'da:ta' is no name"),
        ({"column_families": {"x" * 128: ["url"]}}, "more than 127 bytes"),
        ({"batch": 1}, "batch is 1"),
        ({"write_to_wal": None}, "write_to_wal is None"),
        ({"write_buffer_size": 0}, "write_buffer_size is 0"),
        ({"write_buffer_size": 1e6}, "write_buffer_size is 1000000.0"),
        ({"flush_interval": 0}, "flush_interval is 0"),
        ({"flush_interval": None}, "flush_interval is None"),
        ({"flush_interval": 0.5}, "flush_interval is 0.5"),
        ({"flush_interval": timedelta()}, "flush_interval is datetime.timedelta"),
        ({"fields": "shorturl"}, "fields is 'shorturl'"),
        ({"fields": ["url"]}, "row_key_field is 'shorturl', which is not among"),
    ],
)
def test_refused_settings(settings: dict[str, Any], complaint: str) -> None:
    """Row 10: an interval of 0 too."""
    with pytest.raises(InvalidConfigError, match=complaint) as caught:
        mapping(**settings)
    assert len(caught.value.problems) == 1


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        mapping(table="", row_key_field="", batch=None, flush_interval=-1)
    assert len(caught.value.problems) == 4


def test_a_record_becomes_a_row() -> None:
    given = mapping(column_families={"data": ["url", "name"], "daily": ["date"]}, timestamp_field="at")
    put, size = Rows(given).put({**RECORD, "at": 1_345_115_796_927, "more": None})
    assert put.row == b"http://bit.ly/ZK6t"
    assert cells(put) == [
        (b"data", b"url", b"www.arsenal.com/home"),
        (b"data", b"name", b"kinley"),
        (b"daily", b"date", b"20120816"),
    ]
    assert (put.timestamp, put.durability) == (1_345_115_796_927, None)
    assert 150 < size < 300


def test_values_are_text_bytes_numbers_and_uuids() -> None:
    """As entities are (R20)."""
    rows = Rows(mapping(column_families={"data": ["v"]}))
    uuid = UUID(int=1)
    for value, expected in [("é", "é".encode()), (b"\xff\x00", b"\xff\x00"), (-5, b"-5"), (uuid, str(uuid).encode())]:
        put, _ = rows.put({"shorturl": value, "v": value})
        assert (put.row, cells(put)[0][2]) == (expected, expected)
    assert cells(rows.put({"shorturl": "r", "v": ""})[0])[0][2] == b""


def test_write_to_wal_off_is_skip_wal() -> None:
    put, _ = Rows(mapping(write_to_wal=False)).put(RECORD)
    assert put.durability == IDL.TDurability.SKIP_WAL


@pytest.mark.parametrize(
    ("change", "field", "complaint"),
    [
        ({"url": ...}, "url", "is missing"),
        ({"shorturl": ...}, "shorturl", "is missing"),
        ({"at": ...}, "at", "is missing"),
        ({"url": None}, "url", "is of type NoneType"),
        ({"url": 1.5}, "url", "is of type float"),
        ({"url": True}, "url", "is of type bool"),
        ({"url": ["x"]}, "url", "is of type list"),
        ({"url": "\ud800"}, "url", "half a character"),
        ({"date": 10**5_000}, "date", "bits: too long"),
        ({"shorturl": ""}, "shorturl", "has 0 bytes, and is the row key"),
        ({"shorturl": "x" * 32_768}, "shorturl", "has 32768 bytes"),
        ({"url": b"x" * (LONGEST_CELL - 48)}, "url", "10 MiB at the most"),
        ({"at": 0}, "at", "is 0, and is the timestamp"),
        ({"at": -1}, "at", "is -1"),
        ({"at": 2**63 - 1}, "at", "is 9223372036854775807"),
        ({"at": "5"}, "at", "is of type str, allowed is int"),
        ({"at": True}, "at", "is of type bool"),
    ],
)
def test_bad_records(change: dict[str, Any], field: str, complaint: str) -> None:
    """One clear error that names record and field."""
    record = {key: value for key, value in {**RECORD, "at": 5, **change}.items() if value is not ...}
    with pytest.raises(RecordError, match=complaint) as caught:
        Rows(mapping(timestamp_field="at")).put(record)
    assert caught.value.field == field
    assert caught.value.record is record
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert repr(field) in caught.value.message
    assert "{'" in caught.value.message
    assert len(caught.value.message) < 400


def test_a_record_that_makes_fields_up() -> None:
    record = defaultdict(str, RECORD)
    del record["url"]
    with pytest.raises(RecordError, match="'url' is missing"):
        Rows(mapping()).put(record)
    assert "url" not in record


def test_the_longest_cell() -> None:
    """Value, row key (18), family (4), qualifier (3) and 24 more are 10 MiB."""
    put, _ = Rows(mapping()).put({**RECORD, "url": b"x" * (LONGEST_CELL - 49)})
    assert len(cells(put)[0][2]) == LONGEST_CELL - 49


def test_the_longest_names() -> None:
    longest = "x" * 32_767
    assert Rows(mapping()).put({**RECORD, "shorturl": longest})[0].row == longest.encode()
    rows = Rows(mapping(column_families={"daily": ["date"]}))
    assert rows.counters({**RECORD, "date": longest})[1] == [(b"daily", longest.encode())]


def test_a_qualifier_that_is_named_twice_counts_once() -> None:
    rows = Rows(mapping(column_families={"data": ["clicks", "clicks"]}))
    assert rows.counters(RECORD)[1] == [(b"data", b"clicks")]


def test_counters_are_named_by_values_and_by_themselves() -> None:
    rows = Rows(mapping(column_families={"data": ["clicks"], "daily": ["date"]}))
    key, columns, _ = rows.counters(RECORD)
    assert key == b"http://bit.ly/ZK6t"
    assert columns == [(b"data", b"clicks"), (b"daily", b"20120816")]


def test_a_missing_field_that_was_declared_is_no_literal() -> None:
    given = {"column_families": {"daily": ["date"]}}
    record = {"shorturl": "x"}
    assert Rows(mapping(**given)).counters(record)[1] == [(b"daily", b"date")]
    with pytest.raises(RecordError, match="'date' is missing"):
        Rows(mapping(**given, fields=["shorturl", "date"])).counters(record)


@pytest.mark.parametrize("date", ["", 1.5, None, "x" * 32_768])
def test_a_value_that_names_no_column(date: object) -> None:
    with pytest.raises(RecordError) as caught:
        Rows(mapping(column_families={"daily": ["date"]})).counters({**RECORD, "date": date})
    assert caught.value.field == "date"


SINKS = [PutSink, CounterSink, IdempotentCounterSink]


@pytest.mark.parametrize("sink", SINKS)
def test_unknown_families_are_refused_at_the_start(sink: Any, context: HBaseContext) -> None:
    with pytest.raises(InvalidConfigError, match=r"no column family 'dada', only 'daily', 'data'"):
        sink(context, mapping(column_families={"dada": ["url"], "data": ["url"]}))


@pytest.mark.parametrize("sink", SINKS)
def test_a_table_that_is_not_there(sink: Any, context: HBaseContext, table: Any) -> None:
    table.exists = False
    with pytest.raises(InvalidConfigError, match="'shorturl' is not there"):
        sink(context, mapping())


@pytest.mark.parametrize("sink", SINKS)
def test_another_gateway(sink: Any) -> None:
    context = HBaseContext(object(), HBaseConfig(hosts="h", table="t"))  # type: ignore[arg-type]  # only asked what it is
    with pytest.raises(InvalidConfigError, match="needs the Thrift 2 server"):
        sink(context, mapping())


def test_a_put_has_only_fields_of_the_record(context: HBaseContext) -> None:
    """A counter's qualifier may stand for itself, a put's can't."""
    given = mapping(column_families={"data": ["url", "clicks"]}, fields=["shorturl", "url"])
    CounterSink(context, given).close()
    with pytest.raises(InvalidConfigError, match="PutSink: family 'data' has 'clicks', which is not among the fields"):
        PutSink(context, given)


@pytest.mark.parametrize("sink", [CounterSink, IdempotentCounterSink])
def test_counters_have_no_timestamp(sink: Any, context: HBaseContext) -> None:
    with pytest.raises(InvalidConfigError, match="carries no timestamp"):
        sink(context, mapping(timestamp_field="at"))


def test_tables_are_in_the_namespace_of_the_store(table: Any, connect_to: Any) -> None:
    seen: list[bytes] = []
    table.do_put = lambda name, put: seen.append(name)
    for name in ("shorturl", "other:shorturl"):
        with PutSink(connect_to(namespace="ns"), mapping(table=name, batch=False)) as sink:
            sink.add(RECORD)
    assert seen == [b"ns:shorturl", b"other:shorturl"]
