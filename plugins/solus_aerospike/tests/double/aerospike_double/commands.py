"""One record's command: read, write, touch, delete, and the operations of it, in the server's order of checks.

The caller holds the lock of the namespace, so a command is atomic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aerospike_double import cdt, wire
from aerospike_double.expressions import UNKNOWN, build, passes
from aerospike_double.msgpack import MsgpackError, unpack
from aerospike_double.particles import (
    BIN_EXISTS,
    BIN_NAME,
    BIN_NOT_FOUND,
    FILTERED_OUT,
    FORBIDDEN,
    GENERATION,
    INCOMPATIBLE_TYPE,
    KEY_MISMATCH,
    NOT_FOUND,
    NULL,
    OK,
    OP_NOT_APPLICABLE,
    OUT_OF_SPACE,
    PARAMETER,
    RECORD_EXISTS,
    RECORD_TOO_BIG,
    NotModelledError,
    Refused,
    from_wire,
)
from aerospike_double.store import LONGEST_TTL, TTL_DEFAULT, TTL_KEEP, TTL_NEVER, Clock, Namespace, Record

MOST_BINS, MOST_OPS, LONGEST_BIN_NAME, LONGEST_SET_NAME = 0x7FFF, 32 * 1024, 15, 63
EXP_CREATE_ONLY, EXP_UPDATE_ONLY, EXP_ALLOW_DELETE, EXP_POLICY_NO_FAIL, EXP_EVAL_NO_FAIL = 1, 2, 4, 8, 16


@dataclass
class Outcome:
    """What a command answers; ``bins`` in the order of its operations."""

    code: int = OK
    generation: int = 0
    void_time: int = 0
    bins: list[tuple[bytes, Any]] = field(default_factory=list)


def execute(namespace: Namespace, clock: Clock, message: wire.Message, shared_filter: bytes | None = None) -> Outcome:
    """Do ``message``; ``shared_filter`` is a batch's, for rows that have none of their own.

    Raises:
        NotModelledError: the client sent what this double doesn't know.
    """
    condition = message.fields.get(wire.F_FILTER, shared_filter)
    try:
        if not message.info2 & wire.WRITE:
            return _read(namespace, message, condition)
        if message.info2 & wire.DELETE:
            return _delete(namespace, message, condition)
        return _write(namespace, clock, message, condition)
    except NotModelledError:
        raise
    except Refused as refused:
        return Outcome(refused.code)


def _read(namespace: Namespace, message: wire.Message, condition: bytes | None) -> Outcome:
    record = namespace.find(message.digest)
    if record is None:
        raise Refused(NOT_FOUND)
    _check_set(record, message, on_update=False)
    if condition is not None and not passes(condition, record):
        raise Refused(FILTERED_OUT)
    key = message.fields.get(wire.F_KEY)
    if key is not None and record.key is not None and key != record.key:
        raise Refused(KEY_MISMATCH)
    outcome = Outcome(OK, record.generation, record.wire_void_time())
    if message.info1 & wire.NO_BINS:
        return outcome
    if message.info1 & wire.GET_ALL:
        outcome.bins = list(record.bins.items())
        return outcome
    if not 0 < len(message.ops) <= MOST_OPS:
        raise Refused(PARAMETER, f"{len(message.ops)} operations")
    respond_all = bool(message.info2 & wire.RESPOND_ALL)
    for op in message.ops:
        _check_name(op.name)
        answered, value = _read_op(record, op)
        if respond_all or (answered and value is not None):
            outcome.bins.append((op.name, value))
    return outcome


def _delete(namespace: Namespace, message: wire.Message, condition: bytes | None) -> Outcome:
    record = namespace.find(message.digest)
    if record is None:
        raise Refused(NOT_FOUND)
    if message.info2 & wire.IF_GENERATION and message.generation != record.generation:
        raise Refused(GENERATION)
    _check_set(record, message, on_update=False)
    if condition is not None and not passes(condition, record):
        raise Refused(FILTERED_OUT)
    if message.info2 & wire.DURABLE_DELETE:
        raise Refused(25, "durable deletes are for Enterprise")
    del namespace.records[message.digest]
    return Outcome()


def _write(namespace: Namespace, clock: Clock, message: wire.Message, condition: bytes | None) -> Outcome:
    if namespace.stop_writes:
        raise Refused(OUT_OF_SPACE)
    must_exist = _check_ops(message)
    record = namespace.find(message.digest)
    if record is None:
        if must_exist:
            raise Refused(NOT_FOUND)
        if message.info2 & wire.IF_GENERATION and message.generation:
            raise Refused(GENERATION)
        set_name = message.fields.get(wire.F_SET, b"")
        if len(set_name) > LONGEST_SET_NAME:
            raise Refused(PARAMETER, "a set name of over 63 bytes")
        draft = Record(clock, message.digest, set_name)
    else:
        _check_existing(record, message, condition)
        draft = record.draft()
    if draft.key is None:
        draft.key = message.fields.get(wire.F_KEY)
    _check_ttl(namespace, message.ttl)
    replaces = message.info3 & (wire.CREATE_OR_REPLACE | wire.REPLACE_ONLY)
    if replaces:
        draft.bins, draft.size = {}, 0
    ttl = TTL_DEFAULT if record is None and message.ttl == TTL_KEEP else message.ttl
    draft.touch(ttl, namespace.default_ttl)
    answers = _write_ops(draft, message)
    if len(draft.bins) > MOST_BINS:
        raise Refused(PARAMETER, f"{len(draft.bins)} bins")
    if not draft.bins:
        if record is None or replaces:
            raise Refused(NOT_FOUND)
        del namespace.records[message.digest]
        return Outcome(bins=answers)
    if draft.flat_size() > namespace.max_record_size:
        raise Refused(RECORD_TOO_BIG, f"{draft.flat_size()} bytes")
    namespace.records[message.digest] = draft
    return Outcome(OK, draft.generation, draft.wire_void_time(), answers)


def _check_existing(record: Record, message: wire.Message, condition: bytes | None) -> None:
    if message.info2 & wire.CREATE_ONLY:
        raise Refused(RECORD_EXISTS)
    if message.info2 & wire.IF_GENERATION and message.generation != record.generation:
        raise Refused(GENERATION)
    if message.info2 & wire.IF_GENERATION_GT and message.generation <= record.generation:
        raise Refused(GENERATION)
    _check_set(record, message, on_update=True)
    if condition is not None and not passes(condition, record):
        raise Refused(FILTERED_OUT)
    key = message.fields.get(wire.F_KEY)
    if key is not None and record.key is not None and key != record.key:
        raise Refused(KEY_MISMATCH)


def _check_set(record: Record, message: wire.Message, on_update: bool) -> None:
    named = message.fields.get(wire.F_SET, b"")
    if named != record.set_name and (named or on_update):
        raise Refused(PARAMETER, f"set {named!r}, and the record is in {record.set_name!r}")


def _check_ttl(namespace: Namespace, ttl: int) -> None:
    if ttl > LONGEST_TTL and ttl not in (TTL_NEVER, TTL_KEEP):
        raise Refused(PARAMETER, "a TTL of over ten years")
    expires = 0 < ttl <= LONGEST_TTL or (ttl == TTL_DEFAULT and namespace.default_ttl)
    if expires and not namespace.ttl_possible():
        raise Refused(FORBIDDEN, "a TTL, and nothing removes expired records")


def _check_name(name: bytes) -> None:
    if len(name) > LONGEST_BIN_NAME:
        raise Refused(BIN_NAME, f"bin name {name!r}")


def _check_ops(message: wire.Message) -> bool:
    """Whether the record must exist; refuses what can't go together."""
    if not 0 < len(message.ops) <= MOST_OPS:
        raise Refused(PARAMETER, f"{len(message.ops)} operations")
    must_exist = bool(message.info3 & (wire.UPDATE_ONLY | wire.REPLACE_ONLY))
    replaces = message.info3 & (wire.CREATE_OR_REPLACE | wire.REPLACE_ONLY)
    for op in message.ops:
        if op.code == wire.OP_TOUCH:
            must_exist = True
            continue
        _check_name(op.name)
        if replaces and (op.code in (wire.OP_CDT_MODIFY, wire.OP_ADD) or (op.code, op.kind) == (wire.OP_WRITE, NULL)):
            raise Refused(PARAMETER, "can't replace")
        if op.code in wire.READS and not message.info1 & wire.READ:
            raise Refused(PARAMETER, "a read in a command that doesn't read")
        if op.code == wire.OP_READ and not op.name and message.info2 & wire.RESPOND_ALL:
            raise Refused(PARAMETER, "reads all, and has to answer each operation")
    return must_exist


