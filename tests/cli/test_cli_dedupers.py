"""``solus dedupers``: registering, listing, showing and unregistering on a state file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from solus_core import DeDuperConfig, Level, SolusEngine
from solus_core.cli.app import run
from solus_core.cli.dedupers_cmd import utc

pytestmark = pytest.mark.needs_memory

Solus = Callable[..., tuple[int, str, str]]


@pytest.fixture
def solus(on_store: Solus) -> Solus:
    return partial(on_store, "dedupers")


def one(found: tuple[int, str, str]) -> dict[str, Any]:
    code, out, err = found
    assert (code, err) == (0, ""), err
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def test_register_records_what_was_asked_for(solus: Solus, store: str) -> None:
    options = "--hash-functions 9 --shards 2000000 --bits-per-shard 3000 --level DC --expiry 20d --planned-keys 1.5M"
    found = one(solus("register", "orders", "--hasher", "murmur3-double", *options.split(), "--json"))
    assert found | {"created_at": 0, "updated_at": 0} == {
        "name": "orders",
        "client_id": "solus",
        "hasher": "murmur3-double",
        "layout": "",
        "active": True,
        "planned_keys": 1_500_000,
        "created_at": 0,
        "updated_at": 0,
        "hash_functions": 9,
        "shards": 2_000_000,
        "bits_per_shard": 3_000,
        "level": "DC",
        "expiry_seconds": 20 * 86_400,
    }
    assert found["created_at"] > 1_700_000_000_000
    with SolusEngine.open(store, client_id="solus") as engine:
        stored = engine.get_deduper("orders")
    assert stored.config == DeDuperConfig(
        hash_functions=9, shards=2_000_000, bits_per_shard=3_000, level=Level.DC, expiry_seconds=20 * 86_400
    )
    assert (stored.hasher, stored.planned_keys) == ("murmur3-double", 1_500_000)


def test_the_defaults_are_those_of_the_library(solus: Solus) -> None:
    found = one(solus("register", "d", "--json"))
    config = DeDuperConfig()
    for field in ("hash_functions", "shards", "bits_per_shard", "level", "expiry_seconds"):
        assert found[field] == getattr(config, field)
    assert (found["hasher"], found["planned_keys"]) == ("murmur3-md5", 0)


def test_parts_of_a_second_are_rounded_up(solus: Solus) -> None:
    assert one(solus("register", "d", "--expiry", "1500ms", "--json"))["expiry_seconds"] == 2


def test_registering_again_is_fine_and_another_config_is_not(solus: Solus) -> None:
    """R13: each differing field with both values, in one line."""
    first = one(solus("register", "d", "--json"))
    assert one(solus("register", "d", "--json")) == first
    code, out, err = solus("register", "d", "--shards", "2000000", "--level", "DC")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "shards: registered 1000000, requested 2000000, level: registered XDC, requested DC" in err


def test_planned_keys_stay_what_they_were_and_that_is_said(solus: Solus) -> None:
    assert solus("register", "d", "--planned-keys", "5")[2] == ""
    assert solus("register", "d", "--planned-keys", "5")[2] == ""
    assert solus("register", "d")[2] == ""
    code, out, err = solus("register", "d", "--planned-keys", "6")
    assert (code, err) == (0, "solus: d was registered before with 5 planned keys, which stays so\n")
    assert "planned keys  5\n" in out


def test_list_shows_the_active_ones_in_order(solus: Solus) -> None:
    """R14, R16."""
    heading = "name  functions  shards  bits  level  expiry  hasher  planned keys  registered\n"
    assert solus("list")[1] == heading, "nothing is registered"
    for name in ("zeta", "alpha beta", "mid", "nu"):
        solus("register", name, "--planned-keys", "2000", "--expiry", "3w")
    solus("unregister", "mid")
    code, out, err = solus("list")
    assert (code, err) == (0, "")
    rows = out.splitlines()[1:]
    assert [row[:10] for row in rows] == ["alpha beta", "nu        ", "zeta      "]
    assert rows[2].split()[:8] == ["zeta", "7", "1,000,000", "1,000", "XDC", "3w", "murmur3-md5", "2,000"]
    assert [each["name"] for each in json.loads(solus("list", "--json")[1])] == ["alpha beta", "nu", "zeta"]


def test_client_ids_are_apart(solus: Solus) -> None:
    solus("register", "d", "--client-id", "one")
    assert json.loads(solus("list", "--json", "--client-id", "two")[1]) == []
    assert "client id     one\n" in solus("show", "d", "--client-id", "one")[1]


def test_show_and_unregister(solus: Solus) -> None:
    """R14: an unregistered one is still shown, and becomes active by registering it again."""
    registered = one(solus("register", "d", "--json"))
    assert one(solus("show", "d", "--json")) == registered
    assert "state         active\n" in solus("show", "d")[1]
    assert one(solus("unregister", "d", "--json"))["active"] is False
    assert one(solus("unregister", "d", "--json"))["active"] is False
    assert "state         unregistered\n" in solus("show", "d")[1]
    assert one(solus("register", "d", "--json"))["active"] is True


def test_names_are_shown_on_one_line(solus: Solus) -> None:
    name = "a\u2028b\u202ec"
    assert one(solus("register", name, "--json"))["name"] == name
    assert "a\\u2028b\\u202ec  7 " in solus("list")[1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["show", "x"], "DEDUPER_NOT_FOUND: de-duper 'x' is not registered"),
        (["unregister", "x"], "DEDUPER_NOT_FOUND: de-duper 'x' is not registered"),
        (["register", "a|b"], "'|', which is not allowed"),
        (["register", "x", "--shards", "5", "--hash-functions", "99"], "hash_functions is 99"),
        (["register", "x", "--shards", "5", "--hash-functions", "99"], "shards is 5"),
        (["register", "x", "--hasher", "md4"], "no hasher 'md4' is installed"),
        (["register", "x", "--expiry", "20y"], "'20y' is not a duration"),
        (["register", "x", "--expiry", "99999d"], "expiry_seconds is"),
        (["register", "x", "--planned-keys", "0"], "allowed are 1 to"),
        (["register", "x", "--client-id", "a b"], "client_id is 'a b'"),
        (["list", "--client-id", ""], "client_id is ''"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(solus: Solus, tmp_path: Path, args: list[str], text: str) -> None:
    code, out, err = solus(*args)
    assert (code, out) == (2, "")
    assert text in err
    assert len([line for line in err.splitlines() if not line.startswith(("Usage:", "Try ")) and line]) == 1
    assert not (tmp_path / "state").exists(), "nothing was written"


def test_a_damaged_store_is_exit_code_1(solus: Solus, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"no state of ours")
    code, out, err = solus("list")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_a_store_must_be_named(capfd: pytest.CaptureFixture[str]) -> None:
    """In the memory of one run, what is registered would be gone at once."""
    assert run(["dedupers", "register", "d"]) == 2
    assert "--store" in capfd.readouterr().err


def test_on_a_terminal_it_is_a_table(solus: Solus, monkeypatch: pytest.MonkeyPatch) -> None:
    solus("register", "[red]d[/red]")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    assert "│ [red]d[/red] │" in solus("list")[1]
    assert "│ functions" in solus("show", "[red]d[/red]")[1]


def test_on_a_narrow_terminal_no_digit_is_lost(solus: Solus, monkeypatch: pytest.MonkeyPatch) -> None:
    solus("register", "a-name-that-is-longer-than-usual", "--planned-keys", "123_456_789")
    in_a_pipe = solus("list")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert solus("list")[1] == in_a_pipe
    assert "│ planned keys │ 123,456,789" in solus("show", "a-name-that-is-longer-than-usual")[1]


def test_times_outside_the_calendar_are_numbers() -> None:
    assert utc(0) == "1970-01-01 00:00:00 UTC"
    assert utc(10**18) == f"{10**18} ms"
