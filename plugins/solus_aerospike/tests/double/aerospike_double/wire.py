"""Framing: eight bytes of header, then text (info) or a message of fields and operations."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from aerospike_double.particles import to_wire

VERSION, INFO, MESSAGE, COMPRESSED = 2, 1, 3, 4
HEADER = struct.Struct(">BBBBBBIIIHH")
HEADER_SIZE = 22

READ, GET_ALL, BATCH, NO_BINS = 0x01, 0x02, 0x08, 0x20
WRITE, DELETE, IF_GENERATION, IF_GENERATION_GT, DURABLE_DELETE, CREATE_ONLY, RESPOND_ALL = 1, 2, 4, 8, 16, 32, 128
LAST, PARTITION_DONE, UPDATE_ONLY, CREATE_OR_REPLACE, REPLACE_ONLY = 0x01, 0x04, 0x08, 0x10, 0x20

F_NAMESPACE, F_SET, F_KEY, F_DIGEST, F_TASK, F_SOCKET_TIMEOUT, F_PER_SECOND, F_PARTITIONS = 0, 1, 2, 4, 7, 9, 10, 11
F_DIGESTS, F_SAMPLE, F_BATCH, F_BATCH_WITH_SET, F_FILTER = 12, 13, 41, 42, 43

OP_READ, OP_WRITE, OP_CDT_READ, OP_CDT_MODIFY, OP_ADD, OP_EXP_READ, OP_EXP_MODIFY = 1, 2, 3, 4, 5, 7, 8
OP_APPEND, OP_PREPEND, OP_TOUCH, OP_DELETE_ALL = 9, 10, 11, 14
READS = frozenset((OP_READ, OP_CDT_READ, OP_EXP_READ))

BATCH_REPEAT, BATCH_INFO, BATCH_GENERATION, BATCH_TTL, BATCH_INFO4 = 0x01, 0x02, 0x04, 0x08, 0x10
BATCH_ALL_ERRORS = 0x04


@dataclass(frozen=True)
class Op:
    """One operation on a bin."""

    code: int
    kind: int
    name: bytes
    value: bytes


@dataclass
class Message:
    """A command: one record's, a batch, or a query."""

    info1: int = 0
    info2: int = 0
    info3: int = 0
    generation: int = 0
    ttl: int = 0
    timeout_ms: int = 0
    fields: dict[int, bytes] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    digest: bytes = b""


@dataclass
class Row:
    """One record's part of a batch."""

    index: int
    message: Message


def frame(kind: int, body: bytes) -> bytes:
    """``body`` with the header in front."""
    return struct.pack(">Q", VERSION << 56 | kind << 48 | len(body)) + body


def parse(body: bytes) -> Message:
    """The message that a frame of type 3 carries."""
    _, info1, info2, info3, _, _, generation, ttl, timeout, fields, ops = HEADER.unpack_from(body)
    made = Message(info1, info2, info3, generation, ttl, timeout)
    at = _fields(body, HEADER_SIZE, fields, made)
    _ops(body, at, ops, made)
    made.digest = made.fields.get(F_DIGEST, b"")
    return made


def _fields(body: bytes, at: int, count: int, into: Message) -> int:
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "big")
        into.fields[body[at + 4]] = body[at + 5 : at + 4 + size]
        at += 4 + size
    return at


def _ops(body: bytes, at: int, count: int, into: Message) -> int:
    for _ in range(count):
        size = int.from_bytes(body[at : at + 4], "big")
        end, name_end = at + 4 + size, at + 8 + body[at + 7]
        into.ops.append(Op(body[at + 4], body[at + 5], body[at + 8 : name_end], body[name_end:end]))
        at = end
    return at


def parse_batch(data: bytes) -> tuple[int, list[Row]]:
    """Flags and rows of a batch field; a row that repeats shares the message of the one before, not its digest."""
    count = int.from_bytes(data[:4], "big")
    flags, at = data[4], 5
    rows: list[Row] = []
    for _ in range(count):
        index, digest, how = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 24], data[at + 24]
        at += 25
        if how & BATCH_REPEAT:
            before = rows[-1].message
            message = Message(before.info1, before.info2, before.info3, before.generation, before.ttl)
            message.fields, message.ops = before.fields, before.ops
        else:
            message, at = _batch_message(data, at, how)
        message.digest = digest
        rows.append(Row(index, message))
    return flags, rows


def _batch_message(data: bytes, at: int, how: int) -> tuple[Message, int]:
    made = Message(data[at])
    at += 1
    if how & BATCH_INFO:
        made.info2, made.info3 = data[at], data[at + 1]
        at += 2
    if how & BATCH_INFO4:
        at += 1
    if how & BATCH_GENERATION:
        made.generation = int.from_bytes(data[at : at + 2], "big")
        at += 2
    if how & BATCH_TTL:
        made.ttl = int.from_bytes(data[at : at + 4], "big")
        at += 4
    fields, ops = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
    at = _fields(data, at + 4, fields, made)
    return made, _ops(data, at, ops, made)


def answer(
    code: int,
    generation: int = 0,
    void_time: int = 0,
    bins: list[tuple[bytes, Any]] | None = None,
    *,
    info3: int = 0,
    index: int = 0,
    fields: list[tuple[int, bytes]] | None = None,
) -> bytes:
    """A message back, without its frame: a record's answer, a row of a batch or a query, or the last of them."""
    fields, bins = fields or [], bins or []
    out = bytearray(
        HEADER.pack(HEADER_SIZE, 0, 0, info3, 0, code, generation, void_time, index, len(fields), len(bins))
    )
    for number, data in fields:
        out += struct.pack(">IB", len(data) + 1, number) + data
    for name, value in bins:
        kind, data = to_wire(value)
        out += struct.pack(">IBBBB", 4 + len(name) + len(data), OP_READ, kind, 0, len(name)) + name + data
    return bytes(out)
