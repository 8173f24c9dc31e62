"""The state file: whole, locked, refused when it is not ours, replaced in one step."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solus_core.errors import ErrorCode, InvalidConfigError, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_core.stores import Probes
from solus_memory import MemoryConfig, MemoryDataStore, MemoryMetaStore, connect
from solus_memory.dense import DenseForm
from solus_memory.numpy_table import NumpyTable
from solus_memory.state_file import MAGIC

NOW = 1_700_000_000_000
Make = Callable[..., DeDuper]


def rows(of: DeDuper, n: int = 2_000, seed: int = 1) -> Probes:
    rng = np.random.default_rng(seed)
    return Probes(of, rng.integers(0, 10**6, n), rng.integers(0, 1_000, (n, 7), dtype=np.int32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "solus.state"


@pytest.fixture
def written(path: Path, deduper: Make) -> Path:
    context = connect(MemoryConfig(path=str(path)))
    MemoryMetaStore(context, "shop").create(deduper())
    MemoryDataStore(context, "shop").add(rows(deduper(), 20), NOW, NOW + 10)
    context.close()
    return path


def test_kept_between_runs(path: Path, deduper: Make) -> None:
    context = connect(MemoryConfig(path=str(path), farm="f1"))
    store, meta = MemoryDataStore(context, "shop"), MemoryMetaStore(context, "shop")
    xdc, dc = deduper("x"), deduper("päck \u2028 it", level=Level.DC)
    for of in (xdc, dc):
        meta.create(of)
        store.add(rows(of), NOW, NOW + 10)
        store.add_one(of, -4, [5, -6], NOW, NOW + 20)
    meta.set_active("x", False, NOW + 1)
    context.close()

    again = connect(MemoryConfig(path=str(path), farm="f1"))
    store, meta = MemoryDataStore(again, "shop"), MemoryMetaStore(again, "shop")
    record = meta.get("x")
    assert record is not None
    assert (record.active, record.updated_at, record.config) == (False, NOW + 1, xdc.config)
    assert list(meta.active()) == [dc]
    for of in (xdc, dc):
        assert not store.absent(rows(of), NOW + 10).any()
        assert store.absent(rows(of), NOW + 11).all()
        assert store.absent(rows(of, seed=2), NOW).all()
        assert not store.absent_one(of, -4, [-6, 5], NOW + 20)
        assert store.absent_one(of, -4, [-6, 5], NOW + 21)
    again.close()
    other = connect(MemoryConfig(path=str(path), farm="f2"))
    store = MemoryDataStore(other, "shop")
    assert store.absent(rows(dc), NOW).all()
    assert not store.absent(rows(xdc), NOW).any()
    other.close()


@pytest.mark.parametrize("expiry_seconds", [100, 3 * 365 * 86_400])
@pytest.mark.parametrize("filled", [0, 10, 9_000])
def test_dense_tables_are_written_in_the_smaller_way(
    tiny: Callable[..., DeDuperConfig], filled: int, expiry_seconds: int
) -> None:
    config = tiny(10, 1_000, expiry_seconds=expiry_seconds)
    table = NumpyTable(config, NOW, lambda _needed, _held: None)
    table._form = DenseForm(table._total, table._form.base)
    flat = np.random.default_rng(1).permutation(10_000)[:filled]
    shards, positions = flat // 1_000, (flat % 1_000).astype(np.int32)[:, None]
    table.add(shards, positions, NOW, NOW + 90_000)
    dump = table.dump()
    payload = b"".join(dump.chunks)
    assert len(payload) == dump.size == min(40_000, filled * 8)
    at = 0

    def read(buffer: memoryview) -> None:
        nonlocal at
        buffer[:] = payload[at : at + buffer.nbytes]
        at += buffer.nbytes

    again = NumpyTable.restored(config, {**dump.header, "size": dump.size}, read, lambda _needed, _held: None)
    assert at == len(payload)
    every = np.arange(10_000)
    for now in (NOW, NOW + 90_000, NOW + 90_100):
        expected = table.absent(every // 1_000, (every % 1_000).astype(np.int32)[:, None], now)
        answers = again.absent(every // 1_000, (every % 1_000).astype(np.int32)[:, None], now)
        assert (answers == expected).all()
    if filled == 9_000:  # R4 goes on: what was restored is not shortened by a later, shorter TTL
        shard, taken = int(shards[0]), set(flat.tolist())
        row = [int(positions[0, 0]), next(at for at in range(1_000) if shard * 1_000 + at not in taken)]
        assert again.add_if_absent_one(shard, row, NOW, NOW + 10)
        assert not again.absent_one(shard, row[:1], NOW + 90_000)


def test_saved_only_if_changed_and_by_flush(path: Path, deduper: Make) -> None:
    context = connect(MemoryConfig(path=str(path)))
    store = MemoryDataStore(context, "shop")
    context.flush()
    assert not path.exists()
    store.add_one(deduper(), 1, [1], NOW, NOW + 1)
    store.flush()
    first = path.stat()
    store.absent_one(deduper(), 1, [1], NOW)
    store.add_if_absent_one(deduper(), 1, [1], NOW, NOW + 1)
    context.flush()
    assert path.stat().st_ino == first.st_ino
    path.chmod(0o640)
    store.add_if_absent_one(deduper(), 1, [2], NOW, NOW + 1)
    context.close()
    assert path.stat().st_ino != first.st_ino
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".solus.state.solus-lock", "solus.state"]


def test_a_second_open_is_refused_and_names_the_holder(written: Path) -> None:
    context = connect(MemoryConfig(path=str(written)))
    with pytest.raises(StoreError, match=rf"open in this process \(pid {os.getpid()}\)"):
        connect(MemoryConfig(path=str(written)))
    link = written.with_name("link")
    link.symlink_to(written)
    with pytest.raises(StoreError, match="open in this process"):
        connect(MemoryConfig(path=str(link)))
    code = f"from solus_memory import *; connect(MemoryConfig(path={str(written)!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert f"another process (pid {os.getpid()})" in other.stderr
    context.close()
    connect(MemoryConfig(path=str(written))).close()


def beside(path: Path) -> list[str]:
    """The other files of its directory."""
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)


def test_files_of_others_are_neither_changed_nor_removed(written: Path, deduper: Make) -> None:
    """As poetry.lock beside a state named poetry."""
    others = ["lock", "new", "tmp", "1234.solus-new", "abcdefgh.solus-new", "12345678.solus-new"]
    for name in others:
        written.with_name(f"{written.name}.{name}").write_text("precious")
        written.with_name(f".{written.name}.{name}").write_text("precious")
    link = written.with_name(f".{written.name}.87654321.solus-new")
    link.symlink_to(written.with_name(f"{written.name}.lock"))
    before = {*beside(written)}
    context = connect(MemoryConfig(path=str(written)))
    MemoryDataStore(context, "shop").add_one(deduper(), 1, [1], NOW, NOW + 1)
    context.close()
    # The one that can only be a save's that was killed.
    assert before - {*beside(written)} == {f".{written.name}.12345678.solus-new"}
    for name in (*others[:3], others[5]):
        assert written.with_name(f"{written.name}.{name}").read_text() == "precious"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lock: lock.write_bytes(b"4711\n"), "content that is not ours"),
        (lambda lock: lock.write_bytes(b"lock of solus-memory, process 7\n" * 2), "content that is not ours"),
        (lambda lock: lock.symlink_to(lock.with_name("victim")), "symbolic link"),
        (lambda lock: lock.symlink_to(lock.with_name("nowhere")), "symbolic link"),
        (lambda lock: lock.mkdir(), "directory"),
        (os.mkfifo, "no regular file"),
    ],
)
def test_a_lock_file_that_is_not_ours_is_refused_and_left(
    written: Path, make: Callable[[Path], object], message: str
) -> None:
    lock = written.with_name(".solus.state.solus-lock")
    victim = written.with_name("victim")
    victim.write_bytes(b"precious")
    lock.unlink()
    make(lock)
    before = lock.read_bytes() if lock.is_file() else None
    with pytest.raises(InvalidConfigError, match=message):
        connect(MemoryConfig(path=str(written)))
    assert before == (lock.read_bytes() if lock.is_file() else None)
    assert victim.read_bytes() == b"precious"
    assert not written.with_name("nowhere").exists()


def refused(path: Path, message: str) -> None:
    before = path.read_bytes()
    for _ in range(2):  # the lock is free again
        with pytest.raises(StoreError, match=message) as caught:
            connect(MemoryConfig(path=str(path)))
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert path.read_bytes() == before


def test_foreign_newer_and_empty_files_are_refused(path: Path) -> None:
    for content, message in (
        (b"", "is empty"),
        (b"{}\n", "no state file"),
        (b"SQLite format 3\0" * 100, "no state file"),
        (MAGIC, "cut off"),
        (MAGIC + b"\x02\0\0\0" + bytes(100), "format 2, written by a newer"),
        (MAGIC + b"\x01\0\0\0" + bytes(100), "checksum"),
    ):
        path.write_bytes(content)
        refused(path, message)


def test_every_cut_and_every_flipped_byte_is_noticed(written: Path) -> None:
    whole = written.read_bytes()
    for size in range(1, len(whole), 97):
        written.write_bytes(whole[:size])
        refused(written, "no state file|cut off|checksum")
    for at in range(0, len(whole), 41):
        written.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        refused(written, "no state file|newer|checksum")
    written.write_bytes(whole + b"\0")
    refused(written, "checksum")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), ours=st.booleans(), sealed=st.booleans())
def test_any_bytes_are_refused(path: Path, content: bytes, ours: bool, sealed: bool) -> None:
    """``ours``: they start as our files do; ``sealed``: the checksum is right, so that the content is read."""

    data = (MAGIC + b"\x01\0\0\0" if ours else b"") + content
    path.write_bytes(data + (hashlib.sha256(data).digest() if sealed else b""))
    refused(path, "refused and left as it is")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", "x"),
        ("unit", 7),
        ("size", 3),
        ("size", -8),
        ("size", 10**15),
        ("dense", True),
        ("odd", [[1]]),
        ("key", ["shop"]),
        ("config", {"shards": 1}),
        ("config", None),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(written: Path, field: str, value: object) -> None:
    """As a program with a fault would write it: the checksum is right."""

    data = written.read_bytes()[:-32]
    start = data.index(b'{"key"')
    end = data.index(b"}", data.index(b'"size"')) + 1
    end = data.index(b"}", data.index(b'"size"', start)) + 1
    header = json.loads(data[start:end])
    new = json.dumps({**header, field: value}).encode()
    data = data[: start - 4] + len(new).to_bytes(4, "little") + new + data[end:]
    written.write_bytes(data + hashlib.sha256(data).digest())
    refused(written, "makes no sense")


def test_paths_that_cannot_be_used(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "no" / "where", "there is no directory"),
        (tmp_path, "is a directory"),
        (Path("/dev/null"), "no regular file"),
        (tmp_path / ("a" * 300) / "b", "too long"),
        (tmp_path / ("a/" * 3_000 + "b"), "too long"),
    ):
        with pytest.raises(InvalidConfigError, match=message):
            connect(MemoryConfig(path=str(path)))


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_a_read_only_file_is_refused_and_not_replaced(
    written: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """By its mode, which does not bind a superuser, and by what the system says."""
    written.chmod(mode)
    if mode == 0o644:
        monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("solus.state"))
    with pytest.raises(InvalidConfigError, match="read-only"):
        connect(MemoryConfig(path=str(written)))


def test_a_name_that_leaves_no_room_for_the_files_beside_it(tmp_path: Path, deduper: Make) -> None:
    """Refused at open: a save at the end could only fail."""
    longest = os.pathconf(tmp_path, "PC_NAME_MAX") - 20
    with pytest.raises(InvalidConfigError, match=f"longer than {longest} bytes"):
        connect(MemoryConfig(path=str(tmp_path / ("x" * (longest + 1)))))
    context = connect(MemoryConfig(path=str(tmp_path / ("x" * longest))))
    MemoryMetaStore(context, "shop").create(deduper())
    context.close()


def test_a_directory_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By a patch: the permissions of a directory do not bind a superuser.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InvalidConfigError, match="can't be written"):
        connect(MemoryConfig(path=str(path)))


def test_a_path_below_a_directory_that_may_not_be_entered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By a patch: the permissions of a directory do not bind a superuser.
    def refuse(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(InvalidConfigError, match="can't be used: Permission denied"):
        connect(MemoryConfig(path=str(path)))


def test_killed_while_saving_leaves_the_old_or_the_new_file_whole(path: Path, deduper: Make) -> None:
    """SIGKILL at each step of a save in turn; the lock is free afterwards and the file says 1 or 2."""
    script = textwrap.dedent("""
        import os, signal, sys
        from solus_core.model import DeDuper, DeDuperConfig
        from solus_memory import *
        path, die = sys.argv[1], int(sys.argv[2])
        context = connect(MemoryConfig(path=path))
        store = MemoryDataStore(context, "shop")
        of = DeDuper(name="orders", client_id="shop", config=DeDuperConfig())
        store.add_one(of, 1, [1], 1_700_000_000_000, 1_700_000_000_010)
        context.flush()
        store.add_one(of, 2, [1], 1_700_000_000_000, 1_700_000_000_010)
        events = 0
        def hook(event, args):
            global events
            if event in ("open", "os.rename", "os.remove", "os.chmod"):
                events += 1
                if events == die:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        context.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    lost = []
    for die in range(1, 7):
        path.unlink(missing_ok=True)
        run = subprocess.run([sys.executable, "-c", script, str(path), str(die)], check=False)
        assert run.returncode == -signal.SIGKILL
        context = connect(MemoryConfig(path=str(path)))
        store = MemoryDataStore(context, "shop")
        assert not store.absent_one(deduper(), 1, [1], NOW)
        lost.append(store.absent_one(deduper(), 2, [1], NOW))
        assert beside(path) == [".solus.state.solus-lock"]  # what the killed one left is gone
        context.close()
    assert lost == sorted(lost, reverse=True)
    assert set(lost) == {True, False}
