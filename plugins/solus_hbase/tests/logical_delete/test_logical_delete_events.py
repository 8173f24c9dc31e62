"""Every order of every mix of events ends in the state of the newest, whatever HBase does with its files between."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from solus_core.errors import InvalidConfigError

MARK, RESTORE = "mark", "restore"
Arrivals = tuple[tuple[str, int], ...]
"""Events in the order in which they arrive: kind, and time in ms."""


def arrivals(longest: int) -> list[Arrivals]:
    """All of up to ``longest`` events, in every order and with every pattern of equal times: 1,318 for 4."""
    found: list[Arrivals] = []
    for length in range(1, longest + 1):
        for times in itertools.product(range(length), repeat=length):
            if set(times) == set(range(max(times) + 1)):  # one for each pattern
                found += (
                    tuple(zip(kinds, times, strict=True)) for kinds in itertools.product((MARK, RESTORE), repeat=length)
                )
    return found


def flagged(events: Arrivals, keep: bool) -> bool:
    """The newest time decides; of those of that time a restore, or with ``keep`` the last that arrived."""
    newest = max(at for _, at in events)
    kinds = [kind for kind, at in events if at == newest]
    return kinds[-1] == MARK if keep else RESTORE not in kinds


def row_of(events: Arrivals) -> bytes:
    return ",".join(f"{kind} {at}" for kind, at in events).encode()


def deliver(deletes: Any, every: Sequence[Arrivals], number: int) -> None:
    """The event of that number to each row that has so many."""
    due = [(row_of(events), events[number]) for events in every if number < len(events)]
    for kind, verb in ((MARK, deletes.mark_deleted_many), (RESTORE, deletes.restore_many)):
        batch = [(row, 1_000 + at) for row, (its, at) in due if its == kind]
        assert verb(batch) == [True] * len(batch)


def wrong(deletes: Any, every: Sequence[Arrivals], keep: bool) -> list[str]:
    """Rows that a scan takes for what they are not, whether it leaves them out or tells of them."""
    shown = {found.row for found in deletes.scan(rows_per_call=700)}
    told = {found.row for found in deletes.scan(include_deleted=True) if not found.flags}
    visible = {row_of(events) for events in every if not flagged(events, keep)}
    return [row.decode() for row in sorted((shown ^ visible) | (told ^ visible))]


ALL: Final = arrivals(4)


def test_there_are_so_many() -> None:
    assert len(ALL) == len({row_of(events) for events in ALL}) == 2 * 1 + 4 * 3 + 8 * 13 + 16 * 75
    distinct = [events for events in ALL if len({at for _, at in events}) == len(events)]
    assert len(distinct) == 2 * 1 + 4 * 2 + 8 * 6 + 16 * 24


@pytest.mark.parametrize(
    ("keep", "versions", "family"),
    [
        (False, 1, {}),
        (True, 1, {}),
        (False, 3, {b"KEEP_DELETED_CELLS": b"TRUE"}),
        (True, 3, {b"KEEP_DELETED_CELLS": b"TRUE"}),
        (True, 2, {b"NEW_VERSION_BEHAVIOR": b"true"}),
    ],
)
def test_the_newest_decides(lab: Callable[..., Any], keep: bool, versions: int, family: dict[bytes, bytes]) -> None:
    """Half of the events arrive before a flush, half after it; then all is flushed."""
    table = lab(versions=versions, family=family)
    deletes = table.flag(keep=keep)
    table.create_rows(*map(row_of, ALL))
    for number in range(4):
        deliver(deletes, ALL, number)
        if number == 1:
            table.flush()
    assert wrong(deletes, ALL, keep) == []
    table.flush()
    assert wrong(deletes, ALL, keep) == []


@pytest.mark.parametrize("keep", [False, True])
def test_events_that_come_again(lab: Callable[..., Any], keep: bool) -> None:
    """All once more in the same order, as a stream that is read again delivers them: nothing changes."""
    table, every = lab(versions=2), arrivals(3)
    deletes = table.flag(keep=keep)
    table.create_rows(*map(row_of, every))
    for number in (0, 1, 2, 0, 1, 2):
        deliver(deletes, every, number)
    assert wrong(deletes, every, keep) == []


def test_new_version_behaviour_needs_kept_restores(lab: Callable[..., Any]) -> None:
    """A delete hides there only what came before it, so that an older mark that comes later would apply."""
    table = lab(family={b"NEW_VERSION_BEHAVIOR": b"true"})
    with pytest.raises(InvalidConfigError, match="use keep_restores=True"):
        table.flag()
    table.flag(keep=True)


def test_what_a_major_compaction_changes(lab: Callable[..., Any]) -> None:
    """It forgets restores, and marks that are no newer apply when they come after it; kept restores it keeps."""
    table = lab(attributes={b"hbase.hstore.compaction.min": b"2"})  # so that two files are enough
    forgetful, keeping = table.flag("forgetful"), table.flag("keeping", keep=True)
    every = arrivals(3)
    rows = [row_of(events) for events in every]
    probes = [b"~%d" % number for number in range(1_000)]
    table.create_rows(*rows, *probes)
    forgetful.restore_many((row, 2_000) for row in (*rows, *probes))
    for number in range(3):
        deliver(keeping, every, number)
    newest_is_a_restore = [row_of(events) for events in every if not flagged(events, keep=True)]

    # A late mark on a row that was not asked before: once one applies, the file was compacted.
    deadline = time.monotonic() + 120
    for number, probe in enumerate(probes):
        assert time.monotonic() < deadline, "no compaction forgot a restore"
        assert forgetful.mark_deleted(probe, 1_999)
        if not list(forgetful.scan(start=probe, stop=probe + b"\0")):
            break
        if number % 10 == 0:
            table.create_rows(b"~")
            table.flush()
        time.sleep(0.02)  # the compaction runs in the server, which nobody can ask

    assert forgetful.mark_deleted_many((row, 2_000) for row in rows) == [True] * len(rows)
    assert not {found.row for found in forgetful.scan()} & set(rows), "as new as the restore, and it applies"

    assert wrong_of(keeping, every) == []
    keeping.mark_deleted_many((row, 999) for row in newest_is_a_restore)
    assert wrong_of(keeping, every) == [], "older marks that came after the compaction"
    table.flush()
    assert wrong_of(keeping, every) == []


def wrong_of(deletes: Any, every: Sequence[Arrivals]) -> list[str]:
    """As :func:`wrong`, in a table that has other rows too."""
    others = {found.row.decode() for found in deletes.scan(start="~", stop="~~")}
    return [row for row in wrong(deletes, every, keep=True) if row not in others]


@pytest.mark.parametrize("at", [0, 1, 1_700_000_000_000, 2**62, 2**63 - 2])
@pytest.mark.parametrize("keep", [False, True])
def test_times_at_the_limits(lab: Callable[..., Any], keep: bool, at: int) -> None:
    table = lab()
    deletes = table.flag(keep=keep)
    table.create_rows(b"row")
    assert deletes.mark_deleted("row", at)
    (found,) = deletes.scan(include_deleted=True)
    assert (found.flags, list(deletes.scan())) == ({b"deleted": at}, [])
    if at:
        assert deletes.restore("row", at - 1)
        assert list(deletes.scan()) == []
    assert deletes.restore("row", at)
    assert [found.row for found in deletes.scan()] == [b"row"]


def test_what_others_read(lab: Callable[..., Any]) -> None:
    """By a client that knows the scheme alone: a restore that is kept looks like a mark to it."""
    table = lab()
    table.create_rows(b"marked", b"never", b"restored", b"restored-kept")
    deletes, keeping = table.flag(), table.flag(keep=True)
    deletes.mark_deleted_many([("marked", 5), ("restored", 5), ("restored-kept", 5)])
    deletes.restore("restored", 6)
    keeping.restore("restored-kept", 6)
    by_presence = [row for row, _ in table.table.scan(filter="SKIP QualifierFilter(!=, 'binary:deleted')")]
    assert by_presence == [b"never", b"restored"]
    assert [found.row for found in deletes.scan()] == [b"never", b"restored", b"restored-kept"]
    by_value = "SingleColumnValueFilter('d', 'deleted', =, 'binary:restored', false, true)"
    assert [row for row, _ in table.table.scan(filter=by_value)] == [b"never", b"restored", b"restored-kept"]
    assert table.table.row(b"marked", include_timestamp=True)[b"d:deleted"] == (b"", 5)
    assert table.table.row(b"restored-kept", include_timestamp=True)[b"d:deleted"] == (b"restored", 6)

    deletes.restore("restored-kept", 6)  # the two ways can be mixed
    assert set(table.table.row(b"restored-kept")) == {b"d:name"}
