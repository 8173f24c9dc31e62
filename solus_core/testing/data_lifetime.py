"""Opening, closing, opening again, and what a store says of itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solus_core.errors import SolusError
from solus_core.model import Atomicity, DeDuperConfig
from solus_core.stores import DataStore, SingleProbeStore
from solus_core.testing.data_base import DataStoreCase
from solus_core.testing.lab import Lab, craft, singles, spread


class LifetimeContract(DataStoreCase):
    """Part of :class:`~solus_core.testing.DataStoreContract`."""

    def test_describes_itself(self, store: DataStore) -> None:
        """D80 (R5, R12): a store declares its atomicity and layout, and can hold the default config."""
        assert isinstance(store.atomicity, Atomicity)
        assert isinstance(store.layout, str)
        store.check_config(DeDuperConfig())

    def test_closed_store_gives_no_answer(self, store: DataStore, lab: Lab) -> None:
        """D81 (R22, R23): after close every verb raises a SolusError: never True, never False."""
        deduper = lab.deduper(store)
        known, new = craft(deduper, (5, (1, 2, 3))), craft(deduper, (5, (4, 5, 6)))
        store.add(known, lab.now, lab.now + 1_000)
        store.close()
        calls: list[Callable[[], object]] = []
        for probes in (known, new):
            calls += [
                lambda probes=probes: store.absent(probes, lab.now),  # type: ignore[misc]  # binds the loop's value
                lambda probes=probes: store.add(probes, lab.now, lab.now + 1),  # type: ignore[misc]  # as above
                lambda probes=probes: store.add_if_absent(probes, lab.now, lab.now + 1),  # type: ignore[misc]  # as above
            ]
        if isinstance(store, SingleProbeStore):
            one = store
            calls += [
                lambda: singles(one, "absent", new, lab.now),
                lambda: singles(one, "add", new, lab.now, lab.now + 1),
                lambda: singles(one, "add_if_absent", new, lab.now, lab.now + 1),
            ]
        calls.append(lambda: store.stats(deduper, lab.now))
        for call in calls:
            with pytest.raises(SolusError):
                call()

    def test_close_is_repeatable(self, store: DataStore) -> None:
        """D82 (R24): closing again does nothing."""
        store.close()
        store.close()

    def test_closing_one_view_leaves_the_others(self, store: DataStore, lab: Lab) -> None:
        """D83 (R24): a view that is closed takes neither the other views nor the data with it."""
        other = lab.open()
        probes = spread(lab.deduper(store), 100)
        store.add(probes, lab.now, lab.now + 1_000)
        store.close()
        assert not other.absent(probes, lab.now).any()
        assert other.add_if_absent(spread(probes.deduper, 100, first=100), lab.now, lab.now + 1_000).all()

    def test_opening_again_keeps_the_data(self, store: DataStore, lab: Lab) -> None:
        """D84 (R2): what was added is still there, with its expiry, when the store is closed and opened again."""
        if self.not_durable:
            pytest.skip(self.not_durable)
        deduper, other = lab.deduper(store), lab.deduper(store)
        probes = spread(deduper, 300)
        negative = craft(deduper, (-5, (-1, 2, -3)))
        store.add(probes.rows(slice(0, 100)), lab.now, lab.now + 1_000)
        store.add_if_absent(probes.rows(slice(100, 200)), lab.now, lab.now + 2_000)
        store.add(negative, lab.now, lab.now + 2_000)
        store.add(spread(other, 10, first=500), lab.now, lab.now + 2_000)
        if isinstance(store, SingleProbeStore):
            singles(store, "add", craft(other, (3, (1, 2, 3))), lab.now, lab.now + 2_000)
        else:
            store.add(craft(other, (3, (1, 2, 3))), lab.now, lab.now + 2_000)
        lab.close_all()

        again = lab.open()
        row = np.arange(300)
        assert np.array_equal(again.absent(probes, lab.now + 1_000), row >= 200)
        assert np.array_equal(again.absent(probes, lab.now + 1_001), (row < 100) | (row >= 200))
        assert again.absent(probes, lab.now + 2_001).all()
        assert not again.absent(negative, lab.now + 2_000)[0]
        assert not again.absent(spread(other, 10, first=500), lab.now + 2_000).any()
        assert not again.absent(craft(other, (3, (1, 2, 3))), lab.now + 2_000)[0]
        assert again.absent(spread(deduper, 10, first=500), lab.now).all()
