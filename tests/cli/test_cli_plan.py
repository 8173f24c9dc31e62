"""``solus plan``, and ``solus dedup --expect``: numbers in, configs out. In this process."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core import DeDuperConfig, SolusEngine
from solus_core.cli.app import run
from solus_core.cli.numbers import parse_keys, parse_number, parse_rate
from solus_core.cli.plot import _around, _draw
from solus_core.planning import MAX_KEYS, false_positive_rate
from solus_core.sizing import choices, smallest

EVENTS = str(Path(__file__).parent.parent.parent / "examples" / "events.jsonl")


class Solus:
    """Runs ``solus`` and holds its last ``out``, ``err`` and exit ``code``."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *args: object) -> int:
        self.code = run([*map(str, args)])
        self.out, self.err = self._capture.readouterr()
        assert "Traceback" not in self.err
        return self.code


@pytest.fixture
def solus(capfd: pytest.CaptureFixture[str]) -> Solus:
    return Solus(capfd)


# Numbers


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("1", 1),
        ("10k", 10_000),
        ("100M", 10**8),
        ("1.5G", 1_500_000_000),
        ("1.5B", 1_500_000_000),
        ("2t", 2 * 10**12),
        ("2_000_000", 2_000_000),
        ("2,000,000", None),
        ("1,500M", None),
        ("1.000", None),
        ("1.0000", 1),
        ("12.000", None),
        ("2e6", 2_000_000),
        ("0.0015k", None),
        ("1.5", None),
        ("0", None),
        ("2e15", None),
        ("1_0", None),
        ("1,5M", None),
        ("-1", None),
        ("1e9999", None),
        ("10KB", None),
        ("\u0661", None),
        ("", None),
    ],
)
def test_numbers_of_keys(text: str, keys: int | None) -> None:
    if keys is None:
        with pytest.raises(ValueError, match=r"keys|number|comma|two ways"):
            parse_keys(text)
    else:
        assert parse_keys(text) == keys


def test_numbers_that_mean_two_things_say_what_to_write() -> None:
    with pytest.raises(ValueError, match="'1,500M' has a comma, the decimal point to some: write it as 2000000"):
        parse_keys("1,500M")
    with pytest.raises(ValueError, match=r"'1\.500' can be read in two ways: write it as 1_500 or as 1\.5000"):
        parse_number("1.500")
    assert (parse_number("1_500"), parse_number("1.5000"), parse_number("0.125")) == (
        Decimal(1500),
        Decimal("1.5"),
        Decimal("0.125"),
    )


@pytest.mark.parametrize("parse", [parse_keys, parse_number, parse_rate])
@pytest.mark.parametrize("text", ["9" * 5_000, "0." + "9" * 5_000, "1e" + "9" * 5_000, "x" * 5_000])
def test_errors_cut_what_is_long(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text[:37] + "...'")) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "rate"), [("0.1%", 0.001), ("0.001", 0.001), ("1e-6", 1e-6), (".5", 0.5), ("50 %", 0.5), ("1E-4%", 1e-6)]
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "the false-positive rate is 5, allowed is above 0 and below 1: was 0.05 meant, which is 5%?"),
        ("100%", "was 0.01 meant"),
        ("0", "above 0"),
        ("-0.1", "above 0"),
        ("100M", "were keys and rate swapped?"),
        ("100000000", "were keys and rate swapped?"),
        ("0,001", "write it as 0.1%"),
        ("nan", "not a rate"),
        ("1e-400", "above 0"),
    ],
)
def test_row_8_rates_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_rate(text)


@given(text=st.text() | st.from_regex(r"[0-9_,.eE+-]{1,9}[kMG%]?"))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    for parse in (parse_keys, parse_number, parse_rate):
        with suppress(ValueError):
            assert parse(text) >= 0


@pytest.mark.parametrize("args", [("--keys", "0.001", "--rate", "100M"), ("--rate", "100M", "--keys", "0.1%")])
def test_row_8_swapped_arguments(solus: Solus, args: tuple[str, ...]) -> None:
    assert solus("plan", *args) == 2
    assert "were keys and rate swapped?" in solus.err
    assert solus.out == ""


