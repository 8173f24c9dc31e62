"""Which farms share a de-duper's data, and from when on one that joins may add.

Beside the data is a record ``farms|<client_id>|<deduper>`` with a bin for each farm: when it joined others in ms, 0 for
the first one. A farm writes its own bin alone, so that clusters which send each other their changes lose none. Java's
farms are in the record of the de-duper. Each process looks at both now and then; so what a farm adds right after it
joined others may not look for yet. Therefore it may not add before all of them do. Those that were there before need
not wait: the farm that joins looks at them from the start. Who only looks need not join.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final, final

from attrs import frozen

from solus_aerospike import room
from solus_aerospike.config import BINS
from solus_aerospike.context import AerospikeContext
from solus_aerospike.records import fetch
from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, Level

Farms = Callable[[], tuple[str, ...]]
"""Whose data count now; raises ``StoreError``, see ``KnownFarms``."""

REFRESH: Final = 5_000
"""Milliseconds after which a de-duper's farms are read anew: one that joins is seen after that at the latest."""

GRACE: Final = 60_000
"""Milliseconds that a farm waits from just before it joins: at most 20 s until it has joined, 5 s until every process
knows, 20 s until what was under way then has ended (``timeout`` is at most 20 s). The rest is for the unforeseen."""

_NAMES: Final = 4_096


@final
@frozen
class _Known:
    """The farms as of ``since``, ours first. If ours is a ``member`` it may add from ``adds_from`` on; both in ms."""

    since: int
    farms: tuple[str, ...]
    member: bool
    adds_from: int


@final
class KnownFarms:
    """The farms of each de-duper of one client id, remembered for a while. ``most_bytes``: that a record may have.

    ``now`` is that of the moment, not of the call's begin (see ``running``): a call can outlive what was known then.
    """

    __slots__ = ("_client_id", "_context", "_known", "_most_bytes")

    def __init__(self, context: AerospikeContext, client_id: str, most_bytes: int) -> None:
        self._context = context
        self._client_id = client_id
        self._most_bytes = most_bytes
        self._known: dict[str, _Known] = {}

    def of(self, deduper: DeDuper, now: int) -> tuple[str, ...]:
        """The farms whose data count for ``deduper`` at ``now``: ours first, then the others, none twice.

        At level DC that is ours alone, without asking. Raises ``StoreError`` if they can't be read.
        """
        if deduper.config.level is Level.DC:
            return (self._context.config.farm,)
        return self._at(deduper, now).farms

    def to_add(self, deduper: DeDuper, now: int) -> tuple[str, ...]:
        """The same for a call that adds, for which our farm joins.

        Raises ``StoreError`` if it joined so recently that others may not see it, or can't join.
        """
        if deduper.config.level is Level.DC:
            return (self._context.config.farm,)
        known = self._at(deduper, now)
        if not known.member:
            join(self._context, self._client_id, deduper, now, self._most_bytes, set(known.farms[1:]))
            known = self._look(deduper, now)
        if now < known.adds_from:
            ours, *others = known.farms
            raise StoreError(
                ErrorCode.AEROSPIKE_ERROR,
                f"farm {ours!r} has just joined de-duper {deduper.name!r}, and may add from {known.adds_from} ms on, "
                f"in {round((known.adds_from - now) / 1000)} s: until then the farms {', '.join(others)} may not look "
                "for what it adds",
            )
        return known.farms

    def _at(self, deduper: DeDuper, now: int) -> _Known:
        known = self._known.get(deduper.name)
        # A clock that went back says nothing about how old this is.
        if known is not None and known.since <= now < known.since + REFRESH:
            return known
        return self._look(deduper, now)

    def _look(self, deduper: DeDuper, now: int) -> _Known:
        ours = self._context.config.farm
        record = fetch(self._context, self._client_id, deduper.name)
        registered = set() if record is None else set(record.farms)
        members = read_members(self._context, self._client_id, deduper.name)
        others = sorted(farm for farm in {*registered, *members} - {ours} if not _too_long(deduper, farm))
        # What is registered and has not joined is Java's, whose services look at all that are registered.
        member = ours in members or ours in registered
        joined = members.get(ours, 0)
        known = _Known(now, (ours, *others), member, joined + GRACE if joined else 0)
        # The first farm of all adds at once.
        if member or others:
            if len(self._known) >= _NAMES:
                self._known = {}
            self._known[deduper.name] = known
        return known


