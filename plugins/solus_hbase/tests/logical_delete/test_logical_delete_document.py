"""The how-to on logical deletes runs as it is written, block by block, on the server of these tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solus_hbase.dev_server import HBaseServer

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "delete-logically.md"


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="needs a checkout: the document is not in the distribution")
def test_the_how_to(lab: Callable[..., Any], hbase_server: HBaseServer) -> None:
    table = lab()
    table.create_rows(b"anna", b"ben", b"carla")
    text = DOCUMENT.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) == 5
    namespace: dict[str, object] = {}
    for block in blocks:
        source = block[1].replace("127.0.0.1:9090", f"{hbase_server.host}:{hbase_server.port(2)}")
        source = source.replace('"accounts"', repr(table.name))
        # Blank lines in front, so that a traceback has the line numbers of the document.
        lines = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines + source, str(DOCUMENT), "exec"), namespace)
