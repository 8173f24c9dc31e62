"""Which farms are looked at, who joins them, and from when on one that joined may add (R2, R5, R19)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from aerospike_samples import BOTH, DAY, NOW, orders

from solus_aerospike import AerospikeContext, AerospikeMetaStore
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.farms import GRACE, REFRESH, KnownFarms, join, read_members
from solus_core.errors import ConfigMismatchError, ErrorCode, StoreBatchError, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.testing import craft
from solus_core.testing.lab import race

if TYPE_CHECKING:
    from aerospike_double import Double

ROW = (5, (3, 1, 2))
END = NOW + DAY
Contexts = Callable[..., AerospikeContext]


@pytest.fixture
def contexts(connected: Contexts) -> Contexts:
    """``contexts(farm)``: on the server of these tests, real or not."""
    made: dict[str, AerospikeContext] = {}

    def of(farm: str) -> AerospikeContext:
        if farm not in made:
            made[farm] = connected(farm=farm)
        return made[farm]

    return of


@pytest.fixture
def faulty(double: Double, connected: Contexts) -> Contexts:
    """``faulty(farm)``: on the double."""
    return lambda farm, **settings: connected(double.hosts, farm=farm, backoff=0.001, **settings)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """By which the time within a call runs, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr("solus_aerospike.farms.monotonic", lambda: seconds[0])
    return seconds


def known_farms(context: AerospikeContext, client_id: str) -> KnownFarms:
    return KnownFarms(context, client_id, 2**20)


def test_farms_that_race_to_register_all_join(contexts: Contexts, client_id: str) -> None:
    """R13: none is lost, and none undoes what another does meanwhile."""
    farms = [f"dc{i}" for i in range(8)]
    for name in ("one", "two", "three"):
        of = attrs.evolve(orders(client_id, "map"), name=name)
        records = [attrs.evolve(of, created_at=i) for i in range(len(farms))]
        views = [AerospikeMetaStore(contexts(farm), client_id) for farm in farms]
        answers = race(*(partial(view.create, record) for view, record in zip(views, records, strict=True)))
        assert len({answer.created_at for answer in answers}) == 1
        assert known_farms(contexts("dc0"), client_id).of(of, NOW) == tuple(farms)


def test_of_farms_that_race_to_join_one_is_first(contexts: Contexts, client_id: str) -> None:
    """R5: it alone need not wait before it adds; two would not look at each other's data."""
    farms = [f"dc{i}" for i in range(8)]
    for name in ("offers", "orders", "coupons"):
        of = attrs.evolve(orders(client_id, "map"), name=name)
        race(*(partial(join, contexts(farm), client_id, of, NOW, 2**20, set()) for farm in farms))
        joined = read_members(contexts("dc0"), client_id, name)
        assert sorted(joined) == farms
        assert [at for at in joined.values() if not NOW <= at < NOW + GRACE] == [0]


def test_known_farms(contexts: Contexts, client_id: str) -> None:
    """R19: ours first; the others once they are read again, which is after five seconds or when a clock went back."""
    of, known = orders(client_id, "map"), known_farms(contexts("dc2"), client_id)
    assert known.of(of, NOW) == ("dc2",)
    AerospikeMetaStore(contexts("dc1"), client_id).create(of)
    assert known.of(of, NOW) == ("dc2", "dc1"), (
        "the first farm of all adds at once: that there is none is not remembered"
    )
    AerospikeMetaStore(contexts("dc3"), client_id).create(of)
    assert known.of(of, NOW + REFRESH - 1) == ("dc2", "dc1")
    assert known.of(of, NOW + REFRESH) == ("dc2", "dc1", "dc3")
    AerospikeMetaStore(contexts("dc4"), client_id).create(of)
    assert known.of(of, NOW + REFRESH + 1) == ("dc2", "dc1", "dc3")
    assert known.of(of, NOW + REFRESH - 1) == ("dc2", "dc1", "dc3", "dc4")


