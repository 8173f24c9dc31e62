"""What a scan shows: flags in any combination, columns, ranges, pages, names that need quoting."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from solus_core.errors import InvalidArgumentError, StoreError
from solus_hbase.logical_delete import RESTORED, FlaggedRow, _after

FLAGS = ("deleted", "hidden", "archived")
SUBSETS = [subset for size in range(4) for subset in itertools.combinations(FLAGS, size)]


def keys(found: Any) -> list[bytes]:
    return [one.row for one in found]


@pytest.mark.parametrize("keep", [False, True])
def test_any_combination_of_flags(lab: Callable[..., Any], keep: bool) -> None:
    """One row for each set of flags it carries; each was also flagged with all others and restored from these."""
    table = lab(versions=3)
    rows = {("+".join(subset) or "none").encode(): subset for subset in SUBSETS}
    table.create_rows(*rows)
    for number, flag in enumerate(FLAGS):
        deletes = table.flag(flag, keep=keep)
        deletes.mark_deleted_many((row, 100 + number) for row in rows)
        deletes.restore_many((row, 200) for row, carried in rows.items() if flag not in carried)
    for asked in SUBSETS:
        shown = table.flag(keep=keep).scan(flags=asked)
        assert keys(shown) == sorted(row for row, carried in rows.items() if not set(asked) & set(carried)), asked
        for found in table.flag(keep=keep).scan(flags=asked, include_deleted=True):
            carried = {flag.encode(): 100 + FLAGS.index(flag) for flag in rows[found.row] if flag in asked}
            assert found.flags == carried
            left = {name for name in found.cells if name != b"d:name"}
            assert left <= {f"d:{flag}".encode() for flag in FLAGS if flag not in asked}
    assert keys(table.flag("hidden").scan()) == keys(table.flag().scan(flags=["hidden"])), "by default its own"


def test_columns(lab: Callable[..., Any]) -> None:
    """The server has to see the flag whatever the caller asks for, and the caller never sees it among the cells."""
    table = lab()
    deletes = table.flag()
    table.create_rows(b"deleted", b"kept", b"restored")
    for row in (b"deleted", b"kept", b"restored"):
        table.table.put(row, {b"d:age": b"7", b"e:city": b"Ulm"})
    table.table.put(b"elsewhere", {b"e:deleted": b"another family's", b"e:city": b"Bonn"})
    table.flag(keep=True).mark_deleted_many([("deleted", 5), ("restored", 5)])
    table.flag(keep=True).restore("restored", 6)
    everything = {b"d:name": b"x", b"d:age": b"7", b"e:city": b"Ulm"}
    for columns, cells in (
        (None, everything),
        (["d", "e"], everything),
        (["d", "d:age"], {b"d:name": b"x", b"d:age": b"7"}),
        (["d:age"], {b"d:age": b"7"}),
        (["d:age", "d:deleted", "d:age"], {b"d:age": b"7"}),
        ([b"e:city"], {b"e:city": b"Ulm"}),
        (["e"], {b"e:city": b"Ulm"}),
        (["e:city", "d:name"], {b"e:city": b"Ulm", b"d:name": b"x"}),
    ):
        expected = {b"kept": cells, b"restored": cells}
        if columns is None or "e" in columns:
            expected[b"elsewhere"] = {b"e:deleted": b"another family's", b"e:city": b"Bonn"}
        elif any(name in columns for name in ("e:city", b"e:city")):
            expected[b"elsewhere"] = {b"e:city": b"Bonn"}
        assert {one.row: one.cells for one in deletes.scan(columns=columns)} == expected, columns
        told = {one.row: one for one in deletes.scan(columns=columns, include_deleted=True)}
        assert told.pop(b"deleted") == FlaggedRow(b"deleted", cells, {b"deleted": 5})
        assert {row: one.cells for row, one in told.items()} == expected
        assert not any(one.flags for one in told.values())
    assert list(deletes.scan(columns=["d:nothing"])) == []
    assert list(deletes.scan(columns=["d:nothing"], include_deleted=True)) == []


def test_a_family_that_is_not_there(lab: Callable[..., Any]) -> None:
    """A column without its family is easily written; a family that was added since is found."""
    table = lab()
    table.create_rows(b"a")
    deletes = table.flag()
    with pytest.raises(InvalidArgumentError, match="columns has family b'name', the table has only b'd', b'e'"):
        deletes.scan(columns=["name"])
    deletes._families = frozenset([b"d"])
    assert [found.cells for found in deletes.scan(columns=["d", "e"])] == [{b"d:name": b"x"}]


def test_pages_and_ranges(lab: Callable[..., Any], calls: Counter[str]) -> None:
    """Whole pages of deleted rows are left out by the server: pages hold rows that are shown."""
    table = lab()
    deletes = table.flag()
    rows = [b"%03d" % number for number in range(100)]
    table.create_rows(*rows)
    deletes.mark_deleted_many((row, 5) for row in rows[10:70])
    rest = rows[:10] + rows[70:]
    for rows_per_call, count in ((1, 41), (7, 6), (40, 2), (41, 1), (500, 1)):
        calls.clear()
        assert keys(deletes.scan(rows_per_call=rows_per_call)) == rest
        assert calls == {"getScannerResults": count}
    calls.clear()
    assert next(deletes.scan(rows_per_call=3)).row == b"000"
    assert calls == {"getScannerResults": 1}, "no further than it was read"
    for start, stop in ((None, "005"), ("005", "071"), (b"069", None), ("005", "005"), ("0055", "0705"), ("9", None)):
        low, high = (b"" if start is None else start, b"~" if stop is None else stop)
        low, high = (one if isinstance(one, bytes) else one.encode() for one in (low, high))
        for rows_per_call in (1, 2, 500):
            shown = keys(deletes.scan(start=start, stop=stop, rows_per_call=rows_per_call))
            assert shown == [row for row in rest if low <= row < high]


def test_the_longest_keys(lab: Callable[..., Any]) -> None:
    """Behind a key of full length the next page can't begin at that key and a zero byte."""
    table = lab()
    deletes = table.flag()
    rows = [b"a" * 32_767, b"b", b"\xff" * 32_766 + b"\xfe", b"\xff" * 32_767]
    table.create_rows(b"b")  # HBase can't look for the region of the longest keys, only use one that it knows
    table.create_rows(*rows)
    assert [found.row for found in deletes.scan(start="b", stop="c")] == [b"b"]
    assert keys(deletes.scan(rows_per_call=1)) == rows
    assert deletes.mark_deleted_many((row, 5) for row in rows[::2]) == [True, True]
    assert keys(deletes.scan(rows_per_call=1)) == rows[1::2]
    assert deletes.restore_many((row, 5) for row in rows) == [True] * 4
    assert keys(deletes.scan(rows_per_call=3)) == rows


