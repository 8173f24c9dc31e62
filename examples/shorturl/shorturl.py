"""What the three programs share: the records, the table, and how it is shown."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from solus_core.errors import SolusError, StoreError
from solus_hbase import HBaseConfig, HBaseContext, connect

DATE: Final = "20120816"
RECORDS: Final = [
    {"shorturl": shorturl, "url": url, "name": "kinley", "date": DATE}
    for shorturl, url in (
        ("http://bit.ly/ZK6t", "www.arsenal.com/home"),
        ("http://bit.ly/LsaBa", "www.baltimoreravens.com/"),
        ("http://bit.ly/2VL7eA", "www.49ers.com/"),
        ("http://bit.ly/9ZJhuY", "www.buccaneers.com/index.html"),
        ("http://atmlb.com/7NG4sm", "baltimore.orioles.mlb.com/"),
    )
]
FAMILIES: Final[dict[str, tuple[int, int | None]]] = {
    "data": (3, None),
    "daily": (1, 604_800),
    "weekly": (1, 2_678_400),
    "monthly": (1, 31_536_000),
}
"""Versions, and seconds to live."""


def run(program: Callable[[], None]) -> None:
    """What goes wrong ends the program with one line."""
    try:
        program()
    except SolusError as error:
        raise SystemExit(error.message) from None


def options(about: str | None, table: str) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--hbase", type=address, default="127.0.0.1:9090", help="host and port of a Thrift 2 server (%(default)s)"
    )
    parser.add_argument("--table", default=table, help="created if it is not there (%(default)s)")
    parser.add_argument("--records", type=count, default=10_000, help="how many are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (%(default)s)")
    return parser.parse_args()


def address(text: str) -> str:
    """A host and a port, 9090 where none is given."""
    host, colon, port = text.rpartition(":")
    if not colon and text:
        return f"{text}:9090"
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is no host:port")
    return text


def count(text: str) -> int:
    """A number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


def drawn(n: int, seed: int) -> Iterator[dict[str, str]]:
    """Records at random, the same ones for the same seed."""
    source = random.Random(seed)
    return (source.choice(RECORDS) for _ in range(n))


def opened(hbase: str, **settings: Any) -> HBaseContext:
    """A connection to HBase; ends the program if there is none."""
    try:
        return connect(HBaseConfig(hosts=hbase, table="unused", **settings))
    except StoreError as error:
        raise SystemExit(f"no HBase at {hbase}: {error.message}") from None


def read(context: HBaseContext, table: str, family: str, qualifiers: Sequence[str]) -> list[list[bytes]]:
    """The values of these columns in the rows of the five records, empty where there is none."""
    names = [qualifier.encode() for qualifier in qualifiers]
    rows = context.gateway.get(table, family.encode(), [(record["shorturl"].encode(), names) for record in RECORDS])
    return [[row[name][0] if name in row else b"" for name in names] for row in rows]


def number(value: bytes) -> int:
    """A counter, or the id of a transaction; 0 if it is not there."""
    return int.from_bytes(value, "big", signed=True)


def show(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table of the five rows."""
    lines = [
        ["row", *names],
        *([record["shorturl"], *map(str, row)] for record, row in zip(RECORDS, rows, strict=True)),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