def test_of_level_dc_they_are_not_asked_for(double: Double, faulty: Contexts, client_id: str) -> None:
    """R19: at level DC there is one farm."""
    known, of = known_farms(faulty("dc2"), client_id), orders(client_id, "map")
    double.hooks.reset_counts()
    level_dc = attrs.evolve(of, config=DeDuperConfig(level=Level.DC))
    assert known.of(level_dc, NOW) == known.to_add(level_dc, NOW) == ("dc2",)
    assert double.hooks.round_trips == 0
    known.to_add(of, NOW)
    double.hooks.reset_counts()
    for later in (0, REFRESH, REFRESH + 1):
        known.of(of, NOW + later)
    assert double.hooks.counts["get"] == double.hooks.round_trips == 2  # what is registered, and who joined


def test_they_are_remembered_for_so_many_names_only(double: Double, faulty: Contexts, client_id: str) -> None:
    known, of = known_farms(faulty("dc2"), client_id), orders(client_id, "map")
    for i in range(4_100):
        known.to_add(attrs.evolve(of, name=str(i)), NOW)
    assert len(known._known) <= 4_096
    double.hooks.reset_counts()
    known.of(attrs.evolve(of, name="4099"), NOW)
    assert double.hooks.counts["get"] == 0


@BOTH
def test_one_that_joins_adds_when_others_look_for_it(contexts: Contexts, client_id: str, layout: str) -> None:
    """R2, R5, R19: however a farm comes to take part, nothing that it adds is reported absent by another."""
    stores = {farm: AerospikeDataStore(contexts(farm), client_id) for farm in ("dc1", "dc2")}
    for registers in ((), ("dc1",), ("dc1", "dc2")):
        of = attrs.evolve(orders(client_id, layout), name=f"by-{len(registers)}", created_at=NOW)
        for farm in registers[:1]:
            AerospikeMetaStore(contexts(farm), client_id).create(of)
        assert stores["dc1"].add_if_absent_one(of, 7, (1, 2), NOW, END), "the first needn't wait"
        for farm in registers[1:]:
            AerospikeMetaStore(contexts(farm), client_id).create(of)
        adds: list[Callable[[int], object]] = [
            lambda now, of=of: stores["dc2"].add_if_absent_one(of, *ROW, now, END),  # type: ignore[misc]  # its default
            lambda now, of=of: stores["dc2"].add_one(of, *ROW, now, END),  # type: ignore[misc]  # as above
            lambda now, of=of: stores["dc2"].add(craft(of, ROW), now, END),  # type: ignore[misc]  # as above
            lambda now, of=of: stores["dc2"].add_if_absent(craft(of, ROW), now, END),  # type: ignore[misc]  # as above
            lambda now, of=of: stores["dc2"].add(craft(of), now, END),  # type: ignore[misc]  # as above
        ]
        for add in adds:
            with pytest.raises(
                (StoreError, StoreBatchError), match=r"'dc2' has just joined .*, in 60 s: .* dc1 may not"
            ):
                add(NOW)
            with pytest.raises((StoreError, StoreBatchError), match="in 1 s"):
                add(NOW + GRACE - 1_000)
        assert not stores["dc2"].absent_one(of, 7, (1, 2), NOW), "looking is free"
        assert stores["dc1"].add_if_absent_one(of, 8, (1, 2), NOW + REFRESH, END), "who was there goes on"
        later = NOW + GRACE + 5_000
        assert adds[0](later)
        adds[-1](later)
        assert not stores["dc1"].add_if_absent_one(of, *ROW, later, END)
        assert not stores["dc1"].absent_one(of, *ROW, later)
    level_dc = orders(client_id, layout, level=Level.DC)
    assert stores["dc1"].add_if_absent_one(level_dc, *ROW, NOW, END)
    assert stores["dc2"].add_if_absent_one(level_dc, *ROW, NOW, END)


