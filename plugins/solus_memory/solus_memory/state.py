"""What the stores of one in-memory place share: tables, de-dupers, and the file they are kept in."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from typing import Any, Final, Protocol, final
from weakref import WeakSet

import attrs

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_memory.available import available_bytes
from solus_memory.numpy_table import NumpyTable
from solus_memory.state_file import StateFile
from solus_memory.tables import Dump, Read, Table

CLOSED: Final = "the in-memory store is closed"
FORKED: Final = (
    "this process was forked from the one that opened the store's file, which alone may write it: "
    "open a store of your own after the fork"
)
_BROKEN: Final = "a thread was busy with this table while the process forked, the child's copy may be torn"
_SMALL: Final = 1 << 20
"""Bytes that are not worth asking the system about."""
_FORK_WAIT: Final = 5.0

TableKey = tuple[str, "str | None", str]
"""Client id, farm (None at level XDC) and name of the de-duper."""


class Forgetful(Protocol):
    def forget(self) -> None:
        """Drop what is remembered of tables, so that the state is asked again."""


@final
class MemoryState:
    """Tables by client, farm and name; de-dupers by client and name; all under one lock.

    The order of locks: the registry's, the one of saving, this one, a table's. ``why_not``: why
    it can't be used any more, or None.
    """

    def __init__(self, max_bytes: int | None = None, file: StateFile | None = None) -> None:
        self.lock = threading.Lock()
        self.max_bytes = max_bytes
        self.why_not: str | None = None
        self.stores: WeakSet[Forgetful] = WeakSet()
        self.dedupers: dict[tuple[str, str], DeDuper] = {}
        self.dedupers_changed = False
        self.tables: dict[TableKey, Table] = {}
        self._file = file
        self._saving = threading.RLock()
        self._held: list[Table] | None = None
        if file is not None:
            file.load(self._take)

    def check(self) -> None:
        if self.why_not:
            raise StoreError(ErrorCode.INTERNAL_ERROR, self.why_not)

    def table(self, key: TableKey, config: DeDuperConfig, now: int) -> Table:
        """The table of that key, made if there is none. The lock must be held."""
        self.check()
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = NumpyTable(config, now, self.reserve)
        if table.config != config:
            raise StoreError(
                ErrorCode.DEDUPER_CONFIG_MISMATCH,
                f"the positions of de-duper {key[2]!r} were stored with {table.config}, not {config}",
            )
        return table

    def reserve(self, needed: int, held: int) -> None:
        """Raise ``StoreError`` if ``needed`` bytes more than all tables have now are more than there may be."""
        if self.max_bytes is not None:
            left: int | None = self.max_bytes - sum(table.nbytes for table in list(self.tables.values()))
            whose = f"of the {self.max_bytes:,} of max_bytes"
        else:
            left, whose = (None if needed < _SMALL else available_bytes()), "in this machine or control group"
        if left is not None and needed > left:
            freed = f" (until {held:,} of the present table are given back)" if held else ""
            raise StoreError(
                ErrorCode.INTERNAL_ERROR,
                f"the positions need a table of {needed:,} bytes{freed}, and {max(0, left):,} bytes are available "
                f"{whose}; nothing was changed",
            )

    # ---- the file

    def flush(self) -> None:
        """Write the file, if there is one and anything changed."""
        with self.lock:
            self.check()
        self._save()

    def close(self) -> None:
        """Write the file if anything changed, and end all use. If writing fails, all is as before the call.

        Closing again is fine; wherever a call was broken off, the next one does all that is left to do.
        """
        with self._saving:
            if self.why_not == FORKED:
                return
            try:
                with self.lock:
                    self._freeze(CLOSED)
                self._save()
            except BaseException:
                with self.lock:
                    self._freeze(None)
                raise
            if self._file is not None:
                self._file.close()

    def abandon(self) -> bool:
        """Release the file's lock, for a state that nobody can reach any more. True if changes were not saved.

        Takes no locks: this can run inside of any code, when the garbage is collected.
        """
        if self._file is None or not self._file.locked:
            return False
        self._file.close()
        return self.dedupers_changed or any(table.changed for table in self.tables.values())

    def _freeze(self, why: str | None) -> None:
        self.why_not = why
        for table in self.tables.values():
            table.freeze(why)
        for store in self.stores:
            store.forget()

    def _save(self) -> None:
        if self._file is None:
            return
        with self._saving:
            try:
                with self.lock:
                    tables = dict(self.tables)
                    if not self.dedupers_changed and not any(table.changed for table in tables.values()):
                        return
                    dedupers = list(self.dedupers.values())
                    self.dedupers_changed = False
                # Closed at once, whatever happens: it holds a table's lock, and a kept exception would keep it.
                with closing(_dumps(dedupers, tables)) as dumps:
                    self._file.save(dumps)
            except BaseException:
                self.dedupers_changed = True  # with this, all is written next time
                raise

    def _take(self, header: dict[str, Any], read: Read) -> None:
        """One section of the file."""
        if "dedupers" in header:
            for record in header["dedupers"]:
                deduper = DeDuper(**{**record, "config": _config(record["config"])})
                self.dedupers[deduper.client_id, deduper.name] = deduper
            return
        client_id, farm, name = header["key"]
        self.tables[client_id, farm, name] = NumpyTable.restored(_config(header["config"]), header, read, self.reserve)

    # ---- forks

    def before_fork(self) -> None:
        """Let no verb run while the process forks: the child gets whole tables and free locks."""
        if self.lock.acquire(timeout=_FORK_WAIT):
            self._held = [table for table in self.tables.values() if table.lock.acquire(timeout=_FORK_WAIT)]

    def after_fork(self, *, child: bool) -> None:
        held, self._held = self._held, None
        if held is not None:
            for table in held:
                table.lock.release()
            self.lock.release()
        if not child:
            return
        if held is None:
            self.lock = threading.Lock()
        self._saving = threading.RLock()
        for table in self.tables.values():
            if not any(table is other for other in held or ()):
                table.replace_lock(_BROKEN)
        if self._file is not None and self._file.locked:
            self._freeze(FORKED)
            self._file.close(keep_lock=True)


def _config(record: dict[str, Any]) -> DeDuperConfig:
    return DeDuperConfig(**{**record, "level": Level(record["level"])})


def _dumps(dedupers: list[DeDuper], tables: dict[TableKey, Table]) -> Generator[Dump, None, None]:
    """All sections of the file, each table's content as of the time when it is written."""
    yield Dump({"dedupers": [attrs.asdict(deduper) for deduper in dedupers]}, 0, iter(()))
    for key, table in tables.items():
        with table.lock:
            dump = table.dump()
            yield Dump({"key": key, "config": attrs.asdict(table.config), **dump.header}, dump.size, dump.chunks)
            table.changed = False
