"""The fixtures and settings that all parts of the data store contract use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from solus_core.stores import DataStore
from solus_core.testing.lab import Lab, OpenStore


class DataStoreCase:
    """See :class:`~solus_core.testing.DataStoreContract`, which says what each of these is."""

    no_farms: ClassVar[str] = ""
    not_durable: ClassVar[str] = ""
    start: ClassVar[int] = 1_700_000_000_000
    examples: ClassVar[int] = 60
    steps: ClassVar[int] = 25
    big_batch: ClassVar[int] = 20_000
    racers: ClassVar[int] = 8

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """To be overridden: ``open_store(client_id, farm)`` opens one more view on one state."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture open_store, see DataStoreContract")

    @pytest.fixture
    def lab(self, open_store: OpenStore) -> Iterator[Lab]:
        lab = Lab(open_store, self.start)
        yield lab
        lab.close_all()

    @pytest.fixture
    def store(self, lab: Lab) -> DataStore:
        return lab.open()