@pytest.mark.parametrize(
    ("row", "after"),
    [
        (b"a", b"a\0"),
        (b"\xff" * 32_766, b"\xff" * 32_766 + b"\0"),
        (b"a" + b"\xff" * 32_766, b"b"),
        (b"a" * 32_767, b"a" * 32_766 + b"b"),
        (b"\xff" * 32_767, b""),
    ],
)
def test_the_key_behind_a_key(row: bytes, after: bytes) -> None:
    assert _after(row) == after


@pytest.mark.parametrize("keep", [False, True])
def test_names_that_need_quoting(lab: Callable[..., Any], keep: bool) -> None:
    """Filters are texts in a language with quotes and operators of its own."""
    table = lab()
    names = ["it's", b"\x00\xff", "gelöscht", " a , b) OR (", "''", "a:b", "\\x00", '"', "\n", "binary:x", "x" * 9_000]
    deletes = table.flag(keep=keep)
    rows = [b"%d" % number for number in range(10, 10 + len(names))]
    table.create_rows(*rows, b"none")
    for row, name in zip(rows, names, strict=True):
        flag = table.flag(name, keep=keep)
        flag.mark_deleted_many([(row, 5), ("none", 5)])
        flag.restore("none", 6)
        assert keys(flag.scan()) == sorted({*rows, b"none"} - {row})
        carried = {found.row for found in flag.scan(include_deleted=True) if found.flags}
        assert carried == {row}
    assert keys(deletes.scan(flags=names)) == [b"none"]
    (found,) = deletes.scan(flags=names, start="none")
    assert found.cells == {b"d:name": b"x"}
    table.table.put(b"quoted", {b"it's:name": b"x"})
    quoted = table.flag("it's", keep=keep, family="it's")
    assert quoted.mark_deleted("quoted", 5)
    assert b"quoted" not in keys(quoted.scan())
    assert quoted.restore("quoted", 5)
    assert b"quoted" in keys(quoted.scan())


