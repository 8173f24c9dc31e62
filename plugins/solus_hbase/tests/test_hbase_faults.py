"""Servers that die, connections that are cut: every answer is right or an error, never wrong (R23)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, final

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.testing import Load, craft
from solus_hbase import HBaseContext, HBaseDataStore, HBaseMetaStore
from solus_hbase.dev_server import HBaseServer

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000


@final
class Proxy:
    """Passes TCP on to ``port`` and back, until told otherwise. ``cut_after``: bytes of answers yet to pass."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut_after: int | None = None
        self.accepted = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def hang_up(self) -> None:
        """As a server does with connections that were idle for long."""
        while self._open:
            one = self._open.pop()
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(30)

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self.accepted += 1
                self._open += [client, server]
                self._start(self._pass_on, client, server, False)
                self._start(self._pass_on, server, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if answers and self.cut_after is not None:
                    data, self.cut_after = data[: self.cut_after], self.cut_after - len(data)
                    if self.cut_after <= 0:
                        self.cut_after = None
                        target.sendall(data)
                        break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(hbase_server: HBaseServer) -> Iterator[Proxy]:
    made = Proxy(hbase_server.port(2))
    yield made
    made.close()


@pytest.fixture
def opened(open_context: Callable[..., HBaseContext]) -> Callable[..., HBaseContext]:
    return partial(open_context, table="faults", splits=4)


def deduper(layout: str = "native", **config: Any) -> DeDuper:
    return DeDuper(name=uuid.uuid4().hex, client_id="faults", config=DeDuperConfig(**config), layout=layout)


def test_idle_connections_that_the_server_closed(proxy: Proxy, opened: Callable[..., HBaseContext]) -> None:
    """Row 1: the next call of any kind works, without a second try of it."""
    store, of = HBaseDataStore(opened(proxy.port, attempts=1), "faults"), deduper()
    batch = craft(of, (5, (1, 2)), (6, (1, 2)))
    calls: tuple[tuple[Callable[[], object], object], ...] = (
        (lambda: store.add_one(of, 5, (1, 2), NOW, NOW + DAY), None),
        (lambda: store.absent_one(of, 5, (1, 2), NOW), False),
        (lambda: store.add_if_absent_one(of, 6, (1, 2), NOW, NOW + DAY), True),
        (lambda: store.absent(batch, NOW).tolist(), [False, False]),
    )
    for call, expected in calls:
        before = proxy.accepted
        proxy.hang_up()
        assert call() == expected
        assert proxy.accepted > before


@pytest.mark.parametrize("cut_after", [0, 1, 10, 20])
def test_cut_in_the_middle_of_an_answer(proxy: Proxy, opened: Callable[..., HBaseContext], cut_after: int) -> None:
    """R23: all is repeated silently; an add_if_absent whose first try was applied finds that out."""
    store, of = HBaseDataStore(opened(proxy.port), "faults"), deduper()
    proxy.cut_after = cut_after
    store.add_one(of, 5, (1, 2), NOW, NOW + DAY)
    proxy.cut_after = cut_after
    assert not store.absent_one(of, 5, (1, 2), NOW)
    probes = craft(of, (8, (1, 2)), (9, (1, 2)))
    proxy.cut_after = cut_after
    assert store.absent(probes, NOW).all()

    held = store._read_one(store._place(of), 7, (1, 2))
    proxy.cut_after = cut_after
    assert store._writer.win(store._place(of), 7, held, (1, 2), NOW, NOW + DAY, time.monotonic())
    assert not store.add_if_absent_one(of, 7, (1, 2), NOW, NOW + DAY)


def test_no_answer_to_a_write_is_doubt(proxy: Proxy, opened: Callable[..., HBaseContext]) -> None:
    """R23: it was applied, and that can't be known."""
    store, of = HBaseDataStore(opened(proxy.port, attempts=1), "faults"), deduper()
    held = store._read_one(store._place(of), 7, (1, 2))
    proxy.cut_after = 0
    with pytest.raises(StoreError) as caught:
        store._writer.win(store._place(of), 7, held, (1, 2), NOW, NOW + DAY, time.monotonic())
    assert caught.value.in_doubt
    assert caught.value.code is ErrorCode.HBASE_ERROR
    assert caught.value.__cause__ is not None
    assert not store.absent_one(of, 7, (1, 2), NOW)


def test_cut_before_the_server_heard_of_it(proxy: Proxy, opened: Callable[..., HBaseContext]) -> None:
    """R23: nobody can be reached: an error, in bounded time, that is no doubt; and it heals."""
    store, of = HBaseDataStore(opened(proxy.port, attempts=2), "faults"), deduper()
    proxy.close()
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.absent_one(of, 5, (1, 2), NOW),
        lambda: store.add_one(of, 5, (1, 2), NOW, NOW + DAY),
        lambda: store.add_if_absent_one(of, 5, (1, 2), NOW, NOW + DAY),
    )
    for call in calls:
        with pytest.raises(StoreError, match=r"no Thrift server of HBase can be reached: 127\.0\.0\.1") as caught:
            call()
        assert not caught.value.in_doubt
        assert isinstance(caught.value.__cause__, OSError)


