"""A live connection to an in-memory store: the state, and on whose behalf it is used."""

from __future__ import annotations

import warnings
from typing import final

from solus_core.config import StorageContext
from solus_memory.config import MemoryConfig
from solus_memory.registry import named_state, own_state
from solus_memory.state import MemoryState


@final
class MemoryContext(StorageContext):
    """``state``: the shared part. ``farm``: whose data sets of level DC the stores see (R19)."""

    __slots__ = ("_shared", "closed", "farm", "state")

    def __init__(self, state: MemoryState, farm: str, *, shared: bool) -> None:
        self.state = state
        self.farm = farm
        self.closed = False
        self._shared = shared

    def flush(self) -> None:
        """Write the file now, if there is one and anything changed.

        Raises ``StoreError`` with the cause if that fails; the old file is whole then, and nothing is lost here.
        """
        self.state.flush()

    def close(self) -> None:
        """Write the file if there is one, and end all use; a shared store lives on.

        If writing fails, the error is raised and the store stays open: free some space, and close again. Closing
        a closed one is fine.
        """
        if not self._shared:
            self.state.close()
        self.closed = True
        with self.state.lock:
            for store in self.state.stores:
                store.forget()

    def __del__(self) -> None:
        if not self._shared and self.state.abandon():
            warnings.warn(
                "a memory:// store with a file was never closed: what changed since its last save is lost",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )


def connect(config: MemoryConfig) -> MemoryContext:
    """A context for ``config``; a file is locked and loaded here.

    Raises ``InvalidConfigError`` for a path that can't be used, ``StoreError`` for a file that is in use,
    damaged or not ours.
    """
    if config.name is not None:
        return MemoryContext(named_state(config.name, config.max_bytes), config.farm, shared=True)
    return MemoryContext(own_state(config.path, config.max_bytes), config.farm, shared=False)
