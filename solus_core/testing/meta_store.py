"""The contract of a meta-store, as a test class to subclass."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, final

import attrs
import pytest

from solus_core.errors import DeDuperNotFoundError, SolusError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.stores import MetaStore
from solus_core.testing.data_isolation import UNUSUAL_NAMES
from solus_core.testing.lab import race

OpenMetaStore = Callable[[str], MetaStore]
"""``open_store(client_id)``: one more view on the same state."""

FULL_CONFIG = DeDuperConfig(
    hash_functions=13, shards=150_000_000, bits_per_shard=30_000, level=Level.DC, expiry_seconds=123_456_789
)


@final
class MetaLab:
    """One test's view of the meta-store: a client id that nobody used before, and every view it opened."""

    def __init__(self, open_store: OpenMetaStore, now: int) -> None:
        self.client_id = f"kit-{uuid.uuid4().hex[:12]}"
        self.now = now
        self._open_store = open_store
        self._opened: list[MetaStore] = []

    def open(self, client_id: str | None = None) -> MetaStore:
        store = self._open_store(client_id or self.client_id)
        self._opened.append(store)
        return store

    def close_all(self) -> None:
        while self._opened:
            self._opened.pop().close()

    def deduper(self, name: str = "offers", **changes: Any) -> DeDuper:
        """A record as the engine would hand it to the store."""
        record = DeDuper(
            name=name,
            client_id=self.client_id,
            config=DeDuperConfig(),
            created_at=self.now,
            updated_at=self.now,
        )
        return attrs.evolve(record, **changes)


def everything(deduper: DeDuper | None) -> dict[str, object]:
    """All fields of a record, those included that equality leaves out."""
    assert isinstance(deduper, DeDuper), f"not a record: {deduper!r}"
    return attrs.asdict(deduper)


