"""The ``solus`` process: slow and closed pipes, signals, and death at any moment (R25)."""

import gzip
import json
import os
import random
import select
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.needs_memory

MAIN = "from solus_core.cli import main; main()"
TIMEOUT = 60

JOURNAL_PLUGIN = (Path(__file__).parent / "journal_store.py").read_text()


@pytest.fixture(scope="session")
def journal_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for PYTHONPATH with the journal:// plugin, installed as a distribution is."""
    folder = tmp_path_factory.mktemp("journal")
    (folder / "journal_store.py").write_text(JOURNAL_PLUGIN)
    info = folder / "journal_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: journal-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[solus]\njournal = journal_store\n")
    return str(folder)


def python_path(folder: str) -> str:
    return os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(journal_path: str) -> Iterator[Start]:
    """Starts ``solus dedup`` with pipes; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(
        *args: object, code: str = MAIN, stdout: int | IO[bytes] = subprocess.PIPE, **env: str
    ) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-c", code, "dedup", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": python_path(journal_path)} | env,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def finish(process: "subprocess.Popen[bytes]", data: bytes = b"") -> tuple[int, bytes, str]:
    out, err = process.communicate(data, timeout=TIMEOUT)
    assert b"Traceback" not in err, err.decode()
    return process.returncode, out, err.decode()


def send(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def receive(process: "subprocess.Popen[bytes]", size: int) -> bytes:
    """``size`` bytes of its output, or a failure if they don't come while its input stays open."""
    assert process.stdout is not None
    data = b""
    while len(data) < size:
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT)
        assert ready, f"only {data!r} came"
        piece = os.read(process.stdout.fileno(), size - len(data))
        assert piece, f"the output ended after {data!r}"
        data += piece
    return data


# Slow input


@pytest.mark.parametrize(
    ("args", "pieces"),
    [
        ([], [(b"a\n", b"a\n"), (b"a\nb", b""), (b"c\n", b"bc\n")]),
        (["--format", "nul"], [(b"a\0b", b"a\0"), (b"\0", b"b\0")]),
        (["-k", "id"], [(b'{"id": 1}\n{"id', b'{"id": 1}\n'), (b'": 2}\n', b'{"id": 2}\n')]),
        (
            ["-k", "id", "--format", "csv"],
            [(b"id,n\n", b"id,n\n"), (b'1,"a\n', b""), (b'b"\n2,c\n', b'1,"a\nb"\n2,c\n')],
        ),
    ],
)
def test_a_slow_input_is_not_waited_for(start: Start, args: list[str], pieces: list[tuple[bytes, bytes]]) -> None:
    """As in ``tail -f log | solus dedup``: each record is out before the next one comes in."""
    process = start(*args)
    for piece, expected in pieces:
        send(process, piece)
        if expected:
            assert receive(process, len(expected)) == expected
    assert finish(process)[:2] == (0, b"")


def test_a_slow_gzip_input_is_not_waited_for(start: Start) -> None:
    process, packer = start(), zlib.compressobj(wbits=31)
    for line in (b"a\n", b"b\n"):
        send(process, packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH))
        assert receive(process, 2) == line
    assert finish(process, packer.flush())[:2] == (0, b"")


def test_records_are_marked_when_the_next_input_is_waited_for(start: Start, tmp_path: Path) -> None:
    process = start("--store", f"journal://{tmp_path}/marks")
    send(process, b"a\n")
    receive(process, 2)
    send(process, b"b\n")
    receive(process, 2)
    process.kill()
    process.wait()
    assert finish(start("--store", f"journal://{tmp_path}/marks"), b"a\nb\nc\n")[1] in (b"c\n", b"b\nc\n")


# Signals


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_marks_that_match_the_output(
    start: Start, tmp_path: Path, signum: int, code: int
) -> None:
    store = ["--store", f"memory://{tmp_path}/state"]
    process = start(*store)
    send(process, b"a\nb\nc")
    assert receive(process, 4) == b"a\nb\n"
    process.send_signal(signum)
    found, out, err = finish(process)
    assert (found, out) == (code, b"")
    assert err.startswith("2 records in, 2 first-seen, 0 repeats (format lines")
    assert finish(start(*store), b"a\nb\nc\n")[1] == b"c\n"


