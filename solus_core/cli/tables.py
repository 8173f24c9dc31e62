"""Tables, for people on a terminal and in aligned columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import click

from solus_core.cli.failures import one_line

_UNCUT: Final = 100_000
"""Columns of a terminal on which rich cuts nothing off: to measure how many a table needs."""

_NO_STYLES: Final[Mapping[int, str]] = {}


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    justify: Literal["left", "right"] = "left",
    styles: Mapping[int, str] = _NO_STYLES,
) -> None:
    """With lines on a terminal that is wide enough, else without, as rich would cut off digits; each row in one line.

    ``headings``: none, or as many as a row has cells. ``styles``: rich's, by the number of a row.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415  # only where it is shown
        from rich.table import Table  # noqa: PLC0415  # as above
        from rich.text import Text  # noqa: PLC0415  # as above

        table = Table(show_header=bool(headings))
        for heading in headings or [""] * len(cells[0]):
            table.add_column(heading, justify=justify)
        for i, row in enumerate(cells):
            table.add_row(*map(Text, row), style=styles.get(i))
        console = Console()
        if console.measure(table, options=console.options.update(width=_UNCUT)).maximum <= console.width:
            console.print(table)
            return
    shown = [list(headings), *cells] if headings else cells
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        texts = [cell.rjust(n) if justify == "right" else cell.ljust(n) for cell, n in zip(row, widths, strict=True)]
        click.echo("  ".join(texts).rstrip())
