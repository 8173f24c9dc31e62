"""Reference pages that are made from the code: the command's options, and the hooks.

``python tests/docs/test_generated_pages.py`` writes them; as a test it fails where one of them is stale.
"""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from solus_core import hookspecs, stores
from solus_core.config import Backend, StorageConfig, StorageContext, StoreUrl

ROOT = Path(__file__).resolve().parents[2]
HOW = "python tests/docs/test_generated_pages.py"
NOTE = f"<!-- made from the code: {HOW} -->\n"


def cli_page() -> str:
    """Every command with its usage, help and options, in the order in which ``--help`` has them."""
    from solus_core.cli.app import solus  # noqa: PLC0415  # click is an extra, and the hooks need none

    lines = ["# Command-line options", "", NOTE]
    lines += ["Made from the definitions of the commands. [How they go together](cli.md) is a page of its own.", ""]
    for path, command in commands(solus, "solus"):
        context = command.make_context(path, [], resilient_parsing=True)
        arguments = " ".join(command.collect_usage_pieces(context))
        lines += [f"## `{path}`", "", f"`{path} {arguments}`", "", prose(command.help or ""), ""]
        options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
        if options:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [row(option.get_help_record(context)) for option in options]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Groups come before what is in them; a group's own options are ``--help`` and the like."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in sorted(children):
        yield from commands(children[name], f"{path} {name}")


def prose(text: str) -> str:
    """Paragraphs of one line each. What follows a form feed is not in click's help either."""
    paragraphs = inspect.cleandoc(text).partition("\f")[0].split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def row(record: tuple[str, str]) -> str:
    """A row of a table. A bar in backticks can't be escaped for both GitHub and mkdocs, as HTML it can."""
    option, meaning = (" ".join(part.split()) for part in record)
    shown = f"<code>{html.escape(option)}</code>".replace("|", "&#124;") if "|" in option else f"`{option}`"
    return f"| {shown} | {meaning.replace('|', '&#124;')} |"


def hooks_page() -> str:
    """The hook specifications and what they speak of, with their docstrings."""
    lines = ["# Hooks", "", NOTE, "Made from `solus_core.hookspecs` and the contracts beside it. "]
    lines[-1] += "[Write a backend](../how-to/write-a-backend.md) shows them in use."
    lines += ["", documented(inspect.getdoc(hookspecs)), "", "## The hooks", ""]
    hooks = [found for found in vars(hookspecs).values() if hasattr(found, f"{hookspecs.PROJECT}_spec")]
    for hook in hooks:
        first = " The first answer that is not `None` counts." if hook.solus_spec["firstresult"] else ""
        lines += [f"### `{hook.__name__}`", "", code(signature(hook)), "", documented(inspect.getdoc(hook)) + first, ""]
    lines += ["## What a backend offers", ""]
    for value in (Backend, StoreUrl, StorageConfig, StorageContext):
        lines += [f"### `{value.__name__}`", "", documented(inspect.getdoc(value)), ""]
    lines += ["## What stores and hashers do", ""]
    for contract in (
        stores.Probes,
        stores.StoreStats,
        stores.DataStore,
        stores.SingleProbeStore,
        stores.MetaStore,
        stores.Hasher,
    ):
        lines += [f"### `{contract.__name__}`", "", documented(inspect.getdoc(contract)), ""]
        members = [(name, found) for name, found in vars(contract).items() if is_member(name, found)]
        for name, found in members:
            text = inspect.getdoc(found)
            head = f"`{name}`" if isinstance(found, property) else f"`{signature(found)}`"
            lines.append(f"- {head}" + (f": {' '.join(documented(text).split())}" if text else ""))
        lines += [""] if members else []
    return "\n".join(lines).rstrip() + "\n"


def is_member(name: str, found: object) -> bool:
    return not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property))


def signature(found: Callable[..., object]) -> str:
    """``name(first: type, ...) -> type``, as it is written in the code."""
    parameters = [p for p in inspect.signature(found).parameters.values() if p.name != "self"]
    shown = ", ".join(f"{p.name}: {p.annotation}" for p in parameters)
    return f"{found.__name__}({shown}) -> {inspect.signature(found).return_annotation}"


def code(text: str) -> str:
    return f"```text\n{text}\n```"


def documented(text: str | None) -> str:
    """A docstring in Markdown: roles and double backticks become single ones, ``::`` a block."""
    assert text
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"::\n\n((?:    .*\n|\n)+)", lambda block: ":\n\n" + code(inspect.cleandoc(block[1])) + "\n\n", text)


PAGES = {"docs/reference/cli-options.md": cli_page, "docs/reference/hooks.md": hooks_page}


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    pytest.importorskip("click", reason="the command is documented: pip install '.[cli]'")
    assert (ROOT / name).read_text() == PAGES[name](), f"{name} is stale: {HOW}"


if __name__ == "__main__":
    for page, make in PAGES.items():
        (ROOT / page).write_text(make())
