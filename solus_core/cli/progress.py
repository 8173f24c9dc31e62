"""What people see: a progress display while the stream runs, a summary at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from attrs import define, field

from solus_core.cli.durations import format_duration
from solus_core.cli.records import Layout
from solus_core.cli.sources import Inputs
from solus_core.cli.stream import OnError, Tally


@final
@define
class Report:
    """What a summary tells. ``ttl``: milliseconds. ``layout``: None as long as the format is not known."""

    deduper: str
    ttl: int
    on_error: OnError
    layout: Layout | None = None
    tally: Tally = field(factory=Tally)

    def text(self) -> str:
        """A line of counts, and one for each kind of bad record with the first few places."""
        tally = self.tally
        counts = [
            f"{tally.records:,} records in",
            f"{tally.first_seen:,} first-seen",
            f"{tally.repeats:,} repeats",
        ]
        if tally.bad_count:
            fate = {OnError.FAIL: "stopped there", OnError.SKIP: "left out", OnError.PASS: "passed on"}
            counts.append(f"{tally.bad_count:,} bad ({fate[self.on_error]})")
        if tally.blank:
            counts.append(f"{tally.blank:,} blank")
        form = self.layout.format.value if self.layout else "not known yet"
        lines = [
            f"{', '.join(counts)} (format {form}, de-duper {self.deduper}, ttl {format_duration(self.ttl)})",
        ]
        for reason, bad in tally.bad.items():
            more = ", ..." if bad.count > len(bad.places) else ""
            taken = f" ({bad.lines:,} lines)" if bad.lines > bad.count else ""
            lines.append(f"  {bad.count:,} bad: {reason}, at {', '.join(bad.places)}{more}{taken}")
        return "\n".join(lines)

    def json(self, exit_code: int, seconds: float) -> str:
        """The same as one JSON object on one line."""
        tally = self.tally
        return json.dumps(
            {
                "records": tally.records,
                "first_seen": tally.first_seen,
                "repeats": tally.repeats,
                "bad": tally.bad_count,
                "blank": tally.blank,
                "bad_records": [
                    {"reason": reason, "count": bad.count, "lines": bad.lines, "first_at": bad.places}
                    for reason, bad in tally.bad.items()
                ],
                "on_error": self.on_error.value,
                "format": self.layout.format.value if self.layout else None,
                "deduper": self.deduper,
                "ttl_ms": self.ttl,
                "seconds": round(seconds, 3),
                "exit_code": exit_code,
            }
        )


@contextmanager
def progress_display(inputs: Inputs, tally: Tally) -> Iterator[Callable[[], None]]:
    """A line on the terminal at stderr, drawn a few times a second; call what is yielded after each chunk."""
    from rich.console import Console  # noqa: PLC0415  # only where it is shown: it takes longer than a short run
    from rich.progress import (  # noqa: PLC0415  # as above
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    size = inputs.size()
    shape: list[ProgressColumn] = (
        [BarColumn(bar_width=30), TextColumn("{task.percentage:3.0f}%")] if size else [SpinnerColumn()]
    )
    with Progress(
        *shape,
        TextColumn("{task.fields[records]:,} records, {task.fields[repeats]:,} repeats, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as display:
        task = display.add_task("", total=size, records=0, repeats=0, rate=0.0)

        def update() -> None:
            elapsed = display.tasks[0].elapsed or 0.0
            display.update(
                task,
                completed=inputs.consumed,
                records=tally.records,
                repeats=tally.repeats,
                rate=tally.records / elapsed if elapsed else 0.0,
            )

        yield update
