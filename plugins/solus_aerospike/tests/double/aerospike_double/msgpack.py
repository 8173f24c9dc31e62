"""Aerospike's msgpack: strings and blobs carry a type byte, and an ordered map says so in an extension element.

Values are ``None``, ``bool``, ``int``, ``float``, ``str``, ``bytes``, ``list``, :class:`Map` and the two marks
``INFINITY`` and ``WILDCARD``, which are for comparisons only.
"""

from __future__ import annotations

import struct
from typing import Any

UNORDERED, KEY_ORDERED, PRESERVE_ORDER, PERSIST_INDEX = 0, 1, 8, 16


class Map(dict[Any, Any]):
    """A map and how it is ordered; ``size`` is its packed size in bytes once somebody asked, else ``None``."""

    __slots__ = ("flags", "size")

    def __init__(self, items: Any = (), flags: int = UNORDERED) -> None:
        super().__init__(items)
        self.flags = flags
        self.size: int | None = None


class Mark:
    """An end of a range that isn't a value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


INFINITY, WILDCARD = Mark("INFINITY"), Mark("WILDCARD")


class MsgpackError(ValueError):
    """Bytes that are not Aerospike's msgpack."""


_NUMBERS = {
    0xCA: (">f", 4),
    0xCB: (">d", 8),
    0xCC: (">B", 1),
    0xCD: (">H", 2),
    0xCE: (">I", 4),
    0xCF: (">Q", 8),
    0xD0: (">b", 1),
    0xD1: (">h", 2),
    0xD2: (">i", 4),
    0xD3: (">q", 8),
}
_LONG = {
    0xC4: ("raw", 1),
    0xC5: ("raw", 2),
    0xC6: ("raw", 4),
    0xD9: ("raw", 1),
    0xDA: ("raw", 2),
    0xDB: ("raw", 4),
    0xDC: ("list", 2),
    0xDD: ("list", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}


class Raw(bytes):
    """A string of an expression as it is on the wire: a name, or a literal with its type byte in front."""


def unpack(data: bytes, raw: bool = False) -> Any:
    """The one value that ``data`` is; with ``raw`` strings stay :class:`Raw`, for :func:`decoded` to decode."""
    try:
        value, end = _unpack(data, 0, raw)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MsgpackError(f"not msgpack: {data[:40]!r}") from error
    if end != len(data):
        raise MsgpackError(f"{len(data) - end} bytes follow the value")
    return value


def decoded(value: Any) -> Any:
    """``value`` with every :class:`Raw` in it made a ``str`` or ``bytes``."""
    if type(value) is int:
        return value
    if isinstance(value, Raw):
        return _typed(value)
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, Map):
        return Map(((decoded(key), decoded(item)) for key, item in value.items()), value.flags)
    return value


def _unpack(data: bytes, at: int, raw: bool) -> tuple[Any, int]:  # noqa: PLR0911  # one return a type
    """The value that begins at ``at``, and where the next one begins."""
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code in _NUMBERS:
        form, size = _NUMBERS[code]
        return struct.unpack_from(form, data, at)[0], at + size
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code == 0xD4 and data[at] == 0xFF:
        return (INFINITY if data[at + 1] else WILDCARD), at + 2
    if code in _LONG:
        kind, width = _LONG[code]
        count, at = int.from_bytes(data[at : at + width], "big"), at + width
    elif code < 0xA0:
        kind, count = ("list" if code & 0x10 else "map"), code & 0x0F
    elif code < 0xC0:
        kind, count = "raw", code & 0x1F
    else:
        raise MsgpackError(f"code 0x{code:02x} is not modelled")
    if kind == "list":
        return _unpack_list(data, at, count, raw)
    if kind == "map":
        return _unpack_map(data, at, count, raw)
    body = data[at : at + count]
    if len(body) < count:
        raise MsgpackError("a string goes past the end")
    return (Raw(body) if raw else _typed(body)), at + count


def _typed(body: bytes) -> str | bytes:
    return body[1:].decode() if body[:1] == b"\x03" else bytes(body[1:])


def _unpack_list(data: bytes, at: int, count: int, raw: bool) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        if data[at] < 0x80:  # most of what is in an expression
            items.append(data[at])
            at += 1
            continue
        item, at = _unpack(data, at, raw)
        items.append(item)
    return items, at


def _unpack_map(data: bytes, at: int, count: int, raw: bool) -> tuple[Map, int]:
    made = Map()
    for index in range(count):
        if index == 0 and data[at] == 0xC7:  # not a key: how the map is ordered
            made.flags = data[at + 2] & ~PERSIST_INDEX
            _, at = _unpack(data, at + 3 + data[at + 1], raw)
            continue
        key, at = _unpack(data, at, raw)
        made[key], at = _unpack(data, at, raw)
    return made, at


