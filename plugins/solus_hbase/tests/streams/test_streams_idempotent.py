"""Counters that count each transaction once (R27)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core.errors import InvalidArgumentError, StoreError
from solus_core.testing import race
from solus_hbase import HBaseContext
from solus_hbase.streams import (
    CounterError,
    IdempotentCounterSink,
    Record,
    RecordError,
    StaleTransactionError,
    TableMapping,
)
from solus_hbase.streams.idempotent import txid_bytes

Run = Callable[..., int]


def mapping(**settings: Any) -> TableMapping:
    columns = {"data": ["clicks"], "daily": ["date"]}
    return TableMapping(**{"table": "t", "row_key_field": "shorturl", "column_families": columns, **settings})


def click(row: object, date: object = 20120816) -> Record:
    return {"shorturl": row, "date": date}


@pytest.mark.parametrize(
    ("txid", "stored"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x00\x80"),
        (255, b"\x00\xff"),
        (256, b"\x01\x00"),
        (2**63, b"\x00\x80" + bytes(7)),
        (-1, b"\xff"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
    ],
)
def test_ids_are_minimal_bytes_of_twos_complement(
    context: HBaseContext, table: Any, txid: int, stored: bytes, run: Run
) -> None:
    assert txid_bytes(txid) == stored
    with IdempotentCounterSink(context, mapping()) as sink:
        run(sink, txid, "a")
    assert table.rows[b"a"] == {
        (b"data", b"clicks"): bytes(7) + b"\x01",
        (b"data", b"clicks_txid"): stored,
        (b"daily", b"20120816"): bytes(7) + b"\x01",
        (b"daily", b"20120816_txid"): stored,
    }


@given(st.integers(-(2**200), 2**200))
def test_no_byte_of_an_id_is_superfluous(txid: int) -> None:
    data = txid_bytes(txid)
    assert int.from_bytes(data, "big", signed=True) == txid
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != txid


def test_all_records_of_a_transaction_are_one_step(context: HBaseContext, table: Any, run: Run) -> None:
    """R27: aggregated for each counter; counter and id in one call, on what was read."""
    with IdempotentCounterSink(context, mapping()) as sink:
        assert run(sink, 1, "aaab") == 4
        assert sorted(table.faults.calls) == ["checkAndMutate"] * 4 + ["getMultiple"]
        assert table.clicks() == {"a": 3, "b": 1}
        assert len(table.written) == 4
        assert all(len(put.columnValues) == 2 for put in table.written)


def test_a_replay_is_skipped(context: HBaseContext, table: Any, run: Run) -> None:
    with IdempotentCounterSink(context, mapping()) as sink:
        run(sink, 1, "aab")
        assert run(sink, 1, "aab") == 0
        with sink.transaction(2) as transaction:
            transaction.add(click("a"))
        assert transaction.commit() == 0
    assert table.clicks() == {"a": 3, "b": 1}


def test_nothing_counts_without_a_commit(context: HBaseContext, table: Any) -> None:
    def fail(sink: IdempotentCounterSink) -> None:
        with sink.transaction(1) as transaction:
            transaction.add(click("a"))
            raise LookupError("upstream")

    with IdempotentCounterSink(context, mapping()) as sink:
        with pytest.raises(LookupError):
            fail(sink)
        assert sink.transaction(2).commit() == 0
    assert table.faults.calls == []


def test_sources_are_told_apart(context: HBaseContext, table: Any, run: Run) -> None:
    """A source's last id survives what the others write, in any order."""
    with IdempotentCounterSink(context, mapping()) as sink:
        for source in (None, "x", "y"):
            assert run(sink, 1, "a", source) == 2
        for source in ("y", None, "x"):
            assert run(sink, 1, "a", source) == 0
        assert run(sink, 2, "a", "x") == 2
        assert run(sink, 1, "a", "y") == 0
        with pytest.raises(
            StaleTransactionError, match=r"transaction 1 of source 'x' is older than 2, .*'a' data:clicks"
        ):
            run(sink, 1, "a", "x")
    assert table.clicks() == {"a": 4}
    assert table.value(b"a", b"data", b"clicks_txid:x") == b"\x02"


