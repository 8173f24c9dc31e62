"""What goes wrong between us and Aerospike: repeated where that is safe and can help, and never guessed at (R23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aerospike import exception
from aerospike_samples import BOTH, DAY, NOW, batch, deduper, with_farms_known

from solus_aerospike.batches import RECORDS
from solus_aerospike.data_store import AerospikeDataStore
from solus_core.errors import ErrorCode, InvalidConfigError, StoreBatchError, StoreError
from solus_core.model import DeDuperConfig
from solus_core.testing import craft
from solus_core.testing.lab import spread

if TYPE_CHECKING:
    from aerospike_double import Double

END = NOW + DAY
Opened = Callable[..., AerospikeDataStore]


@BOTH
@pytest.mark.parametrize("code", [9, 11, 14, 18])
def test_single_calls_that_are_repeated(double: Double, opened: Opened, layout: str, code: int) -> None:
    store = opened()
    of = with_farms_known(store, deduper(layout))
    for call, expected in (
        (lambda: store.add_one(of, 5, (1, 2), NOW, END), None),
        (lambda: store.absent_one(of, 5, (1, 2), NOW), False),
        (lambda: store.add_if_absent_one(of, 6, (1, 2), NOW, END), True),
        (lambda: store.absent_one(of, 6, (1, 2), NOW), False),
    ):
        rule = double.hooks.fail(code, "operate", times=2)
        double.hooks.reset_counts()
        assert call() == expected
        assert (double.hooks.round_trips, rule.hits) == (3, 2)
    double.hooks.fail(14, "operate", times=None)
    double.hooks.reset_counts()
    with pytest.raises(StoreError, match=r"RecordBusy \(14\).*transaction-pending-limit") as hot:
        store.add_if_absent_one(of, 7, (1, 2), NOW, END)
    assert not hot.value.in_doubt
    assert double.hooks.round_trips == 5


@BOTH
@pytest.mark.parametrize("code", [1, 4, 8, 12, 13, 16, 20, 21, 22])
def test_single_calls_that_are_not_repeated(double: Double, opened: Opened, layout: str, code: int) -> None:
    store = opened()
    of = with_farms_known(store, deduper(layout))
    for call in (
        lambda: store.add_one(of, 5, (1, 2), NOW, END),
        lambda: store.absent_one(of, 5, (1, 2), NOW),
        lambda: store.add_if_absent_one(of, 5, (1, 2), NOW, END),
    ):
        double.hooks.fail(code, "operate")
        double.hooks.reset_counts()
        with pytest.raises(StoreError, match=rf"of?|to '{of.name}'.*\({code}\)") as caught:
            call()
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert not caught.value.in_doubt
        assert double.hooks.round_trips == 1
    assert store.absent_one(of, 5, (1, 2), NOW), "a write that was refused was done"


@BOTH
@pytest.mark.parametrize("silent", [True, False], ids=["no answer", "cut off"])
@pytest.mark.parametrize("applied", [True, False])
def test_single_writes_in_doubt(double: Double, opened: Opened, layout: str, silent: bool, applied: bool) -> None:
    """R23: adds are repeated silently; an add_if_absent that was applied unheard of is an error, not False."""
    store = opened(timeout=0.3)
    of = with_farms_known(store, deduper(layout))
    rule = double.hooks.lose("operate", applied=applied, silent=silent)
    store.add_one(of, 5, (1, 2), NOW, END)
    assert not store.absent_one(of, 5, (1, 2), NOW)
    assert rule.hits == 1

    rule = double.hooks.lose("operate", applied=applied, silent=silent)
    if applied:
        with pytest.raises(StoreError, match=r"tried again after .* can't be told") as caught:
            store.add_if_absent_one(of, 6, (1, 2), NOW, END)
        assert caught.value.in_doubt
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert isinstance(caught.value.__cause__, exception.AerospikeError)
    else:
        assert store.add_if_absent_one(of, 6, (1, 2), NOW, END)
    assert rule.hits == 1
    assert not store.absent_one(of, 6, (1, 2), NOW)

    # Nothing is answered from here on, so that a short timeout fails the same way.
    store = opened(timeout=0.05)
    with_farms_known(store, of)
    double.hooks.lose("operate", applied=applied, silent=silent, times=None)
    for call in (
        lambda: store.add_one(of, 7, (1, 2), NOW, END),
        lambda: store.add_if_absent_one(of, 8, (1, 2), NOW, END),
    ):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.in_doubt
    with pytest.raises(StoreError) as caught:
        store.absent_one(of, 7, (1, 2), NOW)
    assert not caught.value.in_doubt


@BOTH
@pytest.mark.parametrize("code", [9, 11, 14, 18])
def test_rows_that_are_repeated(double: Double, opened: Opened, layout: str, code: int) -> None:
    """R8: only those that failed are sent again, and the answers are those of a batch that went well."""
    store = opened()
    of = with_farms_known(store, deduper(layout))
    expected = [True] * 6 + [False]
    for call, answers in (
        (lambda: store.absent(batch(of), NOW), [True] * 7),
        (lambda: store.add_if_absent(batch(of), NOW, END), expected),
        (lambda: store.add(batch(of), NOW, END), None),
        (lambda: store.absent(batch(of), NOW), [False] * 7),
    ):
        double.hooks.fail(code, "row", times=2, skip=2)
        double.hooks.reset_counts()
        answered = call()
        assert answers is None or (answered is not None and answered.tolist() == answers)
        assert (double.hooks.counts["batch"], double.hooks.counts["row"]) == (2, 6 + 2)


@BOTH
def test_rows_that_fail(double: Double, opened: Opened, layout: str) -> None:
    """R8, R23: what was done stays done and is told; what was not is told too."""
    store = opened()
    of = with_farms_known(store, deduper(layout))
    for verb, times in (("add_if_absent", (NOW, END)), ("add", (NOW, END)), ("absent", (NOW,))):
        double.hooks.fail(13, "row", times=2, skip=1)
        with pytest.raises(StoreBatchError, match=r"RecordTooBig \(13\)") as caught:
            getattr(store, verb)(batch(of), *times)
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert isinstance(caught.value.__cause__, exception.RecordTooBig)
        assert caught.value.done.tolist() == [True, False, False, True, True, True, True]
        assert not caught.value.doubtful.any()
        assert caught.value.answers.tolist() == [verb == "add_if_absent" and i in (0, 3, 4, 5) for i in range(7)]
    double.hooks.fail(14, "row", times=None)
    double.hooks.reset_counts()
    with pytest.raises(StoreBatchError, match=r"RecordBusy \(14\)") as hot:
        store.add_if_absent(batch(of), NOW, END)
    assert double.hooks.counts["batch"] == 5
    assert not hot.value.done.any()
    assert not hot.value.in_doubt


def test_a_ttl_that_others_keep_changing(double: Double, opened: Opened) -> None:
    """R8, R23: a write that never meets the TTL that it expects is an error: not done, not present, not forgotten."""
    store = opened()
    of = with_farms_known(store, deduper("bins"))
    row = (5, (1, 2))
    double.hooks.fail(27, "operate", "row", times=None)
    calls: list[Callable[[], object]] = [
        lambda: store.add_one(of, *row, NOW, END),
        lambda: store.add_if_absent_one(of, *row, NOW, END),
        lambda: store.add(craft(of, row), NOW, END),
        lambda: store.add_if_absent(craft(of, row), NOW, END),
    ]
    for call in calls:
        with pytest.raises(
            (StoreError, StoreBatchError), match=r"others changed the record's TTL .* 20 times"
        ) as caught:
            call()
        assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
        assert not caught.value.in_doubt
        if isinstance(caught.value, StoreBatchError):
            assert not caught.value.done.any()
    double.hooks.clear()
    assert store.add_if_absent_one(of, *row, NOW, END)


@BOTH
@pytest.mark.parametrize("silent", [True, False], ids=["no answer", "cut off"])
@pytest.mark.parametrize("applied", [True, False])
def test_batches_in_doubt(double: Double, opened: Opened, layout: str, silent: bool, applied: bool) -> None:
    """R8, R23: a call of which no answer came raises nothing in the client; each row is looked at."""
    store = opened(timeout=0.3)
    of = with_farms_known(store, deduper(layout))
    known = craft(of, (2, (1, 2, 3)))
    double.hooks.lose("batch", applied=applied, silent=silent)
    store.add(known, NOW, END)
    assert not store.absent(known, NOW).any()

    double.hooks.lose("batch", applied=applied, silent=silent)
    with pytest.raises(StoreBatchError, match=r"tried again after .* can't be told") as caught:
        store.add_if_absent(batch(of), NOW, END)
    assert caught.value.in_doubt
    # Row 2 was present before, which can't be told either; row 6 asks for the entity of row 0.
    unclear = [True] * 7 if applied else [i == 2 for i in range(7)]
    assert caught.value.doubtful.tolist() == unclear
    assert caught.value.done.tolist() == [not one for one in unclear]
    assert caught.value.answers.tolist() == [not one and i < 6 for i, one in enumerate(unclear)]
    assert not store.absent(batch(of), NOW).any()

    # Nothing is answered from here on, so that a short timeout fails the same way.
    store = opened(timeout=0.05)
    with_farms_known(store, of)
    double.hooks.lose("batch", applied=applied, silent=silent, times=None)
    more = craft(of, (11, (1, 2)), (12, (1, 2)))
    for call in (lambda: store.add(more, NOW, END), lambda: store.add_if_absent(more, NOW, END)):
        with pytest.raises(StoreBatchError) as caught:
            call()
        assert caught.value.doubtful.all()
    with pytest.raises(StoreBatchError) as caught:
        store.absent(more, NOW)
    assert not caught.value.in_doubt


@BOTH
def test_the_second_call_of_a_batch_fails(double: Double, opened: Opened, layout: str) -> None:
    """R8: the first thousand stay done; what comes after the failure isn't begun, and isn't in doubt."""
    store = opened(attempts=1)
    of = with_farms_known(store, deduper(layout))
    probes = spread(of, 2 * RECORDS + 10)
    double.hooks.fail(18, "row", times=None, skip=RECORDS)
    double.hooks.reset_counts()
    with pytest.raises(StoreBatchError, match=r"DeviceOverload \(18\)") as caught:
        store.add_if_absent(probes, NOW, END)
    expected = np.arange(len(probes)) < RECORDS
    assert np.array_equal(caught.value.done, expected)
    assert np.array_equal(caught.value.answers, expected)
    assert not caught.value.in_doubt
    assert double.hooks.counts["batch"] == 2
    double.hooks.clear()
    assert np.array_equal(store.add_if_absent(probes, NOW, END), ~expected)


@pytest.mark.thorough
@BOTH
def test_twenty_thousand_entities(
    opened: Opened, aerospike_hosts: list[tuple[str, int]], aerospike_set: str, layout: str
) -> None:
    """Row 4, R6: clients have refused batches of over 4,096 records, or mixed up their answers."""
    n = 20_000 if layout == "map" else 4_200
    hosts = ",".join(f"{host}:{port}" for host, port in aerospike_hosts)
    store, of = opened(hosts=hosts, timeout=15), deduper(layout)
    probes = spread(of, n)
    known = np.random.default_rng(2).random(n) < 0.3
    store.add(probes.rows(np.flatnonzero(known)), NOW, END)
    assert np.array_equal(store.add_if_absent(probes, NOW, END), ~known)
    assert not store.absent(probes, END).any()


def test_a_record_with_all_its_bins(
    opened: Opened,
    aerospike_client: Any,
    aerospike_hosts: list[tuple[str, int]],
    aerospike_namespace: str,
    aerospike_set: str,
) -> None:
    """R8: the limit is named, nothing is lost, and nothing is half written."""
    hosts = ",".join(f"{host}:{port}" for host, port in aerospike_hosts)
    store, of = opened(hosts=hosts, namespace=aerospike_namespace, timeout=15), deduper("bins", bits_per_shard=30_000)
    key = (aerospike_namespace, aerospike_set, f"5|faults|{of.name}")
    names = [f"dc1#b{i}" for i in range(29_990)] + [f"dc2#b{i}" for i in range(32_766 - 29_990)]
    for first in range(0, len(names), 2_000):
        aerospike_client.put(
            key, dict.fromkeys(names[first : first + 2_000], END), policy={"ttl": 864_000, "total_timeout": 60_000}
        )
    store.add_one(of, 5, (1, 29_990), NOW, END)
    for call in (
        lambda: store.add_one(of, 5, (2, 29_991, 29_992), NOW, END + 1),
        lambda: store.add_if_absent_one(of, 5, (2, 29_991, 29_992), NOW, END + 1),
        lambda: store.add(craft(of, (5, (2, 29_991, 29_992))), NOW, END + 1),
        lambda: store.add_if_absent(craft(of, (5, (2, 29_991, 29_992))), NOW, END + 1),
    ):
        with pytest.raises((StoreError, StoreBatchError), match=r"InvalidRequest \(4\).*32,767 bins"):
            call()
    assert store.absent_one(of, 5, (29_991,), NOW)
    assert store.absent_one(of, 5, (2,), END + 1), "half of a write was applied"
    assert not store.absent_one(of, 5, (1, 2, 29_989, 29_990), END)


@BOTH
def test_a_record_at_its_size_limit(double: Double, opened: Opened, layout: str) -> None:
    """R8: refused and told; what was in it stays. Before anything is registered, a shard that can't fit is refused."""
    namespace, store = double.namespaces["test"], opened(layout=layout)
    of = with_farms_known(store, deduper(layout, bits_per_shard=30_000))  # while there is room
    before, namespace.max_record_size = namespace.max_record_size, 20_000
    try:
        new = opened(layout=layout)
        with pytest.raises(InvalidConfigError, match=r"bits_per_shard is 2000, .* max-record-size of 20,000: raise it"):
            new.check_config(DeDuperConfig(bits_per_shard=2_000))
        new.check_config(DeDuperConfig(bits_per_shard=1_000))
        rows = [craft(of, (5, range(first, first + 7))) for first in range(0, 30_000, 7)]
        done = 0

        def fill() -> None:
            nonlocal done
            for row in rows:
                store.add(row, NOW, END)
                done += 1

        with pytest.raises(StoreBatchError, match=r"RecordTooBig \(13\).*max-record-size"):
            fill()
        assert done > 100
        with pytest.raises(StoreError, match=r"RecordTooBig \(13\).*max-record-size"):
            store.add_if_absent_one(of, 5, range(20_000, 20_013), NOW, END)
        assert store.absent(rows[done], NOW).all()
        assert not any(store.absent(row, END).any() for row in rows[:done])
    finally:
        namespace.max_record_size = before


