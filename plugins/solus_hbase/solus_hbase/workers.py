"""Threads that make the calls of one batch in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import final


@final
class Workers:
    """Up to ``size`` threads, started when they are first needed, and anew in a forked child."""

    __slots__ = ("_executor", "_lock", "_pid", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def run(self, work: Sequence[Callable[[], None]]) -> None:
        """Do all of it; after a failure nothing further is begun, and the first failure is raised at the end.

        So is an interrupt (Ctrl-C): it waits until the threads are through with what they have begun. A second one
        does not wait.
        """
        if not work:
            return
        if len(work) == 1:
            work[0]()
            return
        failures: list[BaseException] = []
        rest = iter(work)
        taking = threading.Lock()

        def take_turns() -> None:
            while not failures:
                with taking:
                    one = next(rest, None)
                if one is None:
                    return
                try:
                    one()
                except BaseException as error:  # raised below, in the caller's thread
                    failures.append(error)

        helpers = min(self._size, len(work)) - 1
        started: list[Future[None]] = []
        try:
            # Where no thread can be started any more, as when the interpreter ends, the caller does it all.
            with suppress(RuntimeError):
                started.extend(self._threads().submit(take_turns) for _ in range(helpers))
            take_turns()
            _join(started)
        except BaseException as interrupt:
            failures.append(interrupt)
            _join(started)
            raise
        if failures:
            # An interrupt is not to be swallowed by what failed before it.
            raise next((one for one in failures if not isinstance(one, Exception)), failures[0])

    def close(self) -> None:
        """Let the threads end."""
        executor, self._executor = self._executor, None
        if executor is not None and self._pid == os.getpid():
            executor.shutdown(wait=False)

    def _threads(self) -> ThreadPoolExecutor:
        if self._pid != os.getpid():
            # Forked: the threads are the parent's, and the lock may be held by one of them.
            self._lock = threading.Lock()
            self._executor = None
            self._pid = os.getpid()
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._size, thread_name_prefix="solus-hbase")
            return self._executor


def _join(started: Sequence[Future[None]]) -> None:
    """Wait for those that run; one that other batches keep from starting has nothing left to do."""
    for one in started:
        if not one.cancel():
            one.result()
