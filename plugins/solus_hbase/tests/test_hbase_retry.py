"""The repeating of calls, on connections that are made up."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.pool import ConnectionPool
from solus_hbase.retry import Caller, Verdict


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


def answering(*outcomes: object) -> Callable[[Any], bool]:
    left = list(outcomes)

    def call(_: Any) -> bool:
        outcome = left.pop(0)
        if isinstance(outcome, str):
            raise DriverError(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return bool(outcome)

    return call


def caller(board: Any, attempts: int = 3) -> Caller[Any]:
    return Caller(board.pool(), judge, attempts=attempts, backoff=0.000_001)


def test_a_broken_connection_is_replaced_silently(board: Any) -> None:
    """Row 1"""
    assert caller(board).read("get", answering("lost", True))
    assert [line.state for line in board.lines] == ["closed", "open"]


def test_where_no_answer_comes_in_time_the_next_call_goes_elsewhere(board: Any) -> None:
    """R23"""
    assert caller(board).read("get", answering("lost", "late", True))
    assert [line.shunned for line in board.lines] == [False, True, False]


def test_tries_are_bounded(board: Any) -> None:
    """R23"""
    with pytest.raises(StoreError, match="HBASE_ERROR: get: it is lost") as caught:
        caller(board).read("get", answering(*["lost"] * 3, True))
    assert isinstance(caught.value.__cause__, DriverError)
    assert not caught.value.in_doubt
    assert len(board.lines) == 3


def test_a_pause_comes_before_each_further_try(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_repeat_can_not_cure_is_not_repeated(board: Any) -> None:
    """R23"""
    with pytest.raises(StoreError, match="it is refused") as caught:
        caller(board).write("put", answering("refused", True))
    assert not caught.value.in_doubt
    assert board.lines[0].state == "open"


def test_one_attempt_is_one(board: Any) -> None:
    with pytest.raises(StoreError):
        caller(board, attempts=1).read("get", answering("curable", True))


def test_a_failed_write_may_have_been_applied(board: Any) -> None:
    """R23"""
    with pytest.raises(StoreError) as caught:
        caller(board).write("put", answering("lost", "lost", "refused"))
    assert caught.value.in_doubt


@pytest.mark.parametrize(("outcome", "in_doubt"), [("lost", True), ("curable", True), ("refused", False)])
def test_a_call_that_is_made_once(board: Any, outcome: str, in_doubt: bool) -> None:
    """R23"""
    assert caller(board).once("create", answering(True))
    with pytest.raises(StoreError, match=f"create: it is {outcome}") as caught:
        caller(board).once("create", answering(outcome, True))
    assert caught.value.in_doubt is in_doubt
    assert isinstance(caught.value.__cause__, DriverError)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_errors_of_ours_are_not_taken_for_the_drivers(board: Any, kind: type[BaseException]) -> None:
    """R23: nor is the connection used again: the next call on it would be given the answer to this one."""
    calls = caller(board)
    with pytest.raises(kind):
        calls.read("get", interrupted(kind))
    for _ in range(5):  # its place is free again
        assert calls.read("get", answering(True))
    assert [line.state for line in board.lines] == ["closed", "open"]


def interrupted(kind: type[BaseException]) -> Callable[[Any], bool]:
    def call(_: Any) -> bool:
        raise kind

    return call


def test_a_server_that_can_not_be_reached_at_first(board: Any) -> None:
    """R23: it may be back soon, and nothing was sent, so nothing is in doubt."""
    refused = StoreError(ErrorCode.HBASE_ERROR, "unreachable")
    refused.__cause__ = ConnectionRefusedError()
    tries: list[int] = []

    def open_third_time() -> Any:
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


def test_a_pool_that_is_used_up_was_waited_for(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: once, and not for each try."""
    pool, waits = board.pool(size=1), list[SimpleQueue[Any]]()

    def wait() -> SimpleQueue[Any]:
        waits.append(SimpleQueue())
        return waits[-1]

    monkeypatch.setattr("solus_hbase.pool.SimpleQueue", wait)
    used = pool.take()
    with pytest.raises(StoreError, match="no connection became free"):
        Caller(pool, judge, attempts=3, backoff=0.000_001).read("get", answering(True))
    assert len(waits) == 1
    pool.give_back(used)