def pack(value: Any) -> bytes:
    """Bytes of ``value``; a key-ordered map is packed in the order of its keys."""
    out = bytearray()
    _pack(value, out)
    return bytes(out)


def _pack(value: Any, out: bytearray) -> None:
    if value is None:
        out.append(0xC0)
    elif value is True or value is False:
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        _pack_int(value, out)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        _pack_raw(b"\x03" + value.encode(), (0xA0, 32, 0xD9, 0xDA, 0xDB), out)
    elif isinstance(value, bytes):
        _pack_raw(b"\x04" + value, (0, 0, 0xC4, 0xC5, 0xC6), out)
    elif isinstance(value, list):
        _pack_count(len(value), (0x90, 0xDC, 0xDD), out)
        for item in value:
            _pack(item, out)
    elif isinstance(value, Map):
        _pack_map(value, out)
    else:
        raise MsgpackError(f"{value!r} is not storable")


def _pack_int(value: int, out: bytearray) -> None:
    if 0 <= value < 0x80:
        out.append(value)
    elif -32 <= value < 0:
        out.append(value + 256)
    elif value >= 0:
        width = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4 if value < 1 << 32 else 8
        out.append({1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[width])
        out += value.to_bytes(width, "big")
    else:
        width = 1 if value >= -(1 << 7) else 2 if value >= -(1 << 15) else 4 if value >= -(1 << 31) else 8
        out.append({1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}[width])
        out += value.to_bytes(width, "big", signed=True)


def _pack_raw(raw: bytes, codes: tuple[int, int, int, int, int], out: bytearray) -> None:
    short, limit, one, two, four = codes
    size = len(raw)
    if size < limit:
        out.append(short | size)
    elif size < 1 << 8:
        out += struct.pack(">BB", one, size)
    elif size < 1 << 16:
        out += struct.pack(">BH", two, size)
    else:
        out += struct.pack(">BI", four, size)
    out += raw


def _pack_count(count: int, codes: tuple[int, int, int], out: bytearray) -> None:
    short, two, four = codes
    if count < 16:
        out.append(short | count)
    elif count < 1 << 16:
        out += struct.pack(">BH", two, count)
    else:
        out += struct.pack(">BI", four, count)


def _pack_map(value: Map, out: bytearray) -> None:
    _pack_count(len(value) + (1 if value.flags else 0), (0x80, 0xDE, 0xDF), out)
    if value.flags:
        out += bytes((0xC7, 0, value.flags, 0xC0))
    keys = sorted(value, key=order) if value.flags & KEY_ORDERED else value
    for key in keys:
        _pack(key, out)
        _pack(value[key], out)


def packed_size(value: Any) -> int:
    """How many bytes :func:`pack` would give, without packing a large map again and again."""
    if isinstance(value, Map):
        if value.size is None:
            value.size = 8 + sum(packed_size(key) + packed_size(item) for key, item in value.items())
        return value.size
    if type(value) is int:
        for limit, size in ((1 << 7, 1), (1 << 8, 2), (1 << 16, 3), (1 << 32, 5)):
            if 0 <= value < limit:
                return size
        return 9 if value >= 0 else len(pack(value))
    return len(pack(value))


def order(value: Any) -> tuple[Any, ...]:  # noqa: PLR0911  # one return a type
    """A sort key that puts values of all types in the server's order."""
    if type(value) is int:
        return (2, value)
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, str):
        return (3, value.encode())
    if isinstance(value, list):
        return (4, [order(item) for item in value])
    if isinstance(value, Map):
        pairs = [(order(key), order(value[key])) for key in sorted(value, key=order)]
        return (5, len(value), pairs)
    if isinstance(value, bytes):
        return (6, value)
    if isinstance(value, float):
        return (7, value)
    if value is INFINITY:
        return (99,)
    raise MsgpackError(f"{value!r} has no place in an order")


def comparable(one: Any, other: Any) -> bool:
    """Whether a comparison comes to an end without meeting a map that isn't ordered by key."""
    return not _met_and_same(one, other)[0]


def _met_and_same(one: Any, other: Any) -> tuple[bool, bool]:
    """Whether such a map was met before the first difference, and whether there is no difference."""
    if any(isinstance(side, Map) and not side.flags & KEY_ORDERED and (side.flags or side) for side in (one, other)):
        return True, False
    if isinstance(one, Map) and isinstance(other, Map) and len(one) == len(other):
        keys = [sorted(side, key=order) for side in (one, other)]
        pairs: Any = ((a, b) for k, m in zip(*keys, strict=True) for a, b in ((k, m), (one[k], other[m])))
    elif isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
    else:
        return False, order(one) == order(other)
    for a, b in pairs:
        met, same = _met_and_same(a, b)
        if met or not same:
            return met, False
    return False, len(one) == len(other)
