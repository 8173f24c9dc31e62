"""The pool and the repeating of calls, on connections that are made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_core.testing.lab import race_processes
from solus_hbase.pool import ConnectionPool
from solus_hbase.retry import Caller, Verdict


class Line:
    """A connection; ``fails`` are the errors of its next calls."""

    def __init__(self) -> None:
        self.state = "open"
        self.dead = False
        self.shunned = False

    def is_dead(self) -> bool:
        return self.dead

    def close(self) -> None:
        self.state = "closed"

    def shun(self) -> None:
        self.shunned = True

    def abandon(self) -> None:
        self.state = "abandoned"


class Switchboard:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.now = 0.0

    def open(self) -> Line:
        self.lines.append(Line())
        return self.lines[-1]

    def pool(self, size: int = 2, wait: float = 0.01) -> ConnectionPool[Line]:
        return ConnectionPool(self.open, size=size, wait=wait, clock=lambda: self.now)


@pytest.fixture
def board() -> Switchboard:
    return Switchboard()


def test_the_last_used_comes_first(board: Switchboard) -> None:
    pool = board.pool()
    one, two = pool.take(), pool.take()
    pool.give_back(one)
    pool.give_back(two)
    assert pool.take() is two
    assert len(board.lines) == 2


def test_waiting_is_bounded(board: Switchboard) -> None:
    pool = board.pool(size=1)
    line = pool.take()
    with pytest.raises(StoreError, match=r"no connection became free in 0\.01 s, all 1 are in use: raise pool_size"):
        pool.take()
    pool.give_back(line)
    assert pool.take() is line


def test_a_waiter_gets_what_comes_back(board: Switchboard) -> None:
    pool = board.pool(size=1, wait=60)
    line, got = pool.take(), []
    thread = threading.Thread(target=lambda: got.append(pool.take()))
    thread.start()
    pool.give_back(line)
    thread.join(60)
    assert got == [line]


def test_idle_for_long_is_opened_anew(board: Switchboard) -> None:
    """Row 1: HBase closes a connection after 60 s, and the next call would find out."""
    pool = board.pool()
    line = pool.take()
    pool.give_back(line)
    board.now = 49.9
    assert pool.take() is line
    pool.give_back(line)
    board.now = 49.9 + 50
    assert pool.take() is not line
    assert line.state == "closed"


def test_a_dead_one_is_never_handed_out(board: Switchboard) -> None:
    pool = board.pool()
    line = pool.take()
    pool.give_back(line)
    line.dead = True
    assert pool.take() is not line
    assert line.state == "closed"


def test_dropped_ones_leave_their_place(board: Switchboard) -> None:
    pool = board.pool(size=1)
    for _ in range(5):
        pool.drop(pool.take())
    assert [line.state for line in board.lines] == ["closed"] * 5


@pytest.mark.parametrize("error", [StoreError(ErrorCode.HBASE_ERROR, "unreachable"), KeyboardInterrupt("unreachable")])
def test_failing_to_open_leaves_the_place(error: BaseException) -> None:
    def fail() -> Line:
        raise error

    pool: ConnectionPool[Line] = ConnectionPool(fail, size=1, wait=0.01)
    for _ in range(3):
        with pytest.raises(type(error), match="unreachable"):
            pool.take()


def test_closing(board: Switchboard) -> None:
    pool = board.pool()
    used, idle = pool.take(), pool.take()
    pool.give_back(idle)
    pool.close()
    pool.close()
    assert (used.state, idle.state) == ("open", "closed")
    pool.give_back(used)
    assert used.state == "closed"
    with pytest.raises(StoreError, match="closed"):
        pool.take()


class Places:
    """One place; says when somebody waits for it."""

    def __init__(self) -> None:
        self._free: SimpleQueue[None] = SimpleQueue()
        self._free.put(None)
        self.waited_for = threading.Event()
        self.waits: list[float] = []

    def get(self, timeout: float) -> None:
        if self._free.empty():
            self.waits.append(timeout)
            self.waited_for.set()
        self._free.get(timeout=timeout)

    def put(self, place: None) -> None:
        self._free.put(place)


def test_closed_while_all_are_in_use(board: Switchboard) -> None:
    """Who comes then is told at once; who waits already opens no other connection, which nobody would hang up."""
    pool = board.pool(size=1, wait=30)
    places: Any = Places()
    pool._places = places
    used, told = pool.take(), list[str]()

    def wait() -> None:
        with pytest.raises(StoreError) as caught:
            pool.take()
        told.append(caught.value.message)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert places.waited_for.wait(30)
    pool.close()
    with pytest.raises(StoreError, match="is closed"):
        pool.take()
    pool.give_back(used)
    waiter.join(30)
    assert told == ["the connection to HBase is closed"]
    assert [line.state for line in board.lines] == ["closed"]


def test_closed_while_one_is_given_back(board: Switchboard) -> None:
    """By another thread, just after it was asked whether the pool is closed."""

    def closing() -> float:
        pool.close()
        return 0.0

    pool = ConnectionPool(board.open, size=1, wait=0.01, clock=closing)
    pool.give_back(pool.take())
    assert [line.state for line in board.lines] == ["closed"]


def test_a_forked_child_leaves_the_parents_connections_alone(board: Switchboard) -> None:
    """R24: and it has all places to itself, also those whose lock a thread of the parent held."""
    pool = board.pool()
    idle, used = pool.take(), pool.take()
    pool.give_back(idle)

    def in_child(_: object) -> None:
        assert (idle.state, used.state) == ("abandoned", "open")
        assert {id(pool.take()), id(pool.take())}.isdisjoint({id(idle), id(used)})

    race_processes([in_child])
    assert (idle.state, used.state) == ("open", "open")
    assert pool.take() is idle


class DriverError(Exception):
    """``kind``: curable, lost (no answer came), late (nor in time), or refused."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def judge(error: Exception) -> Verdict | None:
    if not isinstance(error, DriverError):
        return None
    return Verdict(
        f"it is {error.kind}",
        broken=error.kind in ("lost", "late"),
        curable=error.kind != "refused",
        refused=error.kind == "refused",
        late=error.kind == "late",
    )


