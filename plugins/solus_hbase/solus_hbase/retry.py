"""Calls over pooled connections: repeated where that is safe and can help, and never guessed at (R23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

from attrs import frozen
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.pool import Connection, ConnectionPool

T = TypeVar("T")
C = TypeVar("C", bound=Connection)

_LONGEST_WAIT: Final = 2.0


@final
@frozen
class Verdict:
    """What a driver's error means.

    ``message``: for people, one line. ``broken``: the connection can't be used any more. ``curable``: a repeat
    may work. ``refused``: the server certainly did not apply the call. ``late``: its answer was waited for in vain.
    """

    message: str
    broken: bool
    curable: bool
    refused: bool
    late: bool = False


class _CallError(Exception):
    """One try failed. ``unsent``: the server certainly did not apply it."""

    def __init__(self, error: StoreError, cause: BaseException | None, *, curable: bool, unsent: bool) -> None:
        super().__init__(error)
        self.error = error
        self.cause = cause
        self.curable = curable
        self.unsent = unsent


@final
class Caller(Generic[C]):
    """Makes calls on connections of ``pool``; ``judge`` says what the driver's errors mean
    (None: it is not the driver's).

    ``attempts``: tries in all; ``backoff``: the longest wait before the second one in seconds, doubled each
    time, up to 2 s.
    """

    def __init__(
        self, pool: ConnectionPool[C], judge: Callable[[Exception], Verdict | None], *, attempts: int, backoff: float
    ) -> None:
        self._pool = pool
        self._judge = judge
        self._attempts = attempts
        self._wait = wait_random_exponential(multiplier=backoff, max=_LONGEST_WAIT)

    def read(self, what: str, call: Callable[[C], T]) -> T:
        """The answer of a call that changes nothing."""
        return self._repeated(what, call, [])

    def write(self, what: str, call: Callable[[C], T]) -> T:
        """The answer of a write that may be applied twice, or that destroys the condition it depends on.

        In an error ``in_doubt`` is true if it may have been applied. Of a write on a condition False may come from
        an earlier try that was applied, and so may it without one: the HBase client in the Thrift server repeats
        calls by itself.
        """
        failed: list[_CallError] = []
        try:
            return self._repeated(what, call, failed)
        except StoreError as error:
            raise _doubtful(error, failed) from error.__cause__

    def once(self, what: str, call: Callable[[C], T]) -> T:
        """The answer of a call that is not repeated; ``in_doubt`` is true if it may have been applied, and failed."""
        failed: list[_CallError] = []
        try:
            return self._try(what, call, failed)
        except _CallError as failure:
            raise _doubtful(failure.error, failed) from failure.cause

    def close(self) -> None:
        self._pool.close()

    def _repeated(self, what: str, call: Callable[[C], T], failed: list[_CallError]) -> T:
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

    def _try(self, what: str, call: Callable[[C], T], failed: list[_CallError]) -> T:
        try:
            connection = self._pool.take()
        except StoreError as error:
            # A server that can't be reached may be back soon; a pool that is used up or closed was waited for.
            failure = _CallError(error, error.__cause__, curable=error.__cause__ is not None, unsent=True)
            failed.append(failure)
            raise failure from error
        try:
            answer = call(connection)
        except Exception as error:
            verdict = self._judge(error)
            if verdict is None:
                self._pool.drop(connection)
                raise
            if verdict.late:
                connection.shun()
            (self._pool.drop if verdict.broken else self._pool.give_back)(connection)
            failure = _CallError(
                StoreError(ErrorCode.HBASE_ERROR, f"{what}: {verdict.message}"),
                error,
                curable=verdict.curable,
                unsent=verdict.refused,
            )
            failed.append(failure)
            raise failure from error
        except BaseException:
            self._pool.drop(connection)
            raise
        self._pool.give_back(connection)
        return answer


def _doubtful(error: StoreError, failed: list[_CallError]) -> StoreError:
    unclear = any(not one.unsent for one in failed)
    return StoreError(error.code, error.message, in_doubt=unclear)
