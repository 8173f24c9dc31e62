"""``solus dedup`` as it is used: options, files, formats, exit codes. In this process, but for standard input."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solus_core import DeDuperConfig, SolusEngine
from solus_core.cli import dedup as dedup_module
from solus_core.cli.app import run

pytestmark = pytest.mark.needs_memory

CASES = Path(__file__).parent.parent / "cases"
REPEATS = str(CASES / "events_with_repeats.jsonl")
QUOTED = str(CASES / "events_quoted.csv")
BAD = str(CASES / "events_bad_lines.jsonl")
EVENTS = str(Path(__file__).parent.parent.parent / "examples" / "events.jsonl")


class Solus:
    """Runs ``solus dedup`` and holds its last ``out`` (bytes), ``err`` (text) and exit ``code``."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *args: object) -> int:
        self.code = run(["dedup", *map(str, args)])
        out, err = self._capture.readouterr()
        self.out, self.err = out, err.decode()
        assert "Traceback" not in self.err
        return self.code

    def summary(self, *args: object) -> dict[str, Any]:
        self(*args, "--json")
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        assert found["exit_code"] == self.code
        return found


@pytest.fixture
def solus(capfdbinary: pytest.CaptureFixture[bytes]) -> Solus:
    return Solus(capfdbinary)


def piped(data: bytes, *args: object, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[bytes]":
    done = subprocess.run(
        [sys.executable, "-c", "from solus_core.cli import main; main()", "dedup", *map(str, args)],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | (env or {}),
    )
    assert b"Traceback" not in done.stderr
    return done


# The inputs of tests/cases


def test_events_with_repeats(solus: Solus) -> None:
    """7 distinct ids among 12, in order and byte for byte; newlines inside JSON strings do no harm (case 7)."""
    assert solus("-k", "id", REPEATS) == 0
    lines = Path(REPEATS).read_bytes().splitlines(keepends=True)
    assert solus.out == b"".join(lines[at] for at in (0, 1, 3, 5, 7, 8, 10))
    assert solus.err.startswith("12 records in, 7 first-seen, 5 repeats (format jsonl, ")


def test_composite_keys_and_repeats_in_a_file(solus: Solus, tmp_path: Path) -> None:
    """Case 12: the same id from another source is another event; what was dropped can be looked at."""
    assert solus("-k", "id", "-k", "source", "--duplicates", tmp_path / "repeats", REPEATS) == 0
    assert len(solus.out.splitlines()) == 8
    lines = Path(REPEATS).read_bytes().splitlines(keepends=True)
    assert (tmp_path / "repeats").read_bytes() == b"".join(lines[at] for at in (2, 6, 9, 11))


def test_csv_with_newlines_and_quotes_inside_fields(solus: Solus, tmp_path: Path) -> None:
    """Case 7: 4 distinct of 6; header once, CRLF and the bare newline inside quotes kept."""
    assert solus("-k", "id", "--duplicates", tmp_path / "repeats", QUOTED) == 0
    data = Path(QUOTED).read_bytes()
    ten = b'10,"Widget, large","first\nsecond line"\r\n'
    header = b"id,name,comment\r\n"
    assert solus.out == data.replace(ten, b"", 2).replace(header, header + ten).replace(b"12,,\r\n", b"", 1).replace(
        "13,Ñandú crate,plain\r\n12,,\r\n".encode(), "12,,\r\n13,Ñandú crate,plain\r\n".encode()
    )
    assert (tmp_path / "repeats").read_bytes() == header + ten + b"12,,\r\n"


def test_bad_lines_stop_by_default(solus: Solus) -> None:
    assert solus("-k", "id", BAD) == 3
    assert solus.out == b'{"id": "x1", "n": 1}\n'
    assert "events_bad_lines.jsonl:3: not valid JSON" in solus.err.splitlines()[0]


def test_bad_lines_skipped(solus: Solus) -> None:
    found = solus.summary("-k", "id", "--on-error", "skip", BAD)
    assert solus.code == 0
    assert solus.out == b'{"id": "x1", "n": 1}\n{"id": 1}\n{"id": "x5"}'
    assert (found["records"], found["first_seen"], found["repeats"], found["bad"], found["blank"]) == (11, 3, 1, 7, 1)
    places = {bad["reason"]: [int(at.rpartition(":")[2]) for at in bad["first_at"]] for bad in found["bad_records"]}
    assert places == {
        "not valid JSON": [3],
        "not a JSON object": [4],
        "key 'id' is missing": [5],
        "key 'id' is null": [6],
        "not UTF-8": [9],
        "key 'id' is a number with a fraction or exponent": [10],
        "field 'id' is given more than once": [11],
    }


def test_bad_lines_passed_on(solus: Solus) -> None:
    assert solus("-k", "id", "--on-error", "pass", BAD) == 0
    lines = Path(BAD).read_bytes().splitlines(keepends=True)
    assert solus.out == b"".join(line for at, line in enumerate(lines) if at not in (1, 7))
    assert "7 bad (passed on), 1 blank" in solus.err


def test_the_bundled_events(solus: Solus) -> None:
    assert solus.summary("-k", "id", EVENTS)["first_seen"] == 41
    assert solus.summary("-k", "id", "-k", "source", EVENTS)["first_seen"] == 42


# Records


def test_plain_lines_are_compared_without_their_end(solus: Solus, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\r\n\na\nb\xff\nb\xff\n\n a\n\xc3\xa9\n\xc3\xa9")
    assert solus(path) == 0
    assert solus.out == b"a\r\n\nb\xff\n a\n\xc3\xa9\n"


def test_nul_separated_records_may_hold_newlines(solus: Solus, tmp_path: Path) -> None:
    """Case 7."""
    path = tmp_path / "names"
    path.write_bytes(b"a\nb\0a\0b\0a\nb\0a")
    assert solus("--format", "nul", path) == 0
    assert solus.out == b"a\nb\0a\0b\0"


def test_records_never_merge_where_a_last_newline_is_missing(solus: Solus, tmp_path: Path) -> None:
    for name, data in {"1": b"a\nb", "2": b"b", "3": b"c\nd"}.items():
        (tmp_path / name).write_bytes(data)
    assert solus(*(tmp_path / name for name in "123"), "--duplicates", tmp_path / "repeats") == 0
    assert solus.out == b"a\nb\nc\nd"
    assert (tmp_path / "repeats").read_bytes() == b"b"


def test_csv_from_several_files(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"id;n\r\n1;x\r\n2;y")
    (tmp_path / "2.csv").write_bytes(b'"id";n\n2;y\n3;"z\n;"\n')
    assert solus("-k", "id", "--delimiter", ";", tmp_path / "1.csv", tmp_path / "2.csv") == 0
    assert solus.out == b'id;n\r\n1;x\r\n2;y\r\n3;"z\n;"\n'
    (tmp_path / "2.csv").write_bytes(b"n;id\n2;y\n")
    assert solus("-k", "id", "--delimiter", ";", tmp_path / "1.csv", tmp_path / "2.csv") == 1
    assert "its CSV header has the columns n, id, the first file has id, n" in solus.err
    assert solus.out == b"id;n\r\n1;x\r\n2;y"


def test_csv_by_number_and_tsv_by_name(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"x\t1\ny\t1\nx\t2\n")
    assert solus("-k", "2", "--no-header", tmp_path / "a.tsv") == 0
    assert solus.out == b"x\t1\nx\t2\n"
    assert solus("-k", "1", "--format", "csv", "--delimiter", "\\t", "--no-header", tmp_path / "a.tsv") == 0
    assert solus.out == b"x\t1\ny\t1\n"


def test_a_csv_header_alone_comes_through(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,n\n")
    assert solus("-k", "id", tmp_path / "a.csv") == 0
    assert solus.out == b"id,n\n"


def test_a_byte_order_mark_is_kept_once(solus: Solus, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfid,n\n1,2\n")
    assert solus("-k", "id", tmp_path / "a.csv", tmp_path / "b.csv") == 0
    assert solus.out == b"\xef\xbb\xbfid,n\n1,2\n"


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_sniffed_and_unpacked(packed: bool) -> None:
    data = Path(REPEATS).read_bytes()
    done = piped(gzip.compress(data[:300]) + gzip.compress(data[300:]) if packed else data, "-k", "id", "--json")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 7
    assert json.loads(done.stderr)["format"] == "jsonl"


def test_a_truncated_gzip_is_a_clear_error(solus: Solus, tmp_path: Path) -> None:
    data = b"first\n" + random.Random(1).randbytes(90_000).hex().encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(data)[:-20_000])
    assert solus(tmp_path / "a.gz") == 1
    assert "a.gz: the gzip data end too early" in solus.err.splitlines()[0]
    assert solus.out == b"first\n"


def test_an_empty_input(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for args in ([], ["-k", "id"], ["--format", "csv", "-k", "id"], ["--format", "nul"]):
        assert solus(*args, tmp_path / "empty") == 0
        assert solus.out == b""
        assert solus.err.startswith("0 records in, 0 first-seen, 0 repeats (")


# State


def test_marks_are_kept_between_runs_whatever_the_hash_seed(tmp_path: Path) -> None:
    """Case 6: Python's salted hash() plays no part."""
    store = f"memory://{tmp_path}/state"
    data = Path(REPEATS).read_bytes()
    first = piped(data, "-k", "id", "--store", store, env={"PYTHONHASHSEED": "1"})
    assert len(first.stdout.splitlines()) == 7
    for seed in ("2", "random"):
        again = piped(data + b'{"id": "new"}\n', "-k", "id", "--store", store, env={"PYTHONHASHSEED": seed})
        assert again.stdout == (b'{"id": "new"}\n' if seed == "2" else b"")


def test_two_runs_without_a_named_store_share_nothing(solus: Solus) -> None:
    """Case 14."""
    for _ in range(2):
        solus("-k", "id", REPEATS)
        assert len(solus.out.splitlines()) == 7


def test_a_single_key_is_what_the_engine_calls_an_entity(solus: Solus) -> None:
    """R20."""
    store = "memory://?name=cli-entity"
    with SolusEngine.open(store, client_id="solus") as engine:
        engine.register("default", DeDuperConfig())
        for entity in ("a1", b"a2", "a3"):
            engine.add("default", entity, 60_000)
        solus("-k", "id", "--store", store, REPEATS)
        assert [json.loads(line)["id"] for line in solus.out.splitlines()] == ["a4", "a5", "a6", "a7"]
        assert not engine.check_absence("default", "a7")


def test_the_de_duper_is_registered_for_as_long_as_the_ttl_needs(solus: Solus) -> None:
    """R9, R13."""
    store = "memory://?name=cli-ttl"
    assert solus.summary("--store", store, "-k", "id", REPEATS)["ttl_ms"] == 864_000_000
    assert solus("--store", store, "--ttl", "11d", "-k", "id", REPEATS) == 2
    assert solus.err == (
        "solus: --ttl 11d is longer than de-duper 'default' keeps anything, 10d: "
        "use a shorter TTL or another --deduper\n"
    )
    found = solus.summary("--store", store, "--ttl", "1500ms", "--deduper", "short", "-k", "id", REPEATS)
    assert (found["ttl_ms"], found["first_seen"]) == (1500, 7)
    assert solus("--store", store, "--ttl", "30d", "--deduper", "long", "-k", "id", REPEATS) == 0
    with SolusEngine.open(store, client_id="solus") as engine:
        assert engine.get_deduper("short").config.expiry_seconds == 864_000
        assert engine.get_deduper("long").config.expiry_seconds == 30 * 86_400
        engine.unregister("long")
    assert solus("--store", store, "--deduper", "long", "-k", "id", REPEATS) == 2
    assert "was unregistered" in solus.err


def test_mark_first(solus: Solus) -> None:
    assert solus("--mark-first", "-k", "id", REPEATS) == 0
    assert len(solus.out.splitlines()) == 7


# Usage


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--store", "nosuch://host/x", "-k", "id", REPEATS], "nosuch"),
        (["--store", "nonsense", "-k", "id", REPEATS], "scheme"),
        (["--store", "memory://?nmae=x", "-k", "id", REPEATS], "nmae"),
        (["--client-id", "a b", "-k", "id", REPEATS], "client_id is 'a b'"),
        (["--deduper", "a|b", "-k", "id", REPEATS], "de-duper name"),
        (["--ttl", "10", "-k", "id", REPEATS], "is not a duration"),
        (["--ttl", "99999d", "-k", "id", REPEATS], "expiry_seconds"),
        (["--batch-size", "0", "-k", "id", REPEATS], "0"),
        (["--delimiter", "ab", "-k", "id", QUOTED], "one ASCII character"),
        (["--delimiter", ";", "-k", "id", REPEATS], "are for CSV"),
        (["--no-header", REPEATS], "are for CSV"),
        ([REPEATS], "say which field"),
        (["-k", "", REPEATS], "say which field"),
        ([QUOTED], "say which field"),
        (["-k", "nme", QUOTED], "names no column of the CSV header, which has id, name, comment"),
        (["-k", "id", "--no-header", QUOTED], "give the number of a column"),
        (["-k", "0", "--no-header", QUOTED], "give the number of a column"),
        (["-k", "id", "--format", "lines", REPEATS], "the format is lines"),
        (["-k", "id", REPEATS, QUOTED], "of different formats"),
        (["-k", "id", "/no/such/file"], "does not exist"),
        (["-k", "id", "--duplicates", "/no/such/dir/x", REPEATS], "can't write /no/such/dir/x: No such file"),
    ],
)
def test_wrong_usage_is_told_before_the_output_is_touched(
    solus: Solus, tmp_path: Path, args: list[str], says: str
) -> None:
    output = tmp_path / "output"
    if "--duplicates" not in args:
        output.write_bytes(b"precious")
        args = ["-o", str(output), *args]
    assert solus(*args) == 2
    assert says in solus.err
    assert solus.out == b""
    if output.exists():
        assert output.read_bytes() == b"precious"


def test_a_column_named_twice_is_no_key(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,id\n1,2\n")
    assert solus("-k", "id", tmp_path / "a.csv") == 2
    assert "more than one column" in solus.err


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_an_output_that_is_an_input_is_refused(
    solus: Solus, tmp_path: Path, link: Callable[[Path, Path], None] | None
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x\n")
    other = path
    if link is not None:
        other = tmp_path / "b"
        link(path, other)
    for args in (["-o", other], ["-o", tmp_path / "new", "--duplicates", other]):
        assert solus(*args, path) == 2
        assert "is also an input" in solus.err
        assert path.read_bytes() == b"x\n"
    with path.open("ab") as appended:  # solus dedup a >> a would never end
        done = subprocess.run(
            [sys.executable, "-c", "from solus_core.cli import main; main()", "dedup", str(path)],
            stdout=appended,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 2
    assert path.read_bytes() == b"x\n"


def test_both_outputs_in_one_file_are_refused(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    assert solus("-o", tmp_path / "a", "--duplicates", tmp_path / "a", "-k", "id", REPEATS) == 2
    assert "is also the other output" in solus.err
    assert solus("-o", tmp_path / "b", "--duplicates", f"{tmp_path}/./b", "-k", "id", REPEATS) == 2
    assert not (tmp_path / "b").exists()


# Failures


def test_a_full_disk_leaves_the_records_unmarked(solus: Solus, tmp_path: Path) -> None:
    """R25."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    store = ["--store", f"memory://{tmp_path}/state"]
    assert solus(*store, "-o", "/dev/full", "-k", "id", REPEATS) == 1
    assert solus.err.startswith("solus: can't write /dev/full: No space left on device\n0 records in")
    assert solus(*store, "--duplicates", "/dev/full", "-k", "id", REPEATS) == 1
    assert solus(*store, "-k", "id", REPEATS) == 0
    assert len(solus.out.splitlines()) == 7


def test_a_damaged_state_is_refused_and_left_alone(solus: Solus, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(b"not a state of ours")
    assert solus("--store", f"memory://{state}", "-k", "id", REPEATS) == 1
    assert str(state) in solus.err
    assert state.read_bytes() == b"not a state of ours"


def test_an_unexpected_error_is_one_line_with_advice(
    solus: Solus, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb\x1b[31m")

    monkeypatch.setattr(dedup_module, "begin", broken)
    monkeypatch.delenv("SOLUS_DEBUG", raising=False)
    assert solus("-q", REPEATS) == 1
    assert solus.err == "solus: unexpected ZeroDivisionError: a b\\x1b[31m; set SOLUS_DEBUG=1 to see where\n"
    monkeypatch.setenv("SOLUS_DEBUG", "1")
    assert run(["dedup", "-q", REPEATS]) == 1
    assert b"Traceback (most recent call last)" in capfdbinary.readouterr()[1]


def test_quiet_says_nothing_but_errors(solus: Solus) -> None:
    assert solus("-q", "-k", "id", REPEATS) == 0
    assert solus.err == ""
    assert solus("-q", "-k", "id", BAD) == 3
    assert len(solus.err.splitlines()) == 1
    assert solus.summary("-q", "-k", "id", REPEATS)["records"] == 12
