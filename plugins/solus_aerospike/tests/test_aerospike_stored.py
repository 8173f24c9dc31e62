"""What is in Aerospike afterwards, read back with the bare client; what Java left there; how many calls it took."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aerospike
import numpy as np
import pytest
from aerospike_samples import BOTH, DAY, NOW, orders

from solus_aerospike import AerospikeContext
from solus_aerospike.bins_layout import BinsLayout
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.map_layout import MapLayout
from solus_aerospike.meta_store import AerospikeMetaStore
from solus_aerospike.segments import SEGMENT, WHOLE, segments
from solus_core import DeDuperConfig, SolusEngine
from solus_core.errors import InvalidConfigError, SolusError
from solus_core.model import DeDuper, Level
from solus_core.testing import FakeClock, craft

if TYPE_CHECKING:
    from aerospike_double import Double

ROW = (5, (3, 1, 2))
Connected = Callable[..., AerospikeContext]


class Reader:
    """Reads and writes records of the test's set with the bare client."""

    def __init__(self, client: Any, namespace: str, of: str) -> None:
        self.client, self.namespace, self.set = client, namespace, of

    def key(self, key: str, of: str = "") -> tuple[str, str, str]:
        return self.namespace, of or self.set, key

    def bins(self, key: str, of: str = "") -> Any:
        return self.client.get(self.key(key, of))[2]

    def ttl(self, key: str) -> int:
        return int(self.client.exists(self.key(key))[1]["ttl"])

    def put(self, key: str, bins: dict[str, Any], ttl: int = 864_000) -> None:
        self.client.put(self.key(key), bins, policy={"ttl": ttl, "key": aerospike.POLICY_KEY_SEND})


@pytest.fixture
def reader(aerospike_client: Any, aerospike_namespace: str, aerospike_set: str) -> Reader:
    return Reader(aerospike_client, aerospike_namespace, aerospike_set)


def test_maps(connected: Connected, reader: Reader, client_id: str) -> None:
    """R4: one key-ordered map of the farm's name, position to expiry, however the positions came."""
    store, of = AerospikeDataStore(connected(), client_id), orders(client_id, "map")
    store.add(craft(of, ROW), NOW, NOW + DAY)
    store.add_one(of, 5, [-7, 2], NOW, NOW + 2 * DAY)
    assert store.add_if_absent_one(of, 5, [3, 0], NOW, NOW + 60_000)
    bins = reader.bins(f"5|{client_id}|orders")
    assert list(bins) == ["dc1"]
    assert isinstance(bins["dc1"], aerospike.KeyOrderedDict), "not key-ordered: each look-up would sort it"
    assert bins["dc1"] == {-7: NOW + 2 * DAY, 0: NOW + 60_000, 1: NOW + DAY, 2: NOW + 2 * DAY, 3: NOW + DAY}


def test_recorded_without_a_layout(connected: Connected, reader: Reader, client_id: str) -> None:
    """Then it is one of Java's."""
    AerospikeDataStore(connected(), client_id).add_one(orders(client_id, ""), 5, [1], NOW, NOW + DAY)
    assert reader.bins(f"5|{client_id}|orders") == {"dc1#b1": NOW + DAY}


def test_maps_of_a_large_shard(connected: Connected, reader: Reader, client_id: str) -> None:
    """The positions of a large shard are in several maps, of which each is as short as a small shard's."""
    of = orders(client_id, "map", bits_per_shard=30_000)
    store, count = AerospikeDataStore(connected(), client_id), segments(30_000)
    assert count == 59
    assert (segments(WHOLE), segments(WHOLE + 1)) == (1, 9)
    positions = [-1, 0, 58, 59, 29_999]
    store.add(craft(of, (5, positions)), NOW, NOW + DAY)
    assert reader.bins(f"5|{client_id}|orders") == {
        "dc1#0": {0: NOW + DAY, 59: NOW + DAY},
        "dc1#58": {-1: NOW + DAY, 58: NOW + DAY},
        f"dc1#{29_999 % 59}": {29_999: NOW + DAY},
    }
    assert max(np.unique(np.arange(30_000) % count, return_counts=True)[1]) <= SEGMENT
    # Among farms too: what one position lacks in one map is in the other farm's.
    other = AerospikeDataStore(connected(farm="dc2"), client_id)
    for farm in ("dc1", "dc2"):
        AerospikeMetaStore(connected(farm=farm), client_id).create(of)
    store.add(craft(of, (6, [0, 59])), NOW, NOW + DAY)
    other.add(craft(of, (6, [118, 58])), NOW, NOW + DAY)
    everything = craft(of, (6, [0, 59, 118, 58]), (6, [0, 59, 118, 58, 1]))
    assert other.absent(everything, NOW).tolist() == [False, True]
    assert other.add_if_absent(everything, NOW, NOW + DAY).tolist() == [False, True]


