"""The in-memory backend beside a dict of expiries and cachebox.VTTLCache: speed and bytes a key.

Run ``python benchmarks/memory_bench.py [--quick]``; needs solus-core, solus-memory and cachebox. All ways see the
same stream in one run: UUID texts, 9 of 10 new. Speeds are millions of entities a second, per CPU-second and by
the wall; ratios are of CPU time. "dense" is a table of 10 million positions (40 MB), a size that validation
refuses and this script forces, so that a million keys are design load; "sparse" is the default config.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import cachebox
import numpy as np

from solus_core import DeDuperConfig, SolusEngine
from solus_memory import MemoryConfig, connect

BATCH = 10_000
TTL = 3_600_000
HASHERS = ("murmur3-md5", "murmur3-double")


def stream(n: int) -> list[str]:
    """Every tenth is one of the batch before, the others are new."""
    rng = random.Random(1)
    out: list[str] = []
    for i in range(n):
        again = i >= 2 * BATCH and i % 10 == 9
        out.append(out[i - BATCH - rng.randrange(BATCH)] if again else str(uuid.UUID(int=rng.getrandbits(128))))
    return out


def batches(keys: list[str]) -> list[list[str]]:
    return [keys[i : i + BATCH] for i in range(0, len(keys), BATCH)]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU and of the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def dict_single(keys: list[str]) -> Callable[[], object]:
    seen: dict[str, int] = {}

    def work() -> None:
        for key in keys:
            now = int(time.time() * 1_000)
            expiry = seen.get(key)
            if expiry is None or expiry < now:
                seen[key] = now + TTL

    return work


def dict_batch(keys: list[str]) -> Callable[[], object]:
    seen: dict[str, int] = {}

    def work() -> None:
        for batch in batches(keys):
            now = int(time.time() * 1_000)
            answers = {}
            for key in batch:
                expiry = seen.get(key)
                answers[key] = expiry is None or expiry < now
                if answers[key]:
                    seen[key] = now + TTL

    return work


def cache_single(keys: list[str]) -> Callable[[], object]:
    cache: Any = cachebox.VTTLCache(0)

    def work() -> None:
        for number, key in enumerate(keys):
            _ = cache.setdefault(key, number, ttl=3_600.0) == number

    return work


def cache_batch(keys: list[str]) -> Callable[[], object]:
    cache: Any = cachebox.VTTLCache(0)

    def work() -> None:
        for start, batch in enumerate(batches(keys)):
            _ = {key: cache.setdefault(key, start, ttl=3_600.0) == start for key in batch}

    return work


def open_engine(hasher: str, form: str) -> tuple[SolusEngine, Any]:
    """An engine and its table; a dense one is filled to a third first, where it is the smaller form."""
    context = connect(MemoryConfig())
    engine = SolusEngine.open(context, client_id="bench", hasher=hasher)
    config = DeDuperConfig()
    if form == "dense":
        object.__setattr__(config, "shards", 10_000)
    engine.register("events", config)
    engine.add("events", "the first", TTL)
    table = context.state.tables["bench", None, "events"]
    if form == "dense":
        rng, now = np.random.default_rng(1), int(time.time() * 1_000)
        while table.nbytes != 4 * 10_000_000 or table.count(now)[0] < 3_500_000:
            shards = rng.integers(0, 10_000, 100_000)
            table.add(shards, rng.integers(0, 1_000, (100_000, 7), dtype=np.int32), now, now + TTL)
    return engine, table


def engine_single(keys: list[str], hasher: str, form: str) -> Callable[[], object]:
    handle = open_engine(hasher, form)[0].deduper("events")

    def work() -> None:
        for key in keys:
            handle.add_if_absent(key, TTL)

    return work


def engine_batch(keys: list[str], hasher: str, form: str) -> Callable[[], object]:
    handle = open_engine(hasher, form)[0].deduper("events")

    def work() -> None:
        for batch in batches(keys):
            handle.add_if_absent_many(batch, TTL)

    return work


def store_batch(keys: list[str], hasher: str, form: str) -> Callable[[], object]:
    """The store alone, probes made beforehand."""
    engine, table = open_engine(hasher, form)
    data = [key.encode() for key in keys]
    deduper = engine.get_deduper("events")
    made = engine._session.hasher_of(deduper).probes(data, table.config)
    now = int(time.time() * 1_000)

    def work() -> None:
        for i in range(0, len(keys), BATCH):
            table.add_if_absent(made[0][i : i + BATCH], made[1][i : i + BATCH], now, now + TTL)

    return work


def threads(keys: list[str], count: int, batch: bool) -> Callable[[], object]:
    handle = open_engine("murmur3-double", "dense")[0].deduper("events")
    parts = [keys[i::count] for i in range(count)]

    def run(part: list[str]) -> None:
        if batch:
            for some in batches(part):
                handle.add_if_absent_many(some, TTL)
        else:
            for key in part:
                handle.add_if_absent(key, TTL)

    def work() -> None:
        running = [threading.Thread(target=run, args=(part,)) for part in parts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    return work


def speeds(n: int) -> None:
    keys = stream(n)
    print(f"{'add_if_absent of ' + format(n, ','):44}{'M/CPU-s':>9}{'M/s':>8}{'/dict':>8}{'/VTTL':>8}")
    for kind in ("batch", "single"):
        peers = {
            "dict of expiries": (dict_batch if kind == "batch" else dict_single)(keys),
            "cachebox.VTTLCache": (cache_batch if kind == "batch" else cache_single)(keys),
        }
        ours = {
            f"engine {hasher} {form}": (engine_batch if kind == "batch" else engine_single, hasher, form)
            for hasher in HASHERS
            for form in ("dense", "sparse")
        }
        if kind == "batch":
            ours |= {f"store alone {form}": (store_batch, "murmur3-double", form) for form in ("dense", "sparse")}
        base: list[float] = []
        for name, work in peers.items():
            cpu, wall = timed(work)
            base.append(cpu)
            report(f"{kind} {name}", n, cpu, wall, base)
        for name, (make, hasher, form) in ours.items():
            report(f"{kind} {name}", n, *timed(make(keys, hasher, form)), base)
    for batch in (True, False):
        cpu, wall = timed(threads(keys, 8, batch))
        report(f"8 threads, {'batch' if batch else 'single'} murmur3-double dense", n, cpu, wall, [])


def report(name: str, n: int, cpu: float, wall: float, base: Iterable[float]) -> None:
    ratios = "".join(f"{other / cpu:8.2f}" for other in base)
    print(f"{name:44}{n / cpu / 1e6:9.2f}{n / wall / 1e6:8.2f}{ratios}", flush=True)


def sizes(counts: list[int]) -> None:
    print(f"\n{'bytes a key, 7 hash functions':44}{'solus':>9}{'dict':>8}{'VTTL':>8}")
    for count in counts:
        engine, table = open_engine("murmur3-double", "sparse")
        keys = [str(uuid.UUID(int=random.Random(i).getrandbits(128))) for i in range(count)]
        for batch in batches(keys):
            engine.add_many("events", batch, TTL)
        of_dict = allocated(keys) / count
        print(f"{f'{count:,} keys, default config (sparse)':44}{table.nbytes / count:9.1f}{of_dict:8.1f}{'-':>8}")
        engine.close()
    _, dense = open_engine("murmur3-double", "dense")
    print(f"{'design load, 10 positions a key (dense)':44}{dense.nbytes / 1_000_000:9.1f}{'-':>8}{'-':>8}")


def allocated(keys: list[str]) -> int:
    """Bytes of a dict of copies of the keys and their expiries."""
    tracemalloc.start()
    kept = {(key + " ")[:-1]: time.time_ns() for key in keys}
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the keys")
    quick = parser.parse_args().quick
    speeds(200_000 if quick else 1_000_000)
    sizes([10_000] if quick else [10_000, 1_000_000])


if __name__ == "__main__":
    main()
