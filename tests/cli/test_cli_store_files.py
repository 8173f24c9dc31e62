"""``--store`` as a path, and the files that a store keeps: no input, no output, nobody's victim."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from solus_core.cli.app import run
from solus_core.cli.store_option import parse_store

pytestmark = pytest.mark.needs_memory


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: with an input of one record, and a name that no URL may hold as it is."""
    folder = tmp_path / "a@b #c?d=e&f %41 é"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "in").write_bytes(b"x\n")
    return folder


@pytest.mark.parametrize("way", ["./seen.solus", "../{folder}/seen.solus", "{place}/seen.solus"])
def test_a_store_may_be_a_path(place: Path, capfd: pytest.CaptureFixture[str], way: str) -> None:
    store = way.format(place=place, folder=place.name)
    assert run(["dedup", "-q", "--store", store, "in"]) == 0
    assert capfd.readouterr() == ("x\n", "")
    assert (place / "seen.solus").is_file()
    assert run(["dedup", "-q", "--store", "./seen.solus", "in"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("url", ["memory://", "memory://?name=x", "hbase://user:p@host/table", "MEMORY:///x"])
def test_a_url_is_taken_as_it_is(url: str) -> None:
    assert parse_store(url) == url


@pytest.mark.parametrize("text", ["seen.solus", "", "secret:word@host/x", "x/://y"])
def test_what_is_neither_is_refused_and_not_repeated(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A forgotten scheme may leave a password."""
    assert run(["dedup", "--store", text, os.devnull]) == 2
    err = capfd.readouterr().err
    assert "with / or ./" in err
    assert "secret" not in err


Arrange = Callable[[Path], list[str]]


def linked(place: Path) -> list[str]:
    (place / "link").symlink_to(place / "seen.solus")
    return ["-o", "link", "in"]


def hard_linked(place: Path) -> list[str]:
    (place / "link").hardlink_to(place / "seen.solus")
    return ["-o", "link", "in"]


@pytest.mark.parametrize(
    "arrange",
    [
        lambda _: ["-o", "seen.solus", "in"],
        lambda _: ["--duplicates", "./seen.solus", "in"],
        lambda place: ["-o", str(place / "seen.solus"), "in"],
        lambda _: ["in", "seen.solus"],
        linked,
        hard_linked,
    ],
)
@pytest.mark.parametrize("way", ["./seen.solus", "url"])
def test_the_file_of_the_store_is_neither_input_nor_output(
    place: Path, capfd: pytest.CaptureFixture[str], arrange: Arrange, way: str
) -> None:
    store = way if way != "url" else parse_store(str(place / "seen.solus"))
    assert run(["dedup", "-q", "--store", store, "in"]) == 0
    before = (place / "seen.solus").read_bytes()
    capfd.readouterr()
    assert run(["dedup", "--store", store, *arrange(place)]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "the store's own file" in err
    assert (place / "seen.solus").read_bytes() == before


@pytest.mark.parametrize("arrange", [lambda _: ["-o", "seen.solus", "in"], linked])
def test_a_store_that_is_not_there_yet_has_its_file_all_the_same(
    place: Path, capfd: pytest.CaptureFixture[str], arrange: Arrange
) -> None:
    assert run(["dedup", "--store", "./seen.solus", *arrange(place)]) == 2
    assert "is also the store's own file" in capfd.readouterr().err
    assert run(["dedup", "-q", "--store", "./seen.solus", "in"]) == 0
    assert capfd.readouterr().out == "x\n"


def test_records_that_the_shell_appends_to_the_file_of_the_store(place: Path) -> None:
    assert run(["dedup", "-q", "--store", "./seen.solus", "-o", "out", "in"]) == 0
    before = (place / "seen.solus").read_bytes()
    saved = os.dup(1)
    appended = os.open("seen.solus", os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(appended, 1)
        assert run(["dedup", "-q", "--store", "./seen.solus", "--deduper", "other", "in"]) == 2
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(appended)
    # The de-duper was registered before, so it can be a new state, but is whole.
    assert b"x\n" not in (place / "seen.solus").read_bytes().removeprefix(before)
    assert run(["dedup", "-q", "--store", "./seen.solus", "in"]) == 0
