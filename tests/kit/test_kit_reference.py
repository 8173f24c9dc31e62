"""The simplest right stores pass the whole kit: one in memory, one in a file that processes share."""

from __future__ import annotations

import fcntl
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from solus_core.errors import DeDuperNotFoundError, ErrorCode, StoreError
from solus_core.hashing import MurmurDoubleHasher, MurmurMd5Hasher
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level
from solus_core.stores import Bools, DataStore, Hasher, MetaStore, Probes, StoreStats
from solus_core.testing import DataStoreContract, HasherContract, MetaStoreContract


class MemoryState:
    """What all views share: a dict, held by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._data: dict[Any, Any] = {}

    @contextmanager
    def held(self) -> Iterator[dict[Any, Any]]:
        with self._lock:
            yield self._data


class FileState:
    """The same in a file, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    @contextmanager
    def held(self) -> Iterator[dict[Any, Any]]:
        with self._path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            data = pickle.load(file) if self._path.stat().st_size else {}
            yield data
            file.seek(0)
            pickle.dump(data, file)
            file.truncate()
            file.flush()


class ReferenceStore:
    """A right data store of one dict ``(farm, client id, name, shard, position) -> expiry``."""

    atomicity = Atomicity.PROCESS
    layout = ""

    def __init__(self, state: MemoryState | FileState, client_id: str, farm: str) -> None:
        self.state, self.client_id, self.farm = state, client_id, farm
        self.closed = False

    @contextmanager
    def held(self) -> Iterator[dict[Any, Any]]:
        if self.closed:
            raise StoreError(ErrorCode.INTERNAL_ERROR, "the store is closed")
        with self.state.held() as data:
            yield data

    # One step each, for the mutants to get wrong.

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        farm = self.farm if deduper.config.level is Level.DC else None
        return farm, self.client_id, deduper.name, shard, position

    def is_set(self, expiry: int | None, now: int) -> bool:
        return expiry is not None and expiry >= now

    def merged(self, stored: int | None, expires_at: int) -> int:
        return expires_at if stored is None else max(stored, expires_at)

    def row_absent(self, data: dict[Any, Any], keys: Sequence[Any], now: int) -> bool:
        return not all(self.is_set(data.get(key), now) for key in keys)

    def row_add(self, data: dict[Any, Any], keys: Sequence[Any], expires_at: int) -> None:
        for key in keys:
            data[key] = self.merged(data.get(key), expires_at)

    def rows(self, probes: Probes) -> list[list[Any]]:
        return [
            [self.key(probes.deduper, shard, position) for position in positions]
            for shard, positions in zip(probes.shards.tolist(), probes.positions.tolist(), strict=True)
        ]

    def check_config(self, config: DeDuperConfig) -> None:
        del config

    def absent(self, probes: Probes, now: int) -> Bools:
        with self.held() as data:
            return np.array([self.row_absent(data, row, now) for row in self.rows(probes)], np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        del now
        with self.held() as data:
            for row in self.rows(probes):
                self.row_add(data, row, expires_at)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = np.zeros(len(probes), np.bool_)
        with self.held() as data:
            for i, row in enumerate(self.rows(probes)):
                answers[i] = self.row_absent(data, row, now)
                if answers[i]:
                    self.row_add(data, row, expires_at)
        return answers

    def _one(self, deduper: DeDuper, shard: int, positions: Sequence[int]) -> Probes:
        return Probes(deduper, np.array([shard], np.int64), np.array([positions], np.int32))

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        return bool(self.absent(self._one(deduper, shard, positions), now)[0])

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        self.add(self._one(deduper, shard, positions), now, expires_at)

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        return bool(self.add_if_absent(self._one(deduper, shard, positions), now, expires_at)[0])

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        total = deduper.config.shards * deduper.config.bits_per_shard
        owner = self.key(deduper, 0, 0)[:3]
        with self.held() as data:
            live = [expiry for key, expiry in data.items() if key[:3] == owner and self.is_set(expiry, now)]
        return StoreStats(live=len(live), seen=total, total=total, expiries=tuple(live[:1_000]))

    def close(self) -> None:
        self.closed = True


class SharedReferenceStore(ReferenceStore):
    """The same over a file that processes share."""

    atomicity = Atomicity.CLUSTER


class ReferenceMetaStore:
    """A right meta-store of one dict ``(client id, name) -> record``."""

    def __init__(self, state: MemoryState | FileState, client_id: str) -> None:
        self.state, self.client_id = state, client_id
        self.closed = False

    @contextmanager
    def held(self) -> Iterator[dict[Any, Any]]:
        if self.closed:
            raise StoreError(ErrorCode.INTERNAL_ERROR, "the store is closed")
        with self.state.held() as data:
            yield data

    def key(self, name: str) -> Any:
        return self.client_id, name

    def create(self, deduper: DeDuper) -> DeDuper:
        with self.held() as data:
            winner: DeDuper = data.setdefault(self.key(deduper.name), deduper)
            return winner

    def get(self, name: str) -> DeDuper | None:
        with self.held() as data:
            return data.get(self.key(name))

    def set_active(self, name: str, active: bool, now: int) -> None:
        with self.held() as data:
            if self.key(name) not in data:
                raise DeDuperNotFoundError(name, "is not registered")
            data[self.key(name)] = attrs.evolve(data[self.key(name)], active=active, updated_at=now)

    def active(self) -> Iterable[DeDuper]:
        with self.held() as data:
            return [record for key, record in data.items() if key[0] == self.client_id and record.active]

    def close(self) -> None:
        self.closed = True


class TestReferenceStore(DataStoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[str, str], DataStore]:
        state = MemoryState()
        return lambda client_id, farm: ReferenceStore(state, client_id, farm)


class TestSharedReferenceStore(DataStoreContract):
    examples, steps, big_batch = 5, 10, 2_000  # each call reads and writes the whole file

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[str, str], DataStore]:
        state = FileState(tmp_path / "state")
        return lambda client_id, farm: SharedReferenceStore(state, client_id, farm)


class TestReferenceMetaStore(MetaStoreContract):
    @pytest.fixture
    def open_store(self) -> Callable[[str], MetaStore]:
        state = MemoryState()
        return lambda client_id: ReferenceMetaStore(state, client_id)


class TestSharedReferenceMetaStore(MetaStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[str], MetaStore]:
        state = FileState(tmp_path / "state")
        return lambda client_id: ReferenceMetaStore(state, client_id)


class TestMurmurMd5(HasherContract):
    @pytest.fixture
    def hasher(self) -> Hasher:
        return MurmurMd5Hasher()


class TestMurmurDouble(HasherContract):
    @pytest.fixture
    def hasher(self) -> Hasher:
        return MurmurDoubleHasher()
