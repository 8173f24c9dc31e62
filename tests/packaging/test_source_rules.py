"""Rules that hold for every file of the project, and that no linter knows."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE = 400

# Spelt in pieces, so that this file keeps its own rule.
DOT, SLASH = ".", "/"
HOSTS = "pypi|pythonhosted|npmjs|crates|debian|golang|maven.apache"
FORBIDDEN = {
    "a path outside the checkout": rf"\.\.{SLASH}shared\b",
    "a path of one machine": rf"(?<![\w.-]){SLASH}(?:work|root){SLASH}",
    "a registry's host": rf"\b(?:{HOSTS})\{DOT}(?:org|io)\b",
}
SUPPRESSION = re.compile(r"noqa|type:\s*ignore|pragma:\s*no cover|fmt:\s*(?:off|skip)|mypy:")
EXPLAINED = re.compile(
    r"#\s*(?:ruff:\s*)?(?:noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|type:\s*ignore\[[\w, -]+\]"
    r"|pragma:\s*no cover|fmt:\s*(?:off|skip)|mypy:[\w ,=-]+)\s*#\s*\w.{2,}"
)


def tracked(*patterns: str) -> list[Path]:
    """Files that are in git or would be, were everything added."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    answer = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip(f"needs a git checkout: {answer.stderr.strip()}")
    return [ROOT / name for name in answer.stdout.split("\0") if name and (ROOT / name).is_file()]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def unexplained(source: str) -> list[int]:
    """Lines of ``source`` that switch a rule off without a reason after it."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    return [
        token.start[0]
        for token in comments
        if SUPPRESSION.match(token.string.lstrip("# ").removeprefix("ruff:").lstrip())
        and not EXPLAINED.fullmatch(token.string)
    ]


def imported_tops(source: str) -> set[str]:
    """Top-level names that ``source`` imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_every_switched_off_rule_has_its_reason() -> None:
    missing = [f"{shown(path)}:{line}" for path in tracked("*.py") for line in unexplained(path.read_text())]
    assert not missing


@pytest.mark.parametrize(
    ("comment", "explained"),
    [
        ("# noqa: E501", False),
        ("# noqa", False),
        ("# noqa  # for no given rule", False),
        ("# type: ignore[misc]", False),
        ("# type: ignore  # for no given rule", False),
        ("# ruff: noqa: E501", False),
        ("# pragma: no cover", False),
        ("# noqa: E501  # a URL can't be broken", True),
        ("# noqa: E501, PLR0915  # a URL can't be broken", True),
        ("# type: ignore[arg-type, misc]  # the line above says it is a number", True),
        ("# a comment about noqa", True),
    ],
)
def test_the_reason_check_tells_them_apart(comment: str, explained: bool) -> None:
    assert (unexplained(f"x = 1  {comment}\n") == []) is explained


def test_every_rule_that_ruff_ignores_has_its_reason() -> None:
    """Beside the rule, or on a line above it; an empty line ends what that one covers."""
    text = (ROOT / "pyproject.toml").read_text()
    blocks = re.findall(r"^ignore = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"^\[tool\.ruff\.lint\.per-file-ignores\]\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert blocks
    bare, covered = [], False
    for line in "\n\n".join(blocks).splitlines():
        explained = re.search(r"#\s*\w.{2,}", line) is not None
        is_rule = bool(line.strip()) and not line.lstrip().startswith("#")
        covered = explained if not is_rule else covered
        if is_rule and not explained and not covered:
            bare.append(line)
    assert not bare


def test_no_module_is_longer_than_the_limit() -> None:
    sizes = {shown(path): len(path.read_text().splitlines()) for path in tracked("*.py")}
    assert sizes, "no modules found"
    assert not {name: size for name, size in sizes.items() if size > LONGEST_MODULE}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("a path outside the checkout", f"Path('..{SLASH}shared') / 'cases'"),
        ("a path of one machine", f"cd {SLASH}work{SLASH}main"),
        ("a registry's host", f"https:{SLASH}{SLASH}pypi{DOT}org{SLASH}simple"),
        ("a registry's host", f"https:{SLASH}{SLASH}repo.maven.apache{DOT}org"),
    ],
)
def test_the_patterns_find_what_they_are_for(kind: str, text: str) -> None:
    assert re.search(FORBIDDEN[kind], text)


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_holds(kind: str) -> None:
    pattern = re.compile(FORBIDDEN[kind])
    found = []
    for path in tracked():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a binary fixture
        found += [f"{shown(path)}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found


def test_the_core_imports_no_plugin_and_no_plugin_another() -> None:
    packages = {path.parent.name: path.parent for path in tracked(":(glob)plugins/*/solus_*/__init__.py")}
    assert packages
    packages["solus_core"] = ROOT / "solus_core"
    for own, folder in packages.items():
        for module in folder.rglob("*.py"):
            ours = {top for top in imported_tops(module.read_text()) if top.startswith("solus_")}
            assert ours <= {own, "solus_core"}, shown(module)


def test_importing_the_core_imports_its_own_dependencies_only() -> None:
    """Neither what an extra needs, nor a backend, nor a driver."""
    script = "import sys; old = set(sys.modules); import solus_core; print(*(set(sys.modules) - old))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    tops = {name.partition(".")[0] for name in answer.stdout.split()}
    owners = packages_distributions()
    loaded = {owner.lower() for top in tops for owner in owners.get(top, ())}
    declared = {re.split(r"[^\w-]", line)[0] for line in requires("solus-core") or () if "extra ==" not in line}
    # Those that attrs and cattrs need on some versions of Python.
    assert loaded <= declared | {"solus-core", "exceptiongroup", "typing_extensions", "typing-extensions"}
    assert "pluggy" in loaded
