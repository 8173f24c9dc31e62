"""Lost answers, refused arguments, servers that can't: nothing is guessed, and every call may be made again (R23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.thrift import TClient
from thriftpy2.transport import TTransportException

from solus_core.errors import BatchError, ErrorCode, InvalidArgumentError, InvalidConfigError, StoreError
from solus_hbase import HBaseConfig, HBaseContext, connect
from solus_hbase.dev_server import HBaseServer
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.logical_delete import LogicalDelete

Lose = Callable[[str, Iterable[int]], None]


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Loses answers of calls that the server did apply: those with these numbers among the calls of that name."""
    receive = TClient._recv

    def arrange(name: str, numbers: Iterable[int]) -> None:
        left, count = set(numbers), iter(range(1_000_000))

        def lossy(self: TClient, api: str) -> Any:
            answer = receive(self, api)
            if api == name and next(count) in left:
                raise TTransportException(TTransportException.END_OF_FILE, "lost by the test")
            return answer

        monkeypatch.setattr(TClient, "_recv", lossy)

    return arrange


def shown(deletes: LogicalDelete) -> list[bytes]:
    return [found.row for found in deletes.scan()]


@pytest.mark.parametrize("keep", [False, True])
def test_lost_answers_are_asked_for_again(lab: Callable[..., Any], lose: Lose, keep: bool) -> None:
    table = lab(backoff=0.001)
    deletes = table.flag(keep=keep)
    table.create_rows(b"a", b"b")
    lose("checkAndMutate", [0, 1])
    assert deletes.mark_deleted("a", 5)
    lose("getScannerResults", [0])
    assert shown(deletes) == [b"b"]
    lose("checkAndMutate" if keep else "deleteMultiple", [0, 1])
    assert deletes.restore("a", 5)
    assert shown(deletes) == [b"a", b"b"]


@pytest.mark.parametrize("keep", [False, True])
def test_a_call_without_an_answer_is_in_doubt(lab: Callable[..., Any], lose: Lose, keep: bool) -> None:
    """It was applied here; and it may be made again."""
    table = lab(attempts=1)
    deletes = table.flag(keep=keep)
    table.create_rows(b"a")
    for verb, api, after in (
        (deletes.mark_deleted, "checkAndMutate", []),
        (deletes.restore, "checkAndMutate" if keep else "deleteMultiple", [b"a"]),
    ):
        lose(api, [0])
        with pytest.raises(StoreError, match="lost by the test") as caught:
            verb("a", 5)
        assert (caught.value.code, caught.value.in_doubt) == (ErrorCode.HBASE_ERROR, True)
        assert isinstance(caught.value.__cause__, TTransportException)
        assert shown(deletes) == after
        assert verb("a", 5)
        assert shown(deletes) == after


@pytest.mark.parametrize("keep", [False, True])
def test_a_batch_that_fails_part_of_the_way(lab: Callable[..., Any], lose: Lose, keep: bool) -> None:
    """R8: what was done is told, what is in doubt too, and the rest can be handed in as it is."""
    table = lab(attempts=1, pool_size=1)
    deletes = table.flag(keep=keep)
    rows = [b"%04d" % number for number in range(0, 5_000, 10)]
    table.create_rows(*rows)
    events = [(b"%04d" % number, 5) for number in range(0, 1_000, 5)]  # every other row is not there
    lose("checkAndMutate", [100])
    with pytest.raises(BatchError) as caught:
        deletes.mark_deleted_many(events)
    error = caught.value
    assert error.unprocessed == tuple(events[100:])
    assert error.doubtful == (events[100],)
    assert error.answers == {event: number % 2 == 0 for number, event in enumerate(events[:100])}
    assert deletes.mark_deleted_many(error.unprocessed) == [True, False] * 50
    assert shown(deletes) == rows[100:]

    # By deletes these are three calls, of up to 2,000 rows; kept they are one for each row.
    many = [(row, 6) for row in (rows * 10 if not keep else rows)]
    lose("checkAndMutate" if keep else "deleteMultiple", [1])
    with pytest.raises(BatchError) as caught:
        deletes.restore_many(many)
    done = 1 if keep else 2_000
    assert caught.value.unprocessed == tuple(many[done:])
    assert caught.value.doubtful == tuple(many[done : 2 * done])
    assert caught.value.answers == dict.fromkeys(many[:done], True)
    assert deletes.restore_many(caught.value.unprocessed) == [True] * (len(many) - done)
    assert shown(deletes) == rows


