"""A CSV quote that nobody closed takes in all that follows: it is said where, and how much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from solus_core.cli.app import run

pytestmark = pytest.mark.needs_memory

CSV = b'id,n\n1,a\n2,b\n"3\nx",c"\n4,d,"5\n5,e\n6,f\n7,g\n'
"""The quote in line 6 is in the third column of a record that begins there."""


@pytest.fixture
def args(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_bytes(CSV)
    return ["dedup", "-k", "id", "in.csv"]


def test_stopped_by_it(args: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 3
    out, err = capfd.readouterr()
    assert out == 'id,n\n1,a\n2,b\n"3\nx",c"\n'
    assert err.splitlines()[0] == "solus: in.csv:6: a quoted field is never closed (it took in 4 lines)"


def test_the_summary_tells_what_was_left_out_with_it(args: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*args, "--on-error", "skip"]) == 0
    err = capfd.readouterr().err.splitlines()
    assert "1 bad (left out)" in err[0]
    assert err[1] == "  1 bad: a quoted field is never closed, at in.csv:6 (4 lines)"
    assert run([*args, "--on-error", "skip", "--json"]) == 0
    (bad,) = json.loads(capfd.readouterr().err)["bad_records"]
    assert (bad["count"], bad["lines"], bad["first_at"]) == (1, 4, ["in.csv:6"])


def test_the_place_is_that_of_the_quote_and_not_of_the_record(
    args: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_bytes(b'id,n,m\n1,"a\nb","c\n2,d,e\n')
    assert run(args) == 3
    assert "in.csv:3: a quoted field is never closed (it took in 2 lines)" in capfd.readouterr().err


def test_beyond_the_limit_the_rest_is_read_as_records_again(
    args: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("records", "keys"):
        monkeypatch.setattr(f"solus_core.cli.{module}.RECORD_LIMIT", 1 << 20)
    filler = [b"%d,%s\n" % (n, b"y" * 1000) for n in range(2000)]
    Path("in.csv").write_bytes(b"".join([b'id,n\na,"x\n', *filler]))
    assert run([*args, "--on-error", "skip"]) == 0
    out, err = capfd.readouterr()
    assert "1 bad: a quoted field is not closed within 1 MiB, at in.csv:2 (1,0" in err
    assert out.splitlines()[-1] == filler[-1].decode().rstrip()
    assert 900 < len(out.splitlines()) < 1000
    assert run([*args, "--on-error", "pass"]) == 0
    assert capfd.readouterr().out.encode() == Path("in.csv").read_bytes()
