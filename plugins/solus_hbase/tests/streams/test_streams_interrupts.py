"""What interrupts a flush, and what acknowledgements raise: no record is lost, and none counts twice unreported."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from solus_core.errors import ErrorCode
from solus_hbase import HBaseContext, workers
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import BufferFullError, CounterSink, FlushError, PutSink, Record, TableMapping

Lost = Callable[[], Exception]


def mapping(**settings: Any) -> TableMapping:
    given = {"table": "t", "row_key_field": "id", "column_families": {"data": ["v"]}, "flush_interval": 3_600_000}
    return TableMapping(**{**given, **settings})


def record(number: int, **more: object) -> Record:
    return {"id": f"r{number}", "v": "clicks", **more}


def refuse(_: Record) -> None:
    raise LookupError("gone")


def interrupted_by(killed: type[BaseException]) -> Callable[[Record], None]:
    """An acknowledgement in which an interrupt comes."""

    def interrupted(_: Record) -> None:
        raise killed()

    return interrupted


def test_an_interrupt_does_not_count_twice_what_was_answered(
    table: Any, connect_to: Any, killed: type[BaseException]
) -> None:
    """The block closes the sink, which writes the rest; the row under way alone is in doubt, and named."""
    table.faults.fail_at(4, killed, applied=True)
    acked: list[Record] = []

    def work() -> None:
        with CounterSink(connect_to(pool_size=1), mapping()) as sink:
            for number in range(10):
                sink.add(record(number), acked.append)
            sink.flush()

    with pytest.raises(killed) as caught:
        work()
    told = caught.value.__cause__
    assert isinstance(told, FlushError)
    assert told.records == tuple(record(number) for number in range(4, 10))
    assert told.doubtful == (record(4),)
    assert table.first_clicks(10) == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert acked == [record(number) for number in range(10)]


def test_an_interrupt_waits_for_calls_under_way(table: Any, connect_to: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the caller waits for its threads: what they are at ends first, and is known."""
    joining, delivered, returned = threading.Event(), threading.Event(), threading.Event()
    began = threading.Event()
    join = workers._join

    def announced(started: Any) -> None:
        joining.set()
        join(started)

    def plan(number: int, name: str, applied: bool) -> None:
        if applied:
            return
        if threading.current_thread() is threading.main_thread():
            assert began.wait(30)
        elif not began.is_set():
            began.set()
            assert joining.wait(30)
            # One that comes just before the other thread falls asleep does not wake it: so until it has arrived.
            for _ in range(600):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                if delivered.wait(0.05):
                    break
            returned.wait(0.2)  # as long as it takes: it must not return

    def interrupt(*_: object) -> None:
        if not delivered.is_set():
            delivered.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(workers, "_join", announced)
    before = signal.signal(signal.SIGINT, interrupt)
    table.faults.plan = plan
    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=2), mapping())
    try:
        for number in range(2):
            sink.add(record(number), acked.append)
        with pytest.raises(KeyboardInterrupt) as caught:
            sink.flush()
        returned.set()
        assert caught.value.__cause__ is None, "all was written"
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(sink) == 0
    sink.close()
    assert (table.first_clicks(2), acked) == ([1, 1], [record(0), record(1)])


def test_no_other_failure_hides_an_interrupt(killed: type[BaseException]) -> None:
    pool = workers.Workers(2)
    for _ in range(50):
        together = threading.Barrier(2)

        def failing(error: BaseException, together: threading.Barrier) -> None:
            together.wait(30)
            raise error

        with pytest.raises(killed):
            pool.run([partial(failing, error, together) for error in (ValueError(), killed())])
    pool.close()


@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupt_keeps_what_is_not_written(
    context: HBaseContext, table: Any, killed: type[BaseException], batch: bool
) -> None:
    table.faults.fail_at(0, killed)
    acked: list[Record] = []
    sink = PutSink(context, mapping(batch=batch))

    def work() -> None:
        sink.add(record(1), acked.append)
        sink.flush()

    with pytest.raises(killed) as caught:
        work()
    assert isinstance(caught.value.__cause__, FlushError)
    assert caught.value.__cause__.doubtful == (record(1),)
    sink.close()
    assert acked == [record(1)]


