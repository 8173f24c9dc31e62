"""The sink of puts on the real HBase."""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import Any

import pytest

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_hbase import HBaseConfig, connect
from solus_hbase.gateway.thrift2 import table_name
from solus_hbase.streams import BufferFullError, CounterSink, FlushError, PutSink, Record, TableMapping, create_table
from solus_hbase.streams.rows import LONGEST_CELL

URL = (b"data", b"url")


def mapping(table: str, **settings: Any) -> TableMapping:
    given = {"row_key_field": "id", "column_families": {"data": ["url"]}, "flush_interval": 3_600_000}
    return TableMapping(**{"table": table, **given, **settings})


def test_the_last_of_a_flush_wins(real_table: Any) -> None:
    """Puts of one row keep their order, although HBase gives them one timestamp."""
    context, calls = real_table("streams_order")
    with PutSink(context, mapping("streams_order")) as sink:
        for number in range(2_000):
            sink.add({"id": f"r{number % 3}", "url": number})
    assert calls.get([(b"r0", [URL]), (b"r1", [URL]), (b"r2", [URL])]) == [
        {URL: b"1998"},
        {URL: b"1999"},
        {URL: b"1997"},
    ]


def test_timestamps_decide_over_order(real_table: Any) -> None:
    """An event that comes late does not hide a newer one. Skipping the log is a matter of durability alone."""
    context, calls = real_table("streams_order")
    row = uuid.uuid4().hex
    with PutSink(context, mapping("streams_order", timestamp_field="at", write_to_wal=False)) as sink:
        for at in (1_345_115_796_927, 1_345_115_796_929, 1_345_115_796_928):
            sink.add({"id": row, "url": at, "at": at})
    assert calls.get([(row.encode(), [URL])]) == [{URL: b"1345115796929"}]


@pytest.mark.parametrize("batch", [False, True])
def test_the_longest_cell(real_table: Any, batch: bool) -> None:
    """What the sink lets through HBase takes: 10 MiB for value, row key, family, qualifier and 24 more."""
    context, calls = real_table("streams_long")
    row = f"r{batch}"
    value = b"x" * (LONGEST_CELL - 24 - len(row) - len("dataurl"))
    with PutSink(context, mapping("streams_long", batch=batch)) as sink:
        sink.add({"id": row, "url": value})
        sink.add({"id": "other", "url": "small"})
    assert calls.get([(row.encode(), [URL])]) == [{URL: value}]


def test_a_full_buffer_fits_into_a_frame(hbase_server: Any, real_table: Any) -> None:
    """The framed transport takes 2 MiB a call, as much as the buffer has by default."""
    name, port = hbase_server.start_gateway(2, framed=True)
    try:
        context, calls = real_table("streams_framed", port, transport="framed")
        with PutSink(context, mapping("streams_framed")) as sink:
            for number in range(30_000):
                sink.add({"id": f"r{number:05}", "url": f"u{number}"})
        found = calls.get([(b"r%05d" % number, [URL]) for number in range(30_000)])
        assert found == [{URL: b"u%d" % number} for number in range(30_000)]
    finally:
        hbase_server.kill(name)


def test_the_gateway_killed_under_load(hbase_server: Any, real_table: Any) -> None:
    """R26: whatever fails meanwhile, all is acknowledged in the end, and what was acknowledged is there."""
    context, calls = real_table("streams_killed_puts", attempts=2, backoff=0.01)
    run, acked = uuid.uuid4().hex[:8], set[object]()
    enough, failed, restarted = threading.Event(), threading.Event(), threading.Event()
    sink = PutSink(context, mapping("streams_killed_puts", write_buffer_size=5_000), patience=1)

    def note(record: Record) -> None:
        acked.add(record["id"])
        if len(acked) > 2_000:
            enough.set()

    def feed(first: int) -> None:
        number = first
        while number < first + 1_000_000 and not (restarted.is_set() and number >= first + 4_000):
            try:
                sink.add({"id": f"{run}{number}", "url": number}, note)
            except BufferFullError:
                failed.set()
                continue
            except FlushError:
                failed.set()
            number += 1
        fed.append((first, number))

    fed: list[tuple[int, int]] = []
    threads = [threading.Thread(target=feed, args=(first,)) for first in (10_000_000, 20_000_000)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    hbase_server.kill("thrift2")
    # Not before somebody was told: a server that is back within the patience is no news.
    assert failed.wait(60)
    hbase_server.start("thrift2")
    restarted.set()
    for thread in threads:
        thread.join(120)
    sink.close()
    expected = [number for first, last in fed for number in range(first, last)]
    assert acked == {f"{run}{number}" for number in expected}
    found = calls.get([(f"{run}{number}".encode(), [URL]) for number in expected])
    assert found == [{URL: b"%d" % number} for number in expected]


def test_thrift_1_is_refused(hbase_server: Any) -> None:
    """At the start, not at the first record."""
    with (
        contextlib.closing(connect(HBaseConfig(hosts=f"127.0.0.1:{hbase_server.port(1)}", table="unused"))) as context,
        pytest.raises(InvalidConfigError, match="PutSink: it needs the Thrift 2 server"),
    ):
        PutSink(context, mapping("streams_order"))


def test_tables_are_created_once(real_table: Any) -> None:
    context, _ = real_table("streams_order")
    name = f"streams_{uuid.uuid4().hex}"
    for families in ({"data": (3, None), "daily": (1, 604_800)}, {"other": (1, None)}):
        create_table(context, name, families)
    assert context.gateway.families(name) == {b"data", b"daily"}
    described = context.gateway.calls.read("", lambda to: to.client.getTableDescriptor(table_name(name)))
    assert {family.name: (family.maxVersions, family.timeToLive) for family in described.columns} == {
        b"data": (3, 2**31 - 1),
        b"daily": (1, 604_800),
    }
    with pytest.raises(StoreError) as caught:
        create_table(context, f"nobody:{name}", {"data": (1, None)})
    assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR


def test_a_family_that_went_away(real_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HBase names the family, the error the records, which are kept."""
    context, _ = real_table("streams_order")
    monkeypatch.setattr(type(context.gateway), "families", lambda self, table: frozenset([b"data", b"gone"]))
    sink = PutSink(context, mapping("streams_order", column_families={"gone": ["url"]}))
    counters = CounterSink(context, mapping("streams_order", column_families={"gone": ["url"]}))
    records: list[Record] = [{"id": "r1", "url": "u"}, {"id": "r2", "url": "u"}]
    for one in (sink, counters):
        for record in records:
            one.add(record)
        with pytest.raises(FlushError, match="Column family gone does not exist") as caught:
            one.flush()
        assert "\n" not in caught.value.message
        assert one.take_back() == records
        one.close()
