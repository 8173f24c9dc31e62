"""Several Thrift servers, of which some are silent, gone or strange: made up here, as sockets that behave so."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest
from thriftpy2 import protocol, transport
from thriftpy2.thrift import TProcessor

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_hbase import HBaseConfig, HBaseContext
from solus_hbase.config import host_text
from solus_hbase.gateway.probe import open_gateway
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway
from solus_hbase.gateway.wire import Wire, reason
from solus_hbase.tables import ensure_table

PROTOCOL: Any = protocol  # thriftpy2 is typed in part only
TRANSPORT: Any = transport
ADVICE = "it may have been started another way, try transport=buffered&protocol=compact, transport=framed"


@final
class FakeGateway:
    """A Thrift 2 server with empty tables.

    It hangs up on who puts something into one, or creates one, which is there once somebody looked for it ``looks``
    times.
    """

    def __init__(self, looks: int = 0) -> None:
        self.looks = looks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._creating = False
        self._accepted: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(30)
        for one in (self._listener, *self._accepted):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(30)

    def getThriftServerType(self) -> int:  # noqa: N802  # the names of the interface
        return int(IDL.TThriftServerType.TWO)

    def get(self, _: bytes, get: Any) -> Any:
        return IDL.TResult(get.row, [])

    def put(self, *_: Any) -> None:
        raise ConnectionAbortedError

    def createTable(self, *_: Any) -> None:  # noqa: N802  # as above
        self._creating = True
        raise ConnectionAbortedError

    def tableExists(self, _: Any) -> bool:  # noqa: N802  # as above
        self.looks -= self._creating
        return self._creating and self.looks <= 0

    def isTableAvailable(self, _: Any) -> bool:  # noqa: N802  # as above
        return True

    def getTableDescriptor(self, name: Any) -> Any:  # noqa: N802  # as above
        return IDL.TTableDescriptor(name, [IDL.TColumnFamilyDescriptor(name=b"S")])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._accepted.append(self._listener.accept()[0])
                self._threads.append(threading.Thread(target=self._answer, args=(self._accepted[-1],)))
                self._threads[-1].start()

    def _answer(self, accepted: socket.socket) -> None:
        calls: Any = TProcessor(IDL.THBaseService, self)
        line = PROTOCOL.TCyBinaryProtocol(TRANSPORT.TBufferedTransport(TRANSPORT.TSocket(sock=accepted)))
        with contextlib.suppress(Exception):  # somebody hung up
            while True:
                calls.process(line, line)
        with contextlib.suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def fake_gateway() -> Iterator[Callable[..., FakeGateway]]:
    with contextlib.ExitStack() as opened:

        def start(**settings: Any) -> FakeGateway:
            made = FakeGateway(**settings)
            opened.callback(made.close)
            return made

        yield start


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port where connections are accepted, and nothing is ever answered; there we wait for a moment only."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        patiently = socket.create_connection

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            connected = patiently(address, timeout)
            if address[1] == port:
                connected.settimeout(0.01)
            return connected

        monkeypatch.setattr("solus_hbase.gateway.wire.socket.create_connection", connect)
        yield port


@pytest.fixture
def unheard() -> Iterator[socket.socket]:
    """Bound to a port that refuses connections until somebody calls ``listen``."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture
def port_that_hangs_up() -> Iterator[Callable[[int, bool], int]]:
    """Starts a server that reads a call and then hangs up, so many times; answers its port."""
    threads = []

    def work(listener: socket.socket, times: int, reset: bool) -> None:
        with listener:
            for left in reversed(range(times)):
                accepted = listener.accept()[0]
                accepted.recv(1_000)
                if left == 0:
                    listener.close()  # first, as a process that ends has it
                if reset:
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                accepted.close()

    def start(times: int, reset: bool) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        threads.append(threading.Thread(target=work, args=(listener, times, reset)))
        threads[-1].start()
        return port

    yield start
    for thread in threads:
        thread.join(30)


def config(*ports: int, **settings: Any) -> HBaseConfig:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return HBaseConfig(**{"hosts": hosts, "table": "t", "timeout": 30, "backoff": 1e-6, **settings})


def assert_opens(gateway: Thrift2Gateway, port: int) -> None:
    """All further connections are to that port."""
    taken = [gateway.pool.take() for _ in range(4)]
    assert [connection.address for connection in taken] == [("127.0.0.1", port)] * 4
    for connection in taken:
        gateway.pool.drop(connection)


