"""Positions in an SQLite file: a row for each that is set."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, final

import numpy as np

from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level
from solus_core.stores import Bools, Probes, StoreStats
from solus_sqlite.context import BUSY_SECONDS, View

# A caller takes its ``now``, then waits for the lock: rows that live by that ``now`` must still be there.
_GRACE_MS: Final = 2_000 * BUSY_SECONDS

_DATA_SET: Final = "SELECT id FROM data_sets WHERE client_id = ? AND farm = ? AND name = ?"
_NEW_DATA_SET: Final = "INSERT INTO data_sets (client_id, farm, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_LIVE: Final = "SELECT count(*) FROM positions WHERE data_set = ? AND expires_at >= ?"
_SET: Final = (
    "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT (data_set, shard, position) "
    "DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)"
)
_SAMPLE: Final = "SELECT expires_at FROM positions WHERE data_set = ? AND expires_at >= ? ORDER BY random() LIMIT 1000"
_RECLAIM: Final = (
    "DELETE FROM positions WHERE (data_set, shard, position) IN "
    "(SELECT data_set, shard, position FROM positions WHERE expires_at < ? ORDER BY expires_at LIMIT ?)"
)


@final
class SqliteDataStore(View):
    """A ``DataStore`` (see there) for one client id. A batch is one transaction: all of it or nothing (R8)."""

    __slots__ = ()

    atomicity = Atomicity.CLUSTER
    layout = ""

    def check_config(self, config: DeDuperConfig) -> None:
        """Rows exist for what is set only, so that any config fits."""

    def absent(self, probes: Probes, now: int) -> Bools:
        with self.open_context().transaction() as connection:
            data_set = self._data_set(connection, probes.deduper)
            answers = [_is_absent(connection, data_set, shard, row, now) for shard, row in _rows(probes)]
        return np.array(answers, np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        with self.open_context().transaction(write=True) as connection:
            data_set = self._data_set(connection, probes.deduper, make=True)
            for shard, row in _rows(probes):
                _set(connection, data_set, shard, row, expires_at)
            _reclaim(connection, now, probes.positions.size)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = np.zeros(len(probes), np.bool_)
        with self.open_context().transaction(write=True) as connection:
            data_set = self._data_set(connection, probes.deduper, make=True)
            for i, (shard, row) in enumerate(_rows(probes)):
                if _is_absent(connection, data_set, shard, row, now):
                    _set(connection, data_set, shard, row, expires_at)
                    answers[i] = True
            _reclaim(connection, now, probes.positions.size)
        return answers

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        with self.open_context().transaction() as connection:
            data_set = self._data_set(connection, deduper)
            (live,) = connection.execute(_LIVE, (data_set, now)).fetchone()
            sample = connection.execute(_SAMPLE, (data_set, now)).fetchall()
        total = deduper.config.shards * deduper.config.bits_per_shard
        return StoreStats(live=live, seen=total, total=total, expiries=tuple(end for (end,) in sample))

    def _data_set(self, connection: sqlite3.Connection, deduper: DeDuper, *, make: bool = False) -> int | None:
        """The number of the de-duper's rows; None, which no row has, if there is no such data set."""
        key = (self.client_id, self.context.farm if deduper.config.level is Level.DC else "", deduper.name)
        if make:
            connection.execute(_NEW_DATA_SET, key)
        found = connection.execute(_DATA_SET, key).fetchone()
        return None if found is None else int(found[0])


def _rows(probes: Probes) -> list[tuple[int, list[int]]]:
    """Shard and positions of each row as plain ints: ``sqlite3`` stores a number of numpy's as bytes."""
    return list(zip(probes.shards.tolist(), probes.positions.tolist(), strict=True))


def _is_absent(connection: sqlite3.Connection, data_set: int | None, shard: int, row: Sequence[int], now: int) -> bool:
    query = f"{_LIVE} AND shard = ? AND position IN ({', '.join('?' * len(row))})"
    (live,) = connection.execute(query, (data_set, now, shard, *row)).fetchone()
    return bool(live < len(set(row)))  # positions can repeat (R3)


def _set(connection: sqlite3.Connection, data_set: int | None, shard: int, row: Sequence[int], expires_at: int) -> None:
    connection.executemany(_SET, [(data_set, shard, position, expires_at) for position in row])


def _reclaim(connection: sqlite3.Connection, now: int, written: int) -> None:
    """Drop expired rows, up to twice as many as were written: so the file stops growing, and no call pays for all."""
    connection.execute(_RECLAIM, (now - _GRACE_MS, 2 * written))
