"""Outputs on a disk that fills up or loses its power (R25)."""

import csv
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from solus_core.cli.app import run
from solus_core.cli.failures import CommandError
from solus_core.cli.outputs import Output

FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))\n"
COMMAND = "dedup -k id --batch-size 1 --store ./state in.csv"
MAIN = "from solus_core.cli import main; main()"


def dedup(folder: Path, redirection: str, *, code: str = MAIN) -> tuple[int, str]:
    """``solus dedup`` of in.csv in records, and what it said."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" {COMMAND} {redirection}', sys.executable, code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr.splitlines()[0]


@pytest.mark.needs_memory
@pytest.mark.parametrize("redirection", [">> out.csv", "> out.csv", "-o out.csv", "-o new.csv --duplicates out.csv"])
def test_a_disk_that_is_full_in_the_middle_of_a_record_leaves_no_half_of_it(tmp_path: Path, redirection: str) -> None:
    """R25: what the next run appends would be inside the quotes of the half, and no record to any reader."""
    text = "x" * 3_000 + "\nsecond line"
    ids = [0, *range(6)] if "--duplicates" not in redirection else [0] * 7
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(f'{n},"{text}"\n' for n in ids))
    code, said = dedup(tmp_path, redirection, code=FULL.format(10_000) + MAIN)
    assert (code, said.endswith(": File too large")) == (1, True)
    with (tmp_path / "out.csv").open(newline="") as lines:
        assert list(csv.reader(lines)) == [["id", "text"], *([str(n), text] for n in ids[1:4])]
    if redirection == ">> out.csv":
        assert dedup(tmp_path, redirection)[0] == 0
        with (tmp_path / "out.csv").open(newline="") as lines:
            assert list(csv.reader(lines)) == [["id", "text"], *([str(n), text] for n in range(6))]


@pytest.mark.parametrize("form", [b"a\n", b"a\0"])
def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: bytes) -> None:
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / "out").write_bytes(b"half")
    output = Output(fd, "out", form[-1:])

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(CommandError, match="can't write out: Input/output error"):
            output.write([form])
    assert (tmp_path / "out").read_bytes() == b"half"
    output.write([form])
    output.close()
    assert (tmp_path / "out").read_bytes() == b"half" + form[-1:] + form


def test_a_failed_write_takes_nothing_from_others_who_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R25: theirs may be marked."""
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    output = Output(fd, "out", b"\n")

    def fail(_: int) -> None:
        with (tmp_path / "out").open("ab") as other:
            other.write(b"theirs\n")
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CommandError):
        output.write([b"ours\n"])
    output.close()
    assert (tmp_path / "out").read_bytes() == b"ours\ntheirs\n"


def test_a_failed_write_does_not_move_what_follows_in_a_shared_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``{ solus dedup a; echo done; } > out``."""
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"before\n")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CommandError):
        Output(fd, "out", b"\n").write([b"ours\n"])
    os.write(fd, b"after\n")
    os.close(fd)
    assert (tmp_path / "out").read_bytes() == b"before\nafter\n"


@pytest.mark.needs_memory
@pytest.mark.parametrize("can", [True, False])
def test_the_name_of_a_new_file_is_on_disk_before_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    """R25: else a power cut takes the file away, and its records are marked."""
    (tmp_path / "in").write_bytes(b"a\n")
    (tmp_path / "link").symlink_to("folder/out")
    (tmp_path / "folder").mkdir()
    synced = []

    def fsync(fd: int) -> None:
        found = os.fstat(fd)
        synced.append(found.st_ino)
        if stat.S_ISDIR(found.st_mode) and not can:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    assert run(["dedup", "-o", str(tmp_path / "link"), str(tmp_path / "in")]) == 0
    assert synced == [(tmp_path / name).stat().st_ino for name in ("folder", "folder/out")]
