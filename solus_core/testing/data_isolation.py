"""What is kept apart (names, client ids, farms of level DC) and what is shared (level XDC)."""

from __future__ import annotations

import unicodedata
from typing import Final

import numpy as np
import pytest

from solus_core.model import DeDuperConfig, Level
from solus_core.stores import DataStore
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.lab import Lab, craft, spread

UNUSUAL_NAMES: Final = (
    "offers",
    "Offers",
    "offers ",
    " offers",
    "offers/2024",
    "offers:2024",
    "offers%2F2024",
    "offers%",
    "offers\\",
    ".offers",
    "..",
    "#ttl",
    "*",
    "a?b&c=d",
    "'\"`;--",
    "1",
    "-1",
    "None",
    "Ünï-ço∂é",
    unicodedata.normalize("NFD", "é"),
    unicodedata.normalize("NFC", "é"),
    "事件",
    "🎉🎉",
    "x" * 255,
    "é" * 127,
)
"""Names that R17 allows and that are easily mixed up, cut or escaped twice."""


class IsolationContract(DataStoreCase):
    """Part of :class:`~solus_core.testing.DataStoreContract`."""

    def test_names_are_apart(self, store: DataStore, lab: Lab) -> None:
        """D50 (R17): what is added to one de-duper is absent in every other, whatever its name looks like."""
        for i, name in enumerate(UNUSUAL_NAMES):
            probes = craft(lab.deduper(store, name), (5, (1, 2, 3)))
            assert store.add_if_absent(probes, lab.now, lab.now + 1_000)[0], f"{name!r} shares data with another"
            for j, other in enumerate(UNUSUAL_NAMES):
                answer = store.absent(craft(lab.deduper(store, other), (5, (1, 2, 3))), lab.now)[0]
                assert answer == (j > i), f"{other!r} after adding to {name!r}"

    def test_names_are_apart_in_batches(self, store: DataStore, lab: Lab) -> None:
        """D51 (R17): two de-dupers filled in turn, in batches, keep their own entities and expiries."""
        one, two = lab.deduper(store), lab.deduper(store)
        store.add(spread(one, 1_000), lab.now, lab.now + 1_000)
        assert store.absent(spread(two, 1_000), lab.now).all()
        store.add(spread(two, 500), lab.now, lab.now + 2_000)
        assert store.absent(spread(one, 1_000), lab.now + 1_001).all()
        assert not store.absent(spread(two, 500), lab.now + 2_000).any()

    def test_client_ids_are_apart(self, store: DataStore, lab: Lab) -> None:
        """D52 (R17): the same de-duper name under another client id is another de-duper."""
        other_id = f"{lab.client_id}x"
        other = lab.open(client_id=other_id)
        ours = craft(lab.deduper(store, "shared-name"), (5, (1, 2, 3)))
        theirs = craft(lab.deduper(other, "shared-name", client_id=other_id), (5, (1, 2, 3)))
        store.add(ours, lab.now, lab.now + 1_000)
        assert other.absent(theirs, lab.now)[0]
        assert other.add_if_absent(theirs, lab.now, lab.now + 2_000)[0]
        assert store.absent(ours, lab.now + 1_001)[0]
        assert not other.absent(theirs, lab.now + 2_000)[0]

    @pytest.mark.parametrize(
        ("id_a", "name_a", "id_b", "name_b"),
        [("1", "2x", "12", "x"), (".a", "b", "", "a.b"), ("_a", "b", "", "a_b"), ("-1", "-1", "", "-1--1")],
    )
    def test_client_and_name_do_not_run_together(
        self, store: DataStore, lab: Lab, id_a: str, name_a: str, id_b: str, name_b: str
    ) -> None:
        """D53 (R17): client ``c1`` with name ``2x`` and client ``c12`` with name ``x`` don't share keys."""
        del store
        client_a, client_b = lab.client_id + id_a, lab.client_id + id_b
        a, b = lab.open(client_id=client_a), lab.open(client_id=client_b)
        a.add(craft(lab.deduper(a, name_a, client_id=client_a), (5, (1, 2, 3))), lab.now, lab.now + 1_000)
        assert b.absent(craft(lab.deduper(b, name_b, client_id=client_b), (5, (1, 2, 3))), lab.now)[0]

    def test_views_share_their_state(self, store: DataStore, lab: Lab) -> None:
        """D54 (R19): what one view adds, another view of the same client sees at once, as do its later TTLs."""
        other = lab.open()
        deduper = lab.deduper(store)
        probes = spread(deduper, 200)
        store.add(probes, lab.now, lab.now + 1_000)
        assert not other.absent(probes, lab.now).any()
        assert not other.add_if_absent(probes, lab.now, lab.now + 9_000).any()
        other.add(probes, lab.now, lab.now + 2_000)
        assert not store.absent(probes, lab.now + 2_000).any()

    def test_xdc_is_shared_by_farms(self, store: DataStore, lab: Lab) -> None:
        """D55 (R19): at level XDC an entity added in one farm is present in every other."""
        other = self._in_farm(lab, "dc2")
        probes = spread(lab.deduper(store), 200)
        assert store.add_if_absent(probes, lab.now, lab.now + 1_000).all()
        assert not other.absent(probes, lab.now).any()
        assert not other.add_if_absent(probes, lab.now, lab.now + 9_000).any()
        other.add(probes.rows(slice(0, 100)), lab.now, lab.now + 2_000)
        other.add(probes.rows(slice(100, 200)), lab.now, lab.now + 10)
        assert np.array_equal(store.absent(probes, lab.now + 1_001), np.arange(200) >= 100)
        assert not store.absent(probes, lab.now + 1_000).any()

    def test_dc_is_apart_by_farm(self, store: DataStore, lab: Lab) -> None:
        """D56 (R19): at level DC the same entity can be added once in each farm, and an XDC one is apart."""
        other = self._in_farm(lab, "dc2")
        config = DeDuperConfig(level=Level.DC)
        here, there = (lab.deduper(view, "by-farm", config=config) for view in (store, other))
        assert store.add_if_absent(spread(here, 200), lab.now, lab.now + 1_000).all()
        assert other.absent(spread(there, 200), lab.now).all()
        assert other.add_if_absent(spread(there, 200), lab.now, lab.now + 2_000).all()
        assert not store.add_if_absent(spread(here, 200), lab.now, lab.now + 1_000).any()
        assert store.absent(spread(here, 200), lab.now + 1_001).all()
        assert not other.absent(spread(there, 200), lab.now + 2_000).any()

    def test_dc_works_like_xdc_within_a_farm(self, store: DataStore, lab: Lab) -> None:
        """D57 (R19): a DC de-duper is shared by the views of its own farm, and answers like any other."""
        other = lab.open()
        probes = spread(lab.deduper(store, config=DeDuperConfig(level=Level.DC)), 200)
        assert store.add_if_absent(probes, lab.now, lab.now + 1_000).all()
        assert not other.absent(probes, lab.now + 1_000).any()
        assert other.absent(probes, lab.now + 1_001).all()

    def _in_farm(self, lab: Lab, farm: str) -> DataStore:
        if self.no_farms:
            pytest.skip(self.no_farms)
        return lab.open(farm=farm)
