"""What Solus adds to the calls that it makes: its verbs beside the same calls made with the bare Aerospike client.

    python benchmarks/aerospike_bench.py [--host HOST] [--port PORT] [--namespace NAMESPACE] [--seconds S]
    python benchmarks/aerospike_bench.py --memory [...]

For each verb and layout, single and in batches, by positions that the record has already: entities a second, p50 and
p99 of one call in ms, of Solus (engine and hashing included); p50 of the bare client, and of the bare client with keys,
operations and policies made beforehand; and the ratios of these to ours. All send the same operations to the same
records, in turns, call by call. Every entity is absent when it is added, and none adds a position: the records keep
their size.

The second form says how many bytes a key takes, in the data and in the primary index, for shards that hold one key and
many.
"""

from __future__ import annotations

import argparse
import gc
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any, final

import numpy as np
from aerospike.exception import RecordNotFound
from aerospike_helpers.batch.records import (  # type: ignore[import-untyped]  # it has no types
    BatchRecords,
    Read,
    Write,
)
from aerospike_helpers.operations.expression_operations import (  # type: ignore[import-untyped]  # as above
    expression_read,
)
from numpy.typing import NDArray

from solus_aerospike import AerospikeConfig, AerospikeContext, connect
from solus_aerospike.bins_layout import BinsLayout
from solus_aerospike.config import BINS, MAP
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.map_layout import MapLayout
from solus_aerospike.places import Places
from solus_core import DeDuperConfig, SolusEngine
from solus_core.hashing import MurmurMd5Hasher
from solus_core.hookspecs import API_VERSION, hookimpl
from solus_core.model import DeDuper
from solus_core.plugins import PluginManager
from solus_core.stores import Hasher
from solus_core.testing import craft

DAY = 86_400_000
FARM = "dc1"
VERBS = ("check_absence", "add", "add_if_absent")