def test_bins(connected: Connected, reader: Reader, client_id: str) -> None:
    """Names and values are what Java writes as V2, and nothing else is in the record."""
    store, of = AerospikeDataStore(connected(farm="dc-001"), client_id), orders(client_id, "bins")
    store.add(craft(of, (-5, (1, 2, -3))), NOW, NOW + DAY)
    store.add_one(of, -5, [2, 999], NOW, NOW + 2 * DAY)
    assert store.add_if_absent_one(of, -5, [1, 29_999], NOW, NOW + 60_000)
    assert reader.bins(f"-5|{client_id}|orders") == {
        "dc-001#b1": NOW + DAY,
        "dc-001#b2": NOW + 2 * DAY,
        "dc-001#b-3": NOW + DAY,
        "dc-001#b999": NOW + 2 * DAY,
        "dc-001#b29999": NOW + 60_000,
    }


@BOTH
def test_a_millisecond_longer_stays(connected: Connected, reader: Reader, client_id: str, layout: str) -> None:
    """R4"""
    store, of = AerospikeDataStore(connected(), client_id), orders(client_id, layout)
    for expires_at in (NOW + DAY, NOW + DAY + 1, NOW + DAY):
        store.add_one(of, 5, [1], NOW, expires_at)
    assert reader.bins(f"5|{client_id}|orders") == (
        {"dc1": {1: NOW + DAY + 1}} if layout == "map" else {"dc1#b1": NOW + DAY + 1}
    )


@BOTH
def test_keys_and_sets(connected: Connected, reader: Reader, client_id: str, layout: str) -> None:
    """R19: XDC in the set, DC in ``<farm>_<set>``; the key is sent, so that a query can give it back."""
    store = AerospikeDataStore(connected(layout=layout), client_id)
    assert store.layout == layout
    store.add(craft(orders(client_id, layout), ROW), NOW, NOW + DAY)
    store.add_one(orders(client_id, layout, level=Level.DC), -6, (1, 2), NOW, NOW + DAY)
    assert store.add_if_absent_one(orders(client_id, layout, level=Level.DC), 7, (1, 2), NOW, NOW + DAY)
    for of, keys in (
        (reader.set, {f"5|{client_id}|orders", f"farms|{client_id}|orders"}),
        (f"dc1_{reader.set}", {f"-6|{client_id}|orders", f"7|{client_id}|orders"}),
    ):
        found = reader.client.query(reader.namespace, of).results(policy={"total_timeout": 30_000})
        assert {key[2] for key, _, _ in found} == keys


V2, V1, V0 = "dc1#b{}", "dc1##b_{}_ttl", "b_{}_ttl"


LEFT: list[tuple[dict[str, int], bool]] = [
    ({V2: 9}, False),
    ({V2: 0}, False),
    ({V2: -1}, True),
    ({V1: 0}, False),
    ({V1: -1}, True),
    ({V0: 0}, False),
    ({V0: -1}, True),
    ({}, True),
    # The first that is there counts.
    ({V2: -1, V1: 9}, True),
    ({V2: 9, V1: -1, V0: -1}, False),
    # That of any known farm is enough. V0 is of no farm, so it counts where one of them has nothing newer.
    ({V2: -1, V0: 9}, False),
    ({V1: -1, V0: 9}, False),
    ({"dc2#b{}": 9}, False),
    ({"dc2##b_{}_ttl": 9}, False),
    ({"dc2#b{}": -1, V2: 9}, False),
    ({"dc2#b{}": -1, V0: 9}, False),
    ({V2: -1, "dc2#b{}": -1, V0: 9}, True),
    ({"dc3#b{}": 9}, True),
]
"""By bin, how much longer the position lives; and whether it is absent then, for the farms dc1 and dc2."""


