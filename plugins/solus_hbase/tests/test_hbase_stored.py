"""What is in HBase afterwards, read back with happybase, a client that is not ours; and how many calls it took."""

from __future__ import annotations

import struct
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_core import DeDuperConfig, SolusEngine
from solus_core.errors import ConfigMismatchError, ErrorCode, StoreBatchError, StoreError
from solus_core.model import DeDuper, Level
from solus_core.testing import FakeClock, craft, race
from solus_hbase import HBaseConfig, HBaseContext, HBaseDataStore, HBaseMetaStore
from solus_hbase.batches import ROWS
from solus_hbase.dev_server import HBaseServer
from solus_hbase.layout import RowKeys, meta_row_key, token_qualifier

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
LONG = struct.Struct(">q")
ROW = (5, (1, 2, 3))


@pytest.fixture(scope="module")
def reader(hbase_server: HBaseServer) -> Iterator[Any]:
    connection = happybase.Connection(hbase_server.host, hbase_server.port(1))
    yield connection
    connection.close()


@pytest.fixture
def client_id() -> str:
    return f"stored-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def connected(hbase_server: HBaseServer, open_context: Callable[..., HBaseContext]) -> Callable[..., HBaseContext]:
    return lambda kind=2, **settings: open_context(
        hbase_server.port(kind), **{"table": "stored", "splits": 2, **settings}
    )


def deduper(client_id: str, layout: str = "native", **config: Any) -> DeDuper:
    return DeDuper(name="orders", client_id=client_id, config=DeDuperConfig(**config), layout=layout)


@pytest.mark.parametrize("kind", [2, 1])
def test_native_cells(connected: Callable[..., HBaseContext], reader: Any, client_id: str, kind: int) -> None:
    """The timestamp is the expiry, and so is the value; Java reads them as its own."""
    store = HBaseDataStore(connected(kind), client_id)
    store.add(craft(deduper(client_id), ROW), NOW, NOW + DAY)
    store.add(craft(deduper(client_id), (5, [2])), NOW, NOW + 2 * DAY)
    store.add_one(deduper(client_id), 5, [3], NOW, NOW + 60_000)
    row = reader.table("stored").row(RowKeys(client_id, "orders")(5), include_timestamp=True)
    assert row == {
        b"S:1#ttl": (LONG.pack(NOW + DAY), NOW + DAY),
        b"S:2#ttl": (LONG.pack(NOW + 2 * DAY), NOW + 2 * DAY),
        b"S:3#ttl": (LONG.pack(NOW + DAY), NOW + DAY),
        b"S:shid": (LONG.pack(5), NOW + 2 * DAY),
    }


