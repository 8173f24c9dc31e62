"""Tables that somebody else created, with settings of their own: here those that ``createTable`` of Thrift 2 takes.

Neither interface has a call that splits a region; but HBase does by itself what a table's settings say.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_hbase import HBaseContext, HBaseDataStore
from solus_hbase.dev_server import HBaseServer

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
POSITIONS = (1, 20, 300, 400, 500, 600, 700)


@pytest.fixture
def store_on(
    hbase_server: HBaseServer, open_context: Callable[..., HBaseContext], create_table: Callable[..., None]
) -> Callable[[dict[bytes, bytes]], tuple[str, HBaseDataStore]]:
    """Creates a data table with these settings; answers its name and a store on it."""

    def make(settings: dict[bytes, bytes]) -> tuple[str, HBaseDataStore]:
        name = f"t{uuid.uuid4().hex}"
        create_table(name, {b"S": {}}, settings)
        context = open_context(hbase_server.port(2), table=name, splits=0, backoff=0.01)
        return name, HBaseDataStore(context, "settings")

    return make


def deduper(layout: str) -> DeDuper:
    return DeDuper(name=uuid.uuid4().hex, client_id="settings", config=DeDuperConfig(), layout=layout)


def test_a_cluster_that_refuses_timestamps_in_the_future(
    store_on: Callable[[dict[bytes, bytes]], tuple[str, HBaseDataStore]],
) -> None:
    """The native layout can't be used there: the first write says so, and which one can."""
    _, store = store_on({b"hbase.hregion.keyvalue.timestamp.slop.millisecs": b"3600000"})
    of = deduper("native")
    for write in (
        lambda: store.add_one(of, 5, POSITIONS, NOW, NOW + DAY),
        lambda: store.add(craft(of, (5, POSITIONS), (6, POSITIONS)), NOW, NOW + DAY),
        lambda: store.add_if_absent_one(of, 5, POSITIONS, NOW, NOW + DAY),
    ):
        with pytest.raises(SolusError, match="register the de-duper with layout=java") as caught:
            write()
        assert caught.value.code is ErrorCode.HBASE_ERROR
        assert not caught.value.in_doubt
    assert store.absent_one(of, 5, POSITIONS, NOW)
    java = deduper("java")
    assert store.add_if_absent_one(java, 5, POSITIONS, NOW, NOW + DAY)
    assert not store.absent_one(java, 5, POSITIONS, NOW + DAY)


@pytest.mark.parametrize("layout", ["native", "java"])
def test_a_region_that_is_split_under_load(
    hbase_server: HBaseServer, store_on: Callable[[dict[bytes, bytes]], tuple[str, HBaseDataStore]], layout: str
) -> None:
    """R2, R5, R23: every answer while regions are split is right or an error, and afterwards all is there."""
    name, store = store_on(
        {
            b"SPLIT_POLICY": b"org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy",
            b"MAX_FILESIZE": b"300000",
            b"MEMSTORE_FLUSHSIZE": b"600000",
            b"hbase.table.sanity.checks": b"false",
        }
    )
    of, done = deduper(layout), threading.Event()
    wrong: list[object] = []
    added: list[tuple[int, tuple[int, ...]]] = []

    def load(number: int) -> None:
        try:
            for i in range(number * 100_000, (number + 1) * 100_000):
                if done.is_set():
                    return
                doubtful = False
                try:
                    won = store.add_if_absent_one(of, i, POSITIONS, NOW, NOW + DAY)
                except StoreError:
                    won, doubtful = False, True
                    store.add_one(of, i, POSITIONS, NOW, NOW + DAY)
                if not (won or doubtful) or store.absent_one(of, i, POSITIONS, NOW):
                    wrong.append(i)
                added.append((i, POSITIONS))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=load, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    deadline, wanted = time.monotonic() + 90, None
    while not wrong and (wanted is None or len(added) < wanted):
        assert time.monotonic() < deadline, f"{len(added)} entities, and no region was split"
        time.sleep(0.02)  # the load is the clock
        # A split makes two regions beside the one that was; the load goes on while and after they take over.
        regions = list(hbase_server.directory.glob(f"data/data/default/{name}/*/.regioninfo"))
        if wanted is None and len(regions) >= 3:
            wanted = len(added) + 500
    done.set()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not store.absent(craft(of, *added), NOW + DAY).any()
    with closing(happybase.Connection(hbase_server.host, hbase_server.port(1), timeout=60_000)) as admin:
        assert len(admin.table(name).regions()) >= 2
