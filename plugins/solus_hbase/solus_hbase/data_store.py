"""Positions in HBase: the view that one engine has of the data tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import final

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level
from solus_core.stores import Bools, Probes, StoreStats
from solus_hbase.batches import Part, Progress, by_shard, chunks
from solus_hbase.cells import Held, Place
from solus_hbase.config import JAVA, NATIVE
from solus_hbase.context import HBaseContext
from solus_hbase.figures import sampled
from solus_hbase.layout import DATA_FAMILY, RowKeys, data_table
from solus_hbase.tables import ensure_table
from solus_hbase.workers import Workers
from solus_hbase.writing import Writer


@final
class HBaseDataStore:
    """A ``DataStore`` and ``SingleProbeStore`` (see there) for one client id.

    In the layout ``native``, ``add`` is one call to the server for as many entities as fit, with no read.
    ``add_if_absent`` reads, then makes one atomic check-and-write for each absent entity, in parallel. In the
    layout ``java`` an add reads first as well.
    """

    __slots__ = ("_client_id", "_closed", "_context", "_gateway", "_places", "_workers", "_writer")

    def __init__(self, context: HBaseContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._gateway = context.gateway
        self._closed = False
        # By name, with the record that was last asked for: the same record needs no new place.
        self._places: dict[str, Place] = {}
        self._workers = Workers(context.config.pool_size)
        self._writer = Writer(context.gateway)
        for level in Level:
            ensure_table(context.gateway, context.config, data_table(context.config, level), DATA_FAMILY)

    @property
    def atomicity(self) -> Atomicity:
        return Atomicity.CLUSTER if self._gateway.atomic else Atomicity.NONE

    @property
    def layout(self) -> str:
        return self._context.config.layout or NATIVE

    def check_config(self, config: DeDuperConfig) -> None:
        """Every config fits."""

    def absent(self, probes: Probes, now: int) -> Bools:
        place = self._place(probes.deduper)
        progress = Progress(len(probes))
        with progress.told():
            for chunk in chunks(by_shard(probes)):
                for (_, entities, _), held in zip(chunk, self._read(place, chunk), strict=True):
                    for row, positions in entities:
                        progress.answer(row, held.absent(positions, now))
        return progress.answers

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        place = self._place(probes.deduper)
        progress = Progress(len(probes))
        with progress.told():
            for chunk in chunks(by_shard(probes)):
                if place.native:
                    self._add_blindly(place, chunk, now, expires_at, progress)
                else:
                    self._add_after_reading(place, chunk, now, expires_at, progress)

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        place = self._place(probes.deduper)
        began, progress = monotonic(), Progress(len(probes))
        with progress.told():
            for chunk in chunks(by_shard(probes)):
                rows = self._read(place, chunk)
                if place.native and not self._gateway.atomic:
                    self._add_absent_together(place, chunk, rows, now, expires_at, progress)
                    continue
                work: list[Callable[[], None]] = []
                for part, held in zip(chunk, rows, strict=True):
                    if any(held.absent(positions, now) for _, positions in part[1]):
                        work.append(self._winning(place, part, held, now, expires_at, began, progress))
                    else:
                        for row, _ in part[1]:
                            progress.answer(row, False)
                self._workers.run(work)
        return progress.answers

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        return self._read_one(self._place(deduper), shard, positions).absent(positions, now)

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        place = self._place(deduper)
        distinct = frozenset(positions)
        if place.native:
            self._writer.put(place, [(shard, distinct)], now, expires_at)
        else:
            self._writer.raise_to(place, shard, self._read_one(place, shard, distinct), distinct, now, expires_at)

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        began, place = monotonic(), self._place(deduper)
        distinct = frozenset(positions)
        held = self._read_one(place, shard, distinct)
        return held.absent(distinct, now) and self._writer.win(place, shard, held, distinct, now, expires_at, began)

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        """Counted in a random sample of up to 20,000 shards."""
        return sampled(self._gateway, self._place(deduper), now)

    def close(self) -> None:
        self._closed = True
        self._workers.close()

    def _add_blindly(self, place: Place, chunk: list[Part], now: int, expires_at: int, progress: Progress) -> None:
        rows = [row for _, entities, _ in chunk for row, _ in entities]
        with progress.writing(rows):
            self._writer.put(place, [(shard, positions) for shard, _, positions in chunk], now, expires_at)
        progress.finish(rows)

    def _add_after_reading(
        self, place: Place, chunk: list[Part], now: int, expires_at: int, progress: Progress
    ) -> None:
        self._workers.run(
            [
                self._raising(place, part, held, now, expires_at, progress)
                for part, held in zip(chunk, self._read(place, chunk), strict=True)
            ]
        )

    def _add_absent_together(
        self, place: Place, chunk: list[Part], rows: list[Held], now: int, expires_at: int, progress: Progress
    ) -> None:
        """Check, then add, for a gateway that can't do both in one step (``Atomicity.NONE``)."""
        absent: list[int] = []
        writes: list[tuple[int, frozenset[int]]] = []
        for (shard, entities, _), held in zip(chunk, rows, strict=True):
            positions: set[int] = set()
            for row, wanted in entities:
                if held.absent(wanted - positions, now):
                    positions |= wanted
                    absent.append(row)
                else:
                    progress.answer(row, False)
            if positions:
                writes.append((shard, frozenset(positions)))
        if not writes:
            return
        with progress.writing(absent):
            self._writer.put(place, writes, now, expires_at)
        for row in absent:
            progress.answer(row, True)

    def _winning(
        self, place: Place, part: Part, held: Held, now: int, expires_at: int, began: float, progress: Progress
    ) -> Callable[[], None]:
        def work() -> None:
            # In order, so that a later entity finds the positions of an earlier one (R6).
            for row, positions in part[1]:
                with progress.writing([row]):
                    won = self._writer.win(place, part[0], held, positions, now, expires_at, began)
                progress.answer(row, won)

        return work

    def _raising(
        self, place: Place, part: Part, held: Held, now: int, expires_at: int, progress: Progress
    ) -> Callable[[], None]:
        def work() -> None:
            for row, positions in part[1]:
                with progress.writing([row]):
                    self._writer.raise_to(place, part[0], held, positions, now, expires_at)
                progress.finish([row])

        return work

    def _read(self, place: Place, chunk: list[Part]) -> list[Held]:
        wanted = [(place.row_key(shard), place.qualifiers(positions)) for shard, _, positions in chunk]
        return [Held(place, cells) for cells in self._gateway.get(place.table, DATA_FAMILY, wanted)]

    def _read_one(self, place: Place, shard: int, positions: Iterable[int]) -> Held:
        wanted = [(place.row_key(shard), place.qualifiers(positions))]
        return Held(place, self._gateway.get(place.table, DATA_FAMILY, wanted)[0])

    def _place(self, deduper: DeDuper) -> Place:
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this store is closed")
        known = self._places.get(deduper.name)
        if known is not None and known.deduper is deduper:
            return known
        layout = deduper.layout or NATIVE
        if layout not in (NATIVE, JAVA):
            raise StoreError(
                ErrorCode.DEDUPER_CONFIG_MISMATCH,
                f"de-duper {deduper.name!r} is recorded with layout {layout!r}, this version knows {NATIVE} and {JAVA}",
            )
        place = Place(
            deduper,
            data_table(self._context.config, deduper.config.level),
            RowKeys(self._client_id, deduper.name),
            layout == NATIVE,
        )
        self._places[deduper.name] = place
        return place
