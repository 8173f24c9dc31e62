"""The server that the tests of this package use: a double, or a real one where SOLUS_TEST_AEROSPIKE_HOSTS names it.

A test that asks for ``aerospike_hosts`` runs on either. One that asks for ``double`` needs the hooks, and always gets
the double. Nothing is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from solus_aerospike import AerospikeConfig, AerospikeContext, AerospikeMetaStore, connect
from solus_aerospike.data_store import AerospikeDataStore

DOUBLE = Path(__file__).with_name("double")
if str(DOUBLE) not in sys.path:
    sys.path.insert(0, str(DOUBLE))

if TYPE_CHECKING:
    from aerospike_double import Double

REAL_HOSTS = os.environ.get("SOLUS_TEST_AEROSPIKE_HOSTS", "")
"""``host:port``, separated by commas; the namespace is that of SOLUS_TEST_AEROSPIKE_NAMESPACE, or "test"."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thorough: what takes long, and need not run again for each set of dependencies")


@pytest.fixture(scope="session")
def aerospike_double() -> Iterator[Double]:
    """The double of the whole run, in this process. Its data stay from test to test: use sets of your own."""
    from aerospike_double import Double, Namespace  # noqa: PLC0415  # its folder is on the path only now

    with Double([Namespace("test"), Namespace("nottl", nsup_period=0)]) as started:
        yield started


@pytest.fixture
def double(aerospike_double: Double) -> Iterator[Double]:
    """The double, with no data, rules or counts, for a test that uses its hooks."""
    aerospike_double.reset()
    yield aerospike_double
    aerospike_double.reset()


@pytest.fixture(autouse=True)
def _all_is_modelled(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that asked the double for what it doesn't know fails, whatever else it found."""
    yield
    if "aerospike_double" in request.fixturenames:
        started: Double = request.getfixturevalue("aerospike_double")
        unknown = list(started.unmodelled)
        started.unmodelled.clear()
        assert not unknown


@pytest.fixture(scope="session")
def aerospike_hosts(request: pytest.FixtureRequest) -> list[tuple[str, int]]:
    """Hosts and ports for the client's configuration: of the real server if there is one, else of the double."""
    if REAL_HOSTS:
        pairs = [host.rpartition(":") for host in REAL_HOSTS.split(",")]
        return [(host, int(port)) for host, _, port in pairs]
    started: Double = request.getfixturevalue("aerospike_double")
    return started.hosts


@pytest.fixture(scope="session")
def aerospike_namespace() -> str:
    """A namespace in which records may expire."""
    return os.environ.get("SOLUS_TEST_AEROSPIKE_NAMESPACE", "test") if REAL_HOSTS else "test"


@pytest.fixture
def aerospike_set() -> str:
    """A set of this test alone: 17 characters, on a real server too."""
    return "s" + uuid.uuid4().hex[:16]


@pytest.fixture(scope="session")
def aerospike_client(aerospike_hosts: list[tuple[str, int]]) -> Iterator[Any]:
    """A client of the server, for looking behind what the stores do."""
    import aerospike  # noqa: PLC0415  # without the driver the tests of configuration still run

    client = aerospike.client({"hosts": aerospike_hosts})
    yield client
    client.close()


@pytest.fixture
def connected(
    aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str
) -> Iterator[Callable[..., AerospikeContext]]:
    """Contexts on the server, or on the double whose ``hosts`` are given, and this test's set there; closed at its end.

    The double has namespaces of its own, whatever those of a real server are called.
    """
    opened: list[AerospikeContext] = []

    def make(hosts: list[tuple[str, int]] | None = None, **settings: Any) -> AerospikeContext:
        namespace = aerospike_namespace if hosts is None else "test"
        hosts = hosts or aerospike_hosts
        settings = {"namespace": namespace, "set": aerospike_set, "farm": "dc1", **settings}
        opened.append(connect(AerospikeConfig(hosts=",".join(f"{host}:{port}" for host, port in hosts), **settings)))
        return opened[-1]

    yield make
    for context in opened:
        context.close()


@pytest.fixture
def opened(double: Double, aerospike_set: str) -> Iterator[Callable[..., AerospikeDataStore]]:
    """Stores on the double, on another port of its host where one is given, that don't wait long between tries."""
    contexts: list[AerospikeContext] = []

    def make(port: int | None = None, **settings: Any) -> AerospikeDataStore:
        host, of_double = double.hosts[0]
        fixed = {"hosts": f"{host}:{port or of_double}", "namespace": "test", "set": aerospike_set, "farm": "dc1"}
        contexts.append(connect(AerospikeConfig(**{**fixed, "backoff": 0.001, **settings})))
        return AerospikeDataStore(contexts[-1], "faults")

    yield make
    double.thaw()
    for context in contexts:
        context.close()


@pytest.fixture
def client_id() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_double(double: Double, client_id: str) -> Iterator[Callable[..., AerospikeMetaStore]]:
    """``open_double(farm)``: the view that a farm has of the de-dupers on the double, with short patience."""
    import aerospike  # noqa: PLC0415  # as above

    client = aerospike.client({"hosts": double.hosts})

    def open_double(farm: str = "dc1", namespace: str = "test", attempts: int = 3) -> AerospikeMetaStore:
        config = AerospikeConfig(
            hosts="unused", namespace=namespace, set="s", farm=farm, timeout=0.3, attempts=attempts, backoff=0.001
        )
        return AerospikeMetaStore(AerospikeContext(client, config), client_id)

    yield open_double
    client.close()


@pytest.fixture
def double_process() -> Iterator[int]:
    """Port of a double in a process of its own, with no data."""
    environment = {**os.environ, "PYTHONPATH": str(DOUBLE)}
    command = [sys.executable, "-m", "aerospike_double", "--port", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        yield int(run.stdout.readline())
        assert run.stdin is not None
        run.stdin.close()
        assert run.wait(30) == 0
