"""A full buffer, and a sink that threads and processes share."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from solus_core.errors import InvalidArgumentError
from solus_core.testing import FakeClock, race
from solus_hbase import HBaseContext
from solus_hbase.streams import BufferFullError, FlushError, PutSink, Record, TableMapping, buffer

Lost = Callable[[], Exception]


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int, **more: object) -> Record:
    return {"id": f"r{number}", "v": f"value {number}", **more}


def hanging_flush(table: Any, sink: PutSink, count: int) -> tuple[threading.Thread, threading.Event]:
    """A flush of so many records that is at its call until the event is set."""
    begun, go_on = threading.Event(), threading.Event()

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0 and not applied:
            begun.set()
            assert go_on.wait(30)

    table.faults.plan = plan
    for number in range(count):
        sink.add(record(number))
    flusher = threading.Thread(target=sink.flush)
    flusher.start()
    assert begun.wait(30)
    return flusher, go_on


def test_a_full_buffer_blocks_and_then_says_so(context: HBaseContext, table: Any, lost: Lost) -> None:
    """R26: it does not grow; who adds is told, and the record was not taken."""
    table.faults.fail(lost)
    sink = PutSink(context, mapping(write_buffer_size=300, flush_interval=3_600_000), patience=0.12)
    records = [record(number) for number in range(3)]
    for one in records:
        sink.add(one)
    with pytest.raises(BufferFullError, match=r"stayed full for 0\.[1-9]\d s, record {'id': 'r3'") as caught:
        sink.add(record(3))
    assert caught.value.record == record(3)
    assert isinstance(caught.value.__cause__, FlushError)
    assert len(table.faults.calls) >= 2
    assert len(sink) == 3
    table.faults.fail(lost, times=1)
    sink.add(record(3))  # blocks over one failure
    sink.close()
    assert table.rows_put == [b"r0", b"r1", b"r2", b"r3"]


def test_the_time_that_it_really_took(
    context: HBaseContext, table: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush is not cut short, however little patience there is."""
    now = [0.0]

    def plan(number: int, name: str, applied: bool) -> None:
        now[0] += 8.1
        raise lost()

    monkeypatch.setattr(buffer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table.faults.plan = plan
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000), patience=1)
    sink.add(record(0))
    with pytest.raises(BufferFullError, match=r"stayed full for 8\.10 s"):
        sink.add(record(1))
    sink.take_back()


@pytest.mark.parametrize("patience", [-1, float("inf"), float("nan")])
def test_patience_is_checked(context: HBaseContext, patience: float) -> None:
    with pytest.raises(InvalidArgumentError, match=f"patience is {patience}, allowed are seconds from 0 to [0-9]+$"):
        PutSink(context, mapping(), patience=patience)
    with pytest.raises(TypeError, match="patience must be a number of seconds, not str"):
        PutSink(context, mapping(), patience="1")  # type: ignore[arg-type]  # on purpose


def test_another_thread_is_at_it(context: HBaseContext, table: Any) -> None:
    """While a flush hangs others wait, no longer than they have patience; what they added before is safe."""
    sink = PutSink(context, mapping(write_buffer_size=300, flush_interval=3_600_000), patience=0.05)
    flusher, go_on = hanging_flush(table, sink, 3)
    with pytest.raises(BufferFullError, match="another thread's flush has not ended"):
        sink.add(record(3))
    go_on.set()
    flusher.join(30)
    sink.add(record(3))
    sink.close()
    assert table.rows_put == [b"r0", b"r1", b"r2", b"r3"]


class Announced:
    """A lock that says when somebody asks for it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.asked = threading.Semaphore(0)

    def acquire(self, blocking: bool, timeout: float) -> bool:
        self.asked.release()
        return bool(self._lock.acquire(blocking, timeout))

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.asked.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_room_that_another_flush_makes(context: HBaseContext, table: Any) -> None:
    """Who waited for another thread's flush does not make one of its own for what little came since."""
    sink = PutSink(context, mapping(write_buffer_size=300, flush_interval=3_600_000))
    flusher, go_on = hanging_flush(table, sink, 3)
    turn = Announced(sink._buffer._turn)
    sink._buffer._turn = turn  # type: ignore[assignment]  # it does what a lock does
    adders = [threading.Thread(target=sink.add, args=(record(number),)) for number in (3, 4)]
    for adder in adders:
        adder.start()
        assert turn.asked.acquire(timeout=30)
    go_on.set()
    for thread in (flusher, *adders):
        thread.join(30)
    assert (table.faults.calls, len(sink)) == (["putMultiple"], 2)
    sink.close()


def test_nothing_is_taken_back_while_it_is_written(context: HBaseContext, table: Any) -> None:
    """R26: else it would be written twice, and the books of the flush would drop what came since."""
    begun, go_on, taken = threading.Event(), threading.Event(), list[Record]()

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0 and not applied:
            begun.set()
            assert go_on.wait(30)

    table.faults.plan = plan
    sink = PutSink(context, mapping(flush_interval=3_600_000))
    sink.add(record(0))
    sink.add(record(1))
    flusher = threading.Thread(target=sink.flush)
    flusher.start()
    assert begun.wait(30)
    sink.add(record(2))
    turn = Announced(sink._buffer._turn)
    sink._buffer._turn = turn  # type: ignore[assignment]  # it does what a lock does
    taker = threading.Thread(target=lambda: taken.extend(sink.take_back()))
    taker.start()
    asked = turn.asked.acquire(timeout=30)
    go_on.set()
    for thread in (flusher, taker):
        thread.join(30)
    assert asked
    assert (table.rows_put, taken, len(sink)) == ([b"r0", b"r1"], [record(2)], 0)


