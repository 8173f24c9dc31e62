"""The metadata cache: registered de-dupers by name, so that the data verbs don't read the meta-store each time.

An entry older than ``refresh_seconds`` is answered as it is and loaded anew in the background; one older than
``expiry_seconds`` is not answered any more. However many threads ask, a name is loaded once. "Not found" is
never remembered, and an engine's own changes are put in at once (R15, R16).
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import final

from attrs import frozen
from cachetools import LRUCache

from solus_core.errors import ErrorCode, InvalidArgumentError, SolusError, StoreError
from solus_core.model import DeDuper

_log = logging.getLogger(__name__)


@final
@frozen(kw_only=True)
class CacheSettings:
    """Settings of the metadata cache.

    ``entries``: names kept, least recently used ones dropped. ``refresh_seconds``: after which age an entry is
    loaded anew in the background; other processes' changes are seen after at most so long. ``expiry_seconds``:
    after which age it is dropped.
    """

    entries: int = 4_096
    refresh_seconds: int = 300
    expiry_seconds: int = 3 * 3_600

    def __attrs_post_init__(self) -> None:
        if min(self.entries, self.refresh_seconds) < 1 or self.expiry_seconds < self.refresh_seconds:
            raise InvalidArgumentError(
                f"{self} is refused: entries and refresh_seconds must be at least 1, "
                "and expiry_seconds at least refresh_seconds"
            )


@final
@frozen(eq=False)
class Entry:
    """A cached de-duper, good without a further look from ``loaded_at`` up to ``refresh_at`` (epoch ms)."""

    deduper: DeDuper
    loaded_at: int
    refresh_at: int


@final
class MetadataCache:
    """``load`` reads one record from the meta-store; it answers None for an unknown name."""

    def __init__(self, load: Callable[[str], DeDuper | None], settings: CacheSettings) -> None:
        self._load = load
        self._settings = settings
        self._lock = threading.Lock()
        self._entries: LRUCache[str, Entry] = LRUCache(settings.entries)
        self._loading: dict[str, Future[Entry | None]] = {}
        self.changes = 0
        """Raised by every own change: whoever holds an :class:`Entry` asks again when it differs."""
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _start_over(this()))

    def put(self, deduper: DeDuper, now: int) -> None:
        """Remember what this engine has just written or read for itself."""
        with self._lock:
            self.changes += 1
            self._loading.pop(deduper.name, None)  # what is being loaded may be older than this
            self._entries[deduper.name] = self._entry(deduper, now)

    def get(self, name: str, now: int) -> Entry | None:
        """The entry of ``name``, loaded first if need be; None if the meta-store doesn't know the name."""
        while True:
            with self._lock:
                entry = self._entries.get(name)
                # A clock that was put back makes an entry look younger than it is: then it counts as expired.
                age = -1 if entry is None else now - entry.loaded_at
                if entry is not None and 0 <= age < self._settings.expiry_seconds * 1000:
                    if now >= entry.refresh_at and name not in self._loading:
                        future: Future[Entry | None] = Future()
                        self._loading[name] = future
                        threading.Thread(
                            target=self._refresh, args=(name, now, future), name="solus-refresh", daemon=True
                        ).start()
                    return entry
                mine = name not in self._loading
                future = self._loading.setdefault(name, Future())
            if mine:
                return self._fill(name, now, future)
            try:
                return future.result()
            except CancelledError:
                continue  # whoever loaded it was interrupted, or an own change came between: look again

    def _fill(self, name: str, now: int, future: Future[Entry | None]) -> Entry | None:
        """Load ``name`` on behalf of all that wait for ``future``."""
        try:
            deduper = self._load(name)
        except SolusError as error:
            self._settle(name, future)
            future.set_exception(error)
            raise
        except Exception as error:
            self._settle(name, future)
            failure = StoreError(ErrorCode.CACHE_ERROR, f"the meta-store failed to load de-duper {name!r}: {error!r}")
            failure.__cause__ = error
            future.set_exception(failure)
            raise failure from error
        except BaseException:
            self._settle(name, future)
            future.cancel()
            raise
        entry = None if deduper is None else self._entry(deduper, now)
        with self._lock:
            current = self._loading.get(name) is future
            if current:
                del self._loading[name]
                if entry is None:
                    self._entries.pop(name, None)
                else:
                    self._entries[name] = entry
        if not current:
            future.cancel()
            return self.get(name, now)
        future.set_result(entry)
        return entry

    def _settle(self, name: str, future: Future[Entry | None]) -> None:
        with self._lock:
            if self._loading.get(name) is future:
                del self._loading[name]

    def _refresh(self, name: str, now: int, future: Future[Entry | None]) -> None:
        try:
            self._fill(name, now, future)
        except SolusError as error:
            # The entry stays until it expires: an unreachable meta-store must not stop the data verbs at once.
            _log.warning("refreshing de-duper %r failed, its cached metadata stay in use: %s", name, error)

    def _entry(self, deduper: DeDuper, now: int) -> Entry:
        return Entry(deduper, now, now + self._settings.refresh_seconds * 1000)


def _start_over(cache: MetadataCache | None) -> None:
    """In a forked child: the thread that held the lock or was loading does not exist here."""
    if cache is not None:
        cache._lock = threading.Lock()
        cache._loading = {}