def test_a_delete_that_the_server_says_it_left_out(lab: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """HBase 2.6.1 fails the call instead; the interface allows this too."""
    deletes = lab().flag()
    receive = TClient._recv

    def partial(self: TClient, api: str) -> Any:
        answer = receive(self, api)
        return [IDL.TDelete(b"b")] if api == "deleteMultiple" else answer

    monkeypatch.setattr(TClient, "_recv", partial)
    with pytest.raises(BatchError, match="did not apply 1 of 2") as caught:
        deletes.restore_many([("a", 5), ("b", 5)])
    assert caught.value.unprocessed == caught.value.doubtful == ((b"a", 5), (b"b", 5))


def test_bad_arguments(lab: Callable[..., Any]) -> None:
    """Told before any I/O, and by a batch before the first of its events is applied."""
    table = lab()
    deletes = table.flag()
    table.context.gateway.close()  # what reaches the server fails otherwise
    for bad, kind, message in (
        (("", 5), InvalidArgumentError, "a row key is empty"),
        ((b"x" * 32_768, 5), InvalidArgumentError, "a row key of 32,768 bytes is too long, HBase takes 32,767"),
        (("\ud800", 5), InvalidArgumentError, "has no UTF-8 form"),
        ((5, 5), TypeError, "a row key must be str or bytes, not int"),
        ((None, 5), TypeError, "a row key must be str or bytes, not NoneType"),
        (("a", True), TypeError, "at must be an int, the time of the event in ms, not bool"),
        (("a", 5.0), TypeError, "not float"),
        (("a", None), TypeError, "not NoneType"),
        (("a", "5"), TypeError, "not str"),
        (("a", -1), InvalidArgumentError, "at is -1, allowed are ms from 0 to 9223372036854775806"),
        (("a", 2**63 - 1), InvalidArgumentError, "at is 9223372036854775807"),
        (("a", 2**64), InvalidArgumentError, "allowed are ms from 0"),
    ):
        for verb in (deletes.mark_deleted, deletes.restore):
            with pytest.raises(kind, match=message):
                verb(*bad)
        for verb in (deletes.mark_deleted_many, deletes.restore_many):
            with pytest.raises(kind, match=message):
                verb([("fine", 5), bad])
    for event in (("a", 1, 2), ("a",), "ab", None):
        with pytest.raises(TypeError, match="an event must be a pair of row and time, not "):
            deletes.mark_deleted_many([("fine", 5), event])
    assert deletes.mark_deleted_many([]) == deletes.restore_many(iter([])) == [], "R7"
    with pytest.raises(StoreError, match="closed"):
        deletes.mark_deleted("fine", 5)


@given(st.integers().filter(lambda at: not 0 <= at < 2**63 - 1))
def test_every_other_number_is_refused(at: int) -> None:
    from solus_hbase.logical_delete import _time  # noqa: PLC0415  # the check alone: the verbs need a server

    with pytest.raises(InvalidArgumentError, match=f"at is {at}, "):
        _time(at)


def test_what_can_not_be_built(lab: Callable[..., Any]) -> None:
    """All problems of the names at once; then what the table says."""
    table = lab()
    for settings, message in (
        ({"flag": "name"}, "flag and must_exist are both b'name'"),
        ({"flag": b"", "must_exist": ""}, "flag is empty; must_exist is empty; flag and must_exist are both b''"),
        ({"table": ""}, "table is ''"),
        ({"table": "a b"}, "table is 'a b'"),
        ({"table": "a:b:c"}, "table is 'a:b:c'"),
        ({"table": "-x", "flag": ""}, "table is '-x', which can't be the name of one; flag is empty"),
        ({"table": "nobody_made_it"}, "there is no table 'nobody_made_it'"),
        ({"table": "nobody:made_it"}, "there is no table 'nobody:made_it'"),
        ({"family": "c"}, f"table '{table.name}' has no family b'c', only b'd', b'e', b\"it's\""),
        ({"family": ""}, "has no family b''"),
    ):
        arguments = {"table": table.name, "family": "d", "flag": "deleted", "must_exist": "name", **settings}
        with pytest.raises(InvalidConfigError) as caught:
            LogicalDelete(table.context, **arguments)
        assert message in str(caught.value)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(TypeError, match="keep_restores must be a bool, not str"):
        table.flag(keep="no")
    for name in ("table", "family", "flag", "must_exist"):
        arguments = {"table": table.name, "family": "d", "flag": "deleted", "must_exist": "name", name: 5}
        with pytest.raises(TypeError, match=f"{name} must be str"):
            LogicalDelete(table.context, **arguments)


def test_a_table_in_a_namespace(lab: Callable[..., Any]) -> None:
    """The context's, unless the name says another."""
    table = lab(namespace="default")
    table.create_rows(b"a")
    assert shown(table.flag()) == [b"a"]
    elsewhere = HBaseContext(table.context.gateway, HBaseConfig(hosts="unused", table="unused", namespace="nobody"))
    with pytest.raises(InvalidConfigError, match=f"there is no table 'nobody:{table.name}'"):
        LogicalDelete(elsewhere, table.name, family="d", flag="deleted", must_exist="name")
    LogicalDelete(elsewhere, f"default:{table.name}", family="d", flag="deleted", must_exist="name")


def test_thrift_1(hbase_server: HBaseServer) -> None:
    context = connect(HBaseConfig(hosts=f"{hbase_server.host}:{hbase_server.port(1)}", table="unused"))
    with pytest.raises(InvalidConfigError, match="the gateway is not Thrift 2, which alone can check"):
        LogicalDelete(context, "any", family="d", flag="deleted", must_exist="name")
    context.close()