def running(now: int) -> Callable[[], int]:
    """A clock that runs from ``now`` on, both in epoch ms: of a caller, who tells the time when a call begins."""
    begun = monotonic()
    return lambda: now + round((monotonic() - begun) * 1000)


def read_members(context: AerospikeContext, client_id: str, name: str) -> dict[str, int]:
    """The farms that joined, and when, in ms."""
    from aerospike.exception import RecordNotFound  # noqa: PLC0415  # no driver before a store is opened

    key = _key(context, client_id, name)
    try:
        found: dict[str, int] = context.caller.read(
            f"reading the farms of {name!r}", lambda: context.client.get(key, context.policy())
        )[2]
    except RecordNotFound:
        return {}
    return found


def join(
    context: AerospikeContext, client_id: str, deduper: DeDuper, now: int, most_bytes: int, registered: set[str]
) -> None:
    """Make sure that our farm is among those that joined, at ``now``, of this moment, if it was not.

    ``registered``: farms that are there as well, Java's. Raises ``StoreError``, with ``INVALID_CONFIG`` if the farm's
    name is too long for the de-duper, or a full shard would not fit into a record any more. To try again is safe.
    """
    at, layout, bits = running(now), deduper.layout or BINS, deduper.config.bits_per_shard
    members, ours = read_members(context, client_id, deduper.name), context.config.farm
    if ours in members:
        return
    farms = [ours, *sorted(farm for farm in {*members, *registered} - {ours} if not _too_long(deduper, farm))]
    for problem in room.bad_farm(layout, bits, ours) or room.problems(layout, bits, farms, most_bytes):
        raise StoreError(ErrorCode.INVALID_CONFIG, f"farm {ours!r} can't join de-duper {deduper.name!r}: {problem}")
    import aerospike  # noqa: PLC0415  # no driver before a store is opened
    from aerospike.exception import RecordExistsError  # noqa: PLC0415  # as above
    from aerospike_helpers.expressions import BinExists, Cond, IntBin  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above
    from aerospike_helpers.operations.expression_operations import expression_write  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above

    policy: dict[str, Any] = context.policy(key=aerospike.POLICY_KEY_SEND, ttl=aerospike.TTL_NEVER_EXPIRE)
    create = {**policy, "exists": aerospike.POLICY_EXISTS_CREATE}
    key, what = _key(context, client_id, deduper.name), f"joining {deduper.name!r}"

    def first() -> None:
        context.client.put(key, {ours: 0 if farms == [ours] else at()}, policy=create)

    def one_more() -> None:
        # Whoever of this farm was first counts.
        since = expression_write(ours, Cond(BinExists(ours), IntBin(ours), at()).compile())
        context.client.operate(key, [since], policy=policy)

    try:
        try:
            context.caller.write(what, one_more if members else first)
        except RecordExistsError:
            context.caller.write(what, one_more)
    except StoreError as error:
        # Of what the caller is about to add, nothing was sent.
        raise StoreError(error.code, error.message) from error.__cause__


def _too_long(deduper: DeDuper, farm: str) -> bool:
    """Nothing can be in bins of such names, and the server refuses to look for them."""
    return bool(room.bad_farm(deduper.layout or BINS, deduper.config.bits_per_shard, farm))


def _key(context: AerospikeContext, client_id: str, name: str) -> tuple[str, str, str]:
    # No shard is called so.
    return context.config.namespace, context.config.set, f"farms|{client_id}|{name}"
