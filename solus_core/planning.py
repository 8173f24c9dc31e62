"""How often a de-duper will be wrong, and which one is big enough: the arithmetic of sharded Bloom filters.

``N`` keys fall on ``S`` shards at random and set ``k`` of the ``b`` positions of theirs, drawn with replacement; a
probe draws likewise. The textbook ``(1 - e^(-kN/(Sb)))^k`` takes the mean number of keys in a shard for all shards
and is too low. Exact, with ``X`` the occupied positions of a shard: ``E[(X/b)^k]``, expanded in factorial moments::

    b^-k * sum_j S2(k,j) * (b)_j * sum_i (-1)^i C(j,i) * g(i),    g(i) = (1 - (1 - (1 - i/b)^k) / S)^N

``S2``: Stirling numbers of the second kind; ``(b)_j``: falling factorial; ``g(i)``: the probability that ``i`` given
positions of a shard are all free. The sums cancel, so they are computed with 150 decimal digits.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from math import comb, expm1, log1p
from typing import Final

from solus_core.errors import InvalidArgumentError
from solus_core.model import DeDuperConfig

MAX_KEYS: Final = 10**15
# A rate of 1e-75 (one key, the largest config) loses some 75 digits to cancellation.
_EXACT: Final = Context(prec=150, Emin=-(10**6), Emax=10**6)


def false_positive_rate(config: DeDuperConfig, keys: int) -> float:
    """The probability that an absent entity is called present while ``keys`` entities are alive. Exact."""
    return _moments(config, keys, lambda free, n: free**n)


def average_false_positive_rate(config: DeDuperConfig, keys: int) -> float:
    """The mean of the rate over the first ``keys`` events: what a filter that fills from empty really loses."""

    def mean(free: Decimal, n: int) -> Decimal:
        return Decimal(1) if free == 1 else (1 - free**n) / (1 - free) / n

    return _moments(config, keys, mean)


def textbook_false_positive_rate(config: DeDuperConfig, keys: int) -> float:
    """``(1 - e^(-kN/(Sb)))^k``: too low, because shards are not equally full. For comparison only."""
    check_keys(keys)
    load = config.hash_functions * keys / (config.shards * config.bits_per_shard)
    return (-expm1(-load)) ** config.hash_functions


def _moments(config: DeDuperConfig, keys: int, weigh: Callable[[Decimal, int], Decimal]) -> float:
    """The formula above, with ``weigh(1 - (1 - (1 - i/b)^k) / S, N)`` in the place of ``g(i)``."""
    check_keys(keys)
    if keys == 0:
        return 0.0
    k, bits = config.hash_functions, config.bits_per_shard
    with localcontext(_EXACT):
        g = [weigh(1 - (1 - (1 - Decimal(i) / bits) ** k) / config.shards, keys) for i in range(k + 1)]
        total, falling = Decimal(0), Decimal(1)
        for j in range(1, k + 1):
            falling *= bits - j + 1
            occupied = sum(((-1) ** i * comb(j, i) * g[i] for i in range(j + 1)), Decimal(0))
            total += _stirling(k, j) * falling * occupied
        return float(total / Decimal(bits) ** k)


@lru_cache
def _stirling(n: int, k: int) -> int:
    """The ways to part ``n`` things into ``k`` groups: Stirling numbers of the second kind, by their recurrence."""
    if n == k:
        return 1
    return 0 if k in (0, n + 1) else k * _stirling(n - 1, k) + _stirling(n - 1, k - 1)


def expected_losses(config: DeDuperConfig, keys: int) -> float:
    """How many of the first ``keys`` distinct events are expected to be taken for repeats, and so dropped."""
    return average_false_positive_rate(config, keys) * keys


def keys_alive(per_second: float, ttl_seconds: float) -> int:
    """Distinct keys alive at once when ``per_second`` new ones arrive and each lives ``ttl_seconds``."""
    if not (per_second > 0 and ttl_seconds > 0):
        raise InvalidArgumentError(
            f"keys arrive at {per_second} a second and live {ttl_seconds} seconds: both must be above 0"
        )
    if not per_second * ttl_seconds <= MAX_KEYS:
        raise InvalidArgumentError(
            f"keys arrive at {per_second} a second and live {ttl_seconds} seconds: "
            "the number of keys alive is above 10**15"
        )
    return max(1, round(per_second * ttl_seconds))


def fill(config: DeDuperConfig, keys: int) -> float:
    """The share of positions that are expected to be set while ``keys`` entities are alive."""
    check_keys(keys)
    one = -expm1(config.hash_functions * log1p(-1 / config.bits_per_shard)) / config.shards
    return -expm1(keys * log1p(-one))


def estimated_keys(config: DeDuperConfig, share: float) -> float:
    """The number of keys that a share of set positions speaks for: the inverse of :func:`fill`.

    ``share`` from 0 up to, not including, 1. Source: Swamidass and Baldi, "Mathematical correction for fingerprint
    similarity measures", 2007, for one filter; the shards only change the probability of a position.
    """
    if not 0 <= share < 1:
        raise InvalidArgumentError(f"a share of set positions is {share}, allowed is from 0 up to, not including, 1")
    one = -expm1(config.hash_functions * log1p(-1 / config.bits_per_shard)) / config.shards
    return log1p(-share) / log1p(-one)


def check_rate(rate: float) -> float:
    """``rate`` if it lies in (0, 1), else an error that says what was probably meant (5 -> 0.05)."""
    if type(rate) not in (int, float):
        raise TypeError(f"a false-positive rate must be a float, not {type(rate).__name__}")
    if 0 < rate < 1:
        return float(rate)
    meant = ""
    if 1 <= rate < 100:
        meant = f": was {rate / 100:g} meant, which is {rate:g}%?"
    elif rate >= 100:
        meant = ": were keys and rate swapped?"
    shown = "huge" if type(rate) is int and abs(rate) > 10**300 else f"{rate:g}"  # a larger int is no float
    raise InvalidArgumentError(f"the false-positive rate is {shown}, allowed is above 0 and below 1{meant}")


def check_keys(keys: int, least: int = 0) -> None:
    """Refuse a number of keys that is no int, below ``least`` or above ``MAX_KEYS``."""
    if type(keys) is not int:
        raise TypeError(f"the number of keys must be an int, not {type(keys).__name__}")
    if not least <= keys <= MAX_KEYS:
        raise InvalidArgumentError(f"the number of keys is {keys}, allowed are {least} to 10**15")