def test_a_signal_before_any_input(start: Start) -> None:
    """Interrupted while it looks for the format: a handler that only took note would wait for ever."""
    code = "import os, signal, select\nread = os.read\n"
    code += "def first(fd, size):\n    os.kill(os.getpid(), signal.SIGINT)\n    return read(fd, size)\n"
    code += "os.read = first\n" + MAIN
    process = start("--json", code=code)
    process.wait(TIMEOUT)
    found, out, err = finish(process)
    assert (found, out) == (130, b"")
    assert json.loads(err)["records"] == 0


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_hosts_are_tried_is_no_host_that_is_down(
    start: Start, tmp_path: Path, signum: int, code: int
) -> None:
    process = start("--store", f"journal://{tmp_path}/marks", JOURNAL_INTERRUPTED=str(int(signum)))
    assert finish(process) == (code, b"", "")


def test_a_second_signal_aborts(start: Start, tmp_path: Path) -> None:
    """The first one waits for the chunk to be written, and nobody reads it."""
    (tmp_path / "in").write_bytes(b"".join(b"%099d\n" % n for n in range(5_000)))
    process = start(tmp_path / "in")
    receive(process, 1)  # it is writing now
    process.send_signal(signal.SIGINT)
    for _ in range(6):
        process.send_signal(signal.SIGTERM)
        # Both may come just before it begins to wait in a write, which Python does not notice: once more, then.
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
            break
    found, _, err = finish(process)
    assert found == 130
    assert err == "solus: aborted\n"


