"""Batches that fail part of the way, on a server that is made up: which rows are in doubt (R8, R23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, final

import pytest

from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_hbase import HBaseConfig, HBaseContext, HBaseDataStore
from solus_hbase.batches import ROWS

NOW = 1_700_000_000_000


@final
class Losing:
    """Holds nothing, and answers no write, or every one."""

    def __init__(self, *, atomic: bool, loses: bool = True) -> None:
        self.atomic = atomic
        self._loses = loses

    def get(self, _: str, __: bytes, wanted: Sequence[Any]) -> list[dict[bytes, Any]]:
        return [{} for _ in wanted]

    def put(self, *_: object) -> None:
        if self._loses:
            raise StoreError(ErrorCode.HBASE_ERROR, "no answer", in_doubt=True) from OSError("cut")

    def check_and_put(self, *_: object) -> bool:
        raise StoreError(ErrorCode.HBASE_ERROR, "no answer", in_doubt=True) from OSError("cut")


@final
class Odd:
    """Holds nothing. After so many reads and so many writes it fails as no gateway should."""

    def __init__(self, *, atomic: bool, reads: int = 100, writes: int = 100) -> None:
        self.atomic = atomic
        self._reads = iter(range(reads))
        self._writes = iter(range(writes))

    def get(self, _: str, __: bytes, wanted: Sequence[Any]) -> list[dict[bytes, Any]]:
        if next(self._reads, None) is None:
            raise ZeroDivisionError("odd")
        return [{} for _ in wanted]

    def put(self, *_: object) -> None:
        if next(self._writes, None) is None:
            raise ZeroDivisionError("odd")

    def check_and_put(self, *_: object) -> bool:
        self.put()
        return True


def opened(monkeypatch: pytest.MonkeyPatch, gateway: Losing | Odd) -> HBaseDataStore:
    monkeypatch.setattr("solus_hbase.data_store.ensure_table", lambda *_: None)
    config = HBaseConfig(hosts="unused", table="unused", pool_size=1)
    return HBaseDataStore(HBaseContext(cast("Any", gateway), config), "doubt")


@pytest.mark.parametrize(
    ("verb", "layout", "atomic", "in_doubt"),
    [
        ("add", "native", True, 3),  # by one call
        ("add", "java", True, 1),  # one after the other
        ("add_if_absent", "native", True, 1),
        ("add_if_absent", "java", True, 1),
        ("add_if_absent", "native", False, 3),
    ],
)
def test_what_was_sent_and_not_answered_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, verb: str, layout: str, atomic: bool, in_doubt: int
) -> None:
    """R8, R23: it may have been added, and nobody may take it for new; what was not sent is not in doubt."""
    store = opened(monkeypatch, Losing(atomic=atomic))
    of = DeDuper(name="orders", client_id="doubt", config=DeDuperConfig(), layout=layout)
    with pytest.raises(StoreBatchError) as caught:
        getattr(store, verb)(craft(of, *((shard, (1, 2)) for shard in range(3))), NOW, NOW + 1_000)
    assert caught.value.doubtful.tolist() == [i < in_doubt for i in range(3)]
    assert not caught.value.done.any()
    assert isinstance(caught.value.__cause__, OSError)


def test_a_later_entity_whose_positions_earlier_ones_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: within one batch too, where they are written together."""
    store = opened(monkeypatch, Losing(atomic=False, loses=False))
    of = DeDuper(name="orders", client_id="doubt", config=DeDuperConfig(), layout="native")
    rows = craft(of, (1, (1, 2)), (1, (2, 3)), (1, (1, 3)), (2, (1, 3)))
    assert store.add_if_absent(rows, NOW, NOW + 1_000).tolist() == [True, True, False, True]


@pytest.mark.parametrize("layout", ["native", "java"])
def test_a_repeat_in_a_batch_is_told_no_however_long_that_took(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """R6: there is no doubt about who added it."""
    store = opened(monkeypatch, Odd(atomic=True))
    of = DeDuper(name="orders", client_id="doubt", config=DeDuperConfig(), layout=layout)
    monkeypatch.setattr("solus_hbase.data_store.monotonic", lambda: 300.0)
    monkeypatch.setattr("solus_hbase.writing.monotonic", lambda: 302.0)
    probes = craft(of, (7, (1, 2)), (7, (2, 1)))
    assert store.add_if_absent(probes, NOW, NOW + 1_000).tolist() == [True, False]


@pytest.mark.parametrize(
    ("verb", "layout", "atomic", "rows", "writes"),
    [
        ("add", "native", True, ROWS + 1, 1),  # one write a chunk
        ("add", "java", True, 3, 2),  # one a row
        ("add_if_absent", "native", True, 3, 2),
        ("add_if_absent", "java", True, 3, 2),
        ("add_if_absent", "native", False, ROWS + 1, 1),
    ],
)
def test_what_was_done_is_told_whatever_a_write_raises(
    monkeypatch: pytest.MonkeyPatch, verb: str, layout: str, atomic: bool, rows: int, writes: int
) -> None:
    """R8, R22, R23: those before it are done, and the last one may be."""
    store = opened(monkeypatch, Odd(atomic=atomic, writes=writes))
    of = DeDuper(name="orders", client_id="doubt", config=DeDuperConfig(), layout=layout)
    with pytest.raises(StoreBatchError, match="the store failed unexpectedly: ZeroDivisionError") as caught:
        getattr(store, verb)(craft(of, *((shard, (1, 2)) for shard in range(rows))), NOW, NOW + 1_000)
    assert caught.value.code is ErrorCode.INTERNAL_ERROR
    assert caught.value.done.tolist() == [True] * (rows - 1) + [False]
    assert caught.value.answers.tolist() == [verb == "add_if_absent"] * (rows - 1) + [False]
    assert caught.value.doubtful.tolist() == [False] * (rows - 1) + [True]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(("verb", "times"), [("absent", (NOW,)), ("add_if_absent", (NOW, NOW + 1_000))])
def test_what_was_done_is_told_whatever_a_read_raises(
    monkeypatch: pytest.MonkeyPatch, verb: str, times: tuple[int, ...]
) -> None:
    """R8, R22: and nothing is in doubt, as nothing was written."""
    store = opened(monkeypatch, Odd(atomic=True, reads=1, writes=ROWS))
    of = DeDuper(name="orders", client_id="doubt", config=DeDuperConfig(), layout="native")
    with pytest.raises(StoreBatchError, match="the store failed unexpectedly: ZeroDivisionError") as caught:
        getattr(store, verb)(craft(of, *((shard, (1, 2)) for shard in range(ROWS + 1))), *times)
    assert caught.value.answers.tolist() == caught.value.done.tolist() == [True] * ROWS + [False]
    assert not caught.value.in_doubt
