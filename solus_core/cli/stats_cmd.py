"""``solus stats``: how full a de-duper is, and how often it is wrong."""

from __future__ import annotations

import json
import logging
from math import isfinite

import click

from solus_core.cli.dedupers_cmd import as_dict, store_options, utc
from solus_core.cli.failures import one_line
from solus_core.cli.tables import print_table
from solus_core.engine import SolusEngine
from solus_core.stats import DeDuperStats


@click.command("stats")
@click.argument("name")
@store_options
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def stats(name: str, store: str, client_id: str, as_json: bool) -> int:
    """Show how full a de-duper is, how many keys are alive, and how often it is wrong.

    Large stores look at a part of the shards; the error of the estimate says what that costs.
    """
    # The engine's warning is told below; without a handler, Python would print it a second time.
    quiet, logger = logging.NullHandler(), logging.getLogger("solus_core.engine")
    logger.addHandler(quiet)
    try:
        with SolusEngine.open(store, client_id=client_id) as engine:
            found = engine.stats(name)
    finally:
        logger.removeHandler(quiet)
    if as_json:
        click.echo(json.dumps(_as_dict(found), indent=2))
    else:
        print_table((), _rows(found))
    if found.past_plan:
        planned = found.planned_false_positive_rate or 0.0
        click.echo(
            f"solus: warning: {one_line(name)} is past its plan: about {found.estimated_keys:,} keys are alive, "
            f"planned were {found.deduper.planned_keys:,}. New events are lost at {_rate(found.false_positive_rate)} "
            f"now, {_rate(planned)} as planned; if that is too many, see solus plan for a larger de-duper",
            err=True,
        )
    return 0


def _as_dict(found: DeDuperStats) -> dict[str, object]:
    return {
        "deduper": as_dict(found.deduper),
        "at": found.now,
        "fill": found.fill,
        "estimated_keys": found.estimated_keys,
        # JSON knows no infinity.
        "standard_error": found.standard_error if isfinite(found.standard_error) else None,
        "false_positive_rate": found.false_positive_rate,
        "planned_false_positive_rate": found.planned_false_positive_rate,
        "past_plan": found.past_plan,
        "expired_by": {str(share): at for share, at in found.expired_by},
        "positions": {"live": found.store.live, "seen": found.store.seen, "total": found.store.total},
        "stored_bytes": found.store.stored_bytes,
    }


def _rows(found: DeDuperStats) -> list[tuple[str, str]]:
    deduper, store = found.deduper, found.store
    looked = "all" if store.seen == store.total else f"{store.seen:,}"
    keys = f"{found.estimated_keys:,} +- {2 * found.standard_error:,.0f}"
    rows = [
        ("de-duper", deduper.name if deduper.active else f"{deduper.name} (unregistered)"),
        ("positions set", f"{_rate(found.fill)} ({looked} of {store.total:,} looked at)"),
        ("keys alive", keys if isfinite(found.standard_error) else "not known, the store looked at nothing"),
        ("false positives", f"{_rate(found.false_positive_rate)} of new events now"),
    ]
    if found.planned_false_positive_rate is not None:
        planned = f"{_rate(found.planned_false_positive_rate)} at {deduper.planned_keys:,} keys"
        rows.append(("as planned", planned))
    rows += [(f"{share}% expired", f"after {utc(at)}") for share, at in found.expired_by]
    if store.stored_bytes is not None:
        rows.append(("stored", f"{store.stored_bytes:,} bytes"))
    return rows


def _rate(rate: float) -> str:
    """In per cent while that is readable."""
    return f"{rate * 100:.3g}%" if rate >= 1e-6 or rate == 0 else f"{rate:.2g}"