def answering(*outcomes: object) -> Callable[[Line], bool]:
    left = list(outcomes)

    def call(_: Line) -> bool:
        outcome = left.pop(0)
        if isinstance(outcome, str):
            raise DriverError(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    return call


def caller(board: Switchboard, attempts: int = 3) -> Caller[Line]:
    return Caller(board.pool(), judge, attempts=attempts, backoff=0.000_001)


def test_a_broken_connection_is_replaced_silently(board: Switchboard) -> None:
    """Row 1"""
    assert caller(board).read("get", answering("lost", True))
    assert [line.state for line in board.lines] == ["closed", "open"]


def test_where_no_answer_comes_in_time_the_next_call_goes_elsewhere(board: Switchboard) -> None:
    """R23"""
    assert caller(board).read("get", answering("lost", "late", True))
    assert [line.shunned for line in board.lines] == [False, True, False]


def test_tries_are_bounded(board: Switchboard) -> None:
    """R23"""
    with pytest.raises(StoreError, match="HBASE_ERROR: get: it is lost") as caught:
        caller(board).read("get", answering(*["lost"] * 3, True))
    assert isinstance(caught.value.__cause__, DriverError)
    assert not caught.value.in_doubt
    assert len(board.lines) == 3


def test_a_pause_comes_before_each_further_try(board: Switchboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: of random length, and longer each time, up to two seconds."""
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    calls = Caller(board.pool(), judge, attempts=5, backoff=0.5)
    for _ in range(20):
        with pytest.raises(StoreError):
            calls.read("get", answering(*["curable"] * 5))
    assert len(pauses) == 80
    for i, longest in enumerate((0.5, 1, 2, 2)):
        assert longest / 2 < max(pauses[i::4]) <= longest
    with pytest.raises(StoreError):
        calls.read("get", answering("refused"))
    assert len(pauses) == 80, "nothing is waited for where no try follows"


def test_what_a_repeat_can_not_cure_is_not_repeated(board: Switchboard) -> None:
    """R23"""
    with pytest.raises(StoreError, match="it is refused") as caught:
        caller(board).write("put", answering("refused", True))
    assert not caught.value.in_doubt
    assert board.lines[0].state == "open"


def test_one_attempt_is_one(board: Switchboard) -> None:
    with pytest.raises(StoreError):
        caller(board, attempts=1).read("get", answering("curable", True))


def test_a_failed_write_may_have_been_applied(board: Switchboard) -> None:
    """R23"""
    with pytest.raises(StoreError) as caught:
        caller(board).write("put", answering("lost", "lost", "refused"))
    assert caught.value.in_doubt


@pytest.mark.parametrize(("outcome", "in_doubt"), [("lost", True), ("curable", True), ("refused", False)])
def test_a_call_that_is_made_once(board: Switchboard, outcome: str, in_doubt: bool) -> None:
    """R23"""
    assert caller(board).once("create", answering(True))
    with pytest.raises(StoreError, match=f"create: it is {outcome}") as caught:
        caller(board).once("create", answering(outcome, True))
    assert caught.value.in_doubt is in_doubt
    assert isinstance(caught.value.__cause__, DriverError)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_errors_of_ours_are_not_taken_for_the_drivers(board: Switchboard, kind: type[BaseException]) -> None:
    """R23: nor is the connection used again: the next call on it would be given the answer to this one."""
    calls = caller(board)
    with pytest.raises(kind):
        calls.read("get", interrupted(kind))
    for _ in range(5):  # its place is free again
        assert calls.read("get", answering(True))
    assert [line.state for line in board.lines] == ["closed", "open"]


def interrupted(kind: type[BaseException]) -> Callable[[Line], bool]:
    def call(_: Line) -> bool:
        raise kind

    return call


def test_a_server_that_can_not_be_reached_at_first(board: Switchboard) -> None:
    """R23: it may be back soon, and nothing was sent, so nothing is in doubt."""
    refused = StoreError(ErrorCode.HBASE_ERROR, "unreachable")
    refused.__cause__ = ConnectionRefusedError()
    tries: list[int] = []

    def open_third_time() -> Line:
        tries.append(1)
        if len(tries) < 3:
            raise refused
        return board.open()

    pool = ConnectionPool(open_third_time, size=1, wait=0.01)
    assert Caller(pool, judge, attempts=3, backoff=0.000_001).write("put", answering(True))
    tries.clear()
    board.lines[0].dead = True
    with pytest.raises(StoreError, match="unreachable") as caught:
        Caller(pool, judge, attempts=2, backoff=0.000_001).write("put", answering(True))
    assert (len(tries), caught.value.in_doubt) == (2, False)


def test_a_pool_that_is_used_up_was_waited_for(board: Switchboard) -> None:
    """R23: once, and not for each try."""
    pool = board.pool(size=1)
    places: Any = Places()
    pool._places = places
    used = pool.take()
    with pytest.raises(StoreError, match="no connection became free"):
        Caller(pool, judge, attempts=3, backoff=0.000_001).read("get", answering(True))
    assert places.waits == [0.01]
    pool.give_back(used)
