"""Inputs as blocks of bytes, handed on as soon as they are there; gzip is known by its content."""

from __future__ import annotations

import os
import select
import stat
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, final

from solus_core.cli.failures import CommandError, one_line, reason_of

BLOCK: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b\x08"
_GZIP_WBITS: Final = 31  # zlib's way to say: a gzip header and checksum
STDIN: Final = "-"


@final
class Source:
    """One input. ``consumed`` counts the bytes read so far, compressed ones if it is compressed."""

    def __init__(self, fd: int, name: str, read: Callable[[int, int], bytes] = os.read) -> None:
        self.name = name
        self.consumed = 0
        self._fd = fd
        self._read_fd = read
        self._backlog = False
        self._blocks = self._make_blocks()

    def read(self) -> bytes | None:
        """The next bytes, waiting for them if need be; None at the end. Can be empty before the end."""
        return next(self._blocks, None)

    def ready(self) -> bool:
        """Would :meth:`read` answer without waiting?"""
        if self._backlog:
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def _raw(self) -> bytes:
        while True:
            try:
                data = self._read_fd(self._fd, BLOCK)
                break
            except BlockingIOError:
                # Somebody made our stdin non-blocking; wait as a blocking one would.
                poll = select.poll()
                poll.register(self._fd, select.POLLIN)
                poll.poll(100)
            except OSError as error:
                raise CommandError(f"can't read {one_line(self.name)}: {reason_of(error)}") from error
        self.consumed += len(data)
        return data

    def _make_blocks(self) -> Iterator[bytes]:
        head = self._raw()
        while head and len(head) < len(_GZIP) and _GZIP.startswith(head):
            more = self._raw()
            if not more:
                break
            head += more
        if head.startswith(_GZIP):
            yield from self._gunzipped(head)
            return
        while head:
            yield head
            head = self._raw()

    def _gunzipped(self, data: bytes) -> Iterator[bytes]:
        """Decompress one member after another (``cat a.gz b.gz``); zero bytes may pad the end, as for gzip itself."""
        while data:
            member, ended = zlib.decompressobj(wbits=_GZIP_WBITS), False
            while not ended:
                data = data or self._raw()
                if not data:
                    raise CommandError(f"{one_line(self.name)}: the gzip data end too early, the file is cut short")
                try:
                    # A bounded output: a small file can hold gigabytes.
                    block = member.decompress(data, BLOCK)
                except zlib.error as error:
                    raise CommandError(f"{one_line(self.name)}: the gzip data are damaged ({error})") from error
                ended = member.eof
                data = member.unused_data if ended else member.unconsumed_tail
                self._backlog = bool(data)
                yield block
            while not (data := data.lstrip(b"\0")):
                self._backlog = False
                data = self._raw()
                if not data:
                    return


@final
class Inputs:
    """The files of a run, opened one after another. ``"-"`` is the standard input."""

    def __init__(
        self,
        paths: Sequence[str],
        open_file: Callable[[str], int],
        read: Callable[[int, int], bytes],
    ) -> None:
        self.paths = tuple(paths)
        self._open = open_file
        self._read = read
        self._done = 0
        self._current: Source | None = None

    def __iter__(self) -> Generator[Source, None, None]:
        for path in self.paths:
            try:
                fd = 0 if path == STDIN else self._open(path)
            except OSError as error:
                raise CommandError(f"can't open {one_line(path)}: {reason_of(error)}") from error
            try:
                self._current = Source(fd, "stdin" if path == STDIN else path, self._read)
                yield self._current
            finally:
                if fd != 0:
                    os.close(fd)
            self._done += self._current.consumed
            self._current = None

    @property
    def consumed(self) -> int:
        """Bytes read so far, over all files."""
        return self._done + (self._current.consumed if self._current else 0)

    def stats(self) -> Iterator[os.stat_result]:
        """What the system knows of each input; one that is gone shows when it is opened."""
        for path in self.paths:
            try:
                yield os.fstat(0) if path == STDIN else os.stat(path)
            except OSError:
                continue

    def size(self) -> int | None:
        """Bytes of all files together, or None if one is a pipe or the like."""
        found = list(self.stats())
        if len(found) < len(self.paths) or not all(stat.S_ISREG(each.st_mode) for each in found):
            return None
        return sum(each.st_size for each in found)
