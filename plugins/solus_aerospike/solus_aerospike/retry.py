"""Calls through the driver: repeated where that is safe and can help, and never guessed at (R23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, final

from tenacity import RetryCallState, Retrying, retry_if_exception, retry_if_result, stop_after_attempt
from tenacity.wait import wait_fixed, wait_random

from solus_core.errors import ErrorCode, StoreError

T = TypeVar("T")

NOT_FOUND: Final = 2
OP_NOT_APPLICABLE: Final = 26
FILTERED_OUT: Final = 27
ANSWERS: Final = frozenset({NOT_FOUND, 3, 5, FILTERED_OUT})
"""Codes that answer a question (2 no such record, 3 another generation, 5 the record exists, 27 the filter says no):
a ``Caller`` lets these errors through as they are."""

CURABLE: Final = frozenset(
    {
        9,  # timeout
        11,  # the partition has no master just now
        14,  # record busy: a hot key
        18,  # device overload
        152,  # batch queues full
        211,  # query queue full
        -7,  # no more connections
        -8,  # no node
        -10,  # connection refused or lost
        -12,  # the client's own retries are used up
        -14,  # too many errors in a row
        -15,  # no answer
    }
)
"""Codes of failures that a repeat can cure."""

_ADVICE: Final = {
    4: "a record has at most 32,767 bins, which bits_per_shard times farms can exceed in the layout bins; "
    "or the namespace has no room for one more set, which the log of the server says",
    8: "the namespace has reached a limit at which it stops writes: it needs more memory or storage",
    13: "the record would be larger than the namespace's max-record-size: raise that, to 8M at most, "
    "or register with fewer bits_per_shard",
    14: "more calls wait for one record than the namespace's transaction-pending-limit",
    20: "namespaces are made in the server's configuration only",
    22: "record TTLs need nsup-period above 0, or allow-ttl-without-nsup true, in the namespace's configuration",
    26: "a bin of the record holds what Solus did not write: remove the bin, or the record",
    -7: "all connections to a node are in use: give the client a higher max_conns_per_node",
    -15: "no answer within the timeout",
}


class _CallError(Exception):
    """One try failed."""

    def __init__(self, error: StoreError, cause: BaseException, *, curable: bool) -> None:
        super().__init__(error)
        self.error = error
        self.cause = cause
        self.curable = curable


@final
class Caller:
    """Makes calls and maps what the driver raises to ``StoreError`` with ``AEROSPIKE_ERROR``.

    ``attempts``: tries in all. ``backoff``: seconds between two tries, and up to twice that, at random, so that
    callers that failed together don't meet again.
    """

    __slots__ = ("_attempts", "_by_code", "_driver_error", "_wait")

    def __init__(self, attempts: int, backoff: float) -> None:
        from aerospike import exception  # noqa: PLC0415  # no driver before a store is opened

        self._driver_error: type[Exception] = exception.AerospikeError
        self._by_code: dict[int, type[Exception]] = {
            found.code: found for found in vars(exception).values() if isinstance(getattr(found, "code", None), int)
        }
        self._attempts = attempts
        self._wait = wait_fixed(backoff) + wait_random(0, backoff)

    def read(self, what: str, call: Callable[[], T]) -> T:
        """The answer of a call that changes nothing. ``what``: what was attempted, for the error's message."""
        return self._repeated(what, call, [])

    def write(self, what: str, call: Callable[[], T]) -> T:
        """The answer of a write that may be applied twice; ``in_doubt`` is true if it may have been, and failed.

        After a try in doubt, an error of ``ANSWERS`` can be the effect of that try.
        """
        failed: list[StoreError] = []
        try:
            return self._repeated(what, call, failed)
        except StoreError as error:
            raise _doubtful(error, failed) from error.__cause__

    def check_and_write(self, what: str, call: Callable[[], bool]) -> bool:
        """The answer of a write that happens at most once, because it destroys the condition it depends on.

        So True is certain after any number of tries. False after a try in doubt may mean that this very try was
        applied: a ``StoreError`` with ``in_doubt``.
        """
        failed: list[StoreError] = []
        try:
            done = self._repeated(what, call, failed)
        except StoreError as error:
            raise _doubtful(error, failed) from error.__cause__
        unclear = next((error for error in failed if error.in_doubt), None)
        if unclear is not None and not done:
            raise StoreError(unclear.code, tried_again(what, unclear.message), in_doubt=True) from unclear.__cause__
        return done

    def rounds(self, step: Callable[[], bool]) -> None:
        """Do ``step`` until it answers True, as often as a call is tried and with the same pauses."""
        until_done = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=retry_if_result(lambda done: not done),
            retry_error_callback=_ignore,
        )
        until_done(step)

    def error(self, code: int, message: str | None = None) -> Exception:
        """The driver's exception of ``code``, for a failure that the driver told without raising one."""
        made = self._by_code.get(code)
        return made(code, message) if made is not None else self._driver_error(code, message)

    def failure(self, what: str, cause: Exception, *, in_doubt: bool | None = None) -> StoreError:
        """What the driver's error means, in our terms; its ``__cause__`` is set. ``in_doubt``: None asks ``cause``."""
        code, text = _code(cause), _first_line(cause)
        advice = _ADVICE.get(code)
        made = StoreError(
            ErrorCode.AEROSPIKE_ERROR,
            f"{what}: {type(cause).__name__} ({code})"
            + (f": {text}" if text else "")
            + (f" ({advice})" if advice else ""),
            in_doubt=_in_doubt(cause) if in_doubt is None else in_doubt,
        )
        made.__cause__ = cause
        return made

    def _repeated(self, what: str, call: Callable[[], T], failed: list[StoreError]) -> T:
        try:
            return self._try(what, call, failed)
        except _CallError as failure:
            first = [failure]

        def again() -> T:
            # What has failed already counts as the first try, so that a pause comes before the second one.
            if first:
                raise first.pop()
            return self._try(what, call, failed)

        repeat = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=retry_if_exception(lambda error: isinstance(error, _CallError) and error.curable),
            reraise=True,
        )
        try:
            return repeat(again)
        except _CallError as failure:
            raise failure.error from failure.cause

    def _try(self, what: str, call: Callable[[], T], failed: list[StoreError]) -> T:
        try:
            return call()
        except self._driver_error as error:
            code = _code(error)
            if code in ANSWERS:
                raise
            made = self.failure(what, error)
            failed.append(made)
            raise _CallError(made, error, curable=code in CURABLE) from error


