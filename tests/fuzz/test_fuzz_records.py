"""Any bytes as JSON Lines, CSV, lines or NUL-separated records, plain or gzip: told apart, never a traceback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.needs_memory

FUZZ = settings.get_profile("solus-fuzz")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "x", "0"]), inner, max_size=3),
    max_leaves=8,
)
PIECES = {
    "jsonl": st.one_of(
        JSON.map(json.dumps).map(str.encode),
        st.builds(lambda value: json.dumps({"id": value}).encode(), JSON),
        st.sampled_from(
            [b'{"id":', b'{"id": 1}', b'{"id": "1"}', b'{"id": 1e400}', b"[" * 3_000, b'{"id":' * 3_000, b"9" * 5_000]
        ),
        st.sampled_from([b"\xef\xbb\xbf", b'{"id": "\\ud800"}', b'{"id": "\xff"}', b"NaN", b'{"id": 1, "id": 2}']),
    ),
    "csv": st.sampled_from(
        [b"id", b"a", b",", b",", b'"', b'""', b'"a\nb"', b"\xff", b"\0", b"\r", b"\n", b";", b"x" * 99]
    ),
    "lines": st.sampled_from([b"a", b"b", b"\r", b"\0", b"\xff", b""]) | st.binary(max_size=3),
    "nul": st.sampled_from([b"a", b"\0", b"\n", b"\xff", b""]) | st.binary(max_size=3),
}
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\0", b"", b"\n\n"])


@st.composite
def inputs(draw: st.DrawFn, format_name: str) -> bytes:
    pieces = draw(st.lists(st.tuples(PIECES[format_name] | st.binary(max_size=4), ENDS), max_size=8))
    return b"".join(piece + end for piece, end in pieces)


@pytest.mark.parametrize("format_name", PIECES)
@settings(FUZZ)
@given(data=st.data())
def test_any_input(command: Callable[..., Any], format_name: str, data: st.DataObject) -> None:
    """Nothing is lost, invented or changed: what comes out is what went in, once a key, and the counts say so."""
    content = data.draw(inputs(format_name))
    assume(not content.startswith(b"\x1f\x8b\x08"))  # that is gzip, and has a test of its own
    on_error = data.draw(st.sampled_from(["skip", "fail", "pass"]))
    args = ["dedup", "--json", "--format", format_name, "--on-error", on_error, "--duplicates", "again"]
    if format_name in ("jsonl", "csv"):
        args += ["--key", data.draw(st.sampled_from(["id", "id", "id.x", "x", "0", "1"]))]
    if format_name == "csv" and data.draw(st.booleans()):
        args += ["--no-header"]
    args += ["--batch-size", data.draw(st.sampled_from(["1", "2", "1000"]))]
    done = command(args, {}, content)
    event(f"exit code {done.code}")
    assert done.code in {0, 2, 3}
    if done.code != 3 or on_error != "fail":
        assert done.code in ({0, 2} if format_name in ("jsonl", "csv") else {0})
    summary = json.loads(done.err.splitlines()[-1])
    complaints = done.err.splitlines()[:-1]
    assert len(complaints) == (done.code != 0)
    assert "Traceback" not in done.err
    assert "solus: unexpected" not in done.err
    assert summary["records"] == summary["first_seen"] + summary["repeats"] + summary["bad"]
    if format_name == "nul":
        wanted = dict.fromkeys(record for record in content.split(b"\0") if record)
        assert [record for record in done.out.split(b"\0") if record] == list(wanted)
    again = command(args, {}, done.out) if done.code == 0 and on_error == "skip" else done
    assert again.out == done.out, "what was first-seen once is so again"


@settings(FUZZ)
@given(content=st.binary(max_size=200), at=st.integers(0, 60), flip=st.integers(0, 255), cut=st.integers(0, 80))
def test_any_damaged_gzip(command: Callable[..., Any], content: bytes, at: int, flip: int, cut: int) -> None:
    packed = bytearray(gzip.compress(content, mtime=0))
    if at < len(packed):
        packed[at] ^= flip
    done = command(["dedup", "-q", "--format", "lines"], {}, bytes(packed[: len(packed) - cut] if cut < 40 else packed))
    event(f"exit code {done.code}")
    assert done.code in {0, 1}
    assert done.err.count("\n") == done.code
    assert "solus: unexpected" not in done.err


@settings(FUZZ)
@given(content=st.binary(max_size=60) | inputs("jsonl") | inputs("csv"), name=st.sampled_from(["f", "f.csv", "f.json"]))
def test_any_file_whose_format_is_guessed(command: Callable[..., Any], content: bytes, name: str) -> None:
    for key in ([], ["--key", "id"]):
        done = command(["dedup", *key, name], {name: content}, b"")
        event(f"exit code {done.code}")
        assert done.code in {0, 1, 2, 3}
        assert "Traceback" not in done.err
        assert "solus: unexpected" not in done.err
        assert done.files == {name: content}