@pytest.mark.parametrize("then", ["add", "flush", "tick", "close"])
@pytest.mark.parametrize("loses", [None, 1])
@pytest.mark.parametrize("takes_back", [False, True])
def test_what_an_interrupt_leaves_is_done_by_the_next_call(
    table: Any,
    connect_to: Any,
    killed: type[BaseException],
    lost: Lost,
    loses: int | None,
    then: str,
    takes_back: bool,
) -> None:
    """R26: it comes when all calls are through and nothing is booked. What is written is not handed back, nor written
    again, and is acknowledged once; what is in doubt is told."""
    clock = InterruptedClock(killed)

    def plan(number: int, name: str, applied: bool) -> None:
        clock.armed = applied and number == (2 if loses is None else loses)
        if applied and number == loses:
            raise lost()

    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=1), mapping(), clock=clock)
    for number in range(3):
        sink.add(record(number), acked.append)
    table.faults.plan = plan
    with pytest.raises(killed):
        sink.flush()
    assert acked == []
    done, left = (3, []) if loses is None else (1, [record(1), record(2)])
    if takes_back:
        assert sink.take_back() == left
    arguments = (record(3), acked.append) if then == "add" else ()
    # What is left and in no doubt, flush and close write at once; the doubts are told all the same.
    with contextlib.nullcontext() if loses is None else pytest.raises(FlushError) as caught:
        getattr(sink, then)(*arguments)
    assert acked[:done] == [record(number) for number in range(done)]
    assert caught is None or caught.value.doubtful == (record(1),)
    sink.close()
    rest = [] if takes_back else left
    assert acked == [record(number) for number in range(done)] + rest + [record(3)] * (then == "add")
    assert table.first_clicks(done) == [1] * done
    if loses == 1:
        assert table.count(b"r1", b"data", b"clicks") == 1 + (not takes_back)


def test_what_take_back_books_nobody_throws_away(
    context: HBaseContext, table: Any, killed: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R26: another thread that has nothing to tell comes while the rest of an interrupt is booked."""
    clock = InterruptedClock(killed)

    def plan(number: int, name: str, applied: bool) -> None:
        clock.armed = applied

    acked: list[Record] = []
    sink = PutSink(context, mapping(), clock=clock)
    sink.add(record(0), acked.append)
    table.faults.plan = plan
    with pytest.raises(killed):
        sink.flush()
    buffer = sink._buffer
    book = buffer._book

    def overtaken(*arguments: Any) -> None:
        other = threading.Thread(target=buffer._and_tell, args=(lambda _: None,))
        other.start()
        other.join(30)
        book(*arguments)

    monkeypatch.setattr(buffer, "_book", overtaken)
    assert sink.take_back() == []
    sink.close()
    assert (acked, table.rows_put) == ([record(0)], [b"r0"])


def test_an_interrupt_between_two_tries_has_the_doubts_as_its_cause(
    table: Any, connect_to: Any, killed: type[BaseException], lost: Lost
) -> None:
    """The first try lost its answer; what the second one did is booked by the next call."""
    clock = InterruptedClock(killed)

    def plan(number: int, name: str, applied: bool) -> None:
        clock.armed = applied and number == 1
        if applied and number == 0:
            raise lost()

    table.faults.plan = plan
    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=100), clock=clock)
    sink.add(record(0), acked.append)
    with pytest.raises(killed) as caught:
        sink.add(record(1))
    assert isinstance(caught.value.__cause__, FlushError)
    assert caught.value.__cause__.doubtful == (record(0),)
    sink.close()
    assert (table.first_clicks(1), acked) == ([2], [record(0)])


class InterruptedClock:
    """Stands still, and is interrupted where it is asked while it is armed."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error
        self.armed = False

    def __call__(self) -> int:
        if self.armed:
            self.armed = False
            raise self._error
        return 1_700_000_000_000


def test_an_interrupt_while_room_is_made(table: Any, connect_to: Any, killed: type[BaseException]) -> None:
    """It is raised at once, whether there is room by then or not: nobody wants to wait for a full buffer then."""

    def plan(number: int, name: str, applied: bool) -> None:
        if number == stop:
            raise killed()

    table.faults.plan = plan
    for stop in (0, 1):
        table.faults.calls.clear()
        sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=160))
        for number in range(2):
            sink.add(record(number))
        with pytest.raises(killed):
            sink.add(record(2))
        assert len(table.faults.calls) == stop + 1
        sink.take_back()


