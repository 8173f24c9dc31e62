"""De-dupers in the meta set: the contract kit, farms that share a record, and what others wrote."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from aerospike_samples import java

from solus_aerospike import AerospikeConfig, AerospikeContext, AerospikeMetaStore
from solus_core.errors import ConfigMismatchError, ErrorCode, InvalidArgumentError, InvalidConfigError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stores import MetaStore
from solus_core.testing import MetaStoreContract
from solus_core.testing.meta_store import MetaLab

if TYPE_CHECKING:
    from aerospike_double import Double

NOW = 1_700_000_000_000
OFFERS = DeDuper(name="offers", client_id="any", config=DeDuperConfig(), created_at=NOW, updated_at=NOW)


class Meta(MetaStoreContract):
    layout = "map"

    @pytest.fixture
    def open_store(self, aerospike_client: Any, aerospike_namespace: str) -> Callable[[str], MetaStore]:
        config = AerospikeConfig(hosts="unused", namespace=aerospike_namespace, set="unused", farm="dc1")
        return lambda client_id: AerospikeMetaStore(AerospikeContext(aerospike_client, config), client_id)


class TestMap(Meta):
    pass


class TestBins(Meta):
    """Every record in Java's bins."""

    layout = "bins"

    @pytest.fixture
    def lab(self, open_store: Callable[[str], MetaStore]) -> Iterator[MetaLab]:
        lab = MetaLab(open_store, self.start)
        lab.deduper = partial(lab.deduper, layout="bins")  # type: ignore[method-assign]  # the kit leaves it empty
        yield lab
        lab.close_all()


OpenMeta = Callable[..., AerospikeMetaStore]


@pytest.fixture
def open_meta(aerospike_client: Any, aerospike_namespace: str, client_id: str) -> OpenMeta:
    """``open_meta(farm)``: the view that one farm has."""

    def open_meta(farm: str, client: Any = aerospike_client, **settings: Any) -> AerospikeMetaStore:
        config = AerospikeConfig(hosts="unused", namespace=aerospike_namespace, set="s", farm=farm, **settings)
        return AerospikeMetaStore(AerospikeContext(client, config), client_id)

    return open_meta


@pytest.fixture
def key(aerospike_namespace: str, client_id: str) -> tuple[str, str, str]:
    """Of the record of the de-duper ``offers``, as Java has it."""
    return aerospike_namespace, f"{client_id}_solus_DEDUPER", f"{client_id}|offers"


def never_expires(meta: dict[str, int]) -> bool:
    return meta["ttl"] == 2**32 - 1


@pytest.mark.parametrize("layout", ["map", "bins"])
def test_a_farm_that_registers_joins(
    open_meta: OpenMeta, aerospike_client: Any, key: tuple[str, str, str], layout: str
) -> None:
    """R13: it changes nothing else, whatever it would have registered."""
    first = attrs.evolve(OFFERS, layout=layout, client_id=key[2].split("|")[0])
    assert open_meta("dc1").create(first) == first
    other = attrs.evolve(first, hasher="murmur3-double", planned_keys=7, layout="", created_at=NOW + 5)
    for farm in ("dc2", "dc3", "dc2"):
        answer = open_meta(farm).create(other)
        assert attrs.asdict(answer) == attrs.asdict(first)
    _, meta, bins = aerospike_client.get(key)
    assert never_expires(meta)
    assert sorted(bins if layout == "map" else {name.split("##")[0] for name in bins}) == ["dc1", "dc2", "dc3"]


def test_a_layout_that_is_asked_for_is_had_or_refused(
    open_meta: OpenMeta, aerospike_client: Any, key: tuple[str, str, str]
) -> None:
    """R13: whoever names a layout relies on it; others take what is recorded. Java's records are bins."""
    aerospike_client.put(key, java("dc1"))
    assert open_meta("dc1", layout="bins").create(attrs.evolve(OFFERS, layout="bins")).layout == "bins"
    assert open_meta("dc1").create(attrs.evolve(OFFERS, layout="map")).layout == "bins"
    with pytest.raises(ConfigMismatchError, match="layout: registered bins, requested map"):
        open_meta("dc2", layout="map").create(attrs.evolve(OFFERS, layout="map"))
    assert "dc2##farm" not in aerospike_client.get(key)[2]


