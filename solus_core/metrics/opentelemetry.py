"""Store metrics for OpenTelemetry: ``pip install 'solus-core[opentelemetry]'``.

===============================  =========  ============  ================================================
``solus.store.call.duration``    histogram  ``s``         time of a call; its count is the number of calls
``solus.store.entities``         counter    ``{entity}``  entities that were processed
``solus.store.absent``           counter    ``{entity}``  entities that were answered "absent", or added
===============================  =========  ============  ================================================

Their attributes are ``solus.backend`` and ``solus.verb``; a duration has ``error.type``, the code, if the call failed.
There is none for the de-duper, of which there may be thousands.
"""

from __future__ import annotations

from typing import final

from opentelemetry.metrics import Meter, get_meter

from solus_core.errors import ErrorCode
from solus_core.metrics.observer import BUCKETS, Recorder, StoreMetrics


@final
class OpenTelemetryMetrics(StoreMetrics):
    """Records through ``meter``; if None, through one of the global meter provider, also if that is set later."""

    def __init__(self, meter: Meter | None = None) -> None:
        meter = get_meter("solus_core") if meter is None else meter
        self._durations = meter.create_histogram(
            "solus.store.call.duration",
            unit="s",
            description="Time of a call of the store.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._entities = meter.create_counter(
            "solus.store.entities", unit="{entity}", description="Entities processed."
        )
        self._absent = meter.create_counter(
            "solus.store.absent", unit="{entity}", description="Entities answered absent, or added."
        )

    def recorder(self, backend: str, verb: str) -> Recorder:
        """See ``StoreMetrics``."""
        durations, entities_seen, absent_seen = self._durations, self._entities, self._absent
        attributes = {"solus.backend": backend, "solus.verb": verb}

        def record(seconds: float, entities: int, absent: int, error: ErrorCode | None) -> None:
            durations.record(seconds, attributes if error is None else {**attributes, "error.type": error.value})
            if entities:
                entities_seen.add(entities, attributes)
            if absent:
                absent_seen.add(absent, attributes)

        return record
