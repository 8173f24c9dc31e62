"""R5 to R9, R20, R22 to R24: the data verbs, opening, closing and failing, on the toy backend."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from solus_core import Atomicity, DeDuperConfig, ErrorCode, SolusEngine, SolusError
from solus_core.errors import (
    BatchError,
    DeDuperNotFoundError,
    StoreBatchError,
    StoreError,
)
from solus_core.plugins import PluginManager
from solus_core.testing.clock import FakeClock
from solus_core.testing.lab import race, race_processes

DAY = 86_400_000


def fail_on(call: str, error: Exception) -> Any:
    def fail(called: str) -> None:
        if called == call:
            raise error

    return fail


# Verbs


def test_the_verbs_by_name_and_by_handle(engine: SolusEngine) -> None:
    engine.register("d")
    handle = engine.deduper("d")
    assert engine.check_absence("d", "a") is True
    assert engine.add_if_absent("d", "a", DAY) is True
    assert handle.add_if_absent("a", timedelta(days=1)) is False
    assert handle.check_absence("a") is False
    engine.add("d", "b", DAY)
    assert engine.check_absence_many("d", ["c", "a", "b", "c"]) == {"c": True, "a": False, "b": False}
    engine.add_many("d", ["c", "d"], DAY)
    assert handle.add_if_absent_many(["d", "e"], DAY) == {"d": False, "e": True}


def test_r1_r4_expiry_by_the_clock(engine: SolusEngine, clock: FakeClock) -> None:
    engine.register("d")
    engine.add("d", "a", 1_000)
    clock.advance(1_000)
    assert engine.check_absence("d", "a") is False, "expires_at == now: still set"
    clock.advance(1)
    assert engine.check_absence("d", "a") is True


def test_r6_batches_answer_distinct_entities_in_first_seen_order(engine: SolusEngine) -> None:
    engine.register("d")
    answers = engine.add_if_absent_many("d", ["b", "a", "b", b"a", 1, "1"], DAY)
    assert list(answers.items()) == [("b", True), ("a", True), (1, True)]


def test_r7_an_empty_batch_does_no_io(engine: SolusEngine, toy: Any) -> None:
    toy.store.calls.clear()
    assert engine.check_absence_many("unknown", []) == {}
    assert engine.add_if_absent_many("unknown", iter(()), DAY) == {}
    engine.add_many("unknown", [], DAY)
    assert toy.store.calls == []


@pytest.mark.parametrize("verb", ["add", "add_if_absent", "add_many", "add_if_absent_many"])
def test_r9_ttls_are_checked_before_any_write(engine: SolusEngine, toy: Any, verb: str) -> None:
    engine.register("d", DeDuperConfig(expiry_seconds=10))
    engine.get_cached_deduper("d")
    toy.store.calls.clear()
    entity: Any = ["a"] if verb.endswith("many") else "a"
    for bad, error in ((0, SolusError), (10_001, SolusError), (None, TypeError), (1.0, TypeError), (True, TypeError)):
        with pytest.raises(error, match="ttl"):
            getattr(engine, verb)("d", entity, bad)
    assert toy.store.calls == []
    getattr(engine, verb)("d", entity, 10_000)


def test_r11_now_is_taken_once_per_call(plugins: PluginManager) -> None:
    asked: list[int] = []

    def jumping() -> int:
        asked.append(1_000_000 * len(asked))
        return asked[-1]

    with SolusEngine.open("toy://h", client_id="c", clock=jumping, plugins=plugins) as engine:
        engine.register("d")
        handle = engine.deduper("d")
        handle.check_absence("warm")
        for call in (
            lambda: handle.add_if_absent("a", 1),
            lambda: handle.check_absence("a"),
            lambda: handle.add("a", 1),
            lambda: handle.add_if_absent_many(["a", "b"], 1),
        ):
            before = len(asked)
            call()
            assert len(asked) == before + 1


@pytest.mark.parametrize("verb", ["check_absence", "add", "add_if_absent"])
def test_r20_wrong_entities_are_type_errors(engine: SolusEngine, verb: str) -> None:
    engine.register("d")
    arguments: tuple[Any, ...] = (1.5,) if verb == "check_absence" else (1.5, DAY)
    with pytest.raises(TypeError, match="not float"):
        getattr(engine, verb)("d", *arguments)


def test_r20_forms_of_one_entity(engine: SolusEngine) -> None:
    engine.register("d")
    uuid = UUID(int=7)
    for first, same in ((1, "1"), (uuid, str(uuid)), ("é", "é".encode()), ("", b"")):
        assert engine.add_if_absent("d", first, DAY) is True
        assert engine.add_if_absent("d", same, DAY) is False


# Opening and closing


@pytest.mark.parametrize("level", [Atomicity.NONE, Atomicity.PROCESS])
def test_r5_a_required_atomicity_that_is_promised(plugins: PluginManager, level: Atomicity) -> None:
    with SolusEngine.open("toy://h", client_id="c", require=level, plugins=plugins) as engine:
        assert engine.atomicity is Atomicity.PROCESS


def test_r5_a_required_atomicity_that_is_not_promised(plugins: PluginManager, toy: Any) -> None:
    with pytest.raises(SolusError, match="CLUSTER is required, this store promises PROCESS") as caught:
        SolusEngine.open("toy://h", client_id="c", require=Atomicity.CLUSTER, plugins=plugins)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert toy.store.calls == ["close", "close"], "what was opened is closed: the store and its context"


def test_a_context_of_the_callers_is_never_closed(plugins: PluginManager, toys: Any) -> None:
    class Borrowed(toys.Store):  # type: ignore[misc]  # a fixture's class
        pass

    context = Borrowed()
    with SolusEngine.open(context, client_id="c", plugins=plugins) as engine:
        engine.register("d")
    # The toy is context and stores in one: two closes are its data and meta-store, a third would be the context.
    assert context.calls.count("close") == 2


def test_the_meta_store_may_be_elsewhere(plugins: PluginManager, toys: Any, toy: Any) -> None:
    elsewhere = toys.Store()
    with SolusEngine.open("toy://h", client_id="c", meta=elsewhere, plugins=plugins) as engine:
        engine.register("d")
        engine.add("d", "a", DAY)
    assert list(elsewhere.records) == ["d"]
    assert toy.store.records == {}
    assert toy.store.cells
    assert elsewhere.cells == {}


def test_a_closed_engine_answers_nothing(plugins: PluginManager) -> None:
    engine = SolusEngine.open("toy://h", client_id="c", plugins=plugins)
    engine.register("d")
    engine.close()
    engine.close()
    for call in (lambda: engine.register("d"), lambda: engine.check_absence("d", "a"), engine.get_active_dedupers):
        with pytest.raises(SolusError, match="closed"):
            call()


def test_what_failed_to_close_is_closed_by_the_next_close(plugins: PluginManager, toy: Any) -> None:
    engine = SolusEngine.open("toy://h", client_id="c", plugins=plugins)
    toy.store.fail = fail_on("close", OSError("disk full"))
    with pytest.raises(OSError, match="disk full"):
        engine.close()
    toy.store.fail = lambda call: None
    toy.store.calls.clear()
    engine.close()
    assert toy.store.calls == ["close", "close", "close"], "all three are tried again"
    engine.close()
    assert len(toy.store.calls) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"require": 2}, "Atomicity"), ({"cache": None}, "CacheSettings"), ({"clock": lambda: 1.5}, "epoch milliseconds")],
)
def test_arguments_of_another_type_are_refused(plugins: PluginManager, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        SolusEngine.open("toy://h", client_id="c", plugins=plugins, **arguments)


# Failures


def test_r8_a_batch_that_fails_part_of_the_way_names_what_was_not_processed(engine: SolusEngine, toy: Any) -> None:
    engine.register("d")
    cause = OSError("cable")
    error = StoreBatchError(
        ErrorCode.HBASE_ERROR,
        "region gone",
        done=np.array([True, True, False, False]),
        answers=np.array([True, False, False, False]),
        doubtful=np.array([False, False, True, False]),
    )
    error.__cause__ = cause
    toy.store.fail = fail_on("add_if_absent", error)
    with pytest.raises(BatchError) as caught:
        engine.add_if_absent_many("d", ["a", "b", "c", 4, "a"], DAY)
    assert caught.value.code is ErrorCode.HBASE_ERROR
    assert caught.value.unprocessed == ("c", 4)
    assert caught.value.doubtful == ("c",)
    assert caught.value.answers == {"a": True, "b": False}
    assert caught.value.in_doubt
    assert caught.value.__cause__ is cause
    assert "2 of 4 entities were not processed: 'c', 4" in str(caught.value)


@pytest.mark.parametrize("verb", ["check_absence_many", "add_many", "add_if_absent_many"])
@pytest.mark.parametrize("in_doubt", [True, False])
def test_r8_a_batch_that_fails_as_a_whole(engine: SolusEngine, toy: Any, verb: str, in_doubt: bool) -> None:
    engine.register("d")
    error = StoreError(ErrorCode.AEROSPIKE_ERROR, "timeout", in_doubt=in_doubt)
    call = {"check_absence_many": "absent", "add_many": "add", "add_if_absent_many": "add_if_absent"}[verb]
    toy.store.fail = fail_on(call, error)
    arguments: tuple[Any, ...] = (["a", "b"],) if verb == "check_absence_many" else (["a", "b"], DAY)
    with pytest.raises(BatchError) as caught:
        getattr(engine, verb)("d", *arguments)
    assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
    assert caught.value.unprocessed == ("a", "b")
    assert caught.value.doubtful == (("a", "b") if in_doubt else ())


@pytest.mark.parametrize(("verb", "call"), [("check_absence", "absent"), ("add", "add"), ("add_if_absent",) * 2])
def test_r22_r23_a_failure_is_an_error_and_never_an_answer(engine: SolusEngine, toy: Any, verb: str, call: str) -> None:
    engine.register("d")
    arguments: tuple[Any, ...] = ("a",) if verb == "check_absence" else ("a", DAY)
    own = StoreError(ErrorCode.HBASE_ERROR, "gone")
    toy.store.fail = fail_on(call, own)
    with pytest.raises(StoreError) as caught:
        getattr(engine, verb)("d", *arguments)
    assert caught.value is own, "a SolusError crosses as it is"
    foreign = RuntimeError("bug")
    toy.store.fail = fail_on(call, foreign)
    for form in (verb, f"{verb}_many"):
        batch: tuple[Any, ...] = (["a"], *arguments[1:]) if form.endswith("many") else arguments
        with pytest.raises(SolusError) as caught_too:
            getattr(engine, form)("d", *batch)
        assert caught_too.value.code is ErrorCode.INTERNAL_ERROR
        assert caught_too.value.__cause__ is foreign
        assert caught_too.value.in_doubt is (verb != "check_absence"), "nobody knows how far the write got"
        if isinstance(caught_too.value, BatchError):
            assert caught_too.value.unprocessed == ("a",)
            assert caught_too.value.doubtful == (("a",) if caught_too.value.in_doubt else ())


def test_ready_is_who_would_take_an_add(engine: SolusEngine, toy: Any) -> None:
    """R14, R25: for what writes first and marks afterwards."""
    with pytest.raises(DeDuperNotFoundError):
        engine.deduper("d").check_ready()
    engine.register("d")
    engine.deduper("d").check_ready()
    assert engine.check_absence("d", "")
    for cause in (StoreError(ErrorCode.AEROSPIKE_ERROR, "not yet"), RuntimeError("bug")):
        toy.store.fail = fail_on("add", cause)
        with pytest.raises(SolusError) as caught:
            engine.deduper("d").check_ready()
        assert cause in (caught.value, caught.value.__cause__)
    engine.unregister("d")
    with pytest.raises(DeDuperNotFoundError, match="inactive"):
        engine.deduper("d").check_ready()


def test_a_config_that_the_store_refuses_is_not_registered(engine: SolusEngine, toy: Any) -> None:
    toy.store.fail = fail_on("check_config", StoreError(ErrorCode.INVALID_CONFIG, "too big"))
    with pytest.raises(SolusError, match="too big"):
        engine.register("d")
    assert toy.store.records == {}


def test_register_takes_a_config_only(engine: SolusEngine) -> None:
    with pytest.raises(TypeError, match="DeDuperConfig, not dict"):
        engine.register("d", {"shards": 5})  # type: ignore[arg-type]  # that is the point


def test_r24_threads_share_an_engine(engine: SolusEngine) -> None:
    engine.register("d")

    def work(thread: int) -> None:
        for i in range(50):
            engine.register("d")
            engine.add("d", f"{thread}-{i}", DAY)
            assert engine.check_absence("d", f"{thread}-{i}") is False

    race(*(partial(work, n) for n in range(8)))


def test_r24_a_forked_child_goes_on(engine: SolusEngine) -> None:
    engine.register("d")
    engine.add("d", "a", DAY)

    def in_child(_: object) -> None:
        assert engine.check_absence("d", "a") is False
        assert engine.add_if_absent("d", "b", DAY)

    race_processes([in_child])
