"""Where an in-memory store is and how large it may grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from attrs import frozen

from solus_core.config import StorageConfig, StoreUrl, wrong_types
from solus_core.errors import InvalidArgumentError, InvalidConfigError
from solus_core.model import check_identifier


@final
@frozen(kw_only=True)
class MemoryConfig(StorageConfig):
    """Settings of ``memory://``; at most one of ``name`` and ``path``.

    Neither: a store of its own for each connect. ``name``: the store of that name in this process, shared by all
    who ask for it. ``path``: a file, loaded at open and written by ``flush`` and ``close``. ``farm``: whose data
    sets of level DC these are (R19). ``max_bytes``: how much all positions together may take; without it, what
    the machine or its control group has available at the time.

    Raises ``InvalidConfigError`` with all problems at once, values of a wrong Python type first.
    """

    name: str | None = None
    path: str | None = None
    farm: str = "default"
    max_bytes: int | None = None

    def __attrs_post_init__(self) -> None:
        problems = [*wrong_types(self).values()]
        if problems:
            raise InvalidConfigError("memory:// store", problems)
        if self.name is not None and self.path is not None:
            problems.append("name and path are given, allowed is one: a store is shared in memory or kept in a file")
        if self.path is not None and (not self.path or "\0" in self.path):
            problems.append(f"path is {self.path!r}, which names no file")
        if self.max_bytes is not None and self.max_bytes < 1:
            problems.append(f"max_bytes is {self.max_bytes}, allowed are whole numbers from 1")
        for what, value in (("farm", self.farm), ("name", self.name)):
            try:
                if value is not None:
                    check_identifier(what, value)
            except InvalidArgumentError as error:
                problems.append(error.message)
        if problems:
            raise InvalidConfigError("memory:// store", problems)


def settings_from_url(url: StoreUrl) -> Mapping[str, object]:
    """The settings that ``memory://[/path/to/file][?name=...&farm=...&max_bytes=...]`` means."""
    problems = []
    if url.hosts:
        problems.append(
            "it has a host, and this store is in this process: write memory:///path/to/file (three slashes) "
            "for a file, memory://?name=x for a shared store"
        )
    if url.user is not None or url.password is not None:
        problems.append("it has a user or a password, and this store has none")
    if "path" in url.options:
        problems.append("path is no option: write memory:///path/to/file")
    if problems:
        raise InvalidConfigError("memory:// URL", problems)
    return {**url.options, "path": url.path} if url.path else dict(url.options)
