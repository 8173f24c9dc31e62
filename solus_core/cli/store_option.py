"""What ``--store`` takes: a URL, or the plain path of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from solus_core.config import StorageConfig

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATHS: Final = ("/", "./", "../")


def parse_store(text: str) -> str:
    """The URL of a store: ``text`` itself, or for a path the URL of the in-memory store that is kept in that file.

    A path begins with ``/``, ``./`` or ``../`` and may hold any character. Raises ``ValueError``, which does not
    quote the text: a password may be in it.
    """
    if text.startswith(_PATHS):
        return "memory://" + quote(os.fsencode(os.path.join(os.getcwd(), text)))
    if not _URL.match(text):
        raise ValueError(
            "it must start with a scheme, as in memory:// or hbase://host/table, or with / or ./ "
            "if it is the path of a file"
        )
    return text


def kept_files(config: StorageConfig) -> Iterator[str]:
    """The files in which a store keeps its data, as far as its settings say: the one at ``path``, if it has that."""
    path = getattr(config, "path", None)
    if isinstance(path, str) and path:
        yield path
