"""What Solus adds to the calls that it makes: its verbs beside the same calls made with the bare thriftpy2 client.

    python benchmarks/hbase_bench.py [--host HOST] [--port PORT] [--seconds S]
    python benchmarks/hbase_bench.py --disk [--keys N]

The second form starts an HBase of its own and says how many bytes of disk a key takes after a major compaction: one
copy, native layout, 7 functions of 1,000 positions, for shards that hold one key and many.

The first needs a Thrift 2 server of HBase. For each verb, with one thread and with 8, and for batches: entities a
second, p50 and p99 of one call in ms, both of Solus (engine and hashing included) and of the bare client, and the
ratio of the rates. Both make the same calls on rows and cells of the same size, in turns.
"""

from __future__ import annotations

import argparse
import struct
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import happybase  # type: ignore[import-untyped]  # it has no types
import numpy as np
from thriftpy2.rpc import make_client

from solus_core import DeDuperConfig, SolusEngine
from solus_core.model import DeDuper
from solus_core.testing import craft
from solus_hbase import HBaseConfig, HBaseDataStore, connect
from solus_hbase.dev_server import HBaseServer
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.layout import RowKeys

DAY = 86_400_000
TABLE = b"bench"
LONG = struct.Struct(">q")
Work = Callable[[int], object]
"""One call on new entities, numbered from there."""


class Bare:
    """The calls themselves, on random rows."""

    def __init__(self, host: str, port: int) -> None:
        self._client: Any = make_client(
            IDL.THBaseService,
            host,
            port,
            timeout=60_000,
        )
        self._keys = RowKeys("bench", uuid.uuid4().hex)
        self._random = np.random.default_rng()

    def _row(self) -> tuple[bytes, list[bytes]]:
        shard, *positions = self._random.integers(0, 1_000, 8).tolist()
        return self._keys(shard * 1_000 + positions[0]), [b"%d#ttl" % position for position in set(positions)]

    def _get(self) -> Any:
        row, names = self._row()
        return IDL.TGet(row, [IDL.TColumn(b"S", name) for name in names])

    def _put(self) -> Any:
        row, names = self._row()
        until = time.time_ns() // 1_000_000 + DAY
        cells = [IDL.TColumnValue(b"S", name, LONG.pack(until)) for name in [*names, b"shid"]]
        return IDL.TPut(row, cells, until, {b"_ttl": LONG.pack(9 * DAY)})

    def check(self, n: int) -> None:
        if n == 1:
            self._client.get(TABLE, self._get())
        else:
            for first in range(0, n, 2_000):
                self._client.getMultiple(TABLE, [self._get() for _ in range(min(2_000, n - first))])

    def add(self, n: int) -> None:
        if n == 1:
            self._client.put(TABLE, self._put())
        else:
            for first in range(0, n, 2_000):
                self._client.putMultiple(TABLE, [self._put() for _ in range(min(2_000, n - first))])

    def add_if_absent(self, n: int) -> None:
        self.check(n)
        for _ in range(n):
            put = self._put()
            mutations = IDL.TRowMutations(put.row, [IDL.TMutation(put)])
            witness = put.columnValues[0].qualifier
            self._client.checkAndMutate(TABLE, put.row, b"S", witness, IDL.TCompareOp.EQUAL, b"", mutations)


def measure(works: list[Work], n: int, seconds: float) -> tuple[float, float, float]:
    """Entities a second, p50 and p99 in ms, of one thread for each of ``works``."""
    took: list[list[float]] = [[] for _ in works]
    stop = time.perf_counter() + seconds

    def run(i: int) -> None:
        number = 0
        while not took[i] or time.perf_counter() < stop:
            begin = time.perf_counter()
            works[i](number)
            took[i].append(time.perf_counter() - begin)
            number += n

    begin = time.perf_counter()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = np.concatenate([np.array(one) for one in took]) * 1_000
    return len(every) * n / (time.perf_counter() - begin), *np.percentile(every, (50, 99)).tolist()


def solus(engine: SolusEngine, verb: str, n: int) -> Work:
    handle, run = engine.deduper("bench"), uuid.uuid4().hex
    call: Any = getattr(handle, verb if n == 1 else f"{verb}_many")
    ttl = () if verb == "check_absence" else (DAY,)
    if n == 1:
        return lambda number: call(f"{run}-{number}", *ttl)
    return lambda number: call([f"{run}-{number + i}" for i in range(n)], *ttl)


