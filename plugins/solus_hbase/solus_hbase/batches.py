"""A batch of probes as rows of HBase, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, final

import numpy as np

from solus_core.errors import ErrorCode, SolusError, StoreBatchError, StoreError
from solus_core.stores import Probes

ROWS: Final = 2_000
"""Rows in one call at most."""

BYTES: Final = 1_000_000
"""Bytes in one call at most, roughly: the framed transport of HBase's Thrift server takes 2 MiB."""

_CELL_BYTES: Final = 50
"""Of one cell on the wire: qualifier, value, timestamp, tags of the protocol."""

_SHARD_POSITIONS: Final = 10_000
"""Of one shard in one call at most."""

Entities = list[tuple[int, frozenset[int]]]
"""Of one shard, in order: row in the batch, and set of positions (R3)."""


Part = tuple[int, Entities, frozenset[int]]
"""Of one row of HBase: shard, entities, and all positions of these."""


def by_shard(probes: Probes) -> dict[int, Entities]:
    """The entities of each shard, shards in first-seen order."""
    groups: dict[int, Entities] = {}
    rows = zip(probes.shards.tolist(), probes.positions.tolist(), strict=True)
    for index, (shard, positions) in enumerate(rows):
        groups.setdefault(shard, []).append((index, frozenset(positions)))
    return groups


def positions_of(entities: Entities) -> frozenset[int]:
    """All positions of a shard's entities."""
    if len(entities) == 1:
        return entities[0][1]
    return frozenset().union(*(positions for _, positions in entities))


def chunks(groups: dict[int, Entities]) -> Iterator[list[Part]]:
    """Parts that fit into one call. A shard too large for one comes in several, never two in one chunk."""
    chunk: list[Part] = []
    size = 0
    for shard, entities in groups.items():
        for number, part in enumerate(_slices(entities)):
            positions = positions_of(part)
            needs = (len(positions) + 2) * _CELL_BYTES
            if chunk and (number or len(chunk) == ROWS or size + needs > BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append((shard, part, positions))
            size += needs
    if chunk:
        yield chunk


def _slices(entities: Entities) -> Iterator[Entities]:
    most = max(1, _SHARD_POSITIONS // max(1, len(entities[0][1])))
    return (entities[i : i + most] for i in range(0, len(entities), most))


@final
class Progress:
    """How far a batch of ``n`` entities has come; see ``StoreBatchError``. Threads may fill in different rows."""

    def __init__(self, n: int) -> None:
        self.answers = np.zeros(n, np.bool_)
        self.done = np.zeros(n, np.bool_)
        self.doubtful = np.zeros(n, np.bool_)

    def answer(self, row: int, answer: bool) -> None:
        self.answers[row] = answer
        self.done[row] = True

    def finish(self, rows: Sequence[int]) -> None:
        """These rows are done, without an answer."""
        self.done[rows] = True

    @contextmanager
    def writing(self, rows: Sequence[int]) -> Iterator[None]:
        """Around a write of these rows: if it fails they may be in doubt."""
        try:
            yield
        except Exception as error:
            # What is no error of Solus tells nothing.
            self.doubtful[rows] = error.in_doubt if isinstance(error, SolusError) else True
            raise

    @contextmanager
    def told(self) -> Iterator[None]:
        """Around all work: whatever fails is raised as a ``StoreBatchError``, so that what was done is told (R8)."""
        try:
            yield
        except Exception as error:
            if isinstance(error, SolusError):
                failure, cause = error, error.__cause__
            else:
                failure, cause = (
                    StoreError(ErrorCode.INTERNAL_ERROR, f"the store failed unexpectedly: {error!r}"),
                    error,
                )
            raise StoreBatchError(
                failure.code,
                failure.message,
                done=self.done,
                answers=self.answers,
                doubtful=self.doubtful & ~self.done,
            ) from cause
