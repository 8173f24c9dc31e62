"""Meta-stores that are each wrong in one way; the kit must refuse every one. Run by kit_runner.py."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import attrs
from test_kit_reference import MemoryState, ReferenceMetaStore

from solus_core.errors import DeDuperNotFoundError
from solus_core.model import DeDuper


class CreateOverwrites(ReferenceMetaStore):
    """The last create wins."""

    def create(self, deduper: DeDuper) -> DeDuper:
        with self.held() as data:
            data[self.key(deduper.name)] = deduper
            return deduper


class CreateRaces(ReferenceMetaStore):
    """Looks, then writes: two racing creates both win."""

    def create(self, deduper: DeDuper) -> DeDuper:
        stored = self.get(deduper.name)
        time.sleep(0.000_1)
        if stored is None:
            with self.held() as data:
                data[self.key(deduper.name)] = stored = deduper
        return stored


class CreateAnswersOwn(ReferenceMetaStore):
    """Keeps the first record, and answers each caller with its own."""

    def create(self, deduper: DeDuper) -> DeDuper:
        super().create(deduper)
        return deduper


class CachesNotFound(ReferenceMetaStore):
    """A name that was not found once stays not found."""

    def get(self, name: str) -> DeDuper | None:
        missing = self.__dict__.setdefault("missing", set())
        found = None if name in missing else super().get(name)
        if found is None:
            missing.add(name)
        return found


class CachesRecords(ReferenceMetaStore):
    """A record that was found once is never read again."""

    def get(self, name: str) -> DeDuper | None:
        cache: dict[str, DeDuper] = self.__dict__.setdefault("cache", {})
        if name not in cache and (found := super().get(name)) is not None:
            cache[name] = found
        return cache.get(name)


class ForgetsHasher(ReferenceMetaStore):
    """The hasher is not recorded."""

    def create(self, deduper: DeDuper) -> DeDuper:
        return super().create(attrs.evolve(deduper, hasher="murmur3-md5"))


class ForgetsExpiry(ReferenceMetaStore):
    """The expiry is not recorded, as in the Java library."""

    def create(self, deduper: DeDuper) -> DeDuper:
        return super().create(attrs.evolve(deduper, config=attrs.evolve(deduper.config, expiry_seconds=864_000)))


class DropsInactive(ReferenceMetaStore):
    """Marking inactive deletes the record."""

    def set_active(self, name: str, active: bool, now: int) -> None:
        super().set_active(name, active, now)
        if not active:
            with self.held() as data:
                del data[self.key(name)]


class MarksUnknown(ReferenceMetaStore):
    """Marking an unknown name does nothing."""

    def set_active(self, name: str, active: bool, now: int) -> None:
        with suppress(DeDuperNotFoundError):
            super().set_active(name, active, now)


class ListsInactive(ReferenceMetaStore):
    """active answers everything."""

    def active(self) -> Iterable[DeDuper]:
        with self.held() as data:
            return [record for key, record in data.items() if key[0] == self.client_id]


class CutsNames(ReferenceMetaStore):
    """Names are cut to 100 characters, without spaces around them."""

    def key(self, name: str) -> Any:
        return super().key(name[:100].strip())


class SharesClientsMeta(ReferenceMetaStore):
    """The client id does not count."""

    def __init__(self, state: MemoryState, client_id: str) -> None:
        del client_id
        super().__init__(state, "everyone")


class KeepsOpenMeta(ReferenceMetaStore):
    """A closed store goes on answering."""

    def close(self) -> None:
        pass


class RaisesWhenUnknown(ReferenceMetaStore):
    """An unknown name is an error."""

    def get(self, name: str) -> DeDuper | None:
        found = super().get(name)
        if found is None:
            raise DeDuperNotFoundError(name, "is not registered")
        return found


class CreateAnswersNothing(ReferenceMetaStore):
    """create says nothing when it stored the record."""

    def create(self, deduper: DeDuper) -> DeDuper:
        before = self.get(deduper.name)
        super().create(deduper)
        return before  # type: ignore[return-value]  # the fault


class SwapsBack(ReferenceMetaStore):
    """Marking a record turns it over, whatever was asked for."""

    def set_active(self, name: str, active: bool, now: int) -> None:
        stored = self.get(name)
        super().set_active(name, active if stored is None else not stored.active, now)