def _write_ops(draft: Record, message: wire.Message) -> list[tuple[bytes, Any]]:
    """Do the operations on ``draft``, in order, and give the answers."""
    respond_all = bool(message.info2 & wire.RESPOND_ALL)
    answers: list[tuple[bytes, Any]] = []
    for op in message.ops:
        if op.code == wire.OP_TOUCH:
            continue
        if op.code in wire.READS:
            if op.code == wire.OP_READ and not op.name:
                answers += draft.bins.items()
                continue
            answered, value = _read_op(draft, op)
            if respond_all or answered:
                answers.append((op.name, value))
            continue
        value = _modify_op(draft, op)
        if respond_all or value is not None:
            answers.append((op.name, value))
    return answers


def _read_op(record: Record, op: wire.Op) -> tuple[bool, Any]:
    """Whether the operation has an answer, and the answer."""
    if op.code == wire.OP_READ:
        return op.name in record.bins, record.bins.get(op.name)
    if op.code == wire.OP_CDT_READ:
        if op.name not in record.bins:
            return False, None
        return True, cdt.run(record.bins[op.name], _cdt_call(op.value), modify=False)[0]
    if op.code == wire.OP_EXP_READ:
        found = _evaluated(record, *_split(op.value))
        return True, None if found is UNKNOWN else found
    raise NotModelledError(f"operation {op.code}")


