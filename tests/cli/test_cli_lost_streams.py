"""The ``solus`` process without a stderr, or with streams that take nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from solus_core.cli import plugins_cmd
from solus_core.cli.app import run
from solus_core.plugins import PluginInfo

SOLUS = f'"{sys.executable}" -c "from solus_core.cli import main; main()"'

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def shell(command: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, standard output and stderr of what follows ``solus``."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {SOLUS} {command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.needs_memory
@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_a_run_succeeds_though_nobody_gets_its_summary(tmp_path: Path, redirection: str) -> None:
    (tmp_path / "in").write_bytes(b"x\nx\n")
    for out in ("x\n", ""):  # it was marked
        assert shell(f"dedup --store ./state in {redirection}", tmp_path) == (0, out, "")
    assert shell(f"dedup --json in {redirection}", tmp_path) == (0, "x\n", "")


@pytest.mark.needs_memory
@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_a_failure_keeps_its_exit_code_though_nobody_gets_the_message(tmp_path: Path, redirection: str) -> None:
    (tmp_path / "in").write_bytes(b"{}\n")
    assert shell(f"dedup --format jsonl -k id in {redirection}", tmp_path) == (3, "", "")
    assert shell(f"dedup --nonsense {redirection}", tmp_path) == (2, "", "")
    assert shell(f"dedup --store nosuch://x/y in {redirection}", tmp_path) == (2, "", "")


@needs_full
@pytest.mark.parametrize("command", ["--help", "--version", "dedup --help", "plugins", "plugins --json"])
def test_a_page_that_can_not_be_written_is_one_line(tmp_path: Path, command: str) -> None:
    found = shell(f"{command} >/dev/full", tmp_path)
    assert found == (1, "", "solus: can't write the output: No space left on device\n")
    assert shell(f"{command} >/dev/full 2>&1", tmp_path) == (1, "", "")


@pytest.mark.parametrize("as_json", [True, False])
def test_plugins_lists_one_whose_metadata_are_lost(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    class Manager:
        plugins = (PluginInfo("lost", None, None, None, "failed", "why"),)  # type: ignore[arg-type]  # what is tested

        @classmethod
        def load(cls) -> Manager:
            return cls()

    monkeypatch.setattr(plugins_cmd, "PluginManager", Manager)
    assert run(["plugins", *(["--json"] if as_json else [])]) == 0
    assert "lost" in capfd.readouterr().out
