"""Outputs: written without a buffer of ours, so that what was written is known when entities are marked (R25)."""

from __future__ import annotations

import fcntl
import os
import select
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, final

from solus_core.cli.failures import EXIT_CLOSED_PIPE, EXIT_USAGE, CommandError, one_line, reason_of

STDOUT: Final = "-"


@final
class Output:
    """A place for records: the standard output or a file.

    ``terminator``: put between a record that came without one and the record that follows it here, so that
    records never merge. A regular file is on disk (fsync) when :meth:`write` returns, and as it was when that fails,
    if the system lets us and nobody else has written to it meanwhile.
    """

    def __init__(self, fd: int, name: str, terminator: bytes) -> None:
        self._fd = fd
        self._name = one_line(name)
        self._terminator = terminator
        found = os.fstat(fd)
        self._regular = stat.S_ISREG(found.st_mode)
        self._appends = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)  # the shell's >>
        self._continued = self._regular and self._appends and found.st_size > 0
        # A run that was killed can have left half a record at the end.
        self._torn = self._continued and not _ends_with(fd, found.st_size, terminator[-1:])

    def begin(self, prologue: bytes) -> None:
        """Write byte-order mark and CSV header, unless this appends to a file, which has them already."""
        if not self._continued:
            self.write([prologue] if prologue else [])

    def write(self, records: Sequence[bytes]) -> None:
        """Write all of them or raise: :class:`CommandError`, with exit code 141 if the reader of a pipe has gone.

        ``records`` follow each other in one input: only the last can be without its terminator.
        """
        if not records:
            return
        data = b"".join((self._terminator, *records)) if self._torn else b"".join(records)
        try:
            if self._regular:
                self._write_file(data)
            else:
                self._write_stream(data)
        except BrokenPipeError as error:
            raise CommandError(f"{self._name} was closed by its reader", EXIT_CLOSED_PIPE) from error
        except OSError as error:
            raise CommandError(f"can't write {self._name}: {reason_of(error)}") from error
        self._torn = not data.endswith(self._terminator[-1:])

    def _write_file(self, data: bytes) -> None:
        start = os.lseek(self._fd, 0, os.SEEK_END if self._appends else os.SEEK_CUR)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, memoryview(data)[written:])
            os.fsync(self._fd)
        except OSError:
            # Half a CSV record can end inside quotes, and would take in what the next run appends.
            with suppress(OSError):
                if os.fstat(self._fd).st_size == start + written:  # else somebody writes here too
                    os.ftruncate(self._fd, start)
                    os.lseek(self._fd, start, os.SEEK_SET)
            raise

    def _write_stream(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                # Somebody made our stdout non-blocking; wait as a blocking one would.
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll()

    def close(self) -> None:
        """Close a file; some file systems report a failed write only now. The standard output stays open."""
        if self._fd == 1:
            return
        try:
            os.close(self._fd)
        except OSError as error:
            raise CommandError(f"can't write {self._name}: {reason_of(error)}") from error


def _ends_with(fd: int, size: int, end: bytes) -> bool:
    """Does the file end so? ``fd`` is open for writing only, hence the detour; where it fails, assume the best."""
    try:
        readable = os.open(f"/dev/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return os.pread(readable, 1, size - 1) == end
    except OSError:
        return True
    finally:
        os.close(readable)


def open_output(path: str, terminator: bytes) -> Output:
    """The standard output, or the file at ``path``, which is emptied."""
    if path == STDOUT:
        return Output(1, "the output", terminator)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CommandError(f"can't write {one_line(path)}: {reason_of(error)}", EXIT_USAGE) from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        _sync_name(path)
    return Output(fd, path, terminator)


def _sync_name(path: str) -> None:
    """Put the name of a file that may be new on disk too: fsync of the file needn't (R25 after a power cut)."""
    with suppress(OSError):  # not every file system can
        folder = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def refuse_shared_files(inputs: Sequence[os.stat_result], outputs: Sequence[str], kept: Iterable[str]) -> None:
    """Raise :class:`CommandError` if an output is also an input, both outputs are one file, or either is ``kept``.

    ``kept``: files of the store, there already or not.
    """
    taken: dict[object, str] = {}
    for path in kept:
        try:
            found = os.stat(path)
            taken[found.st_dev, found.st_ino] = "the store's own file"
        except OSError:
            taken[os.path.realpath(path)] = "the store's own file"
    for each in inputs:
        if (each.st_dev, each.st_ino) in taken:
            raise CommandError("an input is the store's own file: give what is to be de-duplicated", EXIT_USAGE)
    taken |= {(each.st_dev, each.st_ino): "an input" for each in inputs if stat.S_ISREG(each.st_mode)}
    for path in outputs:
        identity: object
        try:
            found = os.fstat(1) if path == STDOUT else os.stat(path)
            if path != STDOUT and not stat.S_ISREG(found.st_mode):
                continue  # /dev/null and the like can be shared
            identity = (found.st_dev, found.st_ino)
        except OSError:
            identity = os.path.realpath(path)  # not there yet
        name = "the output" if path == STDOUT else one_line(path)
        if identity in taken:
            raise CommandError(f"{name} is also {taken[identity]}: write to another file", EXIT_USAGE)
        taken[identity] = "the other output"
