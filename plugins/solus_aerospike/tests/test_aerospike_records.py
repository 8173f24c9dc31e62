"""Registered de-dupers as records: those of Java, ours for Java, and ours."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from aerospike_samples import java
from hypothesis import given
from hypothesis import strategies as st

from solus_aerospike import AerospikeConfig, room
from solus_aerospike.config import BIN_BYTES, BINS_FARM_BYTES
from solus_aerospike.layout import RecordKeys, data_set, meta_key, meta_set, v0_bin, v1_bin, v2_bin
from solus_aerospike.records import bins_of, decode, encode, parse
from solus_core.errors import ErrorCode, InvalidArgumentError, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level

NOW = 1_700_000_000_000
OFFERS = DeDuper(
    name="offers",
    client_id="shop",
    config=DeDuperConfig(hash_functions=9, shards=2_000_000, bits_per_shard=3_000, level=Level.DC, expiry_seconds=77),
    hasher="murmur3-double",
    layout="bins",
    planned_keys=5,
    created_at=NOW,
    updated_at=NOW + 1,
)


def ours(farm: str, deduper: DeDuper) -> dict[str, Any]:
    """The bins that a farm writes when it registers ``deduper`` here."""
    return bins_of({farm: encode(deduper)}, in_bins=deduper.layout == "bins")


def read(bins: dict[str, Any]) -> DeDuper:
    return decode("shop", "offers", parse(bins, 1))


def test_what_java_wrote() -> None:
    """R18: no expiry and no hasher are recorded there: the default expiry, and Java's hasher."""
    assert read(java("dc1")) == DeDuper(
        name="offers",
        client_id="shop",
        config=DeDuperConfig(hash_functions=9, shards=2_000_000, bits_per_shard=3_000),
        hasher="murmur3-md5",
        layout="bins",
    )
    assert (read(java("dc1")).updated_at, read(java("dc1")).created_at) == (NOW, 0)


def test_the_newest_farm_decides() -> None:
    older, newer = java("dc1", bps=1_000), java("dc2", bps=2_000, updated=NOW + 5)
    for bins in (older | newer, newer | older):
        assert (read(bins).config.bits_per_shard, read(bins).updated_at) == (2_000, NOW + 5)
    older, newer = java("dc2", bps=1_000), java("dc1", bps=2_000, updated=NOW + 5)
    assert read(older | newer).config.bits_per_shard == 2_000
    assert read(java("dc2") | java("dc1", bps=2_000)) == read(java("dc1", bps=2_000) | java("dc2")), "of the same time"


@pytest.mark.parametrize("inactive", [False, 0])
def test_inactive_in_any_farm_is_inactive(inactive: object) -> None:
    """R14, whichever farm said so last; Java clients before 6 write booleans as integers."""
    assert read(java("dc1", active=1) | java("dc2")).active is True
    for updated in (NOW - 5, NOW + 5):
        assert read(java("dc1") | java("dc2", active=inactive, updated=updated)).active is False


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ({"name": None}, {}),
        ({"level": None}, {}),
        ({"farm": None}, {}),
        ({"updated": None}, {"updated_at": 0}),
        ({"active": None}, {"active": False}),
    ],
)
def test_records_that_lack_fields(missing: dict[str, object], expected: dict[str, object]) -> None:
    assert attrs.asdict(read(java("dc1", **missing))) == attrs.asdict(read(java("dc1"))) | expected


@pytest.mark.parametrize("field", ["hashFns", "shards", "bps", "active", "level", "name"])
def test_what_the_newest_farm_lacks_another_may_have(field: str) -> None:
    assert read(java("dc1") | java("dc2", updated=NOW + 5, **{field: None})) == read(java("dc1"))


@pytest.mark.parametrize("broken", [{"hashFns": None}, {"shards": 1}, {"bps": "many"}, {"level": "DCX"}])
def test_a_record_without_a_config_is_an_error(broken: dict[str, object]) -> None:
    """R22: not a guess: with another config every entity would be elsewhere."""
    with pytest.raises(StoreError, match="'offers' can't be read") as caught:
        read(java("dc1", **broken))
    assert caught.value.code is ErrorCode.AEROSPIKE_ERROR


