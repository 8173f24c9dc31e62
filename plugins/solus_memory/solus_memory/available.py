"""How much memory this process can still get, as far as the system tells."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")


def available_bytes(root: Path = _ROOT) -> int | None:
    """The least of what the machine and the process's control group (version 1 or 2) have left; None if unknown.

    ``root`` is where ``proc`` and ``sys`` are.
    """
    found = [_machine(root), *_groups(root)]
    return min((free for free in found if free is not None), default=None)


def _machine(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _groups(root: Path) -> list[int | None]:
    found: list[int | None] = []
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, group = line.split(":", 2)
        if number == "0":
            base, limit, usage, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            limit, usage, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        # A limit holds for all groups below; inside a container the group's own path may not be visible.
        path = Path(group.strip("/"))
        places = {base, *(base / parent for parent in (path, *path.parents))}
        found += [_left(at / limit, at / usage, at / "memory.stat", cache) for at in places]
    return found


def _left(limit: Path, usage: Path, stat: Path, cache: str) -> int | None:
    """What the limit leaves; the page cache counts as used there, and is given back when memory is short."""
    top, used = _number(limit), _number(usage)
    if top is None or used is None:
        return None
    cached = [int(line.split()[1]) for line in _lines(stat) if line.startswith(cache + " ")]
    return max(0, top - used + sum(cached))


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None  # "max": no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
