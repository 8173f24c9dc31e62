"""The counters again, in transactions over a network that fails: replayed until they are through, each counts once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeVar

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TBufferedTransport, TSocket, TTransportException

from shorturl import DATE, FAMILIES, RECORDS, drawn, number, opened, options, read, run, show
from solus_core.errors import StoreError
from solus_hbase import HBaseConfig, HBaseContext
from solus_hbase.streams import IdempotentCounterSink, TableMapping, create_table

FAILING: Final = 0.03
"""How probably a call fails before it is sent, and how probably after it was, so that its answer is lost."""
REPLAYED: Final = 0.1
"""How probably a transaction is replayed although it was complete: its source did not hear of it."""

# The driver has no types.
BINARY: Final[Any] = TCyBinaryProtocol
BUFFERED: Final[Any] = TBufferedTransport
SOCKET: Final[Any] = TSocket

T = TypeVar("T")


class BadConnection:
    """A connection that breaks now and then."""

    def __init__(self, host: str, port: int, chance: random.Random) -> None:
        self.sock = SOCKET(host, port)
        self.sock.open()
        self.chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def write(self, data: bytes) -> None:
        self.maybe_break("before it was sent")
        self.sock.write(data)

    def read(self, size: int) -> Any:
        self.maybe_break("before it was answered")
        return self.sock.read(size)

    def maybe_break(self, when: str) -> None:
        if self.chance.random() < FAILING:
            self.sock.close()
            raise TTransportException(TTransportException.NOT_OPEN, f"the call failed {when}")


def main() -> None:
    given = options(__doc__, "shorturl_transactions")
    host, _, port = given.hbase.rpartition(":")
    chance = random.Random(given.seed)

    def open_protocol() -> Any:
        return BINARY(BUFFERED(BadConnection(host, int(port), chance)))

    good = opened(given.hbase)
    create_table(good, given.table, FAMILIES)
    # One try for each call: the usual four would hide nearly all failures from the transactions.
    config = HBaseConfig(hosts=given.hbase, table="unused", attempts=1, pool_size=1)
    bad = until_it_works(lambda: HBaseContext.around(open_protocol, config))
    mapping = TableMapping(
        table=given.table, row_key_field="shorturl", column_families={"data": ["clicks"], "daily": ["date"]}
    )
    columns = ["clicks", "clicks_txid:examples"]
    truth: Counter[str] = Counter()
    failed = replayed = 0
    records = drawn(given.records, given.seed)
    with until_it_works(lambda: IdempotentCounterSink(bad, mapping)) as sink:
        before = read(good, given.table, "data", columns)
        # A run that was ended half way may have got further with one family than with the other.
        days_before = read(good, given.table, "daily", [f"{DATE}_txid:examples"])
        first = txid = max(number(last) for *_, last in [*before, *days_before])
        while batch := list(islice(records, 100)):
            truth.update(record["shorturl"] for record in batch)
            txid += 1
            complete = False
            while not complete:  # as a stream processor does: the same records again, until they are through
                try:
                    with sink.transaction(txid, "examples") as transaction:
                        for record in batch:
                            transaction.add(record)
                except StoreError:
                    failed += 1
                else:
                    complete = chance.random() >= REPLAYED
                    replayed += not complete
    clicks, days = read(good, given.table, "data", columns), read(good, given.table, "daily", [DATE])
    rows = [
        [*map(number, (*now, *day, old[0])), truth[record["shorturl"]]]
        for record, now, day, old in zip(RECORDS, clicks, days, before, strict=True)
    ]
    show(["data:clicks", "clicks_txid:examples", f"daily:{DATE}", "clicks before", "records"], rows)
    print(f"{txid - first} transactions, {failed} attempts failed, {replayed} replays of complete ones")
    good.close()
    bad.close()


def until_it_works(attempt: Callable[[], T]) -> T:
    while True:
        try:
            return attempt()
        except StoreError:
            continue


if __name__ == "__main__":
    run(main)
