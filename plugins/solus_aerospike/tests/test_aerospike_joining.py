"""Farms and nodes that share a de-duper: none is forgotten, none undoes another's change (R2, R5, R14, R19)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

from solus_aerospike import AerospikeConfig, AerospikeContext, AerospikeMetaStore
from solus_aerospike.farms import KnownFarms, join, read_members
from solus_aerospike.namespaces import check_namespace
from solus_core.errors import StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level

if TYPE_CHECKING:
    from aerospike_double import Double

NOW = 1_700_000_000_000
OFFERS = DeDuper(name="offers", client_id="any", config=DeDuperConfig(), layout="map", created_at=NOW)
OpenMeta = Callable[..., AerospikeMetaStore]


def known_to(meta: AerospikeMetaStore) -> KnownFarms:
    return KnownFarms(meta._context, meta._client_id, 2**20)


def members(meta: AerospikeMetaStore) -> dict[str, int]:
    return read_members(meta._context, meta._client_id, "offers")


def test_no_farm_is_forgotten(double: Double, open_double: OpenMeta, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2, R5: not even where the namespace gives records a TTL by default; who is forgotten is not looked at."""
    monkeypatch.setattr(double.namespaces["test"], "default_ttl", 100)
    metas = {farm: open_double(farm) for farm in ("dc1", "dc2")}
    for i, meta in enumerate(metas.values()):
        join(meta._context, meta._client_id, OFFERS, NOW + i, 2**20, set())
        double.clock.advance(99)
    double.clock.advance(101)
    assert sorted(members(metas["dc1"])) == ["dc1", "dc2"]
    assert known_to(metas["dc1"]).of(OFFERS, NOW) == ("dc1", "dc2")


def test_farms_of_level_dc_share_no_record(open_double: OpenMeta) -> None:
    """R19: nor its room."""
    of = attrs.evolve(OFFERS, layout="bins", config=DeDuperConfig(bits_per_shard=30_000, level=Level.DC))
    for farm in ("dc1", "dc2"):
        assert open_double(farm).create(of).config == of.config
    assert members(open_double("dc1")) == {}


def test_a_farm_that_joins_undoes_no_change(double: Double, client_id: str) -> None:
    """R14: made active between its read and its write, the de-duper stays so."""
    import aerospike  # noqa: PLC0415  # as in the conftest

    client = aerospike.client({"hosts": double.hosts})
    metas = []
    for farm in ("dc1", "dc2"):
        config = AerospikeConfig(hosts="unused", namespace="test", set="s", farm=farm, timeout=15)
        metas.append(AerospikeMetaStore(AerospikeContext(client, config), client_id))
    metas[0].create(OFFERS)
    metas[0].set_active("offers", active=False, now=NOW + 1)
    gate = double.hooks.hold("put")
    thread = threading.Thread(target=metas[1].create, args=(OFFERS,))
    thread.start()
    assert gate.reached.wait(30)
    metas[0].set_active("offers", active=True, now=NOW + 2)
    gate.release()
    thread.join(30)
    assert [one.name for one in metas[0].active()] == ["offers"]
    client.close()


class Told:
    """A context of which each node tells this about the namespace."""

    def __init__(self, *texts: str | None) -> None:
        self.config = AerospikeConfig(hosts="unused", namespace="test", set="s")
        self.caller = self.client = self
        self.info_policy: dict[str, Any] = {}
        self._nodes = {f"node{i}": (None if text else "lost", text) for i, text in enumerate(texts)}

    def read(self, _: str, call: Callable[[], Any]) -> Any:
        return call()

    def info_all(self, *_: Any) -> Any:
        return self._nodes


def test_the_smallest_record_of_all_nodes_counts() -> None:
    """R8; and R23: a node that tells nothing is an error."""
    texts = [f"namespace/test\tnsup-period=120;max-record-size={size}\n" for size in (9_000, 8_000, 10_000)]
    assert check_namespace(cast("Any", Told(*texts))) == 8_000
    with pytest.raises(StoreError, match="node node1 did not tell about namespace 'test': lost"):
        check_namespace(cast("Any", Told(texts[0], None)))


def test_whoever_of_a_farm_was_first_counts(double: Double, open_double: OpenMeta) -> None:
    """R5: the farm that others wait for goes on, though a second process of it meant to be first as well."""
    late, early = (open_double("dc1") for _ in range(2))
    gate = double.hooks.hold("put")
    thread = threading.Thread(target=join, args=(late._context, late._client_id, OFFERS, NOW + 9, 2**20, set()))
    thread.start()
    assert gate.reached.wait(30)
    join(early._context, early._client_id, OFFERS, NOW, 2**20, set())
    gate.release()
    thread.join(30)
    assert members(early) == {"dc1": 0}
