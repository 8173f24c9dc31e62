"""Brings documents from outside ``docs/`` into the site, so that one text serves checkout, index and site.

READMEs of the plugins, CONTRIBUTING and the like become pages of the section "Project". Links are written for the
checkout; where one leads to a page, it is pointed at that page, and where it leads to a file that is none, such as
a licence or a folder of code, its text stays without the link.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = [
    ROOT / "README.md",
    *sorted([*ROOT.glob("plugins/*/README.md"), *ROOT.glob("examples/*/README.md")]),
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def page_of(path: Path) -> str:
    """Where in the site a document from outside ``docs/`` is: ``project/plugins-solus_memory-readme.md``."""
    return "project/" + path.relative_to(ROOT).as_posix().replace("/", "-").lower()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    assert config.nav is not None
    config.nav.append({"Project": [page_of(path) for path in OUTSIDE]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in OUTSIDE:
        files.append(File.generated(config, page_of(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    assert page.file.abs_src_path is not None
    here = Path(page.file.abs_src_path).parent
    pages = {file.abs_src_path: file.src_uri for file in files}
    from_folder = posixpath.dirname(page.file.src_uri) or "."

    def pointed(link: re.Match[str]) -> str:
        bang, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        uri = pages.get(os.path.normpath(here / target))
        if uri is None:
            # mkdocs says what is wrong with a link inside docs/; outside, only pages can be shown.
            inside = (here / target).resolve().is_relative_to(config.docs_dir)
            return link[0] if inside or bang else text
        return f"{bang}[{text}]({posixpath.relpath(uri, from_folder)}{anchor})"

    parts = FENCED.split(markdown)
    return "".join(part if FENCED.fullmatch(part) else LINK.sub(pointed, part) for part in parts)
