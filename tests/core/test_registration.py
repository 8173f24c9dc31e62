"""R13 to R18: registering, finding and forgetting de-dupers, on the toy backend."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from solus_core import DeDuper, DeDuperConfig, ErrorCode, Level, SolusEngine, SolusError
from solus_core.cache import CacheSettings
from solus_core.errors import (
    ConfigMismatchError,
    DeDuperNotFoundError,
    StoreError,
)
from solus_core.plugins import PluginManager
from solus_core.testing.clock import FakeClock

DAY = 86_400_000


def test_r13_register_again_is_a_no_op(engine: SolusEngine, clock: FakeClock) -> None:
    first = engine.register("d", DeDuperConfig(shards=2_000_000))
    clock.advance(5)
    assert engine.register("d", DeDuperConfig(shards=2_000_000)) == first
    assert (first.layout, first.hasher, first.client_id) == ("toy", "murmur3-md5", "c")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hash_functions", 8),
        ("shards", 2_000_000),
        ("bits_per_shard", 2_000),
        ("level", Level.DC),
        ("expiry_seconds", 9),
    ],
)
def test_r13_any_different_field_is_a_mismatch(engine: SolusEngine, field: str, value: Any) -> None:
    engine.register("d")
    config = evolve(DeDuperConfig(), **{field: value})
    with pytest.raises(ConfigMismatchError) as caught:
        engine.register("d", config)
    assert caught.value.code is ErrorCode.DEDUPER_CONFIG_MISMATCH
    assert caught.value.differences == {field: (getattr(DeDuperConfig(), field), value)}
    assert f"{field}: registered {getattr(DeDuperConfig(), field)}, requested {value}" in str(caught.value)


def test_r13_the_loser_of_a_race_is_compared_with_the_winner(engine: SolusEngine, toy: Any) -> None:
    other = DeDuperConfig(shards=3_000_000)

    winner = DeDuper(name="d", client_id="c", config=other)

    def first(call: str) -> None:
        if call == "create" and not toy.store.records:
            toy.store.records["d"] = winner

    toy.store.fail = first
    with pytest.raises(ConfigMismatchError):
        engine.register("d")
    assert engine.register("d", other).config == other


def test_r14_unregister(engine: SolusEngine) -> None:
    engine.register("d")
    engine.add("d", "a", DAY)
    engine.unregister("d")
    for call in (
        lambda: engine.check_absence("d", "a"),
        lambda: engine.add("d", "a", DAY),
        lambda: engine.add_if_absent("d", "a", DAY),
        lambda: engine.check_absence_many("d", ["a"]),
        lambda: engine.add_many("d", ["a"], DAY),
        lambda: engine.add_if_absent_many("d", ["a"], DAY),
    ):
        with pytest.raises(DeDuperNotFoundError, match="inactive"):
            call()
    assert engine.get_deduper("d").active is False
    assert dict(engine.get_active_dedupers()) == {}
    with pytest.raises(ConfigMismatchError):
        engine.register("d", DeDuperConfig(shards=2_000_000))
    assert engine.register("d").active is True
    assert engine.check_absence("d", "a") is False, "its data stayed"


def test_r14_unknown_names(engine: SolusEngine) -> None:
    for call in (
        lambda: engine.check_absence("d", "a"),
        lambda: engine.unregister("d"),
        lambda: engine.get_deduper("d"),
        lambda: engine.get_cached_deduper("d"),
        lambda: engine.stats("d"),
    ):
        with pytest.raises(DeDuperNotFoundError, match="'d' is not registered"):
            call()


def test_r15_own_changes_are_seen_at_once_by_a_handle_in_use(engine: SolusEngine) -> None:
    handle = engine.deduper("d")
    for _ in range(2):
        with pytest.raises(DeDuperNotFoundError):
            handle.check_absence("a")
        engine.register("d")
        handle.check_absence("a")
        assert handle.add_if_absent("a", DAY) in (True, False)
        engine.unregister("d")
        with pytest.raises(DeDuperNotFoundError):
            handle.check_absence("a")
        with pytest.raises(DeDuperNotFoundError):
            handle.add_if_absent("b", DAY)


def test_r15_other_processes_changes_are_seen_after_the_refresh_time(
    plugins: PluginManager, toy: Any, clock: FakeClock
) -> None:
    settings = CacheSettings(refresh_seconds=10, expiry_seconds=10)
    with SolusEngine.open("toy://h", client_id="c", clock=clock, plugins=plugins, cache=settings) as engine:
        engine.register("d")
        handle = engine.deduper("d")
        handle.check_absence("a")
        toy.store.records["d"] = evolve(toy.store.records["d"], active=False)
        clock.advance(9_999)
        handle.check_absence("a")
        clock.advance(1)
        with pytest.raises(DeDuperNotFoundError):
            handle.check_absence("a")
        with pytest.raises(DeDuperNotFoundError):
            handle.add_if_absent("b", DAY)


def test_r16_what_reads_the_meta_store_and_what_the_cache(engine: SolusEngine, toy: Any) -> None:
    record = engine.register("d")
    engine.get_cached_deduper("d")
    toy.store.calls.clear()
    assert engine.get_cached_deduper("d") == record
    assert toy.store.calls == []
    assert engine.get_deduper("d") == record
    assert toy.store.calls == ["get"]
    assert engine.get_active_dedupers() == {"d": record}


@pytest.mark.parametrize("bad", ["", "a b", "x" * 101])
def test_r17_client_ids(plugins: PluginManager, bad: str) -> None:
    with pytest.raises(SolusError, match="client_id"):
        SolusEngine.open("toy://h", client_id=bad, plugins=plugins)


def test_r17_deduper_names(engine: SolusEngine) -> None:
    for call in (engine.register, engine.deduper, engine.get_deduper, engine.unregister, engine.get_cached_deduper):
        with pytest.raises(SolusError, match="not allowed"):
            call("a|b")
        with pytest.raises(TypeError):
            call(3)  # type: ignore[arg-type]  # that is the point


def test_r18_the_recorded_hasher_is_used_and_another_one_refused(plugins: PluginManager, clock: FakeClock) -> None:
    def opened(hasher: str | None) -> SolusEngine:
        return SolusEngine.open("toy://h", client_id="c", hasher=hasher, clock=clock, plugins=plugins)

    with opened("murmur3-double") as fast, opened("murmur3-md5") as java, opened(None) as any_hasher:
        assert fast.register("d").hasher == "murmur3-double"
        fast.add("d", "a", DAY)
        for call in (
            lambda: java.register("d"),
            lambda: java.check_absence("d", "a"),
            lambda: java.add_if_absent_many("d", ["a"], DAY),
        ):
            with pytest.raises(ConfigMismatchError, match="hasher: registered murmur3-double, requested murmur3-md5"):
                call()
        assert any_hasher.check_absence("d", "a") is False, "without a wish the recorded one is used"
        assert any_hasher.register("d").hasher == "murmur3-double"


def test_r18_a_recorded_hasher_that_is_not_installed_is_an_error(engine: SolusEngine, toy: Any) -> None:
    record = engine.register("d")
    toy.store.records["e"] = evolve(record, name="e", hasher="sha-lattice")
    with pytest.raises(SolusError, match="no hasher 'sha-lattice' is installed") as caught:
        engine.check_absence("e", "a")
    assert caught.value.code is ErrorCode.PLUGIN_ERROR


def test_r18_an_unknown_hasher_is_refused_at_open(plugins: PluginManager) -> None:
    with pytest.raises(SolusError, match="no hasher 'x' is installed"):
        SolusEngine.open("toy://h", client_id="c", hasher="x", plugins=plugins)


def test_r15_racing_own_changes_leave_the_cache_as_the_meta_store_is(engine: SolusEngine, toy: Any) -> None:
    engine.register("d")

    def unregister_meanwhile(call: str) -> None:
        if call == "create":
            toy.store.fail = lambda call: None
            engine.unregister("d")

    toy.store.fail = unregister_meanwhile
    handle = engine.deduper("d")
    engine.register("d")
    stored = toy.store.records["d"].active
    if stored:
        handle.check_absence("a")
    else:
        with pytest.raises(DeDuperNotFoundError):
            handle.check_absence("a")


@pytest.mark.parametrize("active", [True, False], ids=["register", "unregister"])
def test_r15_an_own_change_whose_answer_was_lost_is_seen(engine: SolusEngine, toy: Any, active: bool) -> None:
    """R14, R23: it is told as an error, and the next call sees what came of it."""
    engine.register("d")
    set_active = toy.store.set_active
    if active:
        engine.unregister("d")
        assert not engine.get_cached_deduper("d").active

    def apply_and_fail(name: str, active: bool, now: int) -> None:
        set_active(name, active, now)
        raise StoreError(ErrorCode.HBASE_ERROR, "no answer", in_doubt=True)

    toy.store.set_active = apply_and_fail
    handle = engine.deduper("d")
    with pytest.raises(StoreError, match="no answer"):
        engine.register("d") if active else engine.unregister("d")
    if active:
        assert handle.check_absence("a")
    else:
        with pytest.raises(DeDuperNotFoundError, match="inactive"):
            handle.check_absence("a")


def test_r15_an_unregister_after_the_record_was_read_is_not_forgotten(engine: SolusEngine, toy: Any) -> None:
    engine.register("d")
    create = toy.store.create

    def create_then_unregister(deduper: DeDuper) -> DeDuper:
        won: DeDuper = create(deduper)
        toy.store.create = create
        engine.unregister("d")
        return won

    toy.store.create = create_then_unregister
    engine.register("d")  # it was told "active" just before the other thread's unregister
    with pytest.raises(DeDuperNotFoundError):
        engine.check_absence("d", "a")
