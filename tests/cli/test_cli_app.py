"""The ``solus`` command around its subcommands: plugins, progress on a terminal, missing packages."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from solus_core.cli.app import run
from solus_core.model import Atomicity

MAIN = "from solus_core.cli import main; main()"
CASES = Path(__file__).parent.parent / "cases"


def solus(*args: str, code: str = MAIN, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | env,
    )


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A folder for PYTHONPATH with three distributions: one can't be imported, one exits, one is of tomorrow."""
    for name, source in {
        "broken": "raise ImportError('no driver\\nhere')",
        "quitter": "raise SystemExit(3)",
        "tomorrow": "SOLUS_API_VERSION = 99",
    }.items():
        (tmp_path / f"{name}_plugin.py").write_text(source)
        info = tmp_path / f"{name}_dist-2.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 2.5\n")
        (info / "entry_points.txt").write_text(f"[solus]\n{name} = {name}_plugin\n")
    return os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))


def test_plugins_shows_the_culprits_and_works_all_the_same(broken: str) -> None:
    """Case 13: one broken plugin never bricks the command."""
    done = solus("plugins", PYTHONPATH=broken, SOLUS_DISABLED_PLUGINS="nothing")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert rows["broken"].split()[:3] == ["broken", "broken-dist", "2.5"]
    assert "failed" in rows["broken"]
    assert "no driver here" in rows["broken"]
    assert "failed" in rows["quitter"]
    assert "99" in rows["tomorrow"]
    assert "murmur3-md5" in done.stdout


def test_plugins_as_json(broken: str) -> None:
    done = solus("plugins", "--json", PYTHONPATH=broken, SOLUS_DISABLED_PLUGINS="quitter")
    found = {plugin["name"]: plugin for plugin in json.loads(done.stdout)}
    assert found["broken"]["state"] == "failed"
    assert "no driver" in found["broken"]["error"]
    assert (found["broken"]["distribution"], found["broken"]["version"]) == ("broken-dist", "2.5")
    assert found["quitter"]["state"] == "disabled"
    assert found["tomorrow"]["api"] == 99
    assert '"hasher murmur3-md5"' in done.stdout


@pytest.mark.needs_memory
def test_dedup_works_beside_broken_plugins(broken: str) -> None:
    """Case 13."""
    done = solus("dedup", "-q", "-k", "id", str(CASES / "events_with_repeats.jsonl"), PYTHONPATH=broken)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 7)


def test_plugins_into_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "plugins"], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("package", ["click", "rich"])
def test_a_missing_package_is_one_line(package: str) -> None:
    done = solus("--version", code=f"import sys; sys.modules[{package!r}] = None\n" + MAIN)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'solus-core[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_version_and_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capfd.readouterr().out.startswith("solus ")
    assert run(["dedup", "--help"]) == 0
    text = capfd.readouterr().out
    for code in ("0", "1", "2", "3", "130", "141"):
        assert f"\n    {code} " in text, "exit codes are documented"
    assert run(["nosuch"]) == 2
    assert "nosuch" in capfd.readouterr().err


def on_a_terminal(*args: str, stream: str) -> tuple[str, bytes]:
    """What a run shows on a terminal at ``stream`` (stdout or stderr), and what it writes to the other one."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "160"},
        stdout=theirs if stream == "stdout" else subprocess.PIPE,
        stderr=theirs if stream == "stderr" else subprocess.PIPE,
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how a terminal says that the other side has gone
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        other = b"".join(filter(None, process.communicate(timeout=60)))
    assert process.returncode == 0
    return shown.decode(), other


@pytest.mark.needs_memory
def test_progress_is_shown_on_a_terminal_only_and_never_with_quiet() -> None:
    path = str(CASES / "events_with_repeats.jsonl")
    shown, out = on_a_terminal("dedup", "-k", "id", path, stream="stderr")
    assert "12 records, 5 repeats" in shown
    assert "100%" in shown
    assert "12 records in, 7 first-seen" in shown
    assert len(out.splitlines()) == 7
    assert on_a_terminal("dedup", "-q", "-k", "id", path, stream="stderr")[0] == ""
    piped = solus("dedup", "-k", "id", path)
    assert piped.stderr.startswith("12 records in")


@pytest.mark.needs_memory
def test_records_on_a_terminal_are_not_mixed_with_progress() -> None:
    shown, err = on_a_terminal("dedup", "-k", "id", str(CASES / "events_with_repeats.jsonl"), stream="stdout")
    assert len(shown.splitlines()) == 7
    assert err.startswith(b"12 records in")


def test_plugins_on_a_terminal_is_a_table() -> None:
    shown, err = on_a_terminal("plugins", stream="stdout")
    assert "┃" in shown
    assert "hashing" in shown
    assert err == b""


@pytest.mark.needs_memory
def test_r5_mark_first_on_a_store_that_can_not_claim(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("solus_memory.data_store.MemoryDataStore.atomicity", Atomicity.NONE)
    events = tmp_path / "events.txt"
    events.write_text("a\na\n")
    assert run(["dedup", "--mark-first", str(events)]) == 2
    out, err = capfd.readouterr()
    assert (out, "--mark-first needs a store that promises atomicity" in err) == ("", True)
    assert run(["dedup", str(events)]) == 0
    assert capfd.readouterr().out == "a\n"