@pytest.mark.parametrize("kind", [2, 1])
@pytest.mark.parametrize("verb", ["add", "add_if_absent"])
def test_java_cells(connected: Callable[..., HBaseContext], reader: Any, client_id: str, kind: int, verb: str) -> None:
    """Qualifiers, values and ``shid`` are what Java writes; the timestamp is the time of writing."""
    store = HBaseDataStore(connected(kind), client_id)
    before = time.time_ns() // 1_000_000
    getattr(store, verb)(craft(deduper(client_id, "java"), (-5, (1, 2, -3))), before, before + DAY)
    row = reader.table("stored").row(RowKeys(client_id, "orders")(-5), include_timestamp=True)
    # Ours beside those of Java, where a check can write it.
    tokens = [row.pop(name)[0] for name in list(row) if name.endswith(b"#add")]
    assert [len(token) for token in tokens] == ([8] if (kind, verb) == (2, "add_if_absent") else [])
    assert {name: value for name, (value, _) in row.items()} == {
        b"S:1#ttl": LONG.pack(before + DAY),
        b"S:2#ttl": LONG.pack(before + DAY),
        b"S:-3#ttl": LONG.pack(before + DAY),
        b"S:shid": LONG.pack(-5),
    }
    for _, timestamp in row.values():
        # Thrift 1 has no timestamp in a check: there it is the server's time.
        assert before <= timestamp <= (before if kind == 2 else time.time_ns() // 1_000_000 + 1)


def test_a_token_never_looks_like_a_legacy_column() -> None:
    """Those have four bytes."""
    assert not [position for position in range(-30_000, 30_000) if len(token_qualifier(position)) < 5]


@pytest.mark.parametrize("layout", ["native", "java"])
def test_a_value_that_is_not_ours(
    connected: Callable[..., HBaseContext], reader: Any, client_id: str, layout: str
) -> None:
    """R22, R8: it is said where that is, and a batch tells what was done before it."""
    store, of = HBaseDataStore(connected(), client_id), deduper(client_id, layout)
    reader.table("stored").put(RowKeys(client_id, "orders")(ROWS), {b"S:2#ttl": b"2030-01-01"})
    says = r"table stored, de-duper 'orders', column S:2#ttl: the value is b'2030-01-01'"
    with pytest.raises(StoreError, match=says) as alone:
        store.add_if_absent_one(of, ROWS, (1, 2), NOW, NOW + DAY)
    assert alone.value.code is ErrorCode.HBASE_ERROR
    for verb, *times in (("absent", NOW), ("add_if_absent", NOW, NOW + DAY)):
        # One more than are asked for in one call.
        with pytest.raises(StoreBatchError, match=says) as caught:
            getattr(store, verb)(craft(of, *((shard, (1, 2)) for shard in range(ROWS + 1))), *times)
        assert caught.value.done.tolist() == [True] * ROWS + [False]
        assert caught.value.answers.sum() == ROWS


@pytest.mark.parametrize("kind", [2, 1])
@pytest.mark.parametrize("layout", ["native", "java"])
def test_cells_go_when_storage_expiry_says(
    connected: Callable[..., HBaseContext], reader: Any, client_id: str, kind: int, layout: str
) -> None:
    """R10, row 2: with an ``expiry_seconds`` of 1 they are gone after a second, whatever the logical expiry was."""
    store = HBaseDataStore(connected(kind), client_id)
    table, key = reader.table("stored"), RowKeys(client_id, "orders")(5)
    now = time.time_ns() // 1_000_000
    store.add(craft(deduper(client_id, layout, expiry_seconds=1), ROW), now, now + 10)
    assert len(table.row(key)) == 4, "gone before its storage expiry"
    deadline = time.monotonic() + 30
    while table.row(key):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.02)  # the clock that matters is the server's
    assert time.time_ns() // 1_000_000 >= now + 1_000


def test_tables(connected: Callable[..., HBaseContext], reader: Any) -> None:
    """256 split keys, GZ, one version, for both levels; two engines that open at once both succeed."""
    names = "tables-256", "dc7_tables-256"
    contexts = [connected(table="tables-256", farm="dc7", splits=256, timeout=60) for _ in range(2)]
    race(*(lambda context=context: HBaseDataStore(context, "shop") for context in contexts))
    for name in names:
        ((family, described),) = reader.table(name).families().items()
        assert family == b"S"
        assert (described["max_versions"], described["compression"]) == (1, b"GZ")
        regions = reader.table(name).regions()
        assert [region["start_key"] for region in regions] == [b"", *(bytes((i,)) for i in range(256))]


def test_a_table_without_the_family(connected: Callable[..., HBaseContext], reader: Any, client_id: str) -> None:
    reader.create_table(client_id, {"x": {}})
    with pytest.raises(StoreError, match=f"table '{client_id}' needs the column family 'S' and has 'x'") as caught:
        HBaseDataStore(connected(table=client_id), "shop")
    assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR


def test_a_table_that_can_not_be_created(connected: Callable[..., HBaseContext]) -> None:
    with pytest.raises(StoreError, match=r"(?i)namespace") as caught:
        HBaseDataStore(connected(namespace="nobody_made_it"), "shop")
    assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("kind", [2, 1])
