"""Forks at the worst moment, where a thread of the parent holds a lock: in the child it is held for ever (R24)."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest

from solus_core.testing.lab import race_processes
from solus_hbase import HBaseConfig
from solus_hbase import workers as module
from solus_hbase.kerberos import Tickets
from solus_hbase.workers import Workers


def test_while_a_batch_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """R24"""
    began, forked = threading.Event(), threading.Event()

    def slow_executor(size: int, thread_name_prefix: str) -> ThreadPoolExecutor:
        began.set()
        assert forked.wait(60)
        return ThreadPoolExecutor(size, thread_name_prefix)

    monkeypatch.setattr(module, "ThreadPoolExecutor", slow_executor)
    workers, done = Workers(2), [0]
    work = [lambda: done.append(1)] * 10
    batch = threading.Thread(target=workers.run, args=(work,))
    batch.start()
    assert began.wait(60)

    def in_child(_: object) -> None:
        forked.set()
        workers.run(work)
        assert done == [0] + [1] * 10

    race_processes([in_child], timeout=20)
    forked.set()
    batch.join(60)
    assert done == [0] + [1] * 10
    workers.close()


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """R8: the interpreter may be about to end, or the machine be full. The caller does it all."""

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    workers, done = Workers(8), list[int]()
    workers.run([partial(done.append, number) for number in range(10)])
    assert done == list(range(10))
    workers.close()


def test_while_a_ticket_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """R24"""
    began, forked = threading.Event(), threading.Event()

    def log_in(**_: object) -> SimpleNamespace:
        began.set()
        assert forked.wait(60)
        return SimpleNamespace(lifetime=3_600)

    gssapi = SimpleNamespace(
        Name=lambda *_: "shop",
        NameType=SimpleNamespace(kerberos_principal="principal"),
        Credentials=log_in,
        exceptions=SimpleNamespace(GSSError=OSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", gssapi)
    tickets = Tickets(HBaseConfig(hosts="h", table="t", kerberos=True, principal="shop", keytab="/keytab"))
    renewal = threading.Thread(target=tickets.current)
    renewal.start()
    assert began.wait(60)

    def in_child(_: object) -> None:
        forked.set()
        assert tickets.current().lifetime == 3_600

    race_processes([in_child], timeout=20)
    forked.set()
    renewal.join(60)
    assert tickets.current() is tickets.current()
