"""Operations on maps, by the numbers that the protocol gives them; the list operations that exist are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aerospike_double.msgpack import INFINITY, KEY_ORDERED, PERSIST_INDEX, PRESERVE_ORDER, Map, order, packed_size
from aerospike_double.particles import (
    ELEMENT_EXISTS,
    ELEMENT_NOT_FOUND,
    INCOMPATIBLE_TYPE,
    OP_NOT_APPLICABLE,
    PARAMETER,
    NotModelledError,
    Refused,
)

CONTEXT_EVAL = 0xFF
LIST_APPEND, LIST_APPEND_ITEMS, LIST_SIZE, LIST_GET_RANGE = 1, 2, 16, 18
MAP_SET_TYPE, MAP_PUT, MAP_PUT_ITEMS, MAP_CLEAR, MAP_REMOVE_BY_KEY, MAP_REMOVE_BY_KEY_LIST = 64, 67, 68, 75, 76, 81
MAP_SIZE, MAP_GET_BY_KEY, MAP_GET_BY_KEY_INTERVAL, MAP_GET_BY_VALUE_INTERVAL = 96, 97, 103, 105
MAP_REMOVE_BY_VALUE_INTERVAL, MAP_GET_BY_KEY_LIST = 86, 107
MAP_OPS = 64
NONE, COUNT, KEY, VALUE, KEY_VALUE, EXISTS, UNORDERED_MAP, ORDERED_MAP = 0, 5, 6, 7, 8, 13, 16, 17
NO_OVERWRITE, NO_CREATE, NO_FAIL, DO_PARTIAL = 1, 2, 4, 8
INVERTED = 0x10000
CONTEXT_KEY_OF_MAP, CREATE_MASK = 0x22, 0x1C0


def run(value: Any, call: list[Any], modify: bool) -> tuple[Any, Any]:
    """Answer of the operation ``call`` on ``value``, and the new value; ``value`` itself never changes.

    ``value`` is ``None`` where there is no bin; an answer of ``None`` is no answer.
    """
    op, *args = call
    if op == CONTEXT_EVAL:
        context, (op, *args) = args
        return _in_context(value, context, op, args, modify)
    if not isinstance(op, int):
        raise Refused(PARAMETER, f"operation {op!r}")
    return _run(value, op, args, modify)


def _run(value: Any, op: int, args: list[Any], modify: bool) -> tuple[Any, Any]:
    known = _MODIFY if modify else _READ
    if op not in known:
        raise NotModelledError(f"{'modify' if modify else 'read'} operation {op} on a map or list")
    wanted = Map if op >= MAP_OPS else list
    if value is None and not modify:
        raise Refused(INCOMPATIBLE_TYPE, "there is no bin")
    if value is not None and not isinstance(value, wanted):
        raise Refused(INCOMPATIBLE_TYPE, f"not a {wanted.__name__}")
    return known[op](value, args)


def _in_context(value: Any, context: list[Any], op: int, args: list[Any], modify: bool) -> tuple[Any, Any]:
    """The operation on a value inside nested maps, reached by keys."""
    if not context:
        return _run(value, op, args, modify)
    kind, key, *rest = context
    create = kind & CREATE_MASK
    if kind & ~CREATE_MASK != CONTEXT_KEY_OF_MAP:
        raise NotModelledError(f"context 0x{kind:x}")
    if value is not None and not isinstance(value, Map):
        raise Refused(INCOMPATIBLE_TYPE, "the context is not in a map")
    if value is None or key not in value:
        if not (modify and create):
            raise Refused(OP_NOT_APPLICABLE, "nothing at the context")
        inner: Any = Map((), {0x40: 0, 0x80: 1, 0xC0: 3}[create])
    else:
        inner = value[key]
    answer, made = _in_context(inner, rest, op, args, modify)
    if not modify:
        return answer, value
    outer = Map(() if value is None else value, KEY_ORDERED if value is None else value.flags)
    outer[key] = made
    return answer, outer


def _list_append(value: list[Any] | None, args: list[Any]) -> tuple[Any, Any]:
    made = [*(value or []), args[0]]
    return len(made), made


def _list_append_items(value: list[Any] | None, args: list[Any]) -> tuple[Any, Any]:
    made = [*(value or []), *args[0]]
    return len(made), made


def _list_size(value: list[Any], args: list[Any]) -> tuple[Any, Any]:
    return len(value), value


def _list_get_range(value: list[Any], args: list[Any]) -> tuple[Any, Any]:
    start = args[0] if args[0] >= 0 else max(0, len(value) + args[0])
    return value[start : start + args[1]] if len(args) > 1 else value[start:], value


def _set_type(value: Map | None, args: list[Any]) -> tuple[Any, Any]:
    return None, Map(value or (), args[0] & ~PERSIST_INDEX)


def _put(value: Map | None, args: list[Any]) -> tuple[Any, Any]:
    key, item, *more = args
    if len(more) > 1:
        more[1] &= ~DO_PARTIAL  # one item has no parts
    return _put_items(value, [Map([(key, item)]), *more])


def _put_items(value: Map | None, args: list[Any]) -> tuple[Any, Any]:
    items = args[0]
    flags = args[1] if len(args) > 1 else 0
    how = args[2] if len(args) > 2 else 0
    if not isinstance(items, Map) or any(type(key) not in (int, str, bytes) for key in items):
        raise Refused(PARAMETER, "not a map of keys and values")
    if not value and how & NO_CREATE and how & NO_FAIL and how & DO_PARTIAL:
        how &= ~NO_CREATE  # as the server has it for an empty map
    made = Map(value or (), flags & ~PERSIST_INDEX if value is None else value.flags)
    size = 8 if value is None else packed_size(value)
    for key, item in items.items():
        if key in made:
            refused = ELEMENT_EXISTS if how & NO_OVERWRITE else 0
        else:
            refused = ELEMENT_NOT_FOUND if how & NO_CREATE else 0
        if refused and not how & NO_FAIL:
            raise Refused(refused, f"key {key!r}")
        if refused and not how & DO_PARTIAL:
            return len(value or ()), made if value is None else value
        if refused:
            continue
        size += packed_size(item) - packed_size(made[key]) if key in made else packed_size(key) + packed_size(item)
        made[key] = item
    made.size = size
    return len(made), made


def _clear(value: Map | None, args: list[Any]) -> tuple[Any, Any]:
    return None, None if value is None else Map((), value.flags)


def _size(value: Map, args: list[Any]) -> tuple[Any, Any]:
    return len(value), value


def _selected(value: Map, how: int, keys: list[Any], multi: bool) -> Any:
    """The entries at ``keys`` as the return type ``how`` asks; all others when it says inverted."""
    if how == INVERTED | EXISTS:
        raise NotModelledError("EXISTS of what is not selected")
    if how & INVERTED:
        without = set(keys)
        keys = [key for key in value if key not in without]
    how &= ~INVERTED
    if how == NONE:
        return None
    if how == COUNT:
        return len(keys)
    if how == EXISTS:
        return bool(keys)
    if value.flags & KEY_ORDERED or multi:
        keys = sorted(keys, key=order)
    if how in (KEY, VALUE):
        found = keys if how == KEY else [value[key] for key in keys]
        return found if multi else (found[0] if found else None)
    if how in (KEY_VALUE, UNORDERED_MAP, ORDERED_MAP):
        flags = {KEY_VALUE: PRESERVE_ORDER, UNORDERED_MAP: 0, ORDERED_MAP: KEY_ORDERED}[how]
        return Map(((key, value[key]) for key in keys), flags)
    raise NotModelledError(f"return type {how} of a map operation")


def _by_key(value: Map, args: list[Any]) -> list[Any]:
    return [args[1]] if args[1] in value else []


def _by_key_list(value: Map, args: list[Any]) -> list[Any]:
    if not isinstance(args[1], list):
        raise Refused(PARAMETER, "not a list of keys")
    return [key for key in dict.fromkeys(args[1]) if key in value]


def _between(items: list[tuple[Any, Any]], start: Any, end: list[Any]) -> list[Any]:
    """Keys of ``items`` whose second is at least ``start`` and below ``end``, if there is an end."""
    low = order(start)
    if not end or end[0] is INFINITY:
        return [key for key, found in items if order(found) >= low]
    high = order(end[0])
    return [key for key, found in items if low <= order(found) < high]


def _by_key_interval(value: Map, args: list[Any]) -> list[Any]:
    return _between([(key, key) for key in value], args[1], args[2:])


def _by_value_interval(value: Map, args: list[Any]) -> list[Any]:
    return _between(list(value.items()), args[1], args[2:])


Select = Callable[[Map, list[Any]], list[Any]]
Operation = Callable[[Any, list[Any]], tuple[Any, Any]]


def _getting(select: Select, multi: bool = True) -> Operation:
    def get(value: Map, args: list[Any]) -> tuple[Any, Any]:
        return _selected(value, args[0], select(value, args), multi), value

    return get


def _removing(select: Select, multi: bool = True) -> Operation:
    def remove(value: Map | None, args: list[Any]) -> tuple[Any, Any]:
        if value is None:
            return None, None
        keys = select(value, args)
        gone = set(value) - set(keys) if args[0] & INVERTED else set(keys)
        kept = Map(((key, item) for key, item in value.items() if key not in gone), value.flags)
        return _selected(value, args[0], keys, multi), kept

    return remove


_MODIFY: dict[int, Operation] = {
    LIST_APPEND: _list_append,
    LIST_APPEND_ITEMS: _list_append_items,
    MAP_SET_TYPE: _set_type,
    MAP_PUT: _put,
    MAP_PUT_ITEMS: _put_items,
    MAP_CLEAR: _clear,
    MAP_REMOVE_BY_KEY: _removing(_by_key, multi=False),
    MAP_REMOVE_BY_KEY_LIST: _removing(_by_key_list),
    MAP_REMOVE_BY_VALUE_INTERVAL: _removing(_by_value_interval),
}
_READ: dict[int, Operation] = {
    LIST_SIZE: _list_size,
    LIST_GET_RANGE: _list_get_range,
    MAP_SIZE: _size,
    MAP_GET_BY_KEY: _getting(_by_key, multi=False),
    MAP_GET_BY_KEY_INTERVAL: _getting(_by_key_interval),
    MAP_GET_BY_VALUE_INTERVAL: _getting(_by_value_interval),
    MAP_GET_BY_KEY_LIST: _getting(_by_key_list),
}