def test_what_the_source_project_wrote_reads_right(context: HBaseContext, table: Any, run: Run) -> None:
    """A counter and an id as two puts of the Storm bolt left them: the nameless source goes on from there."""
    table.rows[b"a"] = {
        (b"data", b"clicks"): bytes(6) + b"\x05\x8c",
        (b"data", b"clicks_txid"): b"\x00\x80",
        (b"daily", b"20120816"): bytes(6) + b"\x05\x8c",
        (b"daily", b"20120816_txid"): b"\x00\x80",
    }
    with IdempotentCounterSink(context, mapping()) as sink:
        assert run(sink, 128, "a") == 0
        with pytest.raises(StaleTransactionError):
            run(sink, 127, "a")
        assert run(sink, 129, "a") == 2
    assert table.clicks() == {"a": 1_421}


def test_an_old_transaction_changes_nothing(context: HBaseContext, table: Any, run: Run) -> None:
    """It is refused before the first write, also where only one of its counters has seen a newer one."""
    with IdempotentCounterSink(context, mapping()) as sink:
        run(sink, 5, "z")
        before = table.clicks()
        with pytest.raises(StaleTransactionError) as caught:
            run(sink, 4, "abz")
    assert (caught.value.txid, caught.value.stored) == (4, 5)
    assert table.clicks() == before


def test_an_old_transaction_that_is_found_out_late(context: HBaseContext, table: Any, run: Run) -> None:
    """The newer one came between its read and its write."""
    with IdempotentCounterSink(context, mapping(column_families={"data": ["clicks"]})) as sink:
        overtaken = sink.transaction(1)
        overtaken.add(click("a"))

        def plan(number: int, name: str, applied: bool) -> None:
            if number == 1 and not applied:
                run(sink, 2, "a")

        table.faults.plan = plan
        with pytest.raises(StaleTransactionError):
            overtaken.commit()
    assert table.count(b"a", b"data", b"clicks") == 1


def test_plain_increments_in_between_are_not_lost(context: HBaseContext, table: Any, run: Run) -> None:
    """Somebody increments between our read and our write: we read again."""

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 1 and not applied:
            table.rows[b"a"] = {(b"data", b"clicks"): bytes(7) + b"\x07"}

    table.faults.plan = plan
    with IdempotentCounterSink(context, mapping(column_families={"data": ["clicks"]})) as sink:
        assert run(sink, 1, "aa") == 1
    assert table.count(b"a", b"data", b"clicks") == 9


def test_a_counter_that_others_always_raise_first(context: HBaseContext, table: Any, run: Run) -> None:
    def plan(number: int, name: str, applied: bool) -> None:
        if name == "checkAndMutate" and not applied:
            table.rows[b"a"] = {(b"data", b"clicks"): number.to_bytes(8, "big")}

    table.faults.plan = plan
    columns = {"data": ["clicks"]}
    with (
        IdempotentCounterSink(context, mapping(column_families=columns)) as sink,
        pytest.raises(StoreError, match="100 times over"),
    ):
        run(sink, 1, "a")


def test_threads_share_a_transaction(context: HBaseContext, table: Any) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, sink.transaction(1) as transaction:

        def work() -> None:
            for _ in range(500):
                transaction.add(click("a"))

        race(*[work] * 4)
    assert table.clicks() == {"a": 2_000}


def test_no_click_is_lost_between_threads(context: HBaseContext) -> None:
    """R27: a sum is raised by one thread at a time, and not while it is committed."""

    class Watched(Counter[Any]):
        def update(self, given: Any = None) -> None:  # type: ignore[override]  # as it is called here
            assert given is None or transaction._lock.locked()
            super().update(given)

    with IdempotentCounterSink(context, mapping()) as sink:
        transaction = sink.transaction(1)
        transaction._amounts = Watched()
        transaction.add(click("a"))
        assert transaction.commit() == 2


def test_the_largest_numbers(context: HBaseContext, table: Any, run: Run) -> None:
    """R27: up to the limits all counts; an id of the greatest length is recognised."""
    longest = 2 ** (8 * 1_000 - 1) - 1
    table.rows[b"a"] = {(b"data", b"clicks"): (2**63 - 2).to_bytes(8, "big")}
    with IdempotentCounterSink(context, mapping(column_families={"data": ["clicks"]})) as sink:
        assert [run(sink, longest, "a") for _ in range(2)] == [1, 0]
    assert table.count(b"a", b"data", b"clicks") == 2**63 - 1


