"""Sizing: exact false-positive rates, checked by a second method and by simulation; what is refused."""

from __future__ import annotations

from fractions import Fraction
from math import exp, isclose, lgamma, log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solus_core import DeDuperConfig, SolusError
from solus_core.hashing import MurmurDoubleHasher
from solus_core.planning import (
    average_false_positive_rate,
    check_rate,
    estimated_keys,
    expected_losses,
    false_positive_rate,
    fill,
    keys_alive,
    textbook_false_positive_rate,
)

HEADLINE: Any = SimpleNamespace(hash_functions=7, bits_per_shard=5_000, shards=200_000)


def occupancy(balls: int, bins: int) -> list[float]:
    """The distribution of the number of occupied bins, ball by ball: shares no formula with the module."""
    chances = [1.0] + [0.0] * bins
    for _ in range(balls):
        chances = [
            chances[x] * (x / bins) + (chances[x - 1] * ((bins - x + 1) / bins) if x else 0.0) for x in range(bins + 1)
        ]
    return chances


def by_occupancy(config: Any, keys: int) -> float:
    """The rate from the binomial number of keys in a shard and the distribution of what they occupy."""
    k, bits, total = config.hash_functions, config.bits_per_shard, 0.0
    for n in range(keys + 1):
        ways = lgamma(keys + 1) - lgamma(n + 1) - lgamma(keys - n + 1)
        log_chance = ways + n * log(1 / config.shards) + (keys - n) * log(1 - 1 / config.shards)
        if log_chance > -60:
            total += exp(log_chance) * sum(p * (x / bits) ** k for x, p in enumerate(occupancy(k * n, bits)))
    return total


@pytest.mark.parametrize("functions", [1, 2, 7])
@pytest.mark.parametrize(("bits", "shards", "keys"), [(5, 2, 3), (12, 3, 10), (30, 4, 9), (20, 2, 1)])
def test_the_exact_rate_equals_the_occupancy_method(functions: int, bits: int, shards: int, keys: int) -> None:
    config: Any = SimpleNamespace(hash_functions=functions, bits_per_shard=bits, shards=shards)
    assert isclose(false_positive_rate(config, keys), by_occupancy(config, keys), rel_tol=1e-11)


def one_key(config: DeDuperConfig) -> Fraction:
    """E[(X/b)^k] / S for one key, in fractions."""
    k, bits = config.hash_functions, config.bits_per_shard
    chances = {0: Fraction(1)}
    for _ in range(k):
        after: dict[int, Fraction] = {}
        for x, p in chances.items():
            after[x] = after.get(x, Fraction(0)) + p * Fraction(x, bits)
            after[x + 1] = after.get(x + 1, Fraction(0)) + p * Fraction(bits - x, bits)
        chances = after
    return sum((p * Fraction(x, bits) ** k for x, p in chances.items()), Fraction(0)) / config.shards


@pytest.mark.parametrize(
    "config",
    [
        DeDuperConfig(),
        DeDuperConfig(hash_functions=13, bits_per_shard=30_000, shards=150_000_000),
        DeDuperConfig(hash_functions=10, bits_per_shard=1_024, shards=7_654_321),
    ],
)
def test_right_to_1e_13_at_one_key(config: DeDuperConfig) -> None:
    assert isclose(false_positive_rate(config, 1), float(one_key(config)), rel_tol=1e-13)
    assert average_false_positive_rate(config, 1) == 0.0, "the first event can't be wrong"


def test_the_headline_configuration() -> None:
    assert f"{false_positive_rate(HEADLINE, 100_000_000):.4%}" == "0.8345%"
    assert f"{textbook_false_positive_rate(HEADLINE, 100_000_000):.4%}" == "0.8194%"


@settings(max_examples=30, deadline=None)
@given(keys=st.integers(1, 400))
def test_the_average_is_the_mean_of_the_rates(keys: int) -> None:
    config: Any = SimpleNamespace(hash_functions=7, bits_per_shard=50, shards=9)
    rates = [false_positive_rate(config, n) for n in range(keys)]
    assert isclose(average_false_positive_rate(config, keys), sum(rates) / keys, rel_tol=1e-9, abs_tol=1e-300)
    assert isclose(expected_losses(config, keys), sum(rates), rel_tol=1e-9, abs_tol=1e-300)