def test_marks_of_others(lab: Callable[..., Any]) -> None:
    """A flag cell flags by its presence, whatever a writer of the scheme put into it."""
    table = lab()
    table.create_rows(b"other", b"kept")
    table.table.put(b"other", {b"d:deleted": b"1"}, timestamp=5)
    deletes = table.flag()
    assert keys(deletes.scan()) == [b"kept"]
    assert table.flag(keep=True).restore("other", 6)
    assert keys(deletes.scan()) == [b"kept", b"other"]
    assert table.table.row(b"other")[b"d:deleted"] == RESTORED


def test_rows_with_nothing_but_flags(lab: Callable[..., Any]) -> None:
    """What is left where a row was deleted for good as of a time before that of its flag."""
    table = lab()
    deletes = table.flag(keep=True)
    table.create_rows(b"gone", b"gone too", b"there")
    deletes.mark_deleted_many([("gone", 2**62), ("gone too", 2**62), ("there", 2**62)])
    deletes.restore("gone too", 2**62 + 1)
    table.table.delete(b"gone")
    table.table.delete(b"gone too")
    assert b"d:deleted" in table.table.row(b"gone")
    assert list(deletes.scan()) == []
    assert keys(deletes.scan(include_deleted=True)) == [b"there"]
    assert not deletes.mark_deleted("gone", 2**62 + 2)
    assert not deletes.restore("gone", 2**62 + 2)


def test_a_scan_that_can_not_be(lab: Callable[..., Any]) -> None:
    """Wrong arguments are told at the call, before any I/O."""
    table = lab()
    deletes = table.flag()
    table.context.gateway.close()  # what reaches the server fails otherwise
    arguments: dict[str, Any]
    for arguments, message in (
        ({"flags": ["name"]}, "which is the column that must exist"),
        ({"flags": [""]}, "flags has an empty name"),
        ({"columns": []}, "columns is empty"),
        ({"columns": [":name"]}, "write family:qualifier"),
        ({"rows_per_call": 0}, "rows_per_call is 0"),
        ({"rows_per_call": 10_001}, "allowed are 1 to 10,000"),
        ({"start": ""}, "start is empty"),
        ({"stop": ""}, "stop is empty"),
        ({"stop": b"x" * 32_768}, "stop of 32,768 bytes is too long"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            deletes.scan(**arguments)
    for arguments, message in (
        ({"flags": "deleted"}, r"flags must be several names, such as \['deleted'\]"),
        ({"flags": [1]}, "each of flags must be str or bytes, not int"),
        ({"columns": b"d:name"}, "columns must be several names"),
        ({"rows_per_call": True}, "rows_per_call must be an int, not bool"),
        ({"start": 5}, "start must be str or bytes, not int"),
    ):
        with pytest.raises(TypeError, match=message):
            deletes.scan(**arguments)
    with pytest.raises(StoreError, match="closed"):
        list(deletes.scan())