def test_what_is_added_after_the_commit_is_refused(context: HBaseContext) -> None:
    """It would be skipped as a replay: that must not happen silently."""
    with IdempotentCounterSink(context, mapping()) as sink:
        transaction = sink.transaction(1)
        transaction.commit()
        with pytest.raises(InvalidArgumentError, match="what comes now would not count"):
            transaction.add(click("a"))


def test_bad_records_stop_or_are_passed_on(context: HBaseContext, table: Any, run: Run) -> None:
    told: list[RecordError] = []
    with IdempotentCounterSink(context, mapping(), on_bad=told.append) as sink:
        run(sink, 1, "a")
        with sink.transaction(2) as transaction:
            transaction.add(click(""))
            transaction.add(click("a", date=1.5))
            transaction.add(click("a"))
    assert [error.field for error in told] == ["shorturl", "date"]
    assert table.clicks() == {"a": 2}
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(RecordError, match="'shorturl' has 0 bytes"):
        sink.transaction(3).add(click(""))


@pytest.mark.parametrize("date", ["20120816_txid", "_txid", "x_txid:y", "_txid:"])
def test_columns_of_ids_are_no_counters(context: HBaseContext, date: str) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(RecordError, match="ids of transactions"):
        sink.transaction(1).add(click("a", date))


@pytest.mark.parametrize(("txid", "source"), [("1", None), (True, None), (1.0, None), (1, 5), (1, b"x")])
def test_wrong_types(context: HBaseContext, txid: Any, source: Any) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(TypeError, match="must be"):
        sink.transaction(txid, source)


def test_a_source_has_a_name(context: HBaseContext) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(InvalidArgumentError, match="empty"):
        sink.transaction(1, "")


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ({b"clicks": b"5"}, "counter 'a' data:clicks holds 1 bytes and is none, which has 8"),
        ({b"clicks_txid": b""}, "'a' data:clicks has an id of 0 bytes beside it"),
        ({b"clicks_txid": bytes(1_001)}, "'a' data:clicks has an id of 1001 bytes beside it"),
        ({b"clicks": b"\x7f" + b"\xff" * 7}, "would exceed"),
    ],
)
def test_cells_that_are_something_else(
    context: HBaseContext, table: Any, cells: dict[bytes, bytes], complaint: str, run: Run
) -> None:
    """No outage: an error of its own, without the advice to try again, before anything is changed."""
    table.rows[b"a"] = {(b"data", qualifier): value for qualifier, value in cells.items()}
    with IdempotentCounterSink(context, mapping()) as sink:
        with pytest.raises(CounterError, match=complaint) as caught:
            run(sink, 1, "ba")
        assert (caught.value.row, caught.value.column) == (b"a", b"data:clicks")
        assert "again" not in caught.value.message
    assert "checkAndMutate" not in table.faults.calls


@pytest.mark.parametrize("sign", [1, -1])
def test_an_id_has_a_bound(context: HBaseContext, sign: int) -> None:
    with IdempotentCounterSink(context, mapping()) as sink:
        longest = sign * 2 ** (8 * 1_000 - 1) - (sign > 0)
        assert len(txid_bytes(sink.transaction(longest).txid)) == 1_000
        with pytest.raises(InvalidArgumentError, match="allowed are 1,000 bytes"):
            sink.transaction(longest + sign)


def test_a_source_that_is_no_text(context: HBaseContext) -> None:
    with IdempotentCounterSink(context, mapping()) as sink, pytest.raises(InvalidArgumentError, match="no UTF-8 form"):
        sink.transaction(1, "\ud800")


def test_a_closed_sink(context: HBaseContext, table: Any) -> None:
    """For new transactions and for those that were begun."""
    with IdempotentCounterSink(context, mapping()) as sink:
        begun = sink.transaction(1)
        begun.add(click("a"))
    with pytest.raises(StoreError, match="this sink is closed"):
        begun.commit()
    with pytest.raises(StoreError, match="this sink is closed"):
        sink.transaction(2)
    assert table.faults.calls == []


def test_on_bad_must_be_callable(context: HBaseContext) -> None:
    with pytest.raises(TypeError, match="on_bad must be callable, not list"):
        IdempotentCounterSink(context, mapping(), on_bad=[])  # type: ignore[arg-type]  # on purpose