@settings(max_examples=50, deadline=None)
@given(
    functions=st.integers(7, 13),
    bits=st.integers(1_000, 30_000),
    shards=st.integers(1_000_000, 150_000_000),
    keys=st.integers(0, 10**11),
)
def test_rates_are_ordered(functions: int, bits: int, shards: int, keys: int) -> None:
    config = DeDuperConfig(hash_functions=functions, bits_per_shard=bits, shards=shards)
    exact = false_positive_rate(config, keys)
    assert 0 <= average_false_positive_rate(config, keys) <= exact <= 1
    if exact < 0.1:
        # Uneven shards only add, as long as the rate curves upwards in the load: not when most is wrong anyway.
        assert textbook_false_positive_rate(config, keys) <= exact * (1 + 1e-9)
    assert false_positive_rate(config, keys + keys // 2 + 1) >= exact


def test_a_simulation_with_the_real_hasher_agrees() -> None:
    """One filter of 300 small shards, 12,000 keys, 400,000 probes: the count within 5 standard deviations."""
    config: Any = SimpleNamespace(hash_functions=7, bits_per_shard=400, shards=300)
    keys, probes = 12_000, 400_000
    hasher = MurmurDoubleHasher()
    table = np.zeros((config.shards, config.bits_per_shard), np.bool_)
    shards, positions = hasher.probes([b"key-%d" % i for i in range(keys)], config)
    table[shards[:, None], positions] = True
    shards, positions = hasher.probes([b"probe-%d" % i for i in range(probes)], config)
    found = int(table[shards[:, None], positions].all(axis=1).sum())
    expected = probes * false_positive_rate(config, keys)
    textbook = probes * textbook_false_positive_rate(config, keys)
    # One table is one draw of its loads: their spread, measured over many tables, is about 2.3% of the count.
    spread = (expected + (0.023 * expected) ** 2) ** 0.5
    assert abs(found - expected) < 5 * spread, (found, expected)
    assert expected - textbook > 5 * spread, "else this test could not tell the two apart"
    assert abs(float(table.mean()) - fill(config, keys)) < 0.005


@given(share=st.floats(0, 0.99))
def test_estimated_keys_inverts_fill(share: float) -> None:
    config = DeDuperConfig()
    keys = estimated_keys(config, share)
    assert abs(fill(config, round(keys)) - share) < 1e-6


@pytest.mark.parametrize(
    ("rate", "meant"),
    [
        (5, "was 0.05 meant, which is 5%"),
        (1, "was 0.01 meant"),
        (0, "above 0 and below 1"),
        (-0.1, "above 0"),
        (1e8, "were keys and rate swapped"),
        (float("nan"), "nan, allowed"),
        (float("inf"), "swapped"),
        (10**400, "swapped"),
    ],
)
def test_row_8_rates_outside_0_and_1_are_refused(rate: float, meant: str) -> None:
    with pytest.raises(SolusError) as caught:
        check_rate(rate)
    assert meant in str(caught.value)


@pytest.mark.parametrize("rate", [1e-300, 0.5, 0.999])
def test_rates_between_0_and_1_are_taken(rate: float) -> None:
    assert check_rate(rate) == rate


@pytest.mark.parametrize("rate", ["0.1", True, None])
def test_rates_are_numbers(rate: Any) -> None:
    with pytest.raises(TypeError, match=type(rate).__name__):
        check_rate(rate)


@pytest.mark.parametrize(
    ("keys", "error"), [(-1, SolusError), (10**16, SolusError), (0.5, TypeError), (True, TypeError)]
)
def test_numbers_of_keys_that_make_no_sense(keys: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="number of keys"):
        false_positive_rate(DeDuperConfig(), keys)


def test_keys_alive_is_rate_times_ttl() -> None:
    assert keys_alive(2_000, 864_000) == 1_728_000_000
    assert keys_alive(0.1, 1) == 1
    for bad in ((0, 1), (1, -1), (float("nan"), 1)):
        with pytest.raises(SolusError, match="above 0"):
            keys_alive(*bad)
    for huge in ((float("inf"), 1), (1e308, 1e308), (1e10, 1e10)):
        with pytest.raises(SolusError, match=r"above 10\*\*15"):
            keys_alive(*huge)
