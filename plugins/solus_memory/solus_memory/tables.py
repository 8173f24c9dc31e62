"""The small interface behind which positions are held, so that a compiled table can replace the numpy one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from solus_core.model import DeDuperConfig
from solus_core.stores import Bools

Reserve = Callable[[int, int], None]
"""``reserve(needed, held)``: raises ``StoreError`` unless ``needed`` bytes fit beside all that is held already;
``held`` of those the table gives back afterwards, for the message."""


Read = Callable[[memoryview], None]
"""Fills the buffer with the next bytes of a payload."""


@frozen
class Dump:
    """A table's live content for a state file, valid while the table stays locked.

    ``header``: plain JSON values. ``chunks``: the payload in order; ``size`` bytes altogether.
    """

    header: dict[str, Any]
    size: int
    chunks: Iterator[memoryview]


class Table(Protocol):
    """The positions of one data set with their expiry times; the rules are those of ``DataStore``.

    All verbs may be called by many threads at once. ``shards``: int64 ``(n,)``, ``positions``: int32 ``(n, k)``.
    """

    config: DeDuperConfig
    lock: threading.Lock
    """Held while a verb runs: who has it, keeps all verbs from beginning."""
    changed: bool
    """Written since it was last set to False."""

    @property
    def nbytes(self) -> int: ...

    def absent(self, shards: NDArray[np.int64], positions: NDArray[np.int32], now: int) -> Bools: ...

    def add(self, shards: NDArray[np.int64], positions: NDArray[np.int32], now: int, expires_at: int) -> None: ...

    def add_if_absent(
        self, shards: NDArray[np.int64], positions: NDArray[np.int32], now: int, expires_at: int
    ) -> Bools: ...

    def absent_one(self, shard: int, positions: Sequence[int], now: int) -> bool: ...

    def add_one(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None: ...

    def add_if_absent_one(self, shard: int, positions: Sequence[int], now: int, expires_at: int) -> bool: ...

    def count(self, now: int) -> tuple[int, int]:
        """``(live, seen)``: unexpired positions among those looked at, a sample if the table is large."""

    def expiries(self, now: int) -> tuple[int, ...]:
        """When live positions expire, at most 1,000 of them, picked at random."""

    def freeze(self, why: str | None) -> None:
        """From now on every verb raises ``StoreError`` with ``why``; None ends that."""

    def replace_lock(self, why: str) -> None:
        """In a forked child, where nobody will ever release the old lock: a new one, and :meth:`freeze`."""

    def dump(self) -> Dump:
        """What a file has to hold. To be called, and its chunks used up, while the lock is held."""