def test_an_old_buffer_that_another_thread_flushes(context: HBaseContext, table: Any) -> None:
    """R26: who adds to it does not wait for that."""
    clock = FakeClock()
    sink = PutSink(context, mapping(flush_interval=500), clock=clock)
    flusher, go_on = hanging_flush(table, sink, 1)
    clock.advance(500)
    adder = threading.Thread(target=sink.add, args=(record(1),))
    adder.start()
    adder.join(5)
    was_waiting = adder.is_alive()
    go_on.set()
    for thread in (flusher, adder):
        thread.join(30)
    assert not was_waiting
    assert (table.rows_put, len(sink)) == ([b"r0"], 1)
    sink.close()


def test_what_was_taken_back_takes_no_room(context: HBaseContext, table: Any) -> None:
    sink = PutSink(context, mapping(write_buffer_size=300, flush_interval=3_600_000))
    for _ in range(2):
        for number in range(3):
            sink.add(record(number))
        assert (len(sink), table.faults.calls) == (3, [])
        assert sink.take_back() == [record(number) for number in range(3)]
    sink.close()


@pytest.mark.parametrize("by", ["flush", "take_back"])
def test_who_waits_for_room_is_told_of_it(
    context: HBaseContext, table: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """And needn't come back to look."""
    monkeypatch.setattr(buffer, "_FIRST_PAUSE", 30)
    waits = threading.Event()
    table.faults.fail(lost, times=1)
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000), patience=60)
    wait = sink._buffer._changed.wait

    def announced(timeout: float | None = None) -> bool:
        waits.set()
        return wait(timeout)

    monkeypatch.setattr(sink._buffer._changed, "wait", announced)
    sink.add(record(0))
    adder = threading.Thread(target=sink.add, args=(record(1),))
    adder.start()
    assert waits.wait(30)
    assert getattr(sink, by)() in (None, [record(0)])
    adder.join(10)
    assert not adder.is_alive()
    sink.close()
    assert table.rows_put[-1:] == [b"r1"]


def test_pauses_for_room(context: HBaseContext, table: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is twice as long as the one before, up to two seconds, and the last one as long as the patience allows."""
    now, pauses = [0.0], list[float]()

    def wait(seconds: float) -> None:
        pauses.append(round(seconds, 3))
        now[0] += seconds

    monkeypatch.setattr(buffer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table.faults.fail(lost)
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000), patience=8)
    monkeypatch.setattr(sink._buffer._changed, "wait", wait)
    sink.add(record(0))
    with pytest.raises(BufferFullError, match=r"stayed full for 8\.00 s"):
        sink.add(record(1))
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 0.85]
    sink.take_back()


def test_room_that_somebody_else_makes(context: HBaseContext, table: Any, lost: Lost) -> None:
    """Who waits for room notices that the records were taken back."""
    tried = threading.Event()

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0:
            tried.set()
            raise lost()

    table.faults.plan = plan
    sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000), patience=30)
    sink.add(record(0))
    adder = threading.Thread(target=sink.add, args=(record(1),))
    adder.start()
    assert tried.wait(30)
    taken = sink.take_back()
    adder.join(30)
    sink.close()
    assert sorted(table.rows_put + [str(one["id"]).encode() for one in taken]) == [b"r0", b"r1"]


def test_threads_share_a_sink(context: HBaseContext, table: Any, lost: Lost) -> None:
    """Each record is written and acknowledged once, whoever flushes, and with failures in between."""
    acked: list[Record] = []
    errors: list[FlushError] = []

    def plan(number: int, name: str, applied: bool) -> None:
        if number % 3 == 1 and not applied:
            raise lost()

    table.faults.plan = plan
    sink = PutSink(context, mapping(write_buffer_size=2_000, flush_interval=3_600_000), patience=60)

    def work(first: int) -> None:
        for number in range(first, first + 200):
            try:
                sink.add(record(number), acked.append)
                if number % 50 == 0:
                    sink.flush()
            except FlushError as error:
                errors.append(error)

    race(*(partial(work, 1_000 * i) for i in range(1, 5)))
    table.faults.end()
    sink.close()
    expected = sorted(f"r{1_000 * i + j}" for i in range(1, 5) for j in range(200))
    assert sorted(str(one["id"]) for one in acked) == expected
    assert sorted(row.decode() for row in table.rows_put) == expected


@pytest.mark.parametrize("first", ["add", "flush", "tick", "close", "take_back", "__len__"])
def test_a_forked_child_does_not_write_for_its_parent(context: HBaseContext, table: Any, first: str) -> None:
    """R24: as a child sees it; whatever it does first."""
    sink = PutSink(context, mapping())
    sink.add(record(1))
    buffer._forked()
    assert getattr(sink, first)(*[record(2)] * (first == "add")) in (None, [], 0)
    if first not in ("add", "close"):
        sink.add(record(2))
    sink.close()
    assert table.rows_put == ([b"r2"] if first != "close" else [])


def test_a_forked_child_that_drops_it_is_not_warned(context: HBaseContext) -> None:
    """R24: the records are the parent's."""
    sinks = [PutSink(context, mapping())]
    sinks[0].add(record(1))
    buffer._forked()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sinks.clear()
        gc.collect()  # sink and buffer refer to each other
    assert not [one for one in told if "never flushed" in str(one.message)]