@final
class Few:
    """Hashes to some shards and positions only, so that records of a known size are hit."""

    def __init__(self, records: int, positions: int) -> None:
        self.name = f"few-{records}-{positions}"
        self.records, self.count = records, positions
        self._hasher = MurmurMd5Hasher()

    def of(self, bits: int) -> NDArray[np.int32]:
        """All positions that there are."""
        return (np.arange(self.count) * (bits // self.count)).astype(np.int32)

    def probe(self, data: bytes, config: DeDuperConfig) -> tuple[int, Sequence[int]]:
        shard, positions = self._hasher.probe(data, config)
        step = config.bits_per_shard // self.count
        return shard % self.records, [position % self.count * step for position in positions]

    def probes(self, data: Sequence[bytes], config: DeDuperConfig) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        shards, positions = self._hasher.probes(data, config)
        return shards % self.records, positions % self.count * (config.bits_per_shard // self.count)


@final
class Plugin:
    """Offers a hasher."""

    SOLUS_API_VERSION = API_VERSION

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher

    @hookimpl
    def solus_hashers(self) -> Iterable[Hasher]:
        return [self._hasher]


Entities = list[tuple[int, list[int]]]
Asked = tuple[tuple[str, str, str], list[Any], dict[str, Any]]
"""Key, operations, and policy, empty for a read."""


@final
class Bare:
    """The same calls, made with the driver alone: expressions built for each with the helpers that come with it."""

    def __init__(self, context: AerospikeContext, of: DeDuper, hasher: Few) -> None:
        places = Places(context, of.client_id)
        self._place = places.in_maps(of) if of.layout == MAP else places.in_bins(of)
        self._client, self._policy, self._hasher = context.client, context.policy(), hasher
        self._of, self._random = of, np.random.default_rng(1)

    def _layout(self) -> MapLayout | BinsLayout:
        """A new one has no expression built yet."""
        return MapLayout(FARM, self._of.config.bits_per_shard) if self._of.layout == MAP else BinsLayout(FARM)

    def entities(self, n: int) -> Entities:
        shards = self._random.integers(0, self._hasher.records, n).tolist()
        config = self._of.config
        positions = self._random.choice(self._hasher.of(config.bits_per_shard), (n, config.hash_functions)).tolist()
        return [(shard, list(set(some))) for shard, some in zip(shards, positions, strict=True)]

    def check_absence(self, entities: Entities, now: int, _: int) -> list[Asked]:
        return [
            (self._place.key(shard), [expression_read("absent", self._layout().absent((FARM,), some, now))], {})
            for shard, some in entities
        ]

    def add(self, entities: Entities, _: int, end: int) -> list[Asked]:
        ours = self._place.options[0]
        return [(self._place.key(shard), self._layout().writes(some, end), ours) for shard, some in entities]

    def add_if_absent(self, entities: Entities, now: int, end: int) -> list[Asked]:
        asked = []
        for shard, some in entities:
            operations, guard = self._layout().guarded((FARM,), some, now, end)
            asked.append((self._place.key(shard), operations, {**self._place.options[0], **guard}))
        return asked

    def send(self, asked: list[Asked]) -> None:
        if len(asked) == 1:
            key, operations, options = asked[0]
            try:
                self._client.operate(key, operations, policy=self._policy | options)
            except RecordNotFound:
                return
        else:
            records = [Write(*one[:2], policy=one[2]) if one[2] else Read(*one[:2]) for one in asked]
            self._client.batch_write(BatchRecords(records), self._policy)


def fill(context: AerospikeContext, of: DeDuper, hasher: Few, long_ago: int) -> None:
    """Each record with all positions that there are, expired."""
    layout = MapLayout(FARM, of.config.bits_per_shard) if of.layout == MAP else BinsLayout(FARM)
    places = Places(context, of.client_id)
    place = places.in_maps(of) if of.layout == MAP else places.in_bins(of)
    positions = hasher.of(of.config.bits_per_shard).tolist()
    for shard in range(hasher.records):
        for first in range(0, len(positions), 1_000):
            operations = layout.writes(positions[first : first + 1_000], long_ago)
            context.client.operate(place.key(shard), operations, policy=context.policy(**place.options[0]))


def measure(calls: Sequence[Callable[[], object]], seconds: float) -> NDArray[np.float64]:
    """A row for each of the calls: seconds that it took each time, made in turns."""
    took: list[list[float]] = []
    stop = time.perf_counter() + seconds
    while len(took) < 10 or time.perf_counter() < stop:
        times = [time.perf_counter()]
        for call in calls:
            call()
            times.append(time.perf_counter())
        took.append(np.diff(times).tolist())
    kept: NDArray[np.float64] = np.array(took[len(took) // 10 :]).T
    return kept


def compare(context: AerospikeContext, layout: str, bits: int, count: int, seconds: float) -> None:
    """The rows of the table for records with ``count`` positions."""
    hasher = Few((10 if count > 1_000 else 50) if layout == BINS else 100, count)
    plugins = PluginManager.load()
    plugins.register(Plugin(hasher), "bench")
    config = DeDuperConfig(bits_per_shard=bits)
    name, clock = uuid.uuid4().hex, [time.time_ns() // 1_000_000]

    def tick() -> int:
        # What was added a call ago, for a millisecond, has expired.
        clock[0] += 2
        return clock[0]

    with SolusEngine.open(context, client_id="bench", hasher=hasher.name, clock=tick, plugins=plugins) as engine:
        engine.register(name, config)
        of = DeDuper(name=name, client_id="bench", config=config, layout=layout)
        fill(context, of, hasher, clock[0] - DAY)
        bare = Bare(context, of, hasher)
        for n in (1, 100, 1_000):
            for verb in VERBS:
                calls = calls_of(engine.deduper(name), bare, verb, n, tick)
                # What was made beforehand is large: looking for garbage in it would be counted as time of the calls.
                gc.collect()
                gc.freeze()
                took = measure(calls, seconds)
                gc.unfreeze()
                p50, p99 = np.percentile(took * 1_000, (50, 99), axis=1)
                cells = [f"{n / took[0].mean():,.0f}", f"{p50[0]:.3f}", f"{p99[0]:.3f}"]
                cells += [f"{p50[1]:.3f}", f"{p50[1] / p50[0]:.0%}", f"{p50[2]:.3f}", f"{p50[2] / p50[0]:.0%}"]
                print(f"| {layout} | {bits:,} | {count:,} | {verb} | {n:,} | {' | '.join(cells)} |", flush=True)


def calls_of(handle: Any, bare: Bare, verb: str, n: int, tick: Callable[[], int]) -> Sequence[Callable[[], object]]:
    """Ours, the bare client's, and the bare client's with everything made beforehand."""
    call = getattr(handle, verb if n == 1 else f"{verb}_many")
    ttl = () if verb == "check_absence" else (1,)
    build = getattr(bare, verb)
    entities = cycle([[f"{i}-{j}" for j in range(n)] for i in range(20)])
    known = cycle([bare.entities(n) for _ in range(20)])
    # Absent at a time that never comes, and written with an expiry that changes nothing.
    ready = cycle([build(bare.entities(n), tick() + DAY, 1) for _ in range(20)])

    def ours() -> None:
        some = next(entities)
        call(some[0] if n == 1 else some, *ttl)

    def built() -> None:
        now = tick()
        bare.send(build(next(known), now, now + 1))

    return ours, built, lambda: bare.send(next(ready))


def in_memory(context: AerospikeContext, keys: int) -> None:
    """Growth of the data set over the number of keys."""
    print("| layout | keys | keys a shard | bytes a key |\n|---|---:|---:|---:|")
    for layout in (MAP, BINS):
        for a_shard in (1, 10, 50):
            of = DeDuper(name=uuid.uuid4().hex, client_id="bench", config=DeDuperConfig(), layout=layout)
            store = AerospikeDataStore(context, "bench")
            random, now = np.random.default_rng(7), time.time_ns() // 1_000_000
            store.add(craft(of, (-1, (1,))), now, now + DAY)
            before = used(context)
            for _ in range(0, keys, 1_000):
                shards = random.integers(0, max(1, keys // a_shard), 1_000).tolist()
                positions = random.integers(0, 1_000, (1_000, 7)).tolist()
                store.add(craft(of, *zip(shards, positions, strict=True)), now, now + DAY)
            print(f"| {layout} | {keys:,} | {a_shard} | {(used(context) - before) / keys:.0f} |", flush=True)


def used(context: AerospikeContext) -> int:
    """Bytes of the data set: its records, and 64 for each in the index."""
    answers = context.client.info_all(f"sets/{context.config.namespace}/{context.config.set}").values()
    told = [dict(item.partition("=")[::2] for item in text.rpartition("\t")[2].split(":")) for _, text in answers]
    return sum(int(of["data_used_bytes"]) + 64 * int(of["objects"]) for of in told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--namespace", default="test")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--keys", type=int, default=100_000)
    options = parser.parse_args()

    def opened(layout: str) -> AerospikeContext:
        hosts, of = f"{options.host}:{options.port}", f"b{uuid.uuid4().hex[:12]}"
        settings = AerospikeConfig(
            hosts=hosts, namespace=options.namespace, set=of, farm=FARM, layout=layout, timeout=15
        )
        return connect(settings)

    if options.memory:
        in_memory(opened(MAP), options.keys)
        return
    print(
        "| layout | bits a shard | positions | verb | a call | Solus /s | p50 ms | p99 ms | bare p50 | ratio ", end=""
    )
    print("| ready-made p50 | ratio |\n|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for layout in (MAP, BINS):
        for bits, count in (
            (1_000, 100),
            (1_000, 1_000),
            (30_000, 100),
            (30_000, 1_000),
            (30_000, 10_000),
            (30_000, 25_000),
        ):
            context = opened(layout)
            compare(context, layout, bits, count, options.seconds)
            context.client.truncate(options.namespace, context.config.set, 0)
            context.close()


if __name__ == "__main__":
    main()
