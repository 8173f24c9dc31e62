"""Connections: whose they are, who may end them, forks, and TLS."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from aerospike.exception import AerospikeError, ClientError
from attrs import frozen

from solus_aerospike import AerospikeConfig, AerospikeContext, AerospikeDataStore, AerospikeMetaStore, connect
from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.testing import craft

if TYPE_CHECKING:
    from aerospike_double import Double

OFFERS = DeDuper(name="offers", client_id="shop", config=DeDuperConfig())


def config(double: Double, **settings: Any) -> AerospikeConfig:
    return AerospikeConfig(**{"hosts": f"127.0.0.1:{double.port}", "namespace": "test", "set": "s", **settings})


def works(context: AerospikeContext) -> bool:
    return AerospikeMetaStore(context, "shop").create(OFFERS) == OFFERS


def test_nobody_listens() -> None:
    """R22, R23"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    unused = AerospikeConfig(hosts=f"127.0.0.1:{port}", namespace="test", set="s", attempts=2, backoff=0.001)
    with pytest.raises(StoreError, match=rf"connecting to 127\.0\.0\.1:{port}: ConnectionError \(-10\)") as caught:
        connect(unused)
    assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
    assert caught.value.__cause__ is not None


def test_what_the_client_is_told(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: the login, and the time of each call; a server that can't be reached may be back for the next try."""
    import aerospike  # noqa: PLC0415  # as in the conftest

    told: list[dict[str, Any]] = []
    client = aerospike.client

    def flaky(settings: dict[str, Any]) -> Any:
        told.append(settings)
        if len(told) == 1:
            raise ClientError(-10, "refused")
        return client({"hosts": settings["hosts"]})

    monkeypatch.setattr(aerospike, "client", flaky)
    context = connect(config(double, user="me", password="mine", timeout=1.5, attempts=2, backoff=0.001))
    assert [(one["user"], one["password"]) for one in told] == [("me", "mine")] * 2
    told_each = {"total_timeout": 1_500, "socket_timeout": 1_500, "max_retries": 0}
    assert context.policy(ttl=5).items() >= {**told_each, "ttl": 5}.items()
    assert context.info_policy == {"timeout": 1_500}
    context.close()


def test_the_next_host_is_asked(double: Double) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    context = connect(config(double, hosts=f"127.0.0.1:{port},127.0.0.1", port=double.port))
    assert works(context)
    client, alone = context.client, object()
    context.close()
    assert sys.getrefcount(client) == sys.getrefcount(alone)  # nobody else keeps it from being closed
    client.close()
    with pytest.raises(StoreError, match="connecting to"):
        connect(config(double, hosts=f"127.0.0.1:{port},127.0.0.1:{port}", attempts=1))


def test_a_closed_context_gives_no_client(double: Double) -> None:
    context = connect(config(double))
    meta = AerospikeMetaStore(context, "shop")
    context.close()
    context.close()
    with pytest.raises(StoreError, match="is closed"):
        meta.get("offers")
    with pytest.raises(StoreError, match="is closed"):
        AerospikeMetaStore(context, "shop")


def test_a_borrowed_client_stays_open(double: Double) -> None:
    import aerospike  # noqa: PLC0415  # as in the conftest

    client = aerospike.client({"hosts": double.hosts})
    context = AerospikeContext(client, config(double, hosts="unused"))
    assert works(context)
    context.close()
    assert works(AerospikeContext(client, config(double)))
    client.close()


def test_a_borrowed_client_that_its_owner_closed(double: Double) -> None:
    """R22: in batches too the driver raises for that, while it does not for what the network does."""
    import aerospike  # noqa: PLC0415  # as in the conftest

    client = aerospike.client({"hosts": double.hosts})
    store = AerospikeDataStore(AerospikeContext(client, config(double, attempts=2, backoff=0.001)), "shop")
    of = attrs.evolve(OFFERS, layout="map", config=DeDuperConfig(level=Level.DC))
    client.close()
    calls: list[Callable[[], object]] = [
        lambda: store.absent_one(of, 1, (1, 2), 5),
        lambda: store.absent(craft(of, (1, (1, 2))), 5),
        lambda: store.add_if_absent(craft(of, (1, (1, 2))), 5, 9),
    ]
    for call in calls:
        with pytest.raises((StoreError, StoreBatchError), match=r"ClusterError \(11\): No connection") as caught:
            call()
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert isinstance(caught.value.__cause__, AerospikeError)


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
def test_tries(double: Double, silent: bool) -> None:
    """R23: each has the ``timeout``, and as many are made as ``attempts`` says: the client adds none."""
    context = connect(config(double, timeout=0.05, attempts=2, backoff=0.001))
    meta = AerospikeMetaStore(context, "shop")
    double.hooks.lose("get", applied=False, silent=silent, times=None)
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)" if silent else r"Error \(-\d+\)"):
        meta.get("offers")
    assert double.hooks.counts["get"] == 2
    context.close()