@BOTH
def test_who_only_looks_does_not_join(contexts: Contexts, client_id: str, layout: str) -> None:
    """R2: it would take room from others; and it sees what the first farm adds at once."""
    stores, of = (
        {farm: AerospikeDataStore(contexts(farm), client_id) for farm in ("dc1", "dc2")},
        orders(client_id, layout),
    )
    assert stores["dc2"].absent_one(of, *ROW, NOW)
    assert stores["dc1"].add_if_absent_one(of, *ROW, NOW, END)
    assert not stores["dc2"].absent_one(of, *ROW, NOW)
    assert not stores["dc2"].absent(craft(of, ROW), NOW + REFRESH).any()
    assert stores["dc2"].stats(of, NOW + REFRESH).total > 0
    assert read_members(contexts("dc1"), client_id, of.name) == {"dc1": 0}


@pytest.mark.parametrize(
    ("layout", "bits", "says"),
    [
        ("bins", 16_384, "a full shard of 2 farms takes 32,768 bins, where a record has 32,767 at most"),
        ("map", 30_000, "a full shard of 3 farms takes 1,089,200 bytes, where .* max-record-size of 1,048,576"),
    ],
)
def test_one_too_many_for_a_record(faulty: Contexts, client_id: str, layout: str, bits: int, says: str) -> None:
    """A clear error that names the limit, before data are lost: it may look, and those before it go on."""
    of = orders(client_id, layout, bits_per_shard=bits)
    farms = ("dc1", "dc2") if layout == "bins" else ("dc1", "dc2", "dc3")
    stores = [AerospikeDataStore(faulty(farm), client_id) for farm in farms]
    stores[0].add(craft(of), NOW, END)
    for store in stores[1:-1]:
        with pytest.raises(StoreError, match="has just joined"):
            store.add(craft(of), NOW, END)
    for _ in range(2):
        assert stores[-1].absent_one(of, *ROW, NOW)
        with pytest.raises(StoreError, match=says) as caught:
            stores[-1].add_one(of, *ROW, NOW + DAY, NOW + 2 * DAY)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert stores[0].add_if_absent_one(of, *ROW, NOW + DAY, NOW + 2 * DAY)
    with pytest.raises(StoreError, match=says):
        AerospikeMetaStore(faulty(farms[-1]), client_id).create(of)


@pytest.mark.parametrize(
    ("layout", "bits", "farm", "asked", "code"),
    [
        ("bins", 1_000, "eu-central-1", {}, ErrorCode.INVALID_CONFIG),
        ("map", 30_000, "eu-central-1-az", {}, ErrorCode.INVALID_CONFIG),
        ("map", 30_000, "eu-central-1-az", {"bits_per_shard": 1_000}, None),
        ("map", 1_000, "dc2", {"hash_functions": 8}, None),
    ],
)
def test_who_is_refused_has_not_joined(
    contexts: Contexts, client_id: str, layout: str, bits: int, farm: str, asked: dict[str, Any], code: ErrorCode | None
) -> None:
    """R13: others would look into bins of its name, which the server refuses if it is too long."""
    of = orders(client_id, layout, bits_per_shard=bits)
    first, second = (AerospikeMetaStore(contexts(each), client_id) for each in ("dc1", farm))
    first.create(of)
    wanted = attrs.evolve(of, layout="map", config=DeDuperConfig(**{"bits_per_shard": bits, **asked}))
    if code is None:
        assert second.create(wanted) == of, "the caller compares"
    else:
        with pytest.raises(StoreError, match=f"farm '{farm}' can't join .* has {len(farm)} bytes") as caught:
            second.create(wanted)
        assert caught.value.code is code
    assert read_members(contexts("dc1"), client_id, of.name) == {"dc1": 0}
    with pytest.raises((StoreError, ConfigMismatchError)):
        AerospikeDataStore(contexts(farm), client_id).add_one(of, *ROW, NOW, END)


@pytest.mark.parametrize(("layout", "bits"), [("bins", 1_000), ("map", 30_000)])
def test_names_that_no_bin_can_have_are_left_out(contexts: Contexts, client_id: str, layout: str, bits: int) -> None:
    """A farm that an older version let join stops nobody."""
    context, of = contexts("dc1"), orders(client_id, layout, bits_per_shard=bits)
    store = AerospikeDataStore(context, client_id)
    store.add_one(of, *ROW, NOW, END)
    key = (context.config.namespace, context.config.set, f"farms|{client_id}|{of.name}")
    context.client.put(key, {"eu-central-1-az": NOW - DAY, "dc2": NOW - DAY})
    later = NOW + REFRESH
    assert not store.absent_one(of, *ROW, later)
    assert not store.add_if_absent_one(of, *ROW, later, END)
    assert store.add_if_absent_one(of, 6, (1, 2), later, END)
    assert store._farms.of(of, later) == ("dc1", "dc2")