# The plan


def test_a_table_in_a_pipe(solus: Solus) -> None:
    assert solus("plan", "--keys", "100M", "--rate", "0.1%") == 0
    lines = solus.out.splitlines()
    rows = [line for line in lines if re.match(r"\*? +\d", line)]
    found = choices(100_000_000, 0.001)
    assert [row.lstrip("* ").split()[:3] for row in rows] == [
        [str(c.config.hash_functions), f"{c.config.bits_per_shard:,}", f"{c.config.shards:,}"] for c in found
    ]
    marked = [choice for choice, row in zip(found, rows, strict=True) if row.startswith("*")]
    assert [choice.config for choice in marked] == [smallest(100_000_000, 0.001)]
    assert "6 GB" in next(row for row in rows if row.startswith("*"))
    assert "estimate" in lines[2]


def test_the_registration_lines_mean_what_is_recommended(solus: Solus) -> None:
    assert solus("plan", "--per-second", "2_000", "--ttl", "30d", "--rate", "1e-6") == 0
    *_, python, command = solus.out.splitlines()
    keys = 2_000 * 30 * 86_400
    registered: dict[str, Any] = {}

    class Engine:
        def register(self, name: str, config: DeDuperConfig, *, planned_keys: int) -> None:
            registered.update(config=config, planned_keys=planned_keys)

    exec(python.strip(), {"engine": Engine(), "DeDuperConfig": DeDuperConfig})
    config = registered["config"]
    chosen = smallest(keys, 1e-6)
    assert chosen.differences(config) == {"expiry_seconds": (864_000, 30 * 86_400)}
    assert registered["planned_keys"] == keys
    assert command.strip() == (
        f"solus dedupers register NAME --hash-functions {config.hash_functions} --bits-per-shard "
        f"{config.bits_per_shard} --shards {config.shards} --expiry 2592000s --planned-keys {keys}"
    )


def test_json(solus: Solus) -> None:
    assert solus("plan", "--keys", "1M", "--rate", "1e-3", "--json") == 0
    found = json.loads(solus.out)
    assert (found["keys"], found["rate"], found["expiry_seconds"]) == (1_000_000, 0.001, 864_000)
    assert [choice["hash_functions"] for choice in found["choices"]] == [7, 8, 9, 10, 11, 12, 13]
    (best,) = [choice for choice in found["choices"] if choice["recommended"]]
    assert (best["hash_functions"], best["bits_per_shard"], best["shards"]) == (7, 1_000, 1_000_000)
    assert best["rate"] == false_positive_rate(DeDuperConfig(), 1_000_000)
    assert min(best[name] for name in ("memory_bytes", "aerospike_bytes", "hbase_bytes_estimate")) > 10**7
    assert found["register"]["command"].startswith("solus dedupers register NAME ")


@pytest.mark.parametrize(("rate", "kept"), [("1%", "1% is kept"), ("0.1%", "0.1% is NOT kept"), (None, "alive\n")])
def test_what_a_given_config_is_good_for(solus: Solus, rate: str | None, kept: str) -> None:
    wish = () if rate is None else ("--rate", rate)
    assert solus("plan", "--keys", "100M", "--bits-per-shard", "1000", *wish) == 0
    assert kept in solus.out
    assert "0.895%" in solus.out
    assert "*" not in solus.out


