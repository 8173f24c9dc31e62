"""Which farms share a de-duper's data."""

from __future__ import annotations

import threading
from typing import Final, final

from solus_aerospike.context import AerospikeContext
from solus_aerospike.records import fetch
from solus_core.model import DeDuper, Level

REFRESH: Final = 300_000
"""Milliseconds after which a de-duper's farms are read anew: one that joins is seen after that at the latest."""

_NAMES: Final = 4_096


@final
class KnownFarms:
    """The farms of each de-duper of one client id, remembered for a while."""

    __slots__ = ("_client_id", "_context", "_known", "_lock")

    def __init__(self, context: AerospikeContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._known: dict[str, tuple[int, tuple[str, ...]]] = {}
        self._lock = threading.Lock()

    def of(self, deduper: DeDuper, now: int) -> tuple[str, ...]:
        """The farms whose data count for ``deduper`` at ``now``: ours first, then the others, none twice.

        At level DC that is ours alone, without asking. Raises ``StoreError`` if they can't be read.
        """
        ours = self._context.config.farm
        if deduper.config.level is Level.DC:
            return (ours,)
        since, farms = self._known.get(deduper.name, (None, ()))
        # A clock that went back says nothing about how old this is.
        if since is not None and since <= now < since + REFRESH:
            return farms
        record = fetch(self._context, self._client_id, deduper.name)
        others = sorted(set(record.farms) - {ours}) if record is not None else ()
        farms = (ours, *others)
        with self._lock:
            self._known.pop(deduper.name, None)
            while len(self._known) >= _NAMES:
                del self._known[next(iter(self._known))]
            self._known[deduper.name] = (now, farms)
        return farms