def test_meta_row(connected: Callable[..., HBaseContext], reader: Any, client_id: str, kind: int) -> None:
    meta = HBaseMetaStore(connected(kind), client_id)
    config = DeDuperConfig(
        hash_functions=9, shards=2_000_000, bits_per_shard=3_000, level=Level.DC, expiry_seconds=77_777
    )
    record = attrs.evolve(
        deduper(client_id), name="Örders", config=config, planned_keys=6, created_at=NOW, updated_at=NOW
    )
    meta.create(record)
    row = reader.table(f"{client_id}_dedupers").row(meta_row_key(client_id, "Örders"))
    row.pop(b"C:claim", None)
    assert row == {
        b"C:name": "Örders".encode(),
        b"C:hf": b"\0\0\0\x09",
        b"C:sh": LONG.pack(2_000_000),
        b"C:bps": struct.pack(">i", 3_000),
        b"C:a": b"\xff",
        b"C:level": b"DC",
        b"C:ctime": LONG.pack(NOW),
        b"C:utime": LONG.pack(NOW),
        b"C:expiry": LONG.pack(77_777),
        b"C:hasher": b"murmur3-md5",
        b"C:layout": b"native",
        b"C:keys": LONG.pack(6),
    }
    meta.set_active("Örders", False, NOW + 1)
    row = reader.table(f"{client_id}_dedupers").row(meta_row_key(client_id, "Örders"))
    assert (row[b"C:a"], row[b"C:utime"]) == (b"\x00", LONG.pack(NOW + 1))


def java_row(reader: Any, client_id: str) -> None:
    reader.table(f"{client_id}_dedupers").put(
        meta_row_key(client_id, "orders"),
        {
            b"C:name": b"orders",
            b"C:hf": b"\0\0\0\7",
            b"C:sh": LONG.pack(1_000_000),
            b"C:bps": struct.pack(">i", 1_000),
            b"C:a": b"\xff",
            b"C:level": b"XDC",
            b"C:ctime": LONG.pack(NOW),
            b"C:utime": LONG.pack(NOW),
        },
    )


@pytest.mark.parametrize("kind", [2, 1])
def test_what_java_registered_and_wrote(
    connected: Callable[..., HBaseContext], reader: Any, client_id: str, kind: int
) -> None:
    """Its record has the default expiry, hasher and layout; its cells are found, and not shortened (R2, R4)."""
    context = connected(kind)
    with SolusEngine.open(context, client_id=client_id, clock=FakeClock(NOW)) as engine:
        java_row(reader, client_id)
        found = engine.get_deduper("orders")
        assert found == deduper(client_id, "java")
        assert (found.hasher, found.created_at) == ("murmur3-md5", NOW)
        assert set(engine.get_active_dedupers()) == {"orders"}
        engine.register("orders")
        with pytest.raises(ConfigMismatchError, match="expiry_seconds"):
            engine.register("orders", DeDuperConfig(expiry_seconds=5))

    store = HBaseDataStore(context, client_id)
    table, key = reader.table("stored"), RowKeys(client_id, "orders")
    table.put(key(1), {b"S:1#ttl": LONG.pack(NOW + 50), b"S:2#ttl": LONG.pack(NOW + 50)})  # no shid
    table.put(key(2), {b"S:\0\0\0\1": b"\xff", b"S:\0\0\0\2": b"\xff", b"S:\0\0\0\3": b"\x00"})
    table.put(key(-3), {b"S:-1#ttl": LONG.pack(NOW + 50), b"S:\xff\xff\xff\xfe": b"\xff"})
    probes = craft(found, (1, (1, 2)), (2, (1, 2)), (2, (1, 3)), (-3, (-1, -2)))
    assert store.absent(probes, NOW + 50).tolist() == [False, False, True, False]
    assert store.absent(probes, NOW + 51).tolist() == [True, False, True, True]
    assert store.add_if_absent(probes, NOW, NOW + 10).tolist() == [False, False, True, False]
    store.add(probes, NOW, NOW + 10)
    assert not store.absent(probes.rows(slice(0, 2)), NOW + 50).any()
    assert store.absent(probes, NOW + 51).tolist() == [True, False, True, True]


def test_a_layout_of_the_future_is_refused(connected: Callable[..., HBaseContext], client_id: str) -> None:
    store = HBaseDataStore(connected(), client_id)
    with pytest.raises(StoreError, match="layout 'v9'"):
        store.absent(craft(deduper(client_id, "v9"), ROW), NOW)