def test_hosts_are_tried_in_turn(proxy: Proxy, hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    store, of = HBaseDataStore(opened(closed, proxy.port, hbase_server.port(2)), "faults"), deduper()
    assert store.add_if_absent_one(of, 5, (1, 2), NOW, NOW + DAY)
    proxy.close()
    for _ in range(4):
        assert not store.absent_one(of, 5, (1, 2), NOW)


def test_no_answer_in_time(opened: Callable[..., HBaseContext]) -> None:
    """A server that takes the call and says nothing, as one of another transport does: what to try is said."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(StoreError, match=r"\(no answer in time\).*transport=framed&protocol=binary"),
    ):
        opened(silent.getsockname()[1], timeout=0.2)


@pytest.mark.parametrize("kind", [1, 2])
def test_the_other_interface(hbase_server: HBaseServer, opened: Callable[..., HBaseContext], kind: int) -> None:
    with pytest.raises(StoreError, match=f"speaks thrift{kind}: set gateway=thrift{kind}"):
        opened(hbase_server.port(kind), gateway=f"thrift{3 - kind}")
    context = opened(hbase_server.port(kind), gateway=f"thrift{kind}")
    level = HBaseDataStore(context, "faults").atomicity
    assert level is (Atomicity.CLUSTER if kind == 2 else Atomicity.NONE)


def test_other_transports(hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    """Framed and compact work where the server was started so, and what doesn't fit says what to try."""
    name, port = hbase_server.start_gateway(2, framed=True, compact=True)
    try:
        context = opened(port, transport="framed", protocol="compact")
        store, of = HBaseDataStore(context, "faults"), deduper()
        rows = [(shard, tuple(range(0, 700, 100))) for shard in range(5_000)]
        assert store.add_if_absent(craft(of, *rows[:50]), NOW, NOW + DAY).all()
        store.add(craft(of, *rows), NOW, NOW + DAY)
        assert not store.absent(craft(of, *rows), NOW).any()
        for transport, protocol in (("buffered", "binary"), ("framed", "binary"), ("buffered", "compact")):
            with pytest.raises(StoreError, match="transport=framed&protocol=compact"):
                opened(port, transport=transport, protocol=protocol, timeout=1)
    finally:
        hbase_server.kill(name)


def test_a_table_that_vanished(hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    """R22: the first line of what the server says, once, without a stack; and no retries, which can't help."""
    store, of = HBaseDataStore(opened(hbase_server.port(2), table="vanishing", backoff=60), "faults"), deduper()
    with contextlib.closing(happybase.Connection("127.0.0.1", hbase_server.port(1))) as admin:
        admin.delete_table("vanishing", disable=True)
    for call in (
        lambda: store.absent_one(of, 5, (1, 2), NOW),
        lambda: store.add_one(of, 5, (1, 2), NOW, NOW + DAY),
        lambda: store.add_if_absent(craft(of, (5, (1, 2))), NOW, NOW + DAY),
    ):
        with pytest.raises(SolusError) as caught:
            call()
        assert caught.value.code is ErrorCode.HBASE_ERROR
        assert "vanishing" in caught.value.message
        assert "\n" not in caught.value.message
        assert caught.value.__cause__ is not None


def test_the_gateway_restarted_under_load(hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    store, of = HBaseDataStore(opened(hbase_server.port(2), attempts=2, backoff=0.01), "faults"), deduper()
    with Load(store, of, NOW, NOW + DAY) as load:
        load.wait_for(100)
        hbase_server.kill("thrift2")
        hbase_server.start("thrift2")
        load.wait_for(100)
    load.check()


@pytest.mark.parametrize("layout", ["native", "java"])
def test_regions_closed_and_opened_under_load(
    hbase_server: HBaseServer, opened: Callable[..., HBaseContext], layout: str
) -> None:
    """What a move does to the clients of a region."""
    store, of = HBaseDataStore(opened(hbase_server.port(2), table="moving", attempts=2), "faults"), deduper(layout)
    with (
        contextlib.closing(happybase.Connection("127.0.0.1", hbase_server.port(1))) as admin,
        Load(store, of, NOW, NOW + DAY) as load,
    ):
        for _ in range(3):
            load.wait_for(50)
            reopen(admin, "moving")
        load.wait_for(50)
    load.check()


def test_hbase_killed_and_restarted_under_load(hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    """R2: what was added with a long TTL outlives SIGKILL, with the de-dupers, and the load goes on."""
    context = opened(hbase_server.port(2), table="killed", attempts=2, backoff=0.01, splits=0)
    store, meta, of = HBaseDataStore(context, "faults"), HBaseMetaStore(context, "faults"), deduper()
    meta.create(of)
    long_lived = craft(of, *((-i, (1, 2, 3)) for i in range(1, 500)))
    store.add(long_lived, NOW, NOW + 9 * DAY)
    with Load(store, of, NOW, NOW + DAY) as load:
        load.wait_for(100)
        hbase_server.kill("master")
        hbase_server.start("master")
        # ZooKeeper began anew: gateways that knew the old one may wait for it for minutes.
        hbase_server.kill("thrift1", "thrift2")
        hbase_server.start("thrift1", "thrift2")
        load.wait_for(100)
    load.check()
    assert not store.absent(long_lived, NOW + 9 * DAY).any()
    assert meta.get(of.name) == of


def test_storage_shrinks_and_keeps_what_lives(hbase_server: HBaseServer, opened: Callable[..., HBaseContext]) -> None:
    """Row 11, R2, R10: after a flush and a major compaction the expired are gone, and the long-lived are not."""
    store = HBaseDataStore(opened(hbase_server.port(2), table="compacted", splits=0), "faults")
    long, short = deduper(), deduper(expiry_seconds=8)
    long_lived = craft(long, *((i, (1, 2, 3)) for i in range(300)))
    store.add(long_lived, NOW, NOW + 9 * DAY)
    now = time.time_ns() // 1_000_000
    store.add(craft(short, *((i, range(7)) for i in range(4_000))), now, now + 10)
    with contextlib.closing(happybase.Connection("127.0.0.1", hbase_server.port(1), timeout=60_000)) as admin:
        reopen(admin, "compacted")
        before = stored(hbase_server.directory, "compacted")
        assert before > 50_000
        assert not store.absent(long_lived, NOW + 9 * DAY).any()
        deadline = time.monotonic() + 60
        while (after := stored(hbase_server.directory, "compacted")) > before / 3:
            assert time.monotonic() < deadline, f"{before} bytes before, {after} after the compactions"
            # One more file each time: a compaction leaves a file alone that is the only one.
            store.add(craft(long, (len(long_lived), (1, 2))), NOW, NOW + 9 * DAY)
            reopen(admin, "compacted")
            admin.compact_table("compacted", major=True)
            time.sleep(0.5)  # storage expiry is by the server's clock, and a compaction tells nobody of its end
    assert not store.absent(long_lived, NOW + 9 * DAY).any()


def reopen(admin: Any, table: str) -> None:
    """Closing a region writes what is in its memory into a file, and removes the files that a compaction replaced."""
    admin.disable_table(table)
    admin.enable_table(table)


def stored(directory: Path, table: str) -> int:
    """Bytes in the files of a table."""
    files = [path for path in directory.glob(f"data/data/default/{table}/*/S/*") if path.is_file()]
    return sum(path.stat().st_size for path in files)