def while_it_hangs(double: Double, kind: str, call: Callable[[], object], meanwhile: Callable[[], object]) -> object:
    """What ``call`` answers or raises, whose first command of this kind is lost after ``meanwhile`` was done."""
    from aerospike_double import Gate, Rule  # noqa: PLC0415  # its folder is on the path only now

    gate, ended = Gate(), list[object]()
    double.hooks.add(Rule(frozenset({kind}), gate=gate, lost="closed"))

    def run() -> None:
        try:
            ended.append(call())
        except (StoreError, StoreBatchError) as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert gate.reached.wait(30)
    meanwhile()
    gate.release()
    thread.join(30)
    return ended[0]


@BOTH
@pytest.mark.parametrize("verb", ["absent_one", "add_if_absent_one", "absent", "add_if_absent"])
def test_a_call_that_outlives_what_was_known(
    double: Double, faulty: Contexts, client_id: str, clock: list[float], layout: str, verb: str
) -> None:
    """R2, R5: whose tries, or chunks, take so long that a farm has joined and added meanwhile."""
    of, (dc1, dc2) = orders(client_id, layout), (AerospikeDataStore(faulty(farm), client_id) for farm in ("dc1", "dc2"))
    dc1.add(craft(of), NOW, END)
    with pytest.raises(StoreError, match="has just joined"):
        dc2.add(craft(of), NOW, END)
    assert dc1._farms.of(of, NOW) == ("dc1",), "it was asked just before"
    rows = craft(of, *((shard, (1, 2)) for shard in range(1_001)))

    def a_minute_passes() -> None:
        clock[0] += 61
        dc2.add(rows.rows(slice(1_000, None)), NOW + 61_000, END)

    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "absent_one": ("operate", lambda: dc1.absent_one(of, 1_000, (1, 2), NOW)),
        "add_if_absent_one": ("operate", lambda: dc1.add_if_absent_one(of, 1_000, (1, 2), NOW, END)),
        "absent": ("batch", lambda: dc1.absent(rows, NOW)[1_000]),
        "add_if_absent": ("batch", lambda: dc1.add_if_absent(rows.rows(slice(1, None)), NOW, END)),
    }
    answer = while_it_hangs(double, *calls[verb], a_minute_passes)
    if verb.startswith("add"):
        assert isinstance(answer, (StoreError, StoreBatchError))
        assert "can't be told" in answer.message
    else:
        assert not answer


def test_the_wait_begins_with_the_try_that_joins(
    double: Double, faulty: Contexts, client_id: str, clock: list[float]
) -> None:
    """R5: not with the call, of which much may be over when the others can see the farm."""
    of = attrs.evolve(orders(client_id, "map"), created_at=NOW)
    metas = {farm: AerospikeMetaStore(faulty(farm), client_id) for farm in ("dc1", "dc2")}
    metas["dc1"].create(of)

    def forty_seconds() -> None:
        clock[0] += 40

    while_it_hangs(double, "operate", lambda: metas["dc2"].create(of), forty_seconds)
    assert read_members(faulty("dc1"), client_id, of.name) == {"dc1": 0, "dc2": NOW + 40_000}


