"""A batch of probes as records of Aerospike, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

import numpy as np

from solus_core.errors import StoreBatchError, StoreError
from solus_core.stores import Probes

RECORDS: Final = 1_000
"""In one call at most."""


@final
class Item:
    """An entity of a batch: its shard, its distinct positions (R3), and the rows that ask for it, in order (R6)."""

    __slots__ = ("doubt", "failure", "positions", "rows", "shard", "turn")

    def __init__(self, shard: int, positions: frozenset[int], row: int) -> None:
        self.shard = shard
        self.positions = positions
        self.rows = [row]
        self.turn = 0
        """Which options to write with, see ``Place``."""
        self.failure: StoreError | None = None
        """Of the last try."""
        self.doubt: StoreError | None = None
        """The failure of the first try that may have been applied."""

    def fail(self, error: StoreError) -> None:
        self.failure = error
        if error.in_doubt and self.doubt is None:
            self.doubt = error


def chunks(probes: Probes) -> Iterator[list[Item]]:
    """The distinct entities in first-seen order, as many as fit into one call at a time."""
    items: dict[tuple[int, frozenset[int]], Item] = {}
    rows = zip(probes.shards.tolist(), probes.positions.tolist(), strict=True)
    for row, (shard, given) in enumerate(rows):
        positions = frozenset(given)
        known = items.get((shard, positions))
        if known is None:
            items[shard, positions] = Item(shard, positions, row)
        else:
            known.rows.append(row)
    found = list(items.values())
    return (found[i : i + RECORDS] for i in range(0, len(found), RECORDS))


@final
class Progress:
    """How far a batch of ``n`` rows has come; see ``StoreBatchError``."""

    def __init__(self, n: int) -> None:
        self.answers = np.zeros(n, np.bool_)
        self.done = np.zeros(n, np.bool_)

    def finish(self, rows: Sequence[int]) -> None:
        """These rows are done; their answer is False, or none."""
        self.done[rows] = True

    def answer(self, rows: Sequence[int], answer: bool) -> None:
        self.answers[rows] = answer
        self.done[rows] = True

    def failed(self, error: StoreError, chunk: list[Item]) -> StoreBatchError:
        """What to raise when ``chunk`` ended in ``error``, with its cause as the cause."""
        doubtful = np.zeros_like(self.done)
        for item in chunk:
            doubtful[item.rows] = item.doubt is not None
        return StoreBatchError(
            error.code, error.message, done=self.done, answers=self.answers, doubtful=doubtful & ~self.done
        )
