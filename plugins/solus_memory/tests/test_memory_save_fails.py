"""Saves that fail, or are broken off, at any point: nothing is lost, nothing hangs, and another try may succeed."""

from __future__ import annotations

import errno
import gc
import io
import os
import stat
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solus_core import SolusEngine
from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper
from solus_core.testing.lab import race_processes
from solus_memory import MemoryConfig, MemoryDataStore, MemoryMetaStore, connect
from solus_memory.state import CLOSED, MemoryState
from solus_memory.state_file import StateFile

NOW = 1_700_000_000_000
Make = Callable[..., DeDuper]


@pytest.fixture
def written(tmp_path: Path, deduper: Make) -> Path:
    path = tmp_path / "solus.state"
    context = connect(MemoryConfig(path=str(path)))
    MemoryMetaStore(context, "shop").create(deduper())
    MemoryDataStore(context, "shop").add_one(deduper(), 9, [9], NOW, NOW + 10)
    context.close()
    return path


def in_time(work: Callable[[], object]) -> BaseException | None:
    """Do it in a thread, and fail if it hangs. What it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    return raised[0] if raised else None


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def kept(path: Path, of: DeDuper, shard: int) -> bool:
    context = connect(MemoryConfig(path=str(path)))
    try:
        return not MemoryDataStore(context, "shop").absent_one(of, shard, [1], NOW)
    finally:
        context.close()


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def breaks_at_chunks(error: BaseException) -> Callable[..., io.FileIO]:
    """``Path.open`` for files where writing a table's content raises ``error``, after half of the first chunk."""

    class Broken(io.FileIO):
        def write(self, data: Any) -> int:
            if not isinstance(data, memoryview):
                return super().write(data)
            super().write(data[: len(data) // 2])
            raise error

    def opened(path: Path, mode: str) -> io.FileIO:  # the class itself would not be bound to the path
        return Broken(path, mode)

    return opened


@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_a_failed_save_keeps_the_old_file_and_what_is_in_memory(
    written: Path, deduper: Make, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    context = connect(MemoryConfig(path=str(written)))
    store, old = MemoryDataStore(context, "shop"), written.read_bytes()
    store.add_one(deduper(), 1, [1], NOW, NOW + 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, no_space)
        for save in (context.flush, context.close):
            with pytest.raises(StoreError, match="No space left") as caught:
                save()
            assert caught.value.code is ErrorCode.INTERNAL_ERROR
            assert isinstance(caught.value.__cause__, OSError)
    assert written.read_bytes() == old
    assert names(written) == [".solus.state.solus-lock", "solus.state"]
    assert not store.absent_one(deduper(), 1, [1], NOW)  # still open
    context.close()
    assert kept(written, deduper(), 1)


@pytest.mark.parametrize("again", ["verb", "flush", "close"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreError),
        (MemoryError(), StoreError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=repr,
)
def test_a_chunk_that_can_not_be_written_blocks_nothing_and_leaves_nothing(
    written: Path,
    deduper: Make,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    raised: type[BaseException],
    again: str,
) -> None:
    """The exception is kept while the store is used on: its traceback must keep no table locked."""
    context = connect(MemoryConfig(path=str(written)))
    store, old = MemoryDataStore(context, "shop"), written.read_bytes()
    store.add_one(deduper(), 1, [1], NOW, NOW + 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", breaks_at_chunks(error))
        kept_error = in_time(context.close)
    assert isinstance(kept_error, raised)
    assert error in (kept_error, kept_error.__cause__)
    assert written.read_bytes() == old
    assert names(written) == [".solus.state.solus-lock", "solus.state"]
    if again == "verb":
        assert in_time(lambda: store.add_one(deduper(), 2, [1], NOW, NOW + 1)) is None
    if again == "flush":
        assert in_time(context.flush) is None
    assert in_time(context.close) is None
    assert in_time(context.close) is None  # again is fine
    assert kept(written, deduper(), 1)
    assert kept(written, deduper(), 2) == (again == "verb")
    assert kept_error.__traceback__ is not None


@pytest.mark.parametrize(
    ("owner", "step"), [(MemoryState, "_freeze"), (MemoryState, "_save"), (StateFile, "close")], ids=repr
)
def test_a_close_that_is_broken_off_is_gone_on_with_by_the_next(
    written: Path, deduper: Make, monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            context.close()
    with pytest.raises(StoreError, match="open in this process"):
        connect(MemoryConfig(path=str(written)))
    context.close()
    assert kept(written, deduper(), 1)


def test_a_directory_that_can_not_be_synced_is_told_as_what_it_is(
    written: Path, deduper: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)
    fsync = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: no_space() if stat.S_ISDIR(os.fstat(fd).st_mode) else fsync(fd))
        with pytest.raises(StoreError, match="was written, but its directory can't be synced"):
            context.close()
    context.close()
    assert kept(written, deduper(), 1)


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_store_whose_lock_file_is_gone_overwrites_nothing(written: Path, deduper: Make, again: bool) -> None:
    """As by a cleaner of old files: another store may have opened the file meanwhile, and saved."""
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)
    written.with_name(".solus.state.solus-lock").unlink()
    if again:
        other = connect(MemoryConfig(path=str(written)))
        MemoryDataStore(other, "shop").add_one(deduper(), 2, [1], NOW, NOW + 1)
        other.close()
    old = written.read_bytes()
    with pytest.raises(StoreError, match=r"lock file .* was removed or replaced") as caught:
        context.close()
    assert caught.value.code is ErrorCode.INTERNAL_ERROR
    assert written.read_bytes() == old
    assert not [name for name in names(written) if name.endswith("-new")]
    with pytest.warns(ResourceWarning, match="is lost"):  # noqa: PT031  # it comes with the second
        del caught, context
        gc.collect()
    assert kept(written, deduper(), 2) == again


@pytest.mark.parametrize("allowed", [True, False])
def test_the_file_keeps_its_owner_if_the_system_lets_it(
    written: Path, deduper: Make, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """By a patch: only a superuser may give files away. The mode is set afterwards, as a new owner ends some bits."""
    written.chmod(0o640)
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)
    owner, asked = written.stat(), []

    def fchown(fd: int, uid: int, gid: int) -> None:
        asked.append((uid, gid))
        os.fchmod(fd, 0)
        if not allowed:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchown", fchown)
        context.close()
    assert asked == [(owner.st_uid, owner.st_gid)]
    assert stat.S_IMODE(written.stat().st_mode) == 0o640
    assert kept(written, deduper(), 1)


# Dropped without close


@pytest.mark.parametrize("changed", [True, False])
def test_a_context_that_is_dropped_frees_its_file_and_warns_of_what_is_lost(
    written: Path, deduper: Make, changed: bool
) -> None:
    context = connect(MemoryConfig(path=str(written)))
    store = MemoryDataStore(context, "shop")
    if changed:
        store.add_one(deduper(), 1, [1], NOW, NOW + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del context, store
    assert [each.category for each in caught] == [ResourceWarning] * changed
    assert not kept(written, deduper(), 1)  # it can be opened again


def test_a_dropped_engine_frees_its_file(written: Path) -> None:
    engine = SolusEngine.open(f"memory://{written}", client_id="shop")
    engine.register("new")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del engine
        gc.collect()
    assert [each.category for each in caught] == [ResourceWarning]
    SolusEngine.open(f"memory://{written}", client_id="shop").close()


def test_a_child_that_drops_its_copy_keeps_the_lock_of_its_parent(written: Path, deduper: Make) -> None:
    """Also if the parent was closing at the time of the fork."""
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)
    context.state.why_not = CLOSED

    def drop(_: object) -> None:
        nonlocal context
        context.close()
        del context

    race_processes([drop])
    with pytest.raises(StoreError, match="open in this process"):
        connect(MemoryConfig(path=str(written)))
    assert context is not None
    context.state.why_not = None
    context.close()
    assert kept(written, deduper(), 1)
