"""Our client on a secure HBase: log in, renew before the ticket ends and after, and say what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from solus_core import SolusEngine
from solus_core.errors import ErrorCode, StoreError
from solus_hbase import HBaseContext

if TYPE_CHECKING:
    from plugins.solus_hbase.tests.kerberos.conftest import KerberosHBase

REALM = "SOLUS.TEST"


@pytest.fixture
def opened(kerberos_hbase: KerberosHBase, open_context: Callable[..., HBaseContext]) -> Callable[..., HBaseContext]:
    def make(kind: int = 2, **settings: Any) -> HBaseContext:
        given = {
            "hosts": f"localhost:{kerberos_hbase.server.port(kind)}",
            "table": "secure",
            "splits": 2,
            "kerberos": True,
            "principal": kerberos_hbase.principal,
            "keytab": str(kerberos_hbase.keytab),
            **settings,
        }
        return open_context(**given)

    return make


@pytest.mark.parametrize("kind", [2, 1])
def test_every_verb(opened: Callable[..., HBaseContext], kind: int) -> None:
    """Row 3: works against a real KDC, through either gateway."""
    with SolusEngine.open(opened(kind), client_id=f"kerberos{kind}") as engine:
        engine.register("orders")
        assert engine.add_if_absent("orders", "a", 60_000)
        assert not engine.add_if_absent("orders", "a", 60_000)
        many = [f"e{i}" for i in range(2_000)]
        engine.add_many("orders", many, 60_000)
        assert not any(engine.check_absence_many("orders", many).values())


def test_by_address(kerberos_hbase: KerberosHBase, opened: Callable[..., HBaseContext]) -> None:
    """``kerberos_host`` names the server where the address in the URL doesn't."""
    hosts = f"127.0.0.1:{kerberos_hbase.server.port(2)}"
    with pytest.raises(StoreError, match=r"Kerberos login to hbase@127\.0\.0\.1 failed"):
        opened(hosts=hosts)
    assert opened(hosts=hosts, kerberos_host="localhost").gateway.families("secure") is not None


def test_an_expired_ticket_is_renewed(kerberos_hbase: KerberosHBase, opened: Callable[..., HBaseContext]) -> None:
    """Row 3: a connection that is opened when the ticket has ended, as after a quiet night."""
    principal = f"brief@{REALM}"
    keytab = kerberos_hbase.kdc.keytab(principal, ticket_seconds=2)
    context = opened(principal=principal, keytab=str(keytab))
    gateway: Any = context.gateway
    tickets = gateway.wire.tickets
    first = tickets.current()
    assert gateway.families("secure") is not None
    deadline = time.monotonic() + 30
    while alive(first):
        assert time.monotonic() < deadline
        time.sleep(0.1)  # the KDC counts the seconds
    gateway.pool.forked()  # leaves all connections behind
    assert gateway.families("secure") is not None
    assert tickets.current() is not first


def alive(credentials: Any) -> bool:
    try:
        return bool(credentials.lifetime)
    except Exception:
        return False


def test_a_ticket_that_lasts_is_kept(opened: Callable[..., HBaseContext]) -> None:
    gateway: Any = opened().gateway
    assert gateway.wire.tickets.current() is gateway.wire.tickets.current()


def test_what_is_wrong(kerberos_hbase: KerberosHBase, opened: Callable[..., HBaseContext]) -> None:
    for settings, said in (
        ({"principal": f"nobody@{REALM}"}, "no Kerberos ticket for nobody@SOLUS.TEST from .*keytab"),
        ({"keytab": "/nowhere"}, "no Kerberos ticket for .* from /nowhere"),
        ({"kerberos_service": "other"}, "Kerberos login to other@localhost failed"),
        ({"principal": None, "keytab": None}, "Kerberos login to hbase@localhost failed"),
        ({"kerberos": False, "principal": None, "keytab": None, "timeout": 1}, "or kerberos=true"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            opened(**settings)
        assert caught.value.code is ErrorCode.HBASE_ERROR
        assert caught.value.__cause__ is not None
