"""The programs under ``examples/shorturl``, on the real HBase."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from solus_hbase import HBaseConfig, connect
from solus_hbase.streams import IdempotentCounterSink, TableMapping, create_table

FOLDER = Path(__file__).resolve().parents[4] / "examples" / "shorturl"


@pytest.fixture(autouse=True)
def checkout() -> None:
    if not FOLDER.is_dir():
        pytest.skip("needs a checkout")


@pytest.fixture(scope="module")
def other_table(hbase_server: Any) -> None:
    with closing(connect(HBaseConfig(hosts=f"127.0.0.1:{hbase_server.port(2)}", table="unused"))) as context:
        context.gateway.create_table("ex_other", b"S", "NONE", [])


def output(hbase_server: Any, program: str, table: str) -> list[str]:
    options = ["--hbase", f"127.0.0.1:{hbase_server.port(2)}", "--table", table, "--records", "1500"]
    command = [sys.executable, str(FOLDER / f"{program}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def columns(lines: list[str]) -> dict[str, list[int]]:
    """The numbers of the table that was printed, by the names above them."""
    names, *rows = [re.split(r" {2,}", line) for line in lines[:6]]
    assert [row[0][:7] for row in rows] == ["http://"] * 5
    return {name: [int(row[number]) for row in rows] for number, name in enumerate(names) if number}


@pytest.mark.parametrize(
    ("program", "options", "code", "complaint"),
    [
        ("puts", ["--hbase", "127.0.0.1:1"], 1, r"no HBase at 127\.0\.0\.1:1: .*"),
        ("idempotent_counters", ["--hbase", "127.0.0.1:1"], 1, r"no HBase at 127\.0\.0\.1:1: .*"),
        (
            "idempotent_counters",
            ["--hbase", "localhost:x"],
            2,
            ".*error: argument --hbase: 'localhost:x' is no host:port",
        ),
        ("counters", ["--hbase", ":9090"], 2, ".*error: argument --hbase: ':9090' is no host:port"),
        ("counters", ["--records", "-3"], 2, ".*error: argument --records: '-3' is no number from 1"),
    ],
)
def test_what_is_wrong_is_one_line(program: str, options: list[str], code: int, complaint: str) -> None:
    command = [sys.executable, str(FOLDER / f"{program}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code
    assert re.fullmatch(complaint, done.stderr.strip().splitlines()[-1])
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["puts", "counters", "idempotent_counters"])
@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("a:b:c", "create_table: table is 'a:b:c', which is no name of a table of HBase"),
        ("ex_other", r"\w+Sink: table 'ex_other' has no column family 'data', only 'S'.*"),
    ],
)
def test_a_table_that_does_not_do(
    hbase_server: Any, other_table: None, program: str, table: str, complaint: str
) -> None:
    options = ["--hbase", f"127.0.0.1:{hbase_server.port(2)}", "--table", table]
    command = [sys.executable, str(FOLDER / f"{program}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(complaint, done.stderr.rstrip("\n"))


def test_a_host_without_a_port() -> None:
    """The same for all programs."""
    spec = importlib.util.spec_from_file_location("shorturl_example", FOLDER / "shorturl.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.address("localhost") == "localhost:9090"
    assert module.address("localhost:19090") == "localhost:19090"


def test_puts(hbase_server: Any) -> None:
    lines = output(hbase_server, "puts", "ex_puts")
    in_the_readme = (FOLDER / "README.md").read_text()
    assert all(line in in_the_readme for line in lines[:6])
    assert lines[6] == "1500 records written and acknowledged"


def test_counters(hbase_server: Any) -> None:
    """Over two runs, so that the second adds to what is there."""
    for run in (1, 2):
        found = columns(output(hbase_server, "counters", "ex_counters"))
        assert found["data:clicks"] == found["daily:20120816"] == [run * records for records in found["records"]]
        assert sum(found["records"]) == 1_500


def test_idempotent_counters(hbase_server: Any) -> None:
    """R27: the counters equal the truth after failures and replays, in the second run too."""
    for run in (1, 2):
        lines = output(hbase_server, "idempotent_counters", "ex_transactions")
        found = columns(lines)
        assert found["data:clicks"] == found["daily:20120816"] == [run * records for records in found["records"]]
        assert found["clicks_txid:examples"] == [15 * run] * 5
        told = re.fullmatch(r"15 transactions, (\d+) attempts failed, (\d+) replays of complete ones", lines[6])
        assert told is not None
        assert int(told[1]) > 0


def test_idempotent_counters_after_a_run_that_was_ended(hbase_server: Any) -> None:
    """R27: in a transaction that had raised the counters of one family only. The next run has newer ids than all."""
    name = "ex_ended"
    mapping = TableMapping(table=name, row_key_field="shorturl", column_families={"daily": ["date"]})
    with closing(connect(HBaseConfig(hosts=f"127.0.0.1:{hbase_server.port(2)}", table="unused"))) as context:
        create_table(context, name, {"data": (3, None), "daily": (1, 604_800)})
        with IdempotentCounterSink(context, mapping) as sink, sink.transaction(7, "examples") as transaction:
            transaction.add({"shorturl": "http://bit.ly/ZK6t", "date": "20120816"})
    found = columns(output(hbase_server, "idempotent_counters", name))
    assert found["data:clicks"] == found["records"]
    assert sum(found["daily:20120816"]) == 1_501
    assert set(found["clicks_txid:examples"]) == {7 + 15}
