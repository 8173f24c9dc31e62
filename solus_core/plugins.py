"""Finds plugins, keeps broken ones apart, checks their version, and calls their hooks: nobody else does.

One :class:`PluginManager` is a snapshot of what is installed; there is no global one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from types import MappingProxyType
from typing import Any, Final, TypeVar, final

import pluggy
from attrs import frozen

from solus_core import hashing, hookspecs
from solus_core.config import (
    Backend,
    StorageConfig,
    StorageContext,
    StoreUrl,
    build_config,
    parse_url,
    scheme_of,
)
from solus_core.errors import InvalidConfigError, PluginError, SolusError
from solus_core.hookspecs import API_VERSION, PROJECT
from solus_core.stores import DataStore, Hasher, MetaStore

DISABLED_VARIABLE: Final = "SOLUS_DISABLED_PLUGINS"
OFFICIAL: Final = {"memory": "solus-memory", "hbase": "solus-hbase", "aerospike": "solus-aerospike"}
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")

Offer = TypeVar("Offer")
Result = TypeVar("Result")


@final
@frozen
class PluginInfo:
    """What is known of one plugin. ``state``: ``ok``, ``failed`` (``error`` says why) or ``disabled``.

    ``name``: of its entry point. ``api``: the hook version it was written for, None if it didn't get so far.
    ``provides``: what it offers, as ``memory://`` or ``hasher murmur3-md5``.
    """

    name: str
    distribution: str
    version: str
    api: object
    state: str
    error: str = ""
    provides: tuple[str, ...] = ()


@final
class PluginManager:
    """The installed plugins. Make one with :meth:`load`; immutable once made, but for :meth:`register`."""

    def __init__(self) -> None:
        """An empty manager but for the built-in hashers: for tests and for programs that name their plugins."""
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._plugins: dict[str, PluginInfo] = {}
        self._causes: dict[str, BaseException] = {}
        self._backends: dict[str, tuple[Backend, str]] = {}
        self._hashers: dict[str, tuple[Hasher, str]] = {}
        self._clashes: dict[str, list[str]] = {}
        self.register(hashing, "hashing", distribution="solus-core", version=_version("solus-core"))

    @classmethod
    def load(cls) -> PluginManager:
        """All plugins of the entry-point group ``solus``, sorted by name; ``SOLUS_DISABLED_PLUGINS`` left out.

        The variable lists names of entry points or distributions, separated by commas. A plugin that can't be
        loaded is kept as a failure and disturbs nobody else.
        """
        manager = cls()
        blocked = {name.strip() for name in os.environ.get(DISABLED_VARIABLE, "").split(",")}
        found = entry_points(group=PROJECT)
        for entry in sorted(found, key=lambda e: (e.name, _origin(e))):
            origin = _origin(entry)
            if entry.name in blocked or origin[0] in blocked - {""}:
                manager._note(PluginInfo(entry.name, *origin, None, "disabled"))
            else:
                manager._load(entry, *origin)
        return manager

    def _load(self, entry: EntryPoint, distribution: str, version: str) -> None:
        try:
            plugin = entry.load()
        except (Exception, SystemExit) as error:
            self._fail(PluginInfo(entry.name, distribution, version, None, "failed"), error)
        else:
            self.register(plugin, entry.name, distribution=distribution, version=version)

    def register(self, plugin: object, name: str, *, distribution: str = "", version: str = "") -> PluginInfo:
        """Add a plugin by hand. It is checked like an installed one; look at the ``state`` that is answered."""
        api = getattr(plugin, "SOLUS_API_VERSION", None)
        info = PluginInfo(name, distribution, version, api, "failed")
        try:
            if self._pluggy.has_plugin(name):
                other = next(i.distribution for i in self.plugins if i.name == name and i.state == "ok")
                raise PluginError(f"another plugin is named {name!r} already, from {other or 'a program'}")
            if type(api) is not int or api != API_VERSION:
                raise PluginError(
                    f"it declares SOLUS_API_VERSION = {api!r}, this solus-core speaks {API_VERSION}: "
                    "install versions that go together"
                )
            self._pluggy.register(plugin, name)
            try:
                self._pluggy.check_pending()
                backends = [_checked_backend(offer) for offer in self._offers("solus_backends", plugin)]
                hashers = [_checked_hasher(offer) for offer in self._offers("solus_hashers", plugin)]
            except BaseException:
                self._pluggy.unregister(plugin)
                raise
        except (Exception, SystemExit) as error:
            return self._fail(info, error)
        for backend in backends:
            self._offer(f"{backend.scheme}://", self._backends, backend.scheme, backend, name)
        for hasher in hashers:
            self._offer(f"hasher {hasher.name}", self._hashers, hasher.name, hasher, name)
        provides = (*(f"{b.scheme}://" for b in backends), *(f"hasher {h.name}" for h in hashers))
        return self._note(PluginInfo(name, distribution, version, api, "ok", provides=provides))

    def _offers(self, hook: str, plugin: object) -> list[Any]:
        """What one plugin alone answers to a collecting hook."""
        others = [other for other in self._pluggy.get_plugins() if other is not plugin]
        return [item for answer in self._pluggy.subset_hook_caller(hook, others)() for item in answer]

    def _offer(self, what: str, table: dict[str, tuple[Offer, str]], key: str, offer: Offer, plugin: str) -> None:
        if key in table:
            self._clashes.setdefault(what, [table[key][1]]).append(plugin)
        else:
            table[key] = (offer, plugin)

    def _fail(self, info: PluginInfo, error: BaseException) -> PluginInfo:
        text = error.message if isinstance(error, SolusError) else f"{type(error).__name__}: {error}"
        failed = PluginInfo(info.name, info.distribution, info.version, info.api, "failed", text)
        self._causes[self._key(failed)] = error
        return self._note(failed)

    def _note(self, info: PluginInfo) -> PluginInfo:
        self._plugins[self._key(info)] = info
        return info

    def _key(self, info: PluginInfo) -> str:
        # A second plugin of a name is a failure, and listed beside the first.
        return info.name if info.name not in self._plugins else f"{info.name} ({info.distribution})"

    # What is there

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """All plugins, failed and disabled ones too, in the order they were found."""
        return tuple(self._plugins.values())

    @property
    def backends(self) -> Mapping[str, Backend]:
        """The usable backends by scheme."""
        return MappingProxyType({key: offer for key, (offer, _) in self._backends.items()})

    @property
    def hashers(self) -> Mapping[str, Hasher]:
        """The usable hashers by name."""
        return MappingProxyType({key: offer for key, (offer, _) in self._hashers.items()})

    def backend(self, scheme: str) -> Backend:
        """The backend of a scheme; if there is none, a ``PluginError`` that says what to do about it."""
        self._refuse_clash(f"{scheme}://")
        if scheme in self._backends:
            return self._backends[scheme][0]
        raise self._missing(f"no backend for {scheme}:// is installed", scheme, self._backends, "://")

    def hasher(self, name: str) -> Hasher:
        """The hasher of a name; if there is none, a ``PluginError`` that says what to do about it."""
        if not isinstance(name, str):
            raise TypeError(f"hasher must be the name of a hasher, not {type(name).__name__}")
        self._refuse_clash(f"hasher {name}")
        if name in self._hashers:
            return self._hashers[name][0]
        raise self._missing(f"no hasher {name!r} is installed", name, self._hashers, "")

    def _refuse_clash(self, what: str) -> None:
        if what in self._clashes:
            names = " and ".join(self._clashes[what])
            raise PluginError(
                f"{what} is offered by more than one plugin ({names}): disable one by {DISABLED_VARIABLE}"
            )

    def _missing(self, text: str, wanted: str, table: Mapping[str, object], suffix: str) -> PluginError:
        """Installed but broken, a near miss, or not there at all: three different answers."""
        for key, info in self._plugins.items():
            # By convention a backend's entry point is named as its scheme.
            if wanted in (info.name, info.distribution) or OFFICIAL.get(wanted) == info.distribution:
                if info.state == "disabled":
                    return PluginError(f"{text}: plugin {info.name!r} is disabled by {DISABLED_VARIABLE}")
                if info.state == "failed":
                    error = PluginError(
                        f"plugin {info.name!r} of {info.distribution} {info.version} is installed but broken: "
                        f"{info.error}"
                    )
                    error.__cause__ = self._causes.get(key)
                    return error
        have = ", ".join(f"{key}{suffix}" for key in sorted(table)) or "none"
        if wanted in OFFICIAL and suffix:
            return PluginError(f"{text} (installed: {have}): pip install {OFFICIAL[wanted]}")
        near = get_close_matches(wanted, [*table, *(OFFICIAL if suffix else ())], 1)
        hint = f": did you mean {near[0]}{suffix}?" if near else ""
        return PluginError(f"{text} (installed: {have}){hint}")

    # From a target to open stores

    def config_of(self, target: object) -> StorageConfig:
        """The typed config for a URL, a mapping with a ``scheme``, or a typed config itself."""
        if isinstance(target, StorageConfig):
            return target
        if isinstance(target, str):
            backend = self.backend(scheme_of(target))
            parts: StoreUrl = parse_url(target)
            return build_config(backend.config, backend.settings_from_url(parts), f"{backend.scheme}:// URL")
        if isinstance(target, Mapping):
            settings = dict(target)
            scheme = settings.pop("scheme", None)
            if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
                raise InvalidConfigError(
                    "store mapping", [f"scheme is {scheme!r}, it must name a backend, as 'memory'"]
                )
            return build_config(self.backend(scheme).config, settings, f"{scheme} settings")
        raise TypeError(f"a store must be a URL, a mapping, a typed config or a context, not {type(target).__name__}")

    def connect(self, config: StorageConfig) -> StorageContext:
        """The live context of a typed config; the caller closes it."""
        for scheme, (backend, plugin) in self._backends.items():
            if type(config) is backend.config:
                self._refuse_clash(f"{scheme}://")
                context = _guarded(f"connecting by plugin {plugin!r}", partial(backend.connect, config))
                if not isinstance(context, StorageContext):
                    raise PluginError(f"plugin {plugin!r} connected to {context!r}, which is no StorageContext")
                return context
        raise PluginError(f"no installed backend takes a {type(config).__name__}")

    def open_data_store(self, context: StorageContext, client_id: str) -> DataStore:
        """A data store on ``context``, from whichever plugin knows it."""
        store: DataStore = self._opened("solus_open_data_store", context, client_id)
        return store

    def open_meta_store(self, context: StorageContext, client_id: str) -> MetaStore:
        """A meta-store on ``context``, from whichever plugin knows it."""
        store: MetaStore = self._opened("solus_open_meta_store", context, client_id)
        return store

    def _opened(self, hook: str, context: StorageContext, client_id: str) -> Any:
        """Ask one plugin after the other, wrappers around each: one that is broken must not stand in the way."""
        asked = [impl.plugin for impl in getattr(self._pluggy.hook, hook).get_hookimpls() if not impl.wrapper]
        failure: PluginError | None = None
        for plugin in asked:
            others = [other for other in asked if other is not plugin]
            call = self._pluggy.subset_hook_caller(hook, others)
            what = f"{hook} of plugin {self._pluggy.get_name(plugin)!r}"
            try:
                store = _guarded(what, partial(call, context=context, client_id=client_id))
            except PluginError as error:
                failure = failure or error
                continue
            if store is not None:
                return store
        raise failure or PluginError(f"no installed plugin answers {hook} for a {type(context).__name__}")


def _origin(entry: EntryPoint) -> tuple[str, str]:
    """Name and version of the distribution that an entry point belongs to, as far as its metadata say."""
    if entry.dist is None:
        return "", ""
    metadata = entry.dist.metadata  # asked before it is read: what is missing is None here and a KeyError there
    name, version = (metadata[key] if key in metadata else "" for key in ("Name", "Version"))  # noqa: SIM401  # get() is not in its protocol
    return name, version


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:  # run from a copy that was never installed
        return ""


def _guarded(what: str, call: Callable[[], Result]) -> Result:
    """A plugin may raise SolusErrors; anything else is its fault, and said so (R22)."""
    try:
        return call()
    except SolusError:
        raise
    except Exception as error:
        raise PluginError(f"{what} failed: {type(error).__name__}: {error}") from error


def _checked_backend(offer: object) -> Backend:
    if not isinstance(offer, Backend):
        raise PluginError(f"solus_backends() must answer Backend objects, it answered {offer!r}")
    if not _SCHEME.fullmatch(offer.scheme):
        raise PluginError(f"the scheme {offer.scheme!r} is not of the form {_SCHEME.pattern}")
    return offer


def _checked_hasher(offer: Any) -> Hasher:
    name, probe, probes = (getattr(offer, part, None) for part in ("name", "probe", "probes"))
    if not (isinstance(name, str) and name and callable(probe) and callable(probes)):
        raise PluginError(f"solus_hashers() must answer hashers with a name, probe and probes, it answered {offer!r}")
    hasher: Hasher = offer
    return hasher