def test_what_java_finds_of_ours() -> None:
    """In the layout ``bins``: the library's bins as it would have written them, and more that it never asks for."""
    bins = ours("dc1", OFFERS)
    assert {name: value for name, value in bins.items() if name in java("dc1")} == java(
        "dc1", level="DC", updated=NOW + 1
    )
    assert {name: value for name, value in bins.items() if name not in java("dc1")} == {
        "dc1##expiry": 77,
        "dc1##hasher": "murmur3-double",
        "dc1##layout": "bins",
        "dc1##created": NOW,
        "dc1##keys": 5,
    }
    assert all(type(value) is type(java("dc1").get(name, value)) for name, value in bins.items())


def test_no_bin_of_a_record_is_too_long() -> None:
    """Row 5 of the cases."""
    farm = "f" * BINS_FARM_BYTES
    assert max(len(name) for name in ours(farm, OFFERS)) == BIN_BYTES
    assert len(v2_bin(farm, -29_999)) <= BIN_BYTES


@pytest.mark.parametrize("layout", ["map", "", "another"])
def test_what_java_finds_of_other_layouts(layout: str) -> None:
    """Nothing: one bin of a farm's name, which is none of its own."""
    assert list(ours("a-farm-of-15-by", attrs.evolve(OFFERS, layout=layout))) == ["a-farm-of-15-by"]


def test_java_can_not_change_a_record_of_another_layout() -> None:
    """R2: would Java's bins decide, positions would be looked for in its layout, where they are not."""
    registered = attrs.evolve(OFFERS, layout="map")
    assert read(ours("dc1", registered) | java("dc1", updated=NOW + 99, active=False)) == registered


@given(
    name=st.text(min_size=1, max_size=20),
    level=st.sampled_from(Level),
    layout=st.sampled_from(["", "map", "bins", "x"]),
    active=st.booleans(),
    keys=st.integers(0, 2**62),
    expiry=st.integers(1, 316_224_000),
)
def test_records_come_back(name: str, level: Level, layout: str, active: bool, keys: int, expiry: int) -> None:
    config = DeDuperConfig(level=level, expiry_seconds=expiry, hash_functions=13)
    deduper = DeDuper(
        name=name, client_id="shop", config=config, layout=layout, active=active, planned_keys=keys, created_at=5
    )
    again = decode("shop", name, parse(ours("dc1", deduper), 1))
    assert attrs.asdict(again) == attrs.asdict(deduper)
    assert encode(again) == encode(deduper)


def test_keys_and_bins_of_data() -> None:
    assert RecordKeys("shop", "offers")(-7) == "-7|shop|offers"
    assert (v2_bin("dc1", 5), v1_bin("dc1", 5), v0_bin(-5)) == ("dc1#b5", "dc1##b_5_ttl", "b_-5_ttl")


@pytest.mark.parametrize(
    ("layout", "bits", "farms", "most", "told"),
    [
        ("map", 1_000, ["dc1"], 12_300, None),
        ("map", 1_000, ["dc1"], 12_299, "a full shard takes 12,300 bytes"),
        ("map", 40_000, ["dc1"], 2**23, None),
        ("bins", 1_000, ["dc1"], 19_200, None),
        ("bins", 1_000, ["dc1"], 19_199, "a full shard takes 19,200 bytes"),
        ("bins", 1_000, ["dc1", "dc-345"], 41_200, None),
        ("bins", 1_000, ["dc1", "dc-345"], 41_199, "a full shard of 2 farms takes 41,200 bytes"),
        ("bins", 32_767, ["dc1"], 2**23, None),
        ("bins", 32_768, ["dc1"], 2**23, "a full shard takes 32,768 bins, where a record has 32,767"),
    ],
)
def test_room_in_a_record(layout: str, bits: int, farms: list[str], most: int, told: str | None) -> None:
    """R8: to the byte; what does not fit is refused before data are lost."""
    problems = room.problems(layout, bits, farms, most)
    assert (told is None and not problems) or (told is not None and told in "".join(problems))


def test_sets() -> None:
    """R17, R19"""
    config = AerospikeConfig(hosts="h", namespace="test", set="solus", farm="dc1")
    assert [data_set(config, level) for level in (Level.XDC, Level.DC)] == ["solus", "dc1_solus"]
    assert (meta_set("shop"), meta_key("shop", "offers")) == ("shop_solus_DEDUPER", "shop|offers")
    assert len(meta_set("s" * 49)) == 63
    with pytest.raises(InvalidArgumentError, match="has 50 bytes, allowed are 49"):
        meta_set("s" * 50)
