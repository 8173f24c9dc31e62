"""A store that keeps every mark at once, in a file of JSON lines: what a remote store does.

The tests install a copy of this file as a plugin of its own. JOURNAL_FAILS_AT=n: the n-th write fails half-way.
JOURNAL_TAKES_NOTHING=1: it is not ready for any. JOURNAL_INTERRUPTED=n: signal n comes while it is opened, in a driver
that takes every Exception for a host that is down.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import numpy as np
from attrs import frozen

from solus_core import Atomicity, DeDuper, DeDuperConfig
from solus_core.config import Backend, StorageConfig, StorageContext
from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.hookspecs import hookimpl
from solus_core.stores import Bools, Probes

SOLUS_API_VERSION = 1


@frozen
class JournalConfig(StorageConfig):
    path: str


class Journal(StorageContext):
    def __init__(self, config: JournalConfig) -> None:
        self.marks: dict[tuple[int, int], int] = {}
        self.dedupers: dict[str, DeDuper] = {}
        self.writes = 0
        try:
            if "JOURNAL_INTERRUPTED" in os.environ:
                signal.raise_signal(int(os.environ["JOURNAL_INTERRUPTED"]))
        except Exception as error:
            raise StoreError(ErrorCode.INTERNAL_ERROR, f"no host can be reached ({error})") from error
        self.fd = os.open(config.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with open(config.path) as lines:
            for line in lines:
                if line.endswith("\n"):
                    self.take(json.loads(line))

    def take(self, entry: dict[str, Any]) -> None:
        if "name" in entry:
            config = DeDuperConfig(expiry_seconds=entry["expiry"])
            self.dedupers[entry["name"]] = DeDuper(name=entry["name"], client_id="solus", config=config)
        else:
            for shard, positions in entry["marks"]:
                for position in positions:
                    self.marks[shard, position] = entry["until"]

    def put(self, entry: dict[str, Any]) -> None:
        os.write(self.fd, json.dumps(entry).encode() + b"\n")
        self.take(entry)


class Store:
    """Data and meta-store in one, with just the verbs that ``solus dedup`` calls."""

    atomicity, layout = Atomicity.PROCESS, ""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def check_config(self, config: DeDuperConfig) -> None:
        pass

    def absent(self, probes: Probes, now: int) -> Bools:
        marks = self.journal.marks
        rows = zip(probes.shards.tolist(), probes.positions.tolist(), strict=True)
        return np.array([any(marks.get((shard, at), 0) < now for at in row) for shard, row in rows], np.bool_)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        rows = list(zip(probes.shards.tolist(), probes.positions.tolist(), strict=True))
        if "JOURNAL_TAKES_NOTHING" in os.environ:
            raise StoreError(ErrorCode.INTERNAL_ERROR, "come back in a minute")
        if not rows:
            return
        self.journal.writes += 1
        if self.journal.writes == int(os.environ.get("JOURNAL_FAILS_AT", "0")):
            half = len(rows) // 2
            self.journal.put({"marks": rows[:half], "until": expires_at})
            done = np.arange(len(rows)) < half
            raise StoreBatchError(
                ErrorCode.INTERNAL_ERROR, "disk on fire", done=done, answers=done & False, doubtful=~done
            )
        self.journal.put({"marks": rows, "until": expires_at})

    def create(self, deduper: DeDuper) -> DeDuper:
        if deduper.name not in self.journal.dedupers:
            self.journal.put({"name": deduper.name, "expiry": deduper.config.expiry_seconds})
        return self.journal.dedupers[deduper.name]

    def get(self, name: str) -> DeDuper | None:
        return self.journal.dedupers.get(name)

    def close(self) -> None:
        pass


@hookimpl
def solus_backends() -> list[Backend]:
    return [Backend("journal", JournalConfig, lambda url: {"path": url.path}, Journal, "for tests")]


@hookimpl
def solus_open_data_store(context: StorageContext) -> Store | None:
    return Store(context) if isinstance(context, Journal) else None


@hookimpl
def solus_open_meta_store(context: StorageContext) -> Store | None:
    return Store(context) if isinstance(context, Journal) else None
