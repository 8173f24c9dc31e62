"""``solus dedupers``: register, list, show and unregister."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Final

import click
from attrs import asdict

from solus_core.cli.durations import format_duration, parse_duration
from solus_core.cli.failures import one_line
from solus_core.cli.numbers import option_of, parse_keys
from solus_core.cli.store_option import parse_store
from solus_core.cli.tables import print_table
from solus_core.engine import DEFAULT_HASHER, SolusEngine
from solus_core.model import DEFAULT_EXPIRY_SECONDS, DeDuper, DeDuperConfig, Level

_HEADINGS: Final = ("name", "functions", "shards", "bits", "level", "expiry", "hasher", "planned keys", "registered")
_AS_JSON: Final = click.option("--json", "as_json", is_flag=True, help="As JSON.")


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--store`` and ``--client-id``, for commands that look into a store that is there.

    No default here: what is registered in a memory of this process would be gone at its end.
    """
    command = click.option("--client-id", default="solus", show_default=True, help="Whose de-dupers.")(command)
    return click.option(
        "--store",
        required=True,
        callback=option_of(parse_store),
        metavar="URL|PATH",
        help="Where they are: hbase://host/table, say, or the path of a file, from / or ./ on.",
    )(command)


@click.group("dedupers")
def dedupers() -> None:
    """Register, list, show and unregister de-dupers."""


@dedupers.command("list")
@store_options
@_AS_JSON
def list_(store: str, client_id: str, as_json: bool) -> int:
    """List the registered de-dupers; unregistered ones are not among them."""
    with SolusEngine.open(store, client_id=client_id) as engine:
        found = sorted(engine.get_active_dedupers().values(), key=lambda each: each.name)
    if as_json:
        click.echo(json.dumps([as_dict(each) for each in found], indent=2))
    else:
        print_table(_HEADINGS, [_row(each) for each in found])
    return 0


@dedupers.command("show")
@click.argument("name")
@store_options
@_AS_JSON
def show(name: str, store: str, client_id: str, as_json: bool) -> int:
    """Show what is recorded of one de-duper, also if it was unregistered."""
    with SolusEngine.open(store, client_id=client_id) as engine:
        found = engine.get_deduper(name)
    _print(found, as_json)
    return 0


@dedupers.command("register")
@click.argument("name")
@click.option("--hash-functions", type=int, default=DeDuperConfig().hash_functions, show_default=True)
@click.option("--shards", type=int, default=DeDuperConfig().shards, show_default=True)
@click.option("--bits-per-shard", type=int, default=DeDuperConfig().bits_per_shard, show_default=True)
@click.option(
    "--level",
    type=click.Choice([each.value for each in Level]),
    default=Level.XDC.value,
    show_default=True,
    help="XDC: one data set for all farms. DC: one for each farm.",
)
@click.option(
    "--expiry",
    callback=option_of(parse_duration),
    default=format_duration(DEFAULT_EXPIRY_SECONDS * 1000),
    show_default=True,
    metavar="DURATION",
    help="The longest TTL: ms, s, m, h, d, w; rounded up to seconds.",
)
@click.option(
    "--planned-keys",
    callback=option_of(parse_keys),
    metavar="N",
    help="Keys expected to be alive at once, as 100M: solus stats warns when there are more.",
)
@click.option("--hasher", metavar="NAME", help=f"See solus plugins. [default: {DEFAULT_HASHER}]")
@store_options
@_AS_JSON
def register(
    name: str,
    hash_functions: int,
    shards: int,
    bits_per_shard: int,
    level: str,
    expiry: int,
    planned_keys: int | None,
    hasher: str | None,
    store: str,
    client_id: str,
    as_json: bool,
) -> int:
    """Register a de-duper, for ever: what is registered never changes. Doing it again is fine.

    solus plan finds the numbers. An unregistered one becomes active again, with the data that are left.
    """
    config = DeDuperConfig(
        hash_functions=hash_functions,
        shards=shards,
        bits_per_shard=bits_per_shard,
        level=Level(level),
        expiry_seconds=-(-expiry // 1000),
    )
    with SolusEngine.open(store, client_id=client_id, hasher=hasher) as engine:
        found = engine.register(name, config, planned_keys=planned_keys or 0)
    _print(found, as_json)
    if planned_keys not in (None, found.planned_keys):
        kept = f"{found.planned_keys:,} planned keys" if found.planned_keys else "no planned keys"
        click.echo(f"solus: {one_line(name)} was registered before with {kept}, which stays so", err=True)
    return 0


@dedupers.command("unregister")
@click.argument("name")
@store_options
@_AS_JSON
def unregister(name: str, store: str, client_id: str, as_json: bool) -> int:
    """Make a de-duper inactive. Its data stay until they expire; registering it again uses them again."""
    with SolusEngine.open(store, client_id=client_id) as engine:
        engine.unregister(name)
        found = engine.get_deduper(name)
    _print(found, as_json)
    return 0


def as_dict(deduper: DeDuper) -> dict[str, object]:
    """All that is recorded, for JSON; the config's fields beside the others."""
    fields = asdict(deduper)
    return {**{key: value for key, value in fields.items() if key != "config"}, **fields["config"]}


def utc(milliseconds: int) -> str:
    """A time in epoch milliseconds, to the second; as the number itself where no calendar reaches."""
    try:
        at = datetime.fromtimestamp(milliseconds // 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _row(deduper: DeDuper) -> tuple[str, ...]:
    config = deduper.config
    return (
        deduper.name,
        str(config.hash_functions),
        f"{config.shards:,}",
        f"{config.bits_per_shard:,}",
        str(config.level),
        format_duration(config.expiry_seconds * 1000),
        deduper.hasher,
        f"{deduper.planned_keys:,}" if deduper.planned_keys else "-",
        utc(deduper.created_at),
    )


def _print(deduper: DeDuper, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(as_dict(deduper), indent=2))
        return
    rows = [*zip(_HEADINGS, _row(deduper), strict=True)]
    rows += [("layout", deduper.layout or "-"), ("state", "active" if deduper.active else "unregistered")]
    rows += [("updated", utc(deduper.updated_at)), ("client id", deduper.client_id)]
    print_table((), rows)
