"""Numbers as people type them: ``100M`` and ``2_000_000`` keys, rates of ``0.1%`` or ``1e-6``."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeVar

import click

from solus_core.errors import InvalidArgumentError
from solus_core.planning import check_keys, check_rate

Value = TypeVar("Value")

_REST: Final = r"(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?)"
_COUNT: Final = re.compile(r"([0-9]{1,20}(?:[_,][0-9]{3}){0,6}" + _REST + r" ?([kKmMgGbBtT]?)")
# No comma here: to some it is the decimal point, and 0,001 must not become 1.
_RATE: Final = re.compile(r"(-?(?=\.?[0-9])[0-9]{0,20}" + _REST + r" ?(%?)")
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
_SWAPPED: Final = "; were keys and rate swapped?"


def parse_number(text: str) -> Decimal:
    """A number of 0 or more, exactly; k, M, G (or B) and T stand for 10**3 to 10**12. Raises ``ValueError``."""
    match = _COUNT.fullmatch(text)
    if match is None:
        hint = _SWAPPED if text.endswith("%") else ""
        raise ValueError(f"{text!r} is not a number: write it as 2000000, 2_000_000, 1.5M or 2e6{hint}")
    return Decimal(match[1].replace(",", "").replace("_", "")) * _FACTORS[match[2].lower()]


def parse_keys(text: str) -> int:
    """A whole number from 1. Raises ``ValueError`` that says what to write."""
    number = parse_number(text)
    if number != int(number):
        raise ValueError(f"{text!r} is no whole number of keys{_SWAPPED if number < 1 else ''}")
    try:
        check_keys(int(number), 1)
    except InvalidArgumentError as error:
        raise ValueError(error.message) from error
    return int(number)


def parse_rate(text: str) -> float:
    """A rate in (0, 1), as a fraction or in per cent. Raises ``ValueError`` that says what was probably meant."""
    match = _RATE.fullmatch(text)
    if match is None:
        hint = _SWAPPED if _COUNT.fullmatch(text) else ""
        raise ValueError(f"{text!r} is not a rate: write it as 0.1%, 0.001 or 1e-3{hint}")
    try:
        return check_rate(float(Decimal(match[1]) / (100 if match[2] else 1)))
    except InvalidArgumentError as error:
        raise ValueError(error.message) from error


def option_of(parse: Callable[[str], Value]) -> Callable[[click.Context, click.Parameter, str | None], Value | None]:
    """The callback of a click option, of a function that raises ``ValueError``."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> Value | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback
