"""Store metrics for Prometheus: ``pip install 'solus-core[prometheus]'``.

=========================================  =========  ================================================
``solus_store_call_duration_seconds``      histogram  time of a call; its count is the number of calls
``solus_store_entities_total``             counter    entities that were processed
``solus_store_absent_total``               counter    entities that were answered "absent", or added
``solus_store_errors_total``               counter    calls that failed, by ``code``
=========================================  =========  ================================================

All have the labels ``backend`` and ``verb``; there is none for the de-duper, of which there may be thousands.
"""

from __future__ import annotations

from typing import final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from solus_core.errors import ErrorCode
from solus_core.metrics.observer import BUCKETS, Recorder, StoreMetrics

_LABELS = ("backend", "verb")


@final
class PrometheusMetrics(StoreMetrics):
    """Counts in ``registry``, the default one of prometheus-client if None. Make one for a registry, not more."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        into = REGISTRY if registry is None else registry
        self._durations = Histogram(
            "solus_store_call_duration_seconds",
            "Time of a call of the store.",
            _LABELS,
            registry=into,
            buckets=BUCKETS,
        )
        self._entities = Counter("solus_store_entities", "Entities processed.", _LABELS, registry=into)
        self._absent = Counter("solus_store_absent", "Entities answered absent, or added.", _LABELS, registry=into)
        self._errors = Counter("solus_store_errors", "Calls that failed.", (*_LABELS, "code"), registry=into)

    def recorder(self, backend: str, verb: str) -> Recorder:
        """See ``StoreMetrics``. The series appear now, at 0, but for those of errors."""
        observe = self._durations.labels(backend, verb).observe
        count = self._entities.labels(backend, verb).inc
        count_absent = self._absent.labels(backend, verb).inc
        errors = self._errors

        def record(seconds: float, entities: int, absent: int, error: ErrorCode | None) -> None:
            observe(seconds)
            if entities:
                count(entities)
            if absent:
                count_absent(absent)
            if error is not None:
                errors.labels(backend, verb, error.value).inc()

        return record
