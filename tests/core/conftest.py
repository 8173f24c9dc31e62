"""A backend of a few lines for the engine's own tests, which must run with no backend installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve, field, frozen

from solus_core import Atomicity, DeDuper, DeDuperConfig, SolusEngine
from solus_core.config import Backend, StorageConfig, StorageContext, StoreUrl
from solus_core.hookspecs import hookimpl
from solus_core.plugins import PluginManager
from solus_core.stores import Bools, DataStore, MetaStore, Probes, StoreStats
from solus_core.testing.clock import FakeClock


@frozen
class ToyConfig(StorageConfig):
    """``toy://[user:password@]host/table``"""

    hosts: tuple[tuple[str, int | None], ...] = ()
    table: str = "t"
    size: int = 1
    secret: str = field(default="", repr=False)


class ToyStore(StorageContext):
    """Context, data store and meta-store in one; ``calls`` lists what it was asked, ``fail`` raises instead."""

    atomicity = Atomicity.PROCESS
    layout = "toy"

    def __init__(self) -> None:
        self.cells: dict[tuple[str, int, int], int] = {}
        self.records: dict[str, DeDuper] = {}
        self.calls: list[str] = []
        self.fail: Callable[[str], None] = lambda call: None

    def _called(self, call: str) -> None:
        self.calls.append(call)
        self.fail(call)

    def check_config(self, config: DeDuperConfig) -> None:
        self._called("check_config")

    def absent(self, probes: Probes, now: int) -> Bools:
        self._called("absent")
        return np.array([self._row_absent(probes, row, now) for row in range(len(probes))], np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        self._called("add")
        for row in range(len(probes)):
            self._add_row(probes, row, expires_at)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        self._called("add_if_absent")
        answers = np.zeros(len(probes), np.bool_)
        for row in range(len(probes)):
            answers[row] = self._row_absent(probes, row, now)
            self._add_row(probes, row, expires_at)
        return answers

    def _keys(self, probes: Probes, row: int) -> list[tuple[str, int, int]]:
        return [(probes.deduper.name, int(probes.shards[row]), p) for p in probes.positions[row].tolist()]

    def _row_absent(self, probes: Probes, row: int, now: int) -> bool:
        return any(self.cells.get(key, -1) < now for key in self._keys(probes, row))

    def _add_row(self, probes: Probes, row: int, expires_at: int) -> None:
        for key in self._keys(probes, row):
            self.cells[key] = max(self.cells.get(key, 0), expires_at)

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        self._called("stats")
        return StoreStats(len(self.cells), len(self.cells), 10**9)

    def create(self, deduper: DeDuper) -> DeDuper:
        self._called("create")
        return self.records.setdefault(deduper.name, deduper)

    def get(self, name: str) -> DeDuper | None:
        self._called("get")
        return self.records.get(name)

    def set_active(self, name: str, active: bool, now: int) -> None:
        self._called("set_active")
        self.records[name] = evolve(self.records[name], active=active, updated_at=now)

    def active(self) -> list[DeDuper]:
        self._called("active")
        return [record for record in self.records.values() if record.active]

    def close(self) -> None:
        self._called("close")


class ToyPlugin:
    """Offers ``toy://``; every connection reaches the one ``store``."""

    SOLUS_API_VERSION = 1

    def __init__(self, scheme: str = "toy", config: type[StorageConfig] = ToyConfig) -> None:
        self.store = ToyStore()
        self.configs: list[Any] = []
        self._offer = Backend(scheme, config, self._settings, self._connect, "a toy")

    @staticmethod
    def _settings(url: StoreUrl) -> Mapping[str, object]:
        return {
            **url.options,
            "hosts": url.hosts,
            "table": url.path.strip("/") or "t",
            "secret": url.password or "",
        }

    def _connect(self, config: Any) -> StorageContext:
        self.configs.append(config)
        return self.store

    @hookimpl
    def solus_backends(self) -> list[Backend]:
        return [self._offer]

    @hookimpl
    def solus_open_data_store(self, context: StorageContext) -> DataStore | None:
        return context if isinstance(context, ToyStore) else None

    @hookimpl
    def solus_open_meta_store(self, context: StorageContext) -> MetaStore | None:
        return context if isinstance(context, ToyStore) else None


@pytest.fixture
def toys() -> SimpleNamespace:
    """The toy backend's classes, as importlib mode lets no test import a conftest."""
    return SimpleNamespace(Config=ToyConfig, Store=ToyStore, Plugin=ToyPlugin)


@pytest.fixture
def toy() -> ToyPlugin:
    return ToyPlugin()


@pytest.fixture
def plugins(toy: ToyPlugin) -> PluginManager:
    manager = PluginManager()
    assert manager.register(toy, "toy").state == "ok"
    return manager


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(plugins: PluginManager, clock: FakeClock) -> Iterator[SolusEngine]:
    with SolusEngine.open("toy://h", client_id="c", clock=clock, plugins=plugins) as opened:
        yield opened
