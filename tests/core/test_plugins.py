"""Plugins: found through real entry points of throw-away distributions, isolated, version-checked, told apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solus_core import ErrorCode, SolusEngine, SolusError
from solus_core.config import StorageContext
from solus_core.errors import PluginError
from solus_core.hookspecs import API_VERSION, hookimpl
from solus_core.plugins import PluginInfo, PluginManager

Install = Callable[..., None]

GOOD = """
from attrs import frozen
from solus_core.config import Backend, StorageConfig, StorageContext
from solus_core.hookspecs import hookimpl
SOLUS_API_VERSION = 1
@frozen
class Config(StorageConfig):
    size: int = 1
@hookimpl
def solus_backends():
    return [Backend("SCHEME", Config, lambda url: url.options, lambda config: StorageContext(), "sample")]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Write a module and the metadata of a distribution that names it, where this process finds both."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, source: str, distribution: str = "", entry: str = "") -> None:
        distribution = distribution or f"dist-{name}"
        # Of a name of its own in each test: an imported module stays imported.
        module = f"{tmp_path.name}_{distribution}_{name}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source.replace("SCHEME", name))
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[solus]\n{entry or name} = {module}\n")

    return write


def info_of(name: str) -> PluginInfo:
    return next(info for info in PluginManager.load().plugins if info.name == name)


def test_an_installed_plugin_is_found(install: Install) -> None:
    install("sample", GOOD)
    assert info_of("sample") == PluginInfo("sample", "dist-sample", "1.2", 1, "ok", provides=("sample://",))
    assert PluginManager.load().backends["sample"].summary == "sample"


def test_the_built_in_hashers_are_a_plugin() -> None:
    assert info_of("hashing").provides == ("hasher murmur3-md5", "hasher murmur3-double")
    assert list(PluginManager().hashers) == ["murmur3-md5", "murmur3-double"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_driver_anywhere", "ModuleNotFoundError"),
        ("this is no python", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("x = 1", f"SOLUS_API_VERSION = None, this solus-core speaks {API_VERSION}"),
        (GOOD.replace("= 1\n@f", "= 2\n@f"), f"SOLUS_API_VERSION = 2, this solus-core speaks {API_VERSION}"),
        (GOOD.replace("= 1\n@f", "= True\n@f"), "SOLUS_API_VERSION = True"),
        (GOOD.replace("solus_backends", "solus_bakends"), "solus_bakends"),
        (GOOD.replace("return [", "return [3, "), "Backend objects, it answered 3"),
        (GOOD.replace('"SCHEME"', '"Bad Scheme"'), "'Bad Scheme' is not of the form"),
        (GOOD.replace("return [", "1 / 0 #"), "ZeroDivisionError"),
        (GOOD + "@hookimpl\ndef solus_hashers(): return [object()]", "hashers with a name"),
        (GOOD.replace("def solus_backends()", "def solus_backends(wrong)"), "wrong"),
    ],
)
def test_row_13_a_broken_plugin_hurts_only_whoever_asks_for_it(install: Install, source: str, message: str) -> None:
    install("broken", source)
    install("sample", GOOD)
    info = info_of("broken")
    assert (info.state, info.distribution, info.version, info.provides) == ("failed", "dist-broken", "1.2", ())
    assert message in info.error
    manager = PluginManager.load()
    assert list(manager.hashers) == ["murmur3-md5", "murmur3-double"]
    assert "sample" in manager.backends, "everything else works"
    with pytest.raises(PluginError, match=r"'broken' of dist-broken 1\.2 is installed but broken") as caught:
        manager.config_of("broken://")
    assert caught.value.__cause__ is not None


def test_not_installed_says_what_is_and_how_to_get_it(install: Install) -> None:
    install("sample", GOOD)
    manager = PluginManager.load()
    with pytest.raises(PluginError, match=r"no backend for zebra:// is installed \(installed: .*\bsample://.*\)$"):
        manager.config_of("zebra://")
    with pytest.raises(PluginError, match=r"pip install solus-hbase$"):
        PluginManager().config_of("hbase://h/t")


@pytest.mark.parametrize(("typed", "meant"), [("smaple", "sample"), ("aerospik", "aerospike")])
def test_a_near_miss_asks_what_was_meant(install: Install, typed: str, meant: str) -> None:
    install("sample", GOOD)
    with pytest.raises(PluginError, match=rf"did you mean {meant}://\?"):
        PluginManager.load().config_of(f"{typed}://")


def test_a_near_miss_of_a_hasher() -> None:
    with pytest.raises(PluginError, match=r"did you mean murmur3-double\?"):
        PluginManager().hasher("murmur3-duoble")


