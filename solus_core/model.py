"""The frozen values that everything else passes around: levels, configs, de-dupers. No I/O here."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum, IntEnum
from typing import Final, final

from attrs import asdict, field, frozen

from solus_core.errors import InvalidArgumentError, InvalidConfigError

HASH_FUNCTIONS: Final = range(7, 13 + 1)
SHARDS: Final = range(1_000_000, 150_000_000 + 1)
BITS_PER_SHARD: Final = range(1_000, 30_000 + 1)
# Ten years: the longest record TTL of any backend (Aerospike); it also keeps every expiry within 63 bits.
EXPIRY_SECONDS: Final = range(1, 10 * 366 * 86_400 + 1)
DEFAULT_EXPIRY_SECONDS: Final = 864_000

_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@final
class Level(str, Enum):
    """How far a de-duper reaches: ``XDC`` is one data set for all farms, ``DC`` one per farm (R19)."""

    XDC = "XDC"
    DC = "DC"

    def __str__(self) -> str:
        return self.value


@final
class Atomicity(IntEnum):
    """Among which callers ``add_if_absent`` has exactly one winner (R5). Ordered: more is stronger."""

    NONE = 0
    """Check, then add: two racing callers can both win."""
    PROCESS = 1
    """One winner among the threads of one process."""
    CLUSTER = 2
    """One winner among all threads, processes and machines that share the store."""


@final
@frozen(kw_only=True)
class DeDuperConfig:
    """The parameters of a de-duper; once registered they never change (R13).

    ``hash_functions``: positions set for each entity. ``shards``: number of Bloom filters; an entity belongs
    to one. ``bits_per_shard``: positions of each. ``level``: one data set for all farms or one for each.
    ``expiry_seconds``: when the store may drop a position physically, counted from its last write, and the
    longest TTL that an add accepts.

    Raises :class:`InvalidConfigError` that lists all problems at once (R12).
    """

    hash_functions: int = 7
    shards: int = 1_000_000
    bits_per_shard: int = 1_000
    level: Level = Level.XDC
    expiry_seconds: int = DEFAULT_EXPIRY_SECONDS

    def __attrs_post_init__(self) -> None:
        problems = [
            *_outside("hash_functions", self.hash_functions, HASH_FUNCTIONS),
            *_outside("shards", self.shards, SHARDS),
            *_outside("bits_per_shard", self.bits_per_shard, BITS_PER_SHARD),
            *_outside("expiry_seconds", self.expiry_seconds, EXPIRY_SECONDS),
        ]
        if not isinstance(self.level, Level):
            problems.append(f"level is {self.level!r}, allowed are Level.XDC and Level.DC")
        if problems:
            raise InvalidConfigError("de-duper config", problems)

    def differences(self, requested: DeDuperConfig) -> dict[str, tuple[object, object]]:
        """Each field that differs, as ``(ours, requested)``."""
        ours, theirs = asdict(self), asdict(requested)
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}


def _outside(name: str, value: object, allowed: range) -> list[str]:
    if type(value) is int and value in allowed:
        return []
    return [f"{name} is {value!r}, allowed are whole numbers from {allowed[0]:,} to {allowed[-1]:,}"]


@final
@frozen(kw_only=True)
class DeDuper:
    """A registered de-duper, as the meta-store records it.

    ``hasher``: name of the hasher it was registered with (R18). ``layout``: how its data store writes
    positions, in that backend's own words; empty where a backend has one layout only. ``planned_keys``: how many
    keys were expected to be alive at once when the config was chosen, 0 if nobody said; for warnings only.
    ``created_at`` and ``updated_at``: epoch milliseconds, UTC.
    """

    name: str
    client_id: str
    config: DeDuperConfig
    hasher: str = "murmur3-md5"
    layout: str = ""
    active: bool = True
    planned_keys: int = field(default=0, eq=False)
    created_at: int = field(default=0, eq=False)
    updated_at: int = field(default=0, eq=False)


def check_identifier(what: str, value: object) -> str:
    """``value`` if it may be a client id, table, set or farm name (R17), else an error that says why."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if not _IDENTIFIER.fullmatch(value):
        raise InvalidArgumentError(
            f"{what} is {value!r}, allowed are 1 to 100 characters of ASCII letters, digits, '_', '-' and '.'"
        )
    return value


def check_deduper_name(value: object) -> str:
    """``value`` if it may name a de-duper (R17), else an error that says why."""
    if not isinstance(value, str):
        raise TypeError(f"the name of a de-duper must be a str, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"de-duper name {value!r} has a lone surrogate, which UTF-8 can't encode") from None
    if not 1 <= size <= 255:
        raise InvalidArgumentError(f"de-duper name {value[:40]!r} has {size} bytes in UTF-8, allowed are 1 to 255")
    for char in value:
        # A "|" separates the parts of storage keys: with one in a name, two de-dupers could share keys.
        if char == "|" or unicodedata.category(char) == "Cc":
            raise InvalidArgumentError(f"de-duper name {value!r} has {char!r}, which is not allowed")
    return value
