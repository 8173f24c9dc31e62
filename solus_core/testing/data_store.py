"""The contract of a data store, as a test class to subclass."""

from __future__ import annotations

from solus_core.testing.data_answers import AnswersContract
from solus_core.testing.data_batches import BatchesContract
from solus_core.testing.data_isolation import IsolationContract
from solus_core.testing.data_lifetime import LifetimeContract
from solus_core.testing.data_races import RacesContract


class DataStoreContract(AnswersContract, BatchesContract, IsolationContract, RacesContract, LifetimeContract):
    """All that a :class:`~solus_core.stores.DataStore` promises. Subclass it and give it one fixture::

        class TestMine(DataStoreContract):
            @pytest.fixture
            def open_store(self):
                return lambda client_id, farm: MyDataStore(server, client_id, farm)

    ``open_store(client_id, farm)`` opens one more view on ONE state: two views share what the levels and the
    client ids say they share. The kit closes them. A server may serve all tests: each test has a client id of
    its own. A store that can't open what is asked for calls ``pytest.skip`` with the reason.

    What a store may need to change:

    ``no_farms``, ``not_durable``: a reason, if it knows no farms, or if closing the last view loses the data.
    ``start``: the first ``now`` of each test; real time where a server counts storage expiry by its own clock.
    ``examples``, ``steps``: random programs of the model-based test, and their length.
    ``big_batch``, ``racers``: rows of the large batches, and threads of the races.
    """
