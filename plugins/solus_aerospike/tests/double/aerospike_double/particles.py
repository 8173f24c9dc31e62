"""Values of bins as the client sends and gets them: a particle type and bytes."""

from __future__ import annotations

import struct
from typing import Any

from aerospike_double.msgpack import Map, MsgpackError, pack, packed_size, unpack

NULL, INTEGER, FLOAT, STRING, BLOB, BOOL, MAP, LIST = 0, 1, 2, 3, 4, 17, 19, 20

OK = 0
NOT_FOUND, GENERATION, PARAMETER, RECORD_EXISTS, BIN_EXISTS, OUT_OF_SPACE = 2, 3, 4, 5, 6, 8
INCOMPATIBLE_TYPE, RECORD_TOO_BIG, UNSUPPORTED, BIN_NOT_FOUND, KEY_MISMATCH = 12, 13, 16, 17, 19
NAMESPACE, BIN_NAME, FORBIDDEN, ELEMENT_NOT_FOUND, ELEMENT_EXISTS = 20, 21, 22, 23, 24
OP_NOT_APPLICABLE, FILTERED_OUT = 26, 27


class Refused(Exception):  # noqa: N818  # as the protocol has it: a result code, which need not be an error
    """A command ends with ``code``."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(f"result code {code}: {why}")
        self.code = code


class NotModelledError(Refused):
    """The client asked for what this double doesn't know: code 16, and the test that did so fails."""

    def __init__(self, why: str) -> None:
        super().__init__(UNSUPPORTED, why)


def type_of(value: Any) -> int:
    """The particle type of a bin's value."""
    number = _TYPES.get(type(value))
    if number is None:
        raise NotModelledError(f"a value of type {type(value).__name__}")
    return number


_TYPES: dict[type, int] = {
    type(None): NULL,
    bool: BOOL,
    int: INTEGER,
    float: FLOAT,
    str: STRING,
    bytes: BLOB,
    Map: MAP,
    list: LIST,
}


def from_wire(kind: int, data: bytes) -> Any:  # noqa: PLR0911  # one return a type
    """The value of a particle; ``None`` deletes the bin."""
    try:
        if kind == NULL:
            return None
        if kind == INTEGER:
            return int.from_bytes(data, "big", signed=True)
        if kind == FLOAT:
            return struct.unpack(">d", data)[0]
        if kind == STRING:
            return data.decode()
        if kind == BLOB:
            return data
        if kind == BOOL:
            return data != b"\0"
        if kind in (MAP, LIST):
            return unpack(data)
    except (MsgpackError, struct.error, UnicodeDecodeError) as error:
        raise Refused(PARAMETER, str(error)) from error
    raise NotModelledError(f"particle type {kind}")


def to_wire(value: Any) -> tuple[int, bytes]:  # noqa: PLR0911  # one return a type
    """Particle type and bytes of ``value``."""
    kind = type_of(value)
    if kind == NULL:
        return kind, b""
    if kind == INTEGER:
        return kind, value.to_bytes(8, "big", signed=True)
    if kind == FLOAT:
        return kind, struct.pack(">d", value)
    if kind == STRING:
        return kind, value.encode()
    if kind == BLOB:
        return kind, value
    if kind == BOOL:
        return kind, bytes((value,))
    return kind, pack(value)


def flat_size(name: bytes, value: Any) -> int:
    """Bytes that a bin takes in the server's storage, name included: what counts for max-record-size."""
    kind = type_of(value)
    if kind == INTEGER:
        number = value & (1 << 64) - 1
        size = 2 + next(width for width in (1, 2, 4, 8) if number < 1 << 8 * width)
    elif kind == BOOL:
        size = 2
    elif kind == FLOAT:
        size = 9
    elif kind == STRING:
        size = 5 + len(value.encode())
    elif kind == BLOB:
        size = 5 + len(value)
    else:
        size = 5 + packed_size(value)
    return 1 + len(name) + size
