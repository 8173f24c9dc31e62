"""Durations as people type them: ``10d``, ``90m``, ``500ms``."""

from __future__ import annotations

import re
from typing import Final

_MILLISECONDS: Final = {
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION: Final = re.compile(r"([0-9]{1,18})(ms|[smhdw])", re.ASCII)


def parse_duration(text: str) -> int:
    """Milliseconds of a whole number and a unit (ms, s, m, h, d, w). Raises ``ValueError`` that says what to write."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write a whole number and a unit (ms s m h d w), as in 10d")
    milliseconds = int(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds == 0:
        raise ValueError(f"{text!r} is no time at all: it must be more than 0")
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """The shortest exact form, in the largest unit that divides it; :func:`parse_duration` reads it back."""
    for unit, size in _MILLISECONDS.items():
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    raise AssertionError("1 ms divides every whole number")
