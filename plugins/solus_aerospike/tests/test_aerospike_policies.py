"""What the calls ask of the client and the server, whatever their defaults are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import aerospike
import pytest
from aerospike_samples import BOTH, DAY, NOW, deduper, orders, with_farms_known

from solus_aerospike import AerospikeConfig, AerospikeContext, AerospikeDataStore, AerospikeMetaStore
from solus_aerospike.calls import Calls
from solus_aerospike.places import Places
from solus_core.errors import InvalidArgumentError, InvalidConfigError
from solus_core.testing import craft

if TYPE_CHECKING:
    from aerospike_double import Double
    from aerospike_double.wire import Message

READ_ALL_COPIES = 1 << 6
"""In the first of a message's bytes of flags."""

WRITES: dict[str, Any] = {
    "exists": aerospike.POLICY_EXISTS_CREATE_OR_REPLACE,
    "gen": aerospike.POLICY_GEN_EQ,
    "commit_level": aerospike.POLICY_COMMIT_LEVEL_MASTER,
}


@pytest.fixture
def borrowed(
    aerospike_hosts: list[tuple[str, int]], aerospike_namespace: str, aerospike_set: str
) -> Iterator[Callable[..., AerospikeContext]]:
    """``borrowed(farm, **settings)``: a context around a client that its owner made with these settings."""
    clients = []

    def make(farm: str, **settings: Any) -> AerospikeContext:
        clients.append(aerospike.client({"hosts": aerospike_hosts, **settings}))
        config = AerospikeConfig(hosts="unused", namespace=aerospike_namespace, set=aerospike_set, farm=farm)
        return AerospikeContext(clients[-1], config)

    yield make
    for client in clients:
        client.close()


@BOTH
@pytest.mark.parametrize(
    "settings",
    [
        {"policies": {"write": WRITES}},
        {"policies": {"operate": {**WRITES, "max_retries": 3}}},
        {"policies": {"batch_write": WRITES}},
        {"policies": {"batch": {"respond_all_keys": False}, "batch_parent_write": {"respond_all_keys": False}}},
        {"validate_keys": True},
    ],
    ids=["write", "operate", "batch_write", "respond", "validate"],
)
def test_what_the_owner_of_the_client_has_set_changes_nothing(
    borrowed: Callable[..., AerospikeContext], client_id: str, layout: str, settings: dict[str, Any]
) -> None:
    """R2, R4, R15: no write replaces a record, and none depends on its generation but where we say so."""
    plain, of = borrowed("f1"), orders(client_id, layout)
    assert AerospikeMetaStore(plain, client_id).create(of) == of
    context = borrowed("f1", **settings)
    store, meta = AerospikeDataStore(context, client_id), AerospikeMetaStore(context, client_id)
    first, second = (5, (1, 2)), (5, (3, 4))
    store.add(craft(of, first, (6, (1, 2))), NOW, NOW + DAY)
    store.add(craft(of, second, (6, (3, 4))), NOW, NOW + DAY)
    store.add_one(of, 5, (5, 6), NOW, NOW + DAY)
    assert store.add_if_absent(craft(of, (5, (7, 8)), (6, (7, 8))), NOW, NOW + DAY).all()
    assert store.add_if_absent_one(of, 5, (9, 10), NOW, NOW + DAY)
    every = [first, second, (5, (5, 6)), (5, (7, 8)), (5, (9, 10)), (6, (1, 2)), (6, (3, 4)), (6, (7, 8))]
    assert not store.absent(craft(of, *every), NOW).any()
    other = AerospikeMetaStore(borrowed("f2", **settings), client_id)
    other.create(of)
    other.set_active("orders", False, NOW)
    meta.set_active("orders", True, NOW + 1)
    found = meta.get("orders")
    assert found is not None
    assert found.active
    assert [one.name for one in meta.active()] == ["orders"]
    key = (context.config.namespace, f"{client_id}_solus_DEDUPER", f"{client_id}|orders")
    farms = {name.partition("##")[0] for name in plain.client.get(key)[2]}
    assert farms == {"f1", "f2"}


@BOTH
def test_reads_ask_for_all_copies(
    double: Double, opened: Callable[..., AerospikeDataStore], client_id: str, layout: str
) -> None:
    """R2: while a cluster moves its data, the master alone may have missed the newest writes."""
    from aerospike_double.hooks import Rule  # noqa: PLC0415  # its folder is on the path only now

    store, of = opened(), deduper(layout)
    seen: list[tuple[str, bool]] = []

    def watch(kind: str) -> None:
        def note(message: Message) -> bool:
            seen.append((kind, bool(message.info1 & READ_ALL_COPIES)))
            return False

        double.hooks.add(Rule(frozenset((kind,)), times=None, when=note))

    for kind in ("get", "operate", "row"):
        watch(kind)
    meta = AerospikeMetaStore(store._context, client_id)
    meta.get(of.name)
    with_farms_known(store, of)
    store.absent_one(of, 5, (1, 2), NOW)
    store.absent(craft(of, (5, (1, 2)), (6, (1, 2))), NOW)
    assert {kind for kind, _ in seen} == {"get", "operate", "row"}
    assert all(asked for _, asked in seen)


def test_settings_that_overrule_ours_are_refused(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5, R23: what this file says goes before the policies of the calls, also about retries."""
    monkeypatch.setenv("AEROSPIKE_CLIENT_CONFIG_URL", "file:///etc/aerospike/client.yaml")
    config = AerospikeConfig(hosts="unused", namespace="test", set="s")
    with pytest.raises(InvalidConfigError, match=r"AEROSPIKE_CLIENT_CONFIG_URL.*Unset it"):
        AerospikeContext(None, config)  # type: ignore[arg-type]  # it is not looked at


def test_others_take_turns_meanwhile(opened: Callable[..., AerospikeDataStore], client_id: str) -> None:
    """Whichever options fit, two tries find them, though another thread finds the other ones to fit each time."""
    store, of = opened(), orders(client_id, "bins")
    place = Places(store._context, client_id).in_bins(of)
    tried = []

    def fits_longer(options: dict[str, Any]) -> bool:
        tried.append(options)
        place.turn = 1 - place.turn
        if options is not place.options[1]:
            raise aerospike.exception.FilteredOut(27, "")
        return True

    assert Calls(store._context)._in_turn(place, fits_longer)
    assert len(tried) == 2


def test_a_client_id_whose_farms_have_no_set(double: Double, connected: Callable[..., AerospikeContext]) -> None:
    """R17: when the engine opens, wherever its de-dupers are kept."""
    with pytest.raises(InvalidArgumentError, match=r"client_id .* has 50 bytes, allowed are 49"):
        AerospikeDataStore(connected(double.hosts), "c" * 50)


def test_what_is_known_of_names_is_bounded(
    opened: Callable[..., AerospikeDataStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solus_aerospike.data_store._PLACES", 2)
    store = opened()
    for of in (deduper(), deduper(), deduper()):
        store.add_one(of, 5, (1, 2), NOW, NOW + DAY)
        assert not store.absent_one(of, 5, (1, 2), NOW)
    assert len(store._places) == 1
