"""Figures of a de-duper's use: against simulations, on the in-memory backend, and at the edges."""

from __future__ import annotations

import logging
from datetime import timedelta
from math import expm1, inf
from types import SimpleNamespace

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from solus_core import DeDuper, DeDuperConfig, SolusEngine
from solus_core.planning import estimated_keys, false_positive_rate
from solus_core.plugins import PluginManager
from solus_core.stats import DeDuperStats
from solus_core.stores import StoreStats
from solus_core.testing.clock import FakeClock

NOW = 1_700_000_000_000
CONFIG = DeDuperConfig()
TOTAL = CONFIG.shards * CONFIG.bits_per_shard


def small(functions: int, bits: int, shards: int) -> DeDuper:
    """A de-duper of fewer shards than a config allows, so that it can be simulated."""
    config = DeDuperConfig()
    for name, value in (("hash_functions", functions), ("bits_per_shard", bits), ("shards", shards)):
        object.__setattr__(config, name, value)
    return DeDuper(name="d", client_id="c", config=config)


def counted(deduper: DeDuper, keys: int, part: float, random: np.random.Generator) -> StoreStats:
    """What is counted in the first shards (they are all alike) after ``keys`` random keys."""
    config = deduper.config
    shards = random.integers(0, config.shards, (keys, 1))
    is_set = np.zeros((config.shards, config.bits_per_shard), np.bool_)
    is_set[shards, random.integers(0, config.bits_per_shard, (keys, config.hash_functions))] = True
    looked = int(config.shards * part)
    live = int(np.count_nonzero(is_set[:looked]))
    return StoreStats(live=live, seen=looked * config.bits_per_shard, total=is_set.size)


@pytest.mark.parametrize(
    ("functions", "shards", "keys", "part"),
    [
        (7, 2_000, 500, 1.0),  # hardly a shard has two keys: they collide with themselves
        (7, 200, 2_000, 1.0),
        (7, 200, 30_000, 1.0),  # half of the positions are set
        (13, 200, 15_000, 1.0),  # keys of many positions: their clumping shows
        (13, 400, 20_000, 0.25),
        (7, 2_000, 200, 0.5),
        (7, 40, 28_000, 0.5),  # so full that counting errs more than sampling
    ],
)
def test_the_error_is_as_large_as_it_says(functions: int, shards: int, keys: int, part: float) -> None:
    """300 simulations each: the estimate is not biased, and its errors have the deviation that is told."""
    deduper, random = small(functions, 1_000, shards), np.random.default_rng(3)
    errors = []
    for _ in range(300):
        stats = DeDuperStats.of(deduper, counted(deduper, keys, part, random), NOW)
        # As small as 0.5 keys: the whole number that is shown would round it away.
        errors.append((estimated_keys(deduper.config, stats.fill) - keys) / stats.standard_error)
        assert abs(stats.estimated_keys - keys) < 4.5 * stats.standard_error + 0.5
    assert abs(np.mean(errors)) < 0.2  # the mean of 300 deviates by 0.06
    assert 0.88 < np.std(errors) < 1.12  # by 0.04
    assert np.mean(np.abs(errors) < 2) > 0.91


@pytest.mark.parametrize(("keys", "positions"), [(10_000, 7_960), (100_000, 26_729), (1_000_000, 154_171)])
def test_published_values(keys: int, positions: int) -> None:
    """Whang et al., table II: the size of bitmap that counts so many keys with an error of 1%."""
    deduper = small(1, positions, 1)  # their bitmap
    live = round(positions * -expm1(-keys / positions))
    stats = DeDuperStats.of(deduper, StoreStats(live=live, seen=positions, total=positions), NOW)
    assert stats.standard_error / keys == pytest.approx(0.01, rel=2e-3)


