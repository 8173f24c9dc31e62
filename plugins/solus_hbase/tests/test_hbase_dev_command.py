"""``solus-hbase dev-server``, as a program."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_hbase import cli
from solus_hbase.dev_server.process import free_ports

END_SECONDS = 60
STALL_SECONDS = 12
"""By default HBase aborts after 10, which takes it a moment."""
ABORT_SECONDS = 5


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@contextmanager
def running_program(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """``solus-hbase dev-server``, which ends with the block whether or not the test goes well."""
    command = [sys.executable, "-m", "solus_hbase.cli", "dev-server", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) as running:
        try:
            yield running
        finally:
            running.kill()


class TestCommand:
    def test_runs_until_ctrl_c(self, hbase_tools: None, tmp_path: Path) -> None:
        """Its only line on the standard output is the URL; a directory that was given keeps the data."""
        with socket.create_server(("127.0.0.1", 0)) as chosen:
            port = chosen.getsockname()[1]
        with running_program("--port", str(port), "--thrift", "1", "--data", str(tmp_path)) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == f"hbase://127.0.0.1:{port}/solus\n"
            with closing(happybase.Connection("127.0.0.1", port)) as connection:
                assert connection.tables() == []
            running.send_signal(signal.SIGINT)
            assert running.wait(END_SECONDS) == 0
            assert running.stdout.read() == ""
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port))
        assert (tmp_path / "data").is_dir()

    def test_can_be_ended_while_it_starts(self, hbase_tools: None, tmp_path: Path) -> None:
        """And drops what it had written by then."""
        with running_program("--port", "1", env=os.environ | {"TMPDIR": str(tmp_path)}) as running:
            assert running.stderr is not None
            assert running.stderr.readline().endswith("starting HBase with Thrift2, dropped at the end\n")
            running.send_signal(signal.SIGTERM)
            assert running.wait(END_SECONDS) == 0
        assert not list(tmp_path.iterdir())

    def test_a_taken_port(self, hbase_tools: None, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            assert cli.main(["dev-server", "--port", str(port)]) == 1
        assert f"solus-hbase: port {port} of 127.0.0.1 is taken: choose another with --port" in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["file", "file/below"])
    def test_data_in_a_file(
        self, hbase_tools: None, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
    ) -> None:
        (tmp_path / "file").touch()
        assert cli.main(["dev-server", "--port", "1", "--data", str(tmp_path / name)]) == 1
        assert re.search(f"solus-hbase: no folder for the data: .*{tmp_path}/file", capsys.readouterr().err)

    def test_outlasts_a_stall_and_tells_of_a_part_that_died(self, hbase_tools: None) -> None:
        """A stall of all processes, as on a machine that is suspended; then the exit code is 1."""
        (port,) = free_ports(1)
        with running_program("--port", str(port), "--thrift", "1") as running:
            assert running.stdout is not None
            assert running.stderr is not None
            assert running.stdout.readline()
            with closing(happybase.Connection("127.0.0.1", port)) as connection:
                connection.create_table("stalled", {"S": {}})
                groups = children(running.pid)
                for group in groups:
                    os.killpg(group, signal.SIGSTOP)
                time.sleep(STALL_SECONDS)  # no clock of the server can be moved
                for group in groups:
                    os.killpg(group, signal.SIGCONT)
                with pytest.raises(subprocess.TimeoutExpired):
                    running.wait(ABORT_SECONDS)
                connection.table("stalled").put(b"row", {b"S:a": b"1"})
                assert connection.table("stalled").row(b"row") == {b"S:a": b"1"}
            (java,) = (pid for group in groups for pid in children(group) if "HMaster" in command(pid))
            os.kill(java, signal.SIGKILL)
            assert running.wait(END_SECONDS) == 1
            complaint = running.stderr.read()
        assert re.search(r"solus-hbase: master has died. Its last words are in .*/master\.log:\n\d{4}-", complaint)

    def test_no_java(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        assert cli.main(["dev-server", "--port", "1"]) == 1
        assert "solus-hbase: no java on PATH" in capsys.readouterr().err

    @pytest.mark.parametrize("port", ["abc", "0", "65536", "-1", "1.5", ""])
    def test_what_a_port_is(self, port: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            cli.main(["dev-server", f"--port={port}"])
        assert f"--port: {port!r} is no port, allowed are whole numbers from 1 to 65535" in capsys.readouterr().err

    @pytest.mark.parametrize("arguments", [["dev-server", "--port", "0"], ["dev-server", "--thrift", "3"], []])
    def test_bad_arguments(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="2"):
            cli.main(arguments)
        assert "usage: solus-hbase" in capsys.readouterr().err
