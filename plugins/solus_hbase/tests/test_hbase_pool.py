"""The pool, with connections that are made up."""

from __future__ import annotations

import contextlib
import gc
import inspect
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty
from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_core.testing.interrupts import Interrupted
from solus_core.testing.lab import race_processes
from solus_hbase import pool as module
from solus_hbase.pool import ConnectionPool, Place


def test_the_last_used_comes_first(board: Any) -> None:
    pool = board.pool()
    one, two = pool.take(), pool.take()
    pool.give_back(one)
    pool.give_back(two)
    assert pool.take() is two
    assert len(board.lines) == 2


def test_waiting_is_bounded(board: Any) -> None:
    pool = board.pool(size=1)
    line = pool.take()
    with pytest.raises(StoreError, match=r"no connection became free in 0\.01 s, all 1 are in use: raise pool_size"):
        pool.take()
    assert not pool._places._line
    pool.give_back(line)
    assert pool.take() is line


def test_a_waiter_gets_what_comes_back(board: Any) -> None:
    pool = board.pool(size=1, wait=60)
    line, got = pool.take(), []
    thread = threading.Thread(target=lambda: got.append(pool.take()))
    thread.start()
    pool.give_back(line)
    thread.join(60)
    assert got == [line]


def test_who_waits_longest_is_served_first(board: Any) -> None:
    """Whoever gives one back and wants it again at once comes last."""
    pool = board.pool(size=1, wait=60)
    queue, line, served = watched(pool), pool.take(), list[str]()

    def work(name: str) -> None:
        taken = pool.take()
        served.append(name)
        pool.give_back(taken)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("first", "second", "third")]
    for thread in threads:
        thread.start()
        assert queue.longer.acquire(timeout=60)
    pool.give_back(line)
    work("again")
    for thread in threads:
        thread.join(60)
    assert served == ["first", "second", "third", "again"]
    assert len(board.lines) == 1


def test_one_given_back_before_somebody_stands_in_line(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken at once, without waiting for the next."""
    pool = board.pool(size=1)
    line, places = pool.take(), pool._places
    monkeypatch.setattr(module, "SimpleQueue", lambda: pool.give_back(line) or Waiter())
    assert pool.take() is line
    pool.give_back(line)
    assert len(places._free) == 1


class Waiter:
    """What waits for a place: it must be there already."""

    def __init__(self) -> None:
        self._given: list[Place] = []

    def put(self, place: Place) -> None:
        self._given.append(place)

    def get(self, timeout: float = 0, block: bool = True) -> Place:
        if not self._given:
            assert not block
            raise Empty
        return self._given.pop()


class Late(Waiter):
    """A place is free, and whoever gave it back was interrupted before he handed it on."""

    def __init__(self, pool: ConnectionPool[Any], place: Place | None) -> None:
        super().__init__()
        self._pool, self._place = pool, place

    def get(self, timeout: float = 0, block: bool = True) -> Place:
        if block:
            assert self._place is not None
            self._pool._places._free.append(self._place)
            raise Empty
        return super().get(block=False)


def test_a_place_that_nobody_was_told_of(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = board.pool(size=1)
    line = pool.take()
    place, line.place = line.place, None
    monkeypatch.setattr(module, "SimpleQueue", lambda: Late(pool, place))
    assert pool.take().place is place


def test_a_place_in_a_cycle(board: Any) -> None:
    """R22: as with an error that is kept by itself, since an interrupt came after its connection was taken."""
    pool = board.pool(size=1)
    line = pool.take()
    line.itself = line
    board.lines.clear()
    del line
    gc.collect()
    assert pool.take() is not None


def give_back_later(pool: ConnectionPool[Any], taken: Any, queue: Queue) -> None:
    """When somebody waits for it."""
    assert queue.longer.acquire(timeout=30)
    pool.give_back(taken)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("end", ["give_back", "drop"])
def test_an_interrupt_loses_no_place(board: Any, end: str, waits: bool) -> None:
    """R22, R24: at whatever line it comes. ``waits``: until another thread gives a place back."""
    happened = set()
    for line in range(1, len(inspect.getsourcelines(module)[0]) + 1):
        pool = board.pool(size=1, wait=30)
        queue = watched(pool)
        other = threading.Thread(target=give_back_later, args=(pool, pool.take(), queue))
        if not waits:
            queue.longer.release()
        other.start()
        if not waits:
            other.join(30)
        with Interrupted(module, line) as interrupted, contextlib.suppress(KeyboardInterrupt):
            getattr(pool, end)(pool.take())
        if interrupted.happened:
            happened.add(line)
        queue.longer.release()
        other.join(30)
        board.lines.clear()  # nobody else has one that was lost
        pool._wait = 0.0
        pool.give_back(pool.take())
        assert len(pool._places._free) == 1, f"after an interrupt at line {line}"
    assert len(happened) > 10


def test_idle_for_long_is_opened_anew(board: Any) -> None:
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


def test_a_dead_one_is_never_handed_out(board: Any) -> None:
    pool = board.pool()
    line = pool.take()
    pool.give_back(line)
    line.dead = True
    assert pool.take() is not line
    assert line.state == "closed"


def test_dropped_ones_leave_their_place(board: Any) -> None:
    pool = board.pool(size=1)
    for _ in range(5):
        pool.drop(pool.take())
    assert [line.state for line in board.lines] == ["closed"] * 5


@pytest.mark.parametrize("error", [StoreError(ErrorCode.HBASE_ERROR, "unreachable"), KeyboardInterrupt("unreachable")])
def test_failing_to_open_leaves_the_place(error: BaseException) -> None:
    def fail() -> Any:
        raise error

    pool: ConnectionPool[Any] = ConnectionPool(fail, size=1, wait=0.01)
    for _ in range(3):
        with pytest.raises(type(error), match="unreachable"):
            pool.take()


def test_closing(board: Any) -> None:
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


class Queue(deque[Any]):
    """Those who wait for a place; says when somebody does."""

    def __init__(self) -> None:
        self.longer = threading.Semaphore(0)

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self.longer.release()


def watched(pool: ConnectionPool[Any]) -> Queue:
    pool._places._line = line = Queue()
    return line


def test_closed_while_all_are_in_use(board: Any) -> None:
    """Who comes then is told at once; who waits already opens no other connection, which nobody would hang up."""
    pool = board.pool(size=1, wait=30)
    queue, used, told = watched(pool), pool.take(), list[str]()

    def wait() -> None:
        with pytest.raises(StoreError) as caught:
            pool.take()
        told.append(caught.value.message)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert queue.longer.acquire(timeout=30)
    pool.close()
    with pytest.raises(StoreError, match="is closed"):
        pool.take()
    pool.give_back(used)
    waiter.join(30)
    assert told == ["the connection to HBase is closed"]
    assert [line.state for line in board.lines] == ["closed"]


def test_closed_while_one_is_given_back(board: Any) -> None:
    """By another thread, just after it was asked whether the pool is closed."""

    def closing() -> float:
        pool.close()
        return 0.0

    pool = ConnectionPool(board.open, size=1, wait=0.01, clock=closing)
    pool.give_back(pool.take())
    assert [line.state for line in board.lines] == ["closed"]


def test_a_forked_child_leaves_the_parents_connections_alone(board: Any) -> None:
    """R24: and it has all places to itself, also those whose lock a thread of the parent held."""
    pool = board.pool()
    idle, used = pool.take(), pool.take()
    pool.give_back(idle)

    def in_child(_: object) -> None:
        assert (idle.state, used.state) == ("abandoned", "open")
        taken = {id(pool.take()), id(pool.take())}
        assert taken.isdisjoint({id(idle), id(used)})

    def in_child_of_who_has_one(end: str) -> Callable[[object], None]:
        def give_or_drop(_: object) -> None:
            getattr(pool, end)(used)
            assert used.state == "abandoned"
            assert [pool.take() is used for _ in range(2)] == [False] * 2
            with pytest.raises(StoreError, match="no connection became free"):
                pool.take()

        return give_or_drop

    race_processes([in_child_of_who_has_one(end) for end in ("give_back", "drop")])

    race_processes([in_child])
    assert (idle.state, used.state) == ("open", "open")
    assert pool.take() is idle