class MetaStoreContract:
    """All that a :class:`~solus_core.stores.MetaStore` promises. Subclass it and give it one fixture::

        class TestMine(MetaStoreContract):
            @pytest.fixture
            def open_store(self):
                return lambda client_id: MyMetaStore(server, client_id)

    ``open_store(client_id)`` opens one more view on ONE state; the kit closes them. A server may serve all
    tests: each test has a client id of its own.

    ``not_durable``: a reason, if closing the last view loses the records. ``start``: the first ``now``.
    ``layout``: a layout that the store can record. ``racers``: threads of the races.
    """

    not_durable: ClassVar[str] = ""
    start: ClassVar[int] = 1_700_000_000_000
    layout: ClassVar[str] = ""
    racers: ClassVar[int] = 8

    @pytest.fixture
    def open_store(self) -> OpenMetaStore:
        """To be overridden: ``open_store(client_id)`` opens one more view on one state."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture open_store, see MetaStoreContract")

    @pytest.fixture
    def lab(self, open_store: OpenMetaStore) -> Iterator[MetaLab]:
        lab = MetaLab(open_store, self.start)
        yield lab
        lab.close_all()

    @pytest.fixture
    def store(self, lab: MetaLab) -> MetaStore:
        return lab.open()

    def test_unknown_name(self, store: MetaStore) -> None:
        """M1 (R14): a name that nobody registered is None, and none are active."""
        assert store.get("offers") is None
        assert list(store.active()) == []

    def test_create_answers_what_is_stored(self, store: MetaStore, lab: MetaLab) -> None:
        """M2 (R13): create stores the record and answers it, and get answers the same."""
        deduper = lab.deduper(layout=self.layout)
        assert everything(store.create(deduper)) == everything(deduper)
        assert everything(store.get("offers")) == everything(deduper)

    @pytest.mark.parametrize(
        "changes",
        [
            {"config": FULL_CONFIG},
            {"config": DeDuperConfig(level=Level.DC)},
            {"config": DeDuperConfig(expiry_seconds=1)},
            {"config": DeDuperConfig(expiry_seconds=315_360_001)},
            {"hasher": "another-hasher"},
            {"active": False},
            {"planned_keys": 10**15},
            {"created_at": 1_700_000_000_123, "updated_at": 1_700_000_000_456},
        ],
        ids="-".join,
    )
    def test_every_field_is_kept(self, store: MetaStore, lab: MetaLab, changes: dict[str, Any]) -> None:
        """M3 (R12, R13, R18): a record comes back with every field as it was given, from another view too."""
        deduper = lab.deduper(layout=self.layout, **changes)
        assert everything(store.create(deduper)) == everything(deduper)
        assert everything(lab.open().get("offers")) == everything(deduper)

    def test_create_never_overwrites(self, store: MetaStore, lab: MetaLab) -> None:
        """M4 (R13): a second create of a name changes nothing and answers the record that was there."""
        first = lab.deduper()
        second = lab.deduper(config=FULL_CONFIG, hasher="another-hasher", created_at=lab.now + 5)
        store.create(first)
        assert everything(store.create(second)) == everything(first)
        assert everything(lab.open().create(second)) == everything(first)
        assert everything(store.get("offers")) == everything(first)

    def test_create_of_an_inactive_name(self, store: MetaStore, lab: MetaLab) -> None:
        """M5 (R14): an inactive record is there all the same: create answers it, inactive and unchanged."""
        store.create(lab.deduper())
        store.set_active("offers", active=False, now=lab.now + 10)
        answer = store.create(lab.deduper(config=FULL_CONFIG))
        assert answer.config == DeDuperConfig()
        assert not answer.active

    def test_racing_creates_have_one_winner(self, lab: MetaLab) -> None:
        """M6 (R13): of creates that race, one wins, and every racer is answered with the winner's record."""
        views = (lab.open(), lab.open())
        for i in range(10):
            name = f"offers-{i}"
            records = [
                lab.deduper(name, config=DeDuperConfig(shards=1_000_000 + j), created_at=lab.now + j)
                for j in range(self.racers)
            ]
            answers = race(*(partial(views[j % 2].create, records[j]) for j in range(self.racers)))
            stored = everything(views[0].get(name))
            assert stored in [everything(record) for record in records]
            assert [everything(answer) for answer in answers] == [stored] * self.racers, f"round {i}"

    def test_not_found_is_not_remembered(self, store: MetaStore, lab: MetaLab) -> None:
        """M7 (R15): a name that was not found is found as soon as another view registered it."""
        other = lab.open()
        assert store.get("offers") is None
        other.create(lab.deduper())
        assert everything(store.get("offers")) == everything(lab.deduper())
        assert [deduper.name for deduper in store.active()] == ["offers"]

    def test_set_active(self, store: MetaStore, lab: MetaLab) -> None:
        """M8 (R14): a record that is marked inactive is kept, with the time of the change, and comes back."""
        store.create(lab.deduper(config=FULL_CONFIG))
        store.set_active("offers", active=False, now=lab.now + 10)
        expected = lab.deduper(config=FULL_CONFIG, active=False, updated_at=lab.now + 10)
        assert everything(store.get("offers")) == everything(expected)
        assert list(store.active()) == []
        store.set_active("offers", active=True, now=lab.now + 20)
        expected = lab.deduper(config=FULL_CONFIG, updated_at=lab.now + 20)
        assert everything(store.get("offers")) == everything(expected)
        assert list(store.active()) == [expected]

    def test_set_active_is_seen_by_other_views(self, store: MetaStore, lab: MetaLab) -> None:
        """M9 (R15): the meta-store itself remembers nothing: a change is seen by every view at once."""
        other = lab.open()
        store.create(lab.deduper())
        assert everything(other.get("offers"))["active"]
        store.set_active("offers", active=False, now=lab.now + 10)
        assert not everything(other.get("offers"))["active"]
        assert list(other.active()) == []
        other.set_active("offers", active=True, now=lab.now + 20)
        assert everything(store.get("offers"))["active"]

    def test_set_active_twice(self, store: MetaStore, lab: MetaLab) -> None:
        """M10 (R14): marking again what is so already is fine, within one millisecond too."""
        store.create(lab.deduper())
        for active in (False, False, True, True, False):
            store.set_active("offers", active=active, now=lab.now + 10)
            assert everything(store.get("offers"))["active"] is active

    @pytest.mark.parametrize("active", [True, False])
    def test_set_active_of_an_unknown_name(self, store: MetaStore, lab: MetaLab, active: bool) -> None:
        """M11 (R14): a name that was never registered can't be marked, and isn't made by trying."""
        with pytest.raises(DeDuperNotFoundError, match="offers"):
            store.set_active("offers", active=active, now=lab.now)
        assert store.get("offers") is None
        assert list(store.active()) == []

    def test_active_lists_all(self, store: MetaStore, lab: MetaLab) -> None:
        """M12 (R16): active answers every active record, whole, and no inactive one."""
        records = [lab.deduper(f"d-{i}", config=DeDuperConfig(shards=1_000_000 + i)) for i in range(60)]
        for record in records:
            store.create(record)
        for record in records[::3]:
            store.set_active(record.name, active=False, now=lab.now + 1)
        found = sorted(store.active(), key=lambda deduper: deduper.config.shards)
        assert found == [record for i, record in enumerate(records) if i % 3]

    def test_unusual_names(self, store: MetaStore, lab: MetaLab) -> None:
        """M13 (R17): names that look alike, or odd, or are 255 bytes long, are names of their own."""
        records = [
            lab.deduper(name, config=DeDuperConfig(shards=1_000_000 + i)) for i, name in enumerate(UNUSUAL_NAMES)
        ]
        for record in records:
            assert store.get(record.name) is None, f"{record.name!r} is taken by another"
            assert store.create(record) == record
        for record in records:
            assert store.get(record.name) == record
        assert sorted(store.active(), key=lambda deduper: deduper.config.shards) == records
        store.set_active(UNUSUAL_NAMES[0], active=False, now=lab.now)
        assert len(list(store.active())) == len(records) - 1

    def test_client_ids_are_apart(self, store: MetaStore, lab: MetaLab) -> None:
        """M14 (R17): each client id has records of its own, also where one id begins with the other."""
        other_id = f"{lab.client_id}x"
        other = lab.open(other_id)
        store.create(lab.deduper())
        assert other.get("offers") is None
        assert list(other.active()) == []
        theirs = lab.deduper(config=FULL_CONFIG, client_id=other_id)
        assert everything(other.create(theirs)) == everything(theirs)
        other.set_active("offers", active=False, now=lab.now + 1)
        assert everything(store.get("offers")) == everything(lab.deduper())
        assert list(store.active()) == [lab.deduper()]

    def test_opening_again_keeps_the_records(self, store: MetaStore, lab: MetaLab) -> None:
        """M15 (R13, R14): records outlive the view that made them, inactive ones too."""
        if self.not_durable:
            pytest.skip(self.not_durable)
        store.create(lab.deduper())
        store.create(lab.deduper("old", config=FULL_CONFIG))
        store.set_active("old", active=False, now=lab.now + 1)
        lab.close_all()
        again = lab.open()
        assert list(again.active()) == [lab.deduper()]
        assert again.get("old") == lab.deduper("old", config=FULL_CONFIG, active=False)

    def test_closed_store_gives_no_answer(self, store: MetaStore, lab: MetaLab) -> None:
        """M16 (R22, R23): after close every verb raises a SolusError; closing again does nothing."""
        other = lab.open()
        store.create(lab.deduper())
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get("offers"),
            lambda: store.create(lab.deduper("another")),
            lambda: store.set_active("offers", active=False, now=lab.now),
            lambda: list(store.active()),
        ]
        for call in calls:
            with pytest.raises(SolusError) as caught:
                call()
            assert not isinstance(caught.value, DeDuperNotFoundError)
        assert everything(other.get("offers"))["active"]
