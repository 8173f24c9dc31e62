"""``solus dedup``: the command, its options, and how they come together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, nullcontext
from typing import final

import click
from attrs import frozen

from solus_core.cli.durations import parse_duration
from solus_core.cli.failures import EXIT_USAGE, CommandError, one_line
from solus_core.cli.first_use import Expected, registered
from solus_core.cli.interrupts import InterruptedRunError, Interrupts
from solus_core.cli.keys import KeyOf, csv_key, json_key, line_key, nul_key
from solus_core.cli.numbers import option_of, parse_keys, parse_rate
from solus_core.cli.outputs import STDOUT, open_output, refuse_shared_files
from solus_core.cli.progress import Report, progress_display
from solus_core.cli.records import Format, Layout, Stream, begin, layout_by_name, terminator_of
from solus_core.cli.sources import STDIN, Inputs
from solus_core.cli.store_option import kept_files, parse_store
from solus_core.cli.stream import OnError, Run
from solus_core.cli.trouble import say, tell
from solus_core.engine import SolusEngine
from solus_core.model import Atomicity
from solus_core.plugins import PluginManager


@final
@frozen(kw_only=True)
class Options:
    """The command line, as click has checked it. ``ttl``: milliseconds or None."""

    files: tuple[str, ...]
    layout: Layout | None
    keys: tuple[str, ...]
    ttl: int | None
    deduper: str
    expected: Expected | None
    client_id: str
    store: str
    output: str
    duplicates: str | None
    on_error: OnError
    batch_size: int
    mark_first: bool
    quiet: bool
    json: bool


def _delimiter(_: click.Context, __: click.Parameter, value: str | None) -> bytes | None:
    if value is None:
        return None
    value = "\t" if value == "\\t" else value
    if len(value) != 1 or not value.isascii() or value in '"\r\n\0':
        raise click.BadParameter("it must be one ASCII character (\\t for a tab), no quote and no line end")
    return value.encode()


_EPILOG = """\b
Examples:
  solus dedup --key id events.jsonl > unique.jsonl
  tail -f app.log | solus dedup
  solus dedup -k order_id -k sku --ttl 30d --store /var/lib/orders.solus \\
      -o new.csv --duplicates repeats.csv orders.csv.gz

\b
Exit codes:
  0    all input was read, everything written and marked
  1    the store, an input or an output failed
  2    usage or configuration; nothing was written
  3    a bad record under --on-error fail; all before it is written and marked
  130  Ctrl-C (143: SIGTERM); the chunk in hand was finished, a second one aborts
  141  the reader of the output has gone, as with | head