@pytest.mark.parametrize(
    ("position", "bins", "absent"),
    [
        (position, {name.format(position): left for name, left in bins.items()}, absent)
        for position in (7, -1, 1_234, 15_999)
        for bins, absent in LEFT
        if all(len(name.format(position)) <= 15 for name in bins)
    ],
)
def test_what_java_left(
    connected: Connected, reader: Reader, client_id: str, position: int, bins: dict[str, int], absent: bool
) -> None:
    """R1: V2, V1 and V0 of several farms; names over 15 bytes can't exist, and are not asked for."""
    of = orders(client_id, "bins", bits_per_shard=16_000)
    for farm in ("dc2", "dc1"):
        AerospikeMetaStore(connected(farm=farm), client_id).create(of)
    stored = {name: NOW + left for name, left in bins.items()}
    store = AerospikeDataStore(connected(), client_id)
    reader.put(f"5|{client_id}|orders", {**stored, "dc1#b0": NOW + DAY, "other": 1, "o#bther": 1})
    row = (5, (position, 0))
    assert store.absent(craft(of, row), NOW).tolist() == [absent]
    assert store.absent_one(of, *row, NOW) is absent
    live = sorted(store._calls.live(store._place(of), ("dc1", "dc2"), [4, 5, 6], NOW))
    assert live == sorted([NOW + DAY] + [NOW + max(bins.values(), default=0)] * (not absent))
    assert store.add_if_absent_one(of, *row, NOW, NOW + 5) is absent
    assert store.add_if_absent(craft(of, row), NOW, NOW + 5).tolist() == [False]


@pytest.mark.parametrize("bins", [{V2: -1, V0: 9}, {V1: -1, V0: 9}])
def test_what_java_left_to_one_farm(connected: Connected, reader: Reader, client_id: str, bins: dict[str, int]) -> None:
    """R1: V0 doesn't count beside something newer."""
    of = orders(client_id, "bins")
    reader.put(f"5|{client_id}|orders", {name.format(7): NOW + left for name, left in bins.items()})
    assert AerospikeDataStore(connected(), client_id).absent_one(of, 5, [7], NOW)


@pytest.mark.parametrize("name", [V2, V1, V0])
def test_no_expiry_of_java_is_cut(connected: Connected, reader: Reader, client_id: str, name: str) -> None:
    """R4: our bin hides the older ones; it is written with the longest of them."""
    store, of = AerospikeDataStore(connected(), client_id), orders(client_id, "bins")
    stored = {name.format(position): NOW + left for position, left in ((1, 5_000), (2, 50))}
    reader.put(f"5|{client_id}|orders", stored)
    store.add(craft(of, (5, (1, 2, 3))), NOW, NOW + 500)
    assert reader.bins(f"5|{client_id}|orders") == {
        **stored,
        "dc1#b1": NOW + 5_000,
        "dc1#b2": NOW + 500,
        "dc1#b3": NOW + 500,
    }


@BOTH
def test_every_write_refreshes_the_ttl(connected: Connected, reader: Reader, client_id: str, layout: str) -> None:
    """R10: the record lives ``expiry_seconds`` from its last write; a write that adds nothing leaves it alone."""
    store, key = AerospikeDataStore(connected(), client_id), f"5|{client_id}|orders"
    of = orders(client_id, layout, expiry_seconds=5_000)
    writes: list[Callable[[], object]] = [
        lambda: store.add(craft(of, ROW), NOW, NOW + 50),
        lambda: store.add_one(of, *ROW, NOW, NOW + 50),
        lambda: store.add_if_absent(craft(of, ROW), NOW + 60, NOW + 90),
        lambda: store.add_if_absent_one(of, *ROW, NOW + 100, NOW + 200),
    ]
    for write in writes:
        write()
        assert 4_998 <= reader.ttl(key) <= 5_000
        reader.client.touch(reader.key(key), 100)
    assert not store.add_if_absent_one(of, *ROW, NOW + 100, NOW + 200)
    assert not store.absent_one(of, *ROW, NOW + 100)
    assert reader.ttl(key) <= 100


