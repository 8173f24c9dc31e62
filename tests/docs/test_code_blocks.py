"""Documentation is test input: every code block of every document runs, in order; links lead somewhere.

- ``python`` blocks of one document share a namespace; a failure shows the line of the document.
- ``console`` blocks: each command after ``$ `` runs in bash (``> `` continues it). The lines under it are
  what it must print, standard error included; none means that nothing is compared. A line ``...`` stands for
  any lines, ``...`` inside a line for any text.
- ``bash`` blocks run whole; what they print is not compared.
- ``json``, ``jsonl`` and ``toml`` are parsed, ``text``, ``csv`` and ``ini`` only shown. Any other language,
  or none, is an error.
- A block with a title, as in ``python title="test_orders.py"``, is written to a file of that name and not run:
  commands further down do something with it.
- ``<!-- not run: reason -->`` above a block keeps it from running. Those blocks are listed in this file.
- ``<!-- needs: fastapi httpx -->`` in a document skips it where one of these modules, or commands, is missing;
  under ``SOLUS_REQUIRE_DOCS=1``, which tox sets in the environment ``docs``, it fails then.

Blocks run in a folder of the document's own, in which ``examples/`` is a copy of the project's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("*.md", "docs/**/*.md", "plugins/*/README.md", "examples/*/README.md")
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))

# Every block that does not run, as (document, reason); ".ci/run" runs those of the README in a clean clone.
NOT_RUN = [
    ("CONTRIBUTING.md", "sets up a checkout, which .ci/run does"),
    ("README.md", ".ci/run runs it in a clean clone"),
    ("README.md", ".ci/run runs it in a clean clone"),
    *[("docs/how-to/delete-logically.md", "runs in the tests of solus-hbase, on their server")] * 5,
    ("docs/how-to/kafka-consumer.md", "installs more than this page needs"),
    ("docs/how-to/webhooks-fastapi.md", "installs what runs this page"),
    ("docs/tutorial/first-deduper.md", "installs into the environment that runs this page"),
    ("examples/shorturl/README.md", "needs an HBase"),
    ("plugins/solus_aerospike/README.md", "installs what runs this page"),
    ("plugins/solus_aerospike/README.md", "needs a server of Aerospike"),
    ("plugins/solus_aerospike/README.md", "needs a server of Aerospike"),
    ("plugins/solus_hbase/README.md", "installs what runs this page"),
    ("plugins/solus_hbase/README.md", "needs a table of yours"),
    ("plugins/solus_hbase/README.md", "needs the server above"),
    ("plugins/solus_hbase/README.md", "runs until Ctrl-C, and needs Java and Maven"),
    ("plugins/solus_memory/README.md", "installs what runs this page"),
]

FENCE = re.compile(r"(?P<indent> *)(?P<fence>```+)(?P<language>.*?)(?: title=\"(?P<title>[\w.-]+)\")?\s*")
MARKER = re.compile(r"\s*<!-- not run: *(.*?) *-->\s*")
NEEDS = re.compile(r"^<!-- needs: *(.*?) *-->$", re.MULTILINE)
BETWEEN = "@@ next command @@"


@frozen
class Block:
    """A fenced block; ``line`` is the number of its first line inside the fence, ``title`` a file to write."""

    document: Path
    line: int
    language: str
    title: str | None
    text: str
    not_run: str | None

    @property
    def place(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks_of(document: Path) -> Iterator[Block]:
    lines = document.read_text().splitlines()
    number, marker = 0, None
    while number < len(lines):
        opening = FENCE.fullmatch(lines[number])
        number += 1
        if opening is None:
            found, above = MARKER.fullmatch(lines[number - 1]), lines[number - 1].strip()
            marker = found[1] if found else (None if above else marker)
            continue
        first = number
        while number < len(lines) and lines[number].strip() != opening["fence"]:
            number += 1
        if number == len(lines):
            raise AssertionError(f"{document.name}:{first}: the block that opens here is not closed")
        indent = len(opening["indent"])
        text = "".join(line[indent:] + "\n" for line in lines[first:number])
        yield Block(document, first + 1, opening["language"], opening["title"], text, marker)
        number, marker = number + 1, None


def run_document(document: Path, folder: Path) -> None:
    """Run the blocks of ``document`` in ``folder``, which is the current one; the first that fails raises."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(document):
        if block.not_run is not None:
            continue
        if block.title is not None:
            (folder / block.title).write_text(block.text)
            continue
        match block.language:
            case "python":
                # Blank lines in front, so that a traceback has the line numbers of the document.
                source = "\n" * (block.line - 1) + block.text
                exec(compile(source, str(document), "exec"), namespace)
            case "console":
                run_console(block, folder)
            case "bash":
                run_bash(block.text, folder, block.place)
            case "json":
                json.loads(block.text)
            case "jsonl":
                for line in block.text.splitlines():
                    json.loads(line)
            case "toml":
                pytest.importorskip("tomllib", reason="needs Python 3.11").loads(block.text)
            case "text" | "csv" | "ini":
                pass
            case other:
                raise AssertionError(f"{block.place}: {other!r} is not a language that this runner knows")


