"""Expressions: checked and built as the server does it (result code 4 when wrong), then evaluated on a record.

The third truth value, UNKNOWN, is what a missing bin, a wrong type and a failed call give; it passes through
comparisons, ``Not``, ``Max`` and a ``Cond`` whose test it is, and ``And``/``Or`` where nothing else decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aerospike_double import cdt
from aerospike_double.msgpack import MsgpackError, Raw, comparable, decoded, order, unpack
from aerospike_double.particles import (
    BLOB,
    BOOL,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    NULL,
    PARAMETER,
    STRING,
    NotModelledError,
    Refused,
    type_of,
)


class Subject(Protocol):
    """What an expression is evaluated on."""

    bins: dict[bytes, Any]
    key: bytes | None
    set_name: bytes

    def ttl(self) -> int: ...

    def void_time_ns(self) -> int: ...

    def since_update_ms(self) -> int: ...

    def last_update_ns(self) -> int: ...

    def stored_size(self) -> int: ...


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
Eval = Callable[[Subject, dict[bytes, Any]], Any]

T_NIL, T_BOOL, T_INT, T_STR, T_LIST, T_MAP, T_BLOB, T_FLOAT = 0, 1, 2, 3, 4, 5, 6, 7
T_ANY = -1
"""Type of Unknown(), which fits everywhere in a Cond."""
_PARTICLES = {
    T_NIL: NULL,
    T_BOOL: BOOL,
    T_INT: INTEGER,
    T_STR: STRING,
    T_LIST: LIST,
    T_MAP: MAP,
    T_BLOB: BLOB,
    T_FLOAT: FLOAT,
}
_KINDS = {particle: kind for kind, particle in _PARTICLES.items()}
NAME_LIMIT = 15
CDT_CALL, MODIFY_LOCAL = 0, 0x40


@dataclass(frozen=True)
class Built:
    """An expression that passed the checks: its type and how to evaluate it."""

    kind: int
    run: Eval


def build(node: Any) -> Built:
    """The expression that was unpacked, with raw strings, as ``node``.

    Raises:
        Refused: code 4, as the server refuses one that doesn't fit together.
    """
    try:
        return _build(node, {})
    except (IndexError, ValueError, TypeError) as error:
        raise Refused(PARAMETER, f"expression: {error}") from error


def passes(filter_expression: bytes, subject: Subject) -> bool:
    """Whether a record gets through a filter: unknown doesn't.

    Raises:
        Refused: code 4 when it is no truth value.
    """
    try:
        built = build(unpack(filter_expression, raw=True))
    except MsgpackError as error:
        raise NotModelledError(str(error)) from error
    if built.kind != T_BOOL:
        raise Refused(PARAMETER, "the filter is not a truth value")
    return built.run(subject, {}) is True


def _build(node: Any, names: dict[bytes, int]) -> Built:
    if not isinstance(node, list):
        return _literal(node)
    code, *args = node
    if code in _SPECIAL:
        return _SPECIAL[code](args, names)
    if code in _META:
        kind, meta = _META[code]
        return Built(kind, meta)
    if code in _MATH:
        return _math(_MATH[code], [_build(arg, names) for arg in args])
    if code in _COMPARE:
        return _compare(_COMPARE[code], *(_build(arg, names) for arg in args))
    raise NotModelledError(f"expression op {code!r}")


def _literal(value: Any) -> Built:
    known = decoded(value)
    return Built(_KINDS[type_of(known)], lambda _subject, _names: known)


def _quote(args: list[Any], names: dict[bytes, int]) -> Built:
    known = decoded(args[0])
    if not isinstance(known, list):
        raise Refused(PARAMETER, "a quote of something that is no list")
    return Built(T_LIST, lambda _subject, _names: known)


def _unknown(args: list[Any], names: dict[bytes, int]) -> Built:
    return Built(T_ANY, lambda _subject, _names: UNKNOWN)


def _bin(args: list[Any], names: dict[bytes, int]) -> Built:
    kind, name = args
    _check_bin_name(name)
    wanted = _PARTICLES.get(kind)
    if wanted is None:
        raise NotModelledError(f"a bin of expression type {kind}")

    def run(subject: Subject, _names: dict[bytes, Any]) -> Any:
        value = subject.bins.get(name)
        return UNKNOWN if value is None or type_of(value) != wanted else value

    return Built(kind, run)


def _bin_type(args: list[Any], names: dict[bytes, int]) -> Built:
    (name,) = args
    _check_bin_name(name)
    return Built(T_INT, lambda subject, _names: type_of(subject.bins.get(name)))


def _check_bin_name(name: Any) -> None:
    if not isinstance(name, Raw) or len(name) > NAME_LIMIT:
        raise Refused(PARAMETER, f"bin name {name!r}")


def _record_key(args: list[Any], names: dict[bytes, int]) -> Built:
    (kind,) = args
    particle = {T_INT: INTEGER, T_STR: STRING, T_BLOB: BLOB}[kind]

    def run(subject: Subject, _names: dict[bytes, Any]) -> Any:
        if subject.key is None or subject.key[0] != particle:
            return UNKNOWN
        body = subject.key[1:]
        return int.from_bytes(body, "big", signed=True) if kind == T_INT else body.decode() if kind == T_STR else body

    return Built(kind, run)


def _truths(args: list[Any], names: dict[bytes, int], least: int) -> list[Eval]:
    built = [_build(arg, names) for arg in args]
    if len(built) < least or any(one.kind != T_BOOL for one in built):
        raise Refused(PARAMETER, "needs truth values")
    return [one.run for one in built]


def _and_or(decides: bool) -> Callable[[list[Any], dict[bytes, int]], Built]:
    def make(args: list[Any], names: dict[bytes, int]) -> Built:
        terms = _truths(args, names, 2)

        def run(subject: Subject, values: dict[bytes, Any]) -> Any:
            answer: Any = not decides
            for term in terms:
                found = term(subject, values)
                if found is UNKNOWN:
                    answer = UNKNOWN
                elif found is decides:
                    return decides
            return answer

        return Built(T_BOOL, run)

    return make


def _not(args: list[Any], names: dict[bytes, int]) -> Built:
    (term,) = _truths(args, names, 1)

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        found = term(subject, values)
        return UNKNOWN if found is UNKNOWN else not found

    return Built(T_BOOL, run)


def _compare(compare: Callable[[Any, Any], bool], left: Built, right: Built) -> Built:
    if left.kind != right.kind:
        raise Refused(PARAMETER, f"compares types {left.kind} and {right.kind}")

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        one = left.run(subject, values)
        if one is UNKNOWN:
            return UNKNOWN
        other = right.run(subject, values)
        if other is UNKNOWN:
            return UNKNOWN
        if not comparable(one, other):
            return UNKNOWN
        return compare(order(one), order(other))

    return Built(T_BOOL, run)


def _math(reduce: Callable[[list[Any]], Any], terms: list[Built]) -> Built:
    kinds = {term.kind for term in terms}
    if len(kinds) != 1 or not kinds <= {T_INT, T_FLOAT}:
        raise Refused(PARAMETER, "needs numbers of one type")

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        found = [term.run(subject, values) for term in terms]
        return UNKNOWN if UNKNOWN in found else reduce(found)

    return Built(kinds.pop(), run)


def _cond(args: list[Any], names: dict[bytes, int]) -> Built:
    if len(args) < 3 or len(args) % 2 == 0:
        raise Refused(PARAMETER, "a Cond needs pairs and a default")
    tests = _truths(args[:-1:2], names, 1)
    results = [_build(arg, names) for arg in (*args[1::2], args[-1])]
    kinds = {result.kind for result in results if result.kind != T_ANY}
    if len(kinds) > 1:
        raise Refused(PARAMETER, f"a Cond of types {sorted(kinds)}")

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        for test, result in zip(tests, results, strict=False):
            found = test(subject, values)
            if found is UNKNOWN:
                return UNKNOWN
            if found:
                return result.run(subject, values)
        return results[-1].run(subject, values)

    return Built(kinds.pop() if kinds else T_ANY, run)


def _let(args: list[Any], names: dict[bytes, int]) -> Built:
    known = dict(names)
    definitions: list[tuple[bytes, Eval]] = []
    for name, node in zip(args[:-1:2], args[1:-1:2], strict=True):
        if name in known:
            raise Refused(PARAMETER, f"{name!r} is defined twice")
        made = _build(node, known)
        known[name] = made.kind
        definitions.append((name, made.run))
    body = _build(args[-1], known)

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        inner = dict(values)
        for name, value in definitions:
            inner[name] = value(subject, inner)
        return body.run(subject, inner)

    return Built(body.kind, run)


def _var(args: list[Any], names: dict[bytes, int]) -> Built:
    (name,) = args
    if name not in names:
        raise Refused(PARAMETER, f"{name!r} is not defined")
    return Built(names[name], lambda _subject, values: values[name])


def _call(args: list[Any], names: dict[bytes, int]) -> Built:
    """A map operation as an expression; arguments that are lists are expressions themselves."""
    kind, system, call, bin_node = args
    if system & ~MODIFY_LOCAL != CDT_CALL or kind not in _PARTICLES:
        raise NotModelledError(f"expression call of system {system} for type {kind}")
    modify = bool(system & MODIFY_LOCAL)
    context = decoded(call[1]) if call[0] == cdt.CONTEXT_EVAL else None
    op, *rest = call if context is None else call[2]
    arguments = [_build(arg, names) if isinstance(arg, list) else decoded(arg) for arg in rest]
    source = _build(bin_node, names)
    if source.kind not in (T_NIL, T_LIST, T_MAP):
        raise Refused(PARAMETER, "a map operation on what is no map or list")
    wanted = _PARTICLES[kind]

    def run(subject: Subject, values: dict[bytes, Any]) -> Any:
        given = [arg.run(subject, values) if isinstance(arg, Built) else arg for arg in arguments]
        value = source.run(subject, values)
        if value is UNKNOWN or UNKNOWN in given:
            return UNKNOWN
        command = [op, *given] if context is None else [cdt.CONTEXT_EVAL, context, [op, *given]]
        try:
            answer, made = cdt.run(value, command, modify)
        except NotModelledError:
            raise
        except Refused:
            return UNKNOWN
        result = made if modify else answer
        return result if type_of(result) == wanted else UNKNOWN

    return Built(kind, run)


_COMPARE: dict[int, Callable[[Any, Any], bool]] = {
    1: operator.eq,
    2: operator.ne,
    3: operator.gt,
    4: operator.ge,
    5: operator.lt,
    6: operator.le,
}
_MATH: dict[int, Callable[[list[Any]], Any]] = {
    20: sum,
    21: lambda found: found[0] - sum(found[1:]) if len(found) > 1 else -found[0],
    50: min,
    51: max,
}
_META: dict[int, tuple[int, Eval]] = {
    66: (T_INT, lambda subject, _names: subject.last_update_ns()),
    67: (T_INT, lambda subject, _names: subject.since_update_ms()),
    68: (T_INT, lambda subject, _names: subject.void_time_ns()),
    69: (T_INT, lambda subject, _names: subject.ttl()),
    70: (T_STR, lambda subject, _names: subject.set_name.decode()),
    71: (T_BOOL, lambda subject, _names: subject.key is not None),
    74: (T_INT, lambda subject, _names: subject.stored_size()),
}
_SPECIAL: dict[int, Callable[[list[Any], dict[bytes, int]], Built]] = {
    0: _unknown,
    16: _and_or(decides=False),
    17: _and_or(decides=True),
    18: _not,
    80: _record_key,
    81: _bin,
    82: _bin_type,
    123: _cond,
    124: _var,
    125: _let,
    126: _quote,
    127: _call,
}
