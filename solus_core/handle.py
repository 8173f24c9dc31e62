"""The data verbs for one de-duper: ``engine.deduper(name)``.

All of them are written here, once; the engine's own verbs that take a name come here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from typing import TYPE_CHECKING, TypeVar, final

from attrs import frozen

from solus_core.entities import Entity, Ttl, check_ttl, distinct, encode, ttl_ms
from solus_core.errors import (
    BatchError,
    DeDuperNotFoundError,
    ErrorCode,
    InvalidArgumentError,
    SolusError,
    StoreBatchError,
    StoreError,
)
from solus_core.model import Atomicity, DeDuper
from solus_core.stores import Bools, DataStore, Hasher, Probes, SingleProbeStore
from solus_core.streams import unique

if TYPE_CHECKING:
    from solus_core.cache import Entry, MetadataCache

Item = TypeVar("Item")


@final
@frozen(eq=False)
class Session:
    """What the handles of one engine share: its stores, cache, clock and hashers."""

    data: DataStore
    single: SingleProbeStore
    cache: MetadataCache
    clock: Callable[[], int]
    hasher_of: Callable[[DeDuper], Hasher]


@final
@frozen(eq=False)
class _Bound:
    """An active de-duper, ready for use while ``loaded_at <= now < refresh_at`` and nothing was changed."""

    deduper: DeDuper
    hasher: Hasher
    longest_ttl: int
    loaded_at: int
    refresh_at: int
    changes: int


@final
class DeDuperHandle:
    """The verbs of one de-duper. Get it from ``engine.deduper(name)``; threads may share it.

    Entities are ``str``, ``bytes``, ``int`` or ``uuid.UUID``; a TTL is a ``timedelta`` or an ``int`` of
    milliseconds, above 0 and at most the de-duper's expiry. Every verb raises ``DeDuperNotFoundError`` for an
    unknown or inactive de-duper, ``TypeError`` for a wrong Python type, another ``SolusError`` for the rest.
    """

    __slots__ = ("_bound", "_session", "name")

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self._bound: _Bound | None = None

    def __repr__(self) -> str:
        return f"<DeDuperHandle {self.name!r}>"

    def check_absence(self, entity: Entity) -> bool:
        """True: certainly not added with a TTL that still runs. False: present, rarely a false positive."""
        data, session, now = encode(entity), self._session, self._session.clock()
        bound = self._bind(now)
        try:
            shard, positions = bound.hasher.probe(data, bound.deduper.config)
            return session.single.absent_one(bound.deduper, shard, positions, now)
        except SolusError:
            raise
        except Exception as error:
            raise _unexpected(error) from error

    def add(self, entity: Entity, ttl: Ttl) -> None:
        """Mark the entity as seen until ``now + ttl``, or longer if it was marked for longer already."""
        data, milliseconds, session = encode(entity), ttl_ms(ttl), self._session
        now = session.clock()
        bound = self._bind(now)
        if milliseconds > bound.longest_ttl:
            check_ttl(milliseconds, bound.deduper)
        try:
            shard, positions = bound.hasher.probe(data, bound.deduper.config)
            session.single.add_one(bound.deduper, shard, positions, now, now + milliseconds)
        except SolusError:
            raise
        except Exception as error:
            raise _unexpected(error, writes=True) from error

    def add_if_absent(self, entity: Entity, ttl: Ttl) -> bool:
        """True exactly when this call added the entity: of racing callers, one gets True (see ``atomicity``)."""
        # The hot path of the library: what the other verbs call functions for stands here in line.
        data = entity.encode() if type(entity) is str and entity.isascii() else encode(entity)
        milliseconds = ttl if type(ttl) is int and ttl > 0 else ttl_ms(ttl)
        session = self._session
        now = session.clock()
        bound = self._bound
        if bound is None or not bound.loaded_at <= now < bound.refresh_at or bound.changes != session.cache.changes:
            bound = self._bind(now)
        if milliseconds > bound.longest_ttl:
            check_ttl(milliseconds, bound.deduper)
        try:
            shard, positions = bound.hasher.probe(data, bound.deduper.config)
            return session.single.add_if_absent_one(bound.deduper, shard, positions, now, now + milliseconds)
        except SolusError:
            raise
        except Exception as error:
            raise _unexpected(error, writes=True) from error

    def check_ready(self) -> None:
        """Raise now what an add would raise whatever the entity is: unknown, inactive, or the store takes no adds yet.

        For work that is done before it is marked, as in ``unique``: call this before it begins. A store that is
        ready now may fail later.
        """
        now = self._session.clock()
        bound = self._bind(now)
        try:
            shards, positions = bound.hasher.probes([], bound.deduper.config)
            self._session.data.add(Probes(bound.deduper, shards, positions), now, now)
        except SolusError:
            raise
        except Exception as error:
            raise _unexpected(error) from error

    def check_absence_many(self, entities: Iterable[Entity]) -> dict[Entity, bool]:
        """``check_absence`` of each distinct entity, in first-seen order; ``{}`` for none, without any I/O."""
        return self._batch(entities, 0, lambda probes, now, _: self._session.data.absent(probes, now))

    def add_many(self, entities: Iterable[Entity], ttl: Ttl) -> None:
        """``add`` for each; raises ``BatchError`` with the entities that were not processed."""

        def add(probes: Probes, now: int, expires_at: int) -> None:
            self._session.data.add(probes, now, expires_at)

        self._batch(entities, ttl_ms(ttl), add)

    def add_if_absent_many(self, entities: Iterable[Entity], ttl: Ttl) -> dict[Entity, bool]:
        """``add_if_absent`` of each distinct entity, in first-seen order; repeats in the batch count as one.

        A ``BatchError`` carries the answers of the entities that were processed: heed them, a repeated call
        would call those present.
        """
        return self._batch(entities, ttl_ms(ttl), self._session.data.add_if_absent)

    def unique(
        self,
        items: Iterable[Item],
        *,
        ttl: Ttl,
        key: Callable[[Item], Entity] | None = None,
        batch_size: int = 1_000,
        mark_first: bool = False,
    ) -> Iterator[Item]:
        """The items whose key has not been seen, lazily and in order, holding ``batch_size`` items at most.

        A slow source is waited for until ``batch_size`` items are there: use 1 where each must come at once.
        ``key``: the entity of an item; the item itself if None. An item is marked as seen once you have come
        back for the next one, and so are done with it: a crash repeats items and never loses one (R25).
        Two such streams at once can both yield an item. ``mark_first=True`` claims items before they are
        yielded, so that only one of them does; what was claimed and not worked on in a crash is LOST. A store
        whose ``atomicity`` is NONE can't claim: ``InvalidArgumentError``.
        """
        if type(batch_size) is not int:
            raise TypeError(f"batch_size must be an int, not {type(batch_size).__name__}")
        if batch_size < 1:
            raise InvalidArgumentError(f"batch_size is {batch_size}, allowed are whole numbers from 1")
        if mark_first and self._session.data.atomicity is Atomicity.NONE:
            raise InvalidArgumentError(
                "mark_first is True, and this store promises atomicity NONE: two streams could both claim an item; "
                "use a store that promises more"
            )
        check_ttl(ttl_ms(ttl), self._bind(self._session.clock()).deduper)
        return unique(self, items, ttl, key, batch_size, mark_first)

    def _batch(
        self,
        entities: Iterable[Entity],
        milliseconds: int,
        verb: Callable[[Probes, int, int], Bools | None],
    ) -> dict[Entity, bool]:
        """Run a batch verb and pair its answers with the entities. ``milliseconds``: the TTL of verbs that write."""
        answered, data = distinct(entities)
        if not answered:
            return {}
        now = self._session.clock()
        bound = self._bind(now)
        if milliseconds > bound.longest_ttl:
            check_ttl(milliseconds, bound.deduper)
        try:
            shards, positions = bound.hasher.probes(data, bound.deduper.config)
            answers = verb(Probes(bound.deduper, shards, positions), now, now + milliseconds)
            if answers is not None and len(answers) != len(answered):
                raise ValueError(f"{len(answers)} answers for {len(answered)} entities")
        except StoreBatchError as error:
            names = list(answered)
            raise BatchError(
                error.code,
                error.message,
                unprocessed=[name for name, done in zip(names, error.done, strict=True) if not done],
                doubtful=[name for name, doubt in zip(names, error.doubtful, strict=True) if doubt],
                answers={
                    name: bool(answer)
                    for name, answer, done in zip(names, error.answers, error.done, strict=True)
                    if done
                },
            ) from error.__cause__
        except Exception as error:
            if isinstance(error, SolusError):
                failure, cause = error, error.__cause__
            else:
                failure, cause = _unexpected(error, writes=milliseconds > 0), error
            raise BatchError(
                failure.code,
                failure.message,
                unprocessed=list(answered),
                doubtful=list(answered) if failure.in_doubt else (),
                answers={},
            ) from cause
        if answers is None:
            return {}
        # All are True already: putting in what differs costs less than a new dict.
        for name in list(compress(answered, (~answers).tolist())):
            answered[name] = False
        return answered

    def _bind(self, now: int) -> _Bound:
        """The de-duper, from the cache if it is fresh."""
        session, bound = self._session, self._bound
        changes = session.cache.changes
        if bound is not None and bound.loaded_at <= now < bound.refresh_at and bound.changes == changes:
            return bound
        entry = session.cache.get(self.name, now)
        if entry is None:
            raise DeDuperNotFoundError(self.name, "is not registered")
        if not entry.deduper.active:
            raise DeDuperNotFoundError(self.name, "is inactive: it was unregistered; register it to use it again")
        self._bound = bound = self._bound_to(entry, changes)
        return bound

    def _bound_to(self, entry: Entry, changes: int) -> _Bound:
        deduper = entry.deduper
        return _Bound(
            deduper,
            self._session.hasher_of(deduper),
            deduper.config.expiry_seconds * 1000,
            entry.loaded_at,
            entry.refresh_at,
            changes,
        )


def _unexpected(error: Exception, *, writes: bool = False) -> StoreError:
    """A store or hasher raised something else than a SolusError: that breaks its contract (R22).

    Or a signal's handler did, in the middle of a call; a write may be applied then (R23).
    """
    return StoreError(ErrorCode.INTERNAL_ERROR, f"the store or hasher failed unexpectedly: {error!r}", in_doubt=writes)
