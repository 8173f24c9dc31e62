"""Numbers as people type them: ``100M`` and ``2_000_000`` keys, rates of ``0.1%`` or ``1e-6``."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeVar

import click

from solus_core.errors import InvalidArgumentError
from solus_core.planning import MAX_KEYS, check_rate

Value = TypeVar("Value")

_REST: Final = r"(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?)"
# No commas: to some they are decimal points, and neither may 0,001 become 1 nor 1,5M be 15 million.
_COUNT: Final = re.compile(r"([0-9]{1,20}(?:_[0-9]{3}){0,6}" + _REST + r" ?([kKmMgGbBtT]?)")
_RATE: Final = re.compile(r"(-?(?=\.?[0-9])[0-9]{0,20}" + _REST + r" ?(%?)")
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}
_GROUPED: Final = re.compile(r"[1-9][0-9]{0,2}\.[0-9]{3}")
"""One, or one thousand? That depends on where the reader lives, so it is refused."""
_SWAPPED: Final = "; were keys and rate swapped?"


def parse_number(text: str) -> Decimal:
    """A number of 0 or more, exactly; k, M, G (or B) and T stand for 10**3 to 10**12. Raises ``ValueError``."""
    match = _COUNT.fullmatch(text)
    if match is None:
        why = "has a comma, the decimal point to some" if "," in text else "is not a number"
        hint = _SWAPPED if text.endswith("%") else ""
        raise ValueError(f"{_quoted(text)} {why}: write it as 2000000, 2_000_000, 1.5M or 2e6{hint}")
    if _GROUPED.fullmatch(text):
        whole, digits = text.split(".")
        raise ValueError(f"{text!r} can be read in two ways: write it as {whole}_{digits} or as {whole}.{digits}0")
    return Decimal(match[1].replace("_", "")) * _FACTORS[match[2].lower()]


def parse_keys(text: str) -> int:
    """A whole number from 1. Raises ``ValueError`` that says what to write."""
    number = parse_number(text)
    if number != int(number):
        raise ValueError(f"{_quoted(text)} is no whole number of keys{_SWAPPED if number < 1 else ''}")
    if not 1 <= number <= MAX_KEYS:
        raise ValueError(f"the number of keys is {_quoted(text)}, allowed are 1 to 10**15")
    return int(number)


def parse_rate(text: str) -> float:
    """A rate in (0, 1), as a fraction or in per cent. Raises ``ValueError`` that says what was probably meant."""
    match = _RATE.fullmatch(text)
    if match is None:
        hint = _SWAPPED if _COUNT.fullmatch(text) else ""
        raise ValueError(f"{_quoted(text)} is not a rate: write it as 0.1%, 0.001 or 1e-3{hint}")
    try:
        return check_rate(float(Decimal(match[1]) / (100 if match[2] else 1)))
    except InvalidArgumentError as error:
        raise ValueError(error.message) from error


def _quoted(text: str) -> str:
    """As Python quotes it, and no longer than a line has room for."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def option_of(parse: Callable[[str], Value]) -> Callable[[click.Context, click.Parameter, str | None], Value | None]:
    """The callback of a click option, of a function that raises ``ValueError``."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> Value | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback
