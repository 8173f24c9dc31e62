"""What a plugin can do for Solus: read this file as a manual page.

A plugin is a module (or object) named by an entry point of the group ``solus``. It says which version of these
hooks it was written for, in a literal, and implements the hooks it needs::

    SOLUS_API_VERSION = 1

    @hookimpl
    def solus_backends():
        return [Backend("redis", RedisConfig, RedisConfig.from_url, connect, "Redis 7 or newer")]

Hooks run when plugins are discovered and when an engine opens, never per entity. Discovery must be cheap:
no I/O and no import of a driver before ``connect``. A plugin that fails is kept as a failure and hurts only
whoever asks for what it offers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pluggy

from solus_core.config import Backend, StorageContext
from solus_core.stores import DataStore, Hasher, MetaStore

PROJECT: Final = "solus"
"""Name of the pluggy project and of the entry-point group."""

API_VERSION: Final = 1
"""Raised when a hook or a store contract changes in a way that breaks existing plugins."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorate your implementations with this one."""


@hookspec
def solus_backends() -> Iterable[Backend]:  # type: ignore[empty-body]  # a specification has no body
    """The storage backends that this plugin offers, one for each URL scheme."""


@hookspec(firstresult=True)
def solus_open_data_store(context: StorageContext, client_id: str) -> DataStore | None:
    """A data store on ``context``, or None if the context is not of this plugin's making.

    Called once for each engine; tables and the like are created here, so that trouble shows at open and
    not at the first event.
    """


@hookspec(firstresult=True)
def solus_open_meta_store(context: StorageContext, client_id: str) -> MetaStore | None:
    """A meta-store on ``context``, or None if the context is not of this plugin's making.

    It may be asked for by an engine whose data live in another backend.
    """


@hookspec
def solus_hashers() -> Iterable[Hasher]:  # type: ignore[empty-body]  # a specification has no body
    """The hashers that this plugin offers, each under a name of its own."""
