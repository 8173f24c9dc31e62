"""What ``stats`` counts, in how many calls: on rows of known content."""

from __future__ import annotations

import struct
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import cast

import happybase  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest

from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stats import DeDuperStats
from solus_core.testing import craft
from solus_hbase import HBaseContext, HBaseDataStore
from solus_hbase.cells import Place
from solus_hbase.dev_server import HBaseServer
from solus_hbase.figures import SAMPLE_CELLS, SAMPLE_SHARDS, sampled
from solus_hbase.gateway.base import Cells, Gateway
from solus_hbase.layout import RowKeys

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
LONG = struct.Struct(">q")


def deduper(layout: str = "native", bits: int = 1_000, shards: int = 1_000_000) -> DeDuper:
    """One of few shards, fewer than a config allows, is looked at as a whole."""
    config = DeDuperConfig(bits_per_shard=bits)
    object.__setattr__(config, "shards", shards)
    return DeDuper(name=uuid.uuid4().hex, client_id="figures", config=config, layout=layout)


class Rows:
    """A gateway whose rows all look as ``row`` says, by shard; ``asked``: the rows of each call."""

    def __init__(self, row: Callable[[int], Cells]) -> None:
        self._row = row
        self.asked: list[list[int]] = []

    def get(self, _table: str, family: bytes, wanted: list[tuple[bytes, None]]) -> list[Cells]:
        assert family == b"S"
        assert all(columns is None for _, columns in wanted)
        self.asked.append([int(key[1:].split(b"|")[0]) for key, _ in wanted])
        return [self._row(shard) for shard in self.asked[-1]]

    def figures(self, of: DeDuper) -> DeDuperStats:
        place = Place(of, "data", RowKeys("figures", of.name), of.layout == "native")
        return DeDuperStats.of(of, sampled(cast(Gateway, self), place, NOW), NOW)


def filled(count: int, end: int = NOW + DAY) -> Cells:
    return {b"%d#ttl" % i: (LONG.pack(end), end) for i in range(count)} | {b"shid": (LONG.pack(1), end)}


def test_a_sparse_deduper_is_looked_at_widely() -> None:
    """R1: 20,000 different shards in few calls; the estimate is as good as it says."""

    def row(shard: int) -> Cells:
        last, gone = NOW + shard + DAY, NOW - 1
        one_more = {b"6#ttl": (LONG.pack(last), last), b"7#ttl": (LONG.pack(gone), gone)}
        return filled(6, NOW + shard) | one_more if shard % 4 == 0 else {}

    rows = Rows(row)
    found = rows.figures(deduper())
    asked = [shard for call in rows.asked for shard in call]
    assert len(asked) == len(set(asked)) == SAMPLE_SHARDS
    assert len(rows.asked) <= 20
    assert min(asked) < 1_000, "not from all of them"
    assert max(asked) > 999_000, "not from all of them"
    keys = [shard for shard in asked if shard % 4 == 0]
    assert (found.store.live, found.store.seen, found.store.total) == (7 * len(keys), 20_000_000, 10**9)
    assert found.estimated_keys == pytest.approx(250_000, abs=5 * found.standard_error)
    assert found.standard_error < 4_000
    expiries = found.store.expiries
    assert len(expiries) == 1_000
    assert set(expiries) <= {NOW + shard + more for shard in keys for more in (0, DAY)}
    assert max(expiries) == NOW + max(keys) + DAY, "R2: the last of all"
    assert np.median(expiries) == pytest.approx(NOW + 583_000, abs=100_000), "not picked at random"


@pytest.mark.parametrize(("bits", "most"), [(1_000, 50), (30_000, 1)])
def test_a_dense_deduper_is_not_read_for_long(bits: int, most: int) -> None:
    """Answers stay small, and it ends once enough was seen."""
    row = filled(bits)
    rows = Rows(lambda _shard: row)
    found = rows.figures(deduper(bits=bits))
    assert max(map(len, rows.asked)) <= most
    assert SAMPLE_CELLS <= found.store.live < SAMPLE_CELLS + most * bits
    assert found.store.seen == found.store.live
    assert len(found.store.expiries) == 1_000


def test_answers_stay_small_where_rows_turn_out_full() -> None:
    row = filled(300)
    rows = Rows(lambda _shard: row)
    rows.figures(deduper(bits=30_000))
    assert [len(call) for call in rows.asked[:2]] == [1, 165]
    assert sum(map(len, rows.asked)) * 301 < SAMPLE_CELLS + 50_000


@pytest.fixture
def connected(hbase_server: HBaseServer, open_context: Callable[..., HBaseContext]) -> Callable[[int], HBaseDataStore]:
    return lambda kind: HBaseDataStore(open_context(hbase_server.port(kind), table="figures", splits=2), "figures")


@pytest.mark.parametrize("kind", [2, 1])
@pytest.mark.parametrize("layout", ["native", "java"])
def test_all_shards(connected: Callable[[int], HBaseDataStore], kind: int, layout: str) -> None:
    """R1: each live position once, with its expiry; no other cells, no other de-duper's."""
    store, of, other = connected(kind), deduper(layout, shards=300), deduper(layout, shards=300)
    store.add(craft(of, *((shard, (1, 2, 3)) for shard in range(0, 300, 3))), NOW, NOW + DAY)
    store.add(craft(of, *((shard, (3, 4)) for shard in range(0, 150, 3))), NOW, NOW + 2 * DAY)
    store.add(craft(of, (299, (5, 6))), NOW, NOW + 10)
    store.add(craft(other, *((shard, (7, 8)) for shard in range(300))), NOW, NOW + DAY)
    for now, expected in (
        (NOW + 10, {NOW + 10: 2, NOW + DAY: 250, NOW + 2 * DAY: 100}),
        (NOW + 11, {NOW + DAY: 250, NOW + 2 * DAY: 100}),
        (NOW + DAY + 1, {NOW + 2 * DAY: 100}),
        (NOW + 2 * DAY + 1, {}),
    ):
        stats = store.stats(of, now)
        assert (stats.live, stats.seen, stats.total) == (sum(expected.values()), 300_000, 300_000)
        assert Counter(stats.expiries) == expected


def test_what_java_wrote(hbase_server: HBaseServer, connected: Callable[[int], HBaseDataStore]) -> None:
    """Legacy cells count where a read takes them for set: not if unset, nor beside a cell with an expiry."""
    store, of = connected(2), deduper("java", shards=10)
    key = RowKeys("figures", of.name)
    with closing(happybase.Connection(hbase_server.host, hbase_server.port(1))) as writer:
        table = writer.table("figures")
        table.put(key(1), {b"S:\0\0\0\1": b"\xff", b"S:\0\0\0\2": b"\0", b"S:shid": LONG.pack(1)}, timestamp=NOW)
        table.put(key(2), {b"S:\0\0\0\1": b"\xff", b"S:1#ttl": LONG.pack(NOW - 1), b"S:2#ttl": b"odd"})
        table.put(key(3), {b"S:\0\0\0\3": b"\xff"}, timestamp=NOW - 400 * DAY)
    stats = store.stats(of, NOW)
    assert stats.live == 2
    assert sorted(stats.expiries) == [NOW, NOW + of.config.expiry_seconds * 1_000]
