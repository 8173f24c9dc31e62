"""Counters that count once (R27), whatever dies, fails or races."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from solus_core.errors import StoreError
from solus_core.testing import race
from solus_hbase import HBaseContext
from solus_hbase.gateway.stream_calls import COUNTER
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import IdempotentCounterSink, TableMapping, idempotent

Lost = Callable[[], Exception]
Run = Callable[..., int]


def mapping(**settings: Any) -> TableMapping:
    columns = {"data": ["clicks"], "daily": ["date"]}
    return TableMapping(**{"table": "t", "row_key_field": "shorturl", "column_families": columns, **settings})


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("after", [False, True])
def test_an_answer_that_was_lost_at_every_call(
    table: Any, connect_to: Any, lost: Lost, after: bool, attempts: int
) -> None:
    """Unclear steps are resolved by reading the id; what can't be is told, and commit goes on where it stopped."""
    for step in range(9):
        table.rows.clear()
        table.faults.calls.clear()
        table.faults.fail_at(step, lost, applied=after)
        with IdempotentCounterSink(connect_to(attempts=attempts, pool_size=1), mapping()) as sink:
            transaction = sink.transaction(1)
            for row in "aab":
                transaction.add({"shorturl": row, "date": 20120816})
            if attempts > 1 or step >= 5:
                transaction.commit()
            else:
                with pytest.raises(StoreError):
                    transaction.commit()
                transaction.commit()
        assert table.clicks() == {"a": 2, "b": 1}


