"""Ctrl-C and SIGTERM: finish the chunk in hand, then stop; never stop between writing and marking."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@final
class InterruptedRunError(BaseException):
    """A signal, ``signum``, asked the run to stop.

    No ``Exception``: it is raised wherever a store's driver happens to be, which takes those for a host that is down.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


@final
class Interrupts:
    """While entered, the first signal is only noted, except where the run waits for something from outside.

    A second signal raises ``KeyboardInterrupt`` wherever the run is. A signal that was ignored when the run
    began (``nohup``, a background job) stays ignored.
    """

    def __init__(self) -> None:
        self.signum = 0
        self._waiting = False
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        for signum in _SIGNALS:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _note(self, signum: int, _: FrameType | None) -> None:
        if self.signum:
            raise KeyboardInterrupt
        self.signum = signum
        if self._waiting:
            raise InterruptedRunError(signum)

    def check(self) -> None:
        """Raise :class:`InterruptedRunError` if a signal came."""
        if self.signum:
            raise InterruptedRunError(self.signum)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A stretch that may take for ever and that a signal may break off at any point without harm."""
        # The flag goes up before the check: a signal between the two would otherwise wait as long as we do.
        self._waiting = True
        try:
            self.check()
            yield
        finally:
            self._waiting = False

    def read(self, fd: int, size: int) -> bytes:
        """``os.read`` that a signal breaks off. Bytes lost that way were neither written nor marked."""
        with self.waiting():
            return os.read(fd, size)

    def open(self, path: str) -> int:
        """A descriptor to read ``path``; waits if it is a named pipe without a writer."""
        with self.waiting():
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
