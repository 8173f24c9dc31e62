"""The server that users try the backend on, and that all tests of this package run on."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import happybase  # type: ignore[import-untyped]  # it has no types
import pytest

from solus_hbase import HBaseConfig, connect
from solus_hbase.dev_server import DevServerError, HBaseServer, tools
from solus_hbase.dev_server.process import Process
from solus_hbase.dev_server.server import master_is_ready
from solus_hbase.dev_server.settings import Ports, site
from solus_hbase.tables import ensure_table

SLEEPER = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
END_SECONDS = 60


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts programs on an otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(name: str, body: str) -> None:
        program = folder / name
        program.write_text(f"#!{sys.executable}\n{body}\n")
        program.chmod(0o755)

    return make


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


class TestTools:
    @pytest.mark.parametrize(
        ("banner", "complaint"),
        [
            ('openjdk version "11.0.2" 2019', r'is openjdk version "11.0.2" 2019, .* runs on Java 17 to 23'),
            ('java version "1.8.0_402"', "runs on Java 17 to 23"),
            ('openjdk version "24" 2025-03-18', "runs on Java 17 to 23"),
            ("no such thing", "does not say which Java"),
        ],
    )
    def test_an_unfit_java_is_refused(self, fake_tool: Callable[[str, str], None], banner: str, complaint: str) -> None:
        fake_tool("java", f"import sys; print({banner!r}, file=sys.stderr)")
        with pytest.raises(DevServerError, match=complaint):
            tools.java()

    @pytest.mark.parametrize("banner", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "23" 2024-09-17'])
    def test_a_fit_java_is_found(self, fake_tool: Callable[[str, str], None], tmp_path: Path, banner: str) -> None:
        fake_tool("java", f"import sys; print({banner!r}, file=sys.stderr)")
        assert tools.java() == str(tmp_path / "bin/java")

    def test_no_java(self, fake_tool: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with pytest.raises(DevServerError, match=r"no java on PATH: .*apt-get install openjdk-17"):
            tools.java()
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(DevServerError, match=f"no java on JAVA_HOME={tmp_path}"):
            tools.java()

    def test_no_maven(self, fake_tool: object) -> None:
        with pytest.raises(DevServerError, match=r"no mvn on PATH: .*apt-get install maven"):
            tools.class_path()

    def test_a_maven_that_fails_is_quoted(self, fake_tool: Callable[[str, str], None]) -> None:
        fake_tool("mvn", "print('[ERROR] Unknown host'); raise SystemExit(1)")
        with pytest.raises(DevServerError, match=r"Maven could not get HBase .*\n\[ERROR\] Unknown host"):
            tools.class_path()

    def test_no_place_for_the_class_path(
        self, fake_tool: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(DevServerError, match=r"set XDG_CACHE_HOME .*/file/"):
            tools.class_path()

    def test_maven_is_asked_once(self, fake_tool: Callable[[str, str], None], tmp_path: Path) -> None:
        """A class path that lost a jar is resolved again."""
        jar = tmp_path / "a.jar"
        jar.touch()
        resolve = f"import sys; open(sys.argv[-1].split('=')[1], 'w').write({str(jar)!r})"
        fake_tool("mvn", resolve)
        assert tools.class_path() == str(jar)
        fake_tool("mvn", "raise SystemExit(1)")
        assert tools.class_path() == str(jar)
        jar.unlink()
        with pytest.raises(DevServerError):
            tools.class_path()


class TestProcess:
    def test_kill_ends_it_before_it_returns(self, tmp_path: Path) -> None:
        process = Process("sleeper", SLEEPER, tmp_path / "s.log", ())
        process.start()
        group = process.pid
        assert group is not None
        with pytest.raises(DevServerError, match="sleeper is already running"):
            process.start()
        process.kill()
        assert process.pid is None
        assert gone(group)
        process.kill()

    def test_one_that_ends_early_is_told_with_its_last_words(self, tmp_path: Path) -> None:
        process = Process("broken", [sys.executable, "-c", "raise SystemExit('no luck')"], tmp_path / "b.log", (1,))
        process.start()
        with pytest.raises(DevServerError, match=r"(?s)broken ended while it started.*b\.out:\nno luck"):
            process.wait_until_ready(deadline=float("inf"))
        process.kill()

    def test_one_that_dies_is_noticed(self, tmp_path: Path) -> None:
        """One that is killed on request is not dead, nor is one that runs."""
        process = Process("sleeper", SLEEPER, tmp_path / "s.log", ())
        process.check()
        process.start()
        process.check()
        assert process.pid is not None
        watched = os.pidfd_open(process.pid)
        (tmp_path / "s.log").write_text("last words\n")
        os.killpg(process.pid, signal.SIGKILL)
        assert select.select([watched], [], [], END_SECONDS)[0]
        os.close(watched)
        with pytest.raises(DevServerError, match=r"(?s)sleeper has died.*s\.log:\nlast words"):
            process.check()
        process.kill()
        process.check()

    def test_the_deadline_holds(self, tmp_path: Path) -> None:
        """An old line in the log, from before this start, does not count as ready."""
        log = tmp_path / "s.log"
        log.write_text("ready\n")
        process = Process("sleeper", SLEEPER, log, (), is_ready=lambda logged: logged == "ready\n")
        process.start()
        with pytest.raises(DevServerError, match=r"(?s)sleeper did not get ready in time.*s\.log:\nready"):
            process.wait_until_ready(deadline=0)
        with log.open("a") as more:
            more.write("ready\n")
        process.wait_until_ready(deadline=0)
        process.kill()

    def test_a_taken_port_is_told_at_once(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            process = Process("sleeper", SLEEPER, tmp_path / "s.log", (port,))
            with pytest.raises(DevServerError, match=f"port {port} of 127.0.0.1 is taken"):
                process.start()
            assert process.pid is None

    def test_nothing_outlives_a_starter_that_is_killed(self, tmp_path: Path) -> None:
        """Even while a forked child of the starter lives on for a moment."""
        script = (
            "import signal, sys; from pathlib import Path; from solus_hbase.dev_server.process import Process\n"
            f"process = Process('sleeper', {SLEEPER!r}, Path({str(tmp_path / 's.log')!r}), ())\n"
            "process.start(); print(process.pid, flush=True); signal.pause()"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as starter:
            assert starter.stdout is not None
            group = int(starter.stdout.readline())
            watched = os.pidfd_open(group)
            assert not gone(group)
            starter.kill()
        try:
            assert select.select([watched], [], [], END_SECONDS)[0], "the keeper lives on"
        finally:
            os.close(watched)


def test_every_address_is_of_this_machine() -> None:
    settings = site(Path("/data"), Ports(1, 2, 3))
    addresses = {name: value for name, value in settings.items() if name.endswith(("ddress", "hostname", "quorum"))}
    assert len(addresses) == 6
    assert set(addresses.values()) == {"127.0.0.1", "localhost"}


INITIALIZED = "M: Master has completed initialization 3.016sec\n"


def begun(count: int) -> str:
    return f"M: Upgrading; {count} have existingServerCrashProcedures, 1 possibly 'live' servers, and 1 'splitting'.\n"


def killed(name: str) -> str:
    return f"M: Processing expiration of host,{name},1 on host,1,2\n"


def replaced(name: str) -> str:
    return f"P: removed crashed server host,{name},1 after splitting done\n"


@pytest.mark.parametrize(
    ("logged", "ready"),
    [
        ("", False),
        (begun(0), False),
        (begun(0) + INITIALIZED, True),
        (begun(0) + killed("a") + INITIALIZED, False),
        (begun(0) + killed("a") + INITIALIZED + replaced("a"), True),
        (begun(0) + killed("a") + replaced("a"), False),
        (begun(0) + killed("a") + replaced("a") + INITIALIZED, True),
        (begun(0) + killed("a") + killed("b") + INITIALIZED + replaced("b"), False),
        (begun(1) + INITIALIZED, False),
        (begun(1) + killed("a") + replaced("a") + INITIALIZED, False),
        (begun(1) + killed("a") + replaced("a") + INITIALIZED + replaced("b"), True),
    ],
)
def test_when_a_master_is_ready(logged: str, ready: bool) -> None:
    """As HBase words it: not before the regions of each region server that was killed are open again."""
    assert master_is_ready(logged) is ready


class TestServer:
    def test_data_survive_sigkill(self, hbase_server: HBaseServer) -> None:
        """What a gateway said was written is there after master and gateway were killed and started again."""
        with closing(happybase.Connection(hbase_server.host, hbase_server.port(1))) as connection:
            connection.create_table("dev_server", {"S": {}})
            connection.table("dev_server").put(b"row", {b"S:a": b"1"})
        hbase_server.kill("master", "thrift1")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((hbase_server.host, hbase_server.port(1)))
        hbase_server.start("master", "thrift1")
        with closing(happybase.Connection(hbase_server.host, hbase_server.port(1))) as connection:
            assert connection.table("dev_server").row(b"row") == {b"S:a": b"1"}
            connection.delete_table("dev_server", disable=True)

    def test_old_tables_can_be_read_at_once(self, hbase_server: HBaseServer) -> None:
        """The master is not ready before all 257 regions are open again, which it does after it is initialized."""
        keys = [bytes((i,)) for i in range(256)]
        hosts = f"{hbase_server.host}:{hbase_server.port(2)}"
        with closing(connect(HBaseConfig(hosts=hosts, table="old", attempts=1, timeout=60))) as context:
            ensure_table(context.gateway, context.config, "old", b"S")
            context.gateway.put("old", b"S", [(key, [(b"a", key)]) for key in keys])
            hbase_server.kill("master", "thrift1", "thrift2")
            hbase_server.start("master")
            log = (hbase_server.directory / "logs" / "master.log").read_text().rpartition("STARTING service HMaster")[2]
            assert "Processing expiration of localhost," in log
            assert "removed crashed server localhost," in log
            hbase_server.start("thrift1", "thrift2")
            found = context.gateway.get("old", b"S", [(key, None) for key in keys])
        assert [cells[b"a"][0] for cells in found] == keys
        with closing(happybase.Connection(hbase_server.host, hbase_server.port(1))) as connection:
            connection.delete_table("old", disable=True)

    def test_more_gateways(self, hbase_server: HBaseServer) -> None:
        """In whichever transport is wanted."""
        name, port = hbase_server.start_gateway(1, framed=True, compact=True)
        with closing(
            happybase.Connection(hbase_server.host, port, transport="framed", protocol="compact")
        ) as connection:
            assert isinstance(connection.tables(), list)
        hbase_server.kill(name)
        assert hbase_server.pid(name) is None

    def test_a_directory_has_one_server(self, hbase_server: HBaseServer) -> None:
        """And keeps it: the second one touches nothing of the first."""
        with pytest.raises(DevServerError, match=f"another server runs in {hbase_server.directory}"):
            HBaseServer(hbase_server.directory).__enter__()
        assert (hbase_server.directory / "zookeeper").is_dir()

    def test_a_folder_of_somebody_else(self, hbase_tools: None, tmp_path: Path) -> None:
        """Is refused and left as it is."""
        (tmp_path / "theirs").touch()
        with pytest.raises(DevServerError, match=f"{tmp_path} holds other things"):
            HBaseServer(tmp_path).__enter__()
        assert [path.name for path in tmp_path.iterdir()] == ["theirs"]

    def test_the_folder_of_an_earlier_server(self, hbase_tools: None, tmp_path: Path) -> None:
        """Even of one that was killed in the middle."""
        for _ in range(2):
            server = HBaseServer(tmp_path / "new" / "folder")
            server._take_directory()
            (server.directory / "data").mkdir(exist_ok=True)
            server.stop()

    def test_an_unknown_part(self, hbase_server: HBaseServer) -> None:
        with pytest.raises(DevServerError, match="no part is named 'thrift3', only master, thrift1, thrift2"):
            hbase_server.kill("thrift3")

    def test_it_listens_on_this_machine_only(self, hbase_server: HBaseServer) -> None:
        """No port of the server's processes is open to other machines."""
        groups = groups_of(hbase_server)
        assert len(groups) == 3
        ours = [(address, group) for address, group in listeners() if group in groups]
        assert {group for _, group in ours} == groups
        assert {address for address, _ in ours} == {"0100007F"}


def groups_of(server: HBaseServer) -> set[int]:
    return {group for group in map(server.pid, ("master", "thrift1", "thrift2")) if group is not None}


def listeners() -> list[tuple[str, int]]:
    """Address in hex and process group of every listening IPv4 socket whose owner can be seen."""
    owners = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            group = os.getpgid(int(process.name))
            for link in (process / "fd").iterdir():
                owners[os.readlink(link)] = group
        except OSError:
            continue  # it is gone, or not ours
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = [(row[1][:8], f"socket:[{row[9]}]") for row in rows if row[3] == "0A"]
    return [(address, owners[inode]) for address, inode in sockets if inode in owners]
