"""The metadata cache: registered de-dupers by name, so that the data verbs don't read the meta-store each time.

An entry older than ``refresh_seconds`` is answered as it is and loaded anew in the background; one older than
``expiry_seconds`` is not answered any more. However many threads ask, a name is loaded once. "Not found" is
never remembered, and an engine's own changes are put in at once (R15, R16).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import final

from attrs import asdict, frozen

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
class _Load:
    """A record that is being loaded: its loader holds ``busy``, and books ``entry`` or ``error`` when it ``is_done``.

    One that is never done was interrupted, or an own change came between. Plain locks: what waits in Python code of its
    own, as a ``Future`` does, an interrupt can leave locked.
    """

    __slots__ = ("busy", "entry", "error", "is_done")

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.busy.acquire()
        self.entry: Entry | None = None
        self.error: SolusError | None = None
        self.is_done = False

    def wait(self) -> None:
        """Until it may be over. An interrupt can keep the loader from saying so: then a second is waited in vain."""
        if self.busy.acquire(timeout=1):
            self.busy.release()


@final
class _InProcess:
    """What belongs to one process: a forked child starts with an empty one, as no thread of its parent goes on."""

    __slots__ = ("entries", "loading", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # The least recently used one first. Each step on it is one of the interpreter, which no interrupt divides.
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.loading: dict[str, _Load] = {}


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
        return self._by_process.setdefault(process, _InProcess()) if mine is None else mine

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
            own = _Load()
            try:
                with mine.lock:
                    entry = mine.entries.get(name)
                    # A clock that was put back makes an entry look younger than it is: then it counts as expired.
                    age = -1 if entry is None else now - entry.loaded_at
                    if entry is not None and 0 <= age < self._settings.expiry_seconds * 1000:
                        mine.entries.move_to_end(name)
                        if now >= entry.refresh_at and name not in mine.loading:
                            self._refresh_in_background(mine, name, now)
                        return entry
                    load = mine.loading.setdefault(name, own)
                if load is own:
                    self._fill(mine, name, now, own)
            finally:
                _let_go(mine, name, own)
            while mine.loading.get(name) is load:
                load.wait()
            if load.error is not None:
                raise load.error
            if load.is_done:
                return load.entry

    def _refresh_in_background(self, mine: _InProcess, name: str, now: int) -> None:
        """Only for who has the lock."""
        load = _Load()

        def refresh() -> None:
            try:
                self._fill(mine, name, now, load)
            finally:
                _let_go(mine, name, load)
            if load.error is not None:
                # The entry stays until it expires: an unreachable meta-store must not stop the data verbs at once.
                _log.warning("refreshing de-duper %r failed, its cached metadata stay in use: %s", name, load.error)

        try:
            mine.loading[name] = load
            threading.Thread(target=refresh, name="solus-refresh", daemon=True).start()
        except BaseException as error:
            mine.loading.pop(name, None)
            if not isinstance(error, RuntimeError):
                raise
            # No more threads, or the interpreter is about to end.
            _log.warning("refreshing de-duper %r could not begin, its cached metadata stay in use: %s", name, error)

    def _fill(self, mine: _InProcess, name: str, now: int, load: _Load) -> None:
        """Load ``name`` and book what came of it, unless an own change has come between."""
        deduper: DeDuper | None = None
        error: SolusError | None = None
        try:
            deduper = self._load(name)
        except SolusError as failure:
            error = failure
        except Exception as failure:
            error = StoreError(ErrorCode.CACHE_ERROR, f"the meta-store failed to load de-duper {name!r}: {failure!r}")
            error.__cause__ = failure
        with mine.lock:
            if mine.loading.get(name) is not load:
                return
            if deduper is not None:
                load.entry = mine.entries[name] = Entry(deduper, now, now + self._settings.refresh_seconds * 1000)
                mine.entries.move_to_end(name)
                while len(mine.entries) > self._settings.entries:
                    mine.entries.popitem(last=False)
            elif error is None:
                mine.entries.pop(name, None)
            load.error, load.is_done = error, True
            del mine.loading[name]


def _let_go(mine: _InProcess, name: str, load: _Load) -> None:
    """Let those go on that wait for ``load``, whatever became of it."""
    with mine.lock:
        if mine.loading.get(name) is load:
            del mine.loading[name]
    load.busy.release()
