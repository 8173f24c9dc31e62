"""The false-positive rates in the README are what the planner computes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from solus_core import DeDuperConfig
from solus_core.planning import false_positive_rate

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(
    r"^\| (\d+) million \| (\d+) in ([\d,]+)( million)? \|$", (ROOT / "README.md").read_text(), re.MULTILINE
)


def test_there_are_figures() -> None:
    assert len(ROWS) >= 3


@pytest.mark.parametrize(("millions", "wrong", "among", "unit"), ROWS)
def test_a_figure_is_right_to_one_digit(millions: str, wrong: str, among: str, unit: str) -> None:
    stated = int(wrong) / (int(among.replace(",", "")) * (1_000_000 if unit else 1))
    assert stated == pytest.approx(false_positive_rate(DeDuperConfig(), int(millions) * 1_000_000), rel=0.1)
