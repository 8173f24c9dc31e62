"""A server that repeats calls by itself: what it answers in the end is not what it did (R5, R23)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, final

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import race
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
    as HBase's own client in the Thrift server does when its connection to a region server breaks."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.reads_fail = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def get(self, *args: Any) -> Any:
        if self.reads_fail:
            raise StoreError(ErrorCode.HBASE_ERROR, "no answer")
        return self._gateway.get(*args)

    def check_and_put(self, *args: Any) -> bool:
        self._gateway.check_and_put(*args)
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
        store._writer.win(store._place(of), 7, held, (1, 2), NOW, NOW + DAY)
    assert caught.value.in_doubt
