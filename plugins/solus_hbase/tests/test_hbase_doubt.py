"""Batches that fail part of the way, on a server that is made up: which rows are in doubt (R8, R23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, final

import pytest

from solus_core.errors import ErrorCode, StoreBatchError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_hbase import HBaseConfig, HBaseContext, HBaseDataStore

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


def opened(monkeypatch: pytest.MonkeyPatch, gateway: Losing) -> HBaseDataStore:
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
