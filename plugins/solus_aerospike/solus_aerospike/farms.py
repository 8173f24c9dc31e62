"""Which farms share a de-duper's data, and from when on one that joins may add.

Beside the data is a record ``farms|<client_id>|<deduper>`` with a bin for each farm: when it joined others in ms, 0 for
the first one. A farm writes its own bin alone, so that clusters which send each other their changes lose none. Java's
farms are in the record of the de-duper. Each process looks at both now and then; so what a farm adds right after it
joined others may not look for yet. Therefore it may not add before all of them do. Those that were there before need
not wait: the farm that joins looks at them from the start.
"""

from __future__ import annotations

from typing import Any, Final, final

from attrs import frozen

from solus_aerospike import room
from solus_aerospike.config import BINS
from solus_aerospike.context import AerospikeContext
from solus_aerospike.records import fetch
from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper, Level

REFRESH: Final = 5_000
"""Milliseconds after which a de-duper's farms are read anew: one that joins is seen after that at the latest."""

_GRACE: Final = 60_000
"""Milliseconds that a farm waits at least: others may have calls under way that began before they saw it."""

_NAMES: Final = 4_096


@final
@frozen
class _Known:
    """The farms as of ``since``, ours first; ours may add from ``adds_from`` on, both in ms, unless it is ``refused``,
    with the reason."""

    since: int
    farms: tuple[str, ...]
    adds_from: int
    refused: StoreError | None = None


@final
class KnownFarms:
    """The farms of each de-duper of one client id, remembered for a while. ``most_bytes``: that a record may have."""

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
        return self._look(deduper, now).farms

    def to_add(self, deduper: DeDuper, now: int) -> tuple[str, ...]:
        """The same for a call that adds; ``StoreError`` if ours joined so recently that others may not see it."""
        if deduper.config.level is Level.DC:
            return (self._context.config.farm,)
        known = self._look(deduper, now)
        if known.refused is not None:
            raise StoreError(known.refused.code, known.refused.message)
        if now < known.adds_from:
            ours, *others = known.farms
            raise StoreError(
                ErrorCode.AEROSPIKE_ERROR,
                f"farm {ours!r} has just joined de-duper {deduper.name!r}, and may add from {known.adds_from} ms on, "
                f"in {-(-(known.adds_from - now) // 1000)} s: until then the farms {', '.join(others)} may not look "
                "for what it adds",
            )
        return known.farms

    def _look(self, deduper: DeDuper, now: int) -> _Known:
        known = self._known.get(deduper.name)
        # A clock that went back says nothing about how old this is.
        if known is not None and known.since <= now < known.since + REFRESH:
            return known
        context = self._context
        ours = context.config.farm
        record = fetch(context, self._client_id, deduper.name)
        registered = set() if record is None else set(record.farms)
        members = read_members(context, self._client_id, deduper.name)
        joined, refused = members.get(ours, 0), None
        # What is registered and has not joined is Java's, whose services look at all that are registered.
        if ours not in members and ours not in registered:
            try:
                members = join(context, self._client_id, deduper, now, self._most_bytes, registered)
                joined = members[ours]
            except StoreError as error:
                if error.code is not ErrorCode.INVALID_CONFIG:
                    raise
                refused = error  # it may look, at least
        others = sorted((registered | set(members)) - {ours})
        known = _Known(now, (ours, *others), joined + _grace(context) if joined else 0, refused)
        if len(self._known) >= _NAMES:
            self._known = {}
        self._known[deduper.name] = known
        return known


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
    context: AerospikeContext,
    client_id: str,
    deduper: DeDuper,
    now: int,
    most_bytes: int,
    registered: set[str] | None = None,
) -> dict[str, int]:
    """Make sure that our farm is among those that joined, at ``now`` if it was not; answers all of them.

    Raises ``StoreError`` if a full shard would not fit into a record any more. ``registered``: farms that are there
    as well, Java's.
    """
    members, ours = read_members(context, client_id, deduper.name), context.config.farm
    if ours in members:
        return members
    farms = sorted({ours, *members, *(registered or ())})
    for problem in room.problems(deduper.layout or BINS, deduper.config.bits_per_shard, farms, most_bytes):
        raise StoreError(
            ErrorCode.INVALID_CONFIG,
            f"farm {ours!r} can't join de-duper {deduper.name!r}, its shards are full: {problem}",
        )
    import aerospike  # noqa: PLC0415  # no driver before a store is opened
    from aerospike.exception import RecordExistsError  # noqa: PLC0415  # as above
    from aerospike_helpers.expressions import BinExists, Cond, IntBin  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above
    from aerospike_helpers.operations.expression_operations import expression_write  # type: ignore[import-untyped]  # noqa: PLC0415  # no types; as above

    policy: dict[str, Any] = context.policy(key=aerospike.POLICY_KEY_SEND, ttl=aerospike.TTL_NEVER_EXPIRE)
    key, what = _key(context, client_id, deduper.name), f"joining {deduper.name!r}"
    # Whoever of this farm was first counts.
    since = expression_write(ours, Cond(BinExists(ours), IntBin(ours), now).compile())
    create = {**policy, "exists": aerospike.POLICY_EXISTS_CREATE}
    try:
        if members:
            context.caller.write(what, lambda: context.client.operate(key, [since], policy=policy))
        else:
            first = {ours: 0 if farms == [ours] else now}
            context.caller.write(what, lambda: context.client.put(key, first, policy=create))
    except RecordExistsError:
        context.caller.write(what, lambda: context.client.operate(key, [since], policy=policy))
    return read_members(context, client_id, deduper.name)


def _grace(context: AerospikeContext) -> int:
    config = context.config
    longest_call = config.attempts * (config.timeout + 2 * config.backoff) * 1000
    return max(_GRACE, REFRESH + round(longest_call))


def _key(context: AerospikeContext, client_id: str, name: str) -> tuple[str, str, str]:
    # No shard is called so.
    return context.config.namespace, context.config.set, f"farms|{client_id}|{name}"
