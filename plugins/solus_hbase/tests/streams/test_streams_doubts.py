"""What an ``add`` that flushes says: nothing that may count twice, and nothing that was refused, goes unsaid."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_hbase import HBaseContext
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import BufferFullError, CounterSink, FlushError, PutSink, Record, TableMapping, buffer

Lost = Callable[[], Exception]


def mapping(**settings: Any) -> TableMapping:
    given = {"table": "t", "row_key_field": "id", "column_families": {"data": ["clicks"]}, "flush_interval": 3_600_000}
    return TableMapping(**{**given, **settings})


def record(number: int) -> Record:
    return {"id": f"r{number}"}


@pytest.mark.parametrize(("call", "kept"), [(0, []), (2, [2, 3])])
def test_an_add_that_finds_room_tells_what_is_in_doubt(
    table: Any, connect_to: Any, lost: Lost, call: int, kept: list[int]
) -> None:
    """Whether a later try has mended it, or it made room enough by itself."""
    table.faults.fail_at(call, lost, applied=True)
    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=320))
    for number in range(4):
        sink.add(record(number), acked.append)
    with pytest.raises(FlushError) as caught:
        sink.add(record(4), acked.append)
    assert caught.value.records == tuple(record(number) for number in kept)
    assert caught.value.doubtful == (record(call),)
    assert caught.value.in_doubt
    assert isinstance(caught.value.__cause__, type(lost()))
    assert ("nothing of that is kept any more, but perhaps it was written: {'id': 'r0'}" in caught.value.message) == (
        not kept
    )
    sink.close()  # the record was taken, and is told once
    assert table.first_clicks(5) == [1 + (number == call) for number in range(5)]
    assert sorted(str(one["id"]) for one in acked) == [f"r{number}" for number in range(5)]


def test_the_doubts_of_all_tries(table: Any, connect_to: Any, lost: Lost) -> None:
    """R23: each lost answer may be one more, and all are told at once, in the end."""

    def plan(number: int, name: str, applied: bool) -> None:
        if applied and number in (0, 1):
            raise lost()

    table.faults.plan = plan
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=100))
    sink.add(record(0))
    with pytest.raises(FlushError) as caught:
        sink.add(record(1))
    assert (caught.value.records, caught.value.doubtful) == ((), (record(0), record(0)))
    sink.close()
    assert table.first_clicks(2) == [3, 1]


def test_a_record_that_is_not_taken_comes_with_the_doubts(
    table: Any, connect_to: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all tries are in the cause, and are not told again."""
    now = [0.0]

    def plan(number: int, name: str, applied: bool) -> None:
        if applied and number < 2:
            now[0] += 6
            raise lost()

    monkeypatch.setattr(buffer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table.faults.plan = plan
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=100), patience=10)
    sink.add(record(0))
    with pytest.raises(BufferFullError) as caught:
        sink.add(record(1))
    told = caught.value.__cause__
    assert isinstance(told, FlushError)
    assert (told.records, told.doubtful) == ((record(0),), (record(0), record(0)))
    sink.close()
    assert table.first_clicks(1) == [3]


def not_enabled() -> Exception:
    error: Exception = IDL.TIOError(b"org.apache.hadoop.hbase.TableNotEnabledException: no", False)
    return error


@pytest.mark.parametrize("sink", [PutSink, CounterSink])
def test_what_is_mended_and_in_no_doubt_is_no_news(context: HBaseContext, table: Any, sink: Any) -> None:
    table.faults.fail(not_enabled, times=1)
    with sink(context, mapping(write_buffer_size=100, fields=["id", "clicks"])) as writer:
        for number in range(2):
            writer.add({**record(number), "clicks": "x"})
    assert len(table.faults.calls) == 3
    assert len(table.rows) == 2


def test_what_is_refused_is_told_by_each_add_that_flushes(context: HBaseContext, table: Any) -> None:
    """Until it is taken back: the room that the others made does not hide it."""
    table.refuses = {b"r0"}
    sink = CounterSink(context, mapping(write_buffer_size=320))
    told: list[tuple[int, FlushError]] = []
    for number in range(9):
        try:
            sink.add(record(number))
        except FlushError as error:
            told.append((number, error))
    assert [number for number, _ in told] == [4, 7]
    assert [error.refused for _, error in told] == [(record(0),)] * 2
    assert sink.take_back(told[0][1].refused) == [record(0)]
    sink.close()
    assert [table.count(b"r%d" % number, b"data", b"clicks") for number in range(1, 9)] == [1] * 8


