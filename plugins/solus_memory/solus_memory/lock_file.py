"""The lock on a state file: a file beside it, which may turn out to be somebody else's and is left alone then."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from pathlib import Path
from typing import Final

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError

_CONTENT: Final = "lock of solus-memory, process {:<10}\n"
"""Always of one length, so that each holder replaces all of it in one write."""
_OURS: Final = re.compile(rb"lock of solus-memory, process ([0-9]+) *\n")


def lock_path(path: Path) -> Path:
    """Where the lock of the state file at ``path`` is: a name that nobody else has a use for."""
    return path.with_name(f".{path.name}.solus-lock")


def take_lock(path: Path) -> int:
    """A descriptor that holds the lock of the state file at ``path`` (no symbolic link); closing it ends the lock.

    Raises ``InvalidConfigError`` if the lock file can't be made or is not ours, ``StoreError`` if it is taken.
    """
    place = lock_path(path)
    try:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        why = "it is a symbolic link" if place.is_symlink() else error.strerror or str(error)
        raise _unusable(place, why) from error
    try:
        _holder(lock, place)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(lock, _CONTENT.format(os.getpid()).encode(), 0)
        except BlockingIOError as error:
            holder = _holder(lock, place)
            who = "this process" if holder == str(os.getpid()) else "another process"
            raise StoreError(
                ErrorCode.INVALID_ARGUMENT,
                f"{path} is open in {who} (pid {holder}): only one store at a time can keep its state there",
            ) from error
        except OSError as error:
            raise StoreError(ErrorCode.INTERNAL_ERROR, f"{path} can't be locked: {error.strerror or error}") from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def is_in_place(lock: int, path: Path) -> bool:
    """Whether the lock still is at its place: one whose file was removed or replaced keeps nobody else out."""
    try:
        return os.path.samestat(os.fstat(lock), lock_path(path).lstat())
    except FileNotFoundError:
        return False


def _holder(lock: int, place: Path) -> str:
    """Whose lock it was last. Refuses a file that no lock of ours can be: nothing was written to it yet."""
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise _unusable(place, "it is no regular file")
    content = os.pread(lock, 100, 0)
    found = _OURS.fullmatch(content)
    if content and found is None:
        raise _unusable(place, "it has a content that is not ours and is left as it is; move it away")
    return found[1].decode() if found else "unknown"


def _unusable(place: Path, why: str) -> InvalidConfigError:
    return InvalidConfigError("memory:// store", [f"the lock file {str(place)!r} can't be used: {why}"])
