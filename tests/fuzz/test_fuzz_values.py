"""Any config, name, entity or TTL is taken, or refused by a SolusError or a TypeError of ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from solus_core import DeDuperConfig, Level, SolusEngine, SolusError

pytestmark = pytest.mark.needs_memory

FUZZ = settings.get_profile("solus-fuzz")
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 7, 1_000, 1_000_000, 2**31, 2**63, 10**15, 10**15 + 1]),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters() | st.sampled_from("\ud800\udc80"), max_size=6),
    st.binary(max_size=6),
    st.uuids(),
    st.timedeltas(),
    st.dates(),
    st.sampled_from(list(Level)),
    st.lists(st.integers(), max_size=2),
    st.builds(object),
)
GOOD = {
    "hash_functions": st.integers(7, 13),
    "shards": st.sampled_from([1_000_000, 150_000_000]),
    "bits_per_shard": st.integers(1_000, 30_000),
    "level": st.sampled_from(list(Level)),
    "expiry_seconds": st.integers(1, 10**6),
}


def tried(call: Callable[[], object], *, hint: bool = True) -> object:
    """The answer, or None for an error that may be. ``hint``: a TypeError must be ours, and so say what to pass."""
    raised: Exception
    try:
        answer = call()
    except (SolusError, TypeError) as error:
        raised = error
    else:
        event("taken")
        return answer
    if isinstance(raised, SolusError):
        event(str(raised.code))
        assert "\n" not in raised.message
    else:
        event("TypeError")
        line = traceback.extract_tb(raised.__traceback__)[-1].line or ""
        assert line.startswith("raise TypeError") or not hint, f"Python's own complaint: {raised}"
    return None


@pytest.fixture
def engine() -> Iterator[SolusEngine]:
    with SolusEngine.open("memory://", client_id="c") as engine:
        engine.register("d")
        yield engine


@settings(FUZZ)
@given(fields=st.fixed_dictionaries({}, optional={name: good | ANY for name, good in GOOD.items()}))
def test_any_config(fields: dict[str, Any]) -> None:
    config = tried(lambda: DeDuperConfig(**fields))
    assert config is None or all(getattr(config, name) == value for name, value in fields.items())


@settings(FUZZ)
@given(
    name=st.text(max_size=300) | ANY,
    config=st.builds(DeDuperConfig, **GOOD) | ANY,
    planned=st.integers(0, 10**16) | ANY,
)
def test_any_registration(engine: SolusEngine, name: Any, config: Any, planned: Any) -> None:
    """R12, R17."""
    if tried(lambda: engine.register(name, config, planned_keys=planned)) is not None:
        assert engine.stats(name).deduper.config == config
        assert engine.check_absence(name, "a") is True
        engine.unregister(name)
    tried(lambda: engine.get_deduper(name))
    tried(lambda: engine.get_cached_deduper(name))
    tried(lambda: engine.unregister(name))
    tried(lambda: engine.stats(name))
    tried(lambda: engine.check_absence(name, "a"), hint=False)  # an unhashable name


@settings(FUZZ)
@given(entity=ANY, ttl=st.integers(1, 864_000_000) | ANY)
def test_any_entity_and_ttl(engine: SolusEngine, entity: Any, ttl: Any) -> None:
    """R9, R20, R21."""
    tried(lambda: engine.check_absence("d", entity))
    if tried(lambda: engine.add_if_absent("d", entity, ttl)) is not None:
        assert isinstance(entity, (str, bytes, int, UUID))
        assert not isinstance(entity, bool)
    tried(lambda: engine.add("d", entity, ttl))


@settings(FUZZ)
@given(
    entities=st.lists(st.text(max_size=2) | st.integers(0, 9) | st.binary(max_size=1)) | ANY, ttl=ANY | st.just(10**6)
)
def test_any_batch(engine: SolusEngine, entities: Any, ttl: Any) -> None:
    """R6, R7, R20."""
    answers = tried(lambda: engine.add_if_absent_many("d", entities, ttl), hint=False)
    tried(lambda: engine.add_many("d", entities, ttl), hint=False)
    tried(lambda: engine.check_absence_many("d", entities), hint=False)
    tried(lambda: list(engine.deduper("d").unique(entities, ttl=ttl)), hint=False)
    assert answers is None or isinstance(answers, dict)
