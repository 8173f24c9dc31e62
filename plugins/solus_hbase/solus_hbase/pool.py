"""Connections that are shared by threads, never by processes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, Protocol, TypeVar, final
from weakref import WeakSet, ref

from solus_core.errors import ErrorCode, StoreError

IDLE_LIMIT: Final = 50.0
"""Seconds after which an idle connection is opened anew: HBase closes it after 60, unnoticed until it is used."""

_POOLS: Final[WeakSet[ConnectionPool[Connection]]] = WeakSet()
# All pools, weakly: a hook that runs at a fork can't be taken back, so there is one for all of them.


@final
class Place:
    """The right to one connection: given back, or by itself when an interrupt has lost it, wherever that came."""

    __slots__ = ("_home",)

    def __init__(self, home: ref[_Places]) -> None:
        self._home = home

    def is_of(self, home: _Places) -> bool:
        return self._home() is home

    def __del__(self) -> None:
        home = self._home()
        if home is not None:
            home.give(Place(self._home))


@final
class _Places:
    """The places of one process. Who comes first is served first: what is given back goes to who waits longest.

    Without a lock, which an interrupt could leave held: each step is one of the interpreter.
    """

    __slots__ = ("__weakref__", "_free", "_line", "_me")

    def __init__(self, size: int) -> None:
        # Kept: a reference that is part of a cycle, as a place is with an error, is cleared before the place goes.
        self._me = ref(self)
        self._free: deque[Place] = deque(Place(self._me) for _ in range(size))
        self._line: deque[SimpleQueue[Place]] = deque()

    def take(self, wait: float) -> Place | None:
        """A place, after up to ``wait`` seconds; None if none was given back."""
        with suppress(IndexError):
            return self._free.pop()
        mine: SimpleQueue[Place] = SimpleQueue()
        try:
            self._line.append(mine)
            self._serve()  # one may have been given back just before
            with suppress(Empty):
                return mine.get(timeout=wait)
            self._serve()  # an interrupt may have kept somebody else from it
            with suppress(Empty):
                return mine.get(block=False)
            return None
        finally:
            with suppress(ValueError):
                self._line.remove(mine)
            with suppress(Empty):  # after an interrupt
                self.give(mine.get(block=False))

    def give(self, place: Place) -> None:
        self._free.append(place)
        self._serve()

    def _serve(self) -> None:
        while self._line and self._free:
            with suppress(IndexError):  # others do the same
                place = self._free.pop()
                try:
                    self._line.popleft().put(place)
                except IndexError:
                    self._free.append(place)


class Connection(Protocol):
    place: Place | None
    """While it is taken; for the pool."""

    def is_dead(self) -> bool:
        """Has the other side hung up, as far as can be told without asking it?"""

    def close(self) -> None:
        """Hang up."""

    def shun(self) -> None:
        """Have the next connections go elsewhere for a while, if there is an elsewhere: no answer came in time."""

    def abandon(self) -> None:
        """Release the connection in a forked child without hanging up: it is the parent's."""


C = TypeVar("C", bound=Connection)


@final
class ConnectionPool(Generic[C]):
    """At most ``size`` connections, opened by ``open_connection`` when they are needed.

    :meth:`take` waits up to ``wait`` seconds for a free one, in turn. The one used last comes first, so that those a
    load peak left behind grow old and go.
    """

    def __init__(
        self,
        open_connection: Callable[[], C],
        *,
        size: int,
        wait: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = size
        self._open = open_connection
        self._wait = wait
        self._clock = clock
        self._closed = False
        self._begin()
        _POOLS.add(self)  # type: ignore[arg-type]  # of whatever connections: only forked() is called

    def _begin(self) -> None:
        self._idle: list[tuple[C, float]] = []
        self._places = _Places(self.size)

    def take(self) -> C:
        """A connection for the caller alone, to be handed to :meth:`give_back` or :meth:`drop`.

        Raises ``StoreError`` if none becomes free in time, or what opening one raises.
        """
        self._check_open()
        place = self._places.take(self._wait)
        if place is None:
            raise StoreError(
                ErrorCode.HBASE_ERROR,
                f"no connection became free in {self._wait:g} s, all {self.size} are in use: "
                "raise pool_size (or pool_wait), or let fewer threads work at a time",
            )
        try:
            self._check_open()
            connection = self._idle_one() or self._open()
        except BaseException:
            self._places.give(place)  # whoever keeps the error keeps what is here
            raise
        connection.place = place
        return connection

    def give_back(self, connection: C) -> None:
        """Take back a connection that works."""
        place, connection.place = connection.place, None
        if place is None or not place.is_of(self._places):
            connection.abandon()  # taken before this process was forked: it is the parent's
            return
        self._idle.append((connection, self._clock()))
        if self._closed:
            self._hang_up()
        self._places.give(place)

    def drop(self, connection: C) -> None:
        """Hang up a connection in an unknown state; another one may be opened in its place."""
        place, connection.place = connection.place, None
        if place is None or not place.is_of(self._places):
            connection.abandon()  # as above
            return
        connection.close()
        self._places.give(place)

    def close(self) -> None:
        """Hang up those that are idle now, and the others when they come back."""
        self._closed = True
        self._hang_up()

    def forked(self) -> None:
        """In a forked child: leave the parent's connections alone, begin with none."""
        for connection, _ in self._idle:
            connection.abandon()
        self._begin()

    def _idle_one(self) -> C | None:
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            if self._clock() - since < IDLE_LIMIT and not connection.is_dead():
                return connection
            connection.close()

    def _hang_up(self) -> None:
        while self._idle:
            try:
                connection, _ = self._idle.pop()
            except IndexError:  # another thread was first
                return
            connection.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "the connection to HBase is closed")


def _forked() -> None:
    for pool in list(_POOLS):
        pool.forked()


os.register_at_fork(after_in_child=_forked)
