"""Which farms share a de-duper's data, and from when on one that joins may add.

Beside the data is a record ``farms|<client_id>|<deduper>`` with a bin for each farm: when it joined others in ms, 0 for
the first one. A farm writes its own bin alone, so that clusters which send each other their changes lose none. Java's
farms are in the record of the de-duper. Each process looks at both now and then; so what a farm adds right after it
joined others may not look for yet. Therefore it may not add before all of them do: a process in a farm of Java's has to
join like any other. Those that joined before need not wait: who joins looks at them from the start. Who only looks need
not join.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final, final

from attrs import frozen

from solus_aerospike import room
from solus_aerospike.config import BINS
from solus_aerospike.context import AerospikeContext, writing
from solus_aerospike.records import fetch
from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, Level

Farms = Callable[[], tuple[str, ...]]
"""Whose data count now; raises ``StoreError``, see ``KnownFarms``."""

REFRESH: Final = 5_000
"""Milliseconds after which a de-duper's farms are read anew: one that joins is seen after that at the latest."""

GRACE: Final = 60_000
"""Milliseconds that a farm waits from just before it joins. A call takes 15 s at most (``timeout``): so it has joined
after 15 s, 5 s later every process asks, gets the answer in 15 s, and what was under way has ended 15 s after that."""

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

    ``now`` is that of the moment, not of the call's begin (see ``clock_from``): a call can outlive what was known then.
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
        return self._remembered(deduper, now).farms

    def to_add(self, deduper: DeDuper, now: int) -> tuple[str, ...]:
        """The same for a call that adds, for which our farm joins.

        Raises ``StoreError`` if it joined so recently that others may not see it, or can't join.
        """
        if deduper.config.level is Level.DC:
            return (self._context.config.farm,)
        known = self._remembered(deduper, now)
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

    def _remembered(self, deduper: DeDuper, now: int) -> _Known:
        known = self._known.get(deduper.name)
        # A clock that went back says nothing about how old this is.
        if known is not None and known.since <= now < known.since + REFRESH:
            return known
        return self._look(deduper, now)

    def _look(self, deduper: DeDuper, now: int) -> _Known:
        ours = self._context.config.farm
        record = fetch(self._context, self._client_id, deduper.name)
        members = read_members(self._context, self._client_id, deduper.name)
        others = _others(deduper, ours, {*members, *(record.farms if record is not None else ())})
        joined = members.get(ours, 0)
        known = _Known(now, (ours, *others), ours in members, joined + GRACE if joined else 0)
        # The first farm of all adds at once.
        if others or known.member:
            if len(self._known) >= _NAMES:
                self._known = {}
            self._known[deduper.name] = known
        return known


def clock_from(now: int) -> Callable[[], int]:
    """A clock that runs from ``now`` on, both in epoch ms: of a caller, who tells the time when a call begins."""
    begun = monotonic()
    return lambda: now + round((monotonic() - begun) * 1000)


def read_members(context: AerospikeContext, client_id: str, name: str) -> dict[str, int]:
    """The farms that joined, and when, in ms."""
    from aerospike.exception import RecordNotFound  # noqa: PLC0415  # no driver before a store is opened

    key = _key(context, client_id, name)
    try:
        found: dict[str, int] = context.caller.read(
            f"reading the farms of {name!r}", lambda: context.client.get(key, context.reading())
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
    clock, layout, bits = clock_from(now), deduper.layout or BINS, deduper.config.bits_per_shard
    members, ours = read_members(context, client_id, deduper.name), context.config.farm
    if ours in members:
        return
    others = _others(deduper, ours, {*members, *registered})
    for problem in room.bad_farm(layout, bits, ours) or room.problems(layout, bits, [ours, *others], most_bytes):
        raise StoreError(ErrorCode.INVALID_CONFIG, f"farm {ours!r} can't join de-duper {deduper.name!r}: {problem}")
    import aerospike  # noqa: PLC0415  # no driver before a store is opened
    from aerospike.exception import RecordExistsError  # noqa: PLC0415  # as above
    from aerospike_helpers.expressions import BinExists, Cond, IntBin  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above
    from aerospike_helpers.operations.expression_operations import expression_write  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above

    policy: dict[str, Any] = context.policy(**writing(aerospike.TTL_NEVER_EXPIRE))
    create = {**policy, "exists": aerospike.POLICY_EXISTS_CREATE}
    key, what = _key(context, client_id, deduper.name), f"joining {deduper.name!r}"

    def first() -> None:
        context.client.put(key, {ours: clock() if others else 0}, policy=create)

    def one_more() -> None:
        # Whoever of this farm was first counts.
        since = expression_write(ours, Cond(BinExists(ours), IntBin(ours), clock()).compile())
        context.client.operate(key, [since], policy=policy)

    try:
        try:
            context.caller.write(what, one_more if members else first)
        except RecordExistsError:
            context.caller.write(what, one_more)
    except StoreError as error:
        # Of what the caller is about to add, nothing was sent.
        raise StoreError(error.code, error.message) from error.__cause__


def _others(deduper: DeDuper, ours: str, farms: set[str]) -> list[str]:
    """Those of ``farms`` that can have data: no bin has too long a name, and the server refuses to look for one."""
    layout, bits = deduper.layout or BINS, deduper.config.bits_per_shard
    return sorted(farm for farm in farms - {ours} if not room.bad_farm(layout, bits, farm))


def _key(context: AerospikeContext, client_id: str, name: str) -> tuple[str, str, str]:
    # No shard is called so.
    return context.config.namespace, context.config.set, f"farms|{client_id}|{name}"
