"""Creating tables for the sinks, on a table that is made up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_hbase import HBaseContext, tables
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import create_table

FAMILIES = {"data": (3, None), "daily": (1, 604_800)}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time here."""
    pauses: list[float] = []
    monkeypatch.setattr(tables, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    return pauses


def test_a_lost_answer_is_no_failure(
    context: HBaseContext, table: Any, lost: Callable[[], Exception], waited: list[float]
) -> None:
    """The server may be at it still; a table that comes is waited for, and until it can be used."""
    table.exists = False
    table.do_tableExists = lambda _: len(waited) > 5
    table.do_isTableAvailable = lambda _: len(waited) > 9
    table.faults.fail(lost)
    create_table(context, "t", FAMILIES)
    assert len(waited) == 10
    assert table.faults.calls == ["createTable"]


def test_what_the_server_refuses_is_told_at_once(context: HBaseContext, table: Any, waited: list[float]) -> None:
    table.exists = False
    table.faults.fail(lambda: IDL.TIOError(b"DoNotRetryIOException: no room", False))
    with pytest.raises(StoreError, match=r"table 't': .*no room") as caught:
        create_table(context, "t", FAMILIES)
    assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR
    assert isinstance(caught.value.__cause__, IDL.TIOError)
    assert waited == []


def test_a_table_that_is_there_stays_as_it_is(context: HBaseContext, table: Any) -> None:
    create_table(context, "t", FAMILIES)
    assert table.faults.calls == []


@pytest.mark.parametrize(
    ("name", "families", "complaint"),
    [
        ("-x", FAMILIES, "table is '-x'"),
        ("t", {}, "families is {}"),
        ("t", {"da:ta": (1, None)}, "'da:ta' is no name"),
        ("t", {"data": 1}, "family 'data' has 1, allowed are"),
        ("t", {"data": (0, None)}, "family 'data' has 0 versions"),
        ("t", {"data": (2**31, None)}, "family 'data' has 2147483648 versions"),
        ("t", {"data": ("1", None)}, "family 'data' has '1' versions"),
        ("t", {"data": (1, 0)}, "family 'data' lives 0 seconds"),
        ("t", {"data": (1, 2**31)}, "family 'data' lives 2147483648 seconds"),
        ("t", {"data": (1, 1.5)}, "family 'data' lives 1.5 seconds"),
    ],
)
def test_bad_arguments(context: HBaseContext, table: Any, name: str, families: Any, complaint: str) -> None:
    table.exists = False
    with pytest.raises(InvalidConfigError, match=complaint) as caught:
        create_table(context, name, families)
    assert len(caught.value.problems) == 1
    assert table.faults.calls == []
