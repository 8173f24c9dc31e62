"""All distributions of the project move together and each is complete."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

tomllib = pytest.importorskip("tomllib", reason="reads pyproject.toml: needs Python 3.11")

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
PLUGINS = PROJECTS[1:]


def pyproject(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())
    return loaded


def name_of(folder: Path) -> str:
    return str(pyproject(folder)["project"]["name"])


def requirements_of(folder: Path) -> list[Requirement]:
    project = pyproject(folder)["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(text) for group in [project["dependencies"], *extras] for text in group]


def lower_bound(requirement: Requirement) -> Version:
    bounds = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
    assert len(bounds) == 1, f"{requirement} has no lower bound"
    return bounds[0]


VERSION = pyproject(ROOT)["project"]["version"]


def test_there_are_plugins() -> None:
    assert "solus-memory" in map(name_of, PLUGINS)


@pytest.mark.parametrize("folder", PROJECTS, ids=name_of)
def test_versions_are_in_lockstep(folder: Path) -> None:
    assert pyproject(folder)["project"]["version"] == VERSION


@pytest.mark.parametrize("folder", PLUGINS, ids=name_of)
def test_a_plugin_needs_the_core_of_its_own_version_and_no_other_plugin(folder: Path) -> None:
    ours = [str(requirement) for requirement in requirements_of(folder) if requirement.name.startswith("solus")]
    assert ours == [f"solus-core=={VERSION}"]


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == VERSION


def test_the_installed_core_is_this_one() -> None:
    assert version("solus-core") == VERSION


@pytest.mark.parametrize("folder", PROJECTS, ids=name_of)
def test_a_distribution_is_complete(folder: Path) -> None:
    project = pyproject(folder)["project"]
    package = folder / str(project["name"]).replace("-", "_")
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / project["readme"]).read_text().startswith("# ")
    assert project["requires-python"] == pyproject(ROOT)["project"]["requires-python"]


@pytest.mark.parametrize("folder", PLUGINS, ids=name_of)
def test_a_plugin_can_be_found_by_the_core(folder: Path) -> None:
    modules = pyproject(folder)["project"]["entry-points"]["solus"].values()
    assert modules
    for module in modules:
        assert (folder / module.replace(".", "/")).with_suffix(".py").is_file(), module


def test_every_lower_bound_is_what_the_lowest_environment_installs() -> None:
    """A bound of ``23.2`` is the series 23.2, of which the pin is the oldest release."""
    pins = {}
    for line in (ROOT / "tests/packaging/lowest.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, pinned = line.partition("==")
            pins[name] = Version(pinned)
    foreign = [r for folder in PROJECTS for r in requirements_of(folder) if not r.name.startswith("solus")]
    bounds = {requirement.name: lower_bound(requirement) for requirement in foreign}
    assert set(pins) == set(bounds)
    for requirement in foreign:
        assert lower_bound(requirement) == bounds[requirement.name], "distributions differ in a bound"
        assert requirement.specifier.contains(pins[requirement.name]), requirement
        release = bounds[requirement.name].release
        assert pins[requirement.name].release[: len(release)] == release, requirement