def test_calls_of_single_verbs(connected: Callable[..., HBaseContext], client_id: str, calls: Counter[str]) -> None:
    store, of = HBaseDataStore(connected(), client_id), deduper(client_id)

    def counted(call: Callable[[], object]) -> dict[str, int]:
        calls.clear()
        call()
        return dict(calls)

    assert counted(lambda: store.absent_one(of, *ROW, NOW)) == {"get": 1}
    assert counted(lambda: store.add_if_absent_one(of, *ROW, NOW, NOW + DAY)) == {"get": 1, "checkAndMutate": 1}
    assert counted(lambda: store.add_if_absent_one(of, *ROW, NOW, NOW + DAY)) == {"get": 1}
    assert counted(lambda: store.add_one(of, *ROW, NOW, NOW + DAY)) == {"put": 1}
    java = deduper(f"{client_id}j", "java")
    assert counted(lambda: store.add_one(java, 6, (1, 2), NOW, NOW + DAY)) == {"get": 1, "checkAndMutate": 1}
    assert counted(lambda: store.add_one(java, 6, (1, 2), NOW, NOW + DAY)) == {"get": 1}


def test_calls_of_batches(connected: Callable[..., HBaseContext], client_id: str, calls: Counter[str]) -> None:
    store, of = HBaseDataStore(connected(), client_id), deduper(client_id)
    batch = craft(of, *((shard, (i, i + 1)) for shard in range(500) for i in (0, 10)))
    calls.clear()
    assert store.absent(batch, NOW).all()
    assert dict(calls) == {"getMultiple": 1}
    store.add(batch.rows(slice(0, 500)), NOW, NOW + DAY)
    assert calls["putMultiple"] == 1
    calls.clear()
    assert store.add_if_absent(batch, NOW, NOW + DAY).sum() == 500
    assert dict(calls) == {"getMultiple": 1, "checkAndMutate": 500}
    calls.clear()
    store.absent(craft(of), NOW)
    store.add(craft(of), NOW, NOW + DAY)
    store.add_if_absent(craft(of), NOW, NOW + DAY)
    assert not calls, "R7"


def test_twenty_thousand_in_one_batch(
    connected: Callable[..., HBaseContext], client_id: str, calls: Counter[str]
) -> None:
    """Row 4"""
    store, of = HBaseDataStore(connected(), client_id), deduper(client_id)
    batch = craft(of, *((i, (1, 2, 3, 4, 5, 6, 7)) for i in range(20_000)))
    calls.clear()
    store.add(batch.rows(slice(0, None, 2)), NOW, NOW + DAY)
    assert dict(calls) == {"putMultiple": 5}
    assert store.absent(batch, NOW).tolist() == [False, True] * 10_000


def test_a_layout_that_is_asked_for_is_had_or_refused(connected: Callable[..., HBaseContext], client_id: str) -> None:
    """R13: whoever names a layout relies on it; others take what is recorded."""
    HBaseMetaStore(connected(), client_id).create(deduper(client_id))
    with pytest.raises(ConfigMismatchError, match="layout: registered native, requested java"):
        HBaseMetaStore(connected(layout="java"), client_id).create(deduper(client_id, "java"))
    assert HBaseMetaStore(connected(layout="native"), client_id).create(deduper(client_id)).layout == "native"
    assert HBaseMetaStore(connected(), client_id).create(deduper(client_id, "java")).layout == "native"


def test_connections_that_the_user_opens(hbase_server: HBaseServer, client_id: str) -> None:
    """R24: here those of happybase; and a gateway that is lent stays open."""
    opened: list[Any] = []

    def open_protocol() -> Any:
        opened.append(happybase.Connection(hbase_server.host, hbase_server.port(1)))
        return opened[-1].client._iprot

    config = HBaseConfig(hosts="unused", table="stored", splits=2)
    context = HBaseContext.around(open_protocol, config)
    lent = HBaseContext(context.gateway, config)
    with SolusEngine.open(lent, client_id=client_id) as engine:
        engine.register("orders")
        assert engine.add_if_absent("orders", "a", 60_000)
    lent.close()
    with SolusEngine.open(context, client_id=client_id) as engine:
        assert not engine.check_absence("orders", "a")
    assert opened
    context.close()
    with pytest.raises(StoreError, match="closed"):
        context.gateway.families("stored")
    for connection in opened:
        connection.close()
