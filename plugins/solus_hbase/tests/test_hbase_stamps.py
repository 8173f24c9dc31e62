"""Clocks that differ, and writes that come late: HBase answers the cell of the newest timestamp, not the last one."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, final

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_core import SolusEngine
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import FakeClock, craft
from solus_core.testing.lab import singles
from solus_hbase import Gateway, HBaseContext, HBaseDataStore, HBaseMetaStore
from solus_hbase.dev_server import HBaseServer
from solus_hbase.layout import RowKeys, meta_row_key

NOW = time.time_ns() // 1_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
LONG = struct.Struct(">q")
ROW = (5, (1, 2, 3))


@pytest.fixture(scope="module")
def table(hbase_server: HBaseServer) -> Iterator[Any]:
    connection = happybase.Connection(hbase_server.host, hbase_server.port(1))
    yield connection.table("stamps")
    connection.close()


@pytest.fixture
def deduper() -> DeDuper:
    client_id = f"stamps-{uuid.uuid4().hex[:8]}"
    return DeDuper(name="orders", client_id=client_id, config=DeDuperConfig(), layout="java")


@pytest.fixture
def connected(hbase_server: HBaseServer, open_context: Callable[..., HBaseContext]) -> Callable[[int], HBaseContext]:
    return lambda kind: open_context(hbase_server.port(kind), table="stamps", splits=2, layout="java")


def called(store: HBaseDataStore, verb: str, deduper: DeDuper, *times: int) -> Any:
    """The verb for ``ROW``, alone or as a batch."""
    one, probes = verb.endswith("_one"), craft(deduper, ROW)
    return singles(store, verb.removesuffix("_one"), probes, *times) if one else getattr(store, verb)(probes, *times)


@pytest.mark.parametrize("behind", [1, 5_000])
@pytest.mark.parametrize("kinds", [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("many", [False, True])
def test_a_longer_ttl_is_kept_by_whoever_is_behind(
    connected: Callable[[int], HBaseContext], deduper: DeDuper, behind: int, kinds: tuple[int, int], many: bool
) -> None:
    """R4, R11, R2: each has its own clock, and Thrift 1 writes with that of the server."""
    clocks = FakeClock(NOW), FakeClock(NOW - behind)
    contexts = [connected(kind) for kind in kinds]
    with (
        SolusEngine.open(contexts[0], client_id=deduper.client_id, clock=clocks[0]) as ahead,
        SolusEngine.open(contexts[1], client_id=deduper.client_id, clock=clocks[1]) as here,
    ):
        ahead.register("orders")
        for engine, ttl in ((ahead, 10_000), (here, HOUR), (ahead, 10_000)):
            if many:
                engine.add_many("orders", ["a", "b"], ttl)
            else:
                engine.add("orders", "a", ttl)
        clocks[1].advance(behind + 10_001)
        assert not here.check_absence("orders", "a")
        assert not here.add_if_absent("orders", "a", HOUR)
        clocks[1].advance(HOUR)
        assert here.check_absence("orders", "a")


@pytest.mark.parametrize("left", [500, -1])
@pytest.mark.parametrize("verb", ["add", "add_one", "add_if_absent", "add_if_absent_one"])
@pytest.mark.parametrize("kind", [2, 1])
def test_a_cell_that_java_stamped_with_a_later_time(
    connected: Callable[[int], HBaseContext], table: Any, deduper: DeDuper, kind: int, verb: str, left: int
) -> None:
    """R4, R2: ours is seen all the same, be theirs live or expired; and what Java reads is what it would write."""
    store, key = HBaseDataStore(connected(kind), deduper.client_id), RowKeys(deduper.client_id, "orders")(ROW[0])
    table.put(key, {b"S:2#ttl": LONG.pack(NOW + left)}, timestamp=NOW + HOUR)
    answer = called(store, verb, deduper, NOW, NOW + DAY)
    assert not verb.startswith("add_if") or answer.all()
    assert not called(store, "absent", deduper, NOW + DAY).any()
    row = table.row(key, include_timestamp=True)
    tokens = [row.pop(name) for name in list(row) if name.endswith(b"#add")]
    assert len(tokens) == (kind == 2 and verb.startswith("add_if"))
    assert {name: value for name, (value, _) in row.items()} == {
        b"S:1#ttl": LONG.pack(NOW + DAY),
        b"S:2#ttl": LONG.pack(NOW + DAY),
        b"S:3#ttl": LONG.pack(NOW + DAY),
        b"S:shid": LONG.pack(5),
    }
    if kind == 2:
        assert {timestamp for _, timestamp in [*row.values(), *tokens]} == {NOW + HOUR + 1}


@final
class Overtaken:
    """A gateway through which another is first: ``other`` is called before the first check."""

    def __init__(self, gateway: Gateway, other: Callable[[], object]) -> None:
        self._gateway = gateway
        self._other = [other]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def check_and_put(self, *args: Any) -> bool:
        if self._other:
            self._other.pop()()
        return self._gateway.check_and_put(*args)


@pytest.mark.parametrize("verb", ["add", "add_one"])
@pytest.mark.parametrize("held", [None, 1, 2])
@pytest.mark.parametrize("kind", [2, 1])
def test_whoever_adds_the_same_id_in_between_is_noticed(
    connected: Callable[[int], HBaseContext], deduper: DeDuper, kind: int, held: int | None, verb: str
) -> None:
    """R4: also if another id holds one of the positions for so long that the other leaves that one alone."""
    context = connected(kind)
    ahead = HBaseDataStore(context, deduper.client_id)
    if held is not None:
        ahead.add_one(deduper, ROW[0], [held], NOW, NOW + HOUR)
    overtaken: Any = Overtaken(
        context.gateway, lambda: ahead.add_one(deduper, *ROW, now=NOW + 50, expires_at=NOW + 1_000)
    )
    here = HBaseDataStore(HBaseContext(overtaken, context.config), deduper.client_id)
    called(here, verb, deduper, NOW, NOW + DAY)
    assert not ahead.absent_one(deduper, *ROW, NOW + DAY)


@final
class Late:
    """A gateway where a first try of each put was held up on its way, until others came after it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._puts: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def put(self, *args: Any) -> None:
        self._puts.append(args)
        self._gateway.put(*args)

    def arrive(self) -> None:
        for args in self._puts[:-1]:
            self._gateway.put(*args)