def test_a_narrow_terminal_shows_all_digits(solus: Solus, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a pipe does: rich would show 80 columns with the ends of the numbers cut off."""
    args = ("plan", "--keys", "2_345_678_901", "--rate", "0.1%")
    assert solus(*args) == 0
    in_a_pipe = solus.out
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert solus(*args) == 0
    assert solus.out == in_a_pipe


def test_a_table_on_a_terminal(solus: Solus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert solus("plan", "--keys", "1M", "--rate", "0.1%") == 0
    assert "┃" in solus.out
    assert "1,000,000" in solus.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--rate", "0.1%"], "either --keys, or --per-second"),
        (["--rate", "0.1%", "--keys", "1", "--per-second", "1", "--ttl", "1d"], "either --keys"),
        (["--rate", "0.1%", "--per-second", "1"], "--per-second needs --ttl"),
        (["--rate", "0.1%", "--per-second", "0", "--ttl", "1d"], "must be above 0"),
        (["--rate", "0.1%", "--per-second", "1e300", "--ttl", "1d"], "is 8.64e+304, allowed are 1 to 10**15"),
        (["--rate", "0.1%", "--per-second", "1e999", "--ttl", "1d"], "is 8.64e+1003, allowed are 1 to 10**15"),
        (["--keys", "1M"], "give --rate"),
        (["--keys", "1M", "--rate", "0.1%", "--ttl", "9999d"], "expiry_seconds"),
        (["--keys", "1M", "--shards", "5"], "shards is 5, allowed"),
        (["--keys", "1T", "--rate", "1e-9"], "the best to be had is 0.19"),
    ],
)
def test_what_can_not_be_planned_is_one_error(solus: Solus, args: list[str], said: str) -> None:
    assert solus("plan", *args) == 2
    assert said in solus.err
    assert solus.out == ""


# The plot

# The oldest matplotlib allowed calls what the newest pyparsing would have called otherwise: theirs to settle.
plots = pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib")


@plots
def test_plot_as_png_and_svg(solus: Solus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    for name in ("plan.png", "plan.svg", "again.svg"):
        assert solus("plan", "--keys", "100M", "--rate", "0.1%", "--plot", tmp_path / name) == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "plan.svg").read_text()
    assert svg == (tmp_path / "again.svg").read_text(), "the same plan is the same file"
    texts = {element.text for element in xml.etree.ElementTree.fromstring(svg).iter() if element.tag.endswith("}text")}
    assert {"keys alive at once", "false-positive rate", "textbook formula (even shards)", "100M"} <= texts
    assert "100,000,000 keys: 0.09863%" in texts


@plots
@pytest.mark.parametrize("keys", [1, 7, 10**11])
def test_plot_at_the_ends(solus: Solus, tmp_path: Path, keys: int) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    assert solus("plan", "--keys", keys, "--rate", "0.5", "--plot", tmp_path / "plan.svg") == 0


@plots
def test_plot_of_the_most_keys(solus: Solus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    assert solus("plan", "--keys", "1e15", "--shards", "1000000", "--plot", tmp_path / "plan.png") == 0


@plots
def test_plot_of_one_key(solus: Solus, tmp_path: Path) -> None:
    """The ratio of its rate to the textbook's is far beyond T."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    assert solus("plan", "--keys", "1", "--rate", "0.1%", "--plot", tmp_path / "plan.svg") == 0
    root = xml.etree.ElementTree.parse(tmp_path / "plan.svg").getroot()
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("}text")]
    assert [text for text in texts if re.fullmatch(r"1e\d\dT?", text)], texts
    assert not [text for text in texts if re.fullmatch(r"1e.*T", text)]
    assert {"1", "10", "50"} <= {*texts}, "not only the one key"


@plots
def test_no_line_drops_to_zero_on_a_log_axis() -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="needs matplotlib: pip install '.[plot]'").Figure()
    upper, lower = figure.subplots(2, 1)
    _draw(upper, lower, DeDuperConfig(), 1, None, ())
    rates = [line for line in upper.lines if not str(line.get_label()).startswith("_")]  # those are marks
    assert len(rates) == 4
    assert all(min(line.get_ydata()) > 0 for line in rates)


def test_what_is_plotted_lies_within_what_can_be_planned() -> None:
    assert (_around(1)[0], _around(1)[-1]) == (1, 64)
    assert (_around(10**8)[0], _around(10**8)[-1]) == (6_309_573, 398_107_171)
    assert _around(MAX_KEYS)[-1] == MAX_KEYS


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "plan.png.exe"])
def test_other_kinds_of_plots_are_refused(solus: Solus, tmp_path: Path, name: str) -> None:
    assert solus("plan", "--keys", "1M", "--rate", "0.1%", "--plot", tmp_path / name) == 2
    assert "must end in .png or .svg" in solus.err
    assert (solus.out, list(tmp_path.iterdir())) == ("", [])