def test_bins_are_those_of_java(open_meta: OpenMeta, aerospike_client: Any, key: tuple[str, str, str]) -> None:
    """Read with the bare client: value by value and type by type, in a record that never expires."""
    config = DeDuperConfig(hash_functions=9, shards=2_000_000, bits_per_shard=3_000)
    open_meta("dc1").create(attrs.evolve(OFFERS, config=config, layout="bins"))
    _, meta, bins = aerospike_client.get(key)
    wanted = java("dc1")
    assert {name: bins[name] for name in wanted} == wanted
    assert {name: type(bins[name]) for name in wanted} == {name: type(value) for name, value in wanted.items()}
    assert never_expires(meta)
    found = aerospike_client.query(*key[:2]).results({"total_timeout": 10_000})
    assert [record_key[2] for record_key, _, _ in found] == [key[2]]


def test_what_java_registered(open_meta: OpenMeta, aerospike_client: Any, key: tuple[str, str, str]) -> None:
    """R14, R18: found, listed, joined and marked; Java's farms stay as they are but for being active."""
    aerospike_client.put(key, java("dc1") | java("dc2", updated=NOW + 7))
    meta = open_meta("dc3")
    stored = meta.get("offers")
    assert stored is not None
    assert (stored.config.bits_per_shard, stored.hasher, stored.layout) == (3_000, "murmur3-md5", "bins")
    assert (stored.active, stored.updated_at) == (True, NOW + 7)
    assert list(meta.active()) == [stored]
    assert meta.create(OFFERS) == stored
    meta.set_active("offers", active=False, now=NOW + 9)
    assert meta.get("offers") == attrs.evolve(stored, active=False)
    assert list(meta.active()) == []
    _, _, bins = aerospike_client.get(key)
    assert {name: value for name, value in bins.items() if not name.startswith("dc3")} == java("dc1") | java(
        "dc2", updated=NOW + 7
    )


def test_active_again_everywhere(open_meta: OpenMeta, aerospike_client: Any, key: tuple[str, str, str]) -> None:
    """R14: one farm that is inactive would keep all of them inactive."""
    # Of dc4 it is not known whether it is active: that farm's bins stay as they are.
    silent = {name: value for name, value in java("dc4").items() if name != "dc4##active"}
    aerospike_client.put(key, java("dc1", active=False) | java("dc2") | silent)
    meta = open_meta("dc3")
    assert list(meta.active()) == []
    meta.set_active("offers", active=True, now=NOW + 9)
    assert [deduper.updated_at for deduper in meta.active()] == [NOW + 9]
    _, record_meta, bins = aerospike_client.get(key)
    assert (bins["dc1##active"], bins["dc1##updated"], bins["dc3##active"]) == (True, NOW, True)
    assert "dc4##active" not in bins
    assert never_expires(record_meta)


@pytest.mark.parametrize("layout", ["map", "bins"])
def test_a_farm_writes_its_own_bins(double: Double, open_double: OpenMeta, layout: str) -> None:
    """What another farm writes meanwhile on a cluster of its own, and sends here, is not undone."""
    from aerospike_double import Rule  # noqa: PLC0415  # as in the conftest

    for farm in ("dc1", "dc2", "dc3"):
        open_double(farm).create(attrs.evolve(OFFERS, layout=layout))
    written: list[set[str]] = []

    def note(message: Any) -> bool:
        written.append({op.name.decode().partition("##")[0] for op in message.ops})
        return False

    double.hooks.add(Rule(frozenset({"put"}), when=note))
    open_double("dc4").create(OFFERS)
    open_double("dc4").create(OFFERS)  # is no change any more
    open_double("dc2").set_active("offers", active=False, now=NOW + 1)
    open_double("dc3").set_active("offers", active=False, now=NOW + 1)
    open_double("dc1").set_active("offers", active=True, now=NOW + 2)
    assert written == [{"dc4"}, {"dc2"}, {"dc3"}, {"dc1", "dc2", "dc3"}]


