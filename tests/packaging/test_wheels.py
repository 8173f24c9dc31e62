"""What is in the built wheels. ``tox run -e wheels`` builds them and says where they are."""

from __future__ import annotations

import os
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

WHEELS = [Path(path) for path in os.environ.get("SOLUS_TEST_WHEELS", "").split(os.pathsep) if path]

pytestmark = pytest.mark.skipif(not WHEELS, reason="needs built wheels: tox run -e wheels")


@pytest.fixture(params=WHEELS, ids=lambda path: path.name)
def wheel(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


def package_of(wheel: Path) -> str:
    return wheel.name.split("-")[0]


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_holds_one_typed_package_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    package = package_of(wheel)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {package}
    assert f"{package}/py.typed" in names
    assert not [name for name in names if "/tests/" in name or Path(name).name.startswith("test_")]


def test_carries_licence_readme_and_entry_points(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    assert [name for name in names if name.endswith(".dist-info/entry_points.txt")]
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert "#" in str(metadata.get_payload()), "the README is missing"


def test_is_what_these_tests_run_on(wheel: Path) -> None:
    package = package_of(wheel)
    assert version(package.replace("_", "-")) == metadata_of(wheel)["Version"]
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert "site-packages" in Path(spec.origin).parts, "imported from a checkout, not from the wheel"
