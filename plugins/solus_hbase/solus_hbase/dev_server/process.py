"""One Java process of the server: its command, its log, how it is started, awaited and killed."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, final

from attrs import define

from solus_hbase.dev_server import keeper
from solus_hbase.dev_server.tools import DevServerError

HOST: Final = "127.0.0.1"
_POLL_SECONDS: Final = 0.05
_TAIL_LINES: Final = 15


@final
@define
class Process:
    """A Java process that can be started and killed again and again.

    It is ready once its ports accept and ``is_ready`` agrees, which is shown what it has logged since its start.
    """

    name: str
    command: list[str]
    log: Path
    ports: tuple[int, ...]
    is_ready: Callable[[str], bool] = lambda _logged: True
    _running: subprocess.Popen[bytes] | None = None
    _log_start: int = 0

    @property
    def pid(self) -> int | None:
        """The id of its keeper, and of the process group of both; None when it does not run."""
        running = self._running
        return None if running is None or running.poll() is not None else running.pid

    def start(self) -> None:
        if self.pid is not None:
            raise DevServerError(f"{self.name} is already running")
        for port in self.ports:
            if accepts(port):
                raise DevServerError(f"port {port} of {HOST} is taken by another process; {self.name} wants it")
        self.log.touch()
        self._log_start = self.log.stat().st_size
        # -I and -S: the keeper needs nothing of the environment, and starts in 15 ms that way.
        command = [sys.executable, "-I", "-S", keeper.__file__, *self.command]
        with self.output.open("ab") as output:
            self._running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def wait_until_ready(self, deadline: float) -> None:
        """Wait until ``deadline``, a ``time.monotonic()``, at the most."""
        while not self._ready():
            if self.pid is None:
                raise DevServerError(f"{self.name} ended while it started. {self._last_words()}")
            if time.monotonic() > deadline:
                raise DevServerError(f"{self.name} did not get ready in time. {self._last_words()}")
            time.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise if it runs no more although nobody killed it."""
        if self._running is not None and self.pid is None:
            raise DevServerError(f"{self.name} has died. {self._last_words()}")

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, and nothing of it runs any more. Fine when it does not run."""
        running, self._running = self._running, None
        if running is None or running.stdin is None:
            return
        with suppress(BrokenPipeError):
            # Closing alone would not do: forked children of this process may hold the pipe too.
            os.write(running.stdin.fileno(), b".")
        running.wait()
        running.stdin.close()

    @property
    def output(self) -> Path:
        """What it wrote outside of its log: complaints of Java itself."""
        return self.log.with_suffix(".out")

    def _ready(self) -> bool:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            logged = log.read().decode(errors="replace")
        return self.is_ready(logged) and all(map(accepts, self.ports))

    def _last_words(self) -> str:
        told = [path for path in (self.log, self.output) if path.exists() and path.stat().st_size]
        tails = ["\n".join([f"{path}:", *_last_lines(path)]) for path in told]
        return "Its last words are in " + "\nand in ".join(tails) if tails else "It left no word."


def free_ports(count: int, taken: Collection[int] = ()) -> list[int]:
    """Ports that nothing listens on, below those that outgoing connections are given on Linux."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.sample(range(20_000, 32_000), 200):
            if port not in taken and len(found) < count:
                probe = held.enter_context(socket.socket())
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
                found.append(port)
    return found


def accepts(port: int) -> bool:
    """Does anything listen there?"""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _last_lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
