"""Positions in memory: the view that one engine has of the shared state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level
from solus_core.stores import Bools, Probes, StoreStats
from solus_memory.context import MemoryContext
from solus_memory.sparse import smallest_bytes
from solus_memory.state import CLOSED, TableKey
from solus_memory.tables import Table


@final
class MemoryDataStore:
    """A ``DataStore`` and ``SingleProbeStore`` (see there) for one client id."""

    __slots__ = ("__weakref__", "_client_id", "_closed", "_context", "_tables")

    atomicity = Atomicity.PROCESS
    layout = ""

    def __init__(self, context: MemoryContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._closed = False
        # By name, with the record that the table was last asked for with: the same record needs no check.
        self._tables: dict[str, tuple[DeDuper, Table]] = {}
        with context.state.lock:
            context.state.check()
            context.state.stores.add(self)

    def check_config(self, config: DeDuperConfig) -> None:
        needed, limit = smallest_bytes(config.shards * config.bits_per_shard), self._context.state.max_bytes
        if limit is not None and needed > limit:
            raise InvalidConfigError(
                "de-duper config", [f"it needs at least {needed:,} bytes, and max_bytes is {limit:,}"]
            )

    def absent(self, probes: Probes, now: int) -> Bools:
        table = self._table(probes.deduper, now)
        try:
            return table.absent(probes.shards, probes.positions, now)
        except MemoryError as error:
            raise _no_memory(in_doubt=False) from error

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        table = self._table(probes.deduper, now)
        try:
            table.add(probes.shards, probes.positions, now, expires_at)
        except MemoryError as error:
            raise _no_memory(in_doubt=True) from error

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        table = self._table(probes.deduper, now)
        try:
            return table.add_if_absent(probes.shards, probes.positions, now, expires_at)
        except MemoryError as error:
            raise _no_memory(in_doubt=True) from error

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        return self._table(deduper, now).absent_one(shard, positions, now)

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        self._table(deduper, now).add_one(shard, positions, now, expires_at)

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        known = self._tables.get(deduper.name)
        table = known[1] if known is not None and known[0] is deduper else self._table(deduper, now)
        return table.add_if_absent_one(shard, positions, now, expires_at)

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        with self._context.state.lock:
            self._check()
            table = self._context.state.tables.get(self._key(deduper))
        total = deduper.config.shards * deduper.config.bits_per_shard
        if table is None:
            return StoreStats(live=0, seen=total, total=total, stored_bytes=0)
        live, seen = table.count(now)
        expiries = table.expiries(now)
        return StoreStats(live=live, seen=seen, total=total, stored_bytes=table.nbytes, expiries=expiries)

    def flush(self) -> None:
        """As :meth:`MemoryContext.flush`."""
        self._check()
        self._context.flush()

    def close(self) -> None:
        self._closed = True
        self.forget()

    def forget(self) -> None:
        """Ask the state again at the next call."""
        self._tables = {}

    def _table(self, deduper: DeDuper, now: int) -> Table:
        known = self._tables.get(deduper.name)
        if known is not None and known[0] is deduper:
            return known[1]
        state = self._context.state
        with state.lock:
            self._check()
            table = state.table(self._key(deduper), deduper.config, now)
            self._tables[deduper.name] = (deduper, table)
        return table

    def _key(self, deduper: DeDuper) -> TableKey:
        farm = self._context.farm if deduper.config.level is Level.DC else None
        return self._client_id, farm, deduper.name

    def _check(self) -> None:
        self._context.state.check()
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.INTERNAL_ERROR, CLOSED)


def _no_memory(*, in_doubt: bool) -> StoreError:
    return StoreError(
        ErrorCode.INTERNAL_ERROR,
        "there is not enough memory to work on this batch; try smaller ones",
        in_doubt=in_doubt,
    )
