"""Positions in Aerospike: the view that one engine has of the data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

import numpy as np

from solus_aerospike import room
from solus_aerospike.batches import Progress, chunks
from solus_aerospike.config import BINS, MAP
from solus_aerospike.context import AerospikeContext
from solus_aerospike.farms import Farms, KnownFarms, clock_from
from solus_aerospike.layout import RECORD_TTL, meta_set
from solus_aerospike.namespaces import check_namespace
from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig
from solus_core.stores import Bools, Probes, StoreStats

if TYPE_CHECKING:
    from solus_aerospike.places import Place

_SAMPLE_POSITIONS: Final = 200_000
_SAMPLE_SHARDS: Final = 200
_EXPIRIES: Final = 1_000

_PLACES: Final = 4_096


@final
class AerospikeDataStore:
    """A ``DataStore`` and ``SingleProbeStore`` (see there) for one client id.

    A single verb is one call to the server, and a batch is one for each thousand entities. ``add_if_absent`` checks
    and adds under the lock of the record.
    """

    __slots__ = ("_calls", "_closed", "_context", "_farms", "_making", "_most_bytes", "_places")

    def __init__(self, context: AerospikeContext, client_id: str) -> None:
        from solus_aerospike.calls import Calls  # noqa: PLC0415  # no driver before a store is opened
        from solus_aerospike.places import Places  # noqa: PLC0415  # as above

        self._context = context
        self._closed = False
        meta_set(client_id)  # checks that it can have one, for its farms are recorded beside the data
        self._most_bytes = check_namespace(context)
        self._farms = KnownFarms(context, client_id, self._most_bytes)
        self._calls = Calls(context)
        self._making = Places(context, client_id)
        # By name, with the record that was last asked for: the same record needs no new place.
        self._places: dict[str, Place] = {}

    @property
    def atomicity(self) -> Atomicity:
        return Atomicity.CLUSTER

    @property
    def layout(self) -> str:
        return self._context.config.layout or MAP

    def check_config(self, config: DeDuperConfig) -> None:
        problems = []
        if config.expiry_seconds > RECORD_TTL:
            problems.append(
                f"expiry_seconds is {config.expiry_seconds:,}, and Aerospike keeps a record for {RECORD_TTL:,} at most"
            )
        problems += room.problems(self.layout, config.bits_per_shard, (self._context.config.farm,), self._most_bytes)
        problems += room.bad_farm(self.layout, config.bits_per_shard, self._context.config.farm)
        if problems:
            raise InvalidConfigError("de-duper config for Aerospike", problems)

    def absent(self, probes: Probes, now: int) -> Bools:
        place, farms = self._place(probes.deduper), self._looking(probes.deduper, now)
        progress = Progress(len(probes))
        for chunk in chunks(probes):
            try:
                self._calls.absent_of(place, farms, chunk, now, progress)
            except StoreError as error:
                raise progress.failed(error, chunk) from error.__cause__
        return progress.answers

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        place = self._place(probes.deduper)
        self._farms.to_add(probes.deduper, now)  # without rows too: so it says whether it may add
        progress = Progress(len(probes))
        for chunk in chunks(probes):
            try:
                self._calls.add_all(place, chunk, expires_at, progress)
            except StoreError as error:
                raise progress.failed(error, chunk) from error.__cause__

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        place, farms = self._place(probes.deduper), self._adding(probes.deduper, now)
        progress = Progress(len(probes))
        for chunk in chunks(probes):
            try:
                self._calls.add_absent(place, farms, chunk, now, expires_at, progress)
            except StoreError as error:
                raise progress.failed(error, chunk) from error.__cause__
        return progress.answers

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        place, farms = self._place(deduper), self._looking(deduper, now)
        return self._calls.absent(place, farms, shard, frozenset(positions), now)

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        place = self._place(deduper)
        self._farms.to_add(deduper, now)
        self._calls.add(place, shard, frozenset(positions), expires_at)

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        place, farms = self._place(deduper), self._adding(deduper, now)
        return self._calls.add_if_absent(place, farms, shard, frozenset(positions), now, expires_at)

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        """Counted in a random sample of up to 200 shards."""
        place, config = self._place(deduper), deduper.config
        farms = self._farms.of(deduper, now)
        random = np.random.default_rng()
        count = max(1, min(_SAMPLE_SHARDS, _SAMPLE_POSITIONS // config.bits_per_shard))
        shards = random.choice(config.shards, count, replace=False).tolist()
        expiries = np.array(self._calls.live(place, farms, shards, now), np.int64)
        if (live := len(expiries)) > _EXPIRIES:
            expiries = random.choice(expiries, _EXPIRIES, replace=False)
        return StoreStats(
            live=live,
            seen=count * config.bits_per_shard,
            total=config.shards * config.bits_per_shard,
            expiries=tuple(expiries.tolist()),
        )

    def close(self) -> None:
        self._closed = True

    def _looking(self, deduper: DeDuper, now: int) -> Farms:
        clock = clock_from(now)
        return lambda: self._farms.of(deduper, clock())

    def _adding(self, deduper: DeDuper, now: int) -> Farms:
        clock = clock_from(now)
        return lambda: self._farms.to_add(deduper, clock())

    def _place(self, deduper: DeDuper) -> Place:
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.AEROSPIKE_ERROR, "this store is closed")
        known = self._places.get(deduper.name)
        if known is not None and known.deduper is deduper:
            return known
        layout = deduper.layout or BINS
        if layout not in (MAP, BINS):
            raise StoreError(
                ErrorCode.DEDUPER_CONFIG_MISMATCH,
                f"de-duper {deduper.name!r} is recorded with layout {layout!r}, this version knows {MAP} and {BINS}",
            )
        for problem in room.bad_farm(layout, deduper.config.bits_per_shard, self._context.config.farm):
            raise StoreError(ErrorCode.DEDUPER_CONFIG_MISMATCH, f"de-duper {deduper.name!r}: {problem}")
        place = self._making.in_maps(deduper) if layout == MAP else self._making.in_bins(deduper)
        if len(self._places) >= _PLACES:
            self._places = {}
        self._places[deduper.name] = place
        return place
