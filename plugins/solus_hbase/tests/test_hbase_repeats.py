"""A server that repeats calls by itself: what it answers in the end is not what it did (R5, R23)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, final

import pytest

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft, race
from solus_core.testing.lab import not_one_winner, spread
from solus_hbase import Gateway, HBaseContext, HBaseDataStore
from solus_hbase.dev_server import HBaseServer

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000


def deduper(layout: str = "native") -> DeDuper:
    return DeDuper(name=uuid.uuid4().hex, client_id="repeats", config=DeDuperConfig(), layout=layout)


@pytest.fixture
def context(hbase_server: HBaseServer, open_context: Callable[..., HBaseContext]) -> HBaseContext:
    return open_context(hbase_server.port(2), table="repeats", splits=2)


@final
class Repeating:
    """A gateway whose server loses the first answer of each check, which was applied, and tries again by itself:
    as HBase's own client in the Thrift server does when its connection to a region server breaks. ``meanwhile`` is
    what comes in between."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.reads_fail = False
        self.meanwhile: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def get(self, *args: Any) -> Any:
        if self.reads_fail:
            raise StoreError(ErrorCode.HBASE_ERROR, "no answer")
        return self._gateway.get(*args)

    def check_and_put(self, *args: Any) -> bool:
        self._gateway.check_and_put(*args)
        self.meanwhile()
        return self._gateway.check_and_put(*args)


@pytest.mark.parametrize("layout", ["native", "java"])
def test_whoever_won_knows_it_though_the_server_says_no(context: HBaseContext, layout: str) -> None:
    """R5, R23: of racing callers exactly one gets True; without the token nobody would, and the event were lost."""
    repeating: Any = Repeating(context.gateway)
    stores = [HBaseDataStore(HBaseContext(repeating, context.config), "faults") for _ in range(6)]
    probes = spread(deduper(layout), 150)
    answers = race(*(partial(store.add_if_absent, probes, NOW, NOW + DAY) for store in stores))
    assert not_one_winner(answers) == {}


def test_a_check_that_says_no_and_can_not_be_looked_into_is_doubt(context: HBaseContext) -> None:
    """R23"""
    repeating: Any = Repeating(context.gateway)
    store, of = HBaseDataStore(HBaseContext(repeating, context.config), "faults"), deduper()
    held = store._read_one(store._place(of), 7, (1, 2))
    repeating.reads_fail = True
    with pytest.raises(StoreError) as caught:
        store._writer.win(store._place(of), 7, held, (1, 2), NOW, NOW + DAY, time.monotonic())
    assert caught.value.in_doubt


@pytest.mark.parametrize("layout", ["native", "java"])
@pytest.mark.parametrize("verb", ["add_if_absent", "add_if_absent_one"])
def test_nobody_is_told_no_of_an_add_whose_ttl_is_over(
    context: HBaseContext, monkeypatch: pytest.MonkeyPatch, layout: str, verb: str
) -> None:
    """R5, R23: another id may have taken the place of its token by then, and so nobody would have been told True."""
    repeating: Any = Repeating(context.gateway)
    other, of = HBaseDataStore(context, "faults"), deduper(layout)
    store = HBaseDataStore(HBaseContext(repeating, context.config), "faults")
    arguments: Any = (craft(of, (7, (1, 2))),) if verb == "add_if_absent" else (of, 7, (1, 2))
    later = NOW + 5_100
    taken: list[bool] = []
    repeating.meanwhile = lambda: taken.append(other.add_if_absent_one(of, 7, (1, 9), later, later + 5_000))
    monkeypatch.setattr("solus_hbase.data_store.monotonic", lambda: 300.0)
    monkeypatch.setattr("solus_hbase.writing.monotonic", lambda: 305.1)
    with pytest.raises(SolusError, match="before the TTL was over") as caught:
        getattr(store, verb)(*arguments, NOW, NOW + 5_000)
    assert caught.value.in_doubt
    assert taken == [True]
