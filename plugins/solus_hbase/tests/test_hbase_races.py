"""R5 where it is hardest: 8 threads in each of 4 processes, on the same entities at the same time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import pytest

from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stores import Bools, DataStore, Probes
from solus_core.testing import craft
from solus_core.testing.lab import spread, winners_among_processes
from solus_hbase import HBaseConfig, HBaseDataStore, connect
from solus_hbase.dev_server import HBaseServer

NOW = time.time_ns() // 1_000_000

Verb = Callable[[DataStore, Probes], Bools]


def add_if_absent(store: DataStore, probes: Probes) -> Bools:
    return store.add_if_absent(probes, NOW, NOW + 60_000)


def check_then_add(store: DataStore, probes: Probes) -> Bools:
    absent = store.absent(probes, NOW)
    store.add(probes.rows(np.flatnonzero(absent)), NOW, NOW + 60_000)
    return absent


@contextmanager
def opened(config: HBaseConfig) -> Iterator[DataStore]:
    with closing(connect(config)) as context, closing(HBaseDataStore(context, "races")) as store:
        yield store


def winners(config: HBaseConfig, verb: Verb, probes: Probes, parts: int) -> dict[int, int]:
    return winners_among_processes(partial(opened, config), verb, probes, parts)


def deduper(layout: str) -> DeDuper:
    return DeDuper(name=uuid.uuid4().hex, client_id="races", config=DeDuperConfig(), layout=layout)


@pytest.fixture
def config(hbase_server: HBaseServer) -> HBaseConfig:
    hosts = f"{hbase_server.host}:{hbase_server.port(2)}"
    made = HBaseConfig(hosts=hosts, table="races", splits=2, timeout=60, pool_wait=60)
    with opened(made):  # so that the table is there
        return made


@pytest.mark.parametrize("layout", ["native", "java"])
def test_one_winner_each_of_two_thousand(config: HBaseConfig, layout: str) -> None:
    """R5. No two of the entities share a position, so that there are no false positives to tell apart."""
    assert winners(config, add_if_absent, spread(deduper(layout), 2_000), parts=10) == {}


@pytest.mark.parametrize("layout", ["native", "java"])
def test_one_winner_each_in_one_hot_row(config: HBaseConfig, layout: str) -> None:
    """R5. All in one shard, and each shares a position with either neighbour, which may be first at the witness."""
    probes = craft(deduper(layout), *((7, range(3 * i, 3 * i + 4)) for i in range(30)))
    assert winners(config, add_if_absent, probes, parts=len(probes)) == {}


def test_check_then_add_fails_this_test(config: HBaseConfig) -> None:
    """The control: were the races too tame to catch it, the tests above would mean nothing."""
    assert winners(config, check_then_add, spread(deduper("native"), 2_000), parts=10) != {}