def test_a_silent_host_does_not_keep_the_next_from_answering(
    fake_gateway: Callable[..., FakeGateway], silent: int
) -> None:
    """R23: neither when the gateway opens nor in the calls that follow."""
    good = fake_gateway().port
    gateway = open_gateway(config(silent, good, attempts=1))
    assert isinstance(gateway, Thrift2Gateway)
    assert gateway.get("t", b"S", [(b"row", None)]) == [{}]
    assert_opens(gateway, good)
    gateway.close()


def test_a_host_that_falls_silent_is_shunned(fake_gateway: Callable[..., FakeGateway], silent: int) -> None:
    """R23: one call waits for its answer in vain, and those after it go elsewhere at once."""
    good = fake_gateway().port
    gateway = open_gateway(config(good, silent, attempts=2))
    assert isinstance(gateway, Thrift2Gateway)
    assert gateway.get("t", b"S", [(b"row", None)]) == [{}]
    assert_opens(gateway, good)
    gateway.close()


def ports_of(wire: Wire, count: int) -> set[int]:
    found = set()
    for _ in range(count):
        connection = wire.open(IDL.THBaseService)
        assert connection.address is not None
        found.add(connection.address[1])
        connection.close()
    return found


def test_shunned_hosts_get_another_chance(unheard: socket.socket, silent: int) -> None:
    """R23: for 30 s one that can't be reached is tried only where nobody else answers, and then in its turn again."""
    now, port = [1_000.0], unheard.getsockname()[1]
    wire = Wire(config(port, silent), clock=lambda: now[0])
    assert ports_of(wire, 2) == {silent}
    unheard.listen()
    now[0] += 29.9
    assert ports_of(wire, 4) == {silent}
    now[0] += 0.1
    assert ports_of(wire, 4) == {silent, port}
    wire.shun(("127.0.0.1", silent))
    assert ports_of(wire, 4) == {port}
    # Of two, the one that failed longer ago is the first.
    now[0] += 1
    wire.shun(("127.0.0.1", port))
    assert ports_of(wire, 4) == {silent}


def test_idle_connections_to_a_silent_host_are_not_used(silent: int) -> None:
    """R23: each would cost a call another timeout, and as many as there are tries would be an error."""
    wire, address = Wire(config(silent)), ("127.0.0.1", silent)
    used, idle = (wire.connect(IDL.THBaseService, address) for _ in range(2))
    wire.shun(address)  # another connection to it was refused: that says nothing of these
    assert not idle.is_dead()
    used.shun()
    assert idle.is_dead()
    later = wire.connect(IDL.THBaseService, address)
    assert not later.is_dead()
    for one in (used, idle, later):
        one.close()


def test_when_nobody_answers_each_host_is_named(unheard: socket.socket, silent: int) -> None:
    """R22: and what to try is said of the one alone that accepted the connection."""
    gone = unheard.getsockname()[1]
    with pytest.raises(StoreError) as caught:
        open_gateway(config(gone, silent))
    assert f"can be reached: 127.0.0.1:{gone} ([Errno 111] Connection refused); what listens at" in str(caught.value)
    assert f"; what listens at 127.0.0.1:{silent} (no answer in time) does not answer with" in str(caught.value)
    assert ADVICE in caught.value.message
    assert isinstance(caught.value.__cause__, TimeoutError)


@pytest.mark.parametrize("reset", [True, False])
def test_a_server_killed_while_we_ask(port_that_hangs_up: Callable[[int, bool], int], reset: bool) -> None:
    """R22: that it is gone is said, and nothing about transports, which have nothing to do with it."""
    port = port_that_hangs_up(1, reset)
    said = "reset by peer" if reset else "refused"
    with pytest.raises(StoreError, match=rf"can be reached: 127\.0\.0\.1:{port} \(.*{said}\)$") as caught:
        open_gateway(config(port))
    assert caught.value.code is ErrorCode.HBASE_ERROR
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_server_that_always_hangs_up(port_that_hangs_up: Callable[[int, bool], int]) -> None:
    """As HBase's do with another transport or protocol than theirs."""
    with pytest.raises(StoreError, match=ADVICE):
        open_gateway(config(port_that_hangs_up(2, False)))


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_a_host_that_can_be_none(fake_gateway: Callable[..., FakeGateway], host: str) -> None:
    """R22: it can't be looked up, and the next one answers."""
    with pytest.raises(StoreError, match=rf"can be reached: {host}:9090 \(.*idna") as caught:
        open_gateway(config(hosts=host))
    assert isinstance(caught.value.__cause__, UnicodeError)
    gateway = open_gateway(config(hosts=f"{host},127.0.0.1:{fake_gateway().port}"))
    for _ in range(2):
        assert gateway.get("t", b"S", [(b"row", None)]) == [{}]
    gateway.close()


