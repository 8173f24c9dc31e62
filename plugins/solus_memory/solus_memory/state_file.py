"""The file of ``memory:///path``: its format, its lock, and how it is replaced.

Format 1, all numbers little-endian: 8 bytes ``SOLUSmem``, the format's version (4 bytes), sections, the SHA-256
of everything before. A section is the length of its header (4 bytes), the header in JSON, and ``size`` bytes of
payload. The first section holds the de-dupers, the last one ``{"end": true}``, each between them one table.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from itertools import chain
from pathlib import Path
from typing import Any, Final, final

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_memory.lock_file import is_in_place, lock_path, take_lock
from solus_memory.tables import Dump, Read

MAGIC: Final = b"SOLUSmem"
VERSION: Final = 1
_PRELUDE: Final = struct.Struct("<8sI")
_LENGTH: Final = struct.Struct("<I")
_SUM: Final = hashlib.sha256().digest_size
_BLOCK: Final = 1 << 20
_NEW: Final = ".solus-new"


@final
class StateFile:
    """An open state file: the lock on it, and its path with symbolic links resolved.

    The lock is on a file beside it, as the file itself is replaced by each save. It ends with the process,
    however that ends; the lock file stays, as removing it could let two processes in.
    """

    __slots__ = ("_lock", "path")

    def __init__(self, path: str) -> None:
        self.path = Path(os.path.realpath(path))
        problem = _problem(self.path)
        if problem:
            raise InvalidConfigError("memory:// store", [f"path {path!r}: {problem}"])
        self._lock = take_lock(self.path)
        try:
            self._remove_leftovers()
        except BaseException:
            self.close()
            raise

    @property
    def locked(self) -> bool:
        """Not closed yet."""
        return self._lock >= 0

    def close(self, *, keep_lock: bool = False) -> None:
        """Release the lock; again is fine. ``keep_lock``: it is the parent process's, only forget it here."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            if not keep_lock:
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def save(self, dumps: Iterable[Dump]) -> None:
        """Replace the file by one with these sections. A failure leaves the old one as it was."""
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}{_NEW}")
        try:
            with new.open("xb") as file:
                with suppress(FileNotFoundError):
                    old = self.path.stat()
                    # Only a superuser may, and not in every container: no reason to lose a save.
                    with suppress(OSError):
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
                _write(file, dumps)
                file.flush()
                os.fsync(file.fileno())
            if not is_in_place(self._lock, self.path):
                raise StoreError(
                    ErrorCode.INTERNAL_ERROR,
                    f"{self.path} was not written and is as it was: its lock file {str(lock_path(self.path))!r} was "
                    "removed or replaced while this store was open, and another store may have saved its state there",
                )
            new.replace(self.path)
        except BaseException as error:
            with suppress(OSError):
                new.unlink()
            if isinstance(error, (OSError, MemoryError)):
                raise _failed(f"{self.path} can't be written, the file is as it was", error) from error
            raise
        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise _failed(f"{self.path} was written, but its directory can't be synced", error) from error

    def _remove_leftovers(self) -> None:
        """Remove what saves that were killed have left. Nobody else's: a save of this file needs our lock."""
        ours = re.compile(re.escape(f".{self.path.name}.") + "[0-9a-f]{8}" + re.escape(_NEW))
        with suppress(OSError), os.scandir(self.path.parent) as entries:
            for entry in entries:
                if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)

    def load(self, take: Callable[[dict[str, Any], Read], None]) -> None:
        """Call ``take(header, read)`` for each section, or not at all for a file that is not whole and ours.

        Raises ``StoreError`` INVALID_ARGUMENT for a damaged, foreign or newer file, which is left as it is.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed(f"{self.path} can't be read", error) from error
        with file:
            try:
                size = _verify(file, self.path)
                for header, read in _sections(file, size - _SUM):
                    take(header, read)
            except OSError as error:
                raise _failed(f"{self.path} can't be read", error) from error
            except (ValueError, KeyError, TypeError, AttributeError, InvalidConfigError) as error:
                # The checksum is right: whoever wrote this meant it.
                raise _refused(self.path, f"its content makes no sense ({error!r})") from error


def _problem(path: Path) -> str | None:
    try:
        if not path.parent.is_dir():
            return f"there is no directory {str(path.parent)!r}; create it first"
        if path.exists() and (problem := _file_problem(path)):
            return problem
        if not os.access(path.parent, os.W_OK | os.X_OK):
            return f"the directory {str(path.parent)!r} can't be written"
        longest = os.pathconf(path.parent, "PC_NAME_MAX") - len(f"..12345678{_NEW}")
    except OSError as error:  # too long, or below a directory that may not be entered
        return f"it can't be used: {error.strerror or error}"
    if len(os.fsencode(path.name)) > longest:
        return f"its name is longer than {longest} bytes, and the files beside it need a few more"
    return None


def _file_problem(path: Path) -> str | None:
    if path.is_dir():
        return "it is a directory, a file is needed"
    if not path.is_file():
        return "it is no regular file"
    # By the mode, too: a superuser may write any file, and replacing it would ask nobody.
    if not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        return "the file is read-only, and each save would replace it: make it writable, or give another path"
    return None


def _write(file: BufferedWriter, dumps: Iterable[Dump]) -> None:
    digest = hashlib.sha256()

    def put(data: bytes | memoryview) -> None:
        digest.update(data)
        file.write(data)

    put(_PRELUDE.pack(MAGIC, VERSION))
    for dump in chain(dumps, [Dump({"end": True}, 0, iter(()))]):
        header = json.dumps({**dump.header, "size": dump.size}).encode()
        put(_LENGTH.pack(len(header)))
        put(header)
        for chunk in dump.chunks:
            put(chunk)
    file.write(digest.digest())


def _verify(file: BufferedReader, path: Path) -> int:
    """The file's size, if it is whole and of this version."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(_PRELUDE.size)
    if not start.startswith(MAGIC):
        raise _refused(path, "it is no state file of solus-memory" if start else "it is empty")
    if size < _PRELUDE.size + _SUM:
        raise _refused(path, "it is cut off")
    version = _PRELUDE.unpack(start)[1]
    if version > VERSION:
        raise _refused(path, f"it has format {version}, written by a newer solus-memory; this one reads {VERSION}")
    digest, left = hashlib.sha256(start), size - _SUM - len(start)
    while left:
        block = file.read(min(_BLOCK, left))
        if not block:
            raise _refused(path, "it is cut off")
        digest.update(block)
        left -= len(block)
    if file.read(_SUM) != digest.digest():
        raise _refused(path, "its checksum is wrong: it is damaged or cut off")
    return size


def _sections(file: BufferedReader, end: int) -> Iterator[tuple[dict[str, Any], Read]]:
    file.seek(_PRELUDE.size)
    while True:
        header = json.loads(file.read(_LENGTH.unpack(file.read(_LENGTH.size))[0]))
        if "end" in header:
            return
        stop = file.tell() + header["size"]
        if stop > end:
            raise ValueError("a section goes beyond the end")

        def read(buffer: memoryview, stop: int = stop) -> None:
            if file.tell() + buffer.nbytes > stop or file.readinto(buffer) != buffer.nbytes:
                raise ValueError("a section is too short")

        yield header, read
        if file.tell() != stop:
            raise ValueError("a section is too long")


def _refused(path: Path, why: str) -> StoreError:
    return StoreError(
        ErrorCode.INVALID_ARGUMENT, f"{path} is refused and left as it is: {why}; move it away or give another path"
    )


def _failed(what: str, error: OSError | MemoryError) -> StoreError:
    reason = "there is not enough memory" if isinstance(error, MemoryError) else error.strerror or error
    return StoreError(ErrorCode.INTERNAL_ERROR, f"{what}: {reason}")
