"""The open file: one connection under one lock, and transactions on it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, final
from weakref import WeakSet

from solus_core.config import StorageContext
from solus_core.errors import ErrorCode, StoreError
from solus_sqlite.config import SqliteConfig

BUSY_SECONDS: Final = 30
"""How long a transaction waits for those of others."""

# Written into the file, so that neither another program's file nor a later layout is taken for ours.
_OURS: Final = {"application_id": 0x536F6C75, "user_version": 1}
_SCHEMA: Final = """
    CREATE TABLE dedupers (client_id, name, record, PRIMARY KEY (client_id, name)) WITHOUT ROWID;
    CREATE TABLE data_sets (id INTEGER PRIMARY KEY, client_id, farm, name, UNIQUE (client_id, farm, name));
    CREATE TABLE positions (data_set, shard, position, expires_at, PRIMARY KEY (data_set, shard, position))
        WITHOUT ROWID;
    CREATE INDEX positions_by_expiry ON positions (expires_at)"""


@final
class SqliteContext(StorageContext):
    """``farm``: whose data sets of level DC the stores see (R19)."""

    __slots__ = ("__weakref__", "_closed", "_connection", "_lock", "_path", "farm")

    def __init__(self, path: str, farm: str) -> None:
        self.farm = farm
        self._path = os.path.abspath(path)  # a later chdir must not lead to another file
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        with _FORKING:
            _CONTEXTS.add(self)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """What is done inside happens as a whole or not at all; with ``write``, while nobody else writes.

        Raises ``StoreError`` with SQLite's error as its cause. The next transaction has a new connection then.
        """
        with self._lock:
            if self._closed:
                raise StoreError(ErrorCode.INTERNAL_ERROR, f"the SQLite store {self._path} is closed")
            committing = False
            try:
                if self._connection is None:
                    self._connection = self._connect()
                # IMMEDIATE takes the write lock first: between a check and its write nobody comes in (R5).
                self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield self._connection
                committing = write
                self._connection.execute("COMMIT")
            except BaseException as error:
                self._disconnect()
                if isinstance(error, sqlite3.Error):
                    message = f"SQLite store {self._path}: {error}"
                    raise StoreError(ErrorCode.INTERNAL_ERROR, message, in_doubt=committing) from error
                raise

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._disconnect()

    def before_fork(self) -> None:
        """Let the running transaction end, then disconnect: no connection of SQLite may cross a fork (R24)."""
        self._lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        """Go on: parent and child each connect anew at their next transaction."""
        self._lock.release()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN IMMEDIATE")
            found = {mark: connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in _OURS}
            if not any(found.values()) and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                for statement in (*_SCHEMA.split(";"), *(f"PRAGMA {mark} = {_OURS[mark]}" for mark in _OURS)):
                    connection.execute(statement)
            elif found != _OURS:
                raise StoreError(ErrorCode.INTERNAL_ERROR, f"{self._path} was not written by this solus-sqlite")
            connection.execute("COMMIT")
            connection.execute("PRAGMA synchronous = FULL")  # what was answered survives a power cut (R2)
            # WAL, kept in the file: readers go on while someone writes. Refused, without waiting, while another
            # process is at it; all is as right without, and the next one to open the file sets it.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()  # rolls back what was not committed
            self._connection = None


class View:
    """One engine's side of a context, until the engine closes it."""

    __slots__ = ("_closed", "client_id", "context")

    def __init__(self, context: SqliteContext, client_id: str) -> None:
        self.context = context
        self.client_id = client_id
        self._closed = False

    def open_context(self) -> SqliteContext:
        """The context, or the error of a closed store."""
        if self._closed:
            raise StoreError(ErrorCode.INTERNAL_ERROR, "this SQLite store is closed")
        return self.context

    def close(self) -> None:
        self._closed = True


def connect(config: SqliteConfig) -> SqliteContext:
    """A context for ``config``. A file that can't be used shows here, as a ``StoreError``."""
    context = SqliteContext(config.path, config.farm)
    with context.transaction(write=True):
        return context


# A fork happens to a process, not to an object: hence state in a module.
_FORKING: Final = threading.Lock()
_CONTEXTS: Final[WeakSet[SqliteContext]] = WeakSet()
_HELD: Final[list[SqliteContext]] = []


def _before_fork() -> None:
    _FORKING.acquire()
    _HELD.extend(_CONTEXTS)
    for context in _HELD:
        context.before_fork()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().after_fork()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
