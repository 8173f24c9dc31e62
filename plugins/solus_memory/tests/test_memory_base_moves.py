"""Moves of the table's base that fail, for want of memory or by an interrupt: marks keep their time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from solus_core.model import DeDuperConfig
from solus_memory.dense import DenseForm
from solus_memory.numpy_table import NumpyTable

NOW = 1_700_000_000_000
DAY = 86_400_000


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_a_mark_is_not_shortened(
    tiny: Callable[..., DeDuperConfig], monkeypatch: pytest.MonkeyPatch, form: str, error: type[BaseException]
) -> None:
    """R2, R4: nor by another entity that is added later with a shorter TTL, and shares positions with it."""
    table = NumpyTable(tiny(100, 1_000), NOW, lambda _needed, _held: None)
    if form == "dense":
        table._form = DenseForm(table._total, table._form.base)
    now = NOW + 39 * DAY // 2
    assert table.add_if_absent_one(1, [1, 2, 3], now, now + 10 * DAY)
    now += DAY // 2

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(DenseForm, "move_base", fail)
        patch.setattr(table, "_rebuild", fail)
        for _ in range(3):
            with pytest.raises(error):
                table.add_if_absent_one(2, [4, 5, 6], now, now + 10 * DAY)
    if form == "sparse":
        table._rebuild(table._total, 1)  # as it does once many positions are set
    assert isinstance(table._form, DenseForm)
    assert table.add_if_absent_one(1, [1, 2, 9], now, now + 1_000)
    assert not table.absent_one(1, [1, 2, 3], now + 2_000)