def test_after_many_errors_in_a_row(double: Double) -> None:
    """R23: the client then sends nothing for a while, which is over before the last of our tries."""
    context = connect(config(double, timeout=1))
    meta = AerospikeMetaStore(context, "shop")
    codes = set[int]()
    double.stop()
    try:
        # Nobody listens: each takes microseconds, so that enough of them come between two looks of the client.
        for _ in range(5_000):
            try:
                context.client.get(("test", "s", "k"), context.policy())
            except AerospikeError as error:
                codes.add(error.args[0])
            if -14 in codes:
                break
    finally:
        double.start()
    assert -14 in codes, "the client has no such limit any more"
    assert meta.get("offers") is None
    context.close()


CLOSE_WHILE_OTHERS_WORK = """
import sys, threading
from solus_aerospike import AerospikeConfig, AerospikeMetaStore, connect

context = connect(AerospikeConfig(hosts="127.0.0.1", port=int(sys.argv[1]), namespace="test", set="s"))
meta = AerospikeMetaStore(context, "shop")
answers = []
threads = [threading.Thread(target=lambda: answers.append(meta.get("offers"))) for _ in range(8)]
for thread in threads:
    thread.start()
sys.stdin.readline()
context.close()
print("closed", flush=True)
for thread in threads:
    thread.join()
print(len(answers))
"""