After any of them, run again over the same input: what was not marked comes again, nothing is lost.
"""


@click.command("dedup", epilog=_EPILOG)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *(each.value for each in Format)]),
    default="auto",
    show_default=True,
    help="auto: by the file's name (.jsonl .ndjson .json .csv .tsv, also before .gz); if that says nothing, "
    "jsonl if the input begins with '{', else lines. gzip is known by its content.",
)
@click.option(
    "-k",
    "--key",
    "keys",
    multiple=True,
    metavar="FIELD",
    help="jsonl: a field; data.id is a field in a field, items.0.id in the first of a list (a field that is "
    "itself named data.id wins). csv: a column, by name or with --no-header by number from 1. "
    "Several make a composite key. lines and nul take none: the whole line is the key, without \\n or \\r\\n.",
)
@click.option("--delimiter", callback=_delimiter, metavar="CHAR", help="Of csv. [default: , (a tab for .tsv)]")
@click.option("--no-header", is_flag=True, help="csv: the first line is a record, not the names of columns.")
@click.option(
    "--ttl",
    callback=option_of(parse_duration),
    metavar="DURATION",
    help="How long a key counts as seen, as 10d: ms, s, m, h, d, w. [default: the de-duper's expiry, 10d at first]",
)
@click.option("--deduper", default="default", show_default=True, help="Name; registered at its first use.")
@click.option(
    "--expect",
    callback=option_of(parse_keys),
    metavar="N",
    help="With --rate: distinct keys in a TTL, as 100M. A new de-duper is made just large enough; one that is "
    "there and too small is refused. [default: fit for some 40M]",
)
@click.option(
    "--rate",
    callback=option_of(parse_rate),
    metavar="P",
    help="With --expect: the most of new records taken for repeats, as 0.1%.",
)
@click.option("--client-id", default="solus", show_default=True, help="Whose de-dupers.")
@click.option(
    "--store",
    callback=option_of(parse_store),
    default="memory://",
    show_default=True,
    metavar="URL|PATH",
    help="Where marks are kept. ./seen.solus is a file that keeps them between runs; a path begins with /, ./ or ../.",
)
@click.option(
    "-o",
    "--output",
    default=STDOUT,
    metavar="FILE",
    help="For first-seen records, byte for byte. FILE is emptied first: append with >> to go on after "
    "an interrupted run (a header is not repeated then). [default: the standard output]",
)
@click.option("--duplicates", metavar="FILE", help="For the repeats, byte for byte (csv: with the header).")
@click.option(
    "--on-error",
    type=click.Choice([each.value for each in OnError]),
    default=OnError.FAIL.value,
    show_default=True,
    help="A record without a usable key: stop, leave it out, or write it unmarked. Blank lines of jsonl and csv "
    "carry no event and are left out.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Records checked, written and marked at a time; a slow input is never waited for.",
)
@click.option(
    "--mark-first",
    is_flag=True,
    help="Mark before writing: two runs that share a store never write the same key, but a crash in between LOSES "
    "records. Without it a crash repeats some, and loses none.",
)
@click.option("--json", "as_json", is_flag=True, help="The summary, on stderr, as one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary (but with --json).")
def dedup(
    files: tuple[str, ...],
    format_name: str,
    keys: tuple[str, ...],
    delimiter: bytes | None,
    no_header: bool,
    ttl: int | None,
    deduper: str,
    expect: int | None,
    rate: float | None,
    client_id: str,
    store: str,
    output: str,
    duplicates: str | None,
    on_error: str,
    batch_size: int,
    mark_first: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write the records that were not seen before: each key once in a TTL.

    FILEs (or the standard input, also as -) hold JSON Lines, CSV, plain lines or NUL-separated records, each plain
    or gzip. What is written is marked as seen only once it is safely out.
    """
    return _dedup(
        Options(
            files=files or (STDIN,),
            layout=_layout(files, format_name, delimiter, no_header),
            keys=keys,
            ttl=ttl,
            deduper=deduper,
            expected=_expected(expect, rate),
            client_id=client_id,
            store=store,
            output=output,
            duplicates=duplicates,
            on_error=OnError(on_error),
            batch_size=batch_size,
            mark_first=mark_first,
            quiet=quiet,
            json=as_json,
        )
    )


def _expected(keys: int | None, rate: float | None) -> Expected | None:
    if keys is None and rate is None:
        return None
    if keys is None or rate is None:
        raise click.UsageError("--expect and --rate go together: how many keys, and how many of new ones may be lost")
    return Expected(keys, rate)


def _layout(files: tuple[str, ...], name: str, delimiter: bytes | None, no_header: bool) -> Layout | None:
    """What the options and names of files say; None if the content must."""
    layout = layout_by_name(files) if name == "auto" else Layout(Format(name))
    if layout is not None and layout.format is Format.CSV:
        return Layout(Format.CSV, delimiter or layout.delimiter, header=not no_header)
    if delimiter is not None or no_header:
        raise click.UsageError("--delimiter and --no-header are for CSV: give --format csv")
    return layout


