"""``--ttl``: whole numbers with a unit (R9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core.cli.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("10d", 864_000_000),
        ("1w", 604_800_000),
    ],
)
def test_units(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    "text", ["", "10", "d", "1.5d", "-1d", "+1d", "1 d", "1D", "1h30m", "0d", "٣d", "1e3s", "9" * 5000 + "d", "1d\n"]
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"10d|more than 0"):
        parse_duration(text)


@given(st.integers(1, 10**15))
def test_what_is_shown_can_be_typed(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds
