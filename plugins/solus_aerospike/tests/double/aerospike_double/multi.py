"""Batches and queries: many records' answers to one command, each row under the lock on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aerospike_double import wire
from aerospike_double.commands import Outcome
from aerospike_double.expressions import passes
from aerospike_double.particles import FILTERED_OUT, NAMESPACE, NOT_FOUND, OK, PARAMETER, NotModelledError, Refused
from aerospike_double.store import Namespace, Record

PARTITIONS = 4096
MOST_ROWS = 100_000
LARGE_ANSWER = 1 << 16


def batch(message: wire.Message, one: Callable[[wire.Message, bytes | None], Outcome]) -> Iterator[bytes]:
    """Answers of a batch, the last one included; ``one`` does a row."""
    data = message.fields.get(wire.F_BATCH) or message.fields.get(wire.F_BATCH_WITH_SET)
    if not data or data[:4] == b"\0\0\0\0":
        yield wire.answer(PARAMETER, info3=wire.LAST)
        return
    flags, rows = wire.parse_batch(data)
    shared_filter = message.fields.get(wire.F_FILTER)
    for row in rows:
        outcome = one(row.message, shared_filter)
        yield wire.answer(outcome.code, outcome.generation, outcome.void_time, outcome.bins, index=row.index)
        if outcome.code not in (OK, NOT_FOUND, FILTERED_OUT) and not flags & wire.BATCH_ALL_ERRORS:
            yield wire.answer(outcome.code, info3=wire.LAST)
            return
    yield wire.answer(OK, info3=wire.LAST)


def query(namespaces: Mapping[str, Namespace], message: wire.Message) -> Iterator[bytes]:
    """Answers of a query over a set (or a whole namespace) in the partitions that are asked for."""
    namespace = namespaces.get(message.fields.get(wire.F_NAMESPACE, b"").decode())
    if namespace is None:
        yield wire.answer(NAMESPACE, info3=wire.LAST)
        return
    condition = message.fields.get(wire.F_FILTER)
    try:
        for record in _matching(namespace, message):
            if condition is None or passes(condition, record):
                row = _query_row(namespace, record, message)
                if row is not None:
                    yield row
    except NotModelledError:
        raise
    except Refused as refused:
        yield wire.answer(refused.code, info3=wire.LAST)
        return
    yield wire.answer(OK, info3=wire.LAST)


def _matching(namespace: Namespace, message: wire.Message) -> Iterator[Record]:
    set_name = message.fields.get(wire.F_SET, b"")
    wanted = _partitions(message.fields.get(wire.F_PARTITIONS))
    for record in namespace.live():
        if set_name and record.set_name != set_name:
            continue
        if int.from_bytes(record.digest[:2], "little") % PARTITIONS in wanted:
            yield record


def _partitions(data: bytes | None) -> frozenset[int]:
    if data is None:
        return frozenset(range(PARTITIONS))
    return frozenset(int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2))


def _query_row(namespace: Namespace, record: Record, message: wire.Message) -> bytes | None:
    """A record's answer, with its key where one is stored; none if the record has no bin of those that are wanted."""
    fields = [(wire.F_NAMESPACE, namespace.name.encode()), (wire.F_DIGEST, record.digest)]
    if record.set_name:
        fields.append((wire.F_SET, record.set_name))
    if record.key is not None:
        fields.append((wire.F_KEY, record.key))
    bins: list[tuple[bytes, Any]] = []
    if not message.info1 & wire.NO_BINS:
        bins = [(op.name, record.bins[op.name]) for op in message.ops if op.name in record.bins]
        if message.ops and not bins:
            return None
        if not message.ops:
            bins = list(record.bins.items())
    return wire.answer(OK, record.generation, record.wire_void_time(), bins, fields=fields)