def test_disabled_by_name(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("sample", "raise AssertionError('a disabled plugin is not even imported')")
    monkeypatch.setenv("SOLUS_DISABLED_PLUGINS", "other, sample")
    assert info_of("sample") == PluginInfo("sample", "dist-sample", "1.2", None, "disabled")
    with pytest.raises(PluginError, match="'sample' is disabled by SOLUS_DISABLED_PLUGINS"):
        PluginManager.load().config_of("sample://")


def test_a_clash_of_schemes_is_told_to_who_asks_for_it(install: Install) -> None:
    install("sample", GOOD, distribution="dist-a", entry="first")
    install("sample", GOOD, distribution="dist-b", entry="second")
    with pytest.raises(PluginError, match=r"sample:// is offered by more than one plugin \(first and second\)"):
        PluginManager.load().config_of("sample://")


def test_two_plugins_of_one_name_are_both_listed(install: Install) -> None:
    install("sample", GOOD, distribution="dist-a")
    install("sample", GOOD.replace("SCHEME", "other"), distribution="dist-b")
    states = {i.distribution: (i.state, i.error) for i in PluginManager.load().plugins if i.name == "sample"}
    assert states["dist-a"][0] == "ok"
    assert states["dist-b"] == ("failed", "another plugin is named 'sample' already, from dist-a")


def test_a_broken_plugin_of_the_same_name_does_not_take_it(install: Install) -> None:
    install("sample", "import no_such_driver_anywhere", distribution="dist-a")
    install("sample", GOOD, distribution="dist-b")
    manager = PluginManager.load()
    assert "sample" in manager.backends
    assert [(i.distribution, i.state) for i in manager.plugins if i.name == "sample"] == [
        ("dist-a", "failed"),
        ("dist-b", "ok"),
    ]


def test_disabled_by_the_name_of_the_distribution(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("sample", "import no_such_driver_anywhere", distribution="dist-a")
    install("sample", GOOD, distribution="dist-b")
    monkeypatch.setenv("SOLUS_DISABLED_PLUGINS", "dist-a")
    assert [(i.distribution, i.state) for i in PluginManager.load().plugins if i.name == "sample"] == [
        ("dist-a", "disabled"),
        ("dist-b", "ok"),
    ]


def test_metadata_without_name_and_version(install: Install, tmp_path: Path) -> None:
    install("sample", GOOD)
    (tmp_path / "dist_sample-1.2.dist-info" / "METADATA").write_text("")
    assert (info_of("sample").distribution, info_of("sample").version, info_of("sample").state) == ("", "", "ok")


def test_a_plugin_that_fails_on_others_contexts_does_not_stand_in_the_way(plugins: PluginManager, clock: Any) -> None:
    class Rude:
        SOLUS_API_VERSION = 1

        @hookimpl
        def solus_open_data_store(self) -> None:
            raise RuntimeError("boo")

        solus_open_meta_store = solus_open_data_store

    plugins.register(Rude(), "rude")
    with SolusEngine.open("toy://h", client_id="c", plugins=plugins, clock=clock) as engine:
        engine.register("d")
    with pytest.raises(PluginError, match="solus_open_data_store of plugin 'rude' failed: RuntimeError: boo"):
        plugins.open_data_store(StorageContext(), "c")


def test_no_state_is_shared_between_managers(toy: Any) -> None:
    with_toy, without = PluginManager(), PluginManager()
    with_toy.register(toy, "toy")
    assert list(with_toy.backends) == ["toy"]
    assert list(without.backends) == []


@pytest.mark.parametrize("target", [{"scheme": "toy", "table": "x", "size": 3}, "toy://?size=3"])
def test_targets_become_typed_configs(plugins: PluginManager, target: Any) -> None:
    config: Any = plugins.config_of(target)
    assert config.size == 3


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"table": "x"}, "scheme is None"),
        ({"scheme": "toy", "tabel": "x"}, "'tabel' is not a setting, allowed are hosts, secret, size, table"),
        ("toy://?sise=3", "'sise' is not a setting"),
        ("toy://?size=x", "size: 'x' is not a whole number"),
    ],
)
def test_wrong_targets_are_named(plugins: PluginManager, target: Any, message: str) -> None:
    with pytest.raises(SolusError, match=message) as caught:
        plugins.config_of(target)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("target", [None, 3, b"toy://"])
def test_targets_of_other_types_are_refused(plugins: PluginManager, target: Any) -> None:
    with pytest.raises(TypeError, match=type(target).__name__):
        plugins.config_of(target)


def test_what_a_plugin_raises_while_connecting_is_a_solus_error(plugins: PluginManager, toys: Any) -> None:
    def connect(config: object) -> None:
        raise ImportError("no driver")

    plugin = toys.Plugin("other", type("OtherConfig", (toys.Config,), {}))
    plugin._connect = connect
    object.__setattr__(plugin._offer, "connect", connect)
    plugins.register(plugin, "other")
    with pytest.raises(PluginError, match="connecting by plugin 'other' failed: ImportError: no driver") as caught:
        SolusEngine.open("other://h", client_id="c", plugins=plugins)
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_context_that_nobody_knows(plugins: PluginManager) -> None:
    with pytest.raises(PluginError, match="no installed plugin answers solus_open_data_store for a StorageContext"):
        SolusEngine.open(StorageContext(), client_id="c", plugins=plugins)


def test_importing_the_core_imports_no_driver_and_no_tool() -> None:
    code = "import sys, solus_core; print([m for m in ('click', 'rich', 'pytest', 'hypothesis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
