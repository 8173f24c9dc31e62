"""R15, R16: the metadata cache, by the fake clock."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from solus_core import DeDuper, DeDuperConfig, ErrorCode, SolusError
from solus_core.cache import CacheSettings, MetadataCache
from solus_core.errors import StoreError
from solus_core.testing.lab import race_processes

HOUR = 3_600_000
WAIT = 30  # seconds after which a thread that should have answered counts as stuck


class Records:
    """A meta-store's ``get`` that can be held at a gate."""

    def __init__(self) -> None:
        self.shards = 1_000_000
        self.known = True
        self.loads = 0
        self.error: BaseException | None = None
        self.loaded = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def load(self, name: str) -> DeDuper | None:
        self.loads += 1
        shards, known = self.shards, self.known
        self.loaded.set()
        assert self.gate.wait(WAIT)
        if self.error is not None:
            raise self.error
        return self.record(name, shards) if known else None

    @staticmethod
    def record(name: str, shards: int) -> DeDuper:
        return DeDuper(name=name, client_id="c", config=DeDuperConfig(shards=shards))


def shards_of(cache: MetadataCache, now: int, name: str = "d") -> int | None:
    entry = cache.get(name, now)
    return None if entry is None else entry.deduper.config.shards


def settled(cache: MetadataCache) -> None:
    """Wait for the background thread: it is gone when its load is settled."""
    for thread in threading.enumerate():
        if thread.name == "solus-refresh":
            thread.join(WAIT)
            assert not thread.is_alive()


def test_loaded_once_until_the_refresh_time() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    assert [shards_of(cache, now) for now in (0, 1, 299_999)] == [1_000_000] * 3
    assert records.loads == 1


def test_refreshed_in_the_background_while_the_old_entry_answers() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)
    records.shards = 2_000_000
    records.gate.clear()
    assert shards_of(cache, 300_000) == 1_000_000, "the old one answers at once"
    assert shards_of(cache, 300_001) == 1_000_000
    records.gate.set()
    settled(cache)
    assert records.loads == 2, "one load, however many asked"
    assert shards_of(cache, 300_002) == 2_000_000


def test_a_failed_refresh_keeps_the_entry_until_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)
    records.error = StoreError(ErrorCode.HBASE_ERROR, "gone")
    assert shards_of(cache, 300_000) == 1_000_000
    settled(cache)
    assert "HBASE_ERROR: gone" in caplog.text
    assert shards_of(cache, 3 * HOUR - 1) == 1_000_000
    settled(cache)
    with pytest.raises(SolusError) as caught:
        shards_of(cache, 3 * HOUR)
    assert caught.value.code is ErrorCode.HBASE_ERROR, "R22: the code is the store's own"


def test_expired_entries_are_loaded_before_they_answer() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)
    records.shards = 2_000_000
    assert shards_of(cache, 3 * HOUR) == 2_000_000


def test_a_clock_put_back_does_not_keep_an_entry_for_ever() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 1_000)
    records.shards = 2_000_000
    assert shards_of(cache, 999) == 2_000_000


def test_a_refresh_that_finds_nothing_drops_the_entry_and_nothing_is_not_remembered() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)
    records.known = False
    shards_of(cache, 300_000)
    settled(cache)
    assert shards_of(cache, 300_001) is None
    records.known = True
    assert shards_of(cache, 300_001) == 1_000_000, "R15: not found was not remembered"


def test_single_flight_many_threads_one_load() -> None:
    records = Records()
    records.gate.clear()
    cache = MetadataCache(records.load, CacheSettings())
    answers: list[int | None] = []
    threads = [threading.Thread(target=lambda: answers.append(shards_of(cache, 0))) for _ in range(16)]
    for thread in threads:
        thread.start()
    assert records.loaded.wait(WAIT)
    records.gate.set()
    for thread in threads:
        thread.join(WAIT)
    assert answers == [1_000_000] * 16
    assert records.loads == 1


@pytest.mark.parametrize("error", [ValueError("odd"), StoreError(ErrorCode.HBASE_ERROR, "gone")])
def test_a_failed_load_is_told_to_all_and_tried_again_by_the_next(error: Exception) -> None:
    records = Records()
    records.error = error
    cache = MetadataCache(records.load, CacheSettings())
    with pytest.raises(SolusError) as caught:
        shards_of(cache, 0)
    if isinstance(error, SolusError):
        assert caught.value is error
    else:
        assert caught.value.code is ErrorCode.CACHE_ERROR
        assert caught.value.__cause__ is error
    records.error = None
    assert shards_of(cache, 0) == 1_000_000


def test_an_interrupted_load_does_not_strand_those_who_wait() -> None:
    records = Records()
    records.error = KeyboardInterrupt()
    cache = MetadataCache(records.load, CacheSettings())
    with pytest.raises(KeyboardInterrupt):
        shards_of(cache, 0)
    records.error = None
    assert shards_of(cache, 0) == 1_000_000


def test_r15_an_own_change_wins_over_a_load_that_began_before_it() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)
    records.gate.clear()
    records.loaded.clear()
    shards_of(cache, 300_000)  # begins a refresh that has read the old record
    assert records.loaded.wait(WAIT)
    records.shards = 3_000_000
    cache.forget("d")
    records.gate.set()
    settled(cache)
    assert shards_of(cache, 300_002) == 3_000_000


def test_a_refresh_that_can_not_begin_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    shards_of(cache, 0)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert shards_of(cache, 300_000) == 1_000_000
    assert "can't start new thread" in caplog.text
    records.shards = 2_000_000
    assert shards_of(cache, 3 * HOUR) == 2_000_000, "nobody waits for the refresh that never was"


def test_at_most_so_many_entries() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings(entries=2))
    for name in "abc":
        shards_of(cache, 0, name)
    shards_of(cache, 0, "c")
    assert records.loads == 3
    shards_of(cache, 0, "a")
    assert records.loads == 4, "the least recently used one was dropped"


@pytest.mark.parametrize("bad", [{"entries": 1.5}, {"refresh_seconds": True}])
def test_settings_of_another_type_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be an int"):
        CacheSettings(**bad)


@pytest.mark.parametrize("bad", [{"entries": 0}, {"refresh_seconds": 0}, {"expiry_seconds": 299}])
def test_settings_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(SolusError, match="at least"):
        CacheSettings(**bad)


def test_r24_a_forked_child_is_not_stuck_on_a_load_of_its_parent() -> None:
    records = Records()
    cache = MetadataCache(records.load, CacheSettings())
    records.gate.clear()
    thread = threading.Thread(target=shards_of, args=(cache, 0))
    thread.start()
    assert records.loaded.wait(WAIT)

    def in_child(_: object) -> None:
        records.gate.set()
        assert shards_of(cache, 0) == 1_000_000

    race_processes([in_child], WAIT)
    records.gate.set()
    thread.join(WAIT)