@pytest.mark.parametrize("applied", [False, True])
def test_a_join_that_fails_leaves_no_doubt_about_what_was_to_be_added(
    double: Double, faulty: Contexts, client_id: str, applied: bool
) -> None:
    """R23: none of it was sent."""
    store, of = AerospikeDataStore(faulty("dc1", timeout=0.3), client_id), orders(client_id, "map")
    double.hooks.lose("put", applied=applied, times=None)
    with pytest.raises(StoreError, match="joining 'orders'") as single:
        store.add_if_absent_one(of, *ROW, NOW, END)
    if applied:  # it is found there by who tries again
        assert store.add_if_absent_one(of, *ROW, NOW, END)
        return
    assert not single.value.in_doubt
    with pytest.raises(StoreBatchError) as batch:
        store.add_if_absent(craft(of, ROW), NOW, END)
    assert not batch.value.doubtful.any()
    with pytest.raises(StoreError) as plain:
        store.add(craft(of, ROW), NOW, END)
    assert not plain.value.in_doubt
    double.hooks.clear()
    assert store.add_if_absent_one(of, *ROW, NOW, END)


def test_java_services_are_farms_too(contexts: Contexts, client_id: str) -> None:
    """R19: one that registered and never joined is looked at, and who joins it waits, in its own farm too."""
    of: DeDuper = orders(client_id, "bins")
    for farm in ("dc1", "dc3"):
        AerospikeMetaStore(contexts(farm), client_id).create(of)
    config, client = contexts("dc1").config, contexts("dc1").client
    client.remove((config.namespace, config.set, f"farms|{client_id}|{of.name}"))
    for farm in ("dc2", "dc1"):
        ours = AerospikeDataStore(contexts(farm), client_id)
        with pytest.raises(StoreError, match=rf"'{farm}' has just joined .* dc3 may not"):
            ours.add(craft(of), NOW, END)
        assert sorted(ours._farms.of(of, NOW)) == ["dc1", "dc2", "dc3"]


def test_in_javas_only_farm_nobody_waits(contexts: Contexts, client_id: str) -> None:
    """R19"""
    of: DeDuper = orders(client_id, "bins")
    AerospikeMetaStore(contexts("dc1"), client_id).create(of)
    config, client = contexts("dc1").config, contexts("dc1").client
    client.remove((config.namespace, config.set, f"farms|{client_id}|{of.name}"))
    assert AerospikeDataStore(contexts("dc1"), client_id).add_if_absent_one(of, *ROW, NOW, END)


@BOTH
def test_who_only_switched_it_off_and_on_has_to_join(contexts: Contexts, client_id: str, layout: str) -> None:
    """R5, R14: to record that it is inactive takes no part in adding."""
    of = attrs.evolve(orders(client_id, layout), created_at=NOW)
    metas = {farm: AerospikeMetaStore(contexts(farm), client_id) for farm in ("dc1", "dc2")}
    metas["dc1"].create(of)
    metas["dc2"].set_active(of.name, active=False, now=NOW)
    metas["dc2"].set_active(of.name, active=True, now=NOW)
    with pytest.raises(StoreError, match="'dc2' has just joined"):
        AerospikeDataStore(contexts("dc2"), client_id).add(craft(of), NOW, END)
    metas["dc1"].create(attrs.evolve(of, name="other"))
    metas["dc2"].set_active("other", active=True, now=NOW)
    metas["dc2"].create(attrs.evolve(of, name="other"))
    assert sorted(read_members(contexts("dc1"), client_id, "other")) == ["dc1", "dc2"]


def test_a_batch_looks_into_the_same_farms_for_all_its_rows(
    double: Double, faulty: Contexts, client_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: else those of the first could be older than the wait of a farm, once those of the last have been read."""
    of, store = orders(client_id, "map"), AerospikeDataStore(faulty("dc1"), client_id)
    rows = craft(of, *((shard, (1, 2)) for shard in range(50)))
    double.hooks.reset_counts()
    store.absent(rows, NOW)
    assert double.hooks.round_trips == 3, "also while nobody has joined"
    store.add(craft(of), NOW, END)
    asked = []
    for real in (KnownFarms.of, KnownFarms.to_add):

        def counting(*arguments: Any, real: Any = real) -> tuple[str, ...]:
            asked.append(arguments)
            farms: tuple[str, ...] = real(*arguments)
            return farms

        monkeypatch.setattr(KnownFarms, real.__name__, counting)
    store.absent(rows, NOW)
    store.add_if_absent(rows, NOW, END)
    assert len(asked) == 2
