"""The contract of an installed plugin, as a test class to subclass."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Any, ClassVar

import attrs
import pytest

from solus_core.config import StorageConfig, StorageContext
from solus_core.engine import SolusEngine, Target
from solus_core.errors import (
    ConfigMismatchError,
    DeDuperNotFoundError,
    InvalidConfigError,
    SolusError,
)
from solus_core.hookspecs import API_VERSION, PROJECT
from solus_core.model import Atomicity, DeDuperConfig, Level
from solus_core.plugins import PluginInfo, PluginManager
from solus_core.testing.clock import FakeClock
from solus_core.testing.lab import race, race_processes

_DISCOVERY = """
import json, sys
sys.path[:], drivers = json.loads(sys.argv[1])
from solus_core.plugins import PluginManager
PluginManager.load()
print(json.dumps([name for name in drivers if name in sys.modules]))
"""


class ForeignContext(StorageContext):
    """A context that no plugin knows."""


class PluginContract:
    """What an installed backend plugin promises, seen through the engine. Subclass it and give it one fixture::

        class TestPlugin(PluginContract):
            scheme = "mine"

            @pytest.fixture
            def target(self):
                return "mine://127.0.0.1:1234/table"

    ``target``: the URL, mapping or typed config of one store, which may serve all tests: each test has a
    client id of its own.

    ``scheme``: of the plugin's URLs. ``drivers``: modules that must not be imported before a store is opened.
    ``not_shared``, ``not_durable``: a reason, if two engines on ``target`` can't be open at once or have a store
    each, or if closing the engine loses the data. ``start``: the first ``now``, as in ``DataStoreContract``.
    """

    scheme: ClassVar[str] = ""
    drivers: ClassVar[tuple[str, ...]] = ()
    not_shared: ClassVar[str] = ""
    not_durable: ClassVar[str] = ""
    start: ClassVar[int] = 1_700_000_000_000

    @pytest.fixture
    def target(self) -> Any:
        """To be overridden: where the store is."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture target, see PluginContract")

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock(self.start)

    @pytest.fixture
    def open_engine(self, target: Target, clock: FakeClock) -> Iterator[Callable[..., SolusEngine]]:
        """``open_engine(**settings)``: one more engine on ``target``, with the client id of this test."""
        opened: list[SolusEngine] = []
        client_id = f"kit-{uuid.uuid4().hex[:12]}"

        def open_engine(on: Target = target, **settings: Any) -> SolusEngine:
            engine = SolusEngine.open(on, **{"client_id": client_id, "clock": clock, **settings})
            opened.append(engine)
            return engine

        yield open_engine
        for engine in opened:
            engine.close()

    @pytest.fixture
    def engine(self, open_engine: Callable[..., SolusEngine]) -> SolusEngine:
        return open_engine()

    def info(self, plugins: PluginManager) -> PluginInfo:
        """What the manager knows of the plugin under test."""
        for info in plugins.plugins:
            if f"{self.scheme}://" in info.provides or info.name == self.scheme:
                return info
        pytest.fail(f"no plugin offers {self.scheme}://, found are {plugins.plugins}")

    def plugin(self) -> Any:
        """The plugin itself, as its entry point names it."""
        (entry,) = entry_points(group=PROJECT, name=self.info(PluginManager.load()).name)
        return entry.load()

    def test_loads(self) -> None:
        """P1 (R22): the installed plugin loads without an error, and offers its scheme with a summary."""
        plugins = PluginManager.load()
        info = self.info(plugins)
        assert (info.state, info.error) == ("ok", "")
        backend = plugins.backends[self.scheme]
        assert backend.summary.strip()
        assert "\n" not in backend.summary

    def test_api_version_is_a_literal(self) -> None:
        """P2 (R22): the plugin says which API it was written for by a plain number, not by importing ours."""
        assert type(self.plugin().SOLUS_API_VERSION) is int
        assert self.plugin().SOLUS_API_VERSION == API_VERSION

    def test_discovery_imports_no_driver(self) -> None:
        """P3: finding the plugins, in a fresh process, imports none of the plugin's drivers."""
        if not self.drivers:
            pytest.skip("the plugin names no drivers")
        run = subprocess.run(
            [sys.executable, "-c", _DISCOVERY, json.dumps([sys.path, self.drivers])],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout) == []

    def test_config_is_a_value(self, target: Target) -> None:
        """P4: a target means the same typed, frozen config each time, and that config is a target itself."""
        plugins = PluginManager.load()
        config = plugins.config_of(target)
        assert type(config) is plugins.backends[self.scheme].config
        assert isinstance(config, StorageConfig)
        assert plugins.config_of(target) == config
        assert plugins.config_of(config) == config
        assert hash(config) == hash(plugins.config_of(target))
        kind: Any = type(config)
        for field in attrs.fields(kind):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(config, field.name, None)

    def test_unknown_settings_are_refused(self) -> None:
        """P5 (R12, R22): a setting that doesn't exist is refused, by URL and by mapping, before any connection."""
        plugins = PluginManager.load()
        for target in (f"{self.scheme}://?no_such_setting=1", {"scheme": self.scheme, "no_such_setting": "1"}):
            with pytest.raises(InvalidConfigError, match="no_such_setting"):
                plugins.config_of(target)

    def test_foreign_contexts_are_left_alone(self) -> None:
        """P6: the hooks answer None for a context that another plugin made."""
        plugin, found = self.plugin(), 0
        for hook in ("solus_open_data_store", "solus_open_meta_store"):
            if hasattr(plugin, hook):
                found += 1
                assert getattr(plugin, hook)(context=ForeignContext(), client_id="kit") is None
        assert found

    def test_single_verbs(self, engine: SolusEngine, clock: FakeClock) -> None:
        """P7 (R1, R4, R5): register, then add, check and add-if-absent of single entities, to the last millisecond."""
        assert engine.register("offers").name == "offers"
        assert engine.check_absence("offers", "a")
        assert engine.add_if_absent("offers", "a", 1_000)
        assert not engine.add_if_absent("offers", "a", 1_000)
        engine.add("offers", "b", 2_000)
        engine.add("offers", "b", 1_000)
        clock.advance(1_000)
        assert not engine.check_absence("offers", "a")
        clock.advance(1)
        assert engine.check_absence("offers", "a")
        assert not engine.check_absence("offers", "b")
        clock.advance(1_000)
        assert engine.check_absence("offers", "b")

    def test_batch_verbs(self, engine: SolusEngine, clock: FakeClock) -> None:
        """P8 (R6, R7): batches answer each distinct entity in first-seen order, and agree with the single verbs."""
        engine.register("offers", DeDuperConfig(level=Level.DC, hash_functions=9))
        engine.add_many("offers", ["b", "d"], 1_000)
        entities = ["a", "b", "c", "d", "a"]
        expected = {"a": True, "b": False, "c": True, "d": False}
        assert list(engine.check_absence_many("offers", entities).items()) == list(expected.items())
        assert list(engine.add_if_absent_many("offers", entities, 1_000).items()) == list(expected.items())
        assert not any(engine.check_absence_many("offers", entities).values())
        assert not engine.add_if_absent("offers", "c", 1_000)
        assert engine.add_if_absent_many("offers", [], 1_000) == {}
        clock.advance(1_001)
        assert engine.check_absence("offers", "a")
        assert all(engine.check_absence_many("offers", entities).values())

    def test_registering(self, engine: SolusEngine) -> None:
        """P9 (R13, R14): a config never changes; an unregistered name refuses data and comes back with its data."""
        config = DeDuperConfig(hash_functions=8, shards=2_000_000, bits_per_shard=2_000)
        with pytest.raises(DeDuperNotFoundError):
            engine.check_absence("offers", "a")
        engine.register("offers", config)
        engine.register("offers", config)
        engine.add("offers", "a", 1_000)
        with pytest.raises(ConfigMismatchError) as caught:
            engine.register("offers", DeDuperConfig())
        assert caught.value.differences["shards"] == (2_000_000, 1_000_000)
        assert set(engine.get_active_dedupers()) == {"offers"}
        engine.unregister("offers")
        assert not engine.get_active_dedupers()
        for verb in (engine.check_absence, partial(engine.add_if_absent, ttl=1_000)):
            with pytest.raises(DeDuperNotFoundError):
                verb("offers", "a")
        with pytest.raises(ConfigMismatchError):
            engine.register("offers", DeDuperConfig())
        engine.register("offers", config)
        assert engine.get_deduper("offers").config == config
        assert not engine.check_absence("offers", "a")

    def test_hasher_is_recorded(self, open_engine: Callable[..., SolusEngine]) -> None:
        """P10 (R18): an engine with a hasher of its own records it, and works with it."""
        engine = open_engine(hasher="murmur3-double")
        engine.register("offers")
        assert engine.get_deduper("offers").hasher == "murmur3-double"
        assert engine.add_if_absent("offers", "a", 1_000)
        assert not engine.check_absence("offers", "a")

    def test_client_ids_are_apart(self, open_engine: Callable[..., SolusEngine]) -> None:
        """P11 (R17): another client id has de-dupers and data of its own."""
        if self.not_shared:
            pytest.skip(self.not_shared)
        engine = open_engine()
        other = open_engine(client_id=f"{engine.client_id}-2")
        engine.register("offers")
        assert not other.get_active_dedupers()
        other.register("offers")
        engine.add("offers", "a", 1_000)
        assert other.check_absence("offers", "a")

    def test_required_atomicity(self, open_engine: Callable[..., SolusEngine]) -> None:
        """P12 (R5): an engine that requires what the store declares opens; one that requires more does not."""
        engine = open_engine()
        engine.close()
        for level in Atomicity:
            if level <= engine.atomicity:
                open_engine(require=level).close()
            else:
                with pytest.raises(SolusError, match=level.name):
                    open_engine(require=level)

    def test_threads(self, engine: SolusEngine) -> None:
        """P13 (R5, R24): threads share an engine; each entity has one winner, if the store declares so."""
        if engine.atomicity < Atomicity.PROCESS:
            pytest.skip(f"the store declares Atomicity.{engine.atomicity.name}")
        engine.register("offers")
        deduper = engine.deduper("offers")
        entities = [f"e{i}" for i in range(50)]

        def one_by_one() -> dict[Any, bool]:
            return {entity: deduper.add_if_absent(entity, 1_000) for entity in entities}

        def in_batches() -> dict[Any, bool]:
            return deduper.add_if_absent_many(entities, 1_000)

        answers = race(*[one_by_one, in_batches] * 3)
        assert [sum(answer[entity] for answer in answers) for entity in entities] == [1] * 50

    def test_closed_engine_gives_no_answer(self, engine: SolusEngine) -> None:
        """P14 (R22, R23): after close every verb raises a SolusError; closing again does nothing."""
        engine.register("offers")
        engine.add("offers", "a", 1_000)
        handle = engine.deduper("offers")
        engine.close()
        engine.close()
        calls: tuple[Callable[[], object], ...] = (
            lambda: engine.check_absence("offers", "a"),
            lambda: engine.add_if_absent_many("offers", ["b"], 1_000),
            lambda: handle.add_if_absent("b", 1_000),
            lambda: handle.check_absence_many(["a"]),
            lambda: engine.register("another"),
            lambda: engine.stats("offers"),
        )
        for call in calls:
            with pytest.raises(SolusError):
                call()

    def test_borrowed_context_stays_open(self, target: Target, open_engine: Callable[..., SolusEngine]) -> None:
        """P15 (R24): an engine on a context that the caller connected leaves it usable when it closes."""
        plugins = PluginManager.load()
        context = plugins.connect(plugins.config_of(target))
        try:
            first = open_engine(context, plugins=plugins)
            first.register("offers")
            first.add("offers", "a", 1_000)
            first.close()
            second = open_engine(context, plugins=plugins)
            assert not second.check_absence("offers", "a")
            second.close()
        finally:
            context.close()
            context.close()

    def test_engines_share_the_store(self, engine: SolusEngine, open_engine: Callable[..., SolusEngine]) -> None:
        """P16 (R5, R13, R15): what one engine registers and adds, another on the same target sees."""
        if self.not_shared:
            pytest.skip(self.not_shared)
        other = open_engine()
        engine.register("offers")
        assert other.register("offers") == engine.get_deduper("offers")
        assert engine.add_if_absent("offers", "a", 1_000)
        assert not other.add_if_absent("offers", "a", 1_000)
        other.add_many("offers", ["b", "c"], 1_000)
        assert engine.check_absence_many("offers", ["a", "b", "c", "d"]) == {
            "a": False,
            "b": False,
            "c": False,
            "d": True,
        }
        engine.close()
        assert not other.check_absence("offers", "a")

    def test_opening_again_keeps_the_data(self, open_engine: Callable[..., SolusEngine], clock: FakeClock) -> None:
        """P17 (R2): de-dupers and data are there again in an engine that is opened after the last one closed."""
        if self.not_durable:
            pytest.skip(self.not_durable)
        engine = open_engine()
        config = DeDuperConfig(hash_functions=8)
        engine.register("offers", config)
        engine.add_many("offers", ["a", "b"], 1_000)
        engine.close()
        again = open_engine()
        assert again.get_deduper("offers").config == config
        clock.advance(1_000)
        assert not any(again.check_absence_many("offers", ["a", "b"]).values())
        assert again.check_absence("offers", "c")

    def test_forked_child(self, engine: SolusEngine, target: Target, clock: FakeClock) -> None:
        """P18 (R2, R24): in a forked child, a new engine and the parent's own give the right answer or a SolusError.

        A wrong answer, a hang, or trouble in the parent afterwards is a fault; so is a store that is empty in the
        child, where engines share one.
        """
        engine.register("offers")
        engine.add("offers", "known", 1_000)

        def outcome(check: Callable[[], bool]) -> str:
            try:
                return "absent" if check() else "present"
            except DeDuperNotFoundError:
                return "no such de-duper"
            except SolusError as error:
                return f"error {error}"

        def own_engine() -> bool:
            with SolusEngine.open(target, client_id=engine.client_id, clock=clock) as own:
                return own.check_absence("offers", "known")

        def in_child(ready: Callable[[], None]) -> Mapping[str, str]:
            ready()
            return {
                "a new engine": outcome(own_engine),
                "the parent's engine": outcome(lambda: engine.check_absence("offers", "known")),
            }

        for answers in race_processes([in_child, in_child]):
            for which, answer in answers.items():
                assert answer != "absent", f"{which} lost an entity in a forked child"
                assert self.not_shared or answer != "no such de-duper", f"{which} is empty in a forked child"
            if engine.atomicity is Atomicity.CLUSTER:
                assert answers["a new engine"] == "present"
        assert not engine.check_absence("offers", "known")
        assert engine.add_if_absent("offers", "new", 1_000)
