"""The key of a record: which bytes make two records repeats of each other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, final

KeyOf = Callable[[bytes], "bytes | None"]
"""The key of one record; None for a blank one, which carries no event. Raises :class:`BadRecordError`."""

RECORD_LIMIT: Final = 64 << 20
"""Bytes. A CSV record is not held any longer for the sake of a quote that was not closed by then."""
_BLANK: Final = b" \t\r\n"
_QUOTED: Final = re.compile(rb'[^"]*(?:""[^"]*)*')
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


@final
class BadRecordError(Exception):
    """A record without a usable key. ``reason``: one of few texts, to count by; ``detail``: about this record.

    ``line``: of the record, from 0, that is at fault.
    """

    def __init__(self, reason: str, detail: str = "", line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.line = line


def line_count(record: bytes) -> int:
    """How many lines of its file a record takes up."""
    return record.count(b"\n") + (not record.endswith(b"\n"))


def composite(parts: Sequence[bytes]) -> bytes:
    """Several key parts as one entity: each as ``<length in bytes>:<bytes>`` (a netstring without its comma).

    ``("a", "bc")`` is ``1:a2:bc`` and ``("ab", "c")`` is ``2:ab1:c``. Kept states depend on it: it never changes.
    A single part is the entity itself.
    """
    return parts[0] if len(parts) == 1 else b"".join(b"%d:%b" % (len(part), part) for part in parts)


def line_key(record: bytes) -> bytes:
    """The line without its end, ``\\n`` or ``\\r\\n``. An empty line is a record like any other."""
    return record.removesuffix(b"\n").removesuffix(b"\r")


def nul_key(record: bytes) -> bytes:
    """The record without its NUL."""
    return record.removesuffix(b"\0")


# JSON


@final
class _Repeating(dict[str, object]):
    """A JSON object that names a field more than once; parsers disagree on which one counts."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = {name for name, _ in pairs if name in seen or seen.add(name)}  # type: ignore[func-returns-value]  # add() answers None, which is the point


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeating(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise BadRecordError("not valid JSON", f"{name} is not JSON")


_DECODE: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant).decode
_MISSING: Final = object()


def json_key(names: Sequence[str]) -> KeyOf:
    """Keys of JSON objects by field name.

    ``data.id`` is field ``id`` of the object in field ``data``, ``items.0.id`` looks into the first element of a
    list; a field whose own name is ``data.id`` wins, if there is one. Text and whole numbers are keys, ``1`` and
    ``"1"`` the same one; anything else makes a bad record.
    """
    paths = [(name, tuple(name.split("."))) for name in names]

    def key_of(record: bytes) -> bytes | None:
        event = _parsed(record)
        if event is None:
            return None
        return composite([_json_part(_lookup(event, name, path), name) for name, path in paths])

    if len(paths) > 1 or len(paths[0][1]) > 1:
        return key_of
    ((only, _),) = paths

    def only_key_of(record: bytes) -> bytes | None:
        # The usual case, without what the general one needs.
        event = _parsed(record)
        if event is None:
            return None
        return _json_part(event.get(only, _MISSING) if type(event) is dict else _lookup(event, only, (only,)), only)

    return only_key_of


def _parsed(record: bytes) -> dict[str, object] | None:
    try:
        event = _DECODE(record.decode())
    except UnicodeDecodeError as error:
        raise BadRecordError("not UTF-8", f"at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        if not record.strip(_BLANK):
            return None
        raise BadRecordError("not valid JSON", f"{error.msg} at character {error.pos + 1}") from None
    except ValueError:
        raise BadRecordError("a number has too many digits") from None
    except RecursionError:
        raise BadRecordError("nested too deeply") from None
    if isinstance(event, dict):
        return event
    raise BadRecordError("not a JSON object", f"it is {_kind(event)}")


def _lookup(event: dict[str, object], name: str, path: Sequence[str]) -> object:
    if len(path) > 1 and name in event:
        path = (name,)
    value: object = event
    for part in path:
        if isinstance(value, dict):
            if type(value) is _Repeating and part in value.repeated:
                raise BadRecordError(f"field {part!r} is given more than once")
            value = value.get(part, _MISSING)
        elif isinstance(value, list) and _INDEX.fullmatch(part):
            value = value[int(part)] if int(part) < len(value) else _MISSING
        else:
            return _MISSING
    return value


def _json_part(value: object, name: str) -> bytes:
    if type(value) is str:
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise BadRecordError(f"key {name!r} has a lone surrogate") from None
    if type(value) is int:
        return b"%d" % value
    if value is _MISSING:
        raise BadRecordError(f"key {name!r} is missing")
    raise BadRecordError(f"key {name!r} is {_kind(value)}")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, float):
        return "a number with a fraction or exponent"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "a bare value"


# CSV


def csv_fields(record: bytes, delimiter: bytes) -> list[bytes]:
    """The fields of one record, unquoted (RFC 4180). Raises :class:`BadRecordError`."""
    text = record.removesuffix(b"\n").removesuffix(b"\r")
    if b'"' not in text:
        return text.split(delimiter)
    fields: list[bytes] = []
    at = 0
    while True:
        if text.startswith(b'"', at):
            quoted = _QUOTED.match(text, at + 1)
            end = quoted.end() if quoted else len(text)
            if end == len(text):
                raise _never_closed(record, at)
            fields.append(text[at + 1 : end].replace(b'""', b'"'))
            at = end + 1
            if at < len(text) and not text.startswith(delimiter, at):
                raise BadRecordError("text after a closing quote")
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            fields.append(text[at:end])
            at = end
        if at >= len(text):
            return fields
        at += 1


def _never_closed(record: bytes, opening: int) -> BadRecordError:
    """``opening``: where in the record the quote is. All that came after it went into this one record."""
    before, lines = record.count(b"\n", 0, opening), line_count(record)
    reason = "a quoted field is never closed"
    if len(record) >= RECORD_LIMIT:
        reason = f"a quoted field is not closed within {RECORD_LIMIT >> 20} MiB"
    swallowed = lines - before
    return BadRecordError(reason, f"it took in {swallowed:,} lines" if swallowed > 1 else "", before)


def csv_key(names: Sequence[str], indices: Sequence[int], width: int | None, delimiter: bytes) -> KeyOf:
    """Keys of CSV records by the position of their columns; ``names`` are for messages.

    ``width``: how many columns each record must have, if known: a stray delimiter would shift the key.
    Keys are the bytes of the field. A record whose key columns are all empty has no key.
    """

    def key_of(record: bytes) -> bytes | None:
        if not record.strip(b"\r\n"):
            return None
        fields = csv_fields(record, delimiter)
        if width is not None and len(fields) != width:
            raise BadRecordError("not as many columns as the header", f"{len(fields)}, the header has {width}")
        try:
            parts = [fields[index] for index in indices]
        except IndexError:
            missing = next(name for name, index in zip(names, indices, strict=True) if index >= len(fields))
            raise BadRecordError(f"column {missing} is missing") from None
        if not any(parts):
            raise BadRecordError("the key is empty")
        return composite(parts)

    return key_of