def test_an_error_that_nobody_expected(table: Any, connect_to: Any) -> None:
    """A bug somewhere below is a failed flush like others: what was answered is not sent again."""
    table.faults.fail_at(4, lambda: ZeroDivisionError("a bug"))
    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=1), mapping())
    for number in range(10):
        sink.add(record(number), acked.append)
    with pytest.raises(FlushError, match="a bug") as caught:
        sink.flush()
    assert caught.value.code is ErrorCode.INTERNAL_ERROR
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.doubtful == (record(4),)
    assert acked == [record(number) for number in range(4)]
    sink.close()
    assert table.first_clicks(10) == [1] * 10


def test_an_interrupted_acknowledgement(context: HBaseContext, table: Any, killed: type[BaseException]) -> None:
    """The others are called all the same: their records are written."""
    acked: list[Record] = []
    sink = PutSink(context, mapping())
    for ack in (refuse, interrupted_by(killed), acked.append):
        sink.add(record(len(sink)), ack)
    with pytest.raises(killed):
        sink.flush()
    assert (acked, len(sink)) == ([record(2)], 0)


def test_single_mode_takes_the_record_although_an_acknowledgement_raises(
    context: HBaseContext, table: Any, lost: Lost
) -> None:
    """That of the record before, which had been kept: an error of an acknowledgement means "taken", always."""
    table.faults.fail_at(0, lost)
    sink = PutSink(context, mapping(batch=False))
    with pytest.raises(FlushError):
        sink.add(record(1), refuse)
    with pytest.raises(LookupError):
        sink.add(record(2))
    assert table.rows_put == [b"r1", b"r2"]
    sink.close()


def test_a_failed_flush_does_not_hide_what_an_acknowledgement_raised(context: HBaseContext, table: Any) -> None:
    table.refuses = {b"r2"}
    sink = PutSink(context, mapping())
    sink.add(record(1), refuse)
    sink.add(record(2))
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert isinstance(caught.value.__context__, LookupError)
    assert isinstance(caught.value.__cause__, IDL.TIOError)
    sink.take_back()


def test_a_failed_flush_does_not_hide_an_interrupt(
    context: HBaseContext, table: Any, killed: type[BaseException]
) -> None:
    table.refuses = {b"r2"}
    sink = PutSink(context, mapping())
    sink.add(record(1), interrupted_by(killed))
    sink.add(record(2))
    with pytest.raises(killed) as caught:
        sink.flush()
    assert isinstance(caught.value.__cause__, FlushError)
    assert sink.take_back() == [record(2)]


def test_single_mode_keeps_what_several_threads_could_not_write(context: HBaseContext, table: Any, lost: Lost) -> None:
    """R26"""
    together = threading.Barrier(2)

    def plan(number: int, name: str, applied: bool) -> None:
        if number < 2:
            together.wait(30)
            raise lost()

    def work(number: int) -> None:
        with pytest.raises(FlushError):
            sink.add(record(number), acked.append)

    table.faults.plan = plan
    acked: list[Record] = []
    sink = PutSink(context, mapping(batch=False))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(sink) == 2
    sink.close()
    assert sorted(str(one["id"]) for one in acked) == ["r0", "r1"]


def test_a_record_that_was_not_taken_is_said_not_to_be(context: HBaseContext, table: Any) -> None:
    """Also where an acknowledgement raised while room was made, and not enough of it."""
    table.refuses = {b"r2"}
    sink = PutSink(context, mapping(write_buffer_size=400), patience=0)
    sink.add(record(1), refuse)
    sink.add(record(2, v="x" * 150))
    with pytest.raises(BufferFullError) as caught:
        sink.add(record(3, v="y" * 250))
    assert isinstance(caught.value.__context__, LookupError)
    assert isinstance(caught.value.__cause__, FlushError)
    assert sink.take_back() == [record(2, v="x" * 150)]
