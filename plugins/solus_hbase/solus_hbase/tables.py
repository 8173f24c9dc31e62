"""Makes sure that the tables are there before the first entity comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Gateway
from solus_hbase.layout import split_keys

T = TypeVar("T")

_PATIENCE: Final = 60.0
"""Seconds that a table may take until it can be used: somebody else may just be creating it."""
_PAUSE: Final = 0.1


def ensure_table(gateway: Gateway, config: HBaseConfig, table: str, family: bytes) -> None:
    """Create ``table`` with ``family`` unless it exists; return once it can be used.

    Of two who create it at once one is refused by the server; both go on. Raises ``StoreError`` with the code
    ``TABLE_CREATION_ERROR`` if that fails, or if the table exists without the family.
    """
    try:
        families = gateway.families(table)
        if families is None:
            families = created(
                gateway,
                table,
                lambda: gateway.create_table(table, family, config.compression, split_keys(config.splits)),
            )
        if families is not None and family in families:
            wait_until_usable(gateway, table)
            return
    except StoreError as error:
        raise StoreError(ErrorCode.TABLE_CREATION_ERROR, f"table {table!r}: {error.message}") from (
            error.__cause__ or error
        )
    found = "is not there although it was created" if families is None else f"has {_names(families)}"
    raise StoreError(
        ErrorCode.TABLE_CREATION_ERROR,
        f"table {table!r} needs the column family {family.decode()!r} and {found}: "
        "use another table, or add the family to this one",
    )


def created(gateway: Gateway, table: str, create: Callable[[], None]) -> frozenset[bytes] | None:
    """The families of the table that ``create`` has created, or somebody else meanwhile."""
    until = time.monotonic() + _PATIENCE
    try:
        create()
    except StoreError as error:
        # Somebody else may have been first, or the server slower than our patience with one call: it goes on then.
        while (found := _asked(lambda: gateway.families(table), until)) is None:
            if not error.in_doubt or time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        return found
    return gateway.families(table)


def wait_until_usable(gateway: Gateway, table: str) -> None:
    """Return once a table that exists can be used; ``StoreError`` after a minute."""
    until = time.monotonic() + _PATIENCE
    while not _asked(lambda: gateway.available(table), until):
        if time.monotonic() > until:
            raise StoreError(ErrorCode.TABLE_CREATION_ERROR, f"it exists, but could not be used for {_PATIENCE:g} s")
        time.sleep(_PAUSE)


def _asked(question: Callable[[], T], until: float) -> T:
    """The answer; asked again where none comes in time, as a server that creates a table is slow with all else."""
    while True:
        try:
            return question()
        except StoreError as error:
            if not isinstance(error.__cause__, TimeoutError) or time.monotonic() > until:
                raise


def _names(families: frozenset[bytes]) -> str:
    return ", ".join(repr(name.decode(errors="replace")) for name in sorted(families)) or "none"
