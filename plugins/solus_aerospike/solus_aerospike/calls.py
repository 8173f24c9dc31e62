"""The calls on data records, single and in batches: what is sent, and what the driver's answers mean."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar, final

from aerospike import exception
from aerospike_helpers.batch.records import (  # type: ignore[import-untyped]  # it has no types
    BatchRecords,
    Read,
    Write,
)
from aerospike_helpers.operations.expression_operations import (  # type: ignore[import-untyped]  # it has no types
    expression_read,
)

from solus_aerospike.batches import Item, Progress
from solus_aerospike.context import AerospikeContext
from solus_aerospike.farms import Farms
from solus_aerospike.places import Key, Place
from solus_aerospike.retry import CURABLE, NOT_FOUND, is_curable, tried_again
from solus_core.errors import ErrorCode, StoreError

_ABSENT: Final = "absent"
_ANY_ERROR: Final = 1
_TIMEOUT: Final = 9
_NO_NODE: Final = -8
_NO_ANSWER: Final = -15

_TURNS: Final = 20
"""Times that a record's TTL may have been on the other side of ours, before we stop trying."""

_WHOLE_RECORDS: Final = 20
"""Read in one call: a record has half a MB at most."""

T = TypeVar("T")


@final
class Calls:
    """Makes the calls on behalf of a store. ``positions``: distinct ones.

    ``farms``: whose data count, to be asked for each try, as a call can outlive the farms of its begin; raises for a
    call that may not be made.
    """

    __slots__ = ("_caller", "_context", "_policy")

    def __init__(self, context: AerospikeContext) -> None:
        self._context = context
        self._caller = context.caller
        self._policy = context.reading()

    def absent(self, place: Place, farms: Farms, shard: int, positions: Collection[int], now: int) -> bool:
        key = place.key(shard)

        def call() -> bool:
            operations = [expression_read(_ABSENT, place.layout.absent(farms(), positions, now))]
            return bool(self._operate(key, operations, {})[2][_ABSENT])

        try:
            return self._caller.read(_at(place.looking, key), call)
        except exception.RecordNotFound:
            return True

    def add(self, place: Place, shard: int, positions: Collection[int], expires_at: int) -> None:
        key, operations = place.key(shard), place.layout.writes(positions, expires_at)

        def call() -> None:
            self._in_turn(place, lambda options: self._operate(key, operations, options))

        self._caller.write(_at(place.adding, key), call)

    def add_if_absent(
        self, place: Place, farms: Farms, shard: int, positions: Collection[int], now: int, expires_at: int
    ) -> bool:
        key = place.key(shard)

        def try_with(options: dict[str, Any]) -> bool:
            operations, guard = place.layout.guarded(farms(), positions, now, expires_at)
            try:
                self._operate(key, operations, options | guard)
            except exception.AerospikeError as error:
                if error.args[0] != place.layout.PRESENT:
                    raise
                return False
            return True

        return self._caller.check_and_write(_at(place.adding, key), lambda: self._in_turn(place, try_with))

    def absent_of(self, place: Place, farms: Farms, chunk: list[Item], now: int, progress: Progress) -> None:
        """Answer all rows of the chunk."""

        def records(items: list[Item]) -> list[Any]:
            known, made = farms(), []
            for item in items:
                expression = place.layout.absent(known, item.positions, now)
                made.append(Read(place.key(item.shard), [expression_read(_ABSENT, expression)]))
            return made

        def answered(item: Item, told: Any) -> None:
            progress.answer(item.rows, told.result == NOT_FOUND or bool(told.record[2][_ABSENT]))

        self._batch(place.looking, chunk, records, answered, {NOT_FOUND})

    def add_all(self, place: Place, chunk: list[Item], expires_at: int, progress: Progress) -> None:
        def records(items: list[Item]) -> list[Any]:
            made = []
            for item in items:
                operations = place.layout.writes(item.positions, expires_at)
                made.append(Write(place.key(item.shard), operations, policy=place.options[item.turn]))
            return made

        def answered(item: Item, _: Any) -> None:
            progress.finish(item.rows)

        self._batch(place.adding, chunk, records, answered, place.other_turn, place)

    def add_absent(
        self, place: Place, farms: Farms, chunk: list[Item], now: int, expires_at: int, progress: Progress
    ) -> None:
        def records(items: list[Item]) -> list[Any]:
            known, made = farms(), []
            for item in items:
                operations, guard = place.layout.guarded(known, item.positions, now, expires_at)
                made.append(Write(place.key(item.shard), operations, policy=place.options[item.turn] | guard))
            return made

        def answered(item: Item, told: Any) -> None:
            if told.result == 0:
                progress.finish(item.rows)
                progress.answer(item.rows[:1], True)
            elif item.doubt is None:
                progress.finish(item.rows)
            else:
                item.fail(StoreError(item.doubt.code, tried_again(place.adding, item.doubt.message), in_doubt=True))

        self._batch(place.adding, chunk, records, answered, {*place.other_turn, place.layout.PRESENT}, place)

    def live(self, place: Place, farms: tuple[str, ...], shards: list[int], now: int) -> list[int]:
        """When each live position of these shards expires."""
        found: list[int] = []

        def records(items: list[Item]) -> list[Any]:
            return [Read(place.key(item.shard), None, read_all_bins=True) for item in items]

        def answered(_: Item, told: Any) -> None:
            if told.result != NOT_FOUND:
                found.extend(place.layout.live(farms, told.record[2], now))

        items = [Item(shard, frozenset(), i) for i, shard in enumerate(shards)]
        for first in range(0, len(items), _WHOLE_RECORDS):
            part = items[first : first + _WHOLE_RECORDS]
            self._batch(f"counting in {place.deduper.name!r}", part, records, answered, {NOT_FOUND})
        return found

    def _operate(self, key: Key, operations: list[Any], options: dict[str, Any]) -> Any:
        return self._context.client.operate(key, operations, policy=self._policy | options)

    def _in_turn(self, place: Place, write: Callable[[dict[str, Any]], T]) -> T:
        """The answer of a write with the options that fit the record's TTL (see ``Place``)."""
        if len(place.options) == 1:
            return write(place.options[0])
        first = place.turn  # others change it meanwhile
        for i in range(_TURNS):
            turn = (first + i) % 2
            try:
                answer = write(place.options[turn])
            except (exception.FilteredOut, exception.RecordNotFound):
                continue
            place.turn = turn
            return answer
        raise _overtaken(place.adding)

    def _batch(
        self,
        what: str,
        chunk: list[Item],
        records: Callable[[list[Item]], list[Any]],
        answered: Callable[[Item, Any], None],
        answers: Collection[int],
        place: Place | None = None,
    ) -> None:
        """Ask for the record of each item, again where that can help; raise if one is left without an answer.

        ``records``: what to send for some of the items. ``answers``: codes of records that are no failure, beside 0.
        ``place``: of a write.
        """
        pending = chunk
        for item in chunk:
            item.turn = 0 if place is None else place.turn

        def step() -> bool:
            nonlocal pending
            pending = self._round(what, pending, records, answered, answers, place)
            return not pending

        self._caller.rounds(step)
        failure = next((item.failure for item in chunk if item.failure is not None), None)
        if failure is not None:
            raise failure

    def _round(
        self,
        what: str,
        asked: list[Item],
        records: Callable[[list[Item]], list[Any]],
        answered: Callable[[Item, Any], None],
        answers: Collection[int],
        place: Place | None,
    ) -> list[Item]:
        """Those that are worth another round."""
        again = []
        for _ in range(_TURNS):
            turned = []
            told_of = self._send(what, records(asked), answers)
            for item, told in zip(asked, told_of, strict=True):
                if isinstance(told, StoreError):
                    item.fail(told)
                    if is_curable(told):
                        again.append(item)
                elif place is not None and told.result in place.other_turn:
                    item.turn = 1 - item.turn
                    turned.append(item)
                else:
                    item.failure = None
                    answered(item, told)
            asked = turned
            if not asked:
                break
        for item in asked:
            item.fail(_overtaken(what))
        return again

    def _send(self, what: str, asked: list[Any], answers: Collection[int]) -> list[Any]:
        """What became of each record: itself if it was answered, or how it failed.

        The call does not raise for what the server or the network do.
        """
        batch = BatchRecords(asked)
        try:
            self._context.client.batch_write(batch, self._policy)
        except exception.AerospikeError as error:
            return [self._caller.failure(what, error)] * len(asked)
        return [one if _is_answered(one, answers) else self._unanswered(what, batch.result, one) for one in asked]

    def _unanswered(self, what: str, of_all: int, one: Any) -> StoreError:
        """How the record failed, in a batch whose result is ``of_all``."""
        code, message = one.result or of_all or _NO_ANSWER, getattr(one, "message", None)
        if one.result == 0 and of_all == _ANY_ERROR:
            code, message = _NO_NODE, "no node can be reached"
        elif one.result == _NO_ANSWER and of_all in CURABLE:
            code = of_all  # why there is none: refused, lost, late
        # To the client a row is not in doubt if the server said something: here, that it gave up waiting for others.
        in_doubt = one.in_doubt or (isinstance(one, Write) and one.result == _TIMEOUT)
        return self._caller.failure(_at(what, one.key), self._caller.error(code, message), in_doubt=in_doubt)


def _at(what: str, key: Key) -> str:
    return f"{what}, record {key[2]!r}"


def _is_answered(one: Any, answers: Collection[int]) -> bool:
    # Without a node the client leaves the records at 0, as if all were well; a stored record's generation isn't 0.
    return one.result in answers or (one.result == 0 and one.record is not None and one.record[1]["gen"] > 0)


def _overtaken(what: str) -> StoreError:
    return StoreError(
        ErrorCode.AEROSPIKE_ERROR, f"{what}: others changed the record's TTL in between, {_TURNS} times over; try again"
    )
