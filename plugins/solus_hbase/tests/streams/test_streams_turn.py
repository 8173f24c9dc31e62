"""Whose turn it is to flush: interrupts, callers who come in twice, forks."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, final

import pytest

from solus_core.testing import FakeClock, race
from solus_core.testing.lab import race_processes
from solus_hbase import HBaseContext
from solus_hbase.streams import CounterSink, PutSink, Record, TableMapping


def mapping(**settings: Any) -> TableMapping:
    return TableMapping(**{"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, **settings})


def record(number: int) -> Record:
    return {"id": f"r{number}", "v": "clicks"}


@final
class Interrupt:
    """Raises ``KeyboardInterrupt`` at the instruction of that number where the turn is taken: CPython looks for signals
    right after a call, before its answer is stored. Up to the flush, and not while nothing is called in the end."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._is_taking = False
        self.happened = False

    def during(self, call: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except KeyboardInterrupt:
            assert self.happened
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        self._is_taking = frame.f_code.co_name == "_in_turn"
        frame.f_trace_opcodes = self._is_taking
        return self._at if self._is_taking else None

    def _at(self, frame: FrameType, event: str, _argument: object) -> Any:
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "opcode" and self._is_taking and text not in ("if held and held[0]:", "self._turn.release()"):
            self._left -= 1
            if self._left < 0:
                self.happened, self._is_taking = True, False
                raise KeyboardInterrupt
        return self._at


@pytest.mark.parametrize("call", ["add", "tick"])
def test_no_interrupt_keeps_the_turn(context: HBaseContext, call: str) -> None:
    """R26: between any two instructions; the next flush would wait for ever."""
    clock = FakeClock()

    def interrupted(number: int) -> bool:
        sink = PutSink(context, mapping(), clock=clock)
        sink.add(record(1))
        clock.advance(1_000)
        interrupt = Interrupt(number)
        interrupt.during(sink.tick if call == "tick" else lambda: sink.add(record(2)))
        assert others.submit(sink._buffer._turn.acquire, False).result(), f"after instruction {number}"
        sink._buffer._turn.release()
        sink.close()
        return interrupt.happened

    instructions = 0
    # In a thread of its own, since a tracer that raises may leave behind what the interpreter takes for being handled.
    with ThreadPoolExecutor(1) as thread, ThreadPoolExecutor(1) as others:
        while thread.submit(interrupted, instructions).result():
            instructions += 1
    assert instructions > 10


def test_what_a_flush_itself_adds_waits_for_the_next(table: Any, connect_to: Any) -> None:
    """R26: as a logger does whose records go into the sink: nothing is acknowledged or counted twice."""
    clock = FakeClock()
    acked: list[Record] = []

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 1 and not applied:
            sink.add(record(3), acked.append)

    table.faults.plan = plan
    sink = CounterSink(connect_to(pool_size=1), mapping(), clock=clock)
    for number in range(3):
        sink.add(record(number), acked.append)
    clock.advance(1_000)
    sink.flush()
    assert (acked, len(sink)) == ([record(number) for number in range(3)], 1)
    sink.close()
    assert acked == [record(number) for number in range(4)]
    assert table.first_clicks(4) == [1] * 4


class OutOfTimeError(Exception):
    """As a handler of signals may raise it, to end what takes too long."""


def test_what_a_signal_handler_raises_is_not_swallowed(context: HBaseContext, table: Any) -> None:
    """Also where the same call of ``add`` tries again, and succeeds."""

    def handler(*_: object) -> None:
        raise OutOfTimeError

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0 and not applied:
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    table.faults.plan = plan
    try:
        sink = PutSink(context, mapping(write_buffer_size=100, flush_interval=3_600_000))
        sink.add(record(1))
        with pytest.raises(OutOfTimeError):
            sink.add(record(2))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(sink) == 1, "it was taken"
    sink.close()
    assert table.rows_put == [b"r1", b"r2"]


def test_threads_of_a_forked_child(context: HBaseContext, table: Any) -> None:
    """R24, R26: while a thread of the parent flushes. The child's threads share one new buffer, and lose nothing."""
    began, forked = threading.Event(), threading.Event()

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 0 and not applied:
            began.set()
            assert forked.wait(60)

    def in_child(_: object) -> list[bytes]:
        table.faults.end()
        assert len(sink) == 0
        race(*(lambda n=n: sink.add(record(n)) for n in (1, 2)))
        sink.close()
        return sorted(table.rows_put)

    table.faults.plan = plan
    sink = PutSink(context, mapping(flush_interval=3_600_000))
    sink.add(record(0))
    flushing = threading.Thread(target=sink.flush)
    flushing.start()
    assert began.wait(60)
    assert race_processes([in_child], timeout=20) == [[b"r1", b"r2"]]
    forked.set()
    flushing.join(60)
    sink.close()
    assert table.rows_put == [b"r0"]