def _dedup(options: Options) -> int:
    """Run, say what went wrong if anything did, sum up."""
    started = time.monotonic()
    report: Report | None = None
    code = 0
    with Interrupts() as interrupts:
        try:
            with interrupts.waiting():
                plugins = PluginManager.load()
                config = plugins.config_of(options.store)
                engine = SolusEngine.open(config, client_id=options.client_id, plugins=plugins)
            with engine, ExitStack() as resources:
                if options.mark_first and engine.atomicity is Atomicity.NONE:
                    raise CommandError(
                        "--mark-first needs a store that promises atomicity, and this one promises none: "
                        "two runs could both write a key",
                        EXIT_USAGE,
                    )
                found = registered(engine, options.deduper, options.ttl, options.expected)
                # What is written must be marked: a store that won't is better known before.
                engine.deduper(options.deduper).check_ready()
                expiry = found.config.expiry_seconds * 1000
                report = Report(options.deduper, options.ttl or expiry, options.on_error)
                _stream(engine, options, report, interrupts, resources, kept_files(config))
        except InterruptedRunError as interruption:
            code = 128 + interruption.signum
        except Exception as error:  # told in one line, whatever it is
            code = tell(error)
    if report is not None and (options.json or not options.quiet):
        seconds = time.monotonic() - started
        say(report.json(code, seconds) if options.json else report.text())
    return code


def _stream(
    engine: SolusEngine,
    options: Options,
    report: Report,
    interrupts: Interrupts,
    resources: ExitStack,
    kept: Iterable[str],
) -> None:
    inputs = Inputs(options.files, interrupts.open, interrupts.read)
    outputs = [options.output] if options.duplicates is None else [options.output, options.duplicates]
    refuse_shared_files([*inputs.stats()], outputs, kept)
    sources = iter(inputs)
    resources.callback(sources.close)
    stream = begin(sources, options.layout, bool(options.keys), options.batch_size)
    report.layout = stream.layout
    key_of = _key_of(stream, options.keys)
    # Only now, when nothing can be wrong with the options any more, are files emptied.
    terminator = terminator_of(stream.layout, stream.prologue)
    opened = []
    for path in outputs:
        with interrupts.waiting():
            opened.append(resources.enter_context(closing(open_output(path, terminator))))
    for output in opened:
        output.begin(stream.prologue)
    with progress_display(inputs, report.tally) if _shows_progress(options) else nullcontext(_nothing) as update:
        run = Run(
            engine.deduper(options.deduper),
            key_of,
            stream.layout,
            report.ttl,
            opened[0],
            opened[1] if len(opened) > 1 else None,
            options.on_error,
            options.mark_first,
            _both(update, interrupts.check),
        )
        run.over(stream.chunks, report.tally)


def _nothing() -> None:
    """The progress of a quiet run."""


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def _shows_progress(options: Options) -> bool:
    # On a terminal that shows the records themselves, a moving line would be drawn among them.
    return not options.quiet and sys.stderr.isatty() and not (options.output == STDOUT and os.isatty(1))


def _key_of(stream: Stream, names: tuple[str, ...]) -> KeyOf:
    layout, columns = stream.layout, stream.columns
    if layout.format in (Format.LINES, Format.NUL):
        if names:
            raise CommandError(
                f"--key needs records with fields, and the format is {layout.format.value}: give --format jsonl or csv",
                EXIT_USAGE,
            )
        return line_key if layout.format is Format.LINES else nul_key
    if not names or not all(names):
        raise CommandError(
            f"the format is {layout.format.value}: say which field identifies an event, as --key id "
            "(or give --format lines to compare whole lines)",
            EXIT_USAGE,
        )
    if layout.format is Format.JSONL:
        return json_key(names)
    if not layout.header:
        return csv_key(names, [_column_number(name) for name in names], None, layout.delimiter)
    if columns is None:
        return line_key  # an input without a header has no record either
    indices = []
    for name in names:
        if columns.count(name) != 1:
            what = "no column" if name not in columns else "more than one column"
            listed = one_line(", ".join(columns))
            raise CommandError(f"--key {one_line(name)} names {what} of the CSV header, which has {listed}", EXIT_USAGE)
        indices.append(columns.index(name))
    return csv_key([repr(name) for name in names], indices, len(columns), layout.delimiter)


def _column_number(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 7 and int(name) > 0):
        raise CommandError(f"--key {one_line(name)}: with --no-header, give the number of a column, from 1", EXIT_USAGE)
    return int(name) - 1
