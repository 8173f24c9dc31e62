"""Each key once: a record is marked as seen after its flush (R25)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from solus_core import SolusEngine
from solus_core.errors import (
    BatchError,
    DeDuperNotFoundError,
    ErrorCode,
    InvalidArgumentError,
    InvalidConfigError,
    StoreError,
)
from solus_core.handle import DeDuperHandle
from solus_hbase import HBaseContext
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import FlushError, PutSink, Record, RecordError, TableMapping

MINUTE = timedelta(minutes=1)


@pytest.fixture
def seen(memory_engine: SolusEngine) -> DeDuperHandle:
    return memory_engine.deduper("events")


@pytest.fixture
def memory_engine() -> Iterator[SolusEngine]:
    pytest.importorskip("solus_memory", reason="needs solus-memory: pip install ./plugins/solus_memory")
    with SolusEngine.open("memory://", client_id="streams") as engine:
        engine.register("events")
        yield engine


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int, attempt: int = 1) -> Record:
    return {"id": f"r{number}", "v": f"attempt {attempt}"}


def key(one: Record) -> str:
    return str(one["id"])


def opened(context: HBaseContext, seen: DeDuperHandle, **settings: Any) -> PutSink:
    return PutSink(context, mapping(**settings), unique=seen, key=key, ttl=MINUTE)


def test_repeats_are_not_written_and_are_acknowledged(context: HBaseContext, seen: DeDuperHandle, table: Any) -> None:
    acked: list[Record] = []
    records = [record(1), record(2), record(1, 2), record(3)]
    with opened(context, seen) as sink:
        for one in records:
            sink.add(one, acked.append)
        assert seen.check_absence("r1")
    assert acked == records
    assert table.rows_put == [b"r1", b"r2", b"r3"]
    assert table.value(b"r1", b"data", b"v") == b"attempt 1"
    with opened(context, seen, batch=False) as sink:
        for one in (record(3, 2), record(4), record(4, 2)):
            sink.add(one, acked.append)
    assert len(acked) == 7
    assert table.rows_put == [b"r1", b"r2", b"r3", b"r4"]


def test_nothing_is_marked_before_it_is_written(
    context: HBaseContext, seen: DeDuperHandle, table: Any, lost: Callable[[], Exception]
) -> None:
    """R25: after a failed flush, or a crash in it, the records come again and are written."""
    acked: list[Record] = []
    sink = opened(context, seen)
    for one in (record(1), record(1, 2), record(2)):
        sink.add(one, acked.append)
    table.faults.fail(lost)
    with pytest.raises(FlushError) as caught:
        sink.flush()
    # The repeat waits with the one that it repeats.
    assert caught.value.records == (record(1), record(1, 2), record(2))
    assert acked == []
    assert all(seen.check_absence_many(["r1", "r2"]).values())
    table.faults.end()
    sink.close()
    assert acked == [record(1), record(1, 2), record(2)]
    assert table.rows_put == [b"r1", b"r2"]


def test_killed_at_every_step(
    memory_engine: SolusEngine, connect_to: Any, table: Any, killed: type[BaseException]
) -> None:
    """R25: whatever the moment, what comes again afterwards leaves no record out and no row double."""
    stopped = 0
    for step in range(20):
        for after in (False, True):
            name = uuid.uuid4().hex
            memory_engine.register(name)
            seen = memory_engine.deduper(name)
            table.rows.clear()
            table.faults.calls.clear()
            table.faults.fail_at(step, killed, applied=after)
            try:
                run(connect_to(), seen)
            except killed:
                stopped += 1
            table.faults.end()
            run(connect_to(), seen)
            assert sorted(table.rows) == [b"r%d" % number for number in range(10, 20)]
            assert not any(seen.check_absence_many(f"r{number}" for number in range(10, 20)).values())
    assert stopped >= 4


def run(context: HBaseContext, seen: DeDuperHandle) -> None:
    sink = opened(context, seen, write_buffer_size=500, flush_interval=3_600_000)
    try:
        for number in [*range(10, 20), *range(10, 15)]:
            sink.add(record(number))
        sink.close()
    finally:
        sink.take_back()


def test_what_could_not_be_marked_is_written_again(
    context: HBaseContext, seen: DeDuperHandle, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: it is not acknowledged, since its repeat would not be recognised."""

    def add_many(self: object, entities: Any, ttl: object) -> None:
        raise BatchError(
            ErrorCode.INTERNAL_ERROR, "no room", unprocessed=[b"r2"], doubtful=[], answers={b"r1": True, b"r3": True}
        )

    acked: list[Record] = []
    sink = opened(context, seen)
    for number in (1, 2, 3):
        sink.add(record(number), acked.append)
    with monkeypatch.context() as patch:
        patch.setattr(DeDuperHandle, "add_many", add_many)
        with pytest.raises(FlushError, match="no room") as caught:
            sink.flush()
    assert caught.value.code is ErrorCode.INTERNAL_ERROR
    assert caught.value.records == caught.value.doubtful == (record(2),)
    assert acked == [record(1), record(3)]
    sink.close()
    assert table.rows_put == [b"r1", b"r2", b"r3", b"r2"]


def test_a_deduper_that_goes_away_in_between(
    context: HBaseContext, memory_engine: SolusEngine, seen: DeDuperHandle, table: Any
) -> None:
    """After the check and before the mark: written, and not done."""

    def plan(number: int, name: str, applied: bool) -> None:
        if applied and number == 0:
            memory_engine.unregister("events")

    table.faults.plan = plan
    sink = opened(context, seen)
    sink.add(record(1))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert caught.value.code is ErrorCode.DEDUPER_NOT_FOUND
    assert caught.value.records == (record(1),)
    memory_engine.register("events")
    sink.close()
    assert table.rows_put == [b"r1", b"r1"]


