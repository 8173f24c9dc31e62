"""The one thing in this package that outlives engines: stores that are shared by name inside the process.

``memory://?name=x`` means the same store for everyone in the process who says so, also when nobody has it open
at the time; that takes state in a module. All states are known here too, weakly, to get them over a fork.
"""

from __future__ import annotations

import os
import threading
from typing import Final
from weakref import WeakSet

from solus_core.errors import InvalidConfigError
from solus_memory.state import MemoryState
from solus_memory.state_file import StateFile

_LOCK: Final = threading.Lock()
_NAMED: Final[dict[str, MemoryState]] = {}
_STATES: Final[WeakSet[MemoryState]] = WeakSet()


def named_state(name: str, max_bytes: int | None) -> MemoryState:
    """The shared state of that name; made by the first who asks, with that one's ``max_bytes``."""
    with _LOCK:
        state = _NAMED.get(name)
        if state is None:
            state = _NAMED[name] = MemoryState(max_bytes)
            _STATES.add(state)
        elif max_bytes not in (None, state.max_bytes):
            raise InvalidConfigError(
                "memory:// store",
                [f"max_bytes is {max_bytes:,}, and store {name!r} was opened with {state.max_bytes or 'none'}"],
            )
        return state


def own_state(path: str | None, max_bytes: int | None) -> MemoryState:
    """A state of its own, loaded from the file at ``path`` if one is given."""
    file = None if path is None else StateFile(path)
    try:
        state = MemoryState(max_bytes, file)
    except BaseException:
        if file is not None:
            file.close()
        raise
    with _LOCK:
        _STATES.add(state)
    return state


def _before_fork() -> None:
    _LOCK.acquire()
    for state in list(_STATES):
        state.before_fork()


def _after_fork(*, child: bool) -> None:
    for state in list(_STATES):
        state.after_fork(child=child)
    _LOCK.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)
