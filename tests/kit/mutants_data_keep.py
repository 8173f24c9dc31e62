"""Data stores that keep, tell apart or answer wrongly, each in one way; the kit must refuse every one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
from test_kit_reference import ReferenceStore

from solus_core.errors import SolusError
from solus_core.model import DeDuper
from solus_core.stores import Bools, Probes, StoreStats


class IgnoresNow(ReferenceStore):
    """What was set once is set for ever."""

    def is_set(self, expiry: int | None, now: int) -> bool:
        del now
        return expiry is not None


class WallClock(ReferenceStore):
    """Asks a clock of its own instead of taking ``now``."""

    def is_set(self, expiry: int | None, now: int) -> bool:
        return super().is_set(expiry, max(now, int(time.time() * 1000)))


class ExpiresTooEarly(ReferenceStore):
    """Off by one: gone at expires_at itself."""

    def is_set(self, expiry: int | None, now: int) -> bool:
        return super().is_set(expiry, now + 1)


class ExpiresTooLate(ReferenceStore):
    """Off by one: set one millisecond longer."""

    def is_set(self, expiry: int | None, now: int) -> bool:
        return super().is_set(expiry, now - 1)


class CapsTtl(ReferenceStore):
    """No mark outlives what 31 bits of milliseconds hold."""

    def merged(self, stored: int | None, expires_at: int) -> int:
        return super().merged(stored, min(expires_at, 1_700_000_000_000 + 2**31 - 1))


class RoundsToSeconds(ReferenceStore):
    """Expiries are kept in whole seconds."""

    def merged(self, stored: int | None, expires_at: int) -> int:
        return super().merged(stored, expires_at // 1000 * 1000 + 500)


class SwallowsErrors(ReferenceStore):
    """A store that can't be reached answers: absent."""

    def absent(self, probes: Probes, now: int) -> Bools:
        with suppress(SolusError):
            return super().absent(probes, now)
        return np.ones(len(probes), np.bool_)


class SwallowsAdds(ReferenceStore):
    """An add that fails says nothing."""

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        with suppress(SolusError):
            super().add(probes, now, expires_at)


class CountsExpired(ReferenceStore):
    """Figures count what is expired as live."""

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        del now
        return super().stats(deduper, 0)


class SamplesAll(ReferenceStore):
    """The expiry times of all positions are given, however many there are."""

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        found = super().stats(deduper, now)
        return attrs.evolve(found, expiries=found.expiries[:1] * found.live)


class SamplesExpired(ReferenceStore):
    """Expiry times are given of expired positions, too."""

    def stats(self, deduper: DeDuper, now: int) -> StoreStats:
        return attrs.evolve(super().stats(deduper, now), expiries=super().stats(deduper, 0).expiries)


class IgnoresShards(ReferenceStore):
    """The shard number does not count."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        del shard
        return super().key(deduper, 0, position)


class SharesNames(ReferenceStore):
    """All de-dupers of a client id use the same positions."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return super().key(attrs.evolve(deduper, name=""), shard, position)


class FoldsNames(ReferenceStore):
    """Names that differ in case only are one."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return super().key(attrs.evolve(deduper, name=deduper.name.lower()), shard, position)


class SharesClients(ReferenceStore):
    """The client id does not count."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        farm, _, *rest = super().key(deduper, shard, position)
        return (farm, None, *rest)


class JoinsKeys(ReferenceStore):
    """Keys are texts joined without a separator."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return "".join(map(str, super().key(deduper, shard, position)))


class DropsSigns(ReferenceStore):
    """Negative positions are taken for positive ones."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return super().key(deduper, shard, abs(position))


class NarrowShards(ReferenceStore):
    """Shard numbers are cut to 24 bits."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return super().key(deduper, shard & 0xFFFFFF, position)


class XdcByFarm(ReferenceStore):
    """Level XDC is not shared between farms."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return (self.farm, *super().key(deduper, shard, position)[1:])


class DcShared(ReferenceStore):
    """Level DC is shared between farms."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return (None, *super().key(deduper, shard, position)[1:])


class CountsRepeats(ReferenceStore):
    """The Java library's check: it counts distinct positions, and expects k of them."""

    def row_absent(self, data: dict[Any, Any], keys: Sequence[Any], now: int) -> bool:
        return len({key for key in keys if self.is_set(data.get(key), now)}) < len(keys)


class ComparesSequences(ReferenceStore):
    """An entity is its ordered positions, not their set: an exact store instead of a filter."""

    def rows(self, probes: Probes) -> list[list[Any]]:
        return [[(row[0][:4], tuple(key[4] for key in row))] for row in super().rows(probes)]


class ForgetsDc(ReferenceStore):
    """Level DC takes adds, and keeps nothing."""

    def row_add(self, data: dict[Any, Any], keys: Sequence[Any], expires_at: int) -> None:
        if keys[0][0] is None:
            super().row_add(data, keys, expires_at)


class PrivateViews(ReferenceStore):
    """Each view has a state of its own."""

    def key(self, deduper: DeDuper, shard: int, position: int) -> Any:
        return (*super().key(deduper, shard, position), id(self))


class LosesOnClose(ReferenceStore):
    """Closing drops the data."""

    def close(self) -> None:
        with self.state.held() as data:
            data.clear()
        super().close()


class KeepsOpen(ReferenceStore):
    """A closed store goes on answering."""

    def close(self) -> None:
        pass


class RefusesSecondClose(ReferenceStore):
    """Closing again is an error."""

    def close(self) -> None:
        with self.held():
            super().close()


class SortsInput(ReferenceStore):
    """Positions are sorted in place, in the caller's array."""

    def absent(self, probes: Probes, now: int) -> Bools:
        probes.positions.sort(axis=1)
        return super().absent(probes, now)


class ReadsRawMemory(ReferenceStore):
    """Takes the numbers as they lie in memory."""

    def rows(self, probes: Probes) -> list[list[Any]]:
        raw = probes.positions.ravel(order="K").reshape(probes.positions.shape)
        return super().rows(Probes(probes.deduper, probes.shards, raw))


class KeepsInput(ReferenceStore):
    """Keeps the caller's arrays, and writes them later."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        answers = super().absent(probes, now)
        self.__dict__["later"] = (probes, now, expires_at)
        return answers

    def absent(self, probes: Probes, now: int) -> Bools:
        if later := self.__dict__.pop("later", None):
            super().add(*later)
        return super().absent(probes, now)


class NeedsRows(ReferenceStore):
    """An empty batch is too much for it."""

    def absent(self, probes: Probes, now: int) -> Bools:
        return super().absent(probes, now + 0 * int(probes.shards[0]))


class AnswersLists(ReferenceStore):
    """Answers are a list of int."""

    def absent(self, probes: Probes, now: int) -> Bools:
        return [int(answer) for answer in super().absent(probes, now)]  # type: ignore[return-value]  # the fault


class DropsLongLived(ReferenceStore):
    """Reclaiming drops what was written a day ago, however long it has to live."""

    def add_if_absent(self, probes: Probes, now: int, expires_at: int) -> Bools:
        with self.held() as data:
            written = self.__dict__.setdefault("written", {})
            for key in [key for key, at in written.items() if at < now - 86_400_000]:
                data.pop(key, None)
                del written[key]
            for row in self.rows(probes):
                written.update(dict.fromkeys(row, now))
        return super().add_if_absent(probes, now, expires_at)

    def add(self, probes: Probes, now: int, expires_at: int) -> None:
        self.__dict__.setdefault("written", {}).update({key: now for row in self.rows(probes) for key in row})
        super().add(probes, now, expires_at)
