"""Batches: order, repeats inside one batch, what goes in and out, and agreement with the single verbs."""

from __future__ import annotations

import numpy as np
import pytest

from solus_core.stores import DataStore, Probes, SingleProbeStore
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.lab import Lab, craft, singles, spread
from solus_core.testing.machine import check_against_model


class BatchesContract(DataStoreCase):
    """Part of :class:`~solus_core.testing.DataStoreContract`."""

    def test_empty_batch(self, store: DataStore, lab: Lab) -> None:
        """D30 (R7): an empty batch is answered by an empty array."""
        nothing = craft(lab.deduper(store))
        store.add(nothing, lab.now, lab.now + 1_000)
        for answers in (store.absent(nothing, lab.now), store.add_if_absent(nothing, lab.now, lab.now + 1_000)):
            assert answers.shape == (0,)
            assert answers.dtype == np.bool_

    @pytest.mark.parametrize("n", [1, 2, 257])
    def test_shape_of_answers(self, store: DataStore, lab: Lab, n: int) -> None:
        """D31 (R6): answers are one ``numpy.bool_`` for each row."""
        probes = spread(lab.deduper(store), n)
        for answers in (store.add_if_absent(probes, lab.now, lab.now + 1_000), store.absent(probes, lab.now)):
            assert isinstance(answers, np.ndarray)
            assert answers.dtype == np.bool_
            assert answers.shape == (n,)

    def test_large_batch_in_row_order(self, store: DataStore, lab: Lab) -> None:
        """D32 (R6): each answer of a large batch, over many shards in no order, is that of its own row."""
        deduper = lab.deduper(store)
        probes = spread(deduper, self.big_batch)
        known = np.random.default_rng(2).random(self.big_batch) < 0.3
        store.add(probes.rows(np.flatnonzero(known)), lab.now, lab.now + 1_000)
        assert np.array_equal(store.absent(probes, lab.now), ~known)
        assert np.array_equal(store.add_if_absent(probes, lab.now, lab.now + 1_000), ~known)
        assert not store.absent(probes, lab.now + 1_000).any()
        assert not store.add_if_absent(probes, lab.now + 1_000, lab.now + 2_000).any()

    def test_repeats_inside_a_batch(self, store: DataStore, lab: Lab) -> None:
        """D33 (R6): of rows with the same set of positions, in any order and with repeats, the first is True."""
        deduper = lab.deduper(store)
        rows = [(5, (1, 2, 3)), (6, (1, 2, 3)), (5, (3, 2, 1)), (5, (1, 2, 3)), (5, (1, 1, 2, 3)), (-5, (1, 2, 3))]
        answers = store.add_if_absent(craft(deduper, *rows), lab.now, lab.now + 1_000)
        assert answers.tolist() == [True, True, False, False, False, True]
        assert not store.absent(craft(deduper, *rows), lab.now).any()

    def test_many_repeats_inside_a_batch(self, store: DataStore, lab: Lab) -> None:
        """D34 (R6): where each of 500 entities comes four times, mixed, exactly the first of each is True."""
        deduper = lab.deduper(store)
        order = np.random.default_rng(3).permutation(np.repeat(np.arange(500), 4))
        answers = store.add_if_absent(spread(deduper, 500).rows(order), lab.now, lab.now + 1_000)
        first = np.zeros(2_000, np.bool_)
        first[np.unique(order, return_index=True)[1]] = True
        assert np.array_equal(answers, first)

    def test_repeats_of_a_known_entity(self, store: DataStore, lab: Lab) -> None:
        """D35 (R6): rows that were present before the batch are all False; an expired one counts as new, once."""
        deduper = lab.deduper(store)
        live, gone = (5, (1, 2, 3)), (5, (4, 5, 6))
        store.add(craft(deduper, gone), lab.now, lab.now + 10)
        store.add(craft(deduper, live), lab.now, lab.now + 1_000)
        answers = store.add_if_absent(craft(deduper, live, gone, live, gone), lab.now + 11, lab.now + 2_000)
        assert answers.tolist() == [False, True, False, False]

    def test_overlapping_rows(self, store: DataStore, lab: Lab) -> None:
        """D36 (R5, R6): rows of a batch that share some positions, but not all, are all new."""
        deduper = lab.deduper(store)
        rows = [(5, (i, i + 1, i + 2)) for i in range(50)]
        assert store.add_if_absent(craft(deduper, *rows), lab.now, lab.now + 1_000).all()
        assert not store.absent(craft(deduper, *rows), lab.now).any()

    def test_batch_does_not_shorten(self, store: DataStore, lab: Lab) -> None:
        """D37 (R4): a batch over mixed old expiries raises each position to the later time, none to the earlier."""
        deduper = lab.deduper(store)
        rows = [(5, [1]), (5, [2]), (5, [3])]
        for row, ttl in zip(rows, (1_000, 2_000, 3_000), strict=True):
            store.add(craft(deduper, row), lab.now, lab.now + ttl)
        store.add(craft(deduper, *rows, rows[0]), lab.now, lab.now + 2_000)
        for passed, expected in ((2_000, [False] * 3), (2_001, [True, True, False]), (3_001, [True] * 3)):
            assert store.absent(craft(deduper, *rows), lab.now + passed).tolist() == expected

    def test_input_is_left_alone(self, store: DataStore, lab: Lab) -> None:
        """D38 (R24): probes may be shared by threads, so no verb changes them, and read-only arrays are fine."""
        probes = spread(lab.deduper(store), 300)
        probes.shards.setflags(write=False)
        probes.positions.setflags(write=False)
        shards, positions = probes.shards.copy(), probes.positions.copy()
        store.add(probes, lab.now, lab.now + 1_000)
        store.absent(probes, lab.now)
        store.add_if_absent(probes, lab.now, lab.now + 1_000)
        assert np.array_equal(probes.shards, shards)
        assert np.array_equal(probes.positions, positions)

    def test_input_is_not_kept(self, store: DataStore, lab: Lab) -> None:
        """D39 (R24): what a caller does with the arrays afterwards changes nothing in the store."""
        deduper = lab.deduper(store)
        used, same = spread(deduper, 300), spread(deduper, 300)
        answers = store.add_if_absent(used, lab.now, lab.now + 1_000)
        used.shards[:] = 77
        used.positions[:] = 999
        answers[:] = False
        assert not store.absent(same, lab.now).any()
        assert store.absent(craft(deduper, (77, [999])), lab.now)[0]

    def test_any_memory_order(self, store: DataStore, lab: Lab) -> None:
        """D40 (R6): strided, reversed and column-ordered arrays are read as what they show."""
        deduper = lab.deduper(store)
        plain = spread(deduper, 300)
        columns = Probes(deduper, plain.shards, np.asfortranarray(plain.positions))
        store.add(plain.rows(slice(None, None, 3)), lab.now, lab.now + 1_000)
        expected = np.arange(300) % 3 != 0
        assert np.array_equal(store.absent(columns, lab.now), expected)
        assert np.array_equal(store.absent(columns.rows(slice(None, None, -1)), lab.now), expected[::-1])
        answers = store.add_if_absent(columns.rows(slice(None, None, -2)), lab.now, lab.now + 1_000)
        assert np.array_equal(answers, expected[::-2])

    def test_single_verbs_agree(self, store: DataStore, lab: Lab) -> None:
        """D41 (R1, R5): the single verbs read what batches wrote and the other way round, with the same answers."""
        if not isinstance(store, SingleProbeStore):
            pytest.skip("the store has no single verbs")
        deduper = lab.deduper(store)
        probes = craft(deduper, *((s, (p, p + 1, p)) for s in (-1, 0, 9) for p in range(-4, 200, 4)))
        n, end = len(probes), lab.now + 1_000
        first, second, third = (probes.rows(slice(i, None, 3)) for i in range(3))
        singles(store, "add", first, lab.now, end)
        store.add(second, lab.now, end)
        assert singles(store, "add_if_absent", third, lab.now, end).all()
        assert not store.add_if_absent(probes, lab.now, end + 500).any()
        assert not singles(store, "add_if_absent", probes, lab.now, end + 500).any()
        for now in (lab.now, end, end + 1):
            answers = store.absent(probes, now)
            assert np.array_equal(answers, singles(store, "absent", probes, now))
            assert answers.tolist() == [now > end] * n
        # Like the batch: a shorter TTL doesn't shorten.
        singles(store, "add", probes, lab.now, lab.now + 10)
        assert not singles(store, "absent", probes, end).any()

    def test_against_the_model(self, store: DataStore, lab: Lab) -> None:
        """D42 (R1 to R6): random programs on a small world, time moving forward, agree with a dict of positions."""
        check_against_model(store, lambda: lab.deduper(store), lab.now, examples=self.examples, steps=self.steps)