@BOTH
@pytest.mark.parametrize("applied", [True, False])
def test_rows_that_time_out_in_the_server(double: Double, opened: Opened, layout: str, applied: bool) -> None:
    """R5, R8, R23: it may have written them and waited for another node; to the client they are not in doubt."""
    from aerospike_double import Rule  # noqa: PLC0415  # its folder is on the path only now

    store = opened(attempts=2)
    of = with_farms_known(store, deduper(layout))
    double.hooks.add(Rule(frozenset({"row"}), code=9, applied=applied))
    two = craft(of, (1, (1, 2)), (2, (1, 2)))
    if applied:
        with pytest.raises(StoreBatchError, match="can't be told") as caught:
            store.add_if_absent(two, NOW, END)
        assert (caught.value.done.tolist(), caught.value.answers.tolist()) == ([False, True], [False, True])
        assert caught.value.doubtful.tolist() == [True, False]
    else:
        assert store.add_if_absent(two, NOW, END).all()
    double.hooks.add(Rule(frozenset({"row"}), code=9, applied=applied, times=None))
    more = craft(of, (3, (1, 2)), (4, (1, 2)))
    calls: list[tuple[Callable[[], object], bool]] = [
        (lambda: store.absent(more, NOW), False),
        (lambda: store.add_if_absent(more, NOW, END), True),
        (lambda: store.add(more, NOW, END), True),
    ]
    for call, doubtful in calls:
        with pytest.raises(StoreBatchError) as caught:
            call()
        assert not caught.value.done.any()
        assert caught.value.doubtful.tolist() == [doubtful, doubtful]
