"""R5 where it is hardest: 8 threads in each of 4 processes, on the same entities at the same time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import pytest
from aerospike_samples import BOTH, NOW

from solus_aerospike import AerospikeConfig, connect
from solus_aerospike.data_store import AerospikeDataStore
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stores import Bools, DataStore, Probes, SingleProbeStore
from solus_core.testing import craft
from solus_core.testing.lab import singles, spread, winners_among_processes

Verb = Callable[[DataStore, Probes], Bools]
pytestmark = pytest.mark.thorough


def add_if_absent(store: DataStore, probes: Probes) -> Bools:
    return store.add_if_absent(probes, NOW, NOW + 60_000)


def one_by_one(store: DataStore, probes: Probes) -> Bools:
    assert isinstance(store, SingleProbeStore)
    return singles(store, "add_if_absent", probes, NOW, NOW + 60_000)


def check_then_add(store: DataStore, probes: Probes) -> Bools:
    absent = store.absent(probes, NOW)
    store.add(probes.rows(np.flatnonzero(absent)), NOW, NOW + 60_000)
    return absent


@contextmanager
def opened(config: AerospikeConfig) -> Iterator[DataStore]:
    with closing(connect(config)) as context, closing(AerospikeDataStore(context, "races")) as store:
        yield store


def winners(config: AerospikeConfig, verb: Verb, probes: Probes, parts: int) -> dict[int, int]:
    return winners_among_processes(partial(opened, config), verb, probes, parts)


def deduper(layout: str, bits: int = 1_000) -> DeDuper:
    config = DeDuperConfig(bits_per_shard=bits)
    return DeDuper(name=uuid.uuid4().hex, client_id="races", config=config, layout=layout)


@pytest.fixture
def config(aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str) -> AerospikeConfig:
    hosts = ",".join(f"{host}:{port}" for host, port in aerospike_hosts)
    # A hot record answers "busy" to some of so many: they try again.
    return AerospikeConfig(
        hosts=hosts, namespace=aerospike_namespace, set=aerospike_set, farm="dc1", timeout=15, attempts=50
    )


@BOTH
def test_one_winner_each_of_two_thousand(config: AerospikeConfig, layout: str) -> None:
    """R5. No two of the entities share a position, so that there are no false positives to tell apart."""
    assert winners(config, add_if_absent, spread(deduper(layout), 2_000), parts=10) == {}


@BOTH
def test_one_winner_each_in_one_hot_record(config: AerospikeConfig, layout: str) -> None:
    """R5. All in one shard, and each shares a position with either neighbour."""
    probes = craft(deduper(layout), *((7, range(3 * i, 3 * i + 4)) for i in range(30)))
    assert winners(config, one_by_one, probes, parts=len(probes)) == {}


def test_one_winner_each_in_a_large_record(config: AerospikeConfig) -> None:
    """R5. The positions of an entity are in several maps of one record, which change together."""
    probes = craft(deduper("map", 30_000), *((7, range(997 * i, 997 * i + 7)) for i in range(30)))
    assert winners(config, add_if_absent, probes, parts=10) == {}


def test_check_then_add_fails_this_test(config: AerospikeConfig) -> None:
    """The control: were the races too tame to catch it, the tests above would mean nothing."""
    assert winners(config, check_then_add, spread(deduper("map"), 2_000), parts=10) != {}
