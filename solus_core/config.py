"""Where a store is: URLs, mappings and typed configs, and how one becomes the other.

``hbase://h1:9090,h2/solus?farm=dc1`` is parsed once, here, into a :class:`StoreUrl`; the backend says which
setting each part of it is; :func:`build_config` makes the typed config, strictly: unknown settings, wrong types
and bad values are all reported together, each with its name. Passwords never show in ``repr`` or in errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar, final, get_args, get_type_hints
from urllib.parse import unquote

import attrs
import cattrs
from attrs import field, frozen
from cattrs.errors import ForbiddenExtraKeysError, IterableValidationNote

from solus_core.errors import InvalidConfigError, SolusError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PERCENT_ERROR: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRUE_FALSE: Final = {"true": True, "false": False}
_KINDS: Final = {str: "a text", int: "a whole number", float: "a number", bool: "True or False"}
_IPV6: Final = r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?"
_ADDRESS: Final = re.compile(rf"(?:\[({_IPV6})\]|([^\s:/\[\],]+))(?::([0-9]{{1,5}}))?")


class StorageConfig:
    """Base of every backend's typed config, itself a frozen attrs class. Equal configs reach the same store."""

    __slots__ = ()


def wrong_types(config: StorageConfig) -> dict[str, str]:
    """By name, what is wrong with the settings of another Python type than theirs, for ``__attrs_post_init__``.

    Settings are texts, numbers and booleans, or None where their type says so. What attrs doesn't show is not
    quoted. A whole number does for a number; True, to Python a whole number, does not.
    """
    kind: type[Any] = type(config)
    wrong, hints = {}, get_type_hints(kind)
    for a in attrs.fields(kind):
        value, kinds = getattr(config, a.name), get_args(hints[a.name]) or (hints[a.name],)
        fits = isinstance(value, (*kinds, int) if float in kinds else kinds)
        if not fits or (isinstance(value, bool) and bool not in kinds):
            said = repr(value) if a.repr is True else "of another type"
            wrong[a.name] = f"{a.name} is {said}, and must be {_KINDS[kinds[0]]}"
    return wrong


def wrong_hosts(hosts: str) -> list[str]:
    """What is wrong with ``host``, ``host:port`` or ``[IPv6]:port``, one or more with commas between them."""
    problems = []
    for text in hosts.split(","):
        match = _ADDRESS.fullmatch(text)
        if match is None or not text.isprintable():
            problems.append(f"host {text!r} is not of the form host, host:port or [IPv6]:port")
        elif match[3] is not None and not 1 <= int(match[3]) <= 65_535:
            problems.append(f"host {text!r} has port {match[3]}, allowed are 1 to 65535")
    return problems


def addresses(hosts: str, port: int) -> tuple[tuple[str, int], ...]:
    """Host and port of each of ``hosts``, with nothing wrong, in order; ``port``: of those without one."""
    matches = filter(None, map(_ADDRESS.fullmatch, hosts.split(",")))
    return tuple((match[1] or match[2], int(match[3] or port)) for match in matches)


class StorageContext:
    """Base of every backend's live context: the client that its stores use.

    ``close`` releases what the context opened, and only that: a client that the user brought stays open.
    """

    __slots__ = ()

    def close(self) -> None:
        """Release what this context opened; closing again is fine."""


