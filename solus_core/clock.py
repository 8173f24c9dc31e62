"""The one clock of an engine: any callable that answers epoch milliseconds, UTC."""

from __future__ import annotations

import time


def system_clock() -> int:
    """``now`` in epoch milliseconds."""
    return time.time_ns() // 1_000_000