def test_refused_and_then_an_outage(table: Any, connect_to: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that did not get as far as the refused row does not hide that it is refused."""
    now = [0.0]

    def plan(number: int, name: str, applied: bool) -> None:
        now[0] += 6
        if number == 1:
            raise not_enabled()

    monkeypatch.setattr(buffer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table.refuses = {b"r0"}
    table.faults.plan = plan
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=100), patience=10)
    sink.add(record(0))
    with pytest.raises(BufferFullError, match="TableNotEnabled") as caught:
        sink.add(record(1))
    told = caught.value.__cause__
    assert isinstance(told, FlushError)
    assert told.refused == told.records == (record(0),)
    assert not told.doubtful
    sink.take_back()
    sink.close()


def test_single_mode_tells_the_doubts_of_what_it_wrote_first(table: Any, connect_to: Any, lost: Lost) -> None:
    """By the add that has written it again, and its own record too."""

    def plan(number: int, name: str, applied: bool) -> None:
        if applied and number in (0, 1):
            raise lost()

    table.faults.plan = plan
    acked: list[Record] = []
    sink = CounterSink(connect_to(pool_size=1), mapping(batch=False))
    with pytest.raises(FlushError) as first:
        sink.add(record(0), acked.append)
    assert first.value.records == first.value.doubtful == (record(0),)
    with pytest.raises(FlushError) as second:
        sink.add(record(1), acked.append)
    assert (second.value.records, second.value.doubtful) == ((), (record(0),))
    assert acked == [record(0), record(1)]
    sink.close()
    assert table.first_clicks(2) == [3, 1]


class Turn:
    """A lock that has something done when it is first released."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._then: list[Callable[[], None]] = [then]

    def acquire(self, blocking: bool, timeout: float) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()
        if self._then:
            self._then.pop()()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("kind", [PutSink, CounterSink])
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("by", ["flush", "take_back", "take_back the other"])
def test_room_that_somebody_else_makes(
    table: Any, connect_to: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch, kind: Any, at_once: bool, by: str
) -> None:
    """R26: a record is said to be kept if it is: not if it was written since, or taken back."""
    sink = kind(connect_to(pool_size=1), mapping(write_buffer_size=200, fields=["id", "clicks"]))
    first, other, third = ({**record(number), "clicks": "x"} for number in range(3))

    def somebody(*_: object) -> None:
        if by == "flush":
            sink.flush()
        else:
            assert other in sink.take_back([other] if by == "take_back the other" else None)

    sink.add(first)
    sink.add(other)
    table.faults.fail_at(0, lost, applied=True)
    if at_once:
        sink._buffer._turn = Turn(somebody)
    else:
        monkeypatch.setattr(sink._buffer._changed, "wait", somebody)
    kept = (first,) if by == "take_back the other" else ()
    # Of puts a doubt about what is not kept is no news.
    told = kind is CounterSink or bool(kept)
    with pytest.raises(FlushError) if told else contextlib.nullcontext() as caught:
        sink.add(third)
    if caught is not None:
        assert (caught.value.records, caught.value.refused, caught.value.doubtful) == (kept, (), (first,))
        assert ("of 2 records 1 are not written" if kept else "nothing of that is kept") in caught.value.message
    assert sink.take_back() == [*kept, third]


def test_what_was_refused_and_is_taken_back(
    table: Any, connect_to: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While room is made: it is no longer among what is refused, and the doubt is told all the same."""
    table.refuses = {b"r0"}
    table.faults.fail_at(1, lost, applied=True)
    sink = CounterSink(connect_to(pool_size=1), mapping(write_buffer_size=160))
    monkeypatch.setattr(sink._buffer._changed, "wait", lambda _: sink.take_back())
    for number in range(2):
        sink.add(record(number))
    with pytest.raises(FlushError) as caught:
        sink.add(record(2))
    assert (caught.value.records, caught.value.refused, caught.value.doubtful) == ((), (), (record(1),))
    sink.close()


@pytest.mark.parametrize("second", ["lost", "refused"])
def test_a_put_that_stays_in_doubt(
    table: Any, connect_to: Any, lost: Lost, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    """By the first try; the second one says no more of it. It is named once: a put may be repeated."""
    now = [0.0]

    def plan(number: int, name: str, applied: bool) -> None:
        now[0] += 3
        if number == 0 and applied:
            raise lost()
        if number:
            raise lost() if second == "lost" else not_enabled()

    monkeypatch.setattr(buffer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table.faults.plan = plan
    sink = PutSink(connect_to(), mapping(write_buffer_size=80), patience=7)
    sink.add({**record(0), "clicks": "x"})
    with pytest.raises(BufferFullError) as caught:
        sink.add({**record(1), "clicks": "x"})
    told = caught.value.__cause__
    assert isinstance(told, FlushError)
    assert len(table.faults.calls) > 1
    assert told.doubtful == told.records == ({**record(0), "clicks": "x"},)
    assert sink.take_back() == [{**record(0), "clicks": "x"}]


def unsent() -> Exception:
    return StoreError(ErrorCode.HBASE_ERROR, "nobody can be reached")


@pytest.mark.parametrize(
    ("number", "refuses", "error", "doubtful"),
    [
        (0, [], unsent, []),
        (0, [], not_enabled, [0, 1, 2, 3]),  # some of its regions may have been
        (1, [3], unsent, [0, 1, 2, 3]),  # by the call that was halved
        (3, [3], unsent, [2, 3]),
        (3, [3], not_enabled, [2, 3]),
        (4, [2], unsent, [3]),  # r2 was refused alone
    ],
)
def test_which_puts_are_in_doubt(
    context: HBaseContext, table: Any, number: int, refuses: list[int], error: Lost, doubtful: list[int]
) -> None:
    """What no call has carried is in none; what a call has carried that was refused for another row is."""

    def plan(at: int, name: str, applied: bool) -> None:
        if at == number and not applied:
            raise error()

    table.refuses = {b"r%d" % one for one in refuses}
    table.faults.plan = plan
    sink = PutSink(context, mapping())
    for one in range(4):
        sink.add({**record(one), "clicks": "x"})
    with pytest.raises(FlushError) as caught:
        sink.flush()
    assert [one["id"] for one in caught.value.doubtful] == [f"r{one}" for one in doubtful]
    sink.take_back()
