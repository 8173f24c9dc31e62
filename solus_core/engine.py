"""``SolusEngine``: opens stores, registers de-dupers, answers for them. Knows no backend."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import final

import numpy as np
from attrs import evolve

from solus_core.cache import CacheSettings, MetadataCache
from solus_core.clock import system_clock
from solus_core.closing import Closers
from solus_core.config import StorageConfig, StorageContext
from solus_core.entities import Entity, Ttl
from solus_core.errors import (
    ConfigMismatchError,
    DeDuperNotFoundError,
    ErrorCode,
    InvalidArgumentError,
    StoreError,
)
from solus_core.handle import DeDuperHandle, Session
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, check_deduper_name, check_identifier
from solus_core.planning import check_keys
from solus_core.plugins import PluginManager
from solus_core.stats import DeDuperStats
from solus_core.stores import DataStore, Hasher, MetaStore, Probes, SingleProbeStore

Target = str | Mapping[str, object] | StorageConfig | StorageContext
"""Where data are: a URL, a mapping with a ``scheme``, a typed config, or a live context (never closed by us)."""

DEFAULT_HASHER = "murmur3-md5"
_HANDLES_KEPT = 4_096
_log = logging.getLogger(__name__)


@final
class SolusEngine:
    """Answers "have I seen this id in the last N days?". Make one with :meth:`open`; threads may share it.

    A context manager: leaving it closes what it opened, and only that.
    """

    def __init__(
        self,
        client_id: str,
        session: Session,
        meta: MetaStore,
        hasher: Hasher | None,
        closers: Closers,
    ) -> None:
        """Not for callers: use :meth:`open`."""
        self._client_id = client_id
        self._session = session
        self._meta = meta
        self._hasher = hasher
        self._closers = closers
        self._handles: dict[str, DeDuperHandle] = {}
        self._closed = False

    @classmethod
    def open(
        cls,
        target: Target,
        *,
        client_id: str,
        meta: Target | None = None,
        hasher: str | None = None,
        require: Atomicity = Atomicity.NONE,
        clock: Callable[[], int] = system_clock,
        cache: CacheSettings = CacheSettings(),  # noqa: B008  # frozen, so one for all calls is safe
        plugins: PluginManager | None = None,
    ) -> SolusEngine:
        """An engine on the stores at ``target``.

        ``client_id``: whose de-dupers; two client ids share nothing. ``meta``: where the registered de-dupers
        are recorded, if not beside the data. ``hasher``: for what is registered from now on (default
        ``murmur3-md5``); if given, de-dupers registered with another one are refused, else each is used with
        its own. ``require``: fail unless the store promises at least this atomicity. ``clock``: answers epoch
        milliseconds. ``plugins``: found through entry points if None.

        Raises ``InvalidConfigError``, ``PluginError``, ``InvalidArgumentError``, or what the store says.
        """
        check_identifier("client_id", client_id)
        _check_types(require, cache, clock)
        plugins = PluginManager.load() if plugins is None else plugins
        chosen = None if hasher is None else plugins.hasher(hasher)

        def hasher_of(deduper: DeDuper) -> Hasher:
            if hasher is not None and deduper.hasher != hasher:
                raise ConfigMismatchError(deduper.name, {"hasher": (deduper.hasher, hasher)})
            return plugins.hasher(deduper.hasher)

        closers = Closers()
        try:
            context = _context(plugins, target, closers)
            data = plugins.open_data_store(context, client_id)
            closers.add(data.close)
            if data.atomicity < require:
                raise InvalidArgumentError(
                    f"atomicity {require.name} is required, this store promises {data.atomicity.name}: "
                    "require less, or use a backend that promises more"
                )
            meta_context = context if meta is None else _context(plugins, meta, closers)
            meta_store = plugins.open_meta_store(meta_context, client_id)
            closers.add(meta_store.close)
        except BaseException:
            with suppress(Exception):  # what went wrong first is what the caller has to know
                closers.close()
            raise
        single = data if isinstance(data, SingleProbeStore) else _BatchOfOne(data)
        session = Session(data, single, MetadataCache(meta_store.get, cache), clock, hasher_of)
        # Not the target: a password may be in it.
        _log.debug("client %s opened a %s, atomicity %s", client_id, type(data).__name__, data.atomicity.name)
        return cls(client_id, session, meta_store, chosen, closers)

    # Lifecycle

    def close(self) -> None:
        """Close what this engine opened; closing again is fine, and tries again what failed to close."""
        if not self._closed:
            _log.debug("client %s closes its %s", self._client_id, type(self._session.data).__name__)
        self._closed = True
        self._handles.clear()
        self._closers.close()

    def __enter__(self) -> SolusEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """Whose de-dupers these are."""
        return self._client_id

    @property
    def atomicity(self) -> Atomicity:
        """Among which callers ``add_if_absent`` has one winner."""
        return self._session.data.atomicity

    # De-dupers

    def register(
        self,
        name: str,
        config: DeDuperConfig = DeDuperConfig(),  # noqa: B008  # frozen, so one for all calls is safe
        *,
        planned_keys: int = 0,
    ) -> DeDuper:
        """Register a de-duper, or find it registered with the same config; an inactive one becomes active again.

        ``planned_keys``: how many keys you expect to be alive at once, 0 if you can't say; recorded at the first
        registration, and ``stats`` warns when there are more.
        Raises ``ConfigMismatchError`` that names each differing field if the name is taken with another config.
        """
        self._check_open()
        check_deduper_name(name)
        if not isinstance(config, DeDuperConfig):
            raise TypeError(f"config must be a DeDuperConfig, not {type(config).__name__}")
        check_keys(planned_keys)
        data = self._session.data
        data.check_config(config)
        now = self._session.clock()
        wanted = DeDuper(
            name=name,
            client_id=self._client_id,
            config=config,
            hasher=DEFAULT_HASHER if self._hasher is None else self._hasher.name,
            layout=data.layout,
            planned_keys=planned_keys,
            created_at=now,
            updated_at=now,
        )
        stored = self._meta.create(wanted)
        differences = stored.config.differences(config)
        if self._hasher is not None and stored.hasher != self._hasher.name:
            differences["hasher"] = (stored.hasher, self._hasher.name)
        if differences:
            raise ConfigMismatchError(name, differences)
        self._record_active(stored, True, now)
        return stored if stored.active else evolve(stored, active=True, updated_at=now)

    def unregister(self, name: str) -> None:
        """Mark a de-duper inactive. Its data stay and expire by TTL; registering it again uses them again."""
        self._record_active(self.get_deduper(name), False, self._session.clock())

    def _record_active(self, stored: DeDuper, active: bool, now: int) -> None:
        try:
            if stored.active is not active:
                self._meta.set_active(stored.name, active, now)
        finally:
            # Also where that failed: the answer may have been lost, and the change be there.
            self._session.cache.forget(stored.name)

    def get_deduper(self, name: str) -> DeDuper:
        """The record in the meta-store, active or not; an unknown name raises ``DeDuperNotFoundError``."""
        self._check_open()
        stored = self._meta.get(check_deduper_name(name))
        if stored is None:
            raise DeDuperNotFoundError(name, "is not registered")
        return stored

    def get_cached_deduper(self, name: str) -> DeDuper:
        """As ``get_deduper``, from the cache: as old as its refresh time at most."""
        self._check_open()
        entry = self._session.cache.get(check_deduper_name(name), self._session.clock())
        if entry is None:
            raise DeDuperNotFoundError(name, "is not registered")
        return entry.deduper

    def get_active_dedupers(self) -> Mapping[str, DeDuper]:
        """All active de-dupers of this client id, by name, from the meta-store."""
        self._check_open()
        return MappingProxyType({deduper.name: deduper for deduper in self._meta.active()})

    def deduper(self, name: str) -> DeDuperHandle:
        """The verbs below for one de-duper. Does no I/O: whether it is registered shows at its first verb."""
        handle = self._handles.get(name)
        if handle is None:
            self._check_open()
            handle = DeDuperHandle(self._session, check_deduper_name(name))
            if len(self._handles) >= _HANDLES_KEPT:
                self._handles.clear()  # they are cheap to make again
            self._handles[name] = handle
        return handle

    # Data: see DeDuperHandle for what each verb promises

    def check_absence(self, name: str, entity: Entity) -> bool:
        """True: certainly not seen. False: seen, rarely a false positive."""
        return self.deduper(name).check_absence(entity)

    def add(self, name: str, entity: Entity, ttl: Ttl) -> None:
        """Mark the entity as seen for ``ttl``."""
        self.deduper(name).add(entity, ttl)

    def add_if_absent(self, name: str, entity: Entity, ttl: Ttl) -> bool:
        """True exactly when this call added the entity."""
        return self.deduper(name).add_if_absent(entity, ttl)

    def check_absence_many(self, name: str, entities: Iterable[Entity]) -> dict[Entity, bool]:
        """``check_absence`` of each distinct entity, in first-seen order."""
        return self.deduper(name).check_absence_many(entities)

    def add_many(self, name: str, entities: Iterable[Entity], ttl: Ttl) -> None:
        """``add`` for each."""
        self.deduper(name).add_many(entities, ttl)

    def add_if_absent_many(self, name: str, entities: Iterable[Entity], ttl: Ttl) -> dict[Entity, bool]:
        """``add_if_absent`` of each distinct entity, in first-seen order."""
        return self.deduper(name).add_if_absent_many(entities, ttl)

    def stats(self, name: str) -> DeDuperStats:
        """How full a de-duper is, registered or inactive, and how often wrong; logs a warning if past its plan."""
        deduper, now = self.get_deduper(name), self._session.clock()
        stats = DeDuperStats.of(deduper, self._session.data.stats(deduper, now), now)
        if stats.past_plan:
            _log.warning(
                "de-duper %r is past its plan: about %d keys are alive, planned were %d; false-positive rate %.2g",
                name,
                stats.estimated_keys,
                deduper.planned_keys,
                stats.false_positive_rate,
            )
        return stats

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(ErrorCode.INVALID_ARGUMENT, "this engine is closed: open a new one")


def _check_types(require: object, cache: object, clock: Callable[[], object]) -> None:
    if not isinstance(require, Atomicity):
        raise TypeError(f"require must be an Atomicity, not {type(require).__name__}")
    if not isinstance(cache, CacheSettings):
        raise TypeError(f"cache must be CacheSettings, not {type(cache).__name__}")
    if type(now := clock()) is not int:
        raise TypeError(f"clock must answer an int of epoch milliseconds, it answered {now!r}")


def _context(plugins: PluginManager, target: Target, closers: Closers) -> StorageContext:
    """The live context for ``target``; one that we connect is closed with the engine."""
    if isinstance(target, StorageContext):
        return target
    context = plugins.connect(plugins.config_of(target))
    closers.add(context.close)
    return context


@final
class _BatchOfOne:
    """The single verbs for a store that has batch verbs only."""

    __slots__ = ("_data",)

    def __init__(self, data: DataStore) -> None:
        self._data = data

    def absent_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int) -> bool:
        """See ``SingleProbeStore``."""
        return bool(self._data.absent(_one(deduper, shard, positions), now)[0])

    def add_one(self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int) -> None:
        """See ``SingleProbeStore``."""
        self._data.add(_one(deduper, shard, positions), now, expires_at)

    def add_if_absent_one(
        self, deduper: DeDuper, shard: int, positions: Sequence[int], now: int, expires_at: int
    ) -> bool:
        """See ``SingleProbeStore``."""
        return bool(self._data.add_if_absent(_one(deduper, shard, positions), now, expires_at)[0])


def _one(deduper: DeDuper, shard: int, positions: Sequence[int]) -> Probes:
    return Probes(deduper, np.array([shard], np.int64), np.array([positions], np.int32))