def is_curable(error: StoreError) -> bool:
    """Can a repeat cure what ``Caller.failure`` made?"""
    return isinstance(error.__cause__, Exception) and _code(error.__cause__) in CURABLE


def tried_again(what: str, message: str) -> str:
    """What to say where a repeated add_if_absent finds the entity present after a try in doubt."""
    return f"{what} was tried again after {message}; whether the first try or somebody else came before can't be told"


def _doubtful(error: StoreError, failed: list[StoreError]) -> StoreError:
    return StoreError(error.code, error.message, in_doubt=any(one.in_doubt for one in failed))


def _ignore(_: RetryCallState) -> Any:
    """Being out of tries is no error of its own: what is not done has a failure already."""


def _code(error: Exception) -> int:
    # An exception of a code without a class has it in its arguments only.
    code = error.args[0] if error.args else getattr(error, "code", None)
    return code if isinstance(code, int) else 0


def _in_doubt(error: Exception) -> bool:
    # Its attributes are those of the class, which the next error in any thread overwrites. The arguments are its own:
    # code, message, file, line, in_doubt. What the client refuses by itself has fewer, and was not sent.
    return len(error.args) > 4 and bool(error.args[4])


def _first_line(error: Exception) -> str:
    text = error.args[1] if len(error.args) > 1 else None
    # The client says of a record that failed that its batch was fine.
    return text.strip().split("\n", 1)[0][:300].removesuffix("AEROSPIKE_OK").strip() if isinstance(text, str) else ""
