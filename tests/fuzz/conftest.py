"""What the fuzz tests share: how many examples, and the command line run in isolation.

``SOLUS_FUZZ_EXAMPLES=20000 pytest tests/fuzz --hypothesis-show-statistics`` looks for more, and tells the counts.
Without it the examples are few and the same each time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import HealthCheck, settings

from solus_core.cli.app import run

EXAMPLES = os.environ.get("SOLUS_FUZZ_EXAMPLES")

settings.register_profile(
    "solus-fuzz",
    deadline=None,
    derandomize=EXAMPLES is None,
    database=None,
    max_examples=int(EXAMPLES or 60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


@frozen
class Done:
    """How a run of the command ended. ``files``: what lies in its folder afterwards."""

    code: int
    out: bytes
    err: str
    files: Mapping[str, bytes]


Command = Callable[[Sequence[str], Mapping[str, bytes], bytes], Done]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """``command(args, files, stdin)`` runs ``solus`` in this process, in a new folder that holds ``files``.

    ``{here}`` in an argument becomes that folder: a store's path is absolute, and must stay inside.

    Descriptors 0 to 2 and ``sys.std*`` are files of its own, set up as Python does for a process in UTF-8.
    """
    monkeypatch.setenv("SOLUS_DISABLED_PLUGINS", "hbase,aerospike")  # they would look for servers

    def call(args: Sequence[str], files: Mapping[str, bytes], stdin: bytes) -> Done:
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            os.chdir(folder)
            try:
                code, out, err = _run([arg.replace("{here}", folder) for arg in args], stdin)
            finally:
                os.chdir(before)
            left = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
        return Done(code, out, err.decode(), left)

    return call


def _run(args: Sequence[str], stdin: bytes) -> tuple[int, bytes, bytes]:
    kept, streams = [os.dup(fd) for fd in range(3)], (sys.stdin, sys.stdout, sys.stderr)
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        for fd, file in enumerate((source, out, err)):
            os.dup2(file.fileno(), fd)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115  # closed below
        sys.stdout = open(1, "w", encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115  # as above
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  # as above
        try:
            code = run(list(args))
        finally:
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.close()
            sys.stdin, sys.stdout, sys.stderr = streams
            for fd, copy in enumerate(kept):
                os.dup2(copy, fd)
                os.close(copy)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()
