"""How positions are written: blindly, raised after a read, or won against others."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Final, final

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.cells import Held, Place, pairs
from solus_hbase.gateway.base import Gateway
from solus_hbase.layout import DATA_FAMILY, TOKEN_BYTES, qualifier, token_qualifier

_ROUNDS: Final = 100
"""Times that others may be first at one entity's positions before we stop trying."""


@final
class Writer:
    """Writes rows of data tables through ``gateway``."""

    __slots__ = ("_gateway",)

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def put(self, place: Place, rows: Sequence[tuple[int, Collection[int]]], now: int, expires_at: int) -> None:
        """Set the positions of each shard, without a read: for the native layout only."""
        timestamp, ttl = place.stamps(now, expires_at)
        cells = [
            (place.row_key(shard), pairs(shard, dict.fromkeys(positions, expires_at))) for shard, positions in rows
        ]
        try:
            self._gateway.put(place.table, DATA_FAMILY, cells, timestamp, ttl)
        except StoreError as error:
            raise _with_advice(error, place) from error.__cause__

    def win(
        self,
        place: Place,
        shard: int,
        held: Held,
        positions: Collection[int],
        now: int,
        expires_at: int,
        began: float,
    ) -> bool:
        """Add the entity if it is absent; True exactly if this call did (R5). ``held``: what was just read.
        ``began``: when ``now`` was, by the monotonic clock.

        An unset position is the witness: it is checked to be unchanged while all are written, in one atomic
        step. Whoever wins changes every position that could be another's witness, so one alone can win.

        A check that says no may have been repeated, here or by the HBase client inside the Thrift server, after a
        first try that was applied and whose answer was lost. So a random token is written beside the witness: who
        reads it back has won. One token serves all tries, so that none of them can win unnoticed. Once the TTL is
        over it may be overwritten: who was told no, and finds it gone so late, can't know.
        """
        token = os.urandom(TOKEN_BYTES)
        for told_no in range(_ROUNDS):
            unset = held.unset(positions, now)
            if not unset:
                if told_no and (monotonic() - began) * 1_000 > expires_at - now:
                    raise StoreError(
                        ErrorCode.HBASE_ERROR,
                        "whether this call added it or another could not be found out before the TTL was over",
                        in_doubt=True,
                    )
                return False
            if not self._gateway.atomic:
                if place.native:
                    self.put(place, [(shard, positions)], now, expires_at)
                else:
                    self.raise_to(place, shard, held, positions, now, expires_at)
                return True
            mark = (token_qualifier(unset[0]), token)
            if self._write_if_unchanged(place, shard, held, unset[0], positions, now, expires_at, mark):
                return True
            try:
                if self._read_again(place, shard, held, positions, mark[0]) == token:
                    return True
            except StoreError as error:
                raise StoreError(error.code, error.message, in_doubt=True) from error.__cause__
        raise _overtaken()

    def raise_to(
        self, place: Place, shard: int, held: Held, positions: Collection[int], now: int, expires_at: int
    ) -> None:
        """Set each position to ``max(stored, expires_at)`` where that takes a read first (R4).

        Checked is the lowest, which whoever adds the same entity changes too. Through a gateway that isn't atomic,
        each by itself.
        """
        for _ in range(_ROUNDS):
            lower = sorted(held.raised(positions, expires_at))
            if not lower:
                return
            unchanged = all(
                self._write_if_unchanged(place, shard, held, witness, together, now, expires_at)
                for witness, together in (
                    [(held.lowest(lower), positions)] if self._gateway.atomic else [(one, (one,)) for one in lower]
                )
            )
            if unchanged:
                if not self._gateway.atomic:
                    timestamp, ttl = place.stamps(now, expires_at)
                    shard_cell = [(place.row_key(shard), pairs(shard, {}))]
                    self._gateway.put(place.table, DATA_FAMILY, shard_cell, timestamp, ttl)
                return
            self._read_again(place, shard, held, positions)
        raise _overtaken()

    def _write_if_unchanged(
        self,
        place: Place,
        shard: int,
        held: Held,
        witness: int,
        positions: Collection[int],
        now: int,
        expires_at: int,
        mark: tuple[bytes, bytes] | None = None,
    ) -> bool:
        """Write the positions, and the cell ``mark``, in one step if the witness is as it was read."""
        raised = held.raised(positions, expires_at)
        timestamp, ttl = place.stamps(now, expires_at, held.newest(raised))
        written = pairs(shard, raised)
        if not self._gateway.atomic:
            written = written[:1]  # the witness itself
        if mark is not None:
            written = [*written, mark]
        try:
            unchanged = self._gateway.check_and_put(
                place.table,
                DATA_FAMILY,
                place.row_key(shard),
                (qualifier(witness), held.value(witness)),
                written,
                timestamp,
                ttl,
            )
        except StoreError as error:
            raise _with_advice(error, place) from error.__cause__
        if unchanged:
            held.wrote(written, timestamp)
        return unchanged

    def _read_again(
        self, place: Place, shard: int, held: Held, positions: Collection[int], beside: bytes | None = None
    ) -> bytes | None:
        """Take in what the positions hold now; answers the value of the column ``beside`` as of the same read."""
        columns = place.qualifiers(positions) if beside is None else [*place.qualifiers(positions), beside]
        cells = self._gateway.get(place.table, DATA_FAMILY, [(place.row_key(shard), columns)])[0]
        told = None if beside is None else cells.pop(beside, None)
        held.read_again(positions, cells)
        return None if told is None else told[0]


def _overtaken() -> StoreError:
    return StoreError(ErrorCode.HBASE_ERROR, f"others wrote the same positions first, {_ROUNDS} times over; try again")


def _with_advice(error: StoreError, place: Place) -> StoreError:
    if not (place.native and "Timestamp for KV" in error.message):
        return error
    return StoreError(
        error.code,
        f"{error.message} (this cluster refuses timestamps in the future, "
        "hbase.hregion.keyvalue.timestamp.slop.millisecs: register the de-duper with layout=java)",
        in_doubt=error.in_doubt,
    )
