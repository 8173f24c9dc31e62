"""Metrics: what is counted, that nothing else changes, and the two ready adapters on their real libraries."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solus_core
from solus_core import DeDuperConfig, ErrorCode, SolusEngine, SolusError
from solus_core.errors import BatchError, StoreError
from solus_core.metrics import BUCKETS, VERBS, Recorder, StoreMetrics
from solus_core.metrics.store import MeteredSingleProbeStore, MeteredStore
from solus_core.plugins import PluginManager
from solus_core.stores import DataStore, SingleProbeStore
from solus_core.testing import DataStoreContract, Fault, FaultyDataStore, FaultySingleProbeStore
from solus_core.testing.fixtures import SolusFaults, _FaultsPlugin

pytestmark = pytest.mark.needs_memory


class Kept(StoreMetrics):
    """Keeps what it is told: ``(verb, entities, absent, error)``."""

    def __init__(self, broken: bool = False) -> None:
        self.calls: list[tuple[str, int, int, ErrorCode | None]] = []
        self.seconds: list[float] = []
        self.asked: list[tuple[str, str]] = []
        self.broken = broken

    def recorder(self, backend: str, verb: str) -> Recorder:
        self.asked.append((backend, verb))

        def record(seconds: float, entities: int, absent: int, error: ErrorCode | None) -> None:
            self.seconds.append(seconds)
            self.calls.append((verb, entities, absent, error))
            if self.broken:
                raise OSError("no metrics today")

        return record


def manager(metrics: StoreMetrics) -> PluginManager:
    plugins = PluginManager.load()
    assert plugins.register(metrics, "metrics").state == "ok"
    return plugins


def use(metrics: StoreMetrics, target: Any = "memory://", *more: Any) -> SolusEngine:
    plugins = manager(metrics)
    for index, plugin in enumerate(more):
        plugins.register(plugin, f"more-{index}")
    engine = SolusEngine.open(target, client_id="c", plugins=plugins)
    engine.register("d")
    return engine


class TestMeteredMemory(DataStoreContract):
    """R1 to R8: the whole contract holds on a metered store."""

    @pytest.fixture
    def open_store(self) -> Callable[[str, str], DataStore]:
        name = uuid.uuid4().hex
        plugins = manager(Kept())

        def open_store(client_id: str, farm: str) -> DataStore:
            context = plugins.connect(plugins.config_of(f"memory://?name={name}&farm={farm}"))
            store = plugins.open_data_store(context, client_id)
            assert isinstance(store, MeteredSingleProbeStore)
            return store

        return open_store


def test_each_verb_is_told_of() -> None:
    metrics = Kept()
    with use(metrics) as engine:
        assert engine.add_if_absent("d", "a", 1_000) is True
        assert engine.add_if_absent("d", "a", 1_000) is False
        assert engine.check_absence("d", "a") is False
        assert engine.check_absence("d", "b") is True
        engine.add("d", "c", 1_000)
        assert engine.check_absence_many("d", [*"abca"]) == {"a": False, "b": True, "c": False}
        assert engine.add_if_absent_many("d", [*"xya"], 1_000) == {"x": True, "y": True, "a": False}
        engine.add_many("d", [*"pq"], 1_000)
        engine.stats("d")
    assert metrics.calls == [
        ("add_if_absent_one", 1, 1, None),
        ("add_if_absent_one", 1, 0, None),
        ("absent_one", 1, 0, None),
        ("absent_one", 1, 1, None),
        ("add_one", 1, 0, None),
        ("absent", 3, 1, None),
        ("add_if_absent", 3, 2, None),
        ("add", 2, 0, None),
        ("stats", 0, 0, None),
    ]
    assert metrics.asked == [("memory", verb) for verb in VERBS]
    assert all(0 < seconds < 10 for seconds in metrics.seconds)


@pytest.fixture
def faults() -> Callable[[bool], SolusFaults]:
    def make(single: bool) -> SolusFaults:
        plugins = PluginManager.load()
        memory = plugins.connect(plugins.config_of("memory://"))
        made = SolusFaults(plugins, plugins.open_data_store(memory, "c"), plugins.open_meta_store(memory, "c"))
        if not single:
            made.data = FaultyDataStore(made.data._inner)
        assert isinstance(made.data, FaultySingleProbeStore) is single
        return made

    return make


CALLS: dict[str, Callable[[SolusEngine], object]] = {
    "absent": lambda engine: engine.check_absence_many("d", [*"ab"]),
    "add": lambda engine: engine.add_many("d", [*"ab"], 9),
    "add_if_absent": lambda engine: engine.add_if_absent_many("d", [*"ab"], 9),
    "absent_one": lambda engine: engine.check_absence("d", "a"),
    "add_one": lambda engine: engine.add("d", "a", 9),
    "add_if_absent_one": lambda engine: engine.add_if_absent("d", "a", 9),
    "stats": lambda engine: engine.stats("d"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError(ErrorCode.HBASE_ERROR, "gone"), "HBASE_ERROR"), (ValueError("a fault"), "INTERNAL_ERROR")],
)
def test_errors_pass_through_and_are_told_by_code(
    faults: Callable[[bool], SolusFaults], verb: str, error: Exception, code: str
) -> None:
    """R22, R23: the caller gets the same error as without metrics."""
    metrics, below = Kept(), faults(True)
    with use(metrics, below, _FaultsPlugin()) as engine:
        below.data.plan(Fault(verb, error=error))
        with pytest.raises((SolusError, ValueError)) as caught:
            CALLS[verb](engine)
        assert caught.value is error or code in str(caught.value)
        CALLS[verb](engine)
    assert [call[0] for call in metrics.calls] == [verb, verb]
    assert metrics.calls[0] == (verb, 0, 0, ErrorCode(code))
    assert metrics.calls[1][3] is None


def test_a_batch_that_fails_half_way_counts_what_was_done(faults: Callable[[bool], SolusFaults]) -> None:
    """R8: what was done stays done, and is counted; the answers arrive."""
    metrics, below = Kept(), faults(False)
    with use(metrics, below, _FaultsPlugin()) as engine:
        assert engine.add_if_absent("d", "a", 1_000)
        below.data.plan(Fault("add_if_absent", rows=2))
        with pytest.raises(BatchError) as caught:
            engine.add_if_absent_many("d", [*"abcd"], 1_000)
        assert caught.value.answers == {"a": False, "b": True}
    assert metrics.calls == [("add_if_absent", 1, 1, None), ("add_if_absent", 2, 1, ErrorCode.INTERNAL_ERROR)]


def test_a_store_without_single_verbs_gets_none(faults: Callable[[bool], SolusFaults]) -> None:
    metrics, below = Kept(), faults(False)
    plugins = manager(metrics)
    plugins.register(_FaultsPlugin(), "faults")
    store = plugins.open_data_store(below, "c")
    assert type(store) is MeteredStore
    assert not isinstance(store, SingleProbeStore)
    assert (store.atomicity, store.layout) == (below.data.atomicity, below.data.layout)
    assert "FaultyDataStore" in repr(store)
    below.data.plan(Fault("check_config", error=StoreError(ErrorCode.INTERNAL_ERROR, "too large")))
    with pytest.raises(StoreError, match="too large"):
        store.check_config(DeDuperConfig())
    store.close()
    assert below.data.calls["close"] == 1
    assert metrics.calls == []


def test_metrics_that_fail_change_no_answer_and_are_logged_once_a_verb(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Kept(broken=True)
    with use(metrics) as engine:
        for _ in range(2):
            for verb in VERBS:
                CALLS[verb](engine)
        assert engine.add_if_absent("d", "new", 1_000) is True
        assert engine.add_if_absent_many("d", ["new", "newer"], 1_000) == {"new": False, "newer": True}
    assert len(metrics.calls) == 2 * len(VERBS) + 2
    complaints = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in complaints] == ["solus_core.metrics.store"] * len(VERBS)
    assert "no metrics today" in caplog.text


def test_metrics_that_cannot_begin_close_the_store(faults: Callable[[bool], SolusFaults]) -> None:
    class Refuses(Kept):
        def recorder(self, backend: str, verb: str) -> Recorder:
            raise ValueError("no such label")

    below = faults(True)
    with pytest.raises(SolusError, match="no such label"):
        use(Refuses(), below, _FaultsPlugin())
    assert below.data.calls["close"] == 1


def test_a_context_of_nobody_is_still_refused() -> None:
    from solus_core.config import StorageContext  # noqa: PLC0415  # beside its only use

    class Foreign(StorageContext):
        pass

    with pytest.raises(SolusError, match="no installed plugin answers solus_open_data_store for a Foreign"):
        use(Kept(), Foreign())


def work(metrics: StoreMetrics) -> None:
    """Two engines on one metrics object: 3 single calls, of which 2 added; a batch of 5, all absent; one failure."""
    with use(metrics) as one, use(metrics) as two:
        assert [engine.add_if_absent("d", "a", 1_000) for engine in (one, one, two)] == [True, False, True]
        assert all(two.check_absence_many("d", [*"vwxyz"]).values())
    with pytest.raises(SolusError):
        one.deduper("d")
    with use(metrics) as engine:
        handle = engine.deduper("d")
        handle.check_absence("a")
    with pytest.raises(SolusError):
        handle.check_absence("a")


def test_buckets_go_from_10_us_to_1_s() -> None:
    assert (BUCKETS[0], BUCKETS[-1]) == (1e-5, 1.0)
    assert (np.diff(BUCKETS) > 0).all()


def test_prometheus() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[prometheus]'")
    from solus_core.metrics.prometheus import PrometheusMetrics  # noqa: PLC0415  # needs the extra

    registry = prometheus.CollectorRegistry()
    work(PrometheusMetrics(registry))

    def value(name: str, verb: str, **more: str) -> float | None:
        found: float | None = registry.get_sample_value(name, {"backend": "memory", "verb": verb, **more})
        return found

    assert value("solus_store_call_duration_seconds_count", "add_if_absent_one") == 3
    assert 0 < (value("solus_store_call_duration_seconds_sum", "add_if_absent_one") or 0) < 10
    assert value("solus_store_call_duration_seconds_bucket", "add_if_absent_one", le="+Inf") == 3
    assert value("solus_store_call_duration_seconds_bucket", "add_if_absent_one", le="1e-05") is not None
    assert value("solus_store_entities_total", "add_if_absent_one") == 3
    assert value("solus_store_absent_total", "add_if_absent_one") == 2
    assert value("solus_store_entities_total", "absent") == 5
    assert value("solus_store_absent_total", "absent") == 5
    assert value("solus_store_entities_total", "add") == 0, "a series begins at 0, so that rates are right"
    assert value("solus_store_errors_total", "absent_one", code="INTERNAL_ERROR") == 1
    exposed = prometheus.generate_latest(registry).decode()
    assert "# TYPE solus_store_call_duration_seconds histogram" in exposed
    assert "# TYPE solus_store_entities_total counter" in exposed


def test_prometheus_default_registry() -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install '.[prometheus]'")
    from solus_core.metrics.prometheus import PrometheusMetrics  # noqa: PLC0415  # needs the extra

    metrics = PrometheusMetrics()
    for made in (metrics._durations, metrics._entities, metrics._absent, metrics._errors):
        prometheus.REGISTRY.unregister(made)


def test_opentelemetry() -> None:
    needs = "needs opentelemetry-sdk: pip install '.[opentelemetry]' opentelemetry-sdk"
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason=needs)
    export = pytest.importorskip("opentelemetry.sdk.metrics.export", reason=needs)
    from solus_core.metrics.opentelemetry import OpenTelemetryMetrics  # noqa: PLC0415  # needs the extra

    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    work(OpenTelemetryMetrics(provider.get_meter("test")))
    found: dict[str, Any] = {
        metric.name: metric
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    provider.shutdown()
    assert {name: metric.unit for name, metric in found.items()} == {
        "solus.store.call.duration": "s",
        "solus.store.entities": "{entity}",
        "solus.store.absent": "{entity}",
    }

    def point(name: str, verb: str, **more: str) -> Any:
        attributes = {"solus.backend": "memory", "solus.verb": verb, **more}
        (point,) = (each for each in found[name].data.data_points if dict(each.attributes) == attributes)
        return point

    duration = point("solus.store.call.duration", "add_if_absent_one")
    assert duration.count == 3
    assert 0 < duration.sum < 10
    assert tuple(duration.explicit_bounds) == BUCKETS
    assert point("solus.store.entities", "add_if_absent_one").value == 3
    assert point("solus.store.absent", "add_if_absent_one").value == 2
    assert point("solus.store.entities", "absent").value == 5
    assert point("solus.store.call.duration", "absent_one", **{"error.type": "INTERNAL_ERROR"}).count == 1
    assert point("solus.store.call.duration", "absent_one").count == 1


def test_opentelemetry_without_a_provider_does_nothing() -> None:
    pytest.importorskip("opentelemetry.metrics", reason="needs opentelemetry-api: pip install '.[opentelemetry]'")
    from solus_core.metrics.opentelemetry import OpenTelemetryMetrics  # noqa: PLC0415  # needs the extra

    work(OpenTelemetryMetrics())


def test_logging_is_one_logger_a_module_and_no_handler_of_ours() -> None:
    """But for the command, which is a program and not a library."""
    package = Path(solus_core.__file__).parent
    modules = [path for path in package.rglob("*.py") if "cli" not in path.parts]
    loggers = {path.name: re.findall(r"getLogger\((.*?)\)", path.read_text()) for path in modules}
    assert {name for name, found in loggers.items() if found} >= {"cache.py", "engine.py", "store.py"}
    assert all(found == ["__name__"] for found in loggers.values() if found), loggers
    assert not [path for path in modules if re.search(r"addHandler|basicConfig", path.read_text())]
