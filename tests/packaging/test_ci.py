"""README, tox.ini, CONTRIBUTING and .ci/run name the same commands and environments."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci/run"


def environments() -> list[str]:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    listed = re.split(r",\s*", tox["tox"]["env_list"].strip())
    assert {f"testenv:{name}" for name in listed} == {name for name in tox.sections() if name.startswith("testenv:")}
    return listed


def test_the_readme_has_the_two_commands_that_ci_takes_from_it() -> None:
    main_job, tests = re.findall(r"^python3 -m venv .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert main_job.endswith(".venv/bin/solus dedup --key id examples/events.jsonl")
    assert tests.endswith(".venv/bin/tox run -e all")


def test_ci_runs_every_environment() -> None:
    script = CI.read_text()
    assert "grep '^python3 -m venv ' README.md" in script
    (others,) = re.findall(r"tox run-parallel .* -e ([\w,]+)", script)
    assert sorted(["all", *others.split(",")]) == sorted(environments())


def test_ci_is_a_bash_script_that_can_be_run() -> None:
    assert os.access(CI, os.X_OK)
    subprocess.run(["bash", "-n", CI], check=True)


def test_contributing_describes_every_environment() -> None:
    described = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert sorted(described) == sorted(environments())
