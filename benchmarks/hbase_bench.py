"""What Solus adds to the calls that it makes: its verbs beside the same calls made with the bare thriftpy2 client.

    python benchmarks/hbase_bench.py [--host HOST] [--port PORT] [--seconds S]

Needs a Thrift 2 server of HBase. For each verb, with one thread and with 8, and for batches: entities a second,
p50 and p99 of one call in ms, both of Solus (engine and hashing included) and of the bare client, and the ratio of
the rates. Both make the same calls on rows and cells of the same size, in turns.
"""

from __future__ import annotations

import argparse
import struct
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from thriftpy2.rpc import make_client

from solus_core import SolusEngine
from solus_hbase import HBaseConfig, connect
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
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
