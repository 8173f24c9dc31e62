"""Threads that make the calls of one batch in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
        """Do all of it; after a failure nothing further is begun, and the first failure is raised at the end."""
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
        started = [self._threads().submit(take_turns) for _ in range(helpers)]
        take_turns()
        for one in started:
            # One that other batches keep from starting has nothing left to do.
            if not one.cancel():
                one.result()
        if failures:
            raise failures[0]

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
