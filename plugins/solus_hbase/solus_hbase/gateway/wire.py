"""Connections to a Thrift server: socket, TLS, Kerberos, transport and protocol as configured."""

from __future__ import annotations

import contextlib
import itertools
import re
import select
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, final

from thriftpy2.protocol import TCompactProtocol, TCyBinaryProtocol
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import (
    TBufferedTransport,
    TFramedTransport,
    TSocket,
    TTransportException,
)

from solus_core.errors import ErrorCode, InvalidConfigError, SolusError, StoreError
from solus_hbase.config import HBaseConfig, host_text
from solus_hbase.gateway.http import HttpTransport
from solus_hbase.kerberos import Tickets, sasl_transport
from solus_hbase.pool import Place
from solus_hbase.retry import Verdict

# thriftpy2 is typed in part only.
_BINARY: Final[Any] = TCyBinaryProtocol
_COMPACT: Final[Any] = TCompactProtocol
_BUFFERED: Final[Any] = TBufferedTransport
_FRAMED: Final[Any] = TFramedTransport
_SOCKET: Final[Any] = TSocket

_SHUNNED_FOR: Final = 30.0
"""Seconds during which a host that could not be reached, or gave no answer in time, is tried last."""

# Classes of Java, where a message of HBase names one: the names of rows and tables in it are anybody's.
_HOPELESS: Final = re.compile(
    r"(?m)(?:^|[\s(])[\w.]*(?:TableNotFound|NoSuchColumnFamily|DoNotRetry|AccessDenied|FailedSanityCheck)\w*Exception"
    r"(?=: |\)|$)"
)
# In a list of errors: how many rows met with that one.
_HOPELESS_ROWS: Final = re.compile(_HOPELESS.pattern + r"(?s:.*?): (\d+) time")

OpenProtocol = Callable[[], Any]
"""Opens a connection: a thriftpy2 protocol object, ready for calls."""

Address: TypeAlias = "tuple[str, int] | None"
"""A host and its port; None where the user's ``OpenProtocol`` knows where to."""

# How a line of Java names an error: the class with its packages, then what it says.
_NAMED: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b.*")


@final
class WireConnection:
    """One open connection; ``client`` makes the calls of ``service``."""

    __slots__ = ("_poll", "_protocol", "_silences", "_sock", "_wire", "address", "client", "place")

    def __init__(
        self,
        service: Any,
        protocol: Any,
        sock: socket.socket | None = None,
        address: Address = None,
        wire: Wire | None = None,
    ) -> None:
        self.client = TClient(service, protocol)
        self.address = address
        self.place: Place | None = None
        self._wire = wire
        self._silences = 0 if wire is None else wire.silences[address]
        self._protocol = protocol
        self._sock = sock
        self._poll = None
        if sock is not None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)

    def is_dead(self) -> bool:
        if self._wire is not None and self._wire.silences[self.address] != self._silences:
            # Another call to that host has waited for its answer in vain since this connection was opened.
            return True
        if self._sock is None or self._poll is None:
            return False
        # An answer of HTTP may have ended the connection. Otherwise, between calls the server has nothing to say:
        # whatever can be read is the end of the connection.
        return self._sock.fileno() < 0 or bool(self._poll.poll(0))

    def close(self) -> None:
        with contextlib.suppress(Exception):  # nobody is left who could be told
            self._protocol.trans.close()

    def shun(self) -> None:
        if self._wire is not None:
            self._wire.silences[self.address] += 1
            self._wire.shun(self.address)

    def abandon(self) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.close()  # only our descriptor: TSocket.close would shut down the parent's connection too