def _cdt_call(value: bytes) -> list[Any]:
    try:
        call = unpack(value)
    except MsgpackError as error:
        raise NotModelledError(str(error)) from error
    if not isinstance(call, list) or not call:
        raise Refused(PARAMETER, "not an operation on a map or list")
    return call


def _evaluated(record: Record, expression: Any, flags: int) -> Any:
    """Value of an expression operation; UNKNOWN only where the flags allow that."""
    found = build(expression).run(record, {})
    if found is UNKNOWN and not flags & EXP_EVAL_NO_FAIL:
        raise Refused(OP_NOT_APPLICABLE, "the expression has no value")
    return found


def _split(value: bytes) -> tuple[Any, int]:
    """Expression and flags of an operation, out of their list of two."""
    try:
        whole = unpack(value, raw=True)
    except MsgpackError as error:
        raise NotModelledError(str(error)) from error
    if not isinstance(whole, list) or not 1 <= len(whole) <= 2:
        raise Refused(PARAMETER, "not an expression operation")
    return whole[0], whole[1] if len(whole) > 1 else 0


def _modify_op(draft: Record, op: wire.Op) -> Any:
    """Do one writing operation, and give its answer, if any."""
    if op.code == wire.OP_WRITE:
        draft.put(op.name, from_wire(op.kind, op.value))
        return None
    if op.code == wire.OP_ADD:
        old = draft.bins.get(op.name, 0)
        if isinstance(old, bool) or not isinstance(old, int):
            raise Refused(INCOMPATIBLE_TYPE)
        draft.put(op.name, (old + from_wire(op.kind, op.value) + (1 << 63)) % (1 << 64) - (1 << 63))
        return None
    if op.code == wire.OP_DELETE_ALL:
        draft.bins, draft.size = {}, 0
        return None
    if op.code == wire.OP_CDT_MODIFY:
        answer, made = cdt.run(draft.bins.get(op.name), _cdt_call(op.value), modify=True)
        if made is not None:
            draft.put(op.name, made)
        return answer
    if op.code == wire.OP_EXP_MODIFY:
        _write_expression(draft, op)
        return None
    raise NotModelledError(f"operation {op.code}")


def _write_expression(draft: Record, op: wire.Op) -> None:
    expression, flags = _split(op.value)
    exists = op.name in draft.bins
    refused = BIN_EXISTS if exists and flags & EXP_CREATE_ONLY else 0
    refused = BIN_NOT_FOUND if not exists and flags & EXP_UPDATE_ONLY else refused
    if refused and flags & EXP_POLICY_NO_FAIL:
        return
    if refused:
        raise Refused(refused)
    found = _evaluated(draft, expression, flags)
    if found is UNKNOWN:
        return
    if found is None and exists and not flags & EXP_ALLOW_DELETE:
        if flags:  # the server tests the flags, not one of them
            return
        raise Refused(OP_NOT_APPLICABLE, "would delete the bin")
    draft.put(op.name, found)
