"""Runs the mutants through the kit in a process of its own: ``kit_runner.py OUT WANTED``.

WANTED is a JSON file ``{mutant: [kit tests to run]}``, or ``null`` for all. Writes to OUT, as JSON,
``{mutant: {kit test: outcome}}``. The plugins among the mutants are installed for this run by a throw-away
``*.dist-info``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

KIT = Path(__file__).parent


class Report:
    """A pytest plugin: only what is wanted is run, and its outcomes are kept."""

    def __init__(self, wanted: dict[str, list[str]] | None, place: Path) -> None:
        self.wanted, self.place = wanted, place
        self.outcomes: dict[str, dict[str, str]] = defaultdict(dict)

    @staticmethod
    def _place(nodeid: str) -> tuple[str, str]:
        _, kind, test = nodeid.split("::", 2)
        return kind.removeprefix("Test"), test.partition("[")[0]

    def pytest_sessionstart(self) -> None:
        install_plugins(self.place)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted is not None:
            items[:] = [
                item
                for mutant, test, item in ((*self._place(item.nodeid), item) for item in items)
                if test in self.wanted.get(mutant, ())
            ]

    def pytest_runtest_logreport(self, report: Any) -> None:
        mutant, test = self._place(report.nodeid)
        if report.failed:
            # A wrong answer is what should be found; a mutant that only crashes proves little.
            self.outcomes[mutant][test] = f"failed: {str(report.longrepr.reprcrash.message).splitlines()[0]}"
        elif report.skipped:
            self.outcomes[mutant].setdefault(test, "skipped")
        elif report.when == "call":
            self.outcomes[mutant].setdefault(test, "passed")


def install_plugins(place: Path) -> None:
    """Make the plugins of mutants_plugin.py visible to this process."""
    import mutants_plugin  # noqa: PLC0415  # found beside this script, at run time only

    info = place / "kit_mutants-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kit-mutants\nVersion: 1.0\n")
    lines = [f"{plugin.scheme} = mutants_plugin:{plugin.scheme}" for plugin in mutants_plugin.PLUGINS]
    (info / "entry_points.txt").write_text("\n".join(["[solus]", *lines, ""]))
    sys.path.insert(0, str(place))


def main() -> None:
    out, wanted = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    with tempfile.TemporaryDirectory() as place:
        report = Report(wanted, Path(place))
        pytest.main([str(KIT / "mutant_suite.py"), "-q", "--tb=line", "-p", "no:cacheprovider"], plugins=[report])
    out.write_text(json.dumps(report.outcomes))


if __name__ == "__main__":
    main()
