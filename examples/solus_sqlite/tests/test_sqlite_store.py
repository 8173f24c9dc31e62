"""What the kit can't know: crashes, forks, files that are not ours, and how large the file grows."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from solus_core.config import parse_url
from solus_core.errors import InvalidConfigError, SolusError, StoreError
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_sqlite import SqliteConfig, SqliteDataStore, connect
from solus_sqlite.config import settings_from_url

NOW = 1_700_000_000_000
OFFERS = DeDuper(name="offers", client_id="shop", config=DeDuperConfig())

# Adds batch 1, then dies within batch 2: at SQL statements that begin so, the n-th of them.
DIES = """
import os, signal, sys
from solus_core.model import DeDuper, DeDuperConfig
from solus_core.testing import craft
from solus_sqlite import SqliteConfig, SqliteDataStore, connect

path, statement, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
offers = DeDuper(name="offers", client_id="shop", config=DeDuperConfig())
context = connect(SqliteConfig(path=path))
store = SqliteDataStore(context, "shop")
batch = lambda first: craft(offers, *((shard, range(7)) for shard in range(first, first + 100)))
store.add(batch(0), 1_700_000_000_000, 1_700_000_001_000)

def die(sql):
    global left
    if sql.startswith(statement):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

with context.transaction() as connection:
    connection.set_trace_callback(die)