@BOTH
def test_records_go_when_storage_expiry_says(double: Double, connected: Connected, client_id: str, layout: str) -> None:
    """R2, R10: by the server's clock, and not before; a record that is late to go doesn't come back to life."""
    store = AerospikeDataStore(connected(double.hosts), client_id)
    of, later = orders(client_id, layout, expiry_seconds=100), NOW + 100_000
    store.add(craft(of, ROW), NOW, later)
    double.clock.advance(99)
    assert not store.absent_one(of, *ROW, later)
    double.clock.advance(3)
    assert store.absent_one(of, *ROW, later)
    assert store.add_if_absent_one(of, *ROW, later, later + 50)


@pytest.mark.parametrize("longer", [1_000_000, aerospike.TTL_NEVER_EXPIRE], ids=["longer", "never"])
def test_a_longer_ttl_stays(connected: Connected, reader: Reader, client_id: str, longer: int) -> None:
    """R2: what a Java service with a longer expiry has written isn't dropped early for our writes beside it."""
    store, of = AerospikeDataStore(connected(), client_id), orders(client_id, "bins", expiry_seconds=5_000)
    key, row = f"5|{client_id}|orders", (5, (1, 2))
    reader.put(key, {"dc1#b9": NOW + DAY}, longer)
    store.add(craft(of, row), NOW, NOW + 10)
    store.add_one(of, *row, NOW, NOW + 10)
    assert store.add_if_absent(craft(of, row, (6, (1, 2))), NOW + 11, NOW + 20).tolist() == [True, True]
    assert store.add_if_absent_one(of, *row, NOW + 21, NOW + 30)
    assert not store.add_if_absent_one(of, *row, NOW + 21, NOW + 30)
    assert store.add_if_absent(craft(of, row), NOW + 21, NOW + 30).tolist() == [False]
    assert reader.ttl(key) > 999_000
    assert 4_998 <= reader.ttl(f"6|{client_id}|orders") <= 5_000, "a new record got another TTL"
    assert len(reader.bins(key)) == 3


STRANGE = pytest.mark.parametrize("value", ["text", 2.5, b"blob", True, [1, 2]], ids=repr)


def all_strange(store: AerospikeDataStore, of: DeDuper) -> list[Callable[[], object]]:
    """Writes of the same entity."""
    return [
        lambda: store.add_if_absent_one(of, *ROW, NOW, NOW + DAY),
        lambda: store.add_if_absent(craft(of, ROW), NOW, NOW + DAY),
        lambda: store.add_one(of, *ROW, NOW, NOW + DAY),
        lambda: store.add(craft(of, ROW), NOW, NOW + DAY),
    ]


@STRANGE
@pytest.mark.parametrize("bits", [3_000, 30_000])
@pytest.mark.parametrize("farms", [("dc1",), ("dc1", "dc2")], ids=["alone", "farms"])
def test_what_is_no_map(
    connected: Connected, reader: Reader, client_id: str, value: Any, bits: int, farms: tuple[str, ...]
) -> None:
    """R23: nothing in it is live, so a check says absent; a write fails, says why and where, and leaves it as it is.

    It is never answered that the entity was present.
    """
    of, key = orders(client_id, "map", bits_per_shard=bits), f"5|{client_id}|orders"
    stores = {farm: AerospikeDataStore(connected(farm=farm), client_id) for farm in farms}
    for farm in farms:
        AerospikeMetaStore(connected(farm=farm), client_id).create(of)
    # The segments of its positions, or the one map.
    names = ["dc1#1", "dc1#2", "dc1#3"] if bits > WHOLE else ["dc1"]
    reader.put(key, dict.fromkeys(names, value))
    for store in stores.values():
        assert store.absent_one(of, *ROW, NOW)
        assert store.absent(craft(of, ROW), NOW).tolist() == [True]
    for write in all_strange(stores["dc1"], of):
        told = rf"record '5\|{client_id}\|orders': OpNotApplicable \(26\).*a bin of the record holds what Solus did not"
        with pytest.raises(SolusError, match=told) as c:
            write()
        assert not getattr(c.value, "in_doubt", False)
    assert reader.bins(key) == dict.fromkeys(names, value)
    layout = MapLayout("dc1", bits)
    assert list(layout.live(farms, {**dict.fromkeys(names, value), "dc1#7": {7: NOW}, "dc2": {7: NOW}}, NOW)) == (
        [NOW] if bits > WHOLE or len(farms) > 1 else []
    )
    if len(farms) > 1:
        assert stores["dc2"].add_if_absent_one(of, *ROW, NOW, NOW + DAY)
        assert not stores["dc1"].add_if_absent_one(of, *ROW, NOW, NOW + DAY)
        assert stores["dc1"].add_if_absent(craft(of, ROW), NOW, NOW + DAY).tolist() == [False]


