"""``solus plugins``: what is installed, and what is wrong with what does not work."""

from __future__ import annotations

import json
from typing import Final

import click

from solus_core.cli.tables import print_table
from solus_core.plugins import PluginInfo, PluginManager

_HEADINGS = ("name", "distribution", "version", "api", "state", "provides, or what is wrong")
_STYLES: Final = {"ok": "green", "failed": "red", "disabled": "yellow"}


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="As a JSON list of objects.")
def plugins(as_json: bool) -> int:
    """List the installed plugins: backends and hashers, also those that are broken or disabled."""
    found = PluginManager.load().plugins
    if as_json:
        click.echo(json.dumps([_as_dict(plugin) for plugin in found], indent=2))
    else:
        print_table(
            _HEADINGS,
            [_row(plugin) for plugin in found],
            styles={i: _STYLES.get(plugin.state, "") for i, plugin in enumerate(found)},
        )
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
        cell or "-"  # an installation can have lost its metadata
        for cell in (
            plugin.name,
            plugin.distribution,
            plugin.version,
            "" if plugin.api is None else str(plugin.api),
            plugin.state,
            plugin.error or ", ".join(plugin.provides),
        )
    )