def test_connections_of_yours_that_can_not_be_opened(fake_gateway: Callable[..., FakeGateway]) -> None:
    """R22, R23: whatever is raised then counts as a host that can't be reached, and hides no doubt about a call."""
    ports = [fake_gateway().port] * 2

    def open_protocol() -> Any:
        if not ports:
            raise RuntimeError("the registry answers 503")
        sock = TRANSPORT.TSocket("127.0.0.1", ports.pop())
        sock.open()
        return PROTOCOL.TCyBinaryProtocol(TRANSPORT.TBufferedTransport(sock))

    context = HBaseContext.around(open_protocol, config(1, attempts=2))
    with pytest.raises(StoreError, match=r"the given connection \(the registry answers 503\)") as caught:
        context.gateway.put("t", b"S", [(b"row", [(b"q", b"v")])])
    assert caught.value.in_doubt
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(StoreError, match=r"the given connection \(the registry answers 503\)$") as caught:
        HBaseContext.around(open_protocol, config(1))
    assert not caught.value.in_doubt
    context.close()


def test_a_table_that_takes_longer_than_a_call(fake_gateway: Callable[..., FakeGateway]) -> None:
    """The call that creates it is lost, as one without an answer in time, and the server goes on: so do we."""
    server = fake_gateway(looks=3)
    gateway = open_gateway(config(server.port, attempts=1))
    ensure_table(gateway, config(server.port), "t", b"S")
    assert server.looks <= 0
    gateway.close()


def test_ipv6_addresses_are_shown_as_they_are_given() -> None:
    assert host_text("::1", 19390) == "[::1]:19390"
    with pytest.raises(StoreError, match=r"can be reached: \[::1\]:1 \("):
        open_gateway(config(hosts="[::1]:1"))


def test_files_for_tls_that_are_not_there() -> None:
    """R12: each with its name and its path."""
    files = {"tls_ca": "/nowhere/ca.pem", "tls_cert": "/nowhere/our.pem", "tls_key": "/nowhere/our.key"}
    with pytest.raises(InvalidConfigError) as caught:
        Wire(config(1, tls=True, **files))
    assert caught.value.problems == tuple(
        f"{name} {path!r} can't be read: No such file or directory" for name, path in files.items()
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("tls_ca",), "tls_ca '.*/empty' can't be used: "),
        (("tls_cert",), "tls_cert '.*/empty' can't be used: "),
        (("tls_cert", "tls_key"), "tls_cert '.*/empty' with tls_key '.*/empty' can't be used: "),
    ],
)
def test_files_for_tls_with_something_else_in_them(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(InvalidConfigError, match=said):
        Wire(config(1, tls=True, **dict.fromkeys(names, str(empty))))


LAST = "java.net.ConnectException: Call to address=localhost:16020 failed on connection exception: refused"
RETRIED = b"""\
Failed after attempts=11, exceptions:
2026-10-01T12:00:00.123Z, RpcRetryingCaller{globalStartTime=1, pause=10, maxAttempts=11}, \
org.apache.hadoop.hbase.NotServingRegionException: t,,1.abc. is not online on localhost,16020,1
\tat org.apache.hadoop.hbase.regionserver.HRegionServer.getRegionByEncodedName(HRegionServer.java:1)

2026-10-01T12:00:01.123Z, RpcRetryingCaller{globalStartTime=1, pause=10, maxAttempts=11}, \
%b
\tat org.apache.hadoop.hbase.ipc.RemoteWithExtrasException.unwrap(RemoteWithExtrasException.java:1)
""" % LAST.encode()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (RETRIED, f"Failed after attempts=11, exceptions: {LAST}"),
        (b"Failed after attempts=11, exceptions:\n\n", "Failed after attempts=11, exceptions:"),
        (b"t,,1.abc. is not online\njava.io.IOException: x", "t,,1.abc. is not online"),
    ],
)
def test_what_a_server_says_in_one_line(message: bytes, said: str) -> None:
    """R22: the first line; and where that but announces a list of errors, the last one that is named in it."""
    assert reason(IDL.TIOError(message, True)) == said