def test_rates_at_the_estimate_and_at_the_plan() -> None:
    deduper = DeDuper(name="d", client_id="c", config=CONFIG, planned_keys=50_000_000)
    stats = DeDuperStats.of(deduper, StoreStats(live=TOTAL // 10, seen=TOTAL, total=TOTAL), NOW)
    assert stats.fill == 0.1
    assert 14_000_000 < stats.estimated_keys < 16_000_000
    assert stats.false_positive_rate == false_positive_rate(CONFIG, stats.estimated_keys)
    assert stats.planned_false_positive_rate == false_positive_rate(CONFIG, 50_000_000)
    assert not stats.past_plan
    assert DeDuperStats.of(evolve(deduper, planned_keys=0), stats.store, NOW).planned_false_positive_rate is None


@pytest.mark.parametrize(("errors", "past"), [(2.9, False), (3.1, True)])
def test_past_plan_is_told_from_chance(errors: float, past: bool) -> None:
    store = StoreStats(live=70_000, seen=TOTAL // 100, total=TOTAL)
    found = DeDuperStats.of(DeDuper(name="d", client_id="c", config=CONFIG), store, NOW)
    planned = round(found.estimated_keys - errors * found.standard_error)
    deduper = DeDuper(name="d", client_id="c", config=CONFIG, planned_keys=planned)
    assert DeDuperStats.of(deduper, store, NOW).past_plan is past


def test_expiries_by_share() -> None:
    def expired_by(*expiries: int) -> dict[int, int]:
        store = StoreStats(live=1, seen=1_000, total=TOTAL, expiries=expiries)
        return dict(DeDuperStats.of(DeDuper(name="d", client_id="c", config=CONFIG), store, NOW).expired_by)

    assert expired_by() == {}
    assert expired_by(7) == {10: 7, 50: 7, 90: 7, 100: 7}
    assert expired_by(*range(100, 0, -1)) == {10: 10, 50: 50, 90: 90, 100: 100}
    assert expired_by(*range(1, 12)) == {10: 2, 50: 6, 90: 10, 100: 11}


@settings(deadline=None)
@given(seen=st.integers(0, TOTAL), share=st.floats(0, 1), planned=st.integers(0, 10**17))
def test_any_counts_have_figures(seen: int, share: float, planned: int) -> None:
    store = StoreStats(live=int(seen * share), seen=seen, total=TOTAL)
    deduper = DeDuper(name="d", client_id="c", config=CONFIG, planned_keys=planned)
    stats = DeDuperStats.of(deduper, store, NOW)
    assert 0 <= stats.fill <= 1
    assert stats.estimated_keys >= 0
    assert 0 <= stats.false_positive_rate <= 1
    assert (stats.standard_error == inf) is (seen == 0)
    assert stats.standard_error >= 0
    if stats.past_plan:
        assert planned > 0
        assert seen > 0


def test_a_store_that_looked_at_all_and_found_nothing_is_sure() -> None:
    deduper = DeDuper(name="d", client_id="c", config=CONFIG)
    assert DeDuperStats.of(deduper, StoreStats(0, TOTAL, TOTAL), NOW).standard_error == 0
    sample = DeDuperStats.of(deduper, StoreStats(0, TOTAL // 1_000, TOTAL), NOW)
    assert (sample.estimated_keys, sample.fill) == (0, 0)
    assert sample.standard_error > 900, "a thousandth of the shards may miss a thousand keys"


@pytest.mark.needs_memory
def test_the_memory_backend_through_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """R1: within 4 errors of the number of keys alive, while they come and go; R14: also when unregistered."""
    clock = FakeClock()
    with SolusEngine.open("memory://", client_id="c", clock=clock) as engine:
        engine.register("d", planned_keys=25_000)
        assert engine.stats("d").estimated_keys == 0
        for hours in (1, 2, 4):
            engine.add_many("d", (f"{hours}-{i}" for i in range(10_000)), timedelta(hours=hours))
        start = clock()
        for minutes, alive in ((0, 30_000), (61, 20_000), (121, 10_000), (241, 0)):
            clock.now = start + minutes * 60_000
            stats = engine.stats("d")
            assert abs(stats.estimated_keys - alive) <= 4 * stats.standard_error + 0.5
            assert stats.standard_error < 5
            assert stats.past_plan is (alive == 30_000)
            assert stats.store.live == pytest.approx(alive * 7, rel=0.01)
            assert stats.fill == stats.store.live / 10**9
            assert len(stats.store.expiries) == min(1_000, stats.store.live)
            wanted = [start + 3_600_000 * hours for hours in (1, 2, 4) if start + 3_600_000 * hours >= clock()]
            assert set(stats.store.expiries) == set(wanted)
            if wanted:
                assert dict(stats.expired_by)[100] == wanted[-1]
                assert dict(stats.expired_by)[10] == wanted[0]
                assert dict(stats.expired_by)[50] == wanted[(len(wanted) - 1) // 2] or alive == 20_000
        engine.unregister("d")
        assert engine.stats("d").deduper.active is False
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    (warning,) = warnings
    assert warning.name == "solus_core.engine"
    assert "de-duper 'd' is past its plan: about 30" in warning.getMessage()
    assert "planned were 25000" in warning.getMessage()


def test_engine_passes_on_what_the_store_said(engine: SolusEngine, toys: SimpleNamespace) -> None:
    engine.register("d")
    assert engine.stats("d").standard_error == inf, "the toy store has looked at nothing"
    engine.add("d", "a", 1_000)
    stats = engine.stats("d")
    assert stats.store == StoreStats(7, 7, 10**9)
    assert stats.deduper == engine.get_deduper("d")


def test_opening_and_closing_are_logged_once(toys: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "solus_core"):
        plugins = PluginManager()
        plugins.register(toys.Plugin(), "toy")
        with SolusEngine.open("toy://u:secret@h/t", client_id="shop", plugins=plugins) as engine:
            pass
        engine.close()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "client shop opened a ToyStore, atomicity PROCESS"),
        ("DEBUG", "client shop closes its ToyStore"),
    ]
