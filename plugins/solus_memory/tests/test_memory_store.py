"""Stores on one state: what is shared, what is not, and what closing does."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from solus_core.errors import DeDuperNotFoundError, ErrorCode, InvalidConfigError, StoreError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level
from solus_core.stores import DataStore, MetaStore, Probes, SingleProbeStore
from solus_memory import MemoryConfig, MemoryContext, MemoryDataStore, MemoryMetaStore, connect
from solus_memory.sparse import SparseForm

NOW = 1_700_000_000_000
ROW = (5, [1, 2, 3])
Make = Callable[..., DeDuper]
MakeProbes = Callable[..., Probes]


def data(context: MemoryContext, client_id: str = "shop") -> MemoryDataStore:
    return MemoryDataStore(context, client_id)


def test_protocols() -> None:
    context = connect(MemoryConfig())
    store: DataStore = data(context)
    meta: MetaStore = MemoryMetaStore(context, "shop")
    assert isinstance(store, SingleProbeStore)
    assert (store.atomicity, store.layout) == (Atomicity.PROCESS, "")
    meta.close()


def test_verbs(deduper: Make, probes: MakeProbes) -> None:
    store, of = data(connect(MemoryConfig())), deduper()
    batch = probes(of, ROW, (6, [1, 2, 3]))
    assert store.absent(batch, NOW).tolist() == [True, True]
    store.add_one(of, *ROW, NOW, NOW + 10)
    assert store.add_if_absent(batch, NOW, NOW + 20).tolist() == [False, True]
    assert not store.add_if_absent_one(of, 6, [3, 2, 1], NOW, NOW + 20)
    assert store.absent_one(of, *ROW, NOW + 11)
    store.add(batch, NOW, NOW + 30)
    assert not store.absent(batch, NOW + 30).any()
    stats = store.stats(of, NOW)
    assert (stats.live, stats.seen, stats.total) == (6, 10**9, 10**9)
    assert 0 < (stats.stored_bytes or 0) < 10_000
    assert store.stats(of, NOW + 31).live == 0
    assert store.stats(deduper("other"), NOW).live == 0


def test_two_engines_share_nothing_unless_they_name_the_same_store(deduper: Make) -> None:
    """Row 14: the state of one leaked into the other."""
    of = deduper()
    data(connect(MemoryConfig())).add_one(of, *ROW, NOW, NOW + 10)
    assert data(connect(MemoryConfig())).absent_one(of, *ROW, NOW)
    data(connect(MemoryConfig(name="test-a"))).add_one(of, *ROW, NOW, NOW + 10)
    assert data(connect(MemoryConfig(name="test-b"))).absent_one(of, *ROW, NOW)
    assert not data(connect(MemoryConfig(name="test-a"))).absent_one(of, *ROW, NOW)


def test_a_named_store_outlives_all_who_have_it_open(deduper: Make) -> None:
    context = connect(MemoryConfig(name="test-lives"))
    store, meta = data(context), MemoryMetaStore(context, "shop")
    store.add_one(deduper(), *ROW, NOW, NOW + 10)
    meta.create(deduper())
    store.close()
    meta.close()
    context.close()
    del store, meta, context
    gc.collect()
    again = connect(MemoryConfig(name="test-lives"))
    assert not data(again).absent_one(deduper(), *ROW, NOW)
    assert MemoryMetaStore(again, "shop").get("orders") == deduper()


def test_farms_share_xdc_data_and_not_dc_data_r19(deduper: Make) -> None:
    xdc, dc = deduper("x"), deduper("d", level=Level.DC)
    one, two = (data(connect(MemoryConfig(name="test-farms", farm=farm))) for farm in ("f1", "f2"))
    for store_of in (xdc, dc):
        assert one.add_if_absent_one(store_of, *ROW, NOW, NOW + 10)
    assert not two.add_if_absent_one(xdc, *ROW, NOW, NOW + 10)
    assert two.add_if_absent_one(dc, *ROW, NOW, NOW + 10)
    assert not one.add_if_absent_one(dc, *ROW, NOW, NOW + 10)


def test_client_ids_share_nothing(deduper: Make) -> None:
    context = connect(MemoryConfig())
    data(context, "a").add_one(deduper(), *ROW, NOW, NOW + 10)
    assert data(context, "b").absent_one(deduper(), *ROW, NOW)
    MemoryMetaStore(context, "a").create(deduper(client_id="a"))
    assert MemoryMetaStore(context, "b").get("orders") is None
    assert list(MemoryMetaStore(context, "b").active()) == []


def test_data_of_another_config_are_not_misread(deduper: Make) -> None:
    store = data(connect(MemoryConfig()))
    store.add_one(deduper(), *ROW, NOW, NOW + 10)
    other = DeDuper(name="orders", client_id="shop", config=DeDuperConfig(bits_per_shard=2_000))
    for _ in range(2):
        with pytest.raises(StoreError, match="bits_per_shard=1000") as caught:
            store.absent_one(other, *ROW, NOW)
        assert caught.value.code is ErrorCode.DEDUPER_CONFIG_MISMATCH


@pytest.mark.parametrize("what", ["store", "context"])
@pytest.mark.parametrize("name", [None, "test-close"])
def test_closed_stores_raise(deduper: Make, probes: MakeProbes, what: str, name: str | None) -> None:
    context = connect(MemoryConfig(name=name))
    store, of = data(context), deduper()
    meta = MemoryMetaStore(context, "shop")
    meta.create(of)
    store.add_if_absent_one(of, *ROW, NOW, NOW + 10)
    for _ in range(2):
        if what == "store":
            store.close()
            meta.close()
        else:
            context.close()
    batch = probes(of, ROW)
    for verb in (
        lambda: store.absent(batch, NOW),
        lambda: store.add(batch, NOW, NOW + 1),
        lambda: store.add_if_absent(batch, NOW, NOW + 1),
        lambda: store.absent_one(of, *ROW, NOW),
        lambda: store.add_one(of, *ROW, NOW, NOW + 1),
        lambda: store.add_if_absent_one(of, *ROW, NOW, NOW + 1),
        lambda: store.stats(of, NOW),
        store.flush,
        lambda: meta.create(of),
        lambda: meta.get("orders"),
        lambda: meta.set_active("orders", False, NOW),
        meta.active,
    ):
        with pytest.raises(StoreError, match="closed"):
            verb()


def test_closing_one_view_leaves_the_others(deduper: Make) -> None:
    context = connect(MemoryConfig())
    one, two = data(context), data(context)
    one.add_one(deduper(), *ROW, NOW, NOW + 10)
    one.close()
    assert not two.absent_one(deduper(), *ROW, NOW)


def test_a_limit_that_the_smallest_table_exceeds_is_refused_before_registering() -> None:
    store = data(connect(MemoryConfig(max_bytes=100)))
    with pytest.raises(InvalidConfigError, match=r"at least 8,\d\d\d bytes, and max_bytes is 100"):
        store.check_config(DeDuperConfig())
    data(connect(MemoryConfig())).check_config(DeDuperConfig(shards=150_000_000, bits_per_shard=30_000))


def test_a_full_store_says_what_it_needs_and_has(deduper: Make) -> None:
    store, of = data(connect(MemoryConfig(max_bytes=100_000))), deduper()
    rng = np.random.default_rng(1)
    small = Probes(of, rng.integers(0, 10**6, 100), rng.integers(0, 1_000, (100, 7), dtype=np.int32))
    large = Probes(of, rng.integers(0, 10**6, 5_000), rng.integers(0, 1_000, (5_000, 7), dtype=np.int32))
    store.add(small, NOW, NOW + 10)
    with pytest.raises(StoreError, match=r"need a table of \d+,\d+ bytes .* available of the 100,000") as caught:
        store.add(large, NOW, NOW + 10)
    assert caught.value.code is ErrorCode.INTERNAL_ERROR
    assert not store.absent(small, NOW).any()
    assert store.absent(large, NOW).all()


def test_the_memory_of_the_machine_is_the_limit_otherwise(deduper: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solus_memory.state.available_bytes", lambda: 10_000)
    store = data(connect(MemoryConfig()))
    rng = np.random.default_rng(1)
    large = Probes(deduper(), rng.integers(0, 10**6, 50_000), rng.integers(0, 1_000, (50_000, 7), dtype=np.int32))
    with pytest.raises(StoreError, match="10,000 bytes are available in this machine or control group"):
        store.add(large, NOW, NOW + 10)


@pytest.mark.parametrize("verb", ["add", "add_if_absent"])
def test_a_batch_that_runs_out_of_memory_half_way_is_in_doubt_r8_r23(
    deduper: Make, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store, of = data(connect(MemoryConfig())), deduper()
    rng = np.random.default_rng(1)
    batch = Probes(of, rng.integers(0, 10**6, 100), rng.integers(0, 1_000, (100, 7), dtype=np.int32))
    store.add_one(of, *ROW, NOW, NOW + 10)
    insert = SparseForm._insert

    def half(form: SparseForm, flat: np.ndarray, slot: np.ndarray, stamps: np.ndarray) -> None:
        insert(form, flat[:350], slot[:350], stamps[:350])
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(SparseForm, "_insert", half)
        with pytest.raises(StoreError, match="not enough memory") as caught:
            getattr(store, verb)(batch, NOW, NOW + 10)
        assert caught.value.in_doubt

        def no_memory(*_: object) -> None:
            raise MemoryError

        patch.setattr(SparseForm, "read", no_memory)
        with pytest.raises(StoreError, match="not enough memory") as caught:
            store.absent(batch, NOW)
        assert not caught.value.in_doubt  # it writes nothing
    assert store.stats(of, NOW).live > 3


def test_meta_store_r13_r14(deduper: Make) -> None:
    meta = MemoryMetaStore(connect(MemoryConfig()), "shop")
    first = deduper()
    assert meta.create(first) is first
    assert meta.create(DeDuper(name="orders", client_id="shop", config=DeDuperConfig(level=Level.DC))) is first
    assert list(meta.active()) == [first]
    meta.set_active("orders", False, NOW)
    stored = meta.get("orders")
    assert stored is not None
    assert (stored.active, stored.updated_at, stored.config) == (False, NOW, first.config)
    assert list(meta.active()) == []
    with pytest.raises(DeDuperNotFoundError):
        meta.set_active("nothing", True, NOW)
    assert meta.get("nothing") is None