@pytest.mark.parametrize("size", range(1, 21))
def test_farms_of_every_length(open_meta: OpenMeta, client_id: str, size: int) -> None:
    """Row 5 of the cases: up to 15 bytes a farm shares what is in maps, up to 6 what is in bins (R17)."""
    farm = "abcdefghijklmnopqrst"[:size]
    open_meta("dc1").create(OFFERS)
    open_meta("dc1").create(attrs.evolve(OFFERS, name="bins", layout="bins"))
    if size > 15:
        with pytest.raises(InvalidConfigError, match=f"has {size} bytes, allowed are 15"):
            open_meta(farm)
        return
    meta = open_meta(farm)
    assert meta.create(OFFERS).layout == ""
    meta.set_active("offers", active=False, now=NOW + 1)
    if size <= 6:
        assert meta.create(attrs.evolve(OFFERS, name="bins")).layout == "bins"
        return
    said = f"farm is '{farm}', which has {size} bytes, allowed are 6 in the layout bins; give farm=, the farm"
    for change in (
        lambda: meta.create(attrs.evolve(OFFERS, name="bins")),
        lambda: meta.set_active("bins", active=False, now=NOW + 1),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            change()
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert meta.get("bins") == attrs.evolve(OFFERS, name="bins", layout="bins", client_id=client_id)


def test_a_client_id_that_is_too_long(aerospike_client: Any, aerospike_namespace: str) -> None:
    """R17: a set's name has 63 bytes at most."""
    context = AerospikeContext(aerospike_client, AerospikeConfig(hosts="h", namespace=aerospike_namespace, set="s"))
    client_id = f"{uuid.uuid4().hex}-{'x' * 16}"
    longest = AerospikeMetaStore(context, client_id)
    assert longest.create(attrs.evolve(OFFERS, client_id=client_id)) == longest.get("offers")
    assert len(list(longest.active())) == 1
    with pytest.raises(InvalidArgumentError, match="has 50 bytes, allowed are 49"):
        AerospikeMetaStore(context, f"{client_id}x")


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
@pytest.mark.parametrize("applied", [False, True])
def test_a_write_without_an_answer(double: Double, open_double: OpenMeta, applied: bool, silent: bool) -> None:
    """R23: it is sent again, and what is stored is read afterwards: no guess is made."""
    meta = open_double()
    double.hooks.lose("put", applied=applied, silent=silent)
    assert meta.create(OFFERS) == attrs.evolve(OFFERS, client_id=meta._client_id)
    double.hooks.lose("put", applied=applied, silent=silent)
    meta.set_active("offers", active=False, now=NOW + 1)
    stored = meta.get("offers")
    assert stored is not None
    assert (stored.active, stored.updated_at) == (False, NOW + 1)


@pytest.mark.parametrize("verb", ["get", "create", "set_active", "active"])
def test_a_server_that_fails(double: Double, open_double: OpenMeta, verb: str) -> None:
    """R22, R23: the driver's error is the cause, and curable ones are tried again."""
    meta = open_double()
    meta.create(OFFERS)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: meta.get("offers"),
        "create": lambda: meta.create(attrs.evolve(OFFERS, name="more")),
        "set_active": lambda: meta.set_active("offers", active=False, now=NOW),
        "active": lambda: list(meta.active()),
    }
    double.hooks.fail(9, times=2)
    calls[verb]()
    double.hooks.fail(9, times=None)
    with pytest.raises(StoreError, match=r"TimeoutError \(9\)") as caught:
        calls[verb]()
    assert caught.value.code is ErrorCode.AEROSPIKE_ERROR
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("verb", ["create", "set_active"])
def test_others_come_between_for_ever(double: Double, open_double: OpenMeta, verb: str) -> None:
    meta = open_double()
    meta.create(OFFERS)
    double.hooks.fail(3, "put", times=None)
    joining = open_double("dc2")
    change = partial(joining.create, OFFERS) if verb == "create" else partial(meta.set_active, "offers", False, NOW)
    with pytest.raises(StoreError, match="changed by others 100 times"):
        change()


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        ("nothere", "namespace 'nothere' is not there on node .*: use one that is \\(nottl, test\\), or add it"),
        ("nottl", "namespace 'nottl' refuses records with a TTL on node .*: set nsup-period to more than 0"),
    ],
)
def test_a_namespace_that_can_not_be_used(open_double: OpenMeta, namespace: str, said: str) -> None:
    """R10, R17: said at open, with the remedy."""
    with pytest.raises(StoreError, match=said) as caught:
        open_double(namespace=namespace)
    assert caught.value.code is ErrorCode.AEROSPIKE_ERROR


def test_ttls_without_nsup_are_enough(double: Double, open_double: OpenMeta) -> None:
    namespace = double.namespaces["nottl"]
    namespace.allow_ttl_without_nsup = True
    try:
        assert open_double(namespace="nottl").create(OFFERS).name == "offers"
    finally:
        namespace.allow_ttl_without_nsup = False
