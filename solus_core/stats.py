"""What a de-duper's data say about its use: how full it is, how many keys are alive, how often it is wrong."""

from __future__ import annotations

from math import exp, expm1, inf, log1p, sqrt
from typing import Final, final

from attrs import field, frozen

from solus_core.model import DeDuper, DeDuperConfig
from solus_core.planning import MAX_KEYS, estimated_keys, false_positive_rate
from solus_core.stores import StoreStats

SHARES: Final = (10, 50, 90, 100)
"""Per cent of live positions of which :attr:`DeDuperStats.expired_by` tells when they will have expired."""


@final
@frozen(kw_only=True)
class DeDuperStats:
    """The use of one de-duper at ``now`` (epoch ms). Make one with :meth:`of`.

    ``fill``: share of positions that are set, 0 to 1. ``estimated_keys``: distinct entities alive, and
    ``standard_error`` of that number; the truth lies within two of them 95 times in 100. ``false_positive_rate``: at
    the estimate; ``planned_false_positive_rate``: at ``deduper.planned_keys``, None where nobody planned.
    ``past_plan``: there are more keys than planned, by more than three standard errors. ``expired_by``: for 10, 50, 90
    and 100 per cent of the live positions, the time (epoch ms) after which so many will have expired if nothing is
    added; from the store's sample, so the last one can be early in large stores; empty if there is none. ``store``:
    what the store said.

    A store that has looked at nothing, or finds every position set, leaves ``standard_error`` infinite or as large
    as the estimate.
    """

    deduper: DeDuper
    store: StoreStats = field(repr=False)
    now: int
    fill: float
    estimated_keys: int
    standard_error: float
    false_positive_rate: float
    planned_false_positive_rate: float | None
    past_plan: bool
    expired_by: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, deduper: DeDuper, store: StoreStats, now: int) -> DeDuperStats:
        """The figures for ``store``, which was counted at ``now``."""
        config, planned = deduper.config, min(deduper.planned_keys, MAX_KEYS)
        # One position less than all: a full filter speaks for infinitely many keys.
        share = min(store.live, store.seen - 0.5) / store.seen if store.seen > 0 else 0.0
        keys = estimated_keys(config, share)
        error = _standard_error(config, store, keys) if store.seen > 0 else inf
        return cls(
            deduper=deduper,
            store=store,
            now=now,
            fill=store.live / store.seen if store.seen > 0 else 0.0,
            estimated_keys=round(keys),
            standard_error=error,
            false_positive_rate=false_positive_rate(config, round(keys)),
            planned_false_positive_rate=false_positive_rate(config, planned) if planned else None,
            past_plan=0 < planned < keys - 3 * error,
            expired_by=_quantiles(store.expiries),
        )


def _standard_error(config: DeDuperConfig, store: StoreStats, keys: float) -> float:
    """Standard deviation of the estimate, in keys.

    As for linear counting (Whang, Vander-Zanden, Taylor: "A linear-time probabilistic counting algorithm for database
    applications", 1990, theorem 3), but the ``k`` positions of a key are in one shard, which counts where a shard has
    few keys. Of a shard of ``b`` positions with Poisson many keys, ``load`` on average, the free ones have the mean
    ``b e1`` and the variance ``b e1 + b (b-1) e2 - (b e1)^2``, ``e1`` and ``e2`` the probabilities that one and that
    two given positions are free. The number of all keys is no chance: the part that it explains is subtracted, the
    rest is ``(b e1)^2 noise``. Where only some shards were seen, the number of keys in them is binomial.
    """
    k, bits, part = config.hash_functions, config.bits_per_shard, store.seen / store.total
    load = keys / config.shards
    one, two = exp(k * log1p(-1 / bits)), exp(k * log1p(-2 / bits))  # a key leaves it free, leaves both free
    u, w = load * (1 - one), load * (1 - 2 * one + two)
    noise = (expm1(u) - expm1(w)) / bits + (expm1(w) - w) + load * (two - one * one)
    counting = config.shards / (1 - one) * sqrt(max(noise, 0.0) * bits / store.seen)
    # At least one key: to have found none in a sample does not say that there is none.
    sampling = sqrt(max(keys * part, 1.0) * max(1 - part, 0.0)) / part
    return sqrt(counting**2 + sampling**2)


def _quantiles(expiries: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    ordered, n = sorted(expiries), len(expiries)
    return tuple((share, ordered[-(-share * n // 100) - 1]) for share in SHARES) if n else ()
