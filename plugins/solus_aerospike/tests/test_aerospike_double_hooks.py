"""What tests may do to the double: fail, lose, delay and hold commands, freeze, stop, move its clock (issue 6, tests).

The failures are those of the facts behind R8 and R23: what the client raises for each, and whether it is in doubt.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import aerospike
import pytest
from aerospike import exception
from aerospike_double.msgpack import MsgpackError, pack, unpack
from aerospike_double.store import GENERATIONS, Clock, Record
from aerospike_helpers import expressions as e  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.batch import records as batch  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import list_operations, operations  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations.expression_operations import expression_read  # type: ignore[import-untyped]  # it has no types

if TYPE_CHECKING:
    from aerospike_double import Double

KEY = ("test", "hooks", "k")
SHORT = {"total_timeout": 300, "max_retries": 0}
LONG = {"total_timeout": 20_000, "max_retries": 0}
WRITE_ONE = [operations.write("a", 1)]


@pytest.fixture
def client(double: Double) -> Iterator[Any]:
    # It looks after its nodes as often as it can: after five times without an answer a node is gone.
    connected = aerospike.client({"hosts": double.hosts, "tend_interval": 250})
    yield connected
    connected.close()


def failure(run: Any) -> tuple[int, bool]:
    """Code and doubt of what the client raises."""
    with pytest.raises(exception.AerospikeError) as caught:
        run()
    return caught.value.code or 0, bool(caught.value.in_doubt)


def rows(count: int = 3) -> batch.BatchRecords:
    return batch.BatchRecords([batch.Write(("test", "hooks", number), WRITE_ONE) for number in range(count)])


def test_a_command_of_a_kind_fails_as_often_as_asked(double: Double, client: Any) -> None:
    rule = double.hooks.fail(14, "put", times=2, skip=1)
    client.put(KEY, {"a": 1})
    assert failure(lambda: client.put(KEY, {"a": 2})) == (14, False)
    assert client.get(KEY)[2] == {"a": 1}
    assert failure(lambda: client.put(KEY, {"a": 2}, policy={"max_retries": 0})) == (14, False)
    client.put(KEY, {"a": 3})
    assert client.get(KEY)[2] == {"a": 3}
    assert rule.hits == 2


def test_a_command_on_one_record_fails(double: Double, client: Any) -> None:
    double.hooks.fail(18, "put", times=None, digest=bytes(aerospike.calc_digest("test", "hooks", "other")))
    client.put(KEY, {"a": 1})
    assert failure(lambda: client.put(("test", "hooks", "other"), {"a": 1})) == (18, False)


def test_a_lost_answer_leaves_the_client_in_doubt(double: Double, client: Any) -> None:
    double.hooks.lose("put", applied=True)
    code, in_doubt = failure(lambda: client.put(KEY, {"a": 1}, policy=LONG))
    assert code == -10
    assert in_doubt
    assert client.get(KEY)[2] == {"a": 1}
    double.hooks.lose("put", applied=False)
    code, in_doubt = failure(lambda: client.put(KEY, {"a": 2}, policy=LONG))
    assert code == -10
    assert in_doubt
    assert client.get(KEY)[2] == {"a": 1}


@pytest.mark.parametrize("applied", [True, False])
def test_an_answer_that_never_comes_is_a_timeout(double: Double, client: Any, applied: bool) -> None:
    double.hooks.lose("put", applied=applied, silent=True)
    assert failure(lambda: client.put(KEY, {"a": 1}, policy=SHORT)) == (9, True)
    assert (client.exists(KEY)[1] is not None) == applied


def test_a_read_is_sent_again_by_the_client(double: Double, client: Any) -> None:
    client.put(KEY, {"a": 1})
    double.hooks.lose("get", applied=False, times=2)
    assert client.get(KEY)[2] == {"a": 1}
    assert double.hooks.counts["get"] == 3


def test_a_command_that_is_done_may_answer_that_it_failed(double: Double, client: Any) -> None:
    from aerospike_double import Rule  # noqa: PLC0415  # as every use of the double's names at run time

    double.hooks.add(Rule(frozenset({"put"}), code=18, applied=True))
    assert failure(lambda: client.put(KEY, {"a": 1})) == (18, False)
    assert client.get(KEY)[2] == {"a": 1}


def test_a_command_is_held_until_it_is_released(double: Double, client: Any) -> None:
    gate = double.hooks.hold("put")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.put, KEY, {"a": 1}, policy=LONG)
        assert gate.reached.wait(10)
        client.operate(KEY, [operations.increment("b", 5)])
        assert client.get(KEY)[2] == {"b": 5}
        gate.release()
        first.result(10)
    assert client.get(KEY)[2] == {"a": 1, "b": 5}


def test_a_delay_makes_a_short_timeout_fail(double: Double, client: Any) -> None:
    double.hooks.delay(0.6, "put")
    assert failure(lambda: client.put(KEY, {"a": 1}, policy=SHORT)) == (9, True)


def test_rows_of_a_batch_fail_one_by_one(double: Double, client: Any) -> None:
    double.hooks.fail(14, "row", skip=1)
    found = rows()
    client.batch_write(found)
    assert found.result == -16
    assert [row.result for row in found.batch_records] == [0, 14, 0]
    assert client.exists(("test", "hooks", 1))[1] is None
    assert double.hooks.counts["row"] == 3
    assert double.hooks.round_trips == 2


def test_a_batch_that_times_out_does_not_raise(double: Double, client: Any) -> None:
    double.hooks.lose("batch", applied=True, silent=True)
    found = rows()
    client.batch_write(found, SHORT)
    assert found.result == 9
    assert [(row.result, row.in_doubt) for row in found.batch_records] == [(-15, True)] * 3
    assert client.exists(("test", "hooks", 1))[1] is not None


def test_a_batch_is_refused_as_a_whole(double: Double, client: Any) -> None:
    double.hooks.fail(152, "batch")
    found = rows()
    client.batch_write(found, {"max_retries": 0})
    assert found.result == 152


def test_part_of_a_batch_is_done_when_the_connection_ends(double: Double, client: Any) -> None:
    double.hooks.lose("row", applied=False, skip=2)
    found = rows()
    client.batch_write(found, LONG)
    assert found.result != 0
    there = [client.exists(("test", "hooks", number))[1] is not None for number in range(3)]
    assert there == [True, True, False]
    assert all(row.in_doubt for row in found.batch_records if row.result != 0)


def test_a_frozen_server_times_out_and_goes_on_where_it_was(double: Double, client: Any) -> None:
    client.put(KEY, {"a": 1})
    double.freeze()
    assert failure(lambda: client.put(KEY, {"a": 2}, policy=SHORT)) == (9, True)
    assert failure(lambda: client.get(KEY, policy=SHORT)) == (9, False)
    double.thaw()
    assert client.get(KEY, policy=LONG)[2]["a"] in (1, 2)


def test_a_stopped_server_keeps_its_data(double: Double, client: Any) -> None:
    client.put(KEY, {"a": 1})
    double.stop()
    try:
        code, _ = failure(lambda: client.put(KEY, {"a": 2}, policy=SHORT))
        assert code in (-10, -8)
        with pytest.raises(exception.AerospikeError):
            aerospike.client({"hosts": double.hosts})
    finally:
        double.start()
    fresh = aerospike.client({"hosts": double.hosts})
    assert fresh.get(KEY)[2] == {"a": 1}
    fresh.close()
    # The client that was there before comes back by itself.
    retries = {"total_timeout": 20_000, "max_retries": 200, "sleep_between_retries": 50}
    assert client.get(KEY, policy=retries)[2] == {"a": 1}


def test_a_batch_where_no_server_is_left_answers_nothing(double: Double, client: Any) -> None:
    """The trap behind R8: no exception, and no records or records that say nothing."""
    client.put(KEY, {"a": 1})
    double.stop()
    try:
        until, pause = time.monotonic() + 30, threading.Event()
        while failure(lambda: client.get(KEY, policy=SHORT))[0] != -8 and time.monotonic() < until:
            pause.wait(0.1)  # it takes the client more than a second to see that the node is gone
        read = client.batch_read([KEY])
        assert (read.result, read.batch_records) == (1, [])
        written = rows()
        client.batch_write(written)
        assert (written.result, [row.result for row in written.batch_records]) == (1, [0, 0, 0])
    finally:
        double.start()


def test_records_expire_by_the_clock_of_the_double(double: Double, client: Any) -> None:
    client.put(KEY, {"a": 1}, policy={"ttl": 100})
    client.put(("test", "hooks", "for ever"), {"a": 1})
    double.clock.advance(60)
    left = client.operate(KEY, [expression_read("left", e.TTL().compile())])[2]["left"]
    assert 38 <= left <= 40
    assert 38 <= client.get(KEY)[1]["ttl"] <= 40
    double.clock.advance(42)
    assert client.exists(KEY)[1] is None
    assert failure(lambda: client.get(KEY)) == (2, False)
    # It is new to a write: neither CREATE nor a filter stands in its way.
    never = e.Eq(e.IntBin("a"), 99).compile()
    client.put(KEY, {"b": 1}, policy={"exists": aerospike.POLICY_EXISTS_CREATE, "expressions": never})
    assert client.get(KEY)[1]["gen"] == 1
    assert client.get(KEY)[2] == {"b": 1}
    assert client.get(("test", "hooks", "for ever"))[2] == {"a": 1}


def test_expired_records_are_not_in_queries_and_batches(double: Double, client: Any) -> None:
    client.put(KEY, {"a": 1}, policy={"ttl": 100})
    double.clock.advance(102)
    assert client.query("test", "hooks").results({"total_timeout": 5_000}) == []
    assert [row.result for row in client.batch_read([KEY]).batch_records] == [2]


def test_ttls_where_nothing_removes_expired_records(double: Double, client: Any) -> None:
    """The namespace "nottl" has nsup-period 0: a TTL there is Forbidden(22), as the engine checks when it opens."""
    key = ("nottl", "hooks", "k")
    assert failure(lambda: client.put(key, {"a": 1}, policy={"ttl": 100})) == (22, False)
    client.put(key, {"a": 1})
    client.put(key, {"a": 2}, policy={"ttl": aerospike.TTL_NEVER_EXPIRE})
    (answer,) = client.info_all("namespace/nottl").values()
    assert "nsup-period=0" in answer[1].split(";")


def test_limits_of_a_namespace_can_be_set(double: Double, client: Any) -> None:
    namespace = double.namespaces["test"]
    namespace.max_record_size = 4096
    try:
        assert failure(lambda: client.put(KEY, {"a": b"x" * 4096})) == (13, False)
        client.put(KEY, {"a": b"x" * 3000})
        namespace.stop_writes = True
        assert failure(lambda: client.put(KEY, {"b": 1})) == (8, False)
        assert client.exists(KEY)[1] is not None
    finally:
        namespace.stop_writes, namespace.max_record_size = False, 1 << 20


def test_a_hundred_connections_at_once_lose_nothing(double: Double, client: Any) -> None:
    threads, each = 100, 50
    start = threading.Barrier(threads)

    def add(_: int) -> None:
        start.wait(30)
        for _ in range(each):
            client.operate(KEY, [operations.increment("n", 1)], policy=LONG)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(add, range(threads)))
    assert client.get(KEY)[2] == {"n": threads * each}
    assert double.hooks.counts["operate"] == threads * each


def test_exactly_one_of_many_creates(double: Double, client: Any) -> None:
    """The atomicity that R5 needs is the double's too."""
    threads = 32
    start = threading.Barrier(threads)
    policy = {"exists": aerospike.POLICY_EXISTS_CREATE, **LONG}

    def create(number: int) -> bool:
        start.wait(30)
        try:
            client.put(KEY, {"n": number}, policy=policy)
        except exception.RecordExistsError:
            return False
        return True

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(create, range(threads))) == 1


