"""The installed plugin, by URL: the contract kit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from solus_core.testing import PluginContract


class Plugin(PluginContract):
    scheme = "aerospike"
    drivers = ("aerospike", "aerospike_helpers")
    options = ""

    @pytest.fixture
    def target(self, aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in aerospike_hosts)
        return f"aerospike://{hosts}/{aerospike_namespace}/{aerospike_set}?{self.options}"


class TestMap(Plugin):
    pass


class TestBins(Plugin):
    options = "layout=bins&farm=dc1"


def test_the_examples_of_the_readme(
    aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str
) -> None:
    """Those too that need a server, which the tests of the documents leave out."""
    readme = Path(__file__).parents[1] / "README.md"
    if not readme.is_file():
        pytest.skip("needs the checkout: wheels bring no README")
    text = readme.read_text(encoding="utf-8").replace("/test/solus", f"/{aerospike_namespace}/{aerospike_set}")
    text = text.replace('namespace="test"', f"namespace={aerospike_namespace!r}")
    host, port = aerospike_hosts[0]
    text = text.replace("127.0.0.1:3000", f"{host}:{port}").replace('("127.0.0.1", 3000)', str((host, port)))
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    namespace["client"].close()  # type: ignore[attr-defined]  # whatever a block calls so
