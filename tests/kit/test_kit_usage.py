"""How the kit presents itself: what is collected, what its tests cite, what is missing without the extra."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import solus_core.testing
from solus_core.testing import DataStoreContract, HasherContract, MetaStoreContract, PluginContract

CONTRACTS = (DataStoreContract, MetaStoreContract, HasherContract, PluginContract)


def run_pytest(place: Path, *arguments: str) -> str:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            "/dev/null",
            "--confcutdir",
            str(place),
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            *arguments,
        ],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return run.stdout + run.stderr


def test_every_contract_test_is_a_numbered_scenario_that_cites_a_promise() -> None:
    numbers = []
    for contract in CONTRACTS:
        for name, test in inspect.getmembers(contract, inspect.isfunction):
            if name.startswith("test_"):
                found = re.match(r"([DMHP]\d+)(?: \((R\d+(?:(?:, | to )R\d+)*)\))?: \S", inspect.getdoc(test) or "")
                assert found, f"{name} is not numbered"
                # How a plugin is found and configured is no promise to users of the engine.
                assert found[2] or found[1] in ("P3", "P4", "P6"), f"{name} cites no promise"
                numbers.append(found[1])
    assert len(numbers) == len(set(numbers)) > 60


def test_contracts_are_not_collected_where_they_are_imported(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from solus_core.testing import *\nfrom solus_core.testing.fixtures import *\ndef test_one(): pass\n"
    )
    assert "1 passed" in run_pytest(tmp_path, "-q")


def test_a_subclass_without_the_fixture_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from solus_core.testing import DataStoreContract\nclass TestMine(DataStoreContract): pass\n"
    )
    output = run_pytest(tmp_path, "-q", "-x")
    assert "TestMine needs a fixture open_store, see DataStoreContract" in output


def test_a_failure_shows_the_values(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent("""
        import pytest
        from solus_core.hashing import MurmurMd5Hasher
        from solus_core.testing import HasherContract

        class Short:
            name = "with space"

        class TestMine(HasherContract):
            @pytest.fixture
            def hasher(self):
                return Short()
        """)
    )
    # Only a rewritten assert says this; a plain one is an AssertionError without a word.
    assert "set('with space')" in run_pytest(tmp_path, "-q", "-k", "test_name")


def test_as_a_pytest_plugin(tmp_path: Path) -> None:
    pytest.importorskip("solus_memory")
    (tmp_path / "test_app.py").write_text(
        textwrap.dedent("""
        import pytest
        from solus_core import SolusError
        from solus_core.errors import BatchError, ErrorCode, StoreError
        from solus_core.testing import Fault

        def test_time(solus_engine, solus_clock):
            solus_engine.register("orders")
            assert solus_engine.add_if_absent("orders", "a", 1_000)
            solus_clock.advance(1_001)
            assert solus_engine.check_absence("orders", "a")

        def test_a_fresh_engine_each(solus_engine):
            assert not solus_engine.get_active_dedupers()

        def test_faults(solus_engine, solus_faults):
            solus_engine.register("orders")
            solus_faults.data.plan(Fault("add_if_absent", rows=2))
            with pytest.raises(BatchError) as caught:
                solus_engine.add_if_absent_many("orders", ["a", "b", "c"], 1_000)
            assert caught.value.unprocessed == ("c",)
            solus_faults.data.plan(Fault("add_one", error=StoreError(ErrorCode.HBASE_ERROR, "gone")))
            with pytest.raises(SolusError, match="gone"):
                solus_engine.add("orders", "d", 1_000)
            solus_faults.meta.plan(Fault("get", error=StoreError(ErrorCode.HBASE_ERROR, "gone")))
            with pytest.raises(SolusError, match="gone"):
                solus_engine.get_deduper("orders")
        """)
    )
    for way in ("-p", "conftest"):
        if way == "conftest":
            (tmp_path / "conftest.py").write_text('pytest_plugins = ["solus_core.testing.fixtures"]\n')
        output = run_pytest(tmp_path, "-q", *(["-p", "solus_core.testing.fixtures"] if way == "-p" else []))
        assert "3 passed" in output, output


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_without_the_extra(missing: str) -> None:
    code = f"import sys\nsys.modules[{missing!r}] = None\nimport solus_core.testing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 1
    assert f"solus_core.testing needs {missing}: pip install 'solus-core[testing]'" in run.stderr


def test_every_module_with_asserts_is_rewritten() -> None:
    place = Path(solus_core.testing.__file__).parent
    wanted = {path.stem for path in place.glob("*.py") if re.search(r"^\s+assert ", path.read_text(), re.M)}
    listed = set(re.findall(r'^            "(\w+)",$', (place / "__init__.py").read_text(), re.M))
    assert wanted - {"faults"} == listed
    for name in listed:
        importlib.import_module(f"solus_core.testing.{name}")
