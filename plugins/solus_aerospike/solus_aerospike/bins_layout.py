"""Positions in the layout ``bins``, the Java library's: a bin for each position of each farm (see ``layout``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, final

import aerospike
from aerospike_helpers.expressions import GE, And, BinType, Cond, Eq, IntBin, Max, Not, Or, Unknown  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations.expression_operations import expression_write  # type: ignore[import-untyped]  # it has no types

from solus_aerospike.config import BIN_BYTES
from solus_aerospike.layout import v0_bin, v1_bin, v2_bin
from solus_aerospike.retry import OP_NOT_APPLICABLE
from solus_aerospike.templates import Compiled, Slot, Template


@final
class BinsLayout:
    """What is asked of records, and written to them on behalf of ``farm``."""

    PRESENT: Final = OP_NOT_APPLICABLE
    """The code that says that an entity was present. The filter has another question to answer, see ``Place``."""

    __slots__ = ("_absent", "_farm", "_guarded", "_raised")

    def __init__(self, farm: str) -> None:
        self._farm = farm
        self._absent: dict[tuple[int, int], Template] = {}
        self._guarded: dict[tuple[int, int], Template] = {}
        self._raised = Template(_raised(Slot(0), _slots(1, _NAMES)))

    def absent(self, farms: tuple[str, ...], positions: Collection[int], now: int) -> Compiled:
        """Is one of the distinct positions unset or expired in all farms (R1)?"""
        shape = len(positions), len(farms)
        template = self._absent.get(shape)
        if template is None:
            template = self._absent[shape] = Template(_is_absent(*shape))
        return template(now, None, *_all_names(farms, positions))

    def writes(self, positions: Collection[int], expires_at: int) -> list[dict[str, Any]]:
        """Operations that set each of the distinct positions to ``max(stored, expires_at)`` (R4)."""
        written = []
        for position in positions:
            names = _names(self._farm, position)
            written.append(expression_write(names[0], self._raised(expires_at, *names)))
        return written

    def guarded(
        self, farms: tuple[str, ...], positions: Collection[int], now: int, expires_at: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The same operations if the entity is absent, and what they need in the policy. ``farms``: ours first."""
        shape = len(positions), len(farms)
        template = self._guarded.get(shape)
        if template is None:
            template = self._guarded[shape] = Template(_raised_if_absent(*shape))
        names = _all_names(farms, positions)
        written = self.writes(positions, expires_at)
        # All or nothing: with the first operation that fails, the server drops what came before it.
        written[0] = expression_write(names[0], template(now, expires_at, *names))
        return written, {}

    def live(self, farms: tuple[str, ...], bins: Mapping[str, Any], now: int) -> Iterable[int]:
        """When each live position of a whole record expires."""
        expiries: dict[int, int] = {}
        for position in {_position(name) for name in bins}:
            if position is None:
                continue
            for farm in farms:
                stored = (bins.get(name) for name in _names(farm, position))
                expiry = next((value for value in stored if type(value) is int), 0)
                expiries[position] = max(expiry, expiries.get(position, expiry))
        return (expiry for expiry in expiries.values() if expiry >= now)


_NAMES: Final = 3
"""Bins that a farm's expiry of one position can be in; the first that is there counts."""


def _names(farm: str, position: int) -> tuple[str, str, str]:
    v0, v1 = v0_bin(position), v1_bin(farm, position)
    # A bin of a longer name can't exist, and the server refuses to look for it.
    return v2_bin(farm, position), v1 if len(v1) <= BIN_BYTES else v0, v0


def _position(name: str) -> int | None:
    """The position that a bin is about, of whatever farm."""
    _, separator, digits = name.rpartition("#b")
    if not separator or digits.startswith("_"):
        _, separator, digits = name.removesuffix("_ttl").rpartition("b_")
    try:
        return int(digits) if separator else None
    except ValueError:
        return None


def _all_names(farms: tuple[str, ...], positions: Collection[int]) -> list[str]:
    return [name for position in positions for farm in farms for name in _names(farm, position)]


def _slots(first: int, count: int) -> Iterator[Slot]:
    return map(Slot, range(first, first + count))


def _is_absent(positions: int, farms: int) -> Any:
    now, names = Slot(0), _slots(2, positions * farms * _NAMES)
    live = []
    for _ in range(positions):
        in_farms = [GE(_stored(names), now) for _ in range(farms)]
        live.append(Or(*in_farms) if farms > 1 else in_farms[0])
    return Not(And(*live) if positions > 1 else live[0])


def _stored(names: Iterator[Slot]) -> Any:
    """The stored expiry of a farm's position, or 0. What is no number is none: the question would have no answer."""
    found: list[Any] = []
    for name in islice(names, _NAMES):
        found += [Eq(BinType(name), aerospike.AS_BYTES_INTEGER), IntBin(name)]
    return Cond(*found, 0)


def _raised(expires_at: Slot, names: Iterator[Slot]) -> Any:
    return Max(_stored(names), expires_at)


def _raised_if_absent(positions: int, farms: int) -> Any:
    """The new expiry of the first position; without a value, so that the operation fails, if the entity is present."""
    return Cond(_is_absent(positions, farms), _raised(Slot(1), _slots(2, _NAMES)), Unknown())
