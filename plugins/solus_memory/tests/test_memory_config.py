"""URLs and settings of the in-memory store, and what its plugin offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from solus_core.config import StorageContext, build_config, parse_url
from solus_core.errors import InvalidConfigError
from solus_memory import MemoryConfig, MemoryDataStore, MemoryMetaStore, connect, plugin
from solus_memory.available import available_bytes
from solus_memory.config import settings_from_url


def config_of(url: str) -> MemoryConfig:
    return build_config(MemoryConfig, settings_from_url(parse_url(url)), url)


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("memory://", MemoryConfig()),
        ("memory:///", MemoryConfig(path="/")),
        ("memory://?name=x&farm=dc1", MemoryConfig(name="x", farm="dc1")),
        ("memory:///var/lib/so%20lus.state?max_bytes=1000", MemoryConfig(path="/var/lib/so lus.state", max_bytes=1000)),
    ],
)
def test_urls(url: str, config: MemoryConfig) -> None:
    assert config_of(url) == config


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://state.bin", "three slashes"),
        ("memory://user:secret@/x", "user or a password"),
        ("memory:///x?name=y", "allowed is one"),
        ("memory://?path=/x", "three slashes|memory:///path"),
        ("memory://?farm=a%7Cb", "farm"),
        ("memory://?name=", "name is ''"),
        ("memory://?max_bytes=0", "max_bytes is 0"),
        ("memory://?max_bytes=1.5", "max_bytes"),
        ("memory://?nmae=x", "'nmae' is not a setting, allowed are farm, max_bytes, name, path"),
        ("memory:///a%00b", "names no file"),
    ],
)
def test_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message) as caught:
        config_of(url)
    assert "secret" not in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        MemoryConfig(name="a b", path="", farm="", max_bytes=-1)
    assert len(caught.value.problems) == 5


def test_wrong_types() -> None:
    """R22: all of them, and no ``TypeError``."""
    wrong: dict[str, Any] = {"path": Path("x"), "farm": None, "max_bytes": "1000"}
    with pytest.raises(InvalidConfigError) as caught:
        MemoryConfig(**wrong)
    assert [problem.split(" ")[0] for problem in caught.value.problems] == ["path", "farm", "max_bytes"]


def test_plugin() -> None:
    (backend,) = plugin.solus_backends()
    assert plugin.SOLUS_API_VERSION == 1
    assert (backend.scheme, backend.config) == ("memory", MemoryConfig)
    context = backend.connect(MemoryConfig())
    assert isinstance(plugin.solus_open_data_store(context, "shop"), MemoryDataStore)
    assert isinstance(plugin.solus_open_meta_store(context, "shop"), MemoryMetaStore)
    assert plugin.solus_open_data_store(StorageContext(), "shop") is None
    assert plugin.solus_open_meta_store(StorageContext(), "shop") is None
    context.close()


def test_named_stores_agree_on_their_limit() -> None:
    connect(MemoryConfig(name="test-limit", max_bytes=10**6))
    connect(MemoryConfig(name="test-limit"))
    with pytest.raises(InvalidConfigError, match="1000000"):
        connect(MemoryConfig(name="test-limit", max_bytes=5))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 99 kB\nMemAvailable:    1000 kB\n"}


def test_available_memory_is_unknown_where_the_system_tells_nothing(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 1_024_000),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "5000\n",
                "sys/fs/cgroup/a/memory.current": "4000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 500\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "4000\n",
            },
            1_500,
        ),
        (
            {
                "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/g\n",
                "sys/fs/cgroup/memory/g/memory.limit_in_bytes": "9000\n",
                "sys/fs/cgroup/memory/g/memory.usage_in_bytes": "9100\n",
            },
            0,
        ),
        (
            {
                "proc/self/cgroup": "0::/not/visible/here\n",
                "sys/fs/cgroup/memory.max": "700\n",
                "sys/fs/cgroup/memory.current": "100\n",
            },
            600,
        ),
    ],
)
def test_available_memory(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert available_bytes(write(tmp_path, MEMINFO | files)) == expected
