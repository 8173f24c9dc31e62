"""Records as puts, each key once if wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from solus_core.clock import system_clock
from solus_core.entities import Entity, Ttl, encode
from solus_core.errors import BatchError, InvalidArgumentError, InvalidConfigError, SolusError, StoreError
from solus_core.handle import DeDuperHandle
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.stream_calls import refused, stream_calls
from solus_hbase.gateway.thrift2 import IDL
from solus_hbase.streams.errors import Record, RecordError
from solus_hbase.streams.mapping import DEFAULT_BUFFER, TableMapping
from solus_hbase.streams.outcome import MOST_REFUSED, Entry, OnBad, Outcome
from solus_hbase.streams.rows import Rows
from solus_hbase.streams.sink import BufferedSink, check_callable

_Payload: TypeAlias = tuple[Any, bytes]
"""The row as a TPut, and the entity of its key (empty without de-duplication)."""

_CALL_WIRE: Final = 40
"""Bytes of a call beside its rows and the name of the table, at the most."""


@final
class PutSink(BufferedSink[_Payload]):
    """Writes records into a table as ``mapping`` says.

    A flush is one call for each 2 MiB, the buffer's usual size. It is repeated where it failed, since a put may be; a
    row that the server refuses is found by halving, so that the others get through. A try that was held up on its way
    may come after a later put of the same row, and hide it; so may a record of which the mark (below) failed, as it is
    written again. Rows that are written more than once need a ``timestamp_field``.

    ``unique``, ``key``, ``ttl``: write a record only if the entity that ``key`` makes of it is new to this
    de-duper, and mark it as seen for ``ttl`` once it is written (R25). A repeat is acknowledged as if it had been
    written, once the first one is. Marks come last, so what any mark would raise now is raised here
    (``DeDuperHandle.check_ready``); and ``write_to_wal`` must be on. ``on_bad``: what to do with records that can't be
    written, and those that the server refuses, instead of raising. ``clock``: epoch milliseconds, for the ages of
    records. ``patience``: seconds that ``add`` tries to make room; the last try is not cut short, and may take
    ``attempts`` times ``timeout`` more.
    """

    def __init__(
        self,
        context: HBaseContext,
        mapping: TableMapping,
        *,
        unique: DeDuperHandle | None = None,
        key: Callable[[Record], Entity] | None = None,
        ttl: Ttl | None = None,
        on_bad: OnBad | None = None,
        clock: Callable[[], int] = system_clock,
        patience: float = 30.0,
    ) -> None:
        _check_fields(mapping)
        self._key_field = mapping.row_key_field
        self._rows = Rows(mapping)
        self._unique: tuple[DeDuperHandle, Callable[[Record], Entity], Ttl] | None = None
        if unique is not None:
            if key is None or ttl is None:
                raise InvalidArgumentError("unique is given without key and ttl")
            check_callable("key", key)
            if not mapping.write_to_wal:
                problem = "write_to_wal is off: a crash of HBase takes back rows that are marked as seen by then"
                raise InvalidConfigError("PutSink with unique", [problem])
            unique.unique((), ttl=ttl)  # checks the ttl, and that there is such a de-duper
            unique.check_ready()
            self._unique = unique, key, ttl
        elif key is not None or ttl is not None:
            raise InvalidArgumentError("key or ttl is given without unique")
        self._calls = stream_calls(context, mapping.table, list(mapping.column_families), what="PutSink")
        self._is_framed = context.config.transport == "framed"
        # A framed server takes no more than this in one call, all told.
        self._most = DEFAULT_BUFFER - (_CALL_WIRE + len(self._calls.table) if self._is_framed else 0)
        super().__init__(self._payload, self._write, mapping, on_bad, clock, patience, repeatable=True)

    def _payload(self, record: Record) -> tuple[_Payload, int]:
        put, size = self._rows.put(record)
        if self._is_framed and size > self._most:
            problem = f"is the key of a row of {size:,} bytes, and over transport=framed a call has {self._most:,}"
            raise RecordError(record, self._key_field, problem)
        if self._unique is None:
            return (put, b""), size
        try:
            return (put, encode(self._unique[1](record))), size
        except KeyError as error:
            raise RecordError(
                record, str(error.args[0]) if error.args else "key", "is missing, and key needs it"
            ) from error
        except Exception as error:  # of whatever key is made of: it is this record that it can't do
            raise RecordError(record, "key", f"gives no entity: {type(error).__name__}: {error}") from error

    def _write(self, outcome: Outcome[_Payload]) -> None:
        if self._unique is None:
            self._put(outcome)
        else:
            self._put_unique(outcome, *self._unique)

    def _put(self, outcome: Outcome[_Payload]) -> None:
        parts, given_up = _calls_of(outcome.batch, self._most)[::-1], 0
        whole = set(map(id, parts))
        while parts:
            part = parts.pop()
            outcome.begun.append(part)
            try:
                self._calls.put([entry.payload[0] for entry in part])
            except StoreError as error:
                outcome.errors.append(error)
                looked_at = refused(error)
                if looked_at and len(part) > 1 and given_up < MOST_REFUSED:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                    continue
                given_up += 1
                if not error.in_doubt and _is_unapplied(part, error, is_whole=id(part) in whole):
                    outcome.unapplied.append(part)
                if not looked_at:
                    # Nobody answers: the other parts would each wait for that too.
                    return
                if len(part) == 1:
                    outcome.refused.append((part[0], error))
            else:
                outcome.done.append(part)
                # Something gets through: it is not the table.
                given_up = 0

    def _put_unique(self, outcome: Outcome[_Payload], unique: DeDuperHandle, _: object, ttl: Ttl) -> None:
        first: dict[bytes, Entry[_Payload]] = {}
        for entry in outcome.batch:
            first.setdefault(entry.payload[1], entry)
        absent = unique.check_absence_many(first)
        # Until it is marked, what is written is not done.
        outcome.begun.append(outcome.batch)
        puts = Outcome([entry for entity, entry in first.items() if absent[entity]])
        self._put(puts)
        _, kept = puts.split()
        undone: set[object] = {entry.payload[1] for entry in kept}
        doubtful: set[object] = {entry.payload[1] for entry in puts.doubtful(kept)}
        outcome.errors += puts.errors
        outcome.refused += puts.refused
        fresh = [entity for entity in first if absent[entity] and entity not in undone]
        try:
            unique.add_many(fresh, ttl)
        except SolusError as error:
            # Written and not marked: written again with the next flush, rather than taken for done.
            unmarked = error.unprocessed if isinstance(error, BatchError) else fresh
            undone.update(unmarked)
            doubtful.update(unmarked)
            outcome.errors.append(error)
        outcome.unapplied.append([entry for entry in outcome.batch if entry.payload[1] not in doubtful])
        outcome.done.append([entry for entry in outcome.batch if entry.payload[1] not in undone])


def _is_unapplied(part: list[Entry[_Payload]], error: StoreError, *, is_whole: bool) -> bool:
    """Is none of it written, where its call is in no doubt? ``is_whole``: it is not half of a call that was refused."""
    if len(part) == 1 and refused(error):
        return True
    # What beside the bad rows of a call was good may be written: by the call that was halved, or by this one.
    is_answered = isinstance(error.__cause__, (IDL.TIOError, IDL.TIllegalArgument))
    return is_whole and (len(part) == 1 or not is_answered)


def _check_fields(mapping: TableMapping) -> None:
    """Each qualifier is a field here: one that no record has would refuse all of them."""
    if mapping.fields is None:
        return
    problems = [
        f"family {family!r} has {qualifier!r}, which is not among the fields"
        for family, qualifiers in mapping.column_families.items()
        for qualifier in qualifiers
        if qualifier not in mapping.fields
    ]
    if problems:
        raise InvalidConfigError("PutSink", problems)


def _calls_of(entries: list[Entry[_Payload]], most: int) -> list[list[Entry[_Payload]]]:
    """Parts of at most so many bytes, each for one call; a larger entry is one alone."""
    parts: list[list[Entry[_Payload]]] = [[]]
    size = 0
    for entry in entries:
        if parts[-1] and size + entry.size > most:
            parts.append([])
            size = 0
        parts[-1].append(entry)
        size += entry.size
    return parts
