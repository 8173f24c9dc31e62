"""A full buffer, and a sink that threads and processes share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from solus_core.errors import InvalidArgumentError
from solus_core.testing import race
from solus_hbase import HBaseContext
from solus_hbase.streams import BufferFullError, FlushError, PutSink, Record, TableMapping, buffer

Lost = Callable[[], Exception]


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int, **more: object) -> Record:
    return {"id": f"r{number}", "v": f"value {number}", **more}


def hanging_flush(table: Any, sink: PutSink) -> tuple[threading.Thread, threading.Event]:
    """A flush of three records, which fill the buffer, that is at its call until the event is set."""
    begun, go_on = threading.Event(), threading.Event()

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0 and not applied:
            begun.set()
            assert go_on.wait(30)

    table.faults.plan = plan
    for number in range(3):
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
    flusher, go_on = hanging_flush(table, sink)
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

    def acquire(self, timeout: float) -> bool:
        self.asked.release()
        return bool(self._lock.acquire(timeout=timeout))

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return bool(self._lock.locked())

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_room_that_another_flush_makes(context: HBaseContext, table: Any) -> None:
    """Who waited for another thread's flush does not make one of its own for what little came since."""
    sink = PutSink(context, mapping(write_buffer_size=300, flush_interval=3_600_000))
    flusher, go_on = hanging_flush(table, sink)
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


def test_a_forked_child_does_not_write_for_its_parent(
    context: HBaseContext, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: as a child sees it, in which the process id is another one."""
    sink = PutSink(context, mapping())
    sink.add(record(1))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert len(sink) == 0
    sink.add(record(2))
    sink.close()
    assert table.rows_put == [b"r2"]
