"""The plot of ``solus plan``. matplotlib comes with the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from solus_core.cli.failures import EXIT_USAGE, CommandError
from solus_core.model import DeDuperConfig
from solus_core.planning import (
    MAX_KEYS,
    average_false_positive_rate,
    false_positive_rate,
    textbook_false_positive_rate,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".png", ".svg")
_POINTS: Final = 120
_FOUND: Final = 20
"""Measured rates of fewer false positives are left out: their bars would reach down to nothing."""


def _format_of(path: str) -> str:
    """``png`` or ``svg``, by the extension. Raises ``CommandError`` for others, and where matplotlib is missing."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise CommandError(f"--plot {path}: the name must end in {' or '.join(FORMATS)}", EXIT_USAGE)
    try:
        import matplotlib as _  # noqa: F401, PLC0415  # only looked for
    except ImportError as error:
        raise CommandError("--plot needs one more package: pip install 'solus-core[plot]'", EXIT_USAGE) from error
    return suffix[1:]


def save_plot(
    path: str,
    config: DeDuperConfig,
    keys: int,
    wished: float | None = None,
    measured: Sequence[tuple[int, int, int]] = (),
) -> None:
    """Rates over the number of keys, with ``keys`` marked; below it, how far off the textbook's rate is.

    ``wished``: a rate to draw a line at. ``measured``: of some runs the number of keys, of false positives and of
    probes. Raises ``CommandError`` if the file can't be written.
    """
    kind = _format_of(path)
    import matplotlib as mpl  # noqa: PLC0415  # it takes half a second, and is an extra
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    # Without these an SVG would be another file each time, and five times the size with a path for each letter.
    with mpl.rc_context({"svg.hashsalt": "solus", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 6.4), dpi=120, layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [2.6, 1]})
        _draw(upper, lower, config, keys, wished, measured)
        try:
            figure.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else None)
        except OSError as error:
            raise CommandError(f"--plot {path}: {error.strerror or error}") from error


def _draw(
    upper: Axes,
    lower: Axes,
    config: DeDuperConfig,
    keys: int,
    wished: float | None,
    measured: Sequence[tuple[int, int, int]],
) -> None:
    shown = _around(keys)
    exact = [false_positive_rate(config, n) for n in shown]
    textbook = [textbook_false_positive_rate(config, n) for n in shown]
    rate = false_positive_rate(config, keys)

    upper.loglog(shown, exact, color="C0", linewidth=2.2, label="when so many keys are alive (exact)")
    averages = [(n, average) for n in shown if (average := average_false_positive_rate(config, n)) > 0]
    upper.loglog(  # the first key is never lost: its average of 0 would be a cliff on this axis
        *zip(*averages, strict=True),
        color="C2",
        linestyle="-.",
        label="average while filling up to there",
    )
    upper.loglog(shown, textbook, color="C1", linestyle="--", label="textbook formula (even shards)")
    if wished is not None:
        upper.axhline(wished, color="0.5", linewidth=1, linestyle=":", label=f"wished: at most {_rate(wished)}")
    upper.plot([keys], [rate], "o", color="C3", markersize=8, zorder=5, label=f"{keys:,} keys: {_rate(rate)}")
    upper.set_ylabel("false-positive rate")
    upper.set_title(
        f"{config.hash_functions} hash functions, {config.shards:,} shards of {config.bits_per_shard:,} positions",
        fontsize=11,
    )

    ratios = [a / b for a, b in zip(exact, textbook, strict=True)]
    lower.semilogx(shown, ratios, color="C0", linewidth=2.2)
    lower.axhline(1, color="C1", linestyle="--")
    lower.plot([keys], [rate / textbook_false_positive_rate(config, keys)], "o", color="C3", markersize=8, zorder=5)
    lower.set_ylabel("rate ÷ textbook")
    lower.set_xlabel("keys alive at once")
    if certain := [point for point in measured if point[1] >= _FOUND]:
        _draw_measured(upper, lower, config, certain)
    for axes in (upper, lower):
        axes.grid(visible=True, which="major", color="0.88")
        axes.set_axisbelow(True)
        axes.axvline(keys, color="C3", linewidth=0.8, alpha=0.5, zorder=1)
    lower.set_xlim(min(shown[0], keys * 0.85), max(shown[-1], keys * 1.15))  # no dot on the edge
    lower.xaxis.set_major_formatter(_count)
    lower.xaxis.set_minor_formatter(_count_at_2_and_5)
    if ratios[0] > 3:
        lower.set_yscale("log")
        lower.yaxis.set_major_formatter(_count)
        if ratios[0] < 100:  # beyond, there is no room for more than powers of ten
            lower.yaxis.set_minor_formatter(_count_at_2_and_5)
    upper.legend(loc="lower right", frameon=True, fontsize=9)


def _around(keys: int) -> list[int]:
    """The numbers of keys to compute rates for: 1.8 decades with ``keys`` among them, from 1 to ``MAX_KEYS``."""
    middle = max(keys, 16)
    steps = [round(middle * 10 ** (-1.2 + 1.8 * i / _POINTS)) for i in range(_POINTS + 1)]
    return sorted({min(max(1, step), MAX_KEYS) for step in steps})


def _draw_measured(upper: Axes, lower: Axes, config: DeDuperConfig, measured: Sequence[tuple[int, int, int]]) -> None:
    """Points with 95% bars: two standard deviations of a count are twice its square root."""
    at = [keys for keys, _, _ in measured]
    rates = [found / probes for _, found, probes in measured]
    errors = [2 * found**0.5 / probes for _, found, probes in measured]
    below = [textbook_false_positive_rate(config, keys) for keys in at]
    look: Any = {"fmt": "x", "color": "black", "capsize": 3, "zorder": 6, "markersize": 7}
    probes = measured[0][2]
    upper.errorbar(at, rates, yerr=errors, label=f"measured with {probes:,} probes (95% bars)", **look)
    lower.errorbar(
        at,
        [rate / base for rate, base in zip(rates, below, strict=True)],
        yerr=[error / base for error, base in zip(errors, below, strict=True)],
        **look,
    )


def _rate(rate: float) -> str:
    return f"{rate:.3g}" if rate < 1e-5 else f"{rate * 100:.4g}%"


def _count_at_2_and_5(value: float, position: object) -> str:
    return _count(value, position) if f"{value:.0e}"[0] in "25" else ""


def _count(value: float, _: object) -> str:
    """100M for 1e8; 1e15 beyond the units."""
    if value >= 1e15 * 0.999:
        return f"{value:.0e}".replace("+", "")
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.999:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
