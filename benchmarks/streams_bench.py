"""What the sinks for streams add to the calls that they make, what a counter costs, and whether memory stays flat.

    python benchmarks/streams_bench.py [--host HOST] [--port PORT] [--rounds N]
    python benchmarks/streams_bench.py --memory [--records N]

Needs a Thrift 2 server of HBase. The first form writes records of four fields and three cells, in turns by the sink
and by the bare thriftpy2 client with as many rows a call, and prints records a second of both and the median ratio;
then counters a second. The second writes a million records and prints the resident memory as it goes.
"""

from __future__ import annotations

import argparse
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from thriftpy2.rpc import make_client

from solus_hbase import HBaseConfig, HBaseContext, connect
from solus_hbase.gateway.stream_calls import stream_calls
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import CounterSink, IdempotentCounterSink, PutSink, Record, TableMapping

TABLE = "streams_bench"
FAMILIES: dict[str, tuple[int, int | None]] = {"data": (3, None), "daily": (1, 604_800)}
PAGE = 4_096
Write = Callable[[list[Record]], None]


def records() -> Iterator[Record]:
    run, number = uuid.uuid4().hex, 0
    while True:
        yield {
            "shorturl": f"http://bit.ly/{run[:6]}{number:07d}",
            "url": f"www.example.com/{number}",
            "name": "kinley",
            "date": "20120816",
        }
        number += 1


def puts(**settings: Any) -> TableMapping:
    columns = {"data": ["url", "name", "date"]}
    return TableMapping(table=TABLE, row_key_field="shorturl", column_families=columns, **settings)


def bare_put(record: Record) -> Any:
    cells = [IDL.TColumnValue(b"data", name.encode(), str(record[name]).encode()) for name in ("url", "name", "date")]
    return IDL.TPut(str(record["shorturl"]).encode(), cells)


def rate(n: int, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return n / (time.perf_counter() - begin)


def flush_size(context: HBaseContext) -> int:
    """Records in one flush of a full buffer."""
    written = 0

    def count(_: Record) -> None:
        nonlocal written
        written += 1

    with PutSink(context, puts(flush_interval=3_600_000)) as sink:
        source = records()
        while not written:
            sink.add(next(source), count)
        return written


def compare(context: HBaseContext, client: Any, rounds: int) -> None:
    size = flush_size(context)
    print(f"a full buffer holds {size} records")

    def by_sink(batch: list[Record]) -> None:
        with PutSink(context, puts(flush_interval=3_600_000)) as sink:
            for record in batch:
                sink.add(record)

    def by_client(batch: list[Record]) -> None:
        for first in range(0, len(batch), size):
            client.putMultiple(TABLE.encode(), [bare_put(record) for record in batch[first : first + size]])

    def one_by_one(batch: list[Record]) -> None:
        with PutSink(context, puts(batch=False)) as sink:
            for record in batch:
                sink.add(record)

    def one_by_one_bare(batch: list[Record]) -> None:
        for record in batch:
            client.put(TABLE.encode(), bare_put(record))

    for name, n, ours, theirs in (
        ("batch", 4 * size, by_sink, by_client),
        ("single", 3_000, one_by_one, one_by_one_bare),
    ):
        seen = [turn(n, ours, theirs) for _ in range(rounds + 1)][1:]  # the first one warms up
        ratio = statistics.median(mine / bare for mine, bare in seen)
        mine, bare = (statistics.median(column) for column in zip(*seen, strict=True))
        print(f"puts, {name:<6}: {mine:8,.0f}/s, bare client {bare:8,.0f}/s, ratio {ratio:.2f}")


def turn(n: int, ours: Write, theirs: Write) -> tuple[float, float]:
    """Records a second of both."""
    one, two = (list(islice(records(), n)) for _ in range(2))
    return rate(n, lambda: ours(one)), rate(n, lambda: theirs(two))


def counters(context: HBaseContext) -> None:
    mapping = TableMapping(
        table=TABLE,
        row_key_field="shorturl",
        column_families={"data": ["clicks"], "daily": ["date"]},
        flush_interval=3_600_000,
    )
    some = list(islice(records(), 1_000))
    with CounterSink(context, mapping) as sink:

        def plain() -> None:
            for record in some:
                sink.add(record)
            sink.flush()

        plain()
        print(f"counters, plain     : {2 * len(some):,} in 1,000 rows, {rate(2 * len(some), plain):8,.0f}/s")
    with IdempotentCounterSink(context, mapping) as idempotent:

        def once(txid: int) -> None:
            with idempotent.transaction(txid, "bench") as transaction:
                for record in some:
                    transaction.add(record)

        once(1)
        print(f"counters, idempotent: the same,            {rate(2 * len(some), lambda: once(2)):8,.0f}/s")
        print(f"  replayed          : nothing to write,    {rate(2 * len(some), lambda: once(2)):8,.0f}/s")


def memory(context: HBaseContext, n: int) -> None:
    source = records()
    with PutSink(context, puts()) as sink:
        begin = time.perf_counter()
        for stage in range(11):
            print(f"{stage * n // 10:>9,} records: {resident() / 2**20:6.1f} MiB, {time.perf_counter() - begin:5.1f} s")
            for record in islice(source, n // 10 if stage < 10 else 0):
                sink.add(record)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    context = connect(HBaseConfig(hosts=options.host, port=options.port, table="unused", timeout=60.0))
    if context.gateway.families(TABLE) is None:
        stream_calls(context, TABLE, what="benchmark").create_table(FAMILIES)
    if options.memory:
        memory(context, options.records)
    else:
        client: Any = make_client(IDL.THBaseService, options.host, options.port, timeout=60_000)
        compare(context, client, options.rounds)
        counters(context)
        client.close()
    context.close()


if __name__ == "__main__":
    main()