def test_closing_while_others_work(double: Double) -> None:
    """R24: each of them gets its answer. The driver's own ``close``, between their calls, can crash the process."""
    arrived = [double.hooks.hold("get") for _ in range(8)]
    command = [sys.executable, "-W", "error", "-c", CLOSE_WHILE_OTHERS_WORK, str(double.port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        for gate in arrived:
            assert gate.reached.wait(20)
        run.stdin.write("\n")
        run.stdin.flush()
        assert run.stdout.readline() == "closed\n"
        for gate in arrived:
            gate.release()
        assert run.communicate(timeout=20)[0] == "8\n"
    assert run.returncode == 0


def test_closing_just_before_a_call(double: Double) -> None:
    """R24: who has the client already is answered."""
    from aerospike.exception import RecordNotFound  # noqa: PLC0415  # as in the conftest

    context = connect(config(double))
    get = context.client.get
    context.close()
    with pytest.raises(RecordNotFound):
        get(("test", "s", "k"))


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` answers or raises in a forked child, or the signal that ended it."""
    gc.collect()  # clients that other tests left behind must not be freed in the child
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            answer = str(work())
        except BaseException as error:
            answer = str(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as told:
        answer = told.read()
    status = os.waitpid(pid, 0)[1]
    return answer if status == 0 else f"status {status}"


def test_a_forked_child_has_a_client_of_its_own(double: Double) -> None:
    """R24; and it can let go of the parent's, which the driver does not survive."""
    context = connect(config(double))

    def let_go() -> str:
        nonlocal context
        context.close()
        del context
        gc.collect()
        return "survived"

    parents = id(context.client)
    assert in_child(lambda: works(context)) == "True"
    assert in_child(lambda: id(context.client) == parents) == "False"
    assert in_child(lambda: context.client is context.client) == "True"
    assert in_child(let_go) == "survived"
    assert works(context)
    with context._lock:  # as another thread may, when it closes
        assert in_child(lambda: works(context)) == "True"
    context.close()
    assert "is closed" in in_child(lambda: context.client)


def test_a_forked_child_can_not_use_a_borrowed_client(double: Double) -> None:
    """R24: how another is made only its owner knows."""
    owner = connect(config(double))
    context = AerospikeContext(owner.client, config(double))
    assert "make a client and a context after the fork" in in_child(lambda: works(context))
    assert works(context)
    context.close()
    owner.close()


@frozen
class Identity:
    """A certificate with its key."""

    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """``one`` and ``cluster`` are certified by ``authority``; who that is ``stranger`` does not know."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates: apt-get install openssl")
    folder = tmp_path_factory.mktemp("tls")
    made: dict[str, Identity] = {}
    for name in ("authority", "stranger", "one", "cluster"):
        files = made[name] = Identity(folder / f"{name}.pem", folder / f"{name}.key")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-keyout", str(files.key), "-out", str(files.certificate)]
        if name in ("one", "cluster"):
            command += ["-CA", str(made["authority"].certificate), "-CAkey", str(made["authority"].key)]
            command += ["-addext", "subjectAltName=" + {"one": "DNS:localhost", "cluster": "DNS:cluster"}[name]]
        subprocess.run(command, check=True, capture_output=True)
    return made


@pytest.fixture
def behind_tls(double: Double) -> Iterator[Callable[..., int]]:
    """``behind_tls(identity)``: a port with TLS that leads to the double."""
    with contextlib.ExitStack() as cleanup:

        def behind_tls(identity: Identity, trusts: Identity | None = None) -> int:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(identity.certificate, identity.key)
            if trusts is not None:
                tls.verify_mode = ssl.CERT_REQUIRED
                tls.load_verify_locations(trusts.certificate)
            listener = socket.create_server(("127.0.0.1", 0))
            cleanup.callback(listener.close)
            cleanup.callback(listener.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=serve, args=(listener, tls, double.port), daemon=True).start()
            port: int = listener.getsockname()[1]
            return port

        yield behind_tls


def serve(listener: socket.socket, tls: ssl.SSLContext, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            threading.Thread(target=pass_on, args=(accepted, tls, port), daemon=True).start()


def pass_on(accepted: socket.socket, tls: ssl.SSLContext, port: int) -> None:
    """Both ways, a request and its answer at a time: that is how the protocol goes."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as open_ones:
        open_ones.enter_context(accepted)
        client = open_ones.enter_context(tls.wrap_socket(accepted, server_side=True))
        server = open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))
        while True:
            for source, target in ((client, server), (server, client)):
                header = exactly(source, 8)
                target.sendall(header + exactly(source, int.from_bytes(header[2:], "big")))


def exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


def test_tls(behind_tls: Callable[..., int], identities: dict[str, Identity]) -> None:
    """The certificate of the server and the name in it are checked: the host's, or ``tls_name``."""
    known, unknown = (str(identities[name].certificate) for name in ("authority", "stranger"))
    ports = {name: behind_tls(identities[name]) for name in ("one", "cluster")}

    def opened(server: str, **settings: Any) -> bool:
        common: dict[str, Any] = {"namespace": "test", "set": "s", "tls": True, "attempts": 1}
        context = connect(AerospikeConfig(hosts=f"localhost:{ports[server]}", **common, **settings))
        try:
            return works(context)
        finally:
            context.close()

    assert opened("one", tls_ca=known)
    assert opened("cluster", tls_ca=known, tls_name="cluster")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("one", {}),  # the system trusts others
        ("one", {"tls_ca": unknown}),
        ("one", {"tls_ca": known, "tls_name": "cluster"}),
        ("cluster", {"tls_ca": known}),
        ("one", {"tls_ca": "/no/such/file"}),
    ]
    for server, settings in refused:
        with pytest.raises(StoreError, match="connecting to"):
            opened(server, **settings)


def test_tls_where_the_port_speaks_none(double: Double) -> None:
    """R22: the client does not tell it from a certificate that it refuses."""
    with pytest.raises(StoreError, match=rf"connecting to 127.0.0.1:{double.port} with TLS \(does the port speak it, "):
        connect(config(double, tls=True, attempts=1, timeout=0.3))
    with pytest.raises(StoreError, match="connecting to localhost:1: "):
        connect(config(double, hosts="localhost:1", attempts=1))


def test_tls_with_a_certificate_of_our_own(behind_tls: Callable[..., int], identities: dict[str, Identity]) -> None:
    port = behind_tls(identities["one"], trusts=identities["authority"])
    common: dict[str, Any] = {"hosts": f"localhost:{port}", "namespace": "test", "set": "s", "tls": True}
    common |= {"attempts": 1, "tls_ca": str(identities["authority"].certificate)}
    ours = identities["cluster"]
    context = connect(AerospikeConfig(**common, tls_cert=str(ours.certificate), tls_key=str(ours.key)))
    assert works(context)
    context.close()
    with pytest.raises(StoreError, match="connecting to"):
        connect(AerospikeConfig(**common))
