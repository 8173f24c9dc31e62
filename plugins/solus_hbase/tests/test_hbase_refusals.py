"""What HBase 2.6.1 says when it refuses a call: whether a repeat can help, and what is in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_hbase import HBaseConfig
from solus_hbase.gateway import thrift1, thrift2
from solus_hbase.gateway.wire import Wire

STACK = "\n\tat org.apache.hadoop.hbase.regionserver.HRegion.checkTimestamps(HRegion.java:5141)\n"
LIST = "org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed"
FAMILY = (
    "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column family Z does not exist in region t,,1"
)
SANITY = "org.apache.hadoop.hbase.exceptions.FailedSanityCheckException: Timestamp for KV out of range a/S:q/179/Put"
REMOTE = "org.apache.hadoop.hbase.ipc.RemoteWithExtrasException"
SERVER = "servers with issues: localhost,31175,1796087834257"


def of_thrift2(message: str, can_retry: bool = True) -> Exception:
    error: Exception = thrift2.IDL.TIOError(message.encode(), can_retry)
    return error


def of_thrift1(message: str) -> Exception:
    error: Exception = thrift1.idl.IOError(message.encode())
    return error


@pytest.mark.parametrize(
    ("message", "hopeless"),
    [
        (f"{FAMILY}{STACK}", True),
        (f"Failed 1 action: {FAMILY}{STACK}: 1 time, {SERVER}", True),
        (f"Failed 2 actions: {SANITY}{STACK}: 1 time, {SANITY}{STACK}: 1 time, {SERVER}", True),
        (f"{LIST} 1 action: {SANITY}{STACK}: 1 time, {SERVER}", True),
        (f"org.apache.hadoop.hbase.TableNotFoundException: missing{STACK}", True),
        (f"org.apache.hadoop.hbase.DoNotRetryIOException{STACK}", True),
        (f"java.io.IOException: x{STACK}Caused by: {REMOTE}({FAMILY.partition(':')[0]}): {FAMILY}{STACK}", True),
        (f"java.io.IOException: x{STACK}Caused by: {REMOTE}({FAMILY.partition(':')[0]})", True),
        (f"Failed 2 actions: NotServingRegionException: 2 times, {SERVER}", False),
        ("Failed 2 actions: AccessDenied: 2 times, servers with issues: null", False),
    ],
)
def test_what_a_repeat_can_not_cure(message: str, hopeless: bool) -> None:
    """R23"""
    for verdict in (thrift2.judge(of_thrift2(message)), thrift1._judge(of_thrift1(message))):
        assert verdict is not None
        assert (verdict.curable, verdict.refused) == (not hopeless, hopeless)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("orders", "solus"),
        ("AccessDenied", "AccessDenied"),
        ("AccessDeniedException", "AccessDeniedException"),
        ("org.DoNotRetryIOException: old", "org.DoNotRetryIOException"),
    ],
)
def test_names_of_tables_and_de_dupers_say_nothing(name: str, table: str) -> None:
    """R23: the call that was not answered may have been applied, whatever the row is called."""
    message = (
        f"callTimeout=60000, callDuration=68402: Call to rs1/10.0.0.5:16020 failed on local exception: "
        f"CallTimeoutException row '\\x1242|shop|{name}' on table '{table}' at region={table},,1.588230740, "
        f"hostname=rs1,16020,1, seqNum=2\norg.apache.hadoop.hbase.NotServingRegionException: {table},,1.5 is not online"
    )
    verdict = thrift2.judge(of_thrift2(message))
    assert verdict is not None
    assert (verdict.curable, verdict.refused) == (True, False)


@pytest.mark.parametrize("kind", [2, 1])
@pytest.mark.parametrize(
    ("message", "in_doubt"),
    [
        (f"Failed 1 action: {SANITY}{STACK}: 1 time, {SERVER}", True),
        (f"Failed 2 actions: {SANITY}{STACK}: 1 time, CallTimeoutException: 1 time, {SERVER}", True),
        (f"Failed 2 actions: {SANITY}{STACK}: 1 time, {FAMILY}{STACK}: 1 time, {SERVER}", False),
        (f"Failed 2 actions: {FAMILY}{STACK}: 2 times, {SERVER}", False),
        ("no route to host", False),
    ],
)
def test_rows_beside_one_that_was_refused_are_in_doubt(
    monkeypatch: pytest.MonkeyPatch, kind: int, message: str, in_doubt: bool
) -> None:
    """R8, R23: they may be there. Where all were refused none is."""
    config = HBaseConfig(hosts="unused", table="unused")
    gateway: Any = (thrift2.Thrift2Gateway if kind == 2 else thrift1.Thrift1Gateway)(Wire(config), config)

    def refuse(*_: object) -> None:
        cause = of_thrift2(message) if kind == 2 else of_thrift1(f"{LIST.removesuffix('Failed')}{message}")
        raise StoreError(ErrorCode.HBASE_ERROR, "refused") from cause

    monkeypatch.setattr(gateway._calls, "write", refuse)
    with pytest.raises(StoreError) as caught:
        gateway.put("t", b"S", [(row, [(b"q", b"v")]) for row in (b"a", b"b")])
    assert caught.value.in_doubt is in_doubt
    assert caught.value.__cause__ is not None
