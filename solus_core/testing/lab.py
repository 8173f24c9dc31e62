"""What the contract tests are made with: crafted probes, views of one store, threads and processes that race."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from solus_core.model import DeDuper, DeDuperConfig
from solus_core.stores import Bools, DataStore, Probes, SingleProbeStore

T = TypeVar("T")

OpenStore = Callable[[str, str], DataStore]
"""``open_store(client_id, farm)``: one more view on the same state."""


def craft(deduper: DeDuper, *rows: tuple[int, Sequence[int]]) -> Probes:
    """Probes of hand-made rows ``(shard, positions)``; fewer than ``k`` positions are repeated in turn (R3)."""
    k = deduper.config.hash_functions
    positions = np.empty((len(rows), k), np.int32)
    for i, (_, given) in enumerate(rows):
        assert 1 <= len(given) <= k, f"row {i} has {len(given)} positions of {k}"
        positions[i] = np.resize(np.asarray(given, np.int32), k)
    return Probes(deduper, np.array([shard for shard, _ in rows], np.int64), positions)


def spread(deduper: DeDuper, n: int, *, first: int = 0, seed: int = 0) -> Probes:
    """``n`` rows in a shuffled order, 50 to a shard, of which no two share a position of a shard.

    So each row's answer depends on that row alone. ``first`` numbers the first row: other numbers, other rows.
    """
    k, bits = deduper.config.hash_functions, deduper.config.bits_per_shard
    numbers = np.random.default_rng(seed).permutation(n) + first
    # Shards far apart, and blocks all over the shard, without two rows of a shard meeting.
    shards = (numbers // 50).astype(np.int64) * 9_973 % deduper.config.shards
    blocks = (numbers % 50) * (bits // 50)
    positions = (blocks[:, None] + np.arange(k)[None, ::-1]).astype(np.int32)
    return Probes(deduper, shards, positions)


def singles(store: SingleProbeStore, verb: str, probes: Probes, *times: int) -> Bools:
    """The rows of ``probes`` one by one through ``<verb>_one``; each answer must be a plain ``bool``."""
    call = getattr(store, f"{verb}_one")
    answers = np.zeros(len(probes), np.bool_)
    for i in range(len(probes)):
        answer = call(probes.deduper, int(probes.shards[i]), tuple(probes.positions[i].tolist()), *times)
        if verb != "add":
            assert type(answer) is bool, f"{verb}_one answered {answer!r}, a {type(answer).__name__}"
            answers[i] = answer
    return answers


@final
class Lab:
    """One test's view of the store under test: a client id that nobody used before, and every store it opened."""

    def __init__(self, open_store: OpenStore, now: int) -> None:
        self.client_id = f"kit-{uuid.uuid4().hex[:12]}"
        self.now = now
        self._open_store = open_store
        self._opened: list[DataStore] = []

    def open(self, client_id: str | None = None, farm: str = "dc1") -> DataStore:
        """One more view on the state of this test, closed at its end."""
        store = self._open_store(client_id or self.client_id, farm)
        self._opened.append(store)
        return store

    def close_all(self) -> None:
        while self._opened:
            self._opened.pop().close()

    def deduper(
        self,
        store: DataStore,
        name: str | None = None,
        *,
        client_id: str | None = None,
        config: DeDuperConfig | None = None,
    ) -> DeDuper:
        """A de-duper as the engine would hand it to ``store``, under a new name unless one is given."""
        return DeDuper(
            name=f"deduper-{uuid.uuid4().hex[:12]}" if name is None else name,
            client_id=client_id or self.client_id,
            config=config or DeDuperConfig(),
            layout=store.layout,
        )


