"""An interrupt between any two lines of the sinks: what is written is acknowledged once, and no doubt goes unsaid."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from solus_hbase.streams import CounterSink, FlushError, PutSink, Record, TableMapping, buffer

STREAMS = Path(buffer.__file__).parent
THREADING = threading.__file__
Lost = Callable[[], Exception]


class Interrupt:
    """Raises ``error`` at the step of that number: lines of the sinks, and beginnings of functions of
    ``threading``, below them too: what is locked in Python can stay locked."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self._left = number
        self._error = error
        self.where = ""

    def during(self, call: Callable[[], object]) -> BaseException | None:
        """What the call raised."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        except BaseException as error:
            return error
        finally:
            sys.settrace(before)
        return None

    def _enter(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        is_ours = Path(code.co_filename).parent == STREAMS
        if self.where or code.co_name == "__del__" or not (is_ours or code.co_filename == THREADING):
            return None
        # One that is dropped half way is entered too, and what it raises then nobody hears.
        if not code.co_flags & inspect.CO_GENERATOR:
            self._step(frame)
        blocks: set[int] = set()

        def line(frame: FrameType, event: str, _: object) -> Any:
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            # No signal comes where nothing is called. At the end of a block, its first line comes again.
            is_called = text not in ("raise error", "if held and held[0]:", "self._turn.release()")
            if event == "line" and not self.where and frame.f_lineno not in blocks and is_called:
                if text.startswith("with "):
                    blocks.add(frame.f_lineno)
                self._step(frame)
            return line

        return line if is_ours else None

    def _step(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left < 0:
            self.where = f"{frame.f_code.co_name}, line {frame.f_lineno} of {Path(frame.f_code.co_filename).name}"
            raise self._error


def mapping(**settings: Any) -> TableMapping:
    given = {"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, "flush_interval": 3_600_000}
    return TableMapping(**{**given, **settings})


def record(number: int) -> Record:
    return {"id": f"r{number % 2}", "v": "clicks", "number": number}


def doubts(error: BaseException | None) -> list[Record]:
    """What an error says of doubts, itself or by what it names."""
    found: list[Record] = []
    while error is not None:
        found += error.doubtful if isinstance(error, FlushError) else ()
        error = error.__cause__ or error.__context__
    return found


def close(sink: Any) -> list[Record]:
    """Close a sink, and answer what it says of doubts."""
    try:
        sink.close()
    except FlushError as error:
        sink.close()
        return doubts(error)
    return []


def flush(sink: Any, _: Callable[[Record], object]) -> None:
    sink.flush()


def add(sink: Any, ack: Callable[[Record], object]) -> None:
    sink.add(record(3), ack)


@pytest.mark.parametrize("call", [flush, add])
@pytest.mark.parametrize("loses", [None, 0, 1])
@pytest.mark.parametrize("kind", [CounterSink, PutSink])
def test_anywhere(
    table: Any,
    connect_to: Any,
    killed: type[BaseException],
    lost: Lost,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    loses: int | None,
    call: Any,
) -> None:
    """R26, R23: closed afterwards, a sink has written and acknowledged each record, once; what it counted twice it
    has named before. The record alone that was being added may not have been taken."""
    monkeypatch.setattr(buffer, "_FIRST_PAUSE", 0.0)

    def interrupted(line: int) -> bool:
        table.rows.clear()
        table.faults.calls.clear()
        table.faults.fail_at(loses, lost, applied=True)
        acked: list[object] = []
        # The buffer is full of three.
        sink = kind(connect_to(pool_size=1), mapping(write_buffer_size=250))
        for number in range(3):
            sink.add(record(number), partial(acknowledge, acked))
        interrupt = Interrupt(line, killed)
        error = interrupt.during(partial(call, sink, partial(acknowledge, acked)))
        where = f"interrupted in {interrupt.where}: {error!r}"
        if interrupt.where.startswith("_flush_all,"):
            # Between a lock and its block a tracer gets in, and no signal does: CPython looks for these after calls.
            with contextlib.suppress(RuntimeError):
                sink._buffer._turn.release()
        for lock in (sink._buffer._turn, sink._buffer._lock):
            assert others.submit(is_free, lock).result(), where
        named = len(doubts(error)) + len(close(sink))
        # Nor does a signal get in between taking out an entry and its acknowledgement.
        assert len({0, 1, 2} - set(acked)) <= interrupt.where.startswith("tell,"), where
        assert len(acked) == len(set(acked)), where
        written = 3 + (3 in acked)
        if kind is CounterSink:
            counted = sum(table.count(row, b"data", b"clicks") for row in table.rows)
            assert written <= counted <= written + named, where
        assert isinstance(error, killed) or not interrupt.where, where
        assert (written == 4) is (call is add) or interrupt.where, where
        return bool(interrupt.where)

    lines = 0
    # In a thread of its own, since a tracer that raises may leave behind what the interpreter takes for being handled.
    with ThreadPoolExecutor(1) as thread, ThreadPoolExecutor(1) as others:
        while thread.submit(interrupted, lines).result():
            lines += 1
    assert lines > 50


def is_free(lock: Any) -> bool:
    """May another thread have it?"""
    if not lock.acquire(blocking=False):
        return False
    lock.release()
    return True


def acknowledge(to: list[object], one: Record) -> None:
    to.append(one["number"])
