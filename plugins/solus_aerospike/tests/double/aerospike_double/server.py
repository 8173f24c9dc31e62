"""The server: a thread a connection, one lock over all data."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterable, Iterator

from aerospike_double import multi, wire
from aerospike_double.commands import Outcome, execute
from aerospike_double.hooks import Hooks, Rule, kind_of
from aerospike_double.info import Info
from aerospike_double.particles import NAMESPACE, UNSUPPORTED, NotModelledError
from aerospike_double.store import Clock, Namespace

NODE = "BB9000000000001"
LONGEST_FRAME = 128 * 1024 * 1024


class _LostError(Exception):
    """The connection ends here, without an answer."""


class _SilentError(Exception):
    """No answer, and the connection stays open."""


class Double:
    """A double of a one-node server on a local port; a context manager that starts and stops it.

    Args:
        namespaces: What it serves. Default is "test", as a server's own example configuration has it.
        port: 0 for any free one; it stays the same over ``stop`` and ``start``.

    Attributes:
        hooks: Rules for commands, and their counters.
        clock: The time by which records expire.
        namespaces: By name; their settings may be changed at any time.
        unmodelled: What clients asked for and the double doesn't know. A test should find this empty.
    """

    def __init__(self, namespaces: Iterable[Namespace] = (), port: int = 0) -> None:
        self.namespaces = {one.name: one for one in namespaces} or {"test": Namespace("test")}
        self.hooks, self.clock = Hooks(), Clock()
        self.unmodelled: list[str] = []
        self.port = port
        self._info = Info(NODE, self.namespaces)
        self._data = threading.RLock()
        self._thawed = threading.Event()
        self._thawed.set()
        self._connections: set[socket.socket] = set()
        self._state = threading.Lock()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Double:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """What the client's configuration takes as hosts."""
        return [("127.0.0.1", self.port)]

    def start(self) -> None:
        """Serve, with the data there are."""
        listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self.port = listener.getsockname()[1]
        with self._state:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="aerospike-double", daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection; the data stay."""
        self.thaw()
        with self._state:
            listener, self._listener = self._listener, None
            connections = list(self._connections)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in connections:
            _close(connection)

    def freeze(self) -> None:
        """Take commands and answer none, as a stopped process does."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Go on: the commands that came meanwhile are done, though their clients may be gone."""
        self._thawed.set()

    def reset(self) -> None:
        """No data, no rules, no counters, the machine's time and no frozen state: for the next test."""
        self.thaw()
        self.hooks.clear()
        with self._data:
            for namespace in self.namespaces.values():
                namespace.records.clear()
                namespace.set_indexes.clear()
        self.clock.offset = 0.0
        self.unmodelled.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._state:
                if self._listener is not listener:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="aerospike-double", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (received := _frame(connection)) is not None:
                self._thawed.wait()
                kind, body = received
                if kind == wire.INFO:
                    connection.sendall(wire.frame(wire.INFO, self._text(body)))
                    continue
                if kind != wire.MESSAGE:
                    raise _LostError
                with contextlib.suppress(_SilentError):
                    for part in self._answers(body):
                        connection.sendall(wire.frame(wire.MESSAGE, part))
        except (OSError, _LostError):
            pass
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            self.unmodelled.append(f"a message that can't be parsed: {error}")
        finally:
            with self._state:
                self._connections.discard(connection)
            _close(connection)

    def _text(self, body: bytes) -> bytes:
        rule = self.hooks.matching("info", wire.Message())
        if rule is not None:
            _wait(rule)
            if rule.lost or rule.code:
                raise _LostError
        with self._data:
            return self._info.answer(body.decode()).encode()

    def _answers(self, body: bytes) -> Iterator[bytes]:
        """Frames' bodies to send back, in few pieces."""
        message = wire.parse(body)
        kind = kind_of(message)
        rule = self.hooks.matching(kind, message)
        if rule is not None:
            _wait(rule)
            if rule.code or rule.lost:
                if rule.applied:
                    list(self._done(kind, message))
                _lose(rule)
                yield wire.answer(rule.code, info3=wire.LAST if kind in ("batch", "query") else 0)
                return
        pending = b""
        for part in self._done(kind, message):
            pending += part
            if len(pending) > multi.LARGE_ANSWER:
                yield pending
                pending = b""
        if pending:
            yield pending

    def _done(self, kind: str, message: wire.Message) -> Iterator[bytes]:
        """Do the command, and give its answers."""
        if kind == "batch":
            yield from multi.batch(message, self._row)
        elif kind == "query":
            yield from self._found(message)
        else:
            outcome = self._record(message, None)
            yield wire.answer(outcome.code, outcome.generation, outcome.void_time, outcome.bins)

    def _found(self, message: wire.Message) -> list[bytes]:
        try:
            with self._data:
                return list(multi.query(self.namespaces, message))
        except NotModelledError as error:
            self.unmodelled.append(str(error))
            return [wire.answer(UNSUPPORTED, info3=wire.LAST)]

    def _row(self, message: wire.Message, shared_filter: bytes | None) -> Outcome:
        rule = self.hooks.matching("row", message)
        if rule is None:
            return self._record(message, shared_filter)
        _wait(rule)
        if rule.applied or not (rule.code or rule.lost):
            outcome = self._record(message, shared_filter)
            if not (rule.code or rule.lost):
                return outcome
        _lose(rule)
        return Outcome(rule.code)

    def _record(self, message: wire.Message, shared_filter: bytes | None) -> Outcome:
        namespace = self.namespaces.get(message.fields.get(wire.F_NAMESPACE, b"").decode())
        if namespace is None:
            return Outcome(NAMESPACE)
        try:
            with self._data:
                return execute(namespace, self.clock, message, shared_filter)
        except NotModelledError as error:
            self.unmodelled.append(str(error))
            return Outcome(UNSUPPORTED)


def _wait(rule: Rule) -> None:
    if rule.delay:
        threading.Event().wait(rule.delay)
    if rule.gate is not None:
        rule.gate.pass_through()


def _lose(rule: Rule) -> None:
    if rule.lost == "silent":
        raise _SilentError
    if rule.lost:
        raise _LostError


def _frame(connection: socket.socket) -> tuple[int, bytes] | None:
    """Type and body of the next frame, or ``None`` at the end."""
    header = _exactly(connection, 8)
    if header is None:
        return None
    number = struct.unpack(">Q", header)[0]
    size = number & 0xFFFFFFFFFFFF
    if number >> 56 != wire.VERSION or size > LONGEST_FRAME:
        return None
    body = _exactly(connection, size)
    return None if body is None else (number >> 48 & 0xFF, body)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    if size == 0:
        return b""
    first = connection.recv(size)
    if len(first) == size:
        return first
    got = bytearray(first)
    while first and len(got) < size:
        first = connection.recv(size - len(got))
        got += first
    return bytes(got) if len(got) == size else None


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
