"""Counters that count each transaction once (R27).

Beside a counter ``q`` is the id of the last transaction of each source that raised it: ``q_txid`` for the nameless
source, as the Storm bolts wrote it, and ``q_txid:<source>`` for a named one. So ids of different sources can't be
taken for each other, and a source that is replayed is recognised whatever the others did meanwhile.

A step is: read the counter and the id; equal ids mean that it was done; otherwise write both in one atomic mutation
of the row, on the condition that the counter still is what was read. The counter is the witness because everybody
who changes it changes its value: each of our steps raises it, so a value that was read can't come back, and plain
increments are noticed too. A step that got no answer is resolved by reading the id again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, TypeAlias, final

from solus_core.errors import ErrorCode, InvalidArgumentError, StoreError
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import COUNTER, Column, StreamCalls, stream_calls
from solus_hbase.streams.counter_sink import check_counters
from solus_hbase.streams.errors import Record, RecordError, StaleTransactionError
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.rows import Rows
from solus_hbase.streams.sink import OnBad
from solus_hbase.workers import Workers

_TXID: Final = b"_txid"
_LARGEST: Final = 2**63 - 1
_ROUNDS: Final = 100
"""Times that others may be first at one counter before we stop trying."""

_Cell: TypeAlias = tuple[bytes, Column]
"""Row key and column of a counter."""


@final
class IdempotentCounterSink:
    """Raises counters as ``CounterSink`` does, in transactions of which each counts once.

    Ids of one source must rise, and a transaction must be complete before the next one of its source begins: then
    a transaction that failed half way is replayed, with the same records, until it is complete. An id older than
    the one in a counter is refused. Sources do not disturb each other, nor does a plain ``increment``.

    What a family forgets by its time to live, the ids as well as the counters, can be counted again; and so can what
    a crash of HBase takes back where ``write_to_wal`` is off. ``mapping``
    says nothing here with ``batch``, ``write_buffer_size`` and ``flush_interval``: the transaction is the batch.
    Threads may share it. ``on_bad``: as in ``PutSink``.
    """

    def __init__(self, context: HBaseContext, mapping: TableMapping, *, on_bad: OnBad | None = None) -> None:
        check_counters(mapping, "IdempotentCounterSink")
        self._rows = Rows(mapping)
        self._calls = stream_calls(
            context,
            mapping.table,
            list(mapping.column_families),
            what="IdempotentCounterSink",
            write_to_wal=mapping.write_to_wal,
        )
        self._workers = Workers(context.config.pool_size)
        self._on_bad = on_bad

    def __enter__(self) -> IdempotentCounterSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def transaction(self, txid: int, source: str | None = None) -> Transaction:
        """A transaction of ``source`` (None: the nameless one), to be filled and committed.

        As a context manager it commits at the end of the block, unless that raised.
        """
        if type(txid) is not int:
            raise TypeError(f"txid must be an int, not {type(txid).__name__}")
        if source is not None and not isinstance(source, str):
            raise TypeError(f"source must be a str or None, not {type(source).__name__}")
        if source == "":
            raise InvalidArgumentError("source is empty: give it a name, or None for the nameless source")
        return Transaction(self._rows, self._calls, self._workers, self._on_bad, txid, source)

    def close(self) -> None:
        """Let the threads that write go. A transaction that was not committed counts nothing."""
        self._workers.close()


@final
class Transaction:
    """Records that count together. Get it from ``IdempotentCounterSink.transaction``; threads may share it.

    It holds one number for each counter that it raises, so these must fit into memory.
    """

    def __init__(
        self, rows: Rows, calls: StreamCalls, workers: Workers, on_bad: OnBad | None, txid: int, source: str | None
    ) -> None:
        self.txid = txid
        self.source = source
        self._suffix = _TXID if source is None else _TXID + b":" + source.encode()
        self._rows = rows
        self._calls = calls
        self._workers = workers
        self._on_bad = on_bad
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
        try:
            row, columns, _ = self._rows.counters(record)
            for _, qualifier in columns:
                if qualifier.endswith(_TXID) or _TXID + b":" in qualifier:
                    raise RecordError(
                        record, qualifier.decode(errors="replace"), "is a column in which ids of transactions are kept"
                    )
        except RecordError as error:
            if self._on_bad is None:
                raise
            self._on_bad(error)
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
        it stopped. ``StaleTransactionError``: a counter has seen a newer one of this source; if this was found out
        at the start, as usual, nothing was changed.
        """
        with self._lock:
            self._committing = True
        cells = list(self._amounts)
        held = self._read(cells)
        todo = [(cell, value) for cell, (value, stored) in zip(cells, held, strict=True) if self._is_new(cell, stored)]
        done: list[_Cell] = []
        try:
            self._workers.run([self._step(cell, value, done) for cell, value in todo])
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
        family, qualifier = column
        for _ in range(_ROUNDS):
            total = (value or 0) + self._amounts[cell]
            if total > _LARGEST:
                raise StoreError(ErrorCode.HBASE_ERROR, f"counter {_shown(cell)} would exceed {_LARGEST}")
            written = [(family, qualifier, COUNTER.pack(total)), (*self._id_of(column), txid_bytes(self.txid))]
            if self._calls.replace(row, column, None if value is None else COUNTER.pack(value), written):
                return
            # Somebody else was first, or an earlier try of this very call: the id says so.
            ((value, stored),) = self._read([cell])
            if not self._is_new(cell, stored):
                return
        raise StoreError(
            ErrorCode.HBASE_ERROR, f"others raised counter {_shown(cell)} first, {_ROUNDS} times over; try again"
        )

    def _is_new(self, cell: _Cell, stored: int | None) -> bool:
        if stored is not None and stored > self.txid:
            raise StaleTransactionError(self.txid, stored, self.source, _shown(cell))
        return stored != self.txid

    def _read(self, cells: Sequence[_Cell]) -> list[tuple[int | None, int | None]]:
        """Of each counter: its value, and the last transaction of this source."""
        columns: dict[bytes, list[Column]] = {}
        for row, column in cells:
            columns.setdefault(row, []).extend((column, self._id_of(column)))
        found = dict(zip(columns, self._calls.get(list(columns.items())), strict=True)) if columns else {}
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
    if value == b"":
        raise StoreError(ErrorCode.HBASE_ERROR, f"the id of a transaction beside counter {_shown(cell)} is empty")
    return None if value is None else int.from_bytes(value, "big", signed=True)


def _counter(cell: _Cell, value: bytes | None) -> int | None:
    if value is None:
        return None
    if len(value) != COUNTER.size:
        raise StoreError(
            ErrorCode.HBASE_ERROR,
            f"{_shown(cell)} holds {len(value)} bytes and is no counter, which has {COUNTER.size}",
        )
    return int(COUNTER.unpack(value)[0])


def _shown(cell: _Cell) -> str:
    row, (family, qualifier) = cell
    return f"{row.decode(errors='replace')!r} {family.decode()}:{qualifier.decode(errors='replace')}"
