"""Threads and processes that race: one winner, no lost update, nothing ever reported absent by mistake."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from solus_core.model import Atomicity, DeDuper
from solus_core.stores import Bools, DataStore, Probes, SingleProbeStore
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.lab import Lab, OpenStore, craft, not_one_winner, race, race_processes, singles, spread


class RacesContract(DataStoreCase):
    """Part of :class:`~solus_core.testing.DataStoreContract`."""

    def test_one_winner_of_one_entity(self, store: DataStore, lab: Lab) -> None:
        """D60 (R5): of many threads that add one absent entity, in a batch of one, exactly one gets True."""
        self._needs(store, Atomicity.PROCESS)
        for i in range(20):
            probes = craft(lab.deduper(store), (i, (1, 2, 3, 2)))
            answers = race(*[partial(store.add_if_absent, probes, lab.now, lab.now + 1_000)] * self.racers)
            assert not_one_winner(answers) == {}, f"round {i}"

    def test_one_winner_of_each_of_many(self, store: DataStore, lab: Lab) -> None:
        """D61 (R5): batches of the same 200 entities, each thread in an order of its own: one winner each."""
        self._needs(store, Atomicity.PROCESS)
        for i in range(3):
            probes = spread(lab.deduper(store), 200, seed=i)
            answers = race(*(partial(self._shuffled, store, probes, lab.now, j) for j in range(self.racers)))
            assert not_one_winner(answers) == {}, f"round {i}"

    def test_one_winner_after_expiry(self, store: DataStore, lab: Lab) -> None:
        """D62 (R5): an entity whose positions are partly live and partly expired has one winner as well."""
        self._needs(store, Atomicity.PROCESS)
        deduper = lab.deduper(store)
        rows = [(i, (1, 2, 3, 4)) for i in range(100)]
        store.add(craft(deduper, *((i, (2,)) for i in range(100))), lab.now, lab.now + 90_000)
        store.add(craft(deduper, *((i, (1, 3)) for i in range(100))), lab.now, lab.now + 10)
        probes, now = craft(deduper, *rows), lab.now + 11
        answers = race(*(partial(self._shuffled, store, probes, now, j) for j in range(self.racers)))
        assert not_one_winner(answers) == {}

    def test_one_winner_of_single_calls(self, store: DataStore, lab: Lab) -> None:
        """D69 (R5): threads that make single calls for the same entities, in the same order, have one winner each."""
        self._needs(store, Atomicity.PROCESS)
        single = self._single(store)
        for i in range(5):
            probes = spread(lab.deduper(store), 30)
            answers = race(*[partial(singles, single, "add_if_absent", probes, lab.now, lab.now + 1_000)] * self.racers)
            assert not_one_winner(answers) == {}, f"round {i}"

    def test_single_against_batch(self, store: DataStore, lab: Lab) -> None:
        """D63 (R5): single calls and small batches, in the same order, have one winner each as well."""
        self._needs(store, Atomicity.PROCESS)
        single = self._single(store)

        for i in range(12):
            probes = spread(lab.deduper(store), 30)

            def batch_later(probes: Probes = probes, wait: int = i) -> Bools:
                # Singles begin later than a batch, which has all rows at once: so that they meet, it waits for some.
                for _ in range(10_000):
                    if not store.absent(probes.rows(slice(2 * wait, 2 * wait + 1)), lab.now)[0]:
                        break
                return store.add_if_absent(probes, lab.now, lab.now + 1_000)

            one_by_one = partial(singles, single, "add_if_absent", probes, lab.now, lab.now + 1_000)
            works: list[Callable[[], Any]] = [one_by_one, batch_later]
            answers = race(*works * (self.racers // 2))
            assert not_one_winner(answers) == {}, f"round {i}"

    def test_one_winner_over_two_views(self, store: DataStore, lab: Lab) -> None:
        """D64 (R5): threads that use two views of one state have one winner for each entity."""
        self._needs(store, Atomicity.PROCESS)
        views = (store, lab.open())
        for i in range(3):
            probes = spread(lab.deduper(store), 200, seed=i)
            answers = race(*(partial(self._shuffled, views[j % 2], probes, lab.now, j) for j in range(self.racers)))
            assert not_one_winner(answers) == {}, f"round {i}"

    def test_one_winner_over_processes(self, store: DataStore, lab: Lab, open_store: OpenStore) -> None:
        """D65 (R5, R24): processes, each with a view of its own, have one winner for each entity."""
        self._needs(store, Atomicity.CLUSTER)
        deduper = lab.deduper(store)
        probes = spread(deduper, 100)
        # Far above what one client could take by being first: all are at work at the same time.
        batches = [probes.rows(slice(i, i + 5)) for i in range(0, 100, 5)]

        def work(ready: Callable[[], None]) -> Bools:
            view = open_store(lab.client_id, "dc1")
            ready()
            answers = [view.add_if_absent(batch, lab.now, lab.now + 1_000) for batch in batches]
            view.close()
            return np.concatenate(answers)

        answers = race_processes([work] * 4)
        assert not_one_winner(answers) == {}
        assert not store.absent(probes, lab.now).any()

    def test_adds_that_race_keep_the_longest(self, store: DataStore, lab: Lab) -> None:
        """D66 (R2, R4): of adds with different TTLs that race, the longest decides: no update is lost."""
        ttls = np.random.default_rng(4).permutation(self.racers) + 1
        longest = self.racers * 1_000

        def adds(probes: Probes, ttl: int) -> None:
            for part in range(0, 100, 10):
                store.add(probes.rows(slice(part, part + 10)), lab.now, lab.now + ttl * 1_000)

        for i in range(5):
            probes = spread(lab.deduper(store), 100)
            race(*(partial(adds, probes, int(ttl)) for ttl in ttls))
            lost = np.flatnonzero(store.absent(probes, lab.now + longest)).tolist()
            assert lost == [], f"round {i}: the longest TTL of these rows was lost"
            assert store.absent(probes, lab.now + longest + 1).all()

    def test_never_absent_once_added(self, store: DataStore, lab: Lab) -> None:
        """D67 (R2): while writers fill the store, readers find everything whose add has returned."""
        deduper = lab.deduper(store)
        parts = [spread(deduper, 50, first=50 * i) for i in range(60)]
        added = [0, 0]
        ended: list[int] = []

        def write(writer: int) -> None:
            try:
                for i in range(writer, len(parts), 2):
                    if i % 4 < 2:
                        store.add(parts[i], lab.now, lab.now + 1_000)
                    else:
                        assert store.add_if_absent(parts[i], lab.now, lab.now + 1_000).all()
                    added[writer] = i + 1
            finally:
                ended.append(writer)

        def read() -> None:
            while len(ended) < 2:
                for writer in (0, 1):
                    for i in range(writer, added[writer], 2)[-5:]:
                        assert not store.absent(parts[i], lab.now).any(), f"batch {i} was added and is absent"

        race(partial(write, 0), partial(write, 1), read, read)
        assert not any(store.absent(part, lab.now).any() for part in parts)

    def test_dedupers_are_made_once(self, store: DataStore, lab: Lab) -> None:
        """D68 (R2, R5): threads that are the first ever to use a de-duper share one set of data."""
        dedupers = [lab.deduper(store) for _ in range(10)]

        def first_use(which: int) -> list[bool]:
            rows = [craft(deduper, (which, (1, 2, 3))) for deduper in dedupers]
            return [bool(store.add_if_absent(row, lab.now, lab.now + 1_000)[0]) for row in rows]

        answers = race(*(partial(first_use, i) for i in range(self.racers)))
        assert all(all(answer) for answer in answers)
        for deduper in dedupers:
            assert not store.absent(self._one_each(deduper), lab.now).any()

    def _one_each(self, deduper: DeDuper) -> Probes:
        return craft(deduper, *((i, (1, 2, 3)) for i in range(self.racers)))

    @staticmethod
    def _shuffled(store: DataStore, probes: Probes, now: int, seed: int) -> Bools:
        order = np.random.default_rng(seed).permutation(len(probes))
        answers = np.zeros(len(probes), np.bool_)
        for part in np.array_split(order, 4):
            answers[part] = store.add_if_absent(probes.rows(part), now, now + 1_000)
        return answers

    @staticmethod
    def _single(store: DataStore) -> SingleProbeStore:
        if not isinstance(store, SingleProbeStore):
            pytest.skip("the store has no single verbs")
        return store

    @staticmethod
    def _needs(store: DataStore, level: Atomicity) -> None:
        if store.atomicity < level:
            pytest.skip(f"the store declares Atomicity.{store.atomicity.name}")