@STRANGE
@pytest.mark.parametrize("verb", range(4))
def test_what_is_no_number(connected: Connected, reader: Reader, client_id: str, value: Any, verb: int) -> None:
    """R23: no expiry of ours, so nothing is live; the write puts ours in its place. What Java has left counts."""
    of, key = orders(client_id, "bins"), f"5|{client_id}|orders"
    store, bins = AerospikeDataStore(connected(), client_id), {f"dc1#b{position}": value for position in ROW[1]}
    reader.put(key, bins)
    assert store.absent_one(of, *ROW, NOW)
    assert store.absent(craft(of, ROW), NOW).tolist() == [True]
    assert list(BinsLayout("dc1").live(("dc1",), {**bins, "b_3_ttl": NOW + 5, "b_9_ttl": value}, NOW)) == [NOW + 5]
    answer = all_strange(store, of)[verb]()
    assert answer in (True, None, [True])
    assert reader.bins(key) == dict.fromkeys(bins, NOW + DAY)
    reader.put(key, {**bins, "b_3_ttl": NOW + 2 * DAY, "b_1_ttl": NOW + DAY, "b_2_ttl": NOW + DAY})
    assert not store.absent_one(of, *ROW, NOW)
    assert not store.add_if_absent_one(of, *ROW, NOW, NOW + DAY)
    assert store.add_if_absent_one(of, *ROW, NOW + DAY + 1, NOW + DAY + 2)
    assert reader.bins(key)["dc1#b3"] == NOW + 2 * DAY


def test_expiry_of_over_ten_years(connected: Connected, reader: Reader, client_id: str) -> None:
    """R12: refused, as it can't be kept; a de-duper that is registered all the same is written with ten years."""
    store, longest = AerospikeDataStore(connected(), client_id), 10 * 366 * 86_400
    with pytest.raises(InvalidConfigError, match="is 316,224,000, and Aerospike keeps a record for 315,360,000"):
        store.check_config(DeDuperConfig(expiry_seconds=longest))
    store.check_config(DeDuperConfig(expiry_seconds=315_360_000))
    store.add_one(orders(client_id, "map", expiry_seconds=longest), 5, (1, 2), NOW, NOW + DAY)
    assert 315_359_990 <= reader.ttl(f"5|{client_id}|orders") <= 315_360_000


@BOTH
def test_through_the_engine(connected: Connected, reader: Reader, client_id: str, layout: str) -> None:
    """R14, R20: registered, added and found again by another engine, in the layout that the record says."""
    clock = FakeClock(NOW)
    with SolusEngine.open(connected(layout=layout), client_id=client_id, clock=clock) as engine:
        engine.register("orders", DeDuperConfig())
        added = engine.deduper("orders").add_if_absent_many(["a", "b", "a", 1], DAY)
        assert added == {"a": True, "b": True, 1: True}
    with SolusEngine.open(
        connected(layout="map" if layout == "bins" else "bins"), client_id=client_id, clock=clock
    ) as other:
        assert other.deduper("orders").check_absence_many(["a", "b", "1", "c"]) == {
            "a": False,
            "b": False,
            "1": False,
            "c": True,
        }
