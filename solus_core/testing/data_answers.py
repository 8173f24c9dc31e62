"""What a data store answers, one entity at a time: set, unset, expired, extended, repeated positions."""

from __future__ import annotations

import numpy as np
import pytest

from solus_core.errors import InvalidConfigError
from solus_core.model import DeDuperConfig
from solus_core.stores import DataStore
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.lab import Lab, craft, spread

DAY = 86_400_000
ROW = (5, (3, 141, 592, 653, 589, 793, 238))


class AnswersContract(DataStoreCase):
    """Part of :class:`~solus_core.testing.DataStoreContract`."""

    def test_absent_until_added(self, store: DataStore, lab: Lab) -> None:
        """D1 (R1, R2): an entity is absent until it is added, then present; its neighbour stays absent."""
        deduper = lab.deduper(store)
        probes = craft(deduper, ROW, (6, ROW[1]))
        assert store.absent(probes, lab.now).tolist() == [True, True]
        store.add(probes.rows(slice(0, 1)), lab.now, lab.now + 1_000)
        assert store.absent(probes, lab.now).tolist() == [False, True]

    def test_expiry_is_the_last_moment(self, store: DataStore, lab: Lab) -> None:
        """D2 (R1, R10): a position is set at ``now == expires_at`` and no longer one millisecond later."""
        probes = craft(lab.deduper(store), ROW)
        store.add(probes, lab.now, lab.now + 1_000)
        assert not store.absent(probes, lab.now + 999)[0]
        assert not store.absent(probes, lab.now + 1_000)[0], "expired at expires_at itself"
        assert store.absent(probes, lab.now + 1_001)[0], "still set one millisecond after expires_at"

    def test_add_if_absent_has_the_same_last_moment(self, store: DataStore, lab: Lab) -> None:
        """D3 (R1, R5): add_if_absent is False at ``now == expires_at`` and True one millisecond later."""
        probes = craft(lab.deduper(store), ROW)
        assert store.add_if_absent(probes, lab.now, lab.now + 1_000)[0]
        assert not store.add_if_absent(probes, lab.now + 1_000, lab.now + 5_000)[0]
        assert store.add_if_absent(probes, lab.now + 1_001, lab.now + 5_000)[0]
        assert not store.absent(probes, lab.now + 5_000)[0]

    def test_every_position_counts(self, store: DataStore, lab: Lab) -> None:
        """D4 (R1): with any single one of its positions unset, an entity is absent."""
        deduper = lab.deduper(store)
        store.add(craft(deduper, ROW), lab.now, lab.now + 1_000)
        for i in range(len(ROW[1])):
            other = (ROW[0], (*ROW[1][:i], 999, *ROW[1][i + 1 :]))
            assert store.absent(craft(deduper, other), lab.now)[0], f"position {i} is not looked at"

    def test_every_position_is_set(self, store: DataStore, lab: Lab) -> None:
        """D5 (R2, R3): each single position of an added entity is set."""
        deduper = lab.deduper(store)
        store.add(craft(deduper, ROW), lab.now, lab.now + 1_000)
        each = craft(deduper, *((ROW[0], [position]) for position in ROW[1]))
        assert store.absent(each, lab.now).tolist() == [False] * len(ROW[1])

    def test_one_expired_position_is_enough(self, store: DataStore, lab: Lab) -> None:
        """D6 (R1): an entity whose positions were set by two others is absent once the first of them expires."""
        deduper = lab.deduper(store)
        store.add(craft(deduper, (5, (1, 2, 3, 4))), lab.now, lab.now + 1_000)
        store.add(craft(deduper, (5, (5, 6, 7))), lab.now, lab.now + 2_000)
        mixed = craft(deduper, (5, (1, 2, 3, 4, 5, 6, 7)))
        assert not store.absent(mixed, lab.now + 1_000)[0]
        assert store.absent(mixed, lab.now + 1_001)[0]

    @pytest.mark.parametrize("positions", [(7, 7, 8, 9), (7,), (8, 7), (-7, 7), (1, 2, 3, 4, 5, 6, 1)])
    def test_repeated_positions(self, store: DataStore, lab: Lab, positions: tuple[int, ...]) -> None:
        """D7 (R3): an entity with equal positions is found again, in whatever order they come."""
        deduper = lab.deduper(store)
        probes = craft(deduper, (5, positions))
        assert store.add_if_absent(probes, lab.now, lab.now + 1_000).tolist() == [True]
        assert store.add_if_absent(probes, lab.now, lab.now + 1_000).tolist() == [False]
        assert not store.absent(probes, lab.now)[0]
        assert not store.absent(craft(deduper, (5, positions[::-1])), lab.now)[0]
        assert store.absent(craft(deduper, (5, (500, *positions[1:]))), lab.now)[0]

    def test_permuted_positions_are_the_same_entity(self, store: DataStore, lab: Lab) -> None:
        """D8 (R3): positions are compared as a set, not as a sequence."""
        deduper = lab.deduper(store)
        store.add(craft(deduper, ROW), lab.now, lab.now + 1_000)
        turned = craft(deduper, (ROW[0], ROW[1][3:] + ROW[1][:3]), (ROW[0], sorted(ROW[1])))
        assert store.absent(turned, lab.now).tolist() == [False, False]
        assert store.add_if_absent(turned, lab.now, lab.now + 1_000).tolist() == [False, False]

    def test_longer_extends(self, store: DataStore, lab: Lab) -> None:
        """D9 (R4): adding again with a longer TTL extends."""
        probes = craft(lab.deduper(store), ROW)
        store.add(probes, lab.now, lab.now + 1_000)
        store.add(probes, lab.now + 500, lab.now + 3_000)
        assert not store.absent(probes, lab.now + 3_000)[0]
        assert store.absent(probes, lab.now + 3_001)[0]

    def test_shorter_never_shortens(self, store: DataStore, lab: Lab) -> None:
        """D10 (R4): adding again with a shorter TTL changes nothing."""
        probes = craft(lab.deduper(store), ROW)
        store.add(probes, lab.now, lab.now + 3_000)
        store.add(probes, lab.now + 1, lab.now + 1_000)
        assert not store.absent(probes, lab.now + 3_000)[0], "a shorter TTL cut a longer one"
        assert store.absent(probes, lab.now + 3_001)[0]

    def test_adding_again_does_not_add_up(self, store: DataStore, lab: Lab) -> None:
        """D11 (R4): the same add five times over ends when the first one would."""
        probes = craft(lab.deduper(store), ROW)
        for _ in range(5):
            store.add(probes, lab.now, lab.now + 1_000)
        assert not store.absent(probes, lab.now + 1_000)[0]
        assert store.absent(probes, lab.now + 1_001)[0], "expiries were counted up"

    def test_another_entity_never_shortens(self, store: DataStore, lab: Lab) -> None:
        """D12 (R2, R4): an entity that shares positions, with a shorter TTL, does not shorten them."""
        deduper = lab.deduper(store)
        long, short, winner = (5, (1, 2, 3, 4)), (5, (3, 4, 5, 6)), (5, (2, 3, 7))
        store.add(craft(deduper, long), lab.now, lab.now + 3_000)
        store.add(craft(deduper, short), lab.now, lab.now + 1_000)
        assert store.add_if_absent(craft(deduper, winner), lab.now, lab.now + 1_000)[0]
        assert not store.absent(craft(deduper, long), lab.now + 3_000)[0]
        assert store.absent(craft(deduper, short, winner), lab.now + 1_001).all()

    def test_another_entity_extends(self, store: DataStore, lab: Lab) -> None:
        """D13 (R4): an add with a longer TTL extends the positions it shares, and only those."""
        deduper = lab.deduper(store)
        store.add(craft(deduper, (5, (1, 2))), lab.now, lab.now + 1_000)
        store.add(craft(deduper, (5, (2, 3))), lab.now, lab.now + 2_000)
        assert store.absent(craft(deduper, (5, [1]), (5, [2]), (5, [3])), lab.now + 1_001).tolist() == [
            True,
            False,
            False,
        ]

    def test_an_expired_entity_can_be_added_again(self, store: DataStore, lab: Lab) -> None:
        """D14 (R4, R5): after its expiry an entity is new again, with the new expiry alone."""
        probes = craft(lab.deduper(store), ROW)
        for turn in range(3):
            now = lab.now + turn * 10_000
            assert store.add_if_absent(probes, now, now + 1_000)[0]
            assert not store.absent(probes, now + 1_000)[0]
            assert store.absent(probes, now + 1_001)[0]

    def test_false_changes_nothing(self, store: DataStore, lab: Lab) -> None:
        """D15 (R5): an add_if_absent that answers False did not add, so the TTL isn't extended either."""
        probes = craft(lab.deduper(store), ROW)
        store.add(probes, lab.now, lab.now + 1_000)
        assert not store.add_if_absent(probes, lab.now, lab.now + 9_000)[0]
        assert store.absent(probes, lab.now + 1_001)[0]

    def test_negative_shards_and_positions(self, store: DataStore, lab: Lab) -> None:
        """D16 (R1): negative shards and positions, which the Java arithmetic yields, are keys of their own."""
        deduper = lab.deduper(store)
        rows = [(s, [p]) for s in (-7, 0, 7, deduper.config.shards - 1) for p in (-998, -1, 0, 1, 998, 999)]
        for i, row in enumerate(rows):
            assert store.add_if_absent(craft(deduper, row), lab.now, lab.now + 1_000)[0], f"{row} was taken"
            expected = [False] * (i + 1) + [True] * (len(rows) - i - 1)
            assert store.absent(craft(deduper, *rows), lab.now).tolist() == expected

    def test_numbers_that_read_alike(self, store: DataStore, lab: Lab) -> None:
        """D17 (R1): shard 1 position 23, shard 12 position 3 and the like don't share keys."""
        deduper = lab.deduper(store)
        rows = [(1, [23]), (12, [3]), (123, [0]), (1, [2, 3]), (11, [1]), (1, [11]), (111, [111]), (256, [1])]
        probes = craft(deduper, *rows)
        for i in range(len(rows)):
            assert store.add_if_absent(probes.rows(slice(i, i + 1)), lab.now, lab.now + 1_000)[0], rows[i]

    @pytest.mark.parametrize(
        ("k", "shards", "bits"),
        [(7, 1_000_000, 1_000), (8, 1_000_000, 4_096), (10, 20_000_000, 10_007), (13, 150_000_000, 30_000)],
    )
    def test_sizes(self, store: DataStore, lab: Lab, k: int, shards: int, bits: int) -> None:
        """D18 (R12): any allowed size holds up to its last shard and position, and each ends at its time."""
        config = DeDuperConfig(hash_functions=k, shards=shards, bits_per_shard=bits)
        try:
            store.check_config(config)
        except InvalidConfigError as refused:
            pytest.skip(f"the store refuses this config: {refused}")
        deduper = lab.deduper(store, config=config)
        last = craft(deduper, (shards - 1, range(bits - k, bits)), (-shards + 1, range(-bits + 1, -bits + k + 1)))
        assert store.add_if_absent(last, lab.now, lab.now + 1_000).all()
        assert not store.absent(last, lab.now + 1_000).any()
        assert store.absent(last, lab.now + 1_001).all()
        # One row for each bit of a shard number: a number that is cut short somewhere shares its key.
        powers = craft(deduper, *((1 << bit, (9, 8, 7)) for bit in range((shards - 1).bit_length())))
        assert store.add_if_absent(powers, lab.now, lab.now + 1_000).all()
        many = spread(deduper, 500, first=100)
        assert store.add_if_absent(many, lab.now, lab.now + DAY).all()
        assert not store.absent(many, lab.now + DAY).any()

    def test_the_longest_ttl(self, store: DataStore, lab: Lab) -> None:
        """D19 (R2, R9): a TTL as long as the de-duper's ``expiry_seconds`` is kept to its last millisecond."""
        deduper = lab.deduper(store)
        probes, end = craft(deduper, ROW), lab.now + deduper.config.expiry_seconds * 1_000
        store.add(probes, lab.now, end)
        assert not store.absent(probes, end)[0]
        assert store.absent(probes, end + 1)[0]

    def test_a_ttl_of_years(self, store: DataStore, lab: Lab) -> None:
        """D23 (R2, R12): a TTL that no 32 bits of milliseconds hold is kept to its end, and not far beyond."""
        config = DeDuperConfig(expiry_seconds=3_000 * 86_400)
        probes = craft(lab.deduper(store, config=config), ROW)
        end = lab.now + 3_000 * DAY
        store.add(probes, lab.now, end)
        assert not store.absent(probes, lab.now + 31 * DAY)[0]
        assert not store.absent(probes, end)[0]
        assert store.absent(probes, end + DAY)[0]

    def test_reclaiming_keeps_what_lives(self, store: DataStore, lab: Lab) -> None:
        """D20 (R2, R10): while short-lived entities come and go for days, the long-lived ones stay."""
        deduper = lab.deduper(store)
        long = spread(deduper, 200)
        store.add(long, lab.now, lab.now + 9 * DAY)
        for hours in range(0, 216, 12):
            now = lab.now + hours * 3_600_000
            passing = spread(deduper, 200, first=10_000 + 200 * hours)
            assert store.add_if_absent(passing, now, now + 1_000).all()
            assert not store.absent(long, now).any(), f"lost after {hours} hours"
            assert store.absent(passing, now + 1_001).all()
        assert not store.absent(long, lab.now + 9 * DAY).any()

    def test_stats(self, store: DataStore, lab: Lab) -> None:
        """D21 (R1): stats count live positions only, ``0 <= live <= seen <= total``, in whole numbers, ``seen > 0``.

        Expiry times, if the store gives any, are those of live positions, 1,000 at most.
        """
        deduper = lab.deduper(store)
        empty = store.stats(deduper, lab.now)
        store.add(craft(deduper, (5, (1, 2, 2, 3)), (6, (1, 2))), lab.now, lab.now + 1_000)
        for stats, live in (
            (empty, 0),
            (store.stats(deduper, lab.now + 1_000), 5),
            (store.stats(deduper, lab.now + 1_001), 0),
        ):
            assert all(type(number) is int for number in (stats.live, stats.seen, stats.total, *stats.expiries)), stats
            assert 0 <= stats.live <= stats.seen <= stats.total, stats
            assert stats.seen > 0, stats
            assert isinstance(stats.expiries, tuple), stats
            assert set(stats.expiries) <= ({lab.now + 1_000} if live else set()), stats
            assert stats.total == deduper.config.shards * deduper.config.bits_per_shard, stats
            assert stats.stored_bytes is None or stats.stored_bytes >= 0, stats
            # A store may look at a sample; one that looked at everything has the number itself.
            assert stats.live == live if stats.seen == stats.total else stats.live <= live, stats

    def test_expiries(self, store: DataStore, lab: Lab) -> None:
        """D85 (R1, R4): a sample of expiry times, if there is one, holds 1,000 at most, all of live positions."""
        deduper = lab.deduper(store)
        store.add(spread(deduper, 1_000), lab.now, lab.now + 1_000)
        store.add(spread(deduper, 500, first=500), lab.now, lab.now + 2_000)
        for now, possible in (
            (lab.now, {lab.now + 1_000, lab.now + 2_000}),
            (lab.now + 1_001, {lab.now + 2_000}),
            (lab.now + 2_001, set()),
        ):
            stats = store.stats(deduper, now)
            assert len(stats.expiries) <= 1_000
            assert set(stats.expiries) <= possible, stats.expiries[:10]

    def test_random_answers(self, store: DataStore, lab: Lab) -> None:
        """D22 (R1, R2): of 3,000 entities with TTLs of their own, each is present exactly until its end."""
        deduper = lab.deduper(store)
        probes = spread(deduper, 3_000)
        ends = lab.now + np.random.default_rng(1).integers(1, 6, 3_000) * 1_000
        for end in np.unique(ends).tolist():
            store.add(probes.rows(np.flatnonzero(ends == end)), lab.now, end)
        for now in range(lab.now, lab.now + 6_001, 1_000):
            assert np.array_equal(store.absent(probes, now), ends < now)
