"""The runner of code blocks itself: it must fail on a broken block, and say where."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import pytest


def load_runner() -> ModuleType:
    # Test files can't import each other (--import-mode=importlib), so it is loaded from its path.
    path = Path(__file__).with_name("test_code_blocks.py")
    spec = importlib.util.spec_from_file_location("code_blocks_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = load_runner()


def run(tmp_path: Path, text: str) -> None:
    document = tmp_path / "guide.md"
    document.write_text(text)
    runner.run_document(document, tmp_path)


def test_runs_blocks_in_order_in_one_namespace_and_one_folder(tmp_path: Path) -> None:
    run(
        tmp_path,
        "# Guide\n\n```bash\nseq 3 > numbers\n```\n\n"
        "```console\n$ wc -l \\\n>   < numbers\n3\n\n$ echo done\n```\n"
        "```python\nfirst = 1\n```\n- a list\n\n  ```python\n  assert first == 1\n  ```\n"
        '```json\n{"a": 1}\n```\n```jsonl\n{"a": 1}\n{"a": 2}\n```\n```text\nanything\n```\n',
    )
    assert (tmp_path / "numbers").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "guide.md:2: \\$ echo one\nprinted\none"),
        ("```console\n$ echo one\none\ntwo\n```\n", "printed"),
        ("```console\n$ echo one; echo two\none\n```\n", "printed"),
        ("```console\n$ true\nsomething\n```\n", "printed"),
        ("```console\n$ false\n$ echo reached\n```\n", "guide.md:2: exit code 1"),
        ("```console\n$ false | cat\n```\n", "exit code 1"),
        ("```console\necho no prompt\n```\n", "begins with a command"),
        ("\n```bash\nfalse\ntrue\n```\n", "guide.md:3: exit code 1"),
        ("```\nno language\n```\n", "not a language"),
        ("```pyhton\nassert True\n```\n", "not a language"),
        ("```bash -x\ntrue\n```\n", "not a language"),
        ("```python\nassert True\n", "guide.md:1: .* not closed"),
    ],
)
def test_fails_on_a_broken_block(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        run(tmp_path, text)


@pytest.mark.parametrize("text", ['```json\n{"a": }\n```\n', '```jsonl\n{"a": 1}\n{"a"}\n```\n'])
def test_fails_on_data_that_does_not_parse(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting"):
        run(tmp_path, text)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reading TOML needs Python 3.11")
def test_fails_on_toml_that_does_not_parse(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 1"):
        run(tmp_path, "```toml\na = = 1\n```\n")


def test_a_failing_python_block_shows_the_line_of_the_document(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(tmp_path, "# Guide\n\n```python\nx = 0\n1 / x\n```\n")
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (Path(last.filename).name, last.lineno) == ("guide.md", 5)


def test_a_marked_block_does_not_run_and_keeps_its_reason(tmp_path: Path) -> None:
    text = "<!-- not run: needs a cluster -->\n\n```bash\nfalse\n```\n\n```python\nran = True\n```\n"
    run(tmp_path, text)
    reasons = [block.not_run for block in runner.blocks_of(tmp_path / "guide.md")]
    assert reasons == ["needs a cluster", None]


def test_a_marker_holds_for_the_block_right_under_it_only(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 1"):
        run(tmp_path, "<!-- not run: needs a cluster -->\n\nSome prose.\n\n```bash\nfalse\n```\n")


def test_a_block_with_a_title_becomes_a_file_and_does_not_run(tmp_path: Path) -> None:
    run(
        tmp_path,
        '```python title="test_x.py"\nraise RuntimeError\n```\n```console\n$ cat test_x.py\nraise RuntimeError\n```\n',
    )
    assert (tmp_path / "test_x.py").read_text() == "raise RuntimeError\n"


def test_a_document_that_needs_a_missing_module_skips_or_fails_where_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "guide.md"
    document.write_text("<!-- needs: json no_such_module_at_all -->\n")
    monkeypatch.delenv("SOLUS_REQUIRE_DOCS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_module_at_all"):
        runner.see_that_it_can_run(document)
    monkeypatch.setenv("SOLUS_REQUIRE_DOCS", "1")
    with pytest.raises(pytest.fail.Exception, match="no_such_module_at_all"):
        runner.see_that_it_can_run(document)
    document.write_text("<!-- needs: json -->\n")
    runner.see_that_it_can_run(document)


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        (["a", "...", "z"], "a\nb\nc\nz\n", True),
        (["a", "...", "z"], "a\nz\n", True),
        (["a", "...", "z"], "a\nb\n", False),
        (["read 12 in ... s"], "read 12 in 0.3 s\n", True),
        (["read 12 in ... s"], "read 13 in 0.3 s\n", False),
        (["a   ...    1"], "a   0.10.0 1\n", True),
        (["a   ...    1"], "a   0.10.0 2\n", False),
        (["a.c"], "abc\n", False),
        (["a"], "a  \n\n", True),
    ],
)
def test_dots_stand_for_anything(expected: list[str], output: str, same: bool) -> None:
    assert runner.matches(expected, output) is same


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "guide.md"
    document.write_text("# What's `R4`?\n\n## Two words\n")
    found = [runner.leads_somewhere(document, target) for target in ("guide.md", "#whats-r4", "guide.md#two-words")]
    assert found == [True, True, True]
    assert not runner.leads_somewhere(document, "other.md")
    assert not runner.leads_somewhere(document, "#three-words")