store.add_if_absent(batch(100), 1_700_000_000_000, 1_700_000_001_000)
"""


@pytest.mark.parametrize(("statement", "number"), [("BEGIN", 1), ("INSERT INTO positions", 350), ("COMMIT", 1)])
def test_killed_in_a_batch_it_is_there_whole_or_not_at_all(tmp_path: Path, statement: str, number: int) -> None:
    """R2, R5, R8: what was answered before the kill is there; the batch that was not answered can be won again."""
    path = str(tmp_path / "solus.db")
    number += statement == "COMMIT"  # the first one ends the transaction in which the trace was set
    run = subprocess.run([sys.executable, "-c", DIES, path, statement, str(number)], check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    with closing(connect(SqliteConfig(path=path))) as context:
        store = SqliteDataStore(context, "shop")
        first, second = (craft(OFFERS, *((s, range(7)) for s in range(n, n + 100))) for n in (0, 100))
        assert not store.absent(first, NOW + 1_000).any()
        assert store.absent(second, NOW).all()
        assert store.add_if_absent(second, NOW, NOW + 1_000).all()
        stats = store.stats(OFFERS, NOW)
        assert (stats.live, len(stats.expiries), set(stats.expiries)) == (1_400, 1_000, {NOW + 1_000})
        with context.transaction() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_file_stops_growing(tmp_path: Path) -> None:
    """R10: once adds and expiries balance, the file keeps its size."""
    sizes = []
    with closing(connect(SqliteConfig(path=str(tmp_path / "solus.db")))) as context:
        store = SqliteDataStore(context, "shop")
        for hour in range(60):
            now = NOW + hour * 3_600_000
            shards = range(hour * 50, hour * 50 + 50)
            store.add(craft(OFFERS, *((shard, range(7)) for shard in shards)), now, now + 10 * 3_600_000)
            with context.transaction() as connection:
                sizes.append(connection.execute("PRAGMA page_count").fetchone()[0])
    assert max(sizes[20:]) <= 1.2 * sizes[15]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at open files in /proc")
def test_no_connection_crosses_a_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: the child starts without the parent's connection, parent and child both go on, from any folder."""
    path = str(tmp_path / "solus.db")
    monkeypatch.chdir(tmp_path)
    with closing(connect(SqliteConfig(path="solus.db"))) as context:
        monkeypatch.chdir("/")
        store = SqliteDataStore(context, "shop")
        row = craft(OFFERS, (5, range(7)))
        store.add(row, NOW, NOW + 1_000)
        assert _open_files(path)
        child = os.fork()
        if child == 0:
            os._exit(bool(_open_files(path)) + 2 * bool(store.absent(row, NOW)[0]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not store.absent(row, NOW)[0]


# Python 3.12 warns that a thread may hold a lock while the process forks: that it may is what is tested.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forks_wait_for_a_writing_thread(tmp_path: Path) -> None:
    """R24: a fork interrupts no transaction of another thread, and no child is left with a lock that nobody frees."""
    with closing(connect(SqliteConfig(path=str(tmp_path / "solus.db")))) as context, ThreadPoolExecutor(1) as thread:
        store = SqliteDataStore(context, "shop")
        row = craft(OFFERS, (-1, range(7)))
        store.add(row, NOW, NOW + 1_000)
        writes = [
            thread.submit(store.add, craft(OFFERS, *((shard, range(7)) for shard in range(i, i + 200))), NOW, NOW + 1)
            for i in range(30)
        ]
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that hangs
                os._exit(bool(store.absent(row, NOW)[0]))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for write in writes:
            write.result()


def test_expired_rows_stay_for_a_caller_who_waited(tmp_path: Path) -> None:
    """R2: a call whose ``now`` lies half a minute back, as it waited for the lock, finds what lived at that time."""
    with closing(connect(SqliteConfig(path=str(tmp_path / "solus.db")))) as context:
        store = SqliteDataStore(context, "shop")
        early, late = craft(OFFERS, (5, range(7))), craft(OFFERS, (6, range(7)))
        store.add(early, NOW, NOW + 10)
        store.add(late, NOW + 30_000, NOW + 40_000)
        assert not store.add_if_absent(early, NOW + 5, NOW + 10)[0]


@pytest.mark.parametrize("write", [True, False])
def test_a_commit_that_fails_is_in_doubt_if_it_wrote(tmp_path: Path, write: bool) -> None:
    """R23: what a failed COMMIT wrote may be there after a crash, and the error says so."""

    def deny_commits(action: int, argument: str | None, *_: object) -> int:
        denied = (action, argument) == (sqlite3.SQLITE_TRANSACTION, "COMMIT")
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK

    with closing(connect(SqliteConfig(path=str(tmp_path / "solus.db")))) as context:
        with pytest.raises(StoreError, match="authorized") as caught, context.transaction(write=write) as connection:
            connection.set_authorizer(deny_commits)
        assert caught.value.in_doubt is write


def _open_files(path: str) -> list[str]:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return [target for link in links if link.is_symlink() and (target := os.readlink(link)).startswith(path)]


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    """R5, R23: whoever comes while another makes the tables waits for it, and one of them wins."""
    row = craft(OFFERS, (5, range(7)))
    with ThreadPoolExecutor(8) as threads:
        for i in range(20):
            config = SqliteConfig(path=str(tmp_path / f"{i}.db"))

            def first_use(_: int, config: SqliteConfig = config) -> bool:
                with closing(connect(config)) as context:
                    return bool(SqliteDataStore(context, "shop").add_if_absent(row, NOW, NOW + 1_000)[0])

            assert sum(threads.map(first_use, range(8))) == 1, f"round {i}"


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE invoices (number)")


def later_layout(path: Path) -> None:
    connect(SqliteConfig(path=str(path))).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def cut_short(path: Path) -> None:
    connect(SqliteConfig(path=str(path))).close()
    os.truncate(path, 4_096)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign, "was not written by this solus-sqlite"),
        (later_layout, "was not written by this solus-sqlite"),
        (cut_short, "malformed"),
        (lambda path: path.write_text("id,name\n" * 1_000), "not a database"),
        (Path.mkdir, "unable to open"),
        (lambda path: path.parent.rmdir(), "unable to open"),
    ],
    ids=["foreign", "later-layout", "cut-short", "text", "folder", "no-folder"],
)
def test_a_file_that_cannot_be_used_is_refused_at_open(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    """R22: one clear error at open, and the file is left as it was."""
    path = tmp_path / "sub" / "solus.db"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=message) as caught:
        connect(SqliteConfig(path=str(path)))
    assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_failure_is_an_error_with_its_cause_and_the_next_call_works(tmp_path: Path) -> None:
    """R22, R23: a full file gives no answer; what was there stays, and is added once there is room."""
    with closing(connect(SqliteConfig(path=str(tmp_path / "solus.db")))) as context:
        store = SqliteDataStore(context, "shop")
        many = craft(OFFERS, *((shard, range(7)) for shard in range(1_000)))
        with context.transaction() as connection:
            connection.execute("PRAGMA max_page_count = 20")
        with pytest.raises(StoreError, match="full") as caught:
            store.add_if_absent(many, NOW, NOW + 1_000)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert not caught.value.in_doubt
        assert store.add_if_absent(many, NOW, NOW + 1_000).all()
        context.close()
        with pytest.raises(SolusError, match="closed"):
            store.absent(many, NOW)


@pytest.mark.parametrize("url", ["sqlite://host/solus.db", "sqlite:///a?path=b", "sqlite://u:p@/a"])
def test_urls_that_mean_nothing_are_refused(url: str) -> None:
    with pytest.raises(InvalidConfigError, match="sqlite:///path/to/file"):
        settings_from_url(parse_url(url))


def test_all_problems_of_a_config_come_together() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        SqliteConfig(path="", farm="a|b")
    assert len(caught.value.problems) == 2