@final
@frozen
class StoreUrl:
    """The parts of a store URL, percent-decoded. ``password`` does not show in ``repr``."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...] = ()
    path: str = ""
    options: Mapping[str, str] = field(
        factory=dict, repr=lambda options: str(sorted(options))
    )  # names only: a value may be secret
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@final
@frozen
class Backend:
    """What a plugin offers under one URL scheme.

    ``settings_from_url`` answers the settings of ``config`` (by field name) that a URL means; ``options`` of the
    URL included. ``connect`` makes the live context and may import the driver; nothing before it may.
    """

    scheme: str
    config: type[StorageConfig]
    settings_from_url: Callable[[StoreUrl], Mapping[str, object]]
    connect: Callable[[Any], StorageContext]
    summary: str


def scheme_of(url: str) -> str:
    """The scheme of a store URL, in lower case; a text without one is an ``InvalidConfigError``."""
    match = _SCHEME.match(url)
    if match is None:
        # Not the text itself: a password may be in it.
        raise InvalidConfigError("store URL", ["it must start with a scheme, as in memory:// or hbase://host/table"])
    return match[1].lower()


def parse_url(url: str) -> StoreUrl:
    """The parts of ``scheme://[user[:password]@]host[:port][,host[:port]...]/path?option=value&...``.

    Raises ``InvalidConfigError`` that lists everything wrong with it, without ever quoting a password.
    """
    scheme = scheme_of(url)
    problems: list[str] = []

    def decoded(what: str, text: str, *, secret: bool = False) -> str:
        try:
            if _PERCENT_ERROR.search(text):
                raise ValueError
            return unquote(text, errors="strict")
        except ValueError:
            problems.append(
                f"{what} is {'(hidden)' if secret else repr(text)}, "
                "where a % is not followed by two hexadecimal digits of UTF-8 text (write %25 for a % itself)"
            )
            return ""

    rest = url.partition("://")[2]
    if "#" in rest:
        problems.append("it has a '#': write %23 where one is meant")
        rest = rest.partition("#")[0]
    location, _, query = rest.partition("?")
    authority, slash, path = location.partition("/")
    if url.count("@") > authority.count("@"):
        # Most likely a password with a "/" or the like in it: nothing of it may be quoted below.
        raise InvalidConfigError(
            f"{scheme}:// URL",
            ["it has an '@' behind a '/', '?' or '#': write these in a password as %2F, %3F, %23, and an '@' as %40"],
        )
    login, at, host_list = authority.rpartition("@")
    name, colon, secret = login.partition(":")
    hosts = tuple(_host(text, problems, decoded) for text in host_list.split(",")) if host_list else ()

    options: dict[str, str] = {}
    for number, item in enumerate(query.split("&") if query else (), 1):
        key, equals, value = item.partition("=")
        key = decoded(f"the name of option {number}", key, secret=not equals)
        if not equals or not key:
            problems.append(f"option {number} is not of the form name=value")
        elif key in options:
            problems.append(f"option {key!r} is given twice")
        else:
            options[key] = decoded(f"option {key!r}", value, secret=True)
    parsed = StoreUrl(
        scheme=scheme,
        hosts=hosts,
        path=decoded("the path", slash + path),
        options=options,
        user=decoded("the user", name) if at else None,
        password=decoded("the password", secret, secret=True) if at and colon else None,
    )
    if problems:
        raise InvalidConfigError(f"{scheme}:// URL", problems)
    return parsed


def _host(text: str, problems: list[str], decoded: Callable[[str, str], str]) -> tuple[str, int | None]:
    match = re.fullmatch(rf"(\[{_IPV6}\]|[^:\[\]]+)(?::(.*))?", text)
    if match is None:
        problems.append(f"host {text!r} is not of the form host, host:port or [IPv6]:port")
        return "", None
    host, port = decoded("a host", match[1].strip("[]")), match[2]
    if port is None:
        return host, None
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        problems.append(f"host {host!r} has port {port!r}, allowed are 1 to 65535")
        return host, None
    return host, int(port)


Config = TypeVar("Config")


def build_config(config: type[Config], settings: Mapping[str, object], what: str) -> Config:
    """A ``config`` of ``settings``, by field name; text is converted (``"8"``, ``"true"``), as URLs have only text.

    ``what`` says in errors whose settings they are. Raises ``InvalidConfigError`` with all problems at once.
    """
    try:
        return _CONVERTER.structure(settings, config)
    except cattrs.BaseValidationError as group:
        # Not "from group": a chained traceback would quote what is hidden here.
        raise InvalidConfigError(what, list(_problems(group, config))) from None
    except SolusError:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidConfigError(what, [str(error)]) from error


def _problems(group: cattrs.BaseValidationError, config: type[Any], path: str = "") -> list[str]:
    found: list[str] = []
    secret = [a.name for a in attrs.fields(config) if a.repr is not True]
    for error in group.exceptions:
        at = path
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, IterableValidationNote):
                at = f"{path}[{note.index}]"
            elif (name := getattr(note, "name", None)) is not None:
                at = f"{path}.{name}" if path else str(name)
        if isinstance(error, ForbiddenExtraKeysError):
            allowed = ", ".join(sorted(a.name for a in attrs.fields(error.cl) if a.init))
            found += [
                f"{key!r} is not a setting, allowed are {allowed or 'none'}"
                for key in sorted(map(str, error.extra_fields))
            ]
        elif isinstance(error, cattrs.BaseValidationError):
            found += _problems(error, config, at)
        elif isinstance(error, InvalidConfigError):
            found += error.problems
        elif isinstance(error, KeyError):
            found.append(f"{at or error.args[0]} is missing")
        else:
            text = error.message if isinstance(error, SolusError) else str(error)
            if re.split(r"[.\[]", at)[0] in secret:
                text = "the value, which is not shown here, is of the wrong kind"
            found.append(f"{at}: {text}" if at else text)
    return found


def _strict_int(value: object, _: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    raise ValueError(f"{value!r} is not a whole number")


def _strict_float(value: object, _: object) -> float:
    if type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]  # the line above says it is a number
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", value):
        return float(value)
    raise ValueError(f"{value!r} is not a number")


def _strict_bool(value: object, _: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUE_FALSE:
        return _TRUE_FALSE[value]
    raise ValueError(f"{value!r} is neither true nor false")


def _strict_str(value: object, kind: type[str]) -> str:
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{value!r} is none of {', '.join(each.value for each in kind)}") from None
    if isinstance(value, str):
        return value
    raise ValueError(f"{value!r} is not a text")


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    converter.register_structure_hook(int, _strict_int)
    converter.register_structure_hook(float, _strict_float)
    converter.register_structure_hook(bool, _strict_bool)
    converter.register_structure_hook(str, _strict_str)
    return converter


_CONVERTER: Final = _make_converter()
