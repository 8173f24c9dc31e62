"""Build all distributions, install nothing but their wheels, and run the tests where no checkout is near.

``python run_on_wheels.py [PYTEST_ARGUMENT...]``; exits as pytest does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
EXTRAS = {ROOT: "[cli,testing]"}


def main(work: Path, pytest_arguments: list[str]) -> int:
    wheels = [build(project, work / "dist" / project.name) for project in PROJECTS]

    venv.create(work / "venv", with_pip=True)
    python = work / "venv" / "bin" / "python"
    wanted = [f"{wheel}{EXTRAS.get(project, '')}" for project, wheel in zip(PROJECTS, wheels, strict=True)]
    subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)

    suite = work / "suite"
    for folder in ["tests", "examples", *(f"plugins/{path.name}/tests" for path in PROJECTS[1:])]:
        # These two are about the checkout itself, all but the test of the wheels.
        skipped = shutil.ignore_patterns("__pycache__", "packaging", "docs")
        shutil.copytree(ROOT / folder, suite / folder, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", suite)  # pytest's settings
    shutil.copy(ROOT / "tests/packaging/test_wheels.py", suite / "tests")
    environment = {**os.environ, "SOLUS_TEST_WHEELS": os.pathsep.join(map(str, wheels))}
    return subprocess.run(
        [python, "-m", "pytest", *pytest_arguments], cwd=suite, env=environment, check=False
    ).returncode


def build(project: Path, into: Path) -> Path:
    """The wheel of ``project``, built from its sdist, so that the sdist is known to be complete."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), str(project)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = into.glob("*.whl")
    return wheel


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        raise SystemExit(main(Path(folder), sys.argv[1:]))
