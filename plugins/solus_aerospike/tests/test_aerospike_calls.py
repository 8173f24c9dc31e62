"""How many calls it takes, which farms and layouts are looked at, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aerospike_samples import BOTH, DAY, NOW, orders, with_farms_known

from solus_aerospike import AerospikeContext
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.segments import WHOLE, map_bin, segments
from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_core.testing import craft

if TYPE_CHECKING:
    from aerospike_double import Double

ROW = (5, (3, 1, 2))
Connected = Callable[..., AerospikeContext]


@BOTH
def test_round_trips(double: Double, connected: Connected, client_id: str, layout: str) -> None:
    """One call for each single verb and each answer, and one for each batch of a thousand; the farms are read once."""
    store, of = AerospikeDataStore(connected(double.hosts), client_id), orders(client_id, layout)
    with_farms_known(store, of)
    rows = craft(of, *((shard, (1, 2, 3)) for shard in range(1_001)))
    calls: list[tuple[int, Callable[[], object]]] = [
        (1, lambda: store.add_one(of, 5, (1, 2), NOW, NOW + DAY)),
        (1, lambda: store.add_one(of, 5, (1, 2), NOW, NOW + 2 * DAY)),
        (1, lambda: store.add_one(of, 5, (1, 2), NOW, NOW + DAY)),
        (1, lambda: store.absent_one(of, 5, (1, 2), NOW)),
        (1, lambda: store.absent_one(of, 5, (1, 3), NOW)),
        (1, lambda: store.add_if_absent_one(of, 5, (1, 2), NOW, NOW + DAY)),
        (1, lambda: store.add_if_absent_one(of, 5, (1, 3), NOW, NOW + DAY)),
        (1, lambda: store.add_if_absent_one(of, 6, (1, 3), NOW, NOW + DAY)),
        (1, lambda: store.add(rows.rows(slice(0, 1_000)), NOW, NOW + DAY)),
        (2, lambda: store.add(rows, NOW, NOW + DAY)),
        (2, lambda: store.absent(rows, NOW)),
        (2, lambda: store.add_if_absent(rows, NOW, NOW + DAY)),
        (0, lambda: store.add_if_absent(craft(of), NOW, NOW + DAY)),
    ]
    for i, (expected, call) in enumerate(calls):
        double.hooks.reset_counts()
        call()
        assert double.hooks.round_trips == expected, f"call {i}"


def test_round_trips_where_java_keeps_longer(double: Double, connected: Connected, client_id: str) -> None:
    """The first write to a record with a longer TTL takes a second call; from then on that is what is expected."""
    store, of = AerospikeDataStore(connected(double.hosts), client_id), orders(client_id, "bins", expiry_seconds=5_000)
    client = connected(double.hosts).client
    for shard in range(4):
        key = ("test", store._context.config.set, f"{shard}|{client_id}|orders")
        client.put(key, {"dc1#b9": NOW + DAY}, policy={"ttl": 9_000})
    with_farms_known(store, of)
    took = []
    for shard in (0, 1, 2, 7, 8, 3):
        double.hooks.reset_counts()
        assert store.add_if_absent_one(of, shard, (1, 2), NOW, NOW + DAY)
        took.append(double.hooks.round_trips)
    assert took == [2, 1, 1, 2, 1, 2]


def test_twins_are_sent_once(double: Double, connected: Connected, client_id: str) -> None:
    """R6, R7."""
    store, of = AerospikeDataStore(connected(double.hosts), client_id), orders(client_id, "map")
    probes = craft(of, (5, (1, 2)), (5, (2, 1)), (6, (1, 2)), (5, (1, 2, 2)))
    store.absent(probes, NOW)
    double.hooks.reset_counts()
    assert store.add_if_absent(probes, NOW, NOW + DAY).tolist() == [True, False, True, False]
    assert double.hooks.counts["row"] == 2
    assert not store.absent(probes, NOW).any()


@BOTH
def test_positions_counted(connected: Connected, client_id: str, layout: str) -> None:
    """R1: live ones only, each once however many farms set it, at the latest of their expiries."""
    farms = "dc1", "dc2"
    stores = {farm: AerospikeDataStore(connected(farm=farm), client_id) for farm in farms}
    for of in (orders(client_id, layout), orders(f"{client_id}-large", layout, bits_per_shard=16_000)):
        for store in stores.values():
            with suppress(StoreError):  # they join, and the second one waits
                store.add(craft(of), NOW - DAY, NOW)
        stores["dc1"].add(craft(of, (5, (-1, 2, 15_000)), (6, [1])), NOW, NOW + 1_000)
        stores["dc2"].add(craft(of, (5, (2, 3))), NOW, NOW + 2_000)
        stores["dc2"].add(craft(of, (5, (4, 5))), NOW, NOW + 10)
        for store in stores.values():
            for order in (farms, farms[::-1]):
                found = store._calls.live(store._place(of), order, [5, 6, 7], NOW + 11)
                assert sorted(found) == [NOW + 1_000] * 3 + [NOW + 2_000] * 2
        stats = stores["dc1"].stats(of, NOW)
        assert stats.total == of.config.shards * of.config.bits_per_shard


class First:
    """Draws the first of what there is, and each once."""

    def choice(self, of: Any, count: int, *, replace: bool) -> Any:
        assert not replace
        return np.arange(count) if isinstance(of, int) else of[:count]


@pytest.mark.parametrize(("bits", "shards"), [(1_000, 200), (30_000, 6)])
def test_the_sample_of_the_statistics(
    connected: Connected, client_id: str, monkeypatch: pytest.MonkeyPatch, bits: int, shards: int
) -> None:
    """R1: of what was looked at all that lives is counted; of large shards fewer are read; 1,000 expiries are told."""
    monkeypatch.setattr("solus_aerospike.data_store.np.random.default_rng", First)
    store, of = AerospikeDataStore(connected(), client_id), orders(client_id, "map", bits_per_shard=bits)
    for shard in range(8):
        store.add_one(of, shard, range(200), NOW, NOW + DAY)
    seen = store.stats(of, NOW)
    assert (seen.live, seen.seen) == (200 * min(8, shards), shards * bits)
    assert seen.expiries == (NOW + DAY,) * 1_000
    assert store.stats(of, NOW + DAY + 1).live == 0


def test_other_layouts_are_refused(connected: Connected, client_id: str) -> None:
    store = AerospikeDataStore(connected(), client_id)
    with pytest.raises(StoreError, match="recorded with layout 'bitmap', this version knows map and bins") as caught:
        store.absent_one(orders(client_id, "bitmap"), 5, (1, 2), NOW)
    assert caught.value.code is ErrorCode.DEDUPER_CONFIG_MISMATCH


@pytest.mark.parametrize(
    ("farm", "layout", "bits", "most"),
    [("dc-0007", "bins", 1_000, 6), ("a-farm-of-14-b", "map", WHOLE + 1, 13), ("a-farm-of-13-", "map", 30_000, 12)],
)
def test_farms_too_long_for_the_bins(
    connected: Connected, client_id: str, farm: str, layout: str, bits: int, most: int
) -> None:
    """Row 5, R17: the server would say no later, or look into another bin. Said before anything is registered."""
    store, of = AerospikeDataStore(connected(farm=farm), client_id), orders(client_id, layout, bits_per_shard=bits)
    told = f"farm is '{farm}', which has {len(farm)} bytes, allowed are {most} in the layout {layout}"
    with pytest.raises(StoreError, match=told) as caught:
        store.add_one(of, 5, (1, 2), NOW, NOW + DAY)
    assert caught.value.code is ErrorCode.DEDUPER_CONFIG_MISMATCH
    if layout == "map":
        with pytest.raises(InvalidConfigError, match=told):
            store.check_config(of.config)
    fits = AerospikeDataStore(connected(farm=farm[:most]), client_id)
    fits.add_one(of, 5, (bits - 1, 2), NOW, NOW + DAY)
    assert not fits.absent_one(of, 5, (bits - 1, 2), NOW)


@pytest.mark.parametrize("bits", [1_000, WHOLE, WHOLE + 1, 30_000])
def test_bins_are_no_longer_than_allowed(bits: int) -> None:
    """Whatever the position, negative ones too."""
    names = {map_bin("a-farm-of-12", position, segments(bits)) for position in range(-bits + 1, bits)}
    assert len(names) == segments(bits)
    assert max(map(len, names)) <= 15
