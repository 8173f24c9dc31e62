"""De-dupers in memory: the view that one engine has of the shared state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import attrs

from solus_core.errors import DeDuperNotFoundError, ErrorCode, StoreError
from solus_core.model import DeDuper
from solus_memory.context import MemoryContext
from solus_memory.state import CLOSED


@final
class MemoryMetaStore:
    """A ``MetaStore`` (see there) for one client id."""

    __slots__ = ("_client_id", "_closed", "_context")

    def __init__(self, context: MemoryContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._closed = False

    def create(self, deduper: DeDuper) -> DeDuper:
        state = self._context.state
        with state.lock:
            self._check()
            key = (self._client_id, deduper.name)
            if key not in state.dedupers:
                state.dedupers_changed = True  # first: an interrupt in between must not keep it from the file
                state.dedupers[key] = deduper
            return state.dedupers[key]

    def get(self, name: str) -> DeDuper | None:
        with self._context.state.lock:
            self._check()
            return self._context.state.dedupers.get((self._client_id, name))

    def set_active(self, name: str, active: bool, now: int) -> None:
        state = self._context.state
        with state.lock:
            self._check()
            key = (self._client_id, name)
            if key not in state.dedupers:
                raise DeDuperNotFoundError(name, "is not registered")
            state.dedupers_changed = True
            state.dedupers[key] = attrs.evolve(state.dedupers[key], active=active, updated_at=now)

    def active(self) -> Iterable[DeDuper]:
        with self._context.state.lock:
            self._check()
            return [
                deduper
                for (client_id, _), deduper in self._context.state.dedupers.items()
                if client_id == self._client_id and deduper.active
            ]

    def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        self._context.state.check()
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.INTERNAL_ERROR, CLOSED)
