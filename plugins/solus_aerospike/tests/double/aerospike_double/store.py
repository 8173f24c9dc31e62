"""Records in memory, and the time that they expire by."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aerospike_double.particles import flat_size

EPOCH = 1_262_304_000
"""Seconds from 1970 to 2010, when the server's void times begin."""
TTL_DEFAULT, TTL_NEVER, TTL_KEEP = 0, 0xFFFFFFFF, 0xFFFFFFFE
LONGEST_TTL = 3600 * 24 * 365 * 10
GENERATIONS = 1 << 16
FLAT_HEADER, END_MARK = 35, 4


class Clock:
    """The server's time: the machine's, moved by ``advance``."""

    def __init__(self) -> None:
        self.offset = 0.0

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once; records expire by it."""
        self.offset += seconds

    def now(self) -> float:
        """Seconds since 2010."""
        return time.time() - EPOCH + self.offset


@dataclass
class Namespace:
    """What the configuration file of a server says about a namespace, as far as it is modelled.

    ``max_record_size`` is in bytes, ``nsup_period`` and ``default_ttl`` in seconds; ``stop_writes`` refuses writes
    with code 8, as a full namespace does.
    """

    name: str
    nsup_period: int = 120
    default_ttl: int = 0
    allow_ttl_without_nsup: bool = False
    max_record_size: int = 1 << 20
    stop_writes: bool = False
    records: dict[bytes, Record] = field(default_factory=dict, repr=False)
    set_indexes: dict[str, str] = field(default_factory=dict, repr=False)

    def ttl_possible(self) -> bool:
        """Whether a record here may have a TTL."""
        return self.nsup_period > 0 or self.allow_ttl_without_nsup

    def find(self, digest: bytes) -> Record | None:
        """The record, unless it expired."""
        record = self.records.get(digest)
        if record is not None and record.expired():
            del self.records[digest]
            return None
        return record

    def live(self) -> Iterator[Record]:
        """All records that didn't expire."""
        for digest in list(self.records):
            record = self.find(digest)
            if record is not None:
                yield record

    def objects_by_set(self) -> dict[str, int]:
        """How many records each set has."""
        counts: dict[str, int] = defaultdict(int)
        for record in self.live():
            counts[record.set_name.decode()] += 1
        return dict(counts)


@dataclass
class Record:
    """One record; ``size`` is that of its bins in the server's storage, and ``void_time`` 0 is never."""

    clock: Clock
    digest: bytes
    set_name: bytes
    key: bytes | None = None
    bins: dict[bytes, Any] = field(default_factory=dict)
    size: int = 0
    generation: int = 0
    void_time: int = 0
    updated: float = 0.0

    def draft(self) -> Record:
        """A copy to change; the record itself stays as it is until the command has succeeded."""
        return Record(
            self.clock,
            self.digest,
            self.set_name,
            self.key,
            dict(self.bins),
            self.size,
            self.generation,
            self.void_time,
            self.updated,
        )

    def put(self, name: bytes, value: Any) -> None:
        """Set a bin; ``None`` deletes it."""
        old = self.bins.get(name)
        if old is not None:
            self.size -= flat_size(name, old)
        if value is None:
            self.bins.pop(name, None)
            return
        self.bins[name] = value
        self.size += flat_size(name, value)

    def expired(self) -> bool:
        """Whether its time is over."""
        return self.void_time != 0 and self.void_time < int(self.clock.now())

    def touch(self, ttl: int, default_ttl: int) -> None:
        """The next generation, and a new void time."""
        now = self.clock.now()
        self.generation = self.generation % (GENERATIONS - 1) + 1
        self.updated = now
        if ttl == TTL_NEVER or (ttl == TTL_DEFAULT and default_ttl == 0):
            self.void_time = 0
        elif ttl == TTL_DEFAULT:
            self.void_time = int(now) + default_ttl
        elif ttl != TTL_KEEP:
            self.void_time = int(now) + ttl

    def wire_void_time(self) -> int:
        """The void time as the client's clock, which doesn't move with ours, has to see it."""
        return self.void_time and max(1, self.void_time - int(self.clock.offset))

    def ttl(self) -> int:
        """Seconds left, or -1 for never."""
        return -1 if self.void_time == 0 else max(0, self.void_time - int(self.clock.now()))

    def void_time_ns(self) -> int:
        """Void time in nanoseconds since 1970, or -1 for never."""
        return -1 if self.void_time == 0 else (self.void_time + EPOCH) * 1_000_000_000

    def last_update_ns(self) -> int:
        """Nanoseconds from 1970 to the last write."""
        return int((self.updated + EPOCH) * 1000) * 1_000_000

    def since_update_ms(self) -> int:
        """Milliseconds since the last write."""
        return max(0, int((self.clock.now() - self.updated) * 1000))

    def flat_size(self) -> int:
        """Bytes of the record as the server lays it out; the marker at its end is counted too."""
        size = FLAT_HEADER + self.size + (4 if self.void_time else 0) + END_MARK
        size += 1 + len(self.set_name) if self.set_name else 0
        size += 1 + len(self.key) if self.key else 0
        return size + (2 if len(self.bins) > 127 else 1)

    def stored_size(self) -> int:
        """Bytes that it takes: whole blocks of 16."""
        return -(-self.flat_size() // 16) * 16
