"""Closing what was opened: everything, in reverse order, and again what could not be closed the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import final


@final
class Closers:
    """Calls that close things. One that fails stays, so that a later :meth:`close` tries it again."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def add(self, close: Callable[[], None]) -> None:
        """To be called before all that were added earlier."""
        self._calls.append(close)

    def close(self) -> None:
        """Call them all, though some fail; then raise the first failure."""
        failure: Exception | None = None
        for close in reversed(self._calls.copy()):
            try:
                close()
            except Exception as error:  # raised below, when the others have been closed
                failure = failure or error
            else:
                self._calls.remove(close)
        if failure is not None:
            raise failure
