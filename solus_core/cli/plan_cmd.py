"""``solus plan``: which config is big enough, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import click
from attrs import evolve

from solus_core.cli.durations import parse_duration
from solus_core.cli.numbers import option_of, parse_keys, parse_number, parse_rate
from solus_core.cli.plot import save_plot
from solus_core.cli.tables import print_table
from solus_core.model import DEFAULT_EXPIRY_SECONDS, DeDuperConfig
from solus_core.planning import MAX_KEYS, keys_alive
from solus_core.sizing import Choice, best, choices, describe

_HEADINGS = (
    *("", "functions", "bits", "shards", "rate when full", "average", "lost"),
    *("memory", "Aerospike", "HBase (estimate)"),
)
_FIELDS = ("hash_functions", "bits_per_shard", "shards")


@click.command("plan")
@click.option(
    "--keys",
    callback=option_of(parse_keys),
    metavar="N",
    help="Distinct keys alive at once, as 100M, 1.5G or 2_000_000.",
)
@click.option(
    "--per-second", callback=option_of(parse_number), metavar="N", help="Or: how many new keys arrive; with --ttl."
)
@click.option(
    "--ttl",
    callback=option_of(parse_duration),
    metavar="DURATION",
    help="How long a key counts as seen, as 10d: ms, s, m, h, d, w. Also the expiry to register.",
)
@click.option(
    "--rate",
    callback=option_of(parse_rate),
    metavar="P",
    help="The most of new events taken for repeats: 0.1%, 0.001 or 1e-3.",
)
@click.option("--hash-functions", type=int, help="What this config gives, instead of a choice. [default: 7]")
@click.option("--bits-per-shard", type=int, help="As above. [default: 1000]")
@click.option("--shards", type=int, help="As above. [default: 1000000]")
@click.option("--plot", metavar="FILE", help="Draw the rate over the number of keys: .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def plan(
    keys: int | None,
    per_second: Decimal | None,
    ttl: int | None,
    rate: float | None,
    hash_functions: int | None,
    bits_per_shard: int | None,
    shards: int | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Find the smallest config for a number of keys and a rate of false positives.

    A false positive is a new event that is taken for a repeat, and dropped. A registered config never changes, so
    plan for the most keys that will be alive at once: new keys a second times the TTL.
    """
    keys = _keys(keys, per_second, ttl)
    own = any(value is not None for value in (hash_functions, bits_per_shard, shards))
    if own:
        found = [describe(_own_config(hash_functions, bits_per_shard, shards), keys)]
    elif rate is None:
        raise click.UsageError("give --rate, as 0.1% (or a config: --hash-functions, --bits-per-shard, --shards)")
    else:
        found = choices(keys, rate)
    chosen = best(found)
    expiry = DEFAULT_EXPIRY_SECONDS if ttl is None else -(-ttl // 1000)
    config = evolve(chosen.config, expiry_seconds=expiry)  # refuses a TTL that is too long
    if plot is not None:
        save_plot(plot, config, keys, rate)
    if as_json:
        click.echo(json.dumps(_as_dict(found, chosen, config, keys, rate), indent=2))
        return 0
    if own:
        kept = "" if rate is None else f"; {_rate(rate)} is {'kept' if chosen.rate <= rate else 'NOT kept'}"
        click.echo(f"this config, with {keys:,} keys alive{kept}\n")
    else:
        click.echo(f"for {keys:,} keys alive, of new events at most {_rate(rate or 0)} taken for repeats\n")
    rows = [_row(choice, None if own else chosen) for choice in found]
    print_table(_HEADINGS, rows, "right", {} if own else {found.index(chosen): "bold green"})
    click.echo(
        "\nlost: of the first events, on average, until it is full. Bytes are of one copy; HBase before compression."
    )
    click.echo("to register" + ("" if own else " what takes the least memory (*)") + ", in Python or here:\n")
    for line in _registration(config, keys):
        click.echo(f"  {line}")
    return 0


def _keys(keys: int | None, per_second: Decimal | None, ttl: int | None) -> int:
    if (keys is None) == (per_second is None):
        raise click.UsageError("give either --keys, or --per-second with --ttl")
    if keys is not None:
        return keys
    if ttl is None or per_second is None:
        raise click.UsageError("--per-second needs --ttl: keys alive at once are arrivals times TTL")
    if (alive := per_second * ttl / 1000) > MAX_KEYS:  # as Decimal: a float may be too small for it
        raise click.UsageError(f"the number of keys, arrivals times TTL, is {alive:.3g}, allowed are 1 to 10**15")
    return max(1, keys_alive(float(per_second), ttl / 1000))


def _own_config(hash_functions: int | None, bits_per_shard: int | None, shards: int | None) -> DeDuperConfig:
    base = DeDuperConfig()
    return DeDuperConfig(
        hash_functions=base.hash_functions if hash_functions is None else hash_functions,
        bits_per_shard=base.bits_per_shard if bits_per_shard is None else bits_per_shard,
        shards=base.shards if shards is None else shards,
    )


def _registration(config: DeDuperConfig, keys: int) -> tuple[str, str]:
    """How to register it, in Python and with the command."""
    numbers = [(name, getattr(config, name)) for name in _FIELDS]
    if config.expiry_seconds != DEFAULT_EXPIRY_SECONDS:
        numbers.append(("expiry_seconds", config.expiry_seconds))
    arguments = ", ".join(f"{name}={value:_}" for name, value in numbers)
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in numbers if name in _FIELDS)
    if config.expiry_seconds != DEFAULT_EXPIRY_SECONDS:
        options += f" --expiry {config.expiry_seconds}s"
    return (
        f'engine.register("NAME", DeDuperConfig({arguments}), planned_keys={keys:_})',
        f"solus dedupers register NAME {options} --planned-keys {keys}",
    )


def _as_dict(
    found: Sequence[Choice], chosen: Choice, config: DeDuperConfig, keys: int, rate: float | None
) -> dict[str, object]:
    python, command = _registration(config, keys)
    return {
        "keys": keys,
        "rate": rate,
        "expiry_seconds": config.expiry_seconds,
        "choices": [
            {
                **{name: getattr(choice.config, name) for name in _FIELDS},
                "rate": choice.rate,
                "average_rate": choice.average_rate,
                "expected_losses": choice.expected_losses,
                "memory_bytes": choice.memory_bytes,
                "aerospike_bytes": choice.aerospike_bytes,
                "hbase_bytes_estimate": choice.hbase_bytes,
                "recommended": choice is chosen,
            }
            for choice in found
        ],
        "register": {"python": python, "command": command},
    }


def _row(choice: Choice, chosen: Choice | None) -> tuple[str, ...]:
    config = choice.config
    return (
        "*" if choice is chosen else "",
        str(config.hash_functions),
        f"{config.bits_per_shard:,}",
        f"{config.shards:,}",
        _rate(choice.rate),
        _rate(choice.average_rate),
        f"{choice.expected_losses:,.0f}" if choice.expected_losses >= 10 else f"{choice.expected_losses:.2g}",
        _bytes(choice.memory_bytes),
        _bytes(choice.aerospike_bytes),
        _bytes(choice.hbase_bytes),
    )


def _rate(rate: float) -> str:
    """In per cent while that is readable."""
    return f"{rate * 100:.3g}%" if rate >= 1e-6 else f"{rate:.2g}"


def _bytes(size: int) -> str:
    for unit, factor in (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} B"
