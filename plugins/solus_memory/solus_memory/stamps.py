"""Expiry times in 32 bits: how epoch milliseconds become stamps and back.

A stamp counts units since a base; a position is set while ``base + stamp * unit >= now`` (R1). Both directions
round up, so that a stamp never ends early and ends less than one unit late; with a unit of 1 ms it is exact.
Stamp 0 means unset. The base lies well before ``now``, so that a clock that steps back finds room below; times
before the base are clamped up to stamp 1, which never shortens a mark.
"""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

MAX_STAMP: Final = 2**32 - 1


@final
@frozen
class Scale:
    """``unit``: milliseconds a stamp counts. ``margin``: units that a fresh base lies before ``now``."""

    unit: int
    margin: int

    @classmethod
    def of(cls, expiry_seconds: int) -> Scale:
        """The finest scale on which twice the expiry fits.

        What is left beside one expiry is halved: one part for a clock that steps back, the other until the base
        has to move, so that the base moves at most twice in an expiry.
        """
        expiry = expiry_seconds * 1_000
        unit = max(1, -(-2 * expiry // MAX_STAMP))
        return cls(unit, (MAX_STAMP - -(-expiry // unit)) // 2)

    def base(self, now: int) -> int:
        """A fresh base, in epoch milliseconds."""
        return now - self.margin * self.unit

    def count(self, base: int, time: int) -> int:
        """``time`` in units since ``base``, rounded up; below 1 or above ``MAX_STAMP`` if it is out of range."""
        return -((base - time) // self.unit)
