"""Aerospike that stops, starts and freezes: every answer is right or an error, never wrong (R23)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from aerospike_samples import BOTH, DAY, NOW, batch, deduper, with_farms_known

from solus_aerospike.data_store import AerospikeDataStore
from solus_core.errors import StoreBatchError, StoreError
from solus_core.testing import Load, craft

if TYPE_CHECKING:
    from aerospike_double import Double

END = NOW + DAY
Opened = Callable[..., AerospikeDataStore]


def test_a_stopped_server(double: Double, opened: Opened) -> None:
    """R23: an error, in bounded time, never an answer, also where the client says that all is well; and it heals.

    With no node left, a batch "succeeds" with records that nobody touched.
    """
    store = opened(attempts=2)
    of = with_farms_known(store, deduper())
    store.add(batch(of), NOW, END)
    new = craft(of, (21, (1, 2)), (22, (1, 2)))
    calls: list[Callable[[], object]] = [
        lambda: store.absent_one(of, 0, (1, 2, 3), NOW),
        lambda: store.add_one(of, 21, (1, 2), NOW, END),
        lambda: store.add_if_absent_one(of, 21, (1, 2), NOW, END),
        lambda: store.absent(batch(of), NOW),
        lambda: store.add(new, NOW, END),
        lambda: store.add_if_absent(new, NOW, END),
        lambda: store.stats(of, NOW),
    ]
    double.stop()
    try:
        seen, deadline = set[str](), time.monotonic() + 60
        # Connections refused at first; some seconds later the client has no node any more.
        while "no node can be reached" not in " ".join(seen):
            assert time.monotonic() < deadline, seen
            for call in calls:
                with pytest.raises((StoreError, StoreBatchError)) as caught:
                    call()
                assert not caught.value.in_doubt or "can't be told" not in caught.value.message
                assert caught.value.__cause__ is not None
                seen.add(caught.value.message)
    finally:
        double.start()
    assert "within the timeout" not in " ".join(seen), "nothing was waited for"
    deadline = time.monotonic() + 60
    while True:
        try:
            assert not store.absent(batch(of), NOW).any()
            break
        except StoreBatchError:
            assert time.monotonic() < deadline
    assert store.add_if_absent(new, NOW, END).all(), "something was applied by a server that was stopped"


@BOTH
def test_stopped_and_started_under_load(double: Double, opened: Opened, layout: str) -> None:
    """R2, R5, R23: what was added is there, and what was new was not said to be present without a doubt."""
    store = opened(timeout=1.0, attempts=2)
    of = with_farms_known(store, deduper(layout))
    with Load(store, of, NOW, END) as load:
        load.wait_for(100)
        double.stop()
        load.wait_for_error()
        double.start()
        load.wait_for(100)
    load.check()


def test_a_frozen_server(double: Double, opened: Opened) -> None:
    """R23: an error after ``timeout`` for each try, in doubt for a write; then the late writes do no harm."""
    store = opened(timeout=0.2, attempts=2)
    of = with_farms_known(store, deduper())
    double.freeze()
    begin = time.monotonic()
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)") as reading:
        store.absent_one(of, 5, (1, 2), NOW)
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)") as writing:
        store.add_if_absent_one(of, 5, (1, 2), NOW, END)
    assert time.monotonic() - begin < 20
    assert (reading.value.in_doubt, writing.value.in_doubt) == (False, True)
    double.thaw()
