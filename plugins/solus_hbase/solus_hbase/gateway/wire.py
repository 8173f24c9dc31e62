"""Connections to a Thrift server: socket, TLS, Kerberos, transport and protocol as configured."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, final

from thriftpy2.protocol import TCompactProtocol, TCyBinaryProtocol
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import (
    TBufferedTransport,
    TFramedTransport,
    TSocket,
    TTransportException,
)

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.http import HttpTransport
from solus_hbase.kerberos import Tickets, sasl_transport
from solus_hbase.retry import Verdict

# thriftpy2 is typed in part only.
_BINARY: Final[Any] = TCyBinaryProtocol
_COMPACT: Final[Any] = TCompactProtocol
_BUFFERED: Final[Any] = TBufferedTransport
_FRAMED: Final[Any] = TFramedTransport
_SOCKET: Final[Any] = TSocket

_SHUNNED_FOR: Final = 30.0
"""Seconds during which a host that could not be reached is tried last."""

_HOPELESS: Final = ("TableNotFound", "NoSuchColumnFamily", "DoNotRetry", "AccessDenied", "FailedSanityCheck")

OpenProtocol = Callable[[], Any]
"""Opens a connection: a thriftpy2 protocol object, ready for calls."""


@final
class WireConnection:
    """One open connection; ``client`` makes the calls of ``service``."""

    __slots__ = ("_poll", "_protocol", "_sock", "address", "client")

    def __init__(self, service: Any, protocol: Any, sock: socket.socket | None = None, address: str = "") -> None:
        self.client = TClient(service, protocol)
        self.address = address
        self._protocol = protocol
        self._sock = sock
        self._poll = None
        if sock is not None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)

    def is_dead(self) -> bool:
        if self._sock is None or self._poll is None:
            return False
        # An answer of HTTP may have ended the connection. Otherwise, between calls the server has nothing to say:
        # whatever can be read is the end of the connection.
        return self._sock.fileno() < 0 or bool(self._poll.poll(0))

    def close(self) -> None:
        with contextlib.suppress(Exception):  # nobody is left who could be told
            self._protocol.trans.close()

    def abandon(self) -> None:
        if self._sock is not None:
            self._sock.close()  # only our descriptor: TSocket.close would shut down the parent's connection too


@final
class Wire:
    """Opens connections to the hosts of ``config``, or by ``open_protocol`` where the user brings them.

    Hosts take turns; one that can't be reached is passed over, and tried last for a while.
    """

    def __init__(self, config: HBaseConfig, open_protocol: OpenProtocol | None = None) -> None:
        self._config = config
        self._open_protocol = open_protocol
        self._turn = itertools.count()
        self._lock = threading.Lock()
        self._shunned: dict[tuple[str, int], float] = {}
        self._tls = _tls_context(config) if config.tls else None
        self.tickets = Tickets(config) if config.kerberos else None

    def open(self, service: Any) -> WireConnection:
        """A connection to the first host that can be reached.

        Raises ``StoreError`` that says of each host why not, with the last error as cause.
        """
        if self._open_protocol is not None:
            try:
                return WireConnection(service, self._open_protocol())
            except (OSError, TTransportException) as error:
                raise StoreError(
                    ErrorCode.HBASE_ERROR, f"the connection could not be opened: {reason(error)}"
                ) from error
        failed = []
        cause: Exception | None = None
        for host, port in self._in_turn():
            try:
                connection = self._connect(service, host, port)
            except (OSError, EOFError, TTransportException) as error:
                failed.append(f"{host}:{port} ({_why_not(error)})")
                cause = error
                with self._lock:
                    self._shunned[host, port] = time.monotonic() + _SHUNNED_FOR
            else:
                with self._lock:
                    self._shunned.pop((host, port), None)
                return connection
        raise StoreError(
            ErrorCode.HBASE_ERROR, f"no Thrift server of HBase can be reached: {', '.join(failed)}"
        ) from cause

    def _in_turn(self) -> list[tuple[str, int]]:
        addresses = self._config.addresses
        first = next(self._turn) % len(addresses)
        now = time.monotonic()
        with self._lock:
            return sorted(
                addresses[first:] + addresses[:first], key=lambda address: self._shunned.get(address, 0.0) > now
            )

    def _connect(self, service: Any, host: str, port: int) -> WireConnection:
        config = self._config
        address = f"{host}:{port}"
        sock = socket.create_connection((host, port), config.timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=host)
            transport: Any = HttpTransport(sock, host, port) if config.transport == "http" else _SOCKET(sock=sock)
            if self.tickets is not None:
                transport = sasl_transport(transport, config, host, self.tickets)
            elif config.transport == "framed":
                transport = _FRAMED(transport)
            else:
                transport = _BUFFERED(transport)
            return WireConnection(service, self._protocol(transport), sock, address)
        except BaseException:
            sock.close()
            raise

    def _protocol(self, transport: Any) -> Any:
        return (_COMPACT if self._config.protocol == "compact" else _BINARY)(transport)


def _why_not(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}; tls_ca names the file of those to trust"
    if isinstance(error, ssl.SSLError):
        return f"there is no TLS: {reason(error)}; HBase's own Thrift server has it with transport=http alone"
    return reason(error)


def _tls_context(config: HBaseConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.tls_ca)
        if config.tls_cert is not None:
            context.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:
        raise InvalidConfigError("hbase:// store", [f"tls_ca, tls_cert or tls_key can't be used: {error}"]) from error
    return context


def lost(error: Exception) -> Verdict | None:
    """The verdict if ``error`` is about the connection or what came over it, whatever the interface."""
    if isinstance(error, TApplicationException):
        # The server could not read the call or failed in handling it; the stream may be out of step.
        return Verdict(reason(error), broken=True, curable=False, refused=False)
    if isinstance(error, (OSError, EOFError, TTransportException, TProtocolException)):
        return Verdict(f"the connection was lost: {reason(error)}", broken=True, curable=True, refused=False)
    return None


def hopeless(error: Exception) -> bool:
    """Does a message of HBase, its stack included, say that repeating the call can't help?"""
    text = _text(error)
    return any(name in text for name in _HOPELESS)


def reason(error: BaseException) -> str:
    """What an error says, in one line: messages of a server may be bytes, with the stack of its language."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    lines = _text(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _text(error: BaseException) -> str:
    message = getattr(error, "message", None)
    if isinstance(message, bytes):
        return message.decode(errors="replace")
    try:
        return str(message or error)
    except TypeError:  # how a TApplicationException without a text says so
        return ""


def load_idl(path: str, module: str) -> ModuleType:
    """The types and the service that a Thrift file describes."""
    import thriftpy2  # noqa: PLC0415  # loads a parser that only this function needs

    return thriftpy2.load(path, module_name=module)