@pytest.mark.parametrize("kind", [2, 1])
def test_a_late_try_undoes_no_later_change_of_a_record(
    connected: Callable[[int], HBaseContext], deduper: DeDuper, kind: int
) -> None:
    """R14, R15"""
    context = connected(kind)
    late: Any = Late(context.gateway)
    meta = HBaseMetaStore(HBaseContext(late, context.config), deduper.client_id)
    meta.create(deduper)
    for active in (False, True, False):
        meta.set_active("orders", active, NOW)
        late.arrive()
        stored = meta.get("orders")
        assert stored is not None
        assert stored.active is active


@pytest.mark.parametrize("kind", [2, 1])
def test_a_record_is_changed_by_whoever_is_last_whatever_the_clocks_say(
    hbase_server: HBaseServer, connected: Callable[[int], HBaseContext], deduper: DeDuper, kind: int
) -> None:
    """R14: ours after a region server that was ahead; and Java's, with the server's time, after ours, if we were."""
    meta = HBaseMetaStore(connected(kind), deduper.client_id)
    meta.create(deduper)
    key = meta_row_key(deduper.client_id, "orders")
    with closing(happybase.Connection(hbase_server.host, hbase_server.port(1))) as connection:
        java = connection.table(f"{deduper.client_id}_dedupers")
        meta.set_active("orders", False, NOW + HOUR)
        assert java.row(key)[b"C:a"] == b"\x00"
        java.put(key, {b"C:a": b"\xff", b"C:utime": LONG.pack(NOW)})
        assert set(meta.active()) == {deduper}
        java.put(key, {b"C:a": b"\xff", b"C:utime": LONG.pack(NOW)}, timestamp=NOW + HOUR)
        meta.set_active("orders", False, NOW)
        assert not list(meta.active())
        assert java.row(key)[b"C:a"] == b"\x00"
