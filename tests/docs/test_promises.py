"""Every promise has a test that cites its number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_promise_is_cited_by_a_test() -> None:
    promised = re.findall(r"^- \*\*(R\d+)\*\* ", (ROOT / "docs/reference/promises.md").read_text(), re.MULTILINE)
    assert promised == [f"R{number}" for number in range(1, len(promised) + 1)]
    tests = [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("plugins/*/tests/**/*.py"),
        *ROOT.glob("solus_core/testing/*.py"),
    ]
    cited = {number for path in tests if path != Path(__file__) for number in re.findall(r"\bR\d+\b", path.read_text())}
    assert not set(promised) - cited
