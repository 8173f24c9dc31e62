"""R25: ``handle.unique`` yields first-seen items, lazily, and loses none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solus_core import ErrorCode, SolusEngine, SolusError
from solus_core.errors import BatchError, InvalidArgumentError, StoreBatchError
from solus_core.handle import DeDuperHandle
from solus_core.model import Atomicity

DAY = 86_400_000


@pytest.fixture
def handle(engine: SolusEngine) -> DeDuperHandle:
    engine.register("d")
    return engine.deduper("d")


def test_first_seen_items_in_order(handle: DeDuperHandle) -> None:
    events = [{"id": i, "n": n} for n, i in enumerate("abacbda")]
    for size in (1, 2, 3, 100):
        stream = handle.unique(events, key=lambda e: f"{size}-{e['id']}", ttl=DAY, batch_size=size)
        assert [event["n"] for event in stream] == [0, 1, 3, 5], size
    assert list(handle.unique(["x", "y", "x"], ttl=DAY)) == ["x", "y"]
    assert list(handle.unique(["x", "y", "z"], ttl=DAY)) == ["z"], "seen in an earlier stream"


@settings(max_examples=50, deadline=None)
@given(items=st.lists(st.integers(0, 30)), size=st.integers(1, 7), mark_first=st.booleans())
def test_equals_a_set(items: list[int], size: int, mark_first: bool) -> None:
    # The toy has no false positives at so few keys; each example has keys of its own.
    handle, run = SHARED[0], next(RUNS)
    stream = handle.unique(items, key=lambda i: f"{run}-{i}", ttl=DAY, batch_size=size, mark_first=mark_first)
    assert list(stream) == list(dict.fromkeys(items))


def test_r5_a_store_that_can_not_claim_does_not_mark_first(
    handle: DeDuperHandle, toy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy.store, "atomicity", Atomicity.NONE)
    with pytest.raises(InvalidArgumentError, match="mark_first is True, and this store promises atomicity NONE"):
        handle.unique(["x"], ttl=DAY, mark_first=True)
    assert list(handle.unique(["x"], ttl=DAY)) == ["x"]


RUNS = count()
SHARED: list[DeDuperHandle] = []


@pytest.fixture(autouse=True)
def _shared(handle: DeDuperHandle) -> Iterator[None]:
    """Hypothesis runs many examples in one test: they share its handle."""
    SHARED.append(handle)
    yield
    SHARED.pop()


def test_lazy_and_bounded(handle: DeDuperHandle) -> None:
    read: list[int] = []

    def source() -> Iterator[int]:
        for i in range(10**9):
            read.append(i)
            yield i

    stream = handle.unique(source(), ttl=DAY, batch_size=10)
    assert read == [], "nothing is read before it is asked for"
    assert [next(stream) for _ in range(15)] == list(range(15))
    assert len(read) == 20, "a batch ahead at most"


def test_r25_an_item_is_marked_only_when_the_consumer_came_back(handle: DeDuperHandle) -> None:
    stream = handle.unique("abcd", ttl=DAY, batch_size=10)
    assert [next(stream), next(stream)] == ["a", "b"]
    assert handle.check_absence_many(["a", "b"]) == {"a": True, "b": True}
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert handle.check_absence_many(list("abcd")) == {"a": False, "b": True, "c": True, "d": True}
    assert list(handle.unique("abcd", ttl=DAY)) == ["b", "c", "d"], "b was in hand: it comes again"


def test_r25_a_consumer_that_fails_loses_nothing(handle: DeDuperHandle) -> None:
    out: list[str] = []

    def consume(fail_at: str) -> None:
        for item in handle.unique("abcdefg", ttl=DAY, batch_size=3):
            if item == fail_at:
                raise RuntimeError
            out.append(item)

    for fail_at in "beg":
        with pytest.raises(RuntimeError):
            consume(fail_at)
    consume("")
    assert sorted(out) == list("abcdefg")


def test_a_stream_that_the_garbage_collector_ends_in_another_call(
    handle: DeDuperHandle, toy: Any, engine: SolusEngine
) -> None:
    """The thread may hold a lock of the store there: it would wait for itself."""

    def drop(items: str) -> None:
        stream = handle.unique(items, ttl=DAY)
        assert [next(stream), next(stream)] == list(items[:2])
        cycle: list[object] = [stream]
        cycle.append(cycle)

    def collect(call: str) -> None:
        toy.store.fail = lambda call: None
        gc.collect()

    drop("abc")
    gc.collect()
    assert handle.check_absence_many(["a", "b"]) == {"a": False, "b": True}, "nobody was at work: it was closed"
    drop("uvw")
    toy.store.calls.clear()
    toy.store.fail = collect
    handle.add("x", DAY)
    assert toy.store.calls == ["add"]
    assert list(handle.unique("uvw", ttl=DAY)) == ["u", "v", "w"], "as after a crash"


def test_a_stream_that_is_read_by_another_call(handle: DeDuperHandle) -> None:
    """Its items are marked, as its consumer came back for more."""
    stream = handle.unique(["a", "b"], ttl=DAY, key=lambda item: f"seen {item}")
    assert handle.add_if_absent_many(stream, DAY) == {"a": True, "b": True}
    assert handle.check_absence_many(["seen a", "seen b"]) == {"seen a": False, "seen b": False}


def test_r25_marking_first_claims_a_batch_and_loses_it_in_a_crash(handle: DeDuperHandle) -> None:
    stream = handle.unique("abc", ttl=DAY, mark_first=True)
    assert next(stream) == "a"
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert list(handle.unique("abc", ttl=DAY)) == [], "as its documentation says"


def test_marking_first_has_one_winner_among_streams(handle: DeDuperHandle) -> None:
    first = handle.unique("abcd", ttl=DAY, batch_size=2, mark_first=True)
    second = handle.unique("abcd", ttl=DAY, batch_size=2, mark_first=True)
    out = [next(first), *second, *first]
    assert sorted(out) == list("abcd")


def test_what_came_before_a_failing_source_or_key_is_yielded(handle: DeDuperHandle) -> None:
    def source() -> Iterator[str]:
        yield from "ab"
        raise OSError("cable")

    stream = handle.unique(source(), ttl=DAY)
    assert [next(stream), next(stream)] == ["a", "b"]
    with pytest.raises(OSError, match="cable"):
        next(stream)
    assert handle.check_absence("b") is False

    keyed = handle.unique([{"id": "x"}, {}], key=lambda event: event["id"], ttl=DAY)
    assert next(keyed) == {"id": "x"}
    with pytest.raises(KeyError):
        next(keyed)


def test_items_claimed_before_a_batch_failed_are_yielded(handle: DeDuperHandle, toy: Any) -> None:
    error = StoreBatchError(
        ErrorCode.INTERNAL_ERROR,
        "half",
        done=np.array([True, False]),
        answers=np.array([True, False]),
        doubtful=np.array([False, False]),
    )

    def fail(call: str) -> None:
        if call == "add_if_absent":
            raise error

    toy.store.fail = fail
    stream = handle.unique("ab", ttl=DAY, mark_first=True)
    assert next(stream) == "a"
    with pytest.raises(BatchError) as caught:
        next(stream)
    assert caught.value.unprocessed == ("b",)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch_size": 0}, SolusError),
        ({"batch_size": 1.5}, TypeError),
        ({"ttl": 0}, SolusError),
        ({"ttl": 20 * DAY}, SolusError),
        ({"ttl": None}, TypeError),
    ],
)
def test_arguments_are_checked_at_once(
    handle: DeDuperHandle, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        handle.unique([], **{"ttl": DAY, **arguments})
