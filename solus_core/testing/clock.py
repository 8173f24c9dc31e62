"""A clock that tests move by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import final


@final
class FakeClock:
    """Call it for ``now`` in epoch milliseconds; it stands still until moved. Pass it as ``clock=`` to an engine."""

    __slots__ = ("now",)

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, by: int | timedelta) -> int:
        """Move by milliseconds or a timedelta (backwards if negative); answers the new ``now``."""
        self.now += by if isinstance(by, int) else by // timedelta(milliseconds=1)
        return self.now
