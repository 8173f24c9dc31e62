"""TLS, and calls as HTTP. HBase's own Thrift server has TLS with HTTP alone; otherwise something before it has."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen
from thriftpy2.transport import TTransportException

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_hbase import HBaseConfig, HBaseContext, HBaseDataStore, connect
from solus_hbase.dev_server import HBaseServer
from solus_hbase.gateway.http import HttpTransport
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.gateway.wire import WireConnection

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
HTTP = {"hbase.regionserver.thrift.http": "true"}


@frozen
class Identity:
    """A certificate for 127.0.0.1, signed by itself, with its key; and both as a key store of Java."""

    certificate: Path
    key: Path
    key_store: Path


@pytest.fixture(scope="module")
def identities(hbase_tools: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Identity, Identity]:
    """Two who do not know each other."""
    folder = tmp_path_factory.mktemp("tls")
    made = []
    for name in ("one", "other"):
        files = Identity(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.p12")
        key, certificate = str(files.key), str(files.certificate)
        new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate]
        store = ["pkcs12", "-export", "-passout", "pass:secret", "-inkey", key, "-in", certificate]
        for command in (
            [*new, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
            [*store, "-out", str(files.key_store)],
        ):
            # Debian's Java brings it along.
            subprocess.run(["openssl", *command], check=True, capture_output=True)
        made.append(files)
    return made[0], made[1]


@pytest.fixture
def gateway(hbase_server: HBaseServer) -> Iterator[Callable[..., tuple[str, int]]]:
    started: list[str] = []

    def start(kind: int, site: dict[str, str]) -> tuple[str, int]:
        name, port = hbase_server.start_gateway(kind, hbase_site=site)
        started.append(name)
        return name, port

    yield start
    hbase_server.kill(*started)


@pytest.fixture
def store(open_context: Callable[..., HBaseContext]) -> Callable[..., HBaseDataStore]:
    return lambda port, **settings: HBaseDataStore(
        open_context(port, **{"table": "tls", "splits": 2, "timeout": 10, **settings}), "tls"
    )


def see_that_it_works(store: HBaseDataStore) -> None:
    of = DeDuper(name=uuid.uuid4().hex, client_id="tls", config=DeDuperConfig(), layout="native")
    rows = [(shard, tuple(range(0, 700, 100))) for shard in range(1_000)]
    assert store.add_if_absent(craft(of, *rows[:50]), NOW, NOW + DAY).all()
    store.add(craft(of, *rows), NOW, NOW + DAY)
    assert not store.absent(craft(of, *rows), NOW).any()
    assert not store.add_if_absent_one(of, *rows[0], NOW, NOW + DAY)
    assert store.absent_one(of, 1_000, (1, 2), NOW)


@pytest.mark.parametrize("kind", [2, 1])
def test_http(gateway: Callable[..., tuple[str, int]], store: Callable[..., HBaseDataStore], kind: int) -> None:
    _, port = gateway(kind, HTTP)
    see_that_it_works(store(port, transport="http"))
    with pytest.raises(StoreError, match="transport=http&protocol=binary"):
        store(port)


def test_http_and_tls(
    hbase_server: HBaseServer,
    gateway: Callable[..., tuple[str, int]],
    store: Callable[..., HBaseDataStore],
    identities: tuple[Identity, Identity],
) -> None:
    """The certificate of the server and its address are checked; what doesn't fit is one error that says why."""
    server, stranger = identities
    site = {
        **HTTP,
        "hbase.thrift.ssl.enabled": "true",
        "hbase.thrift.ssl.keystore.store": str(server.key_store),
        "hbase.thrift.ssl.keystore.password": "secret",
        "hbase.thrift.ssl.keystore.keypassword": "secret",
        "hbase.thrift.ssl.keystore.type": "pkcs12",
    }
    name, port = gateway(2, site)
    working = store(port, transport="http", tls=True, tls_ca=str(server.certificate), attempts=1)
    see_that_it_works(working)
    hbase_server.kill(name)
    hbase_server.start(name)
    see_that_it_works(working)

    for settings, said in (
        ({"transport": "http", "tls": True, "tls_ca": str(stranger.certificate)}, "certificate is refused: self"),
        ({"transport": "http", "tls": True}, "certificate is refused: self"),
        ({"transport": "http"}, "or tls=true"),
        ({}, "or tls=true"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            store(port, **settings)
        assert caught.value.code is ErrorCode.HBASE_ERROR
        assert caught.value.__cause__ is not None
    with pytest.raises(StoreError, match=r"certificate is refused: .*'localhost'"):
        connect(
            HBaseConfig(
                hosts=f"localhost:{port}", table="tls", transport="http", tls=True, tls_ca=str(server.certificate)
            )
        )


def test_tls_where_there_is_none(hbase_server: HBaseServer, store: Callable[..., HBaseDataStore]) -> None:
    with pytest.raises(StoreError, match=r"there is no TLS: .* transport=http alone") as caught:
        store(hbase_server.port(2), tls=True, timeout=2)
    assert caught.value.code is ErrorCode.HBASE_ERROR


@contextlib.contextmanager
def tls_in_front_of(port: int, server: Identity, client: Identity) -> Iterator[int]:
    """Something that speaks TLS to those who show the certificate of ``client``, and passes on what they say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(client.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    threads: list[threading.Thread] = []

    def pass_on(accepted: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)) as behind,
            context.wrap_socket(accepted, server_side=True) as before,
        ):
            while True:
                ready = select.select([before, behind], [], [])[0]
                for one, other in ((before, behind), (behind, before)):
                    if one in ready:
                        data = one.recv(65_536)
                        if not data:
                            return
                        other.sendall(data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                threads.append(threading.Thread(target=pass_on, args=(accepted,), daemon=True))
                threads[-1].start()

    listener = socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(30)


def test_tls_of_something_in_front(
    hbase_server: HBaseServer, store: Callable[..., HBaseDataStore], identities: tuple[Identity, Identity]
) -> None:
    """With the transport that is usual, and a certificate of our own."""
    server, client = identities
    with tls_in_front_of(hbase_server.port(2), server, client) as port:
        trusting = {"tls": True, "tls_ca": str(server.certificate)}
        see_that_it_works(store(port, **trusting, tls_cert=str(client.certificate), tls_key=str(client.key)))
        with pytest.raises(StoreError, match=r"(?i)certificate.required"):
            store(port, **trusting)
        with pytest.raises(StoreError, match="certificate is refused"):
            store(port, tls=True, tls_ca=str(client.certificate))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"


def test_answers_of_http(ends: tuple[socket.socket, socket.socket]) -> None:
    """One connection for many calls, until an answer says that it was the last one."""
    transport = HttpTransport(ends[0], "h", 1)
    connection = WireConnection(IDL.THBaseService, transport, ends[0])
    for headers, dead in ((OK, False), (OK, False), (OK + b"Connection: close\r\n", True)):
        assert not connection.is_dead()
        ends[1].sendall(headers + b"\r\nabc")
        transport.write(b"ca")
        transport.write(b"ll")
        transport.flush()
        assert [transport.read(2), transport.read(2), transport.read(2)] == [b"ab", b"c", b""]
        assert ends[1].recv(10_000).endswith(b"\r\n\r\ncall")
        assert connection.is_dead() is dead
    with pytest.raises(TTransportException, match="NotConnected"):
        transport.flush()  # it does not connect anew by itself, which would be without TLS


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nabc", "503 Service Unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc", "IncompleteRead"),
        (b"\x80\x01\x00\x02\r\n", "BadStatusLine"),
    ],
)
def test_what_is_no_answer_of_http(ends: tuple[socket.socket, socket.socket], answer: bytes, said: str) -> None:
    ends[1].sendall(answer)
    ends[1].shutdown(socket.SHUT_WR)
    with pytest.raises(TTransportException, match=said):
        HttpTransport(ends[0], "h", 1).flush()
