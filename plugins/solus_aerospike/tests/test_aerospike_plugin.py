"""The installed plugin, by URL: the contract kit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from solus_core.cli.app import run
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


@pytest.fixture
def dedup(
    aerospike_hosts: list[tuple[str, int]],
    aerospike_namespace: str,
    aerospike_set: str,
    client_id: str,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
) -> Callable[[str], tuple[int, bytes, bytes]]:
    """``solus dedup`` of two records, with these options in the URL: exit code, output, error output."""
    (tmp_path / "in").write_bytes(b"a\nb\n")
    host, port = aerospike_hosts[0]
    url = f"aerospike://{host}:{port}/{aerospike_namespace}/{aerospike_set}"
    options = ["--format", "lines", "--client-id", client_id, str(tmp_path / "in")]
    return lambda more: (run(["dedup", "--store", f"{url}?{more}", *options]), *capfdbinary.readouterr())


def test_dedup_in_a_farm_that_may_not_add_yet(dedup: Callable[[str], tuple[int, bytes, bytes]]) -> None:
    """R25: said before anything is written, each time."""
    assert dedup("farm=dc1")[:2] == (0, b"a\nb\n")
    for _ in range(2):
        code, out, err = dedup("farm=dc2")
        assert (code, out) == (1, b"")
        assert b"farm 'dc2' has just joined de-duper 'default', and may add from " in err
    assert dedup("farm=dc1")[:2] == (0, b"")


def test_dedup_with_another_layout_than_is_recorded(dedup: Callable[[str], tuple[int, bytes, bytes]]) -> None:
    """Else Java would look in vain for what is marked."""
    assert dedup("farm=dc1")[0] == 0
    code, out, err = dedup("farm=dc1&layout=bins")
    assert (code, out) == (2, b"")
    assert b"layout: registered map, requested bins" in err


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
