"""``solus plugins``: what is installed, and what is wrong with what does not work."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from solus_core.cli.failures import one_line
from solus_core.plugins import PluginInfo, PluginManager

_HEADINGS = ("name", "distribution", "version", "api", "state", "provides, or what is wrong")


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="As a JSON list of objects.")
def plugins(as_json: bool) -> int:
    """List the installed plugins: backends and hashers, also those that are broken or disabled."""
    found = PluginManager.load().plugins
    if as_json:
        click.echo(json.dumps([_as_dict(plugin) for plugin in found], indent=2))
    elif sys.stdout.isatty():
        _print_table(found)
    else:
        rows = [_HEADINGS, *map(_row, found)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _as_dict(plugin: PluginInfo) -> dict[str, object]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution or None,
        "version": plugin.version or None,
        "api": plugin.api if isinstance(plugin.api, int) else None,
        "state": plugin.state,
        "error": plugin.error or None,
        "provides": list(plugin.provides),
    }


def _row(plugin: PluginInfo) -> tuple[str, ...]:
    return tuple(
        one_line(cell or "") or "-"  # an installation can have lost its metadata
        for cell in (
            plugin.name,
            plugin.distribution,
            plugin.version,
            "" if plugin.api is None else str(plugin.api),
            plugin.state,
            plugin.error or ", ".join(plugin.provides),
        )
    )


def _print_table(found: Sequence[PluginInfo]) -> None:
    from rich.console import Console  # noqa: PLC0415  # only where it is shown
    from rich.table import Table  # noqa: PLC0415  # as above
    from rich.text import Text  # noqa: PLC0415  # as above

    colours = {"ok": "green", "failed": "red", "disabled": "yellow"}
    table = Table(*_HEADINGS)
    for plugin in found:
        cells = [Text(cell) for cell in _row(plugin)]
        cells[4].stylize(colours.get(plugin.state, ""))
        table.add_row(*cells)
    Console().print(table)
