"""Keys and values, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.stores import Probes
from solus_core.testing import craft
from solus_hbase.batches import BYTES, ROWS, by_shard, chunks
from solus_hbase.cells import Held, Place
from solus_hbase.layout import LONG, RowKeys, legacy_qualifier, prefixed, qualifier, split_keys
from solus_hbase.records import decode, decode_claim, encode, encode_claim

VECTORS = Path(__file__).parents[3] / "tests" / "vectors" / "java_solus.jsonl"
NOW = 1_700_000_000_000
DEDUPER = DeDuper(name="orders", client_id="shop", config=DeDuperConfig(expiry_seconds=1_000))


def place(*, native: bool) -> Place:
    return Place(DEDUPER, "t", RowKeys("shop", "orders"), native)


def test_row_keys_are_those_of_java() -> None:
    rows = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 482
    for row in rows:
        key = RowKeys(row["client_id"], row["deduper"])(row["shard"])
        assert key.hex() == row["hbase_row_key_hex"], row


@given(st.integers(-(10**9), 10**9), st.text(max_size=20), st.text(max_size=20))
def test_hashing_in_two_parts_is_hashing_the_whole(shard: int, client_id: str, name: str) -> None:
    key = RowKeys(client_id, name)(shard)
    assert key == prefixed(key[1:])


def test_splits() -> None:
    assert split_keys(256) == [bytes((i,)) for i in range(256)]
    assert split_keys(2) == [b"\x00", b"\x80"]
    assert split_keys(0) == []


def test_qualifiers() -> None:
    assert (qualifier(7), qualifier(-7)) == (b"7#ttl", b"-7#ttl")
    assert (legacy_qualifier(258), legacy_qualifier(-1)) == (b"\0\0\1\2", b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("cells", "live"),
    [
        ({}, False),
        ({b"7#ttl": LONG.pack(NOW)}, True),
        ({b"7#ttl": LONG.pack(NOW - 1)}, False),
        ({b"\0\0\0\7": b"\xff"}, True),
        ({b"\0\0\0\7": b"\x01"}, True),
        ({b"\0\0\0\7": b"\x00"}, False),
        ({b"7#ttl": LONG.pack(NOW - 1), b"\0\0\0\7": b"\xff"}, False),
        ({b"7#ttl": LONG.pack(NOW), b"\0\0\0\7": b"\x00"}, True),
    ],
)
def test_what_java_cells_mean(cells: dict[bytes, bytes], live: bool) -> None:
    """R1: a legacy cell counts where the position has no #ttl cell."""
    held = Held(place(native=False), {name: (value, NOW) for name, value in cells.items()})
    assert held.absent([7], NOW) is not live
    assert held.unset([7], NOW) == ([] if live else [7])


def test_legacy_cells_are_not_looked_for_in_the_native_layout() -> None:
    assert place(native=True).qualifiers([1, 2]) == [b"1#ttl", b"2#ttl"]
    assert place(native=False).qualifiers([1]) == [b"1#ttl", b"\0\0\0\1"]


def test_a_legacy_cell_is_not_shortened_by_the_one_that_hides_it() -> None:
    """R2, R4: it was written with an unknown TTL, of expiry_seconds at most."""
    held = Held(place(native=False), {b"\0\0\0\7": (b"\xff", NOW - 400)})
    assert held.raised([7, 8], NOW + 10) == {7: NOW - 400 + 1_000_000, 8: NOW + 10}


def test_only_what_is_lower_is_raised() -> None:
    """R4"""
    held = Held(place(native=False), {qualifier(i): (LONG.pack(NOW + i), NOW) for i in range(5)})
    assert held.raised(range(6), NOW + 3) == {0: NOW + 3, 1: NOW + 3, 2: NOW + 3, 5: NOW + 3}


def test_storage_expiry_is_counted_from_the_write() -> None:
    """R10: the timestamp plus the TTL is when HBase drops a cell."""
    timestamp, ttl = place(native=True).stamps(NOW, NOW + 300)
    assert (timestamp, timestamp + ttl) == (NOW + 300, NOW + 1_000_000)
    assert place(native=True).stamps(NOW, NOW + 1_000_000) == (NOW + 1_000_000, 1)
    assert place(native=False).stamps(NOW, NOW + 300) == (NOW, 1_000_000)


def test_a_java_cell_is_not_stamped_below_what_it_replaces() -> None:
    """R4: HBase would go on to answer the other."""
    for newest in (NOW - 1, NOW, NOW + 7):
        assert place(native=False).stamps(NOW, NOW + 300, newest) == (max(NOW, newest + 1), 1_000_000)
        assert place(native=True).stamps(NOW, NOW + 300, newest)[0] == NOW + 300
    held = Held(place(native=False), {qualifier(i): (LONG.pack(NOW), NOW + i) for i in range(5)})
    assert (held.newest([1, 3, 9]), held.newest([9]), held.newest([])) == (NOW + 3, 0, 0)


def test_the_lowest_position() -> None:
    held = Held(place(native=False), {qualifier(i): (LONG.pack(NOW - i // 2), NOW) for i in range(6)})
    assert [held.lowest(given) for given in ([0, 1], [5, 1, 4], [3, 9, 5, 8])] == [0, 4, 8]


def test_batches_are_grouped_and_cut() -> None:
    """Row 4: a batch may be of any size."""
    rows = [(i % 5_000, (i, i + 1)) for i in range(10_000)]
    probes = craft(DEDUPER, *rows)
    found = list(chunks(by_shard(probes)))
    assert [len(chunk) for chunk in found] == [ROWS, ROWS, 1_000]
    assert sorted(row for chunk in found for _, part, _ in chunk for row, _ in part) == list(range(10_000))


def test_a_large_shard_comes_in_several_chunks() -> None:
    probes = craft(DEDUPER, *((1, (7 * i, 7 * i + 1, 7 * i + 2)) for i in range(4_000)))
    found = list(chunks(by_shard(probes)))
    assert len(found) > 1
    for chunk in found:
        assert len({shard for shard, _, _ in chunk}) == len(chunk)
        assert sum(len(positions) for _, _, positions in chunk) * 50 <= BYTES
    assert [row for chunk in found for _, part, _ in chunk for row, _ in part] == list(range(4_000))


def test_no_probes_no_chunks() -> None:
    """R7"""
    empty: Probes = craft(DEDUPER)
    assert list(chunks(by_shard(empty))) == []


@given(
    name=st.text(min_size=1, max_size=20).filter(lambda text: "|" not in text),
    level=st.sampled_from(Level),
    layout=st.sampled_from(["", "native", "java"]),
    active=st.booleans(),
    keys=st.integers(0, 2**62),
    expiry=st.integers(1, 316_224_000),
)
def test_records_come_back(name: str, level: Level, layout: str, active: bool, keys: int, expiry: int) -> None:
    config = DeDuperConfig(level=level, expiry_seconds=expiry, hash_functions=13)
    record = DeDuper(
        name=name, client_id="c", config=config, layout=layout, active=active, planned_keys=keys, created_at=5
    )
    try:
        cells = {column: (value, 0) for column, value in encode(record)}
    except UnicodeEncodeError:
        return  # refused by R17
    for again in (decode("c", cells, "row"), decode_claim(encode_claim(record))):
        assert again == record
        assert (again.planned_keys, again.created_at) == (keys, 5)
