"""Positions in the layout ``map``: key-ordered maps for each farm, from position to expiry (see ``segments``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, final

import aerospike
from aerospike_helpers.expressions import (  # type: ignore[import-untyped]  # it has no types
    LT,
    Add,
    BinExists,
    BinType,
    Cond,
    Eq,
    MapBin,
    MapGetByKeyList,
    MapGetByValueRange,
    MapPutItems,
    MapSize,
)
from aerospike_helpers.operations.expression_operations import (  # type: ignore[import-untyped]  # it has no types
    expression_write,
)

from solus_aerospike.retry import FILTERED_OUT
from solus_aerospike.segments import map_bin, segments
from solus_aerospike.templates import Compiled, Slot, Template

_MAP: Final = aerospike.MAP_RETURN_ORDERED_MAP


@final
class MapLayout:
    """What is asked of records, and written to them on behalf of ``farm``, where shards have so many positions."""

    PRESENT: Final = FILTERED_OUT
    """The code that says that an entity was present."""

    __slots__ = ("_absent", "_farm", "_raised", "_segments")

    def __init__(self, farm: str, bits_per_shard: int) -> None:
        self._farm = farm
        self._segments = segments(bits_per_shard)
        self._absent: dict[tuple[int, int], Template] = {}
        self._raised = Template(_raised())

    def absent(self, farms: tuple[str, ...], positions: Collection[int], now: int) -> Compiled:
        """Is one of the distinct positions unset or expired in all farms (R1)?"""
        parts = self._parts(positions)
        shape = len(parts), len(farms)
        template = self._absent.get(shape)
        if template is None:
            template = self._absent[shape] = Template(_absent(*shape))
        values: list[Any] = [now, len(positions)]
        for some in parts:
            values.append(some)
            values += [map_bin(farm, some[0], self._segments) for farm in farms]
        return template(*values)

    def writes(self, positions: Collection[int], expires_at: int) -> list[dict[str, Any]]:
        """Operations that set each of the distinct positions to ``max(stored, expires_at)`` (R4)."""
        written = []
        for some in self._parts(positions):
            name = map_bin(self._farm, some[0], self._segments)
            items = aerospike.KeyOrderedDict(dict.fromkeys(some, expires_at))
            written.append(expression_write(name, self._raised(name, some, expires_at + 1, items)))
        return written

    def guarded(
        self, farms: tuple[str, ...], positions: Collection[int], now: int, expires_at: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The same operations if the entity is absent, and what they need in the policy."""
        return self.writes(positions, expires_at), {"expressions": self.absent(farms, positions, now)}

    def live(self, farms: tuple[str, ...], bins: Mapping[str, Any], now: int) -> Iterable[int]:
        """When each live position of a whole record expires."""
        expiries: dict[int, int] = {}
        for name in (map_bin(farm, number, self._segments) for farm in farms for number in range(self._segments)):
            positions = bins.get(name)
            if not isinstance(positions, Mapping):
                continue
            for position, expiry in positions.items():
                expiries[position] = max(expiry, expiries.get(position, expiry))
        return (expiry for expiry in expiries.values() if expiry >= now)

    def _parts(self, positions: Collection[int]) -> Collection[list[int]]:
        """The positions by bin."""
        if self._segments == 1:
            return ([*positions],)
        parts: dict[int, list[int]] = {}
        for position in positions:
            parts.setdefault(position % self._segments, []).append(position)
        return parts.values()


def _absent(parts: int, farms: int) -> Any:
    now, count, slots = Slot(0), Slot(1), map(Slot, range(2, 2 + parts * (1 + farms)))
    live = [_live(now, slots, farms) for _ in range(parts)]
    return LT(Add(*live) if parts > 1 else live[0], count)


def _live(now: Slot, slots: Iterator[Slot], farms: int) -> Any:
    """How many of a part's positions are live in some farm."""
    positions, own = next(slots), next(slots)
    if farms == 1:
        return Cond(_is_map(own), _since(own, positions, now, aerospike.MAP_RETURN_COUNT), 0)
    live = Cond(_is_map(own), _since(own, positions, now), {})
    for _ in range(farms - 1):
        other = next(slots)
        live = MapPutItems(None, None, Cond(_is_map(other), _since(other, positions, now), {}), live)
    return MapSize(None, live)


def _is_map(name: Slot) -> Any:
    """Of anything else in a bin nothing can be told, and a filter that can't tell says what it says of the present."""
    return Eq(BinType(name), aerospike.AS_BYTES_MAP)


def _since(name: Slot, positions: Slot, since: Slot, answer: int = _MAP) -> Any:
    """Of the map in a bin, those of the positions that expire at ``since`` or later."""
    found = MapGetByKeyList(None, _MAP, positions, MapBin(name))
    return MapGetByValueRange(None, answer, since, aerospike.CDTInfinite(), found)


def _raised() -> Any:
    """The map in a bin with new items in it, but for those whose stored expiry is later."""
    name, positions, later, items = map(Slot, range(4))
    # The small maps are merged first: the large one is then written once.
    kept = MapPutItems(None, None, _since(name, positions, later), items)
    # What is no map is not ours: it stays, and the write fails.
    return Cond(BinExists(name), MapPutItems(None, None, kept, MapBin(name)), items)
