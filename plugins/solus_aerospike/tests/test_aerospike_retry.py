"""Which failures of the driver are repeated, what they are called, and what is in doubt after them (R23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aerospike import exception

from solus_aerospike.retry import ANSWERS, CURABLE, Caller
from solus_core.errors import ErrorCode, StoreError

ALL_CODES = sorted({found.code for found in vars(exception).values() if isinstance(getattr(found, "code", None), int)})
REPEATED = {9, 11, 14, 18, 152, 211, -7, -8, -10, -12, -14, -15}


@pytest.mark.parametrize("code", ALL_CODES)
def test_each_code(code: int) -> None:
    """R22, R23: what a repeat can cure is repeated, all else is not; an answer is no failure."""
    caller, tries = Caller(3, 0.001), []

    def call() -> bool:
        tries.append(1)
        raise caller.error(code, "the first line\nthe second")

    if code in ANSWERS:
        with pytest.raises(exception.AerospikeError) as answer:
            caller.read("looking", call)
        assert answer.value.args[0] == code
        assert len(tries) == 1
        return
    for verb in (caller.read, caller.write, caller.check_and_write):
        tries.clear()
        with pytest.raises(StoreError) as caught:
            verb("looking", call)
        assert len(tries) == (3 if code in REPEATED else 1)
        assert (code in CURABLE) == (code in REPEATED)
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert f"looking: {type(caught.value.__cause__).__name__} ({code}): the first line" in caught.value.message
        assert "second" not in caught.value.message
        assert not caught.value.in_doubt
        assert isinstance(caught.value.__cause__, exception.AerospikeError)


def test_a_pause_comes_before_each_further_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: a server that restarts isn't met by all the tries at once, and other threads can run meanwhile."""
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    caller = Caller(4, 0.5)
    with pytest.raises(StoreError):
        caller.read("looking", told(*[caller.error(-8)] * 4))
    caller.rounds(told(False, False, False, False))
    assert len(pauses) == 6
    assert all(0.5 <= pause <= 1 for pause in pauses)
    assert caller.read("looking", told(caller.error(-8), 1)) == 1
    assert len(pauses) == 7
    caller.rounds(told(True))
    Caller(1, 0.5).rounds(told(False))
    with pytest.raises(StoreError):
        caller.read("looking", told(caller.error(13)))
    assert len(pauses) == 7, "nothing is waited for where no try follows"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (4, "32,767 bins"),
        (8, "stops writes"),
        (13, "max-record-size"),
        (14, "transaction-pending-limit"),
        (20, "made in the server's configuration"),
        (22, "nsup-period"),
        (26, "a bin of the record holds what Solus did not write"),
        (-7, "max_conns_per_node"),
        (-15, "no answer within the timeout"),
    ],
)
def test_what_to_do_is_said(code: int, advice: str) -> None:
    caller = Caller(1, 0.001)
    assert advice in caller.failure("adding", caller.error(code)).message


def test_a_code_without_a_class() -> None:
    """A newer server may have codes that the client doesn't know."""
    caller = Caller(3, 0.001)
    made = caller.failure("adding", caller.error(199, "new"))
    assert made.message == "adding: AerospikeError (199): new"
    assert isinstance(made.__cause__, exception.AerospikeError)


def raised(code: int, in_doubt: bool) -> Exception:
    """An error as the driver makes it, with five arguments."""
    return Caller(1, 0.001).error(code).__class__(code, "lost", "as_command.c", 1, in_doubt)


def test_doubt_is_that_of_the_error_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: the driver keeps an error's attributes in the class, where those of another thread's error replace them."""
    for of_another in (True, False):
        monkeypatch.setattr(exception.TimeoutError, "in_doubt", of_another, raising=False)
        for of_this in (True, False):
            assert Caller(1, 0.001).failure("adding", raised(9, of_this)).in_doubt is of_this


def told(*steps: Any) -> Callable[[], Any]:
    rest = iter(steps)

    def call() -> Any:
        step = next(rest)
        if isinstance(step, Exception):
            raise step
        return step

    return call


def test_doubt() -> None:
    """R23: True is certain after any try; False only if no earlier try may have been applied."""
    caller = Caller(3, 0.001)
    lost, busy = raised(9, in_doubt=True), caller.error(14)
    assert caller.check_and_write("adding", told(lost, busy, True))
    assert not caller.check_and_write("adding", told(busy, busy, False))
    for tries in ((busy, lost, False), (lost, busy, False)):
        with pytest.raises(StoreError, match=r"TimeoutError \(9\): lost; whether .* can't be told") as unclear:
            caller.check_and_write("adding", told(*tries))
        assert unclear.value.in_doubt
    for verb, expected in ((caller.check_and_write, True), (caller.write, True), (caller.read, False)):
        with pytest.raises(StoreError, match="RecordTooBig") as failed:
            verb("adding", told(lost, caller.error(13)))
        assert failed.value.in_doubt is expected
