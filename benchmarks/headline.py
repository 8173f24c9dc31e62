"""False-positive rates measured through the in-memory backend, beside the exact figures and the textbook's.

    python benchmarks/headline.py [--hasher murmur3-double] [--scale 1] [--only headline]

Each run adds distinct ids in batches to a table of ``solus_memory`` and stops at some numbers of ids to ask for
ids that were never added. What is found then is a false positive. Of the ids that are added, those whose add says
"present" are the events that a user loses; their number is set beside the planner's. The result is a Markdown table.

7 x 5,000 x 200,000 with 100 million ids is the headline figure of the Java library's documentation; it takes 4 GB,
a few GB more for a moment while the table changes from its sparse to its dense form, and some minutes.
``--scale 100`` divides shards and ids by 100, so that the load of a shard stays.

The tables are driven directly and the config is a stand-in: these numbers of shards are below what a de-duper may
have (R12: a million at least), and the engine would refuse them. Hashing and table are the real ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, Final

from attrs import evolve, frozen

from solus_core.cli.plot import save_plot
from solus_core.planning import expected_losses, false_positive_rate, textbook_false_positive_rate
from solus_core.plugins import PluginManager
from solus_core.stores import Hasher
from solus_memory.numpy_table import NumpyTable

STEP: Final = 100_000
"""Ids asked for at a time; those added come in at least a thousand batches, as a batch is answered from the state
before it but for repeats (R6), so that large ones would lose too little."""
NOW: Final = 1_700_000_000_000
EXPIRES: Final = NOW + 864_000_000


@frozen
class Shape:
    """What hashers, tables and the planner read of a ``DeDuperConfig``."""

    hash_functions: int
    bits_per_shard: int
    shards: int
    expiry_seconds: int = 864_000

    def __str__(self) -> str:
        return f"{self.hash_functions} x {self.bits_per_shard:,} x {self.shards:,}"


@frozen
class Run:
    """``stops``: numbers of ids at which ``probes`` ids that were never added are asked for."""

    shape: Shape
    stops: tuple[int, ...]
    probes: int


RUNS: Final = {
    "headline": Run(Shape(7, 5_000, 200_000), (25_000_000, 50_000_000, 75_000_000, 100_000_000), 1_000_000),
    # The mean shard has 100 ids here, give or take 10%; with 500 ids it is 4.5%. So the textbook is further off.
    "uneven": Run(Shape(7, 1_000, 1_000_000), (50_000_000, 100_000_000), 1_000_000),
    # "Small scale" in that documentation, said to give 0.8%: 10 million shards and 100 million ids, here by 100.
    "small": Run(Shape(7, 1_000, 100_000), (1_000_000,), 10_000_000),
    # More functions than 7, and a load at which that is too many.
    "thirteen": Run(Shape(13, 1_000, 10_000), (500_000, 700_000, 1_000_000), 1_000_000),
}


@frozen
class Measured:
    """At one stop: ``found`` false positives among the probes, ``lost`` events since the start, adds a second."""

    ids: int
    found: int
    lost: int
    table_bytes: int
    adds_per_second: float


def measure(run: Run, hasher: Hasher) -> Iterator[Measured]:
    """Add, ask, and say."""
    config: Any = run.shape  # in the place of a DeDuperConfig, see above
    table = NumpyTable(config, NOW, lambda _needed, _held: None)
    lost, start, step = 0, 0, min(STEP, run.stops[-1] // 1_000)
    for stop in run.stops:
        began = time.monotonic()
        for first in range(start, stop, step):
            ids = [b"event-%010d" % i for i in range(first, min(first + step, stop))]
            lost += len(ids) - int(table.add_if_absent(*hasher.probes(ids, config), NOW, EXPIRES).sum())
        seconds, added, start = time.monotonic() - began, stop - start, stop
        found = 0
        for first in range(0, run.probes, STEP):
            ids = [b"never-%010d" % i for i in range(first, min(first + STEP, run.probes))]
            found += len(ids) - int(table.absent(*hasher.probes(ids, config), NOW).sum())
        yield Measured(stop, found, lost, table.nbytes, added / seconds)


def row(run: Run, measured: Measured) -> str:
    """A line of the table."""
    config: Any = run.shape
    cells = (
        str(run.shape),
        f"{measured.ids:,}",
        f"{measured.found:,} of {run.probes:,}",
        percent(measured.found / run.probes),
        percent(false_positive_rate(config, measured.ids)),
        percent(textbook_false_positive_rate(config, measured.ids)),
        f"{measured.lost:,}",
        f"{expected_losses(config, measured.ids):,.0f}",
        f"{measured.table_bytes / 1e6:,.0f}",
        f"{measured.adds_per_second / 1e6:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def percent(rate: float) -> str:
    """With four decimals; below that, as a power of ten."""
    return f"{rate:.4%}" if rate == 0 or rate >= 1e-5 else f"{rate:.1e}"


def main() -> None:
    """Print the table, row by row as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hasher", default="murmur3-double", choices=["murmur3-double", "murmur3-md5"])
    parser.add_argument("--scale", type=int, default=1, help="divide shards and ids by this")
    parser.add_argument("--only", choices=list(RUNS), action="append", help="this run; may be given several times")
    parser.add_argument("--plot", metavar="FILE", help="draw the first run: .png or .svg, needs solus-core[plot]")
    options = parser.parse_args()
    hasher = PluginManager.load().hasher(options.hasher)
    print(f"hasher {options.hasher}\n")
    print("| config | ids | found | measured | exact | textbook | lost | expected | MB | M adds/s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.only or RUNS:
        run = RUNS[name]
        shape = evolve(run.shape, shards=max(1, run.shape.shards // options.scale))
        scaled = evolve(run, shape=shape, stops=tuple(stop // options.scale for stop in run.stops))
        points = []
        for measured in measure(scaled, hasher):
            print(row(scaled, measured), flush=True)
            points.append((measured.ids, measured.found, run.probes))
        if options.plot:
            config: Any = shape
            save_plot(options.plot, config, scaled.stops[-1], measured=points)
            options.plot = None


if __name__ == "__main__":
    main()
