"""What metrics are told, and the plugin that has them told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Final

from solus_core.config import StorageContext
from solus_core.errors import ErrorCode
from solus_core.hookspecs import API_VERSION, hookimpl
from solus_core.metrics.store import VERBS, MeteredSingleProbeStore, MeteredStore
from solus_core.stores import DataStore, SingleProbeStore

__all__ = ["BUCKETS", "VERBS", "Recorder", "StoreMetrics"]

BUCKETS: Final = (
    *(1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3),
    *(5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0),
)
"""Upper bounds of histogram buckets, in seconds: from 10 us (memory) to 1 s."""

Recorder = Callable[[float, int, int, ErrorCode | None], object]
"""``recorder(seconds, entities, absent, error)``, called after each call of one verb.

``entities``: how many were processed; ``absent``: how many of them were answered "absent" (and by
``add_if_absent`` added); ``error``: None if the call succeeded. Called by many threads at once.
"""


class StoreMetrics(ABC):
    """Subclass this for a metrics system of your own, and register an instance with a ``PluginManager``.

    Each engine that is opened then calls what :meth:`recorder` answers. One instance serves any number of engines.
    """

    SOLUS_API_VERSION: Final = API_VERSION

    @abstractmethod
    def recorder(self, backend: str, verb: str) -> Recorder:
        """Asked for once for each verb of a store that is opened; bind what does not change here.

        ``backend``: the package of the context without ``solus_``, as ``memory``. ``verb``: one of ``VERBS``; those
        that end in ``_one`` are about one entity, the others about a batch. A recorder that raises is logged once
        and changes no answer.
        """

    @hookimpl(wrapper=True)
    def solus_open_data_store(self, context: StorageContext) -> Generator[None, Any, DataStore | None]:
        """Wrap the store that some plugin opened; None, no store, stays None."""
        store: DataStore | None = yield
        if store is None:
            return None
        # Of the context: the store may be somebody else's wrapper already.
        backend = type(context).__module__.partition(".")[0].removeprefix("solus_")
        kind = MeteredSingleProbeStore if isinstance(store, SingleProbeStore) else MeteredStore
        try:
            return kind(store, {verb: self.recorder(backend, verb) for verb in VERBS})
        except BaseException:
            store.close()
            raise
