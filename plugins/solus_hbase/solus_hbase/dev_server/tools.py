"""What the server needs from the machine: a Java, a Maven, and the jars of HBase by way of it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

HBASE_VERSION: Final = "2.6.1"
# Hadoop's login calls Subject.getSubject, which Java 24 took away.
_JAVA_VERSIONS: Final = range(17, 24)
_RESOLVER: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
_RESOLVE_SECONDS: Final = 900


class DevServerError(RuntimeError):
    """The server can't be started or used; the message says what to do about it."""


def java() -> str:
    """The Java that ``JAVA_HOME`` or ``PATH`` leads to, if HBase runs on it."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        place = f"JAVA_HOME={home}" if home else "PATH"
        raise DevServerError(f"no java on {place}: Java 17 is needed (Debian: apt-get install openjdk-17-jre-headless)")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None:
        raise DevServerError(f"{found} -version does not say which Java it is: {answer.stderr.strip()!r}")
    if int(version[1]) not in _JAVA_VERSIONS:
        allowed = f"{_JAVA_VERSIONS[0]} to {_JAVA_VERSIONS[-1]}"
        first_line = answer.stderr.splitlines()[0]
        raise DevServerError(
            f"{found} is {first_line}, HBase {HBASE_VERSION} runs on Java {allowed}: set JAVA_HOME to such a one"
        )
    return found


def class_path() -> str:
    """The class path of HBase. The first time Maven downloads it (110 MB); later the answer comes from a file."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "solus-hbase" / HBASE_VERSION
    remembered = cache / "cp.txt"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        only_one = (cache / "lock").open("w")
    except OSError as error:
        raise DevServerError(f"no folder for what Maven finds, set XDG_CACHE_HOME to one: {error}") from error
    # Two Mavens at once can spoil the repository that they download to.
    with only_one as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if remembered.is_file():
            known = remembered.read_text()
            if known and all(map(os.path.exists, known.split(os.pathsep))):
                return known
        resolved = cache / "resolved.txt"
        _resolve(resolved)
        resolved.replace(remembered)
        return remembered.read_text()


def _resolve(into: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevServerError(
            f"no mvn on PATH: Maven downloads HBase {HBASE_VERSION} the first time (Debian: apt-get install maven)"
        )
    with as_file(files("solus_hbase.dev_server") / "pom.xml") as pom:
        command = [maven, "-B", "-q", "-f", str(pom), _RESOLVER, "-DincludeScope=runtime", f"-Dmdep.outputFile={into}"]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_RESOLVE_SECONDS, cwd=into.parent
            )
        except subprocess.TimeoutExpired as error:
            raise DevServerError(f"Maven did not get HBase within {_RESOLVE_SECONDS} s") from error
    if answer.returncode or not into.is_file():
        raise DevServerError(f"Maven could not get HBase {HBASE_VERSION}:\n{_tail(answer.stdout + answer.stderr)}")


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-12:])
