"""A whole HBase in three Java processes: master (with region server and ZooKeeper), Thrift1 and Thrift2."""

from __future__ import annotations

import fcntl
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO, final

from solus_hbase.dev_server.process import HOST, Process, free_ports
from solus_hbase.dev_server.settings import Ports, site, write_conf
from solus_hbase.dev_server.tools import DevServerError, class_path, java

MASTER: Final = "master"
_CLASSES: Final = {
    1: "org.apache.hadoop.hbase.thrift.ThriftServer",
    2: "org.apache.hadoop.hbase.thrift2.ThriftServer",
}
_INITIALIZED: Final = "Master has completed initialization"
# Before that, the master tells of region servers that were killed: how many an earlier master had begun to replace,
# and each that is new to it. The last line comes when all regions of such a one are open elsewhere.
_BEGUN: Final = re.compile(r" (\d+) have existingServerCrashProcedures")
_KILLED: Final = re.compile(r"Processing expiration of (\S+)")
_REPLACED: Final = re.compile(r"removed crashed server (\S+)")
_MARK: Final = "solus-hbase.lock"
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")


@final
class HBaseServer:
    """HBase on ``host`` for as long as the ``with`` block lasts; gone with this process too, however it ends.

    ``directory`` holds data, logs and settings and is kept: a new one, an empty one, or that of an earlier server.
    Without one, a temporary directory is used and removed, and the attribute says which, inside the block.
    ``thrift`` says which gateways start with it, on ``ports[kind]`` or on any free port. ``hbase_site`` and
    ``core_site`` are settings over our own, ``jvm_options`` go to every Java. Each start is awaited for
    ``deadline_seconds`` at the most. Parts are named ``master``, ``thrift1``, ``thrift2`` and, for a gateway that was
    started later, by what :meth:`start_gateway` says. What can't be done raises :class:`DevServerError`.
    """

    host: Final = HOST

    def __init__(
        self,
        directory: Path | None = None,
        *,
        thrift: Collection[int] = (1, 2),
        ports: Mapping[int, int] | None = None,
        hbase_site: Mapping[str, str] | None = None,
        core_site: Mapping[str, str] | None = None,
        jvm_options: Collection[str] = (),
        deadline_seconds: float = 180,
    ) -> None:
        self.directory = Path() if directory is None else directory.resolve()
        self._is_temporary = directory is None
        self._thrift = tuple(thrift)
        self._ports = dict(ports or {})
        self._hbase_site = dict(hbase_site or {})
        self._core_site = dict(core_site or {})
        self._jvm_options = (*_JVM_OPTIONS, *jvm_options)
        self._deadline_seconds = deadline_seconds
        self._java, self._class_path = java(), class_path()
        self._processes: dict[str, Process] = {}
        self._lock: TextIO | None = None

    def __enter__(self) -> HBaseServer:
        try:
            if self._is_temporary:
                self.directory = Path(tempfile.mkdtemp(prefix="solus-hbase-")).resolve()
            self._take_directory()
            self._add_parts()
            self.start(*self._processes)
        except OSError as error:
            self.stop()
            raise DevServerError(f"no folder for the data: {error}") from error
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def port(self, kind: int) -> int:
        """Where the gateway of that kind, 1 or 2, that started with the server listens."""
        return self._ports[kind]

    def start(self, *names: str) -> None:
        """Start these parts at once and wait until each is ready, and old tables can be read."""
        processes = [self._process(name) for name in names]
        if MASTER in names:
            # Only sessions of processes that are gone are in it; they would be waited for.
            shutil.rmtree(self.directory / "zookeeper", ignore_errors=True)
        deadline = time.monotonic() + self._deadline_seconds
        for process in processes:
            process.start()
        for process in processes:
            process.wait_until_ready(deadline)

    def check(self) -> None:
        """Raise if a part has died that nobody killed."""
        for process in self._processes.values():
            process.check()

    def kill(self, *names: str) -> None:
        """End these parts as a power cut would; what was written stays, and :meth:`start` brings them back."""
        for process in [self._process(name) for name in names]:
            process.kill()

    def stop(self) -> None:
        """Kill everything; a temporary directory is removed. Stopping again is fine."""
        for process in self._processes.values():
            process.kill()
        if self._lock is not None:
            # Not only closed: a forked child of this process may hold it too.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None
        if self._is_temporary and self.directory != Path():
            shutil.rmtree(self.directory, ignore_errors=True)

    def start_gateway(
        self,
        kind: int,
        *,
        framed: bool = False,
        compact: bool = False,
        nonblocking: bool = False,
        hbase_site: Mapping[str, str] | None = None,
    ) -> tuple[str, int]:
        """Start one more gateway; answers its name and port. ``hbase_site`` holds settings for it alone."""
        (port,) = free_ports(1)
        chosen = {"-f": framed, "-c": compact, "-nonblocking": nonblocking}
        name = f"thrift{kind}-{port}"
        self._add_gateway(name, kind, port, [option for option, wanted in chosen.items() if wanted], hbase_site or {})
        self.start(name)
        return name, port

    def pid(self, name: str) -> int | None:
        """The process group of a part: its keeper and its Java. None while it does not run."""
        return self._process(name).pid

    def _take_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        found = {path.name for path in self.directory.iterdir()}
        if found and _MARK not in found:
            raise DevServerError(f"{self.directory} holds other things than the data of a server: use an empty folder")
        lock = (self.directory / _MARK).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise DevServerError(f"another server runs in {self.directory}") from None
        self._lock = lock

    def _add_parts(self) -> None:
        zookeeper, master, region_server, *free = free_ports(3 + len(self._thrift), taken=self._ports.values())
        self._hbase_site = site(self.directory, Ports(zookeeper, master, region_server)) | self._hbase_site
        self._add(
            MASTER,
            ["org.apache.hadoop.hbase.master.HMaster", "start"],
            (master, region_server),
            memory="-Xmx1g",
            is_ready=master_is_ready,
        )
        for kind, port in zip(self._thrift, free, strict=True):
            self._ports.setdefault(kind, port)
            self._add_gateway(f"thrift{kind}", kind, self._ports[kind], [], {})

    def _process(self, name: str) -> Process:
        try:
            return self._processes[name]
        except KeyError:
            raise DevServerError(f"no part is named {name!r}, only {', '.join(self._processes)}") from None

    def _add_gateway(self, name: str, kind: int, port: int, options: list[str], hbase_site: Mapping[str, str]) -> None:
        arguments = [_CLASSES[kind], "start", "-b", HOST, "-p", str(port), *options]
        self._add(name, arguments, (port,), memory="-Xmx192m", hbase_site=hbase_site)

    def _add(
        self,
        name: str,
        arguments: list[str],
        ports: tuple[int, ...],
        *,
        memory: str,
        is_ready: Callable[[str], bool] = lambda _logged: True,
        hbase_site: Mapping[str, str] | None = None,
    ) -> None:
        conf, logs = self.directory / "conf" / name, self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        write_conf(conf, self._hbase_site | dict(hbase_site or {}), self._core_site)
        log = logs / f"{name}.log"
        options = [memory, *self._jvm_options, f"-Dsolus.log={log}", "-cp", f"{conf}:{self._class_path}"]
        self._processes[name] = Process(name, [self._java, *options, *arguments], log, ports, is_ready)


def master_is_ready(logged: str) -> bool:
    """Is the master initialized, and have the tables of earlier runs been opened?"""
    killed = sum(map(int, _BEGUN.findall(logged))) + len(set(_KILLED.findall(logged)))
    return _INITIALIZED in logged and len(set(_REPLACED.findall(logged))) >= killed
