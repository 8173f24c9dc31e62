"""Counters that count each transaction once (R27).

Beside a counter ``q`` is the id of the last transaction of each source that raised it: ``q_txid`` for the nameless
source, as the Storm bolts wrote it, and ``q_txid:<source>`` for a named one. So ids of different sources can't be
taken for each other, and a source that is replayed is recognised whatever the others did meanwhile.

A step is: read the counter and the id; equal ids mean that it was done; otherwise write both in one atomic mutation
of the row, on the condition that the counter still is what was read. The counter is the witness because everybody
who changes it raises it, each of our steps and plain increments too, so a value that was read can't come back. It can
where somebody lowers the counter: then a step that the HBase client in the Thrift server repeats by itself, after an
answer that was lost, may count twice. We repeat none: a step that got no answer is resolved by reading the id again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, TypeAlias, final

from attrs import define

from solus_core.errors import ErrorCode, InvalidArgumentError, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import COUNTER, Column, StreamCalls, refused, stream_calls
from solus_hbase.streams.counter_sink import check_counters
from solus_hbase.streams.errors import CounterError, Record, RecordError, StaleTransactionError
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.outcome import OnBad
from solus_hbase.streams.rows import TXID, Rows
from solus_hbase.streams.sink import check_callable, check_record
from solus_hbase.workers import Workers

_LARGEST: Final = 2**63 - 1
_LONGEST_TXID: Final = 1_000
"""Bytes: what is a number counts something, and one of megabytes is a mistake that no cell would take."""
_LONGEST_PAUSE: Final = 2.0
"""Seconds before a step that failed is tried again, at most."""
_ROUNDS: Final = 100
"""Times that others may be first at one counter before we stop trying."""

_Cell: TypeAlias = tuple[bytes, Column]
"""Row key and column of a counter."""


@final
class IdempotentCounterSink:
    """Raises counters as ``CounterSink`` does, in transactions of which each counts once.

    Ids of one source must rise, and a transaction must be complete before the next one of its source begins: then
    a transaction that failed half way is replayed, with the same records, until it is complete. An id older than
    the one in a counter is refused. Sources do not disturb each other, nor does a plain ``increment``, which may only
    raise a counter: one that is lowered meanwhile may count a transaction twice.

    What a family forgets by its time to live, an id as well as a counter, can be counted again; and so can what a
    crash of HBase takes back where ``write_to_wal`` is off. ``mapping`` says nothing here with ``batch``,
    ``write_buffer_size`` and ``flush_interval``: the transaction is the batch. Threads may share it. ``on_bad``: what
    to do with records that can't be counted, instead of raising.
    """

    def __init__(self, context: HBaseContext, mapping: TableMapping, *, on_bad: OnBad | None = None) -> None:
        check_counters(mapping, "IdempotentCounterSink")
        check_callable("on_bad", on_bad)
        calls = stream_calls(
            context,
            mapping.table,
            list(mapping.column_families),
            what="IdempotentCounterSink",
            write_to_wal=mapping.write_to_wal,
        )
        config = context.config
        self._shared = _Shared(Rows(mapping), calls, Workers(config.pool_size), on_bad, config.attempts, config.backoff)

    def __enter__(self) -> IdempotentCounterSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def transaction(self, txid: int, source: str | None = None) -> Transaction:
        """A transaction of ``source`` (None: the nameless one), to be filled and committed.

        An id has 1,000 bytes at most, as it is stored. As a context manager it commits at the end
        of the block, unless that raised.
        """
        self._shared.check_open()
        if type(txid) is not int:
            raise TypeError(f"txid must be an int, not {type(txid).__name__}")
        if source is not None and not isinstance(source, str):
            raise TypeError(f"source must be a str or None, not {type(source).__name__}")
        if (txid + (txid < 0)).bit_length() >= 8 * _LONGEST_TXID:
            raise InvalidArgumentError(f"txid has {txid.bit_length():,} bits, allowed are {_LONGEST_TXID:,} bytes")
        if source == "":
            raise InvalidArgumentError("source is empty: give it a name, or None for the nameless source")
        try:
            suffix = TXID if source is None else TXID + b":" + source.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"source is {source!r}, which has no UTF-8 form: {error.reason}") from error
        return Transaction(self._shared, txid, source, suffix)

    def close(self) -> None:
        """Begin nothing more, and let the threads that write go. What was not committed counts nothing."""
        self._shared.closed = True
        self._shared.workers.close()


@final
@define(eq=False)
class _Shared:
    """What a sink and its transactions have in common."""

    rows: Rows
    calls: StreamCalls
    workers: Workers
    on_bad: OnBad | None
    attempts: int
    backoff: float
    closed: bool = False

    def check_open(self) -> None:
        if self.closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this sink is closed")


@final
class Transaction:
    """Records that count together. Get it from ``IdempotentCounterSink.transaction``; threads may share it.

    It holds one number for each counter that it raises, so these must fit into memory.
    """

    def __init__(self, shared: _Shared, txid: int, source: str | None, suffix: bytes) -> None:
        self.txid = txid
        self.source = source
        self._shared = shared
        self._suffix = suffix
        self._lock = threading.Lock()
        self._amounts: Counter[_Cell] = Counter()
        self._committing = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()

    def add(self, record: Record) -> None:
        """Count a record when this is committed. Raises ``RecordError``, or calls ``on_bad`` and goes on."""
        check_record(record)
        try:
            row, columns, _ = self._shared.rows.counters(record)
        except RecordError as error:
            if self._shared.on_bad is None:
                raise
            self._shared.on_bad(error)
            return
        with self._lock:
            if self._committing:
                raise InvalidArgumentError(
                    f"transaction {self.txid} is being committed: what comes now would not count, begin the next one"
                )
            self._amounts.update([(row, column) for column in columns])

    def commit(self) -> int:
        """Raise the counters that this transaction has not raised yet; answers how many those were.

        May be called again after a failure, or replayed with the same records in another process: it goes on where
        it stopped. ``StaleTransactionError``: a counter has seen a newer one of this source. ``CounterError``: a cell
        is no counter, or can't be raised any more; to commit again does not help. If these were found out at the
        start, as usual, nothing was changed.
        """
        self._shared.check_open()
        with self._lock:
            self._committing = True
        cells = list(self._amounts)
        held = self._read(cells)
        todo = [(cell, value) for cell, (value, stored) in zip(cells, held, strict=True) if self._is_new(cell, stored)]
        for cell, value in todo:
            self._total(cell, value)
        done: list[_Cell] = []
        try:
            self._shared.workers.run([self._step(cell, value, done) for cell, value in todo])
        except StoreError as error:
            raise StoreError(
                error.code,
                f"{error.message}; transaction {self.txid} is in {len(cells) - len(todo) + len(done)} of "
                f"{len(cells)} counters: commit it again, or replay it",
                in_doubt=error.in_doubt,
            ) from error.__cause__
        return len(done)

    def _step(self, cell: _Cell, value: int | None, done: list[_Cell]) -> Callable[[], None]:
        def step() -> None:
            self._raise(cell, value)
            done.append(cell)

        return step

    def _raise(self, cell: _Cell, value: int | None) -> None:
        """Raise one counter of which ``value`` was read."""
        row, column = cell
        doubt, failed = False, 0
        for _ in range(_ROUNDS):
            written = [
                (*column, COUNTER.pack(self._total(cell, value))),
                (*self._id_of(column), txid_bytes(self.txid)),
            ]
            try:
                if self._shared.calls.replace(row, column, None if value is None else COUNTER.pack(value), written):
                    return
                denied = True
            except StoreError as error:
                failed, denied, doubt = failed + 1, False, doubt or error.in_doubt
                if failed >= self._shared.attempts or refused(error):
                    raise StoreError(error.code, error.message, in_doubt=doubt) from error.__cause__
                time.sleep(min(self._shared.backoff * 2**failed, _LONGEST_PAUSE) * random.random())
            # It was applied and its answer lost, or somebody else was first: the id says so.
            try:
                ((value, stored),) = self._read([cell])
            except StoreError as error:
                raise StoreError(error.code, error.message, in_doubt=doubt or denied) from error.__cause__
            if not self._is_new(cell, stored):
                return
        raise StoreError(
            ErrorCode.HBASE_ERROR,
            f"others raised counter {_shown(cell)} first, {_ROUNDS} times over; try again",
            in_doubt=doubt,
        )

    def _total(self, cell: _Cell, value: int | None) -> int:
        total = (value or 0) + self._amounts[cell]
        if total > _LARGEST:
            raise _bad(cell, f"is {value}, and {self._amounts[cell]} more would exceed {_LARGEST}")
        return total

    def _is_new(self, cell: _Cell, stored: int | None) -> bool:
        if stored is not None and stored > self.txid:
            raise StaleTransactionError(self.txid, stored, self.source, _shown(cell))
        return stored != self.txid

    def _read(self, cells: Sequence[_Cell]) -> list[tuple[int | None, int | None]]:
        """Of each counter: its value, and the last transaction of this source."""
        columns: dict[bytes, list[Column]] = {}
        for row, column in cells:
            columns.setdefault(row, []).extend((column, self._id_of(column)))
        found = dict(zip(columns, self._shared.calls.get(list(columns.items())), strict=True)) if columns else {}
        return [
            (
                _counter(cell, found[cell[0]].get(cell[1])),
                _txid(cell, found[cell[0]].get(self._id_of(cell[1]))),
            )
            for cell in cells
        ]

    def _id_of(self, column: Column) -> Column:
        return column[0], column[1] + self._suffix


def txid_bytes(txid: int) -> bytes:
    """The fewest bytes of two's complement that hold the id, big-endian: as Java's ``BigInteger`` writes itself."""
    return txid.to_bytes((txid + (txid < 0)).bit_length() // 8 + 1, "big", signed=True)


def _txid(cell: _Cell, value: bytes | None) -> int | None:
    if value is None:
        return None
    if not 0 < len(value) <= _LONGEST_TXID:
        raise _bad(
            cell, f"has an id of {len(value)} bytes beside it, and ids of transactions have 1 to {_LONGEST_TXID}"
        )
    return int.from_bytes(value, "big", signed=True)


def _counter(cell: _Cell, value: bytes | None) -> int | None:
    if value is None:
        return None
    if len(value) != COUNTER.size:
        raise _bad(cell, f"holds {len(value)} bytes and is none, which has {COUNTER.size}")
    return int(COUNTER.unpack(value)[0])


def _bad(cell: _Cell, problem: str) -> CounterError:
    row, (family, qualifier) = cell
    return CounterError(row, family + b":" + qualifier, problem)


def _shown(cell: _Cell) -> str:
    row, (family, qualifier) = cell
    return f"{row.decode(errors='replace')!r} {family.decode()}:{qualifier.decode(errors='replace')}"
