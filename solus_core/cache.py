"""The metadata cache: registered de-dupers by name, so that the data verbs don't read the meta-store each time.

An entry older than ``refresh_seconds`` is answered as it is and loaded anew in the background; one older than
``expiry_seconds`` is not answered any more. However many threads ask, a name is loaded once. "Not found" is
never remembered, and an engine's own changes are put in at once (R15, R16).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import final

from attrs import asdict, frozen
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
        for name, value in asdict(self).items():
            if type(value) is not int:
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
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
class _InProcess:
    """What belongs to one process: a forked child starts with an empty one, as no thread of its parent goes on."""

    __slots__ = ("entries", "loading", "lock")

    def __init__(self, size: int) -> None:
        self.lock = threading.Lock()
        self.entries: LRUCache[str, Entry] = LRUCache(size)
        self.loading: dict[str, Future[Entry | None]] = {}


@final
class MetadataCache:
    """``load`` reads one record from the meta-store; it answers None for an unknown name."""

    def __init__(self, load: Callable[[str], DeDuper | None], settings: CacheSettings) -> None:
        self._load = load
        self._settings = settings
        self._by_process: dict[int, _InProcess] = {}
        self.changes = 0
        """Raised by every own change: whoever holds an :class:`Entry` asks again when it differs."""

    def _mine(self) -> _InProcess:
        process = os.getpid()
        mine = self._by_process.get(process)
        return self._by_process.setdefault(process, _InProcess(self._settings.entries)) if mine is None else mine

    def forget(self, name: str) -> None:
        """This engine has just changed the record: the next look reads it anew, whatever is being loaded now."""
        mine = self._mine()
        with mine.lock:
            self.changes += 1
            mine.loading.pop(name, None)
            mine.entries.pop(name, None)

    def get(self, name: str, now: int) -> Entry | None:
        """The entry of ``name``, loaded first if need be; None if the meta-store doesn't know the name."""
        mine = self._mine()
        while True:
            with mine.lock:
                entry = mine.entries.get(name)
                # A clock that was put back makes an entry look younger than it is: then it counts as expired.
                age = -1 if entry is None else now - entry.loaded_at
                if entry is not None and 0 <= age < self._settings.expiry_seconds * 1000:
                    if now >= entry.refresh_at and name not in mine.loading:
                        self._refresh_in_background(mine, name, now)
                    return entry
                first = name not in mine.loading
                future = mine.loading.setdefault(name, Future())
            if first:
                return self._fill(mine, name, now, future)
            try:
                return future.result()
            except CancelledError:
                continue  # whoever loaded it was interrupted, or an own change came between: look again

    def _refresh_in_background(self, mine: _InProcess, name: str, now: int) -> None:
        future: Future[Entry | None] = Future()

        def refresh() -> None:
            try:
                self._fill(mine, name, now, future)
            except SolusError as error:
                # The entry stays until it expires: an unreachable meta-store must not stop the data verbs at once.
                _log.warning("refreshing de-duper %r failed, its cached metadata stay in use: %s", name, error)

        mine.loading[name] = future
        try:
            threading.Thread(target=refresh, name="solus-refresh", daemon=True).start()
        except RuntimeError as error:  # no more threads, or the interpreter is about to end
            del mine.loading[name]
            _log.warning("refreshing de-duper %r could not begin, its cached metadata stay in use: %s", name, error)

    def _fill(self, mine: _InProcess, name: str, now: int, future: Future[Entry | None]) -> Entry | None:
        """Load ``name`` on behalf of all that wait for ``future``."""
        try:
            deduper = self._load(name)
        except SolusError as error:
            self._settle(mine, name, future)
            future.set_exception(error)
            raise
        except Exception as error:
            self._settle(mine, name, future)
            failure = StoreError(ErrorCode.CACHE_ERROR, f"the meta-store failed to load de-duper {name!r}: {error!r}")
            failure.__cause__ = error
            future.set_exception(failure)
            raise failure from error
        except BaseException:
            self._settle(mine, name, future)
            future.cancel()
            raise
        entry = None if deduper is None else Entry(deduper, now, now + self._settings.refresh_seconds * 1000)
        with mine.lock:
            current = mine.loading.get(name) is future
            if current:
                del mine.loading[name]
                if entry is None:
                    mine.entries.pop(name, None)
                else:
                    mine.entries[name] = entry
        if not current:
            future.cancel()
            return self.get(name, now)
        future.set_result(entry)
        return entry

    def _settle(self, mine: _InProcess, name: str, future: Future[Entry | None]) -> None:
        with mine.lock:
            if mine.loading.get(name) is future:
                del mine.loading[name]
