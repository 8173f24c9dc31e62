"""A right plugin and some that are each wrong in one way, installed for one run by kit_runner.py."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import mutants_data_add
import mutants_data_keep
import mutants_meta
from test_kit_reference import MemoryState, ReferenceMetaStore, ReferenceStore

from solus_core.config import Backend, StorageConfig, StorageContext, StoreUrl
from solus_core.hookspecs import hookimpl
from solus_core.stores import DataStore, MetaStore

_STATES: dict[str, tuple[MemoryState, MemoryState]] = {}  # what a server would be


class Context(StorageContext):
    __slots__ = ("plugin", "states")

    def __init__(self, plugin: Plugin, name: str) -> None:
        self.plugin = plugin
        self.states = _STATES.setdefault(name, (MemoryState(), MemoryState()))


class Plugin:
    """A right one, with state by name in this process."""

    SOLUS_API_VERSION: Any = 1
    data: Any = ReferenceStore
    meta: Any = ReferenceMetaStore

    def __init__(self) -> None:
        self.scheme = type(self).__name__.lower()
        self.config = attrs.frozen(type("Config", (StorageConfig,), {"__annotations__": {"name": str}, "name": "x"}))

    def settings(self, url: StoreUrl) -> Mapping[str, object]:
        return url.options

    def connect(self, config: Any) -> StorageContext:
        return Context(self, f"{self.scheme}-{config.name}")

    @hookimpl
    def solus_backends(self) -> Iterable[Backend]:
        return [Backend(self.scheme, self.config, self.settings, self.connect, "A dict")]

    @hookimpl
    def solus_open_data_store(self, context: Any, client_id: str) -> DataStore | None:
        return self.data(context.states[0], client_id, "dc1") if self.mine(context) else None

    @hookimpl
    def solus_open_meta_store(self, context: Any, client_id: str) -> MetaStore | None:
        return self.meta(context.states[1], client_id) if self.mine(context) else None

    def mine(self, context: Any) -> bool:
        return isinstance(context, Context) and context.plugin is self


class ClaimsAll(Plugin):
    """Opens a store on whatever context it is shown."""

    def mine(self, context: Any) -> bool:
        return not isinstance(context, Context) or context.plugin is self

    @hookimpl
    def solus_open_meta_store(self, context: Any, client_id: str) -> MetaStore | None:
        if not isinstance(context, Context):
            return ReferenceMetaStore(MemoryState(), client_id)
        return super().solus_open_meta_store(context, client_id)


class OtherVersion(Plugin):
    """Written for another API."""

    SOLUS_API_VERSION = 99


class ImportsDriver(Plugin):
    """Imports its driver when it is discovered."""

    @hookimpl
    def solus_backends(self) -> Iterable[Backend]:
        importlib.import_module("sqlite3")
        return super().solus_backends()


class MutableConfig(Plugin):
    """Its config can be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.config = attrs.define(unsafe_hash=True)(
            type("Config", (StorageConfig,), {"__annotations__": {"name": str}, "name": "x"})
        )


class DropsUnknownOptions(Plugin):
    """Takes the options that it knows, and says nothing of the others."""

    def settings(self, url: StoreUrl) -> Mapping[str, object]:
        return {name: value for name, value in url.options.items() if name == "name"}


class ClosesAll(Plugin):
    """A store that closes takes the data of all with it."""

    @hookimpl
    def solus_open_data_store(self, context: Any, client_id: str) -> DataStore | None:
        if not self.mine(context):
            return None
        store: Any = ReferenceStore(context.states[0], client_id, "dc1")

        def close() -> None:
            with context.states[0].held() as data:
                data.clear()

        store.close = close
        found: DataStore = store
        return found


class OneEach(Plugin):
    """Every connect has a state of its own."""

    def connect(self, config: Any) -> StorageContext:
        return Context(self, f"{self.scheme}-{config.name}-{len(_STATES)}")


class NotOfThisProcess(Plugin):
    """In a forked child it is empty, and answers: absent."""

    def connect(self, config: Any) -> StorageContext:
        os = importlib.import_module("os")
        return Context(self, f"{self.scheme}-{config.name}-{os.getpid()}")


class OnShortening(Plugin):
    """Its store cuts TTLs."""

    data = mutants_data_add.Overwrites


class OnUnordered(Plugin):
    """Its store mixes answers up."""

    data = mutants_data_add.UnorderedAnswers


class OnRacing(Plugin):
    """Its store checks, then adds."""

    data = mutants_data_add.ChecksThenAdds


class OnPlainNumber(Plugin):
    """Its store declares no proper atomicity."""

    data = mutants_data_add.PlainNumber


class OnSharedClients(Plugin):
    """Its store mixes clients up."""

    data = mutants_data_keep.SharesClients


class OnSwallowing(Plugin):
    """Its store swallows errors."""

    data = mutants_data_keep.SwallowsErrors


class OnForgetting(Plugin):
    """Its meta-store forgets inactive de-dupers."""

    meta = mutants_meta.DropsInactive


class OnOneHasher(Plugin):
    """Its meta-store forgets hashers."""

    meta = mutants_meta.ForgetsHasher


PLUGINS = [kind() for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Plugin)]
for _plugin in PLUGINS:
    globals()[_plugin.scheme] = _plugin
