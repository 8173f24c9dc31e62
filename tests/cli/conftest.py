"""What several tests of the command line share: a state file, and ``solus`` run on it in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from solus_core.cli.app import run


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"memory://{tmp_path}/state"


@pytest.fixture
def on_store(store: str, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``solus`` with these arguments on the store; answers exit code, output and error output."""
    return lambda *args: (run([*args, "--store", store]), *capfd.readouterr())