def test_a_step_that_was_applied_and_denied(
    context: HBaseContext, table: Any, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The client in HBase's Thrift server repeats a check that it got no answer to, and answers False to who won."""
    apply = table.do_checkAndMutate
    monkeypatch.setattr(table, "do_checkAndMutate", lambda *args: (apply(*args), False)[1])
    with IdempotentCounterSink(context, mapping()) as sink:
        assert run(sink, 1, "aab") == 4
        assert run(sink, 2, "a") == 2
    assert table.clicks() == {"a": 3, "b": 1}
    assert table.faults.calls.count("checkAndMutate") == 6


def test_a_counter_that_was_lowered_meanwhile(table: Any, connect_to: Any, lost: Lost, run: Run) -> None:
    """R27: applied, answer lost, and lowered to what was read: the same check again would count it twice."""

    def plan(number: int, name: str, applied: bool) -> None:
        if number == 1 and applied:
            table.rows[b"a"][b"data", b"clicks"] = COUNTER.pack(6)
            raise lost()

    columns = {"data": ["clicks"]}
    table.rows[b"a"] = {(b"data", b"clicks"): COUNTER.pack(6)}
    table.faults.plan = plan
    with IdempotentCounterSink(connect_to(attempts=3), mapping(column_families=columns)) as sink:
        run(sink, 2, "a")
    assert table.count(b"a", b"data", b"clicks") == 6
    assert table.faults.calls == ["get", "checkAndMutate", "get"]


def test_a_step_is_tried_so_many_times(table: Any, connect_to: Any, lost: Lost, run: Run) -> None:
    """After each failure the id is read; what was in doubt once stays in doubt."""
    table.faults.fail(lost, "checkAndMutate")
    with IdempotentCounterSink(connect_to(attempts=3), mapping(column_families={"data": ["clicks"]})) as sink:
        with pytest.raises(StoreError, match="commit it again") as caught:
            run(sink, 1, "a")
        assert caught.value.in_doubt
    assert table.faults.calls == ["get", *["checkAndMutate", "get"] * 2, "checkAndMutate"]


def test_what_was_in_doubt_once_stays_in_doubt(table: Any, connect_to: Any, run: Run, lost: Lost) -> None:
    """R23: though a later try was refused, or others were always first."""
    refuse, checks = True, list[int]()

    def plan(number: int, name: str, applied: bool) -> None:
        if name != "checkAndMutate" or applied:
            return
        checks.append(number)
        if len(checks) == 1:
            raise lost()
        if refuse:
            raise IDL.TIOError(b"DoNotRetryIOException: refused", False)
        table.rows[b"a"] = {(b"data", b"clicks"): COUNTER.pack(number)}

    table.faults.plan = plan
    for told in ("refused", "100 times over"):
        refuse = told == "refused"
        checks.clear()
        with (
            IdempotentCounterSink(connect_to(attempts=3), mapping(column_families={"data": ["clicks"]})) as sink,
            pytest.raises(StoreError, match=told) as caught,
        ):
            run(sink, 1, "a")
        assert caught.value.in_doubt


def test_pauses_between_steps(
    table: Any, connect_to: Any, run: Run, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: each longer than the one before, up to two seconds."""
    pauses: list[float] = []
    table.faults.fail(lost, "checkAndMutate")
    monkeypatch.setattr(idempotent, "time", SimpleNamespace(sleep=pauses.append))
    monkeypatch.setattr(idempotent, "random", SimpleNamespace(random=lambda: 1.0))
    columns = {"data": ["clicks"]}
    context = connect_to(attempts=5, backoff=0.25)
    with IdempotentCounterSink(context, mapping(column_families=columns)) as sink, pytest.raises(StoreError):
        run(sink, 1, "a")
    assert pauses == [0.5, 1, 2, 2]


@pytest.mark.parametrize("denied", [False, True])
def test_a_step_that_can_not_be_looked_into_is_in_doubt(
    table: Any, connect_to: Any, lost: Lost, denied: bool, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """R23: its answer was lost, or was a no that may have come from an earlier try."""

    def plan(number: int, name: str, applied: bool) -> None:
        if number > 1 or (number == 1 and applied and not denied):
            raise lost()

    apply = table.do_checkAndMutate
    monkeypatch.setattr(table, "do_checkAndMutate", lambda *args: (apply(*args), False)[1])
    table.faults.plan = plan
    with IdempotentCounterSink(connect_to(attempts=2), mapping(column_families={"data": ["clicks"]})) as sink:
        with pytest.raises(StoreError) as caught:
            run(sink, 1, "a")
        assert caught.value.in_doubt
        assert caught.value.__cause__ is not None


def test_a_refused_step_is_not_tried_again(table: Any, connect_to: Any, run: Run) -> None:
    table.faults.fail(lambda: IDL.TIOError(b"DoNotRetryIOException: refused", False), "checkAndMutate")
    with IdempotentCounterSink(connect_to(attempts=3), mapping(column_families={"data": ["clicks"]})) as sink:
        with pytest.raises(StoreError, match="refused") as caught:
            run(sink, 1, "a")
        assert not caught.value.in_doubt
    assert table.faults.calls == ["get", "checkAndMutate"]


def test_without_the_log(context: HBaseContext, table: Any, run: Run) -> None:
    with IdempotentCounterSink(context, mapping(write_to_wal=False)) as sink:
        run(sink, 1, "a")
    assert [put.durability for put in table.written] == [IDL.TDurability.SKIP_WAL] * 2


def test_the_error_of_a_half_done_transaction(table: Any, connect_to: Any, lost: Lost, run: Run) -> None:
    table.faults.fail_at(3, lost, applied=True)
    with IdempotentCounterSink(connect_to(pool_size=1), mapping()) as sink:
        with pytest.raises(StoreError, match="transaction 7 is in 2 of 4 counters: commit it again") as caught:
            run(sink, 7, "ab")
        assert caught.value.in_doubt
        assert caught.value.__cause__ is not None


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_step(table: Any, connect_to: Any, killed: type[BaseException], after: bool, run: Run) -> None:
    """R27: dies before or after each call, once or in each of its replays too; the counts end true."""
    stopped = 0
    for first in range(8):
        for second in (None, *range(4)):
            table.rows.clear()
            truth: Counter[str] = Counter()
            for txid, rows, source in ((1, "aab", "x"), (1, "bc", "y"), (2, "abcd", "x"), (3, "d", "x")):
                truth.update(rows)
                for step in (first, second, None):
                    table.faults.calls.clear()
                    table.faults.fail_at(step, killed, applied=after)
                    with IdempotentCounterSink(connect_to(pool_size=1), mapping()) as sink:
                        try:
                            run(sink, txid, rows, source)
                        except killed:
                            stopped += 1
                        else:
                            break
            assert table.clicks() == truth
    assert stopped > 100


def test_racing_replays(context: HBaseContext, table: Any, run: Run) -> None:
    """An old process that is still at it and its successor commit the same transactions: each counts once."""
    barrier = threading.Barrier(4)

    def work(source: str) -> None:
        with IdempotentCounterSink(context, mapping()) as sink:
            for txid in range(1, 15):
                barrier.wait(30)
                rows = random.Random(f"{source}{txid}").choices("abcd", k=20)
                run(sink, txid, "".join(rows), source)

    race(*(partial(work, source) for source in "xxyy"))
    truth: Counter[str] = Counter()
    for source in "xy":
        for txid in range(1, 15):
            truth.update(random.Random(f"{source}{txid}").choices("abcd", k=20))
    assert table.clicks() == truth


PROGRAM = """
import os, sys
from solus_hbase import HBaseConfig, connect
from solus_hbase.gateway.wire import WireConnection
from solus_hbase.gateway.stream_calls import COUNTER
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams import IdempotentCounterSink, TableMapping

port, step, after, row, txid = map(int, sys.argv[1:])
context = connect(HBaseConfig(hosts=f"127.0.0.1:{port}", table="unused", pool_size=1, timeout=30.0))
columns = {"data": ["clicks"], "daily": ["date"]}
sink = IdempotentCounterSink(
    context, TableMapping(table="streams_killed", row_key_field="shorturl", column_families=columns)
)
calls = 0

class Dying:
    def __init__(self, client):
        self.client = client
    def __getattr__(self, name):
        def call(*arguments):
            global calls
            calls += 1
            if calls == step and not after:
                os._exit(9)
            answer = getattr(self.client, name)(*arguments)
            if calls == step and after:
                os._exit(9)
            return answer
        return call

connection = context.gateway.pool.take()
connection.client = Dying(connection.client)
context.gateway.pool.give_back(connection)
with sink.transaction(txid, "x") as transaction:
    for name in ("a", "a", "b"):
        transaction.add({"shorturl": f"{row}{name}", "date": 20120816})
"""


def test_processes_that_die_on_hbase(hbase_server: Any, real_table: Any) -> None:
    """R27 for real: a process ends before or after each of its calls, and another one replays."""
    _, calls = real_table("streams_killed")
    port = str(hbase_server.port(2))

    def process(step: int, after: int, row: int, txid: int) -> int:
        arguments = [sys.executable, "-c", PROGRAM, port, *map(str, (step, after, row, txid))]
        return subprocess.run(arguments, check=False, timeout=60).returncode

    for step in range(1, 6):
        for after in (0, 1):
            row = 10 * step + after
            assert process(step, after, row, 1) == 9
            assert process(0, 0, row, 1) == 0
            found = calls.get([(f"{row}{name}".encode(), [(b"data", b"clicks")]) for name in "ab"])
            assert [list(cells.values()) for cells in found] == [[bytes(7) + b"\x02"], [bytes(7) + b"\x01"]]


def test_races_on_hbase(real_table: Any, run: Run) -> None:
    """Two sources, each run twice at once, and plain increments: nothing is lost, nothing counts twice."""
    context, calls = real_table("streams_races")
    sink = IdempotentCounterSink(context, mapping(table="streams_races"))
    barrier = threading.Barrier(4)

    def source(name: str) -> None:
        for txid in range(1, 11):
            barrier.wait(60)
            run(sink, txid, "aab", name)

    def plain() -> None:
        for _ in range(50):
            calls.increment(b"a", {(b"data", b"clicks"): 1})

    race(*(partial(source, name) for name in "xxyy"), plain)
    sink.close()
    column, day = (b"data", b"clicks"), (b"daily", b"20120816")
    assert calls.get([(b"a", [column, day]), (b"b", [column, day])]) == [
        {column: (90).to_bytes(8, "big"), day: (40).to_bytes(8, "big")},
        {column: (20).to_bytes(8, "big"), day: (20).to_bytes(8, "big")},
    ]