def test_a_deduper_that_can_not_be_asked(
    context: HBaseContext, memory_engine: SolusEngine, seen: DeDuperHandle, table: Any
) -> None:
    sink = opened(context, seen)
    sink.add(record(1))
    memory_engine.unregister("events")
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert caught.value.code is ErrorCode.DEDUPER_NOT_FOUND
    assert (caught.value.doubtful, table.faults.calls) == ((), [])
    memory_engine.register("events")
    sink.close()
    assert table.rows_put == [b"r1"]


def test_what_was_not_written_is_in_no_doubt(context: HBaseContext, seen: DeDuperHandle, table: Any) -> None:
    table.faults.fail(lambda: IDL.TIOError(b"TableNotEnabledException: no", False), times=1)
    sink = opened(context, seen)
    sink.add(record(1))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert (caught.value.records, caught.value.doubtful) == ((record(1),), ())
    sink.close()
    assert table.rows_put == [b"r1"]


def test_what_is_checked_at_the_start(context: HBaseContext, memory_engine: SolusEngine, seen: DeDuperHandle) -> None:
    with pytest.raises(InvalidArgumentError, match="without key and ttl"):
        PutSink(context, mapping(), unique=seen)
    with pytest.raises(InvalidConfigError, match="PutSink with unique: write_to_wal is off"):
        PutSink(context, mapping(write_to_wal=False), unique=seen, key=key, ttl=MINUTE)
    with pytest.raises(InvalidArgumentError, match="without unique"):
        PutSink(context, mapping(), key=key)
    with pytest.raises(InvalidArgumentError, match="allowed are at most"):
        PutSink(context, mapping(), unique=seen, key=key, ttl=timedelta(days=100))
    with pytest.raises(DeDuperNotFoundError):
        PutSink(context, mapping(), unique=memory_engine.deduper("unknown"), key=key, ttl=MINUTE)


def test_a_store_that_takes_no_marks_yet(
    context: HBaseContext, seen: DeDuperHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: marks come last, so it is said before anything is written."""

    def add(*_: object) -> None:
        raise StoreError(ErrorCode.INTERNAL_ERROR, "not yet")

    monkeypatch.setattr(type(seen._session.data), "add", add)
    with pytest.raises(StoreError, match="not yet"):
        opened(context, seen)


def test_records_without_a_key(context: HBaseContext, seen: DeDuperHandle) -> None:
    def event(one: Record) -> Any:
        return one["event"]

    with PutSink(context, mapping(), unique=seen, key=event, ttl=MINUTE) as sink:
        with pytest.raises(RecordError, match="'event' is missing, and key needs it"):
            sink.add(record(1))
        with pytest.raises(RecordError, match=r"'key' gives no entity: .* not float"):
            sink.add({**record(1), "event": 1.5})


@pytest.mark.parametrize(("event", "complaint"), [("", "IndexError: "), (7, "TypeError: "), ("xxxxx", "LookupError: ")])
def test_whatever_key_raises_is_about_the_record(
    context: HBaseContext, seen: DeDuperHandle, table: Any, event: Any, complaint: str
) -> None:
    """The others go on."""
    told: list[RecordError] = []

    def first(one: Record) -> str:
        if one["event"] == "xxxxx":
            raise LookupError
        value: Any = one["event"]
        return str(value[0])

    with PutSink(context, mapping(), unique=seen, key=first, ttl=MINUTE, on_bad=told.append) as sink:
        sink.add({**record(1), "event": event})
        sink.add({**record(2), "event": "fine"})
    assert f"'key' gives no entity: {complaint}" in told[0].message
    assert told[0].__cause__ is not None
    assert table.rows_put == [b"r2"]


def test_what_must_be_callable(context: HBaseContext, seen: DeDuperHandle) -> None:
    """At once, not when the first record has been written."""
    wrong: Any = "id"
    with pytest.raises(TypeError, match="key must be callable, not str"):
        PutSink(context, mapping(), unique=seen, key=wrong, ttl=MINUTE)
    with pytest.raises(TypeError, match="on_bad must be callable, not str"):
        PutSink(context, mapping(), on_bad=wrong)
    with PutSink(context, mapping()) as sink:
        with pytest.raises(TypeError, match="ack must be callable, not str"):
            sink.add(record(1), wrong)
        assert len(sink) == 0


def test_on_hbase(hbase_server: Any, real_table: Any) -> None:
    """R25 with both on the real HBase: at-least-once input, each row once, in several flushes."""
    context, calls = real_table("streams_unique")
    run, acked = uuid.uuid4().hex[:8], list[Record]()
    url = f"hbase://127.0.0.1:{hbase_server.port(2)}/streams_seen?splits=0"
    with SolusEngine.open(url, client_id="streams") as engine:
        engine.register(run)
        where = TableMapping(
            table="streams_unique", row_key_field="id", column_families={"data": ["v"]}, write_buffer_size=2_000
        )
        with PutSink(context, where, unique=engine.deduper(run), key=key, ttl=MINUTE) as sink:
            for attempt in (1, 2, 3):
                for number in range(100):
                    sink.add({"id": f"{run}{number}", "v": f"attempt {attempt}"}, acked.append)
        assert len(acked) == 300
        values = calls.get([(f"{run}{number}".encode(), [(b"data", b"v")]) for number in range(100)])
        assert values == [{(b"data", b"v"): b"attempt 1"}] * 100