def repeated(call: Callable[[int], None], n: int) -> Work:
    return lambda _: call(n)


def on_disk(keys: int) -> None:
    """Bytes of the table's files over the number of keys, of TTLs of 1 to 2 days."""
    print("| keys | keys a shard | bytes a key, GZ | uncompressed |\n|---:|---:|---:|---:|")
    with HBaseServer() as server, closing(happybase.Connection(server.host, server.port(1), timeout=600_000)) as admin:
        for a_shard in (1, 10, 50):
            sizes = [
                keys_on_disk(server, admin, f"disk-{compression}-{a_shard}", keys, a_shard, compression) / keys
                for compression in ("GZ", "NONE")
            ]
            print(f"| {keys:,} | {a_shard} | {sizes[0]:.0f} | {sizes[1]:.0f} |", flush=True)


def keys_on_disk(server: HBaseServer, admin: Any, table: str, keys: int, a_shard: int, compression: str) -> int:
    address = f"{server.host}:{server.port(2)}"
    context = connect(HBaseConfig(hosts=address, table=table, splits=0, compression=compression, timeout=60))
    store = HBaseDataStore(context, "bench")
    of = DeDuper(name="orders", client_id="bench", config=DeDuperConfig(), layout="native")
    random, now = np.random.default_rng(7), time.time_ns() // 1_000_000
    # In use keys come at any time; here ten share one.
    for first in range(0, keys, 10):
        shards = random.integers(0, max(1, keys // a_shard), 10).tolist()
        positions = random.integers(0, 1_000, (10, 7)).tolist()
        store.add(craft(of, *zip(shards, positions, strict=True)), now, now + int(random.integers(DAY, 2 * DAY)))
        if first == keys // 20 * 10:
            reopen(admin, table)
    reopen(admin, table)
    deadline = time.monotonic() + 180
    # HBase compacts a region that it opens with three files or more, here all of them, which is a major compaction;
    # the files that were replaced go as the region is closed.
    while len(files := files_of(server, table)) != 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{table} was not compacted")
        store.add(craft(of, (keys, (1,))), now, now + DAY)
        reopen(admin, table)
        time.sleep(3)
        reopen(admin, table)
    context.close()
    return sum(file.stat().st_size for file in files)


def files_of(server: HBaseServer, table: str) -> set[Path]:
    return set(server.directory.glob(f"data/data/default/{table}/*/S/*"))


def reopen(admin: Any, table: str) -> None:
    """Writes what is in memory into files."""
    admin.disable_table(table)
    admin.enable_table(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--keys", type=int, default=100_000)
    options = parser.parse_args()
    if options.disk:
        on_disk(options.keys)
        return
    context = connect(HBaseConfig(hosts=f"{options.host}:{options.port}", table="bench", gateway="thrift2", timeout=60))
    bare = [Bare(options.host, options.port) for _ in range(8)]
    print("| verb | entities a call | threads | Solus /s | p50 ms | p99 ms | bare /s | p50 ms | p99 ms | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    with SolusEngine.open(context, client_id="bench") as engine:
        engine.register("bench")
        for n, threads in ((1, 1), (1, 8), (1_000, 1), (10_000, 1)):
            for verb, name in (("check_absence", "check"), ("add", "add"), ("add_if_absent", "add_if_absent")):
                measure([solus(engine, verb, n)], n, 1.0)  # the server compiles what is used often
                rates = []
                for _ in range(2):  # in turns: the machine may be busier now than then
                    ours = measure([solus(engine, verb, n) for _ in range(threads)], n, options.seconds / 2)
                    theirs = measure(
                        [repeated(getattr(one, name), n) for one in bare[:threads]], n, options.seconds / 2
                    )
                    rates.append((*ours, *theirs))
                row = np.mean(np.array(rates), axis=0)
                shown = " | ".join(f"{figure:,.{0 if i % 3 == 0 else 2}f}" for i, figure in enumerate(row))
                print(f"| {verb} | {n:,} | {threads} | {shown} | {row[0] / row[3]:.0%} |", flush=True)
    context.close()


if __name__ == "__main__":
    main()