def test_an_ignored_signal_stays_ignored(start: Start) -> None:
    process = start(code="import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + MAIN)
    send(process, b"a\n")
    receive(process, 2)
    process.send_signal(signal.SIGINT)
    assert finish(process, b"b\n")[:2] == (0, b"b\n")


# Closed outputs


def test_a_closed_pipe_ends_quietly_and_marks_no_more_than_was_written(start: Start, tmp_path: Path) -> None:
    """As in ``solus dedup big | head -1``."""
    lines = [b"%099d\n" % n for n in range(30_000)]
    (tmp_path / "big").write_bytes(b"".join(lines))
    store = ["--store", f"memory://{tmp_path}/state", "--batch-size", "100"]
    process = start(*store, tmp_path / "big", "-q")
    assert process.stdout is not None
    assert receive(process, 100) == lines[0]
    process.stdout.close()
    process.stdout = None
    process.wait(TIMEOUT)
    code, _, err = finish(process)
    assert (code, err) == (141, "")
    again = finish(start(*store, tmp_path / "big"))[1].splitlines(keepends=True)
    # A pipe holds some 64 KiB; what it took counts as written, and not much more can be missing now.
    assert lines[-len(again) :] == again
    assert len(lines) - len(again) < 5_000


def test_a_closed_standard_output_is_an_error(tmp_path: Path) -> None:
    """Else the store's file might get number 1, and the records with it."""
    (tmp_path / "a").write_bytes(b"x\n")
    command = f'exec "{sys.executable}" -c "{MAIN}" dedup {tmp_path}/a --store memory://{tmp_path}/state >&-'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (1, b"solus: the standard output is closed\n")


# The store fails


def test_a_store_that_fails_part_of_the_way_loses_nothing(start: Start, tmp_path: Path) -> None:
    """R8, R25: not confirmed is not marked; the next run repeats it."""
    lines = [b"%d\n" % n for n in range(100)]
    (tmp_path / "in").write_bytes(b"".join(lines))
    args = ["--store", f"journal://{tmp_path}/marks", "--batch-size", "10", tmp_path / "in"]
    code, out, err = finish(start(*args, JOURNAL_FAILS_AT="5"))
    assert code == 1
    assert out == b"".join(lines[:50])
    assert err.splitlines()[0].startswith("solus: INTERNAL_ERROR: disk on fire; 5 of ")
    assert err.splitlines()[1].startswith("50 records in, 50 first-seen")
    assert finish(start(*args))[1] == b"".join(lines[45:])


def test_a_store_that_takes_no_marks_yet_is_known_before_anything_is_written(start: Start, tmp_path: Path) -> None:
    """R25: else each try again would write the same records again."""
    (tmp_path / "in").write_bytes(b"a\nb\n")
    (tmp_path / "out").write_bytes(b"of the day before\n")
    args = ["--store", f"journal://{tmp_path}/marks", "-o", tmp_path / "out", tmp_path / "in"]
    code, out, err = finish(start(*args, JOURNAL_TAKES_NOTHING="1"))
    assert (code, out) == (1, b"")
    assert err == "solus: INTERNAL_ERROR: come back in a minute\n"
    assert (tmp_path / "out").read_bytes() == b"of the day before\n"
    assert finish(start(*args))[0] == 0
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"


# Killed

KILL = """
import os, signal
from solus_core.cli import outputs, stream
from solus_core.handle import DeDuperHandle
POINT, COUNT = {point!r}, {count}
left = [COUNT]

def die_here():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def wrap(owner, name):
    verb = getattr(owner, name)
    def wrapped(*args, **kwargs):
        if POINT == "before " + name: die_here()
        answer = verb(*args, **kwargs)
        if POINT == "after " + name: die_here()
        return answer
    setattr(owner, name, wrapped)

wrap(DeDuperHandle, "check_absence_many")
wrap(DeDuperHandle, "add_many")
wrap(outputs.Output, "write")
wrap(os, "fsync")
if POINT == "half a write":
    write = os.write
    def half(fd, data):
        if fd == 1 or os.readlink(f"/proc/self/fd/{{fd}}").endswith("out"):
            left[0] -= 1
            if left[0] == 0:
                write(fd, data[: len(data) // 2 + 1])
                os.kill(os.getpid(), signal.SIGKILL)
        return write(fd, data)
    os.write = half
"""

POINTS = [
    *(
        f"{when} {what}"
        for when in ("before", "after")
        for what in ("check_absence_many", "add_many", "write", "fsync")
    ),
    "half a write",
]


def shuffled(count: int, repeats: int, seed: int) -> list[bytes]:
    chooser = random.Random(seed)
    lines = [b'{"id": %d, "n": "%d"}\n' % (n % count, n) for n in range(count + repeats)]
    chooser.shuffle(lines)
    return lines


def ids(data: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in data.splitlines(keepends=True) if line.endswith(b"}\n")]


@pytest.mark.parametrize(
    ("scheme", "point"), [*(("journal", point) for point in POINTS), ("memory", POINTS[-2]), ("memory", POINTS[-1])]
)
def test_killed_at_a_planted_point_and_run_again_loses_nothing(
    start: Start, tmp_path: Path, scheme: str, point: str
) -> None:
    """R25: appending to one file, too, where the killed run may have left half a record."""
    if point == "half a write" and not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    (tmp_path / "in.jsonl").write_bytes(b"".join(shuffled(40, 20, 1)))
    args = ["-k", "id", "--batch-size", "10", "--store", f"{scheme}://{tmp_path}/marks", tmp_path / "in.jsonl"]
    with (tmp_path / "out").open("ab") as out:
        killed = start(*args, code=KILL.format(point=point, count=3) + MAIN, stdout=out)
        assert killed.wait(TIMEOUT) == -signal.SIGKILL
        before = ids((tmp_path / "out").read_bytes())
        assert finish(start(*args, stdout=out))[0] == 0
    after = ids((tmp_path / "out").read_bytes())
    assert after[: len(before)] == before
    assert set(after) == set(range(40))
    if scheme == "journal":
        assert len(after) <= 50, "only the chunk in hand may come again"


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_and_run_again_loses_nothing(start: Start, tmp_path: Path, seed: int) -> None:
    chooser = random.Random(seed)
    lines = shuffled(2_000, 500, seed)
    store = ["-k", "id", "--batch-size", "50", "--store", f"journal://{tmp_path}/marks"]
    (tmp_path / "in.jsonl").write_bytes(b"".join(lines))
    killed = start(*store, tmp_path / "in.jsonl")
    out = receive(killed, chooser.randrange(1, 30_000))
    killed.kill()
    rest, _ = killed.communicate(timeout=TIMEOUT)
    out += rest
    code, again, _ = finish(start(*store, tmp_path / "in.jsonl"))
    assert code == 0
    assert set(ids(out)) | set(ids(again)) == set(range(2_000))


def test_appending_after_an_interrupted_csv_run_repeats_no_header(start: Start, tmp_path: Path) -> None:
    args = ["-k", "id", "--format", "csv", "--store", f"journal://{tmp_path}/marks"]
    with (tmp_path / "out").open("ab") as out:
        assert finish(start(*args, stdout=out), b"id,n\n1,a\n")[0] == 0
        out.write(b"2,to")
        out.flush()
        assert finish(start(*args, stdout=out), b"id,n\n1,a\n2,torn\n")[0] == 0
    assert (tmp_path / "out").read_bytes() == b"id,n\n1,a\n2,to\n2,torn\n"


def test_gzip_on_standard_input_with_output_to_a_file(start: Start, tmp_path: Path) -> None:
    code, out, _ = finish(start("-o", tmp_path / "o"), gzip.compress(b"a\nb\na\n"))
    assert (code, out, (tmp_path / "o").read_bytes()) == (0, b"", b"a\nb\n")