def test_what_is_not_modelled_is_told(double: Double, client: Any) -> None:
    client.put(KEY, {"l": [3, 1, 2]})
    assert failure(lambda: client.operate(KEY, [list_operations.list_sort("l")]))[0] == 16
    assert len(double.unmodelled) == 1
    double.unmodelled.clear()


def test_generations_wrap_and_leave_out_zero() -> None:
    record = Record(Clock(), b"", b"", generation=GENERATIONS - 2)
    record.touch(0, 0)
    assert record.generation == GENERATIONS - 1
    record.touch(0, 0)
    assert record.generation == 1


def test_unknown_kinds_of_commands_are_refused(double: Double) -> None:
    with pytest.raises(ValueError, match="puts"):
        double.hooks.fail(14, "puts")


def test_nonsense_from_a_client_ends_its_connection_only(double: Double, client: Any) -> None:
    with socket.create_connection(double.hosts[0]) as raw:
        raw.settimeout(10)
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert raw.recv(10) == b""
    client.put(KEY, {"a": 1})


def test_a_double_as_a_process_of_its_own(double_process: int) -> None:
    client = aerospike.client({"hosts": [("127.0.0.1", double_process)]})
    client.put(KEY, {"a": 1})
    assert client.get(KEY)[2] == {"a": 1}
    client.close()


@pytest.mark.parametrize("data", [b"", b"\x92\x01", b"\xc1", b"\xa5abc", b"\x01\x01"])
def test_bytes_that_are_no_msgpack_are_refused(data: bytes) -> None:
    with pytest.raises(MsgpackError):
        unpack(data)


INTS = [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 40, -1, -32, -33, -128, -129, -32_769, -(1 << 40)]


@pytest.mark.parametrize("value", [*INTS, "x" * 300, b"y" * 70_000, INTS * 3, 1.5, None, True, ["a", [b"b", ["c"]]]])
def test_what_is_packed_is_unpacked(value: Any) -> None:
    assert unpack(pack(value)) == value
