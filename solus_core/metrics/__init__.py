"""Metrics of the store verbs: how often, how many entities, how many of them absent, what failed, how long.

A :class:`StoreMetrics` is a plugin that wraps each data store when it is opened; register one by hand::

    plugins = PluginManager.load()
    plugins.register(PrometheusMetrics(), "metrics")
    SolusEngine.open("hbase://...", client_id="shop", plugins=plugins)

``prometheus`` and ``opentelemetry`` beside this module are ready ones. Where none is registered nothing is wrapped,
and nothing costs anything.
"""

from __future__ import annotations

from solus_core.metrics.observer import BUCKETS, VERBS, Recorder, StoreMetrics

__all__ = ["BUCKETS", "VERBS", "Recorder", "StoreMetrics"]