def run_bash(script: str, folder: Path, place: str) -> str:
    """Run ``script`` in ``folder``, stopping at the first failure; answers all that it printed."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SOLUS_", "PYTEST_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{place}: exit code {done.returncode} after\n{done.stdout}"
    return done.stdout


def run_console(block: Block, folder: Path) -> None:
    commands: list[str] = []
    expected: list[list[str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
            expected.append([])
        elif line.startswith("> ") and commands and not expected[-1]:
            commands[-1] += "\n" + line[2:]
        elif commands:
            expected[-1].append(line)
        else:
            raise AssertionError(f"{block.place}: a console block begins with a command after '$ '")
    script = "".join(f"printf '%s\\n' '{BETWEEN}'\n{command}\n" for command in commands)
    _, *printed = run_bash(script, folder, block.place).split(f"{BETWEEN}\n")
    for command, lines, output in zip(commands, expected, printed, strict=True):
        while lines and not lines[-1]:
            lines.pop()  # a blank line before the next command is for the eye
        if lines:
            assert matches(lines, output), f"{block.place}: $ {command}\nprinted\n{output}"


def matches(expected: list[str], output: str) -> bool:
    """Whether ``output`` is ``expected``, blanks at line ends apart, with ``...`` standing for anything."""
    pattern = ""
    for line in expected:
        # Blanks around the dots belong to them, so that columns can stay aligned in the document.
        parts = [re.escape(part) for part in re.split(r" *\.\.\. *", line.rstrip())]
        pattern += "(?:[^\n]*\n)*" if line.strip() == "..." else "[^\n]*".join(parts) + "\n"
    stripped = [line.rstrip() + "\n" for line in output.rstrip().splitlines()]
    return re.fullmatch(pattern, "".join(stripped)) is not None


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def see_that_it_can_run(document: Path) -> None:
    """Skip where a module or command that ``document`` needs is missing; fail where it was promised."""
    for needed in " ".join(NEEDS.findall(document.read_text())).split():
        if find_spec(needed) is not None or shutil.which(needed) is not None:
            continue
        if os.environ.get("SOLUS_REQUIRE_DOCS") == "1":
            pytest.fail(f"SOLUS_REQUIRE_DOCS=1 and {needed} is not installed", pytrace=False)
        pytest.skip(f"needs {needed}: tox run -e docs")


@pytest.mark.needs_memory
@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_code_blocks_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("click", "rich"):
        pytest.importorskip(needed, reason="the documents show the command: pip install '.[cli]'")
    see_that_it_can_run(document)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    run_document(document, tmp_path)


def test_blocks_that_do_not_run_are_the_listed_ones() -> None:
    blocks = [(named(path), block.not_run) for path in DOCUMENTS for block in blocks_of(path)]
    assert sorted((name, reason) for name, reason in blocks if reason is not None) == NOT_RUN


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_relative_links_lead_somewhere(document: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose)
    assert not [target for target in targets if not leads_somewhere(document, target)]


def leads_somewhere(document: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    path = (document.parent / file).resolve() if file else document
    if not anchor or not path.is_file():
        return path.exists()
    headings = re.findall(r"^#+ +(.+?) *$", path.read_text(), flags=re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