@final
class Wire:
    """Opens connections to the hosts of ``config``, or by ``open_protocol`` where the user brings them.

    Hosts take turns; one that can't be reached, or gives no answer in time, is tried last for a while.
    """

    def __init__(
        self,
        config: HBaseConfig,
        open_protocol: OpenProtocol | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._open_protocol = open_protocol
        self._turn = itertools.count()
        self._clock = clock
        # Until when. Without a lock, which a forked child could find held: each use is one step of the interpreter.
        self._shunned: dict[Address, float] = {}
        # Answers that did not come in time.
        self.silences: Counter[Address] = Counter()
        self._tls = _tls_context(config) if config.tls else None
        self.tickets = Tickets(config) if config.kerberos else None

    def open(self, service: Any) -> WireConnection:
        """A connection to the first host that can be reached.

        Raises ``StoreError`` that says of each host why not, with the last error as cause.
        """
        failed = []
        cause: Exception | None = None
        for address in self.in_turn():
            try:
                return self.connect(service, address)
            except SolusError:
                raise
            except Exception as error:
                failed.append(f"{where(address)} ({why_not(error)})")
                cause = error
        raise StoreError(
            ErrorCode.HBASE_ERROR, f"no Thrift server of HBase can be reached: {', '.join(failed)}"
        ) from cause

    def in_turn(self) -> list[Address]:
        """All addresses in the order in which to try them: another first one each time, and shunned ones last."""
        if self._open_protocol is not None:
            return [None]
        addresses = self._config.addresses
        first = next(self._turn) % len(addresses)
        now = self._clock()

        def shunned_until(address: Address) -> float:
            until = self._shunned.get(address, now)
            return until if until > now else 0.0

        return sorted(addresses[first:] + addresses[:first], key=shunned_until)

    def connect(self, service: Any, address: Address) -> WireConnection:
        """A connection to ``address``, which is shunned if that fails.

        Raises anything: ``open_protocol`` is the user's, and what is no ``SolusError`` means "try another host".
        """
        try:
            if address is None:
                assert self._open_protocol is not None
                return WireConnection(service, self._open_protocol())
            return self._connect(service, *address)
        except Exception:
            self.shun(address)
            raise

    def shun(self, address: Address) -> None:
        """Try ``address`` last for a while."""
        self._shunned[address] = self._clock() + _SHUNNED_FOR

    def _connect(self, service: Any, host: str, port: int) -> WireConnection:
        config = self._config
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
            address = (host, port)
            return WireConnection(service, self._protocol(transport), sock, address, self)
        except BaseException:
            sock.close()
            raise

    def _protocol(self, transport: Any) -> Any:
        return (_COMPACT if self._config.protocol == "compact" else _BINARY)(transport)


def where(address: Address) -> str:
    """An address, for people."""
    return "the given connection" if address is None else host_text(*address)


def why_not(error: Exception) -> str:
    """Why a host can't be reached, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}; tls_ca names the file of those to trust"
    if isinstance(error, ssl.SSLError):
        return f"there is no TLS: {reason(error)}; HBase's own Thrift server has it with transport=http alone"
    return reason(error)


def _tls_context(config: HBaseConfig) -> ssl.SSLContext:
    files = {name: getattr(config, name) for name in ("tls_ca", "tls_cert", "tls_key") if getattr(config, name)}
    problems = [problem for name, path in files.items() for problem in _unreadable(name, path)]
    if problems:
        raise InvalidConfigError("hbase:// store", problems)
    doing = f"tls_ca {config.tls_ca!r}"
    try:
        context = ssl.create_default_context(cafile=config.tls_ca)
        doing = " with ".join(f"{name} {files[name]!r}" for name in ("tls_cert", "tls_key") if name in files)
        if config.tls_cert is not None:
            context.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:
        raise InvalidConfigError("hbase:// store", [f"{doing} can't be used: {error}"]) from error
    return context


def _unreadable(name: str, path: str) -> list[str]:
    """OpenSSL does not say which of its files it can't read."""
    try:
        Path(path).open("rb").close()
    except OSError as error:
        return [f"{name} {path!r} can't be read: {error.strerror}"]
    return []


def lost(error: Exception) -> Verdict | None:
    """The verdict if ``error`` is about the connection or what came over it, whatever the interface."""
    if isinstance(error, TApplicationException):
        # The server could not read the call or failed in handling it; the stream may be out of step.
        return Verdict(reason(error), broken=True, curable=False, refused=False)
    if isinstance(error, (OSError, EOFError, TTransportException, TProtocolException)):
        return Verdict(
            f"the connection was lost: {reason(error)}",
            broken=True,
            curable=True,
            refused=False,
            late=isinstance(error, TimeoutError),
        )
    return None


def hopeless(error: Exception) -> bool:
    """Does a message of HBase, its stack included, say that repeating the call can't help?"""
    return _HOPELESS.search(_text(error)) is not None


def partly(error: StoreError, rows: int) -> StoreError:
    """``error`` of a write of so many rows, in doubt too if the server refused some of them and not all."""
    refused = sum(map(int, _HOPELESS_ROWS.findall(_text(error.__cause__ or error))))
    return StoreError(error.code, error.message, in_doubt=error.in_doubt or 0 < refused < rows)


def reason(error: BaseException) -> str:
    """What an error says, in one line: messages of a server may be bytes, with the stack of its language.

    Where the first line is but the heading of a list of errors, the last one that is named comes after it.
    """
    if isinstance(error, TimeoutError):
        return "no answer in time"
    lines = _text(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    if not lines[0].endswith(":"):
        return lines[0]
    named = [_NAMED.search(line) for line in lines[1:] if not line.lstrip().startswith("at ")]
    return " ".join([lines[0], *(found[0] for found in named[::-1] if found)][:2])


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