@contextmanager
def _hasty_threads() -> Iterator[None]:
    # The interpreter changes threads 500 times as often: a gap between a check and its write is found sooner.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def race(*calls: Callable[[], T], timeout: float = 120.0) -> list[T]:
    """Run the calls in a thread each, started together; their answers in order, or the first one's error."""
    line = threading.Barrier(len(calls))
    answers: list[T | None] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            line.wait(timeout)
            answers[i] = calls[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    with _hasty_threads():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"a racing call did not return in {timeout:g} s"
    return answers  # type: ignore[return-value]  # no errors: every place was filled


def race_processes(works: Sequence[Callable[[Callable[[], None]], Any]], timeout: float = 120.0) -> list[Any]:
    """Run each work in a forked child; their answers (pickled back) in order.

    A work is given ``ready``: it calls it once it has opened what it needs, and goes on when all are ready.
    An exception in a child is raised here as a ``RuntimeError`` with the child's traceback.
    """
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    children: list[tuple[int, int]] = []
    try:
        for work in works:
            answer_r, answer_w = os.pipe()
            with warnings.catch_warnings():
                # Python 3.12 warns when threads run; a child that opens a connection of its own is R24's case.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                os.close(go_w)
                _work_in_child(work, answer_w, ready_w, go_r)
            os.close(answer_w)
            children.append((child, answer_r))
        for _ in works:
            _read(ready_r, 1, timeout)
        os.close(go_w)
        go_w = -1
        outcomes = [pickle.loads(_read(answer_r, None, timeout)) for _, answer_r in children]
    finally:
        for fd in (ready_r, ready_w, go_r, go_w, *(answer_r for _, answer_r in children)):
            if fd >= 0:
                os.close(fd)
        for child, _ in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    for ok, value in outcomes:
        if not ok:
            raise RuntimeError(f"in a forked child:\n{value}")
    return [value for _, value in outcomes]


def _work_in_child(work: Callable[[Callable[[], None]], Any], answer: int, ready: int, go: int) -> None:
    said: list[bool] = []

    def is_ready() -> None:
        said.append(True)
        os.write(ready, b".")
        os.read(go, 1)  # ends when the parent closes its side

    try:
        message = pickle.dumps((True, work(is_ready)))
    except BaseException:
        message = pickle.dumps((False, traceback.format_exc()))
    if not said:
        os.write(ready, b".")
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(message)
    # Not sys.exit: the rest of the test run is the parent's.
    os._exit(0)


def _read(fd: int, size: int | None, timeout: float) -> bytes:
    """``size`` bytes, or all up to the end."""
    got = b""
    while size is None or len(got) < size:
        if not select.select([fd], [], [], timeout)[0]:
            raise TimeoutError(f"a forked child did not answer in {timeout:g} s")
        part = os.read(fd, 65_536 if size is None else size - len(got))
        if not part:
            break
        got += part
    return got


def not_one_winner(answers: Sequence[NDArray[np.bool_]]) -> dict[int, int]:
    """The rows that had no winner, or more than one, among the racing answers: ``{row: winners}``."""
    winners = np.sum(np.array(answers, np.intp), axis=0)
    return {int(row): int(winners[row]) for row in np.flatnonzero(winners != 1)}


def winners_among_processes(
    opened: Callable[[], AbstractContextManager[DataStore]],
    verb: Callable[[DataStore, Probes], Bools],
    probes: Probes,
    parts: int,
) -> dict[int, int]:
    """``not_one_winner`` of 8 threads in each of 4 processes, which all ask for all rows at the same time.

    Each process has a store of its own from ``opened``, and each thread asks through ``verb`` in so many ``parts``, in
    an order of its own.
    """
    threads, processes = 8, 4

    def in_thread(store: DataStore, seed: int) -> Bools:
        answers = np.zeros(len(probes), np.bool_)
        for part in np.array_split(np.random.default_rng(seed).permutation(len(probes)), parts):
            answers[part] = verb(store, probes.rows(part))
        return answers

    def in_process(number: int, ready: Callable[[], None]) -> list[Bools]:
        with opened() as store:
            ready()
            return race(*(partial(in_thread, store, number * threads + i) for i in range(threads)), timeout=600)

    found = race_processes([partial(in_process, number) for number in range(processes)], timeout=600)
    return not_one_winner([answers for process in found for answers in process])
