"""How a record becomes a row."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final, TypeGuard, final

from attrs import frozen

from solus_core.errors import InvalidConfigError

DEFAULT_BUFFER: Final = 2_097_152
_TABLE: Final = re.compile(r"(?:[A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LONGEST_FAMILY: Final = 127


@final
@frozen(kw_only=True)
class TableMapping:
    """Which fields of a record go where.

    ``table``: must exist; ``namespace:table`` if it is not in the namespace of the store. ``row_key_field``: its
    value is the row key. ``timestamp_field``: its value, epoch milliseconds, is the timestamp of all cells; without
    it the server's time is. ``column_families``: qualifiers by family. Each names a field; what a counter's sink
    makes of one that doesn't is said there. ``fields``: the fields that every record has; then a counter's
    qualifier that is among them and missing in a record is an error, and not taken literally.

    ``batch``: buffer records; if not, each is written by one call. ``write_buffer_size``: what is buffered at most,
    as bytes on the wire. ``flush_interval``: how long a record is buffered at most, in milliseconds or as a
    timedelta. ``write_to_wal``: off is durability SKIP_WAL: faster, and what HBase had in memory only is lost when
    a region server crashes.

    Raises ``InvalidConfigError`` with all problems at once.
    """

    table: str
    row_key_field: str
    column_families: Mapping[str, Collection[str]]
    timestamp_field: str | None = None
    fields: Collection[str] | None = None
    batch: bool = True
    write_buffer_size: int = DEFAULT_BUFFER
    flush_interval: int | timedelta = 1_000
    write_to_wal: bool = True

    def __attrs_post_init__(self) -> None:
        problems = [*self._bad_names(), *self._bad_families(), *self._bad_numbers()]
        problems += [
            f"{name} is {getattr(self, name)!r}, allowed are True and False"
            for name in ("batch", "write_to_wal")
            if type(getattr(self, name)) is not bool
        ]
        if problems:
            raise InvalidConfigError("table mapping", problems)

    @property
    def interval_ms(self) -> int:
        """The flush interval in milliseconds."""
        if isinstance(self.flush_interval, timedelta):
            return self.flush_interval // timedelta(milliseconds=1)
        return self.flush_interval

    def _bad_names(self) -> list[str]:
        problems = bad_table(self.table)
        names: list[tuple[str, object]] = [("row_key_field", self.row_key_field)]
        if self.timestamp_field is not None:
            names.append(("timestamp_field", self.timestamp_field))
        problems += [
            f"{what} is {name!r}, allowed is the name of a field" for what, name in names if not _is_name(name)
        ]
        fields: object = self.fields
        if fields is None:
            return problems
        if not _are_names(fields):
            return [*problems, f"fields is {fields!r}, allowed are names of fields"]
        return problems + [
            f"{what} is {name!r}, which is not among the fields" for what, name in names if name not in fields
        ]

    def _bad_families(self) -> list[str]:
        families: object = self.column_families
        if not isinstance(families, Mapping) or not families:
            return [f"column_families is {families!r}, allowed are qualifiers by family, one at least"]
        problems = []
        for family, qualifiers in families.items():
            problems += bad_family(family)
            if not _are_names(qualifiers):
                problems.append(f"family {family!r} has {qualifiers!r}, allowed are qualifiers: texts, not empty")
        return problems

    def _bad_numbers(self) -> list[str]:
        problems = []
        if type(self.write_buffer_size) is not int or self.write_buffer_size < 1:
            problems.append(f"write_buffer_size is {self.write_buffer_size!r}, allowed are whole numbers from 1")
        # 0 would be "always" or "never", depending on who reads it.
        if type(self.flush_interval) not in (int, timedelta) or self.interval_ms < 1:
            problems.append(
                f"flush_interval is {self.flush_interval!r}, allowed are milliseconds from 1, or such a timedelta"
            )
        return problems


def bad_table(name: object) -> list[str]:
    """What is wrong with the name of a table, of one in a namespace too."""
    if isinstance(name, str) and _TABLE.fullmatch(name):
        return []
    return [f"table is {name!r}, which is no name of a table of HBase"]


def bad_family(name: object) -> list[str]:
    """What is wrong with the name of a column family."""
    if not _is_name(name) or not name.isprintable() or name[0] == "." or {":", "/"} & set(name):
        return [f"family {name!r} is no name of a column family of HBase"]
    if len(name.encode()) > _LONGEST_FAMILY:
        return [f"family {name!r} has more than {_LONGEST_FAMILY} bytes"]
    return []


def _are_names(value: object) -> TypeGuard[Collection[str]]:
    # A str is a collection too, of characters that nobody meant.
    return isinstance(value, Collection) and not isinstance(value, str) and bool(value) and all(map(_is_name, value))


def _is_name(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
