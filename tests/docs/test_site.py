"""The documentation builds as a site, strictly, and the site fetches nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads by itself; links that a reader follows may lead anywhere.
REMOTE = r"[\"']?(?:https?:)?//[^\"' >)]*"
LOADED = re.compile(
    rf"<(?:script|img|iframe|source)\b[^>]*\bsrc={REMOTE}"
    rf"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon|modulepreload))[^>]*\bhref={REMOTE}"
)
LOADED_BY_STYLE = re.compile(rf"(?:@import\s+|url\(){REMOTE}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        if os.environ.get("SOLUS_REQUIRE_DOCS") == "1":
            pytest.fail("SOLUS_REQUIRE_DOCS=1 and mkdocs-material is not installed", pytrace=False)
        pytest.skip("needs mkdocs-material: tox run -e docs")
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet: what is not said is not counted, and --strict finds nothing then.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    documents = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("plugins/*/README.md")]
    headings = {re.findall(r"^# +(.+)$", path.read_text(), re.MULTILINE)[0].replace("`", "") for path in documents}
    pages = [path.read_text() for path in site.rglob("*.html")]
    shown = {re.sub(r"<[^>]+>", "", text) for page in pages for text in re.findall(r"<h1[^>]*>(.*?)<a", page)}
    assert headings <= shown


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [(path, LOADED.findall(path.read_text())) for path in site.rglob("*.html")]
    assert len(pages) > 20
    styles = [(path, LOADED_BY_STYLE.findall(path.read_text())) for path in site.rglob("*.css")]
    assert styles
    assert not [(path.name, found) for path, found in [*pages, *styles] if found]


@pytest.mark.parametrize(
    ("html", "remote"),
    [
        ('<script src="https://cdn.example/x.js">', True),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', True),
        ("<link href=https://fonts.example rel=preconnect crossorigin>", True),
        ('<img alt="" src="http://example/x.png">', True),
        ('<link rel="stylesheet" href="assets/x.css">', False),
        ('<link rel="canonical" href="https://example/">', False),
        ('<a href="https://example/">', False),
    ],
)
def test_what_counts_as_loaded(html: str, remote: bool) -> None:
    assert (LOADED.search(html) is not None) is remote
