"""Threads and forks (R5, R24)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from solus_core.errors import StoreError
from solus_core.model import DeDuper
from solus_core.stores import Probes
from solus_core.testing import race
from solus_core.testing.lab import race_processes
from solus_memory import MemoryConfig, MemoryDataStore, MemoryMetaStore, connect

NOW = 1_700_000_000_000
Make = Callable[..., DeDuper]


@pytest.mark.parametrize("batch", [False, True])
def test_one_winner_among_threads_r5(deduper: Make, batch: bool) -> None:
    """Row 9: two deliveries passed the check and both acted."""
    store, of = MemoryDataStore(connect(MemoryConfig()), "shop"), deduper()
    rng = np.random.default_rng(1)
    entities = 300
    shards, positions = rng.integers(0, 10**6, entities), rng.integers(0, 1_000, (entities, 7), dtype=np.int32)
    wins = [0] * entities
    rows = list(zip(shards.tolist(), positions.tolist(), strict=True))

    def work() -> None:
        if batch:
            for start in range(0, entities, 10):
                part = slice(start, start + 10)
                answers = store.add_if_absent(Probes(of, shards[part], positions[part]), NOW, NOW + 10)
                for i in np.flatnonzero(answers).tolist():
                    with lock:
                        wins[start + i] += 1
            return
        for i, row in enumerate(rows):
            if store.add_if_absent_one(of, *row, NOW, NOW + 10):
                with lock:
                    wins[i] += 1

    lock = threading.Lock()
    race(*[work] * 8)
    assert wins == [1] * entities


def test_one_record_wins_among_racing_registrations_r13(deduper: Make) -> None:
    meta = MemoryMetaStore(connect(MemoryConfig()), "shop")
    won = race(*[lambda: meta.create(deduper())] * 8)
    assert len({id(record) for record in won}) == 1


def test_growth_under_threads_loses_nothing(deduper: Make) -> None:
    store, of = MemoryDataStore(connect(MemoryConfig()), "shop"), deduper()

    def rows(number: int) -> Probes:
        rng = np.random.default_rng(number)
        return Probes(of, rng.integers(0, 10**6, 3_000), rng.integers(0, 1_000, (3_000, 7), dtype=np.int32))

    def work(number: int) -> None:
        probes = rows(number)
        for start in range(0, 3_000, 100):
            store.add(probes.rows(slice(start, start + 100)), NOW, NOW + 10)

    race(*(partial(work, number) for number in range(6)))
    assert not any(store.absent(rows(number), NOW).any() for number in range(6))


def test_a_forked_child_has_a_copy_of_its_own(deduper: Make) -> None:
    context = connect(MemoryConfig(name="test-fork"))
    store, of = MemoryDataStore(context, "shop"), deduper()
    store.add_one(of, 1, [1, 2], NOW, NOW + 10)

    def work(_: object) -> None:
        assert not store.absent_one(of, 1, [1, 2], NOW)
        assert store.add_if_absent_one(of, 2, [1, 2], NOW, NOW + 10)
        same = MemoryDataStore(connect(MemoryConfig(name="test-fork")), "shop")
        assert not same.absent_one(of, 2, [1, 2], NOW)

    race_processes([work])
    assert store.absent_one(of, 2, [1, 2], NOW)


def test_a_fork_while_threads_write_gives_whole_tables_and_free_locks(deduper: Make) -> None:
    context = connect(MemoryConfig())
    store, of, stop = MemoryDataStore(context, "shop"), deduper(), threading.Event()
    rng = np.random.default_rng(1)
    first = Probes(of, rng.integers(0, 10**6, 20_000), rng.integers(0, 1_000, (20_000, 7), dtype=np.int32))
    store.add(first, NOW, NOW + 10)

    def write() -> None:
        mine = np.random.default_rng(threading.get_ident() % 1_000)
        while not stop.is_set():
            more = Probes(of, mine.integers(0, 10**6, 500), mine.integers(0, 1_000, (500, 7), dtype=np.int32))
            store.add_if_absent(more, NOW, NOW + 10)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:

        def work(_: object) -> None:
            assert not store.absent(first, NOW).any()
            assert store.add_if_absent_one(of, 1, [1, 2], NOW, NOW + 10)

        for _ in range(10):
            race_processes([work])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_table_that_could_not_be_waited_for_is_refused_in_the_child(
    deduper: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solus_memory.state._FORK_WAIT", 0.01)
    context = connect(MemoryConfig())
    store, busy, idle = MemoryDataStore(context, "shop"), deduper("busy"), deduper("idle")
    for of in (busy, idle):
        store.add_one(of, 1, [1, 2], NOW, NOW + 10)
    table = context.state.tables["shop", None, "busy"]

    def work(_: object) -> None:
        assert not store.absent_one(idle, 1, [1, 2], NOW)
        with pytest.raises(StoreError, match="may be torn"):
            store.add_if_absent_one(busy, 1, [1, 2], NOW, NOW + 10)

    assert table.lock.acquire(timeout=1)
    try:
        race_processes([work])
    finally:
        table.lock.release()
    assert not store.absent_one(busy, 1, [1, 2], NOW)


def test_a_child_must_not_use_or_write_its_parents_file(deduper: Make, tmp_path: Path) -> None:
    path = tmp_path / "state"
    context = connect(MemoryConfig(path=str(path)))
    store, of = MemoryDataStore(context, "shop"), deduper()
    store.add_one(of, 1, [1, 2], NOW, NOW + 10)

    def work(_: object) -> None:
        for verb in (
            lambda: store.add_if_absent_one(of, 1, [1, 2], NOW, NOW + 10),
            lambda: store.absent_one(of, 1, [1, 2], NOW),
            context.flush,
            lambda: MemoryDataStore(context, "shop"),
            lambda: MemoryMetaStore(context, "shop").get("orders"),
        ):
            with pytest.raises(StoreError, match="after the fork"):
                verb()
        with pytest.raises(StoreError, match=f"pid {os.getppid()}"):
            connect(MemoryConfig(path=str(path)))
        context.close()

    race_processes([work])
    assert not path.exists()
    context.close()
    assert path.exists()
    connect(MemoryConfig(path=str(path))).close()
