"""Where an SQLite store is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from attrs import frozen

from solus_core.config import StorageConfig, StoreUrl, wrong_types
from solus_core.errors import InvalidArgumentError, InvalidConfigError
from solus_core.model import check_identifier


@final
@frozen(kw_only=True)
class SqliteConfig(StorageConfig):
    """Settings of ``sqlite://``. ``path``: the file. ``farm``: whose data sets of level DC these are (R19).

    Raises ``InvalidConfigError`` with all problems at once, values of a wrong Python type first.
    """

    path: str
    farm: str = "default"

    def __attrs_post_init__(self) -> None:
        problems = [*wrong_types(self).values()]
        if problems:
            raise InvalidConfigError("sqlite:// store", problems)
        if not self.path or "\0" in self.path:
            problems.append(f"path is {self.path!r}, which names no file")
        try:
            check_identifier("farm", self.farm)
        except InvalidArgumentError as error:
            problems.append(error.message)
        if problems:
            raise InvalidConfigError("sqlite:// store", problems)


def settings_from_url(url: StoreUrl) -> Mapping[str, object]:
    """The settings that ``sqlite:///path/to/file[?farm=...]`` means."""
    problems = []
    if url.hosts or url.user is not None:
        problems.append("it has a host or a user: write sqlite:///path/to/file, with three slashes")
    if "path" in url.options:
        problems.append("path is no option: write sqlite:///path/to/file")
    if problems:
        raise InvalidConfigError("sqlite:// URL", problems)
    return {**url.options, "path": url.path} if url.path else url.options
