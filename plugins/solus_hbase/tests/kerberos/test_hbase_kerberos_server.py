"""The secure HBase that the Kerberos tests run on, asked by a client that has nothing of ours in it."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import thriftpy2

from solus_hbase.dev_server import HBaseServer

if TYPE_CHECKING:
    from plugins.solus_hbase.tests.kerberos.conftest import Kdc, KerberosHBase

TIMEOUT_MS: Final = 30_000
IDL: Final = "service Server { i32 getThriftServerType() }"
# They have types in part only.
TRANSPORT: Final[Any] = import_module("thriftpy2.transport")
PROTOCOL: Final[Any] = import_module("thriftpy2.protocol")
THRIFT: Final[Any] = import_module("thriftpy2.thrift")
NO_SECURITY_LAYER: Final = bytes((1, 0, 0, 0))


@pytest.fixture(scope="session")
def gssapi(kdc: Kdc) -> Any:
    """After the check that it is there."""
    return pytest.importorskip("gssapi")


@pytest.fixture(scope="session")
def server_type() -> Callable[[Any], int]:
    """Asks a gateway which interface it speaks, over a transport that may be open already."""
    service = thriftpy2.load_fp(io.StringIO(IDL), "solus_which_server_thrift").Server

    def ask(transport: Any) -> int:
        with closing(transport):
            if not transport.is_open():
                transport.open()
            answer: int = THRIFT.TClient(service, PROTOCOL.TBinaryProtocol(transport)).getThriftServerType()
            return answer

    return ask


def socket_to(hbase: KerberosHBase, kind: int) -> Any:
    return TRANSPORT.TSocket(hbase.server.host, hbase.server.port(kind), socket_timeout=TIMEOUT_MS)


def credentials(gssapi: Any, principal: str, keytab: Path) -> Any:
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:{principal}"}
    return gssapi.Credentials(name=name, usage="initiate", store=store)


class Client:
    """SASL's GSSAPI as RFC 4752 has it, with no security layer."""

    def __init__(self, gssapi: Any, held: Any) -> None:
        service = gssapi.Name("hbase@localhost", gssapi.NameType.hostbased_service)
        self.context = gssapi.SecurityContext(name=service, creds=held, usage="initiate", mech=gssapi.MechType.kerberos)

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self.context.step()

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        if not self.context.complete:
            return True, self.context.step(challenge) or b""
        self.context.unwrap(challenge)
        return True, self.context.wrap(NO_SECURITY_LAYER, False).message

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data


@pytest.mark.parametrize("kind", [1, 2])
def test_a_client_with_a_ticket_gets_an_answer(
    kerberos_hbase: KerberosHBase, gssapi: Any, server_type: Callable[[Any], int], kind: int
) -> None:
    held = credentials(gssapi, kerberos_hbase.principal, kerberos_hbase.keytab)
    transport = TRANSPORT.TSaslClientTransport(lambda: Client(gssapi, held), "GSSAPI", socket_to(kerberos_hbase, kind))
    assert server_type(transport) == kind


@pytest.mark.parametrize("kind", [1, 2])
def test_a_client_that_does_not_log_in_gets_none(
    kerberos_hbase: KerberosHBase, hbase_server: HBaseServer, kind: int
) -> None:
    """While a server without security answers the very same bytes.

    The secure one says nothing at all and keeps the connection: only a client's timeout ends the wait.
    """
    name = b"getThriftServerType"
    call = struct.pack(">II", 0x8001_0001, len(name)) + name + struct.pack(">I", 0) + b"\0"
    with socket.create_connection((hbase_server.host, hbase_server.port(kind)), TIMEOUT_MS / 1000) as connection:
        connection.sendall(call)
        assert name in connection.recv(100)
    with socket.create_connection((kerberos_hbase.server.host, kerberos_hbase.server.port(kind)), 1) as connection:
        connection.sendall(call)
        with pytest.raises(TimeoutError):
            connection.recv(100)


@pytest.mark.parametrize("kind", [1, 2])
def test_a_login_without_kerberos_is_refused(kerberos_hbase: KerberosHBase, kind: int) -> None:
    mechanism = b"ANONYMOUS"
    with closing(socket_to(kerberos_hbase, kind)) as connection:
        connection.open()
        connection.write(struct.pack(">BI", 1, len(mechanism)) + mechanism)
        refusal = b"\3\0\0\0\x24Unsupported mechanism type ANONYMOUS"
        assert connection.read(len(refusal)) == refusal


def test_there_is_no_answer_without_a_ticket(
    kerberos_hbase: KerberosHBase, gssapi: Any, server_type: Callable[[Any], int]
) -> None:
    """The process itself has none."""
    transport = TRANSPORT.TSaslClientTransport(lambda: Client(gssapi, None), "GSSAPI", socket_to(kerberos_hbase, 2))
    with closing(transport), pytest.raises(gssapi.exceptions.GSSError):
        server_type(transport)


def test_tickets_last_as_long_as_a_test_wants(kdc: Kdc, gssapi: Any) -> None:
    principal = "hasty@SOLUS.TEST"
    held = credentials(gssapi, principal, kdc.keytab(principal, ticket_seconds=20))
    assert 0 < held.lifetime <= 20
