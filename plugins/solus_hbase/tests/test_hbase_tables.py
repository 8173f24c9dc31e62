"""Creating tables, on a gateway that is made up: what is slow is waited for, what is refused is not."""

from __future__ import annotations

from typing import Any, cast, final

import pytest

from solus_core.errors import ErrorCode, StoreError
from solus_hbase import HBaseConfig, tables
from solus_hbase.gateway.base import Gateway
from solus_hbase.tables import ensure_table

CONFIG = HBaseConfig(hosts="h", table="t")


@final
class SlowGateway:
    """``there_at`` and ``usable_at``: seconds until the table is there, and can be used; time passes in waiting.

    ``answers``: does it answer while the table isn't there, or not to be used yet? Otherwise no answer comes in time.
    """

    def __init__(self, error: StoreError | None, there_at: float, usable_at: float, *, answers: bool = True) -> None:
        self.now = 0.0
        self._answers = answers
        self._error, self._there_at, self._usable_at = error, there_at, usable_at
        self._created = False

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def families(self, _: str) -> frozenset[bytes] | None:
        if self._created and self.now >= self._there_at:
            return frozenset([b"S"])
        if self._created:
            self._be_slow()
        return None

    def available(self, _: str) -> bool:
        if self.now >= self._usable_at:
            return True
        self._be_slow()
        return False

    def create_table(self, *_: Any) -> None:
        self._created = True
        if self._error is not None:
            raise self._error from OSError("the driver's")

    def _be_slow(self) -> None:
        if not self._answers:
            self.now += 1
            raise StoreError(ErrorCode.HBASE_ERROR, "no answer in time") from TimeoutError()


def failed(in_doubt: bool) -> StoreError:
    return StoreError(ErrorCode.HBASE_ERROR, "create table t: it failed", in_doubt=in_doubt)


def create(monkeypatch: pytest.MonkeyPatch, gateway: SlowGateway) -> None:
    monkeypatch.setattr(tables, "time", gateway)
    ensure_table(cast("Gateway", gateway), CONFIG, "t", b"S")


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(
    ("error", "there_at", "usable_at"),
    [
        (None, 0, 0),
        (None, 0, 50),
        (failed(in_doubt=True), 0, 0),
        (failed(in_doubt=True), 50, 60),
        (failed(in_doubt=False), 0, 50),  # somebody else was first
    ],
)
def test_what_is_slow_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, error: StoreError | None, there_at: float, usable_at: float, answers: bool
) -> None:
    gateway = SlowGateway(error, there_at, usable_at, answers=answers)
    create(monkeypatch, gateway)
    assert gateway.now == pytest.approx(max(there_at, usable_at), abs=0.2)


@pytest.mark.parametrize(("in_doubt", "waited"), [(True, 60), (False, 0)])
def test_waiting_is_bounded(monkeypatch: pytest.MonkeyPatch, in_doubt: bool, waited: float) -> None:
    """R22: and there is none after a refusal; the error is that of the call, with the driver's as cause."""
    gateway = SlowGateway(failed(in_doubt), 1_000, 1_000)
    with pytest.raises(StoreError, match="table 't': create table t: it failed") as caught:
        create(monkeypatch, gateway)
    assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR
    assert isinstance(caught.value.__cause__, OSError)
    assert gateway.now == pytest.approx(waited, abs=0.2)


def test_without_answers_waiting_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """R22"""
    for there_at in (0, 1_000):
        gateway = SlowGateway(failed(in_doubt=True), there_at, 1_000, answers=False)
        with pytest.raises(StoreError, match="table 't': no answer in time") as caught:
            create(monkeypatch, gateway)
        assert caught.value.code is ErrorCode.TABLE_CREATION_ERROR
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert gateway.now == pytest.approx(60, abs=2)


def test_who_does_not_answer_for_another_reason_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = SlowGateway(None, 0, 0)
    gone = StoreError(ErrorCode.HBASE_ERROR, "no Thrift server of HBase can be reached")

    def available(_: str) -> bool:
        gateway.now += 1
        raise gone from ConnectionRefusedError()

    monkeypatch.setattr(gateway, "available", available)
    with pytest.raises(StoreError, match="table 't': no Thrift server"):
        create(monkeypatch, gateway)
    assert gateway.now == 1