@plots
def test_a_plot_that_can_not_be_written(solus: Solus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install '.[plot]'")
    assert solus("plan", "--keys", "1M", "--rate", "0.1%", "--plot", tmp_path / "nowhere" / "plan.png") == 1
    assert "No such file or directory" in solus.err
    assert solus.out == ""


def test_without_matplotlib_one_line_says_what_to_install(solus: Solus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert solus("plan", "--keys", "1M", "--rate", "0.1%", "--plot", "plan.png") == 2
    assert "pip install 'solus-core[plot]'" in solus.err


# solus dedup --expect N --rate P


def dedup(solus: Solus, store: str, *args: object) -> int:
    return solus("dedup", "--quiet", "--key", "id", "--store", store, *args, EVENTS)


@pytest.mark.needs_memory
def test_dedup_registers_what_is_expected(solus: Solus) -> None:
    """R12, R13: the smallest config for the numbers, with the TTL's expiry and the plan on record."""
    store = "memory://?name=test-cli-plan-registers"
    assert dedup(solus, store, "--expect", "100M", "--rate", "0.1%", "--ttl", "30d") == 0
    assert len(solus.out.splitlines()) == 41
    with SolusEngine.open(store, client_id="solus") as engine:
        found = engine.get_deduper("default")
    assert found.planned_keys == 100_000_000
    assert smallest(100_000_000, 0.001).differences(found.config) == {"expiry_seconds": (864_000, 2_592_000)}
    # The same again, and less, is no other wish; more is.
    assert dedup(solus, store, "--expect", "100M", "--rate", "0.1%") == 0
    assert dedup(solus, store, "--expect", "1M", "--rate", "0.01%") == 0
    assert dedup(solus, store, "--expect", "200M", "--rate", "0.1%") == 2
    assert "with 200,000,000 keys its false-positive rate is 0.0" in solus.err
    assert "above --rate 0.001" in solus.err


@pytest.mark.needs_memory
def test_dedup_refuses_a_registered_one_that_is_too_small_before_it_writes(solus: Solus, tmp_path: Path) -> None:
    store, output = "memory://?name=test-cli-plan-refuses", tmp_path / "output"
    assert dedup(solus, store) == 0
    output.write_text("kept")
    assert dedup(solus, store, "--expect", "100M", "--rate", "0.1%", "--output", output) == 2
    assert "is registered and too small: with 100,000,000 keys its false-positive rate is 0.009" in solus.err
    assert output.read_text() == "kept"
    assert dedup(solus, store, "--expect", "100M", "--rate", "1%") == 0


@pytest.mark.needs_memory
def test_dedup_without_it_registers_the_default(solus: Solus) -> None:
    store = "memory://?name=test-cli-plan-default"
    assert dedup(solus, store) == 0
    with SolusEngine.open(store, client_id="solus") as engine:
        found = engine.get_deduper("default")
    assert (found.config, found.planned_keys) == (DeDuperConfig(), 0)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--expect", "1M"], "go together"),
        (["--rate", "1%"], "go together"),
        (["--expect", "1M", "--rate", "5"], "was 0.05 meant"),
        (["--expect", "0.1%", "--rate", "1M"], "swapped"),
    ],
)
def test_dedup_wishes_that_make_no_sense(solus: Solus, args: list[str], said: str) -> None:
    assert solus("dedup", *args, EVENTS) == 2
    assert said in solus.err


@pytest.mark.needs_memory
def test_dedup_wishes_that_nothing_keeps(solus: Solus) -> None:
    assert dedup(solus, "memory://", "--expect", "1T", "--rate", "1e-9") == 2
    assert "the best to be had" in solus.err
