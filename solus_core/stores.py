"""What a backend implements: :class:`DataStore`, :class:`MetaStore`; and what hashes: :class:`Hasher`.

A batch of probes is columnar, so that hashing and memory can work vectorised and a remote store can group by
shard. All times are epoch milliseconds, UTC; a store never asks a clock of its own, every call brings ``now``.
All methods may be called by many threads at once (R24). Failures are raised as
:class:`~solus_core.errors.StoreError`, or :class:`~solus_core.errors.StoreBatchError` when some rows of a
batch were done; never answered as True or False (R23).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, final, runtime_checkable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from solus_core.model import Atomicity, DeDuper, DeDuperConfig

Bools = NDArray[np.bool_]


@final
@frozen(eq=False)
class Probes:
    """Where the entities of one batch live: ``n`` rows, each one shard and ``k`` positions in it.

    ``shards``: int64, shape ``(n,)``. ``positions``: int32, shape ``(n, k)``, repeats inside a row allowed and
    compared as a set (R3). Both can hold negative numbers, which are keys like any other (the Java library's
    arithmetic yields one in about 4e9). ``n`` can be 0.
    """

    deduper: DeDuper
    shards: NDArray[np.int64]
    positions: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.shards)

    def rows(self, which: NDArray[np.intp] | slice) -> Probes:
        """The probes of some rows only, in the order given."""
        return Probes(self.deduper, self.shards[which], self.positions[which])


@final
@frozen
class StoreStats:
    """What a store knows about one de-duper's data without reading all of it.

    ``live``: positions set and unexpired, counted and not extrapolated, among ``seen`` positions looked at, of
    ``total`` (shards times bits per shard) in the data set. A store that looks at a part takes whole shards, picked
    at random. ``stored_bytes``: what the data take in this store, or None where it can't tell. ``expiries``: when
    live positions expire (epoch ms, each ``>= now``), at most 1,000 of them picked at random, in any order; empty if
    there are none or the store gives no such sample.
    """

    live: int
    seen: int
    total: int
    stored_bytes: int | None = None
    expiries: tuple[int, ...] = ()


class DataStore(Protocol):
    """Holds positions with expiry times. A position is set while its expiry ``>= now`` (R1)."""

    @property
    def atomicity(self) -> Atomicity:
        """Among whom :meth:`add_if_absent` has one winner; what is declared must hold."""

    @property
    def layout(self) -> str:
        """How positions of a de-duper registered from now on are written; recorded in its metadata."""

    def check_config(self, config: DeDuperConfig) -> None:
        """Raise ``InvalidConfigError`` if this store can't hold such a de-duper. Called before it is registered."""

    def absent(self, probes: Probes, now: int) -> Bools:
        """For each row: is at least one of its positions unset or expired?"""

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        """Set every position to ``max(stored, expires_at)`` (R4). Safe to repeat.

        Without rows it adds nothing; a store that takes no adds from us yet raises then too.
        """

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        """For each row in order: True exactly if it was absent and this call added it (R5).

        A row that answers False is left as it is: its expiry does not move.

        Of rows with the same set of positions only the first can be True (R6). A row whose positions are
        covered only by several other rows of the same batch may be either.
        """

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        """Cheap figures about one de-duper's data."""

    def close(self) -> None:
        """Release what this store opened. Later calls of any method raise ``StoreError``; closing again is fine."""


@runtime_checkable
class SingleProbeStore(Protocol):
    """Optional, beside :class:`DataStore`: the same verbs for one entity, where a batch of one costs more."""

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool: ...

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None: ...

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool: ...


class MetaStore(Protocol):
    """Holds the registered de-dupers of one client id."""

    def create(self, deduper: DeDuper) -> DeDuper:
        """Insert if the name is absent, atomically; answer the record that is stored afterwards."""

    def get(self, name: str) -> DeDuper | None:
        """The stored record, active or not, or None."""

    def set_active(self, name: str, active: bool, now: int) -> None:
        """Mark a stored record active or inactive, with ``now`` as its ``updated_at``.

        A name that is not stored raises ``DeDuperNotFoundError``.
        """

    def active(self) -> Iterable[DeDuper]:
        """All active records, in any order."""

    def close(self) -> None:
        """Release what this store opened. Later calls of any method raise ``StoreError``; closing again is fine."""


class Hasher(Protocol):
    """Turns an entity's bytes into a shard and positions; the same everywhere and for ever."""

    @property
    def name(self) -> str:
        """Recorded with every de-duper (R18). Another algorithm is another name."""

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        """Shard and ``config.hash_functions`` positions of one entity, as plain ints."""

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The same for many, bit for bit: shards ``(n,)`` and positions ``(n, k)``."""
