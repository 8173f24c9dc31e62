"""Rows that are there and rows that are not: marks never create one, whatever the column that must exist holds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from solus_core.testing import race
from solus_hbase.gateway.thrift2 import IDL

VALUES = (b"", b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"\xff", b"\xff" * 64, b"restored", b"x" * 100_000)


@pytest.mark.parametrize("keep", [False, True])
def test_any_value_makes_a_row_exist(lab: Callable[..., Any], keep: bool) -> None:
    """Also an empty one, which HBase's own check for presence takes for absent."""
    table = lab()
    deletes = table.flag(keep=keep)
    rows = [b"%d" % number for number in range(len(VALUES))]
    for row, value in zip(rows, VALUES, strict=True):
        table.create_rows(row, value=value)
    assert deletes.mark_deleted_many((row, 5) for row in rows) == [True] * len(rows)
    assert list(deletes.scan()) == []
    assert deletes.restore_many((row, 6) for row in rows) == [True] * len(rows)
    assert [found.row for found in deletes.scan()] == rows


@pytest.mark.parametrize("keep", [False, True])
def test_a_row_that_is_not_there(lab: Callable[..., Any], keep: bool) -> None:
    """Nor one that has other columns only, or the column of that name in another family, or lost it."""
    table = lab()
    deletes = table.flag(keep=keep)
    table.table.put(b"other", {b"d:age": b"7", b"e:name": b"x"})
    table.create_rows(b"lost")
    table.table.delete(b"lost", columns=[b"d:name"])
    before = dict(table.table.scan())
    for row in ("none", "other", "lost"):
        assert not deletes.mark_deleted(row, 5)
        assert deletes.restore(row, 6) is not keep
    assert deletes.mark_deleted_many([("none", 7), ("none", 8)]) == [False, False]
    assert dict(table.table.scan()) == before == {b"other": {b"d:age": b"7", b"e:name": b"x"}}


def test_a_restore_of_a_row_that_comes_later(lab: Callable[..., Any]) -> None:
    """By a delete it counts, kept it does not: there was no row to write into."""
    table = lab()
    deletes, keeping = table.flag(), table.flag("hidden", keep=True)
    assert deletes.restore("row", 9)
    assert not keeping.restore("row", 9)
    table.create_rows(b"row")
    assert deletes.mark_deleted("row", 8)
    assert keeping.mark_deleted("row", 8)
    (found,) = deletes.scan(flags=["deleted", "hidden"], include_deleted=True)
    assert found.flags == {b"hidden": 8}


@pytest.mark.parametrize("keep", [False, True])
def test_a_row_that_was_deleted_and_comes_again(lab: Callable[..., Any], keep: bool) -> None:
    """Its deletion took the flags along up to its time; a flag with a later time counts for the new row."""
    table = lab()
    deletes = table.flag(keep=keep)
    table.create_rows(b"a", b"b")
    deletes.mark_deleted_many([("a", 5), ("b", 2**62)])
    for row in (b"a", b"b"):
        table.table.delete(row)
    table.create_rows(b"a", b"b")
    assert [found.row for found in deletes.scan()] == [b"a"]
    assert deletes.mark_deleted("a", 6), "the row is there"
    assert [found.row for found in deletes.scan()] == [b"a"], "the event is older than the deletion"


def test_a_family_that_forgets(lab: Callable[..., Any]) -> None:
    """A TTL counts from the event's time."""
    table = lab(family={b"TTL": b"3600"})
    deletes, now = table.flag(), time.time_ns() // 1_000_000
    table.create_rows(b"a", b"b")
    assert deletes.mark_deleted_many([("a", now - 3_700_000), ("b", now - 1_800_000)]) == [True, True]
    assert [found.row for found in deletes.scan()] == [b"a"]


def check_then_put(table: Any, row: bytes, at: int) -> bool:
    """The control: what a mark would be without one atomic step."""
    there = bool(table.context.gateway.get(table.name, b"d", [(row, [b"name"])])[0])
    if there:
        table.context.gateway.put(table.name, b"d", [(row, [(b"deleted", b"")])], at)
    return there


def created_by_marks(table: Any, mark: Callable[[bytes, int], bool], rows: Sequence[bytes]) -> list[bytes]:
    """Rows that are there after all were deleted while marks raced with that.

    With ``NEW_VERSION_BEHAVIOR`` a delete hides what came before it and nothing else: what is left then came after.
    """
    table.create_rows(*rows)
    gateway = table.context.gateway

    def delete() -> int:
        for row in rows:
            one = [IDL.TDelete(row, [IDL.TColumn(b"d", name, 2**62) for name in (b"name", b"deleted")])]
            gateway.calls.write("delete", lambda to, one=one: to.client.deleteMultiple(table.name.encode(), one))
        return 0

    def mark_all(seed: int) -> int:
        order = list(rows)
        random.Random(seed).shuffle(order)
        return sum(mark(row, 1_000 + seed) for row in (*order, *rows))

    _, *applied = race(delete, *(partial(mark_all, seed) for seed in range(3)))
    assert 0 < sum(applied) < 6 * len(rows), "marks and deletes did not meet"
    return sorted(row for row, _ in table.table.scan())


@pytest.mark.parametrize("keep", [False, True])
def test_marks_that_race_with_the_deletion_of_their_rows(lab: Callable[..., Any], keep: bool) -> None:
    """``restore`` writes a cell too where it is kept: both verbs by turns."""
    table = lab(family={b"NEW_VERSION_BEHAVIOR": b"true"}, pool_size=16)
    deletes = table.flag(keep=True)

    def one(row: bytes, at: int) -> bool:
        verb: Callable[[bytes, int], bool] = deletes.restore if keep and at % 2 else deletes.mark_deleted
        return verb(row, at)

    assert created_by_marks(table, one, [b"%04d" % number for number in range(600)]) == []


def test_a_mark_in_two_steps_fails_this_test(lab: Callable[..., Any]) -> None:
    """Were the races too tame to catch it, the test above would mean nothing."""
    table = lab(family={b"NEW_VERSION_BEHAVIOR": b"true"}, pool_size=16)
    rows = [b"%04d" % number for number in range(600)]
    for _ in range(5):
        if created_by_marks(table, partial(check_then_put, table), rows):
            return
    pytest.fail("no row was created")


def test_threads_share_one(lab: Callable[..., Any]) -> None:
    """R24: eight threads deliver the events of the same rows, each in an order of its own."""
    table = lab()
    deletes = table.flag(keep=True)
    rows = [b"%02d" % number for number in range(20)]
    table.create_rows(*rows)
    # The newest event of even rows is a mark, that of odd rows a restore.
    events = [(row, at, (at + number) % 2 == 0) for number, row in enumerate(rows) for at in range(1, 11)]

    def deliver(seed: int) -> None:
        order = list(events)
        random.Random(seed).shuffle(order)
        for row, at, mark in order:
            assert (deletes.mark_deleted if mark else deletes.restore)(row, at)

    race(*(partial(deliver, seed) for seed in range(8)))
    assert [found.row for found in deletes.scan()] == rows[1::2]
