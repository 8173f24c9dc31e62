"""Where one de-duper's positions are, and how they are written."""

from __future__ import annotations

from typing import Any, final

import aerospike
from aerospike_helpers.expressions import (  # type: ignore[import-untyped]  # it has no types
    GE,
    LE,
    TTL,
    And,
    Not,
)
from attrs import define, field

from solus_aerospike.bins_layout import BinsLayout
from solus_aerospike.context import AerospikeContext, writing
from solus_aerospike.layout import RECORD_TTL, RecordKeys, data_set
from solus_aerospike.map_layout import MapLayout
from solus_aerospike.retry import FILTERED_OUT, NOT_FOUND
from solus_core.model import DeDuper

Key = tuple[str, str, str]


@final
@define(eq=False)
class Place:
    """Where one de-duper's positions are and how they are written.

    ``options``: of writes, beside what each call has in its policy. All who write maps go by the same metadata: one set
    of options is enough, which gives the record our TTL. But Java services have an expiry of their own, and theirs may
    be longer. So in the layout ``bins`` there are two, each for one kind of record only: the first for those with a TTL
    up to ours, or without a record, the second for those with a longer one, which it leaves as it is (R2). ``turn``:
    the one that fitted last; ``other_turn``: the codes that say that the other one fits.

    ``looking``, ``adding``: what is done, for messages.
    """

    deduper: DeDuper
    layout: MapLayout | BinsLayout
    namespace: str
    set: str
    keys: RecordKeys
    options: tuple[dict[str, Any], ...]
    turn: int = field(default=0, init=False)
    other_turn: frozenset[int] = field(init=False)
    looking: str = field(init=False)
    adding: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.other_turn = frozenset((FILTERED_OUT, NOT_FOUND) if len(self.options) > 1 else ())
        self.looking = f"looking into {self.deduper.name!r}"
        self.adding = f"adding to {self.deduper.name!r}"

    def key(self, shard: int) -> Key:
        return self.namespace, self.set, self.keys(shard)


@final
class Places:
    """Makes the places of one client id."""

    __slots__ = ("_bins", "_client_id", "_context", "_maps")

    def __init__(self, context: AerospikeContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._bins = BinsLayout(context.config.farm)
        self._maps: dict[int, MapLayout] = {}

    def in_maps(self, deduper: DeDuper) -> Place:
        """For the layout ``map``."""
        bits = deduper.config.bits_per_shard
        if bits not in self._maps:
            self._maps[bits] = MapLayout(self._context.config.farm, bits)
        return self._place(deduper, self._maps[bits], writing(_ttl(deduper)))

    def in_bins(self, deduper: DeDuper) -> Place:
        """For the layout ``bins``."""
        ttl = _ttl(deduper)
        # A record that never expires has the TTL -1. The filter is not asked about a record that isn't there.
        shorter = And(GE(TTL(), 0), LE(TTL(), ttl))
        ours = writing(ttl, expressions=shorter.compile())
        theirs = writing(
            aerospike.TTL_DONT_UPDATE, expressions=Not(shorter).compile(), exists=aerospike.POLICY_EXISTS_UPDATE
        )
        return self._place(deduper, self._bins, ours, theirs)

    def _place(self, deduper: DeDuper, layout: MapLayout | BinsLayout, *options: dict[str, Any]) -> Place:
        config, level = self._context.config, deduper.config.level
        keys = RecordKeys(self._client_id, deduper.name)
        return Place(deduper, layout, config.namespace, data_set(config, level), keys, options)


def _ttl(deduper: DeDuper) -> int:
    return min(deduper.config.expiry_seconds, RECORD_TTL)
