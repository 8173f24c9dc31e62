"""``solus stats``: figures of a de-duper on a state file, for people and as JSON."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path

import pytest
from attrs import evolve

from solus_core import DeDuper, DeDuperConfig, SolusEngine
from solus_core.cli.app import run
from solus_core.cli.stats_cmd import _as_dict, _rows
from solus_core.stats import DeDuperStats
from solus_core.stores import StoreStats

pytestmark = pytest.mark.needs_memory

Solus = Callable[..., tuple[int, str, str]]
PAST = "solus: warning: orders is past its plan: about "


@pytest.fixture
def solus(on_store: Solus) -> Solus:
    return partial(on_store, "stats")


def fill(store: str, planned_keys: int) -> None:
    with SolusEngine.open(store, client_id="solus") as engine:
        engine.register("orders", planned_keys=planned_keys)
        engine.add_many("orders", range(500), timedelta(hours=1))
        engine.add_many("orders", range(500, 1_000), timedelta(days=9))


def test_figures_for_people(solus: Solus, store: str) -> None:
    fill(store, 2_000_000)
    code, out, err = solus("orders")
    assert (code, err) == (0, "")
    rows = {line[:17].strip(): line[17:] for line in out.splitlines()}
    assert list(rows) == [
        *("de-duper", "positions set", "keys alive", "false positives", "as planned"),
        *("10% expired", "50% expired", "90% expired", "100% expired", "stored"),
    ]
    keys, error = (float(part) for part in rows["keys alive"].replace(",", "").split("+-"))
    assert abs(keys - 1_000) <= 3
    assert 1 <= error <= 2
    assert rows["positions set"].endswith("% (all of 1,000,000,000 looked at)")
    assert rows["as planned"].endswith(" at 2,000,000 keys")
    assert rows["10% expired"].startswith("after 20")
    assert rows["10% expired"] < rows["90% expired"] == rows["100% expired"]
    assert rows["stored"].endswith(" bytes")


def test_figures_as_json(solus: Solus, store: str) -> None:
    fill(store, 0)
    code, out, err = solus("orders", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {
        *("deduper", "at", "fill", "estimated_keys", "standard_error", "false_positive_rate"),
        *("planned_false_positive_rate", "past_plan", "expired_by", "positions", "stored_bytes"),
    }
    assert abs(found["estimated_keys"] - 1_000) <= 3
    assert found["deduper"]["name"] == "orders"
    assert found["positions"]["seen"] == found["positions"]["total"] == 10**9
    assert found["planned_false_positive_rate"] is None
    assert found["past_plan"] is False
    assert list(found["expired_by"]) == ["10", "50", "90", "100"]
    assert found["at"] < found["expired_by"]["10"] < found["expired_by"]["100"]


def test_past_its_plan_is_said_once_and_is_no_failure(solus: Solus, store: str) -> None:
    fill(store, 900)
    for more in ([], ["--json"]):
        code, out, err = solus("orders", *more)
        assert code == 0
        assert err.startswith(PAST), "not what the library logs, or not first"
        assert err.count("\n") == 1
        assert "planned were 900" in err
        assert "past its plan" not in out
    assert json.loads(out)["past_plan"] is True
    assert logging.getLogger("solus_core.engine").handlers == []


def test_python_does_not_print_the_log_too(store: str) -> None:
    """In a process where nobody has set up logging, warnings go to stderr by themselves."""
    fill(store, 900)
    script = "from solus_core.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "stats", "orders", "--store", store],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr.startswith(PAST)
    assert done.stderr.count("\n") == 1


def test_empty_and_unregistered_ones_have_figures(solus: Solus, store: str) -> None:
    """R14: the data of an unregistered one stay."""
    with SolusEngine.open(store, client_id="solus") as engine:
        engine.register("empty")
        engine.unregister("empty")
    code, out, err = solus("empty")
    assert (code, err) == (0, "")
    assert out.startswith("de-duper         empty (unregistered)\n")
    assert "keys alive       0 +- 0\n" in out
    assert "expired" not in out


def test_a_sample_and_a_store_that_says_little() -> None:
    deduper = DeDuper(name="d", client_id="c", config=DeDuperConfig())
    rows = dict(_rows(DeDuperStats.of(deduper, StoreStats(live=70, seen=10**6, total=10**9), 0)))
    assert rows["positions set"] == "0.007% (1,000,000 of 1,000,000,000 looked at)"
    assert rows["keys alive"].startswith("10,030 +- ")
    assert "stored" not in rows
    blind = DeDuperStats.of(deduper, StoreStats(live=0, seen=0, total=10**9), 0)
    assert dict(_rows(blind))["keys alive"] == "not known, the store looked at nothing"
    assert blind.standard_error == inf
    assert _as_dict(blind)["standard_error"] is None
    assert json.loads(json.dumps(_as_dict(evolve(blind, deduper=deduper)), allow_nan=False))["stored_bytes"] is None


def test_errors(solus: Solus, tmp_path: Path) -> None:
    code, out, err = solus("nosuch")
    assert (code, out) == (2, "")
    assert err == "solus: DEDUPER_NOT_FOUND: de-duper 'nosuch' is not registered\n"
    assert not (tmp_path / "state").exists()
    assert run(["stats", "x"]) == 2
    assert run(["stats", "x", "--store", "nosuch://h"]) == 2
