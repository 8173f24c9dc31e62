"""The de-duper that a command works with: as it is registered, or registered now."""

from __future__ import annotations

from typing import final

from attrs import evolve, frozen

from solus_core.cli.durations import format_duration
from solus_core.cli.failures import EXIT_USAGE, CommandError
from solus_core.engine import SolusEngine
from solus_core.errors import DeDuperNotFoundError
from solus_core.model import DEFAULT_EXPIRY_SECONDS, DeDuper, DeDuperConfig
from solus_core.planning import false_positive_rate
from solus_core.sizing import smallest


@final
@frozen
class Expected:
    """``keys`` alive at once, of which new ones may be taken for repeats at ``rate``."""

    keys: int
    rate: float


def registered(engine: SolusEngine, name: str, ttl: int | None, expected: Expected | None) -> DeDuper:
    """The de-duper as it is, or registered now, large enough for ``expected`` and for as long as the TTL (ms) needs.

    Raises ``CommandError`` for one that is inactive, keeps nothing for so long, or is too small.
    """
    try:
        found = engine.get_deduper(name)
    except DeDuperNotFoundError:
        seconds = max(DEFAULT_EXPIRY_SECONDS, -(-(ttl or 0) // 1000))
        if expected is None:
            return engine.register(name, DeDuperConfig(expiry_seconds=seconds))
        config = evolve(smallest(expected.keys, expected.rate), expiry_seconds=seconds)
        return engine.register(name, config, planned_keys=expected.keys)
    if not found.active:
        raise CommandError(f"de-duper {name!r} was unregistered: register it again or use another", EXIT_USAGE)
    expiry = found.config.expiry_seconds * 1000
    if (ttl or 0) > expiry:
        raise CommandError(
            f"--ttl {format_duration(ttl or 0)} is longer than de-duper {name!r} keeps anything, "
            f"{format_duration(expiry)}: use a shorter TTL or another --deduper",
            EXIT_USAGE,
        )
    if expected is not None:
        rate = false_positive_rate(found.config, expected.keys)
        if rate > expected.rate:
            raise CommandError(
                f"de-duper {name!r} is registered and too small: with {expected.keys:,} keys its false-positive rate "
                f"is {rate:.2g}, above --rate {expected.rate:g}; expect less, or use another --deduper",
                EXIT_USAGE,
            )
    # So that it is registered for this store too, whose layout and farm may be others.
    return engine.register(name, found.config)
