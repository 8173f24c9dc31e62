"""First-seen items of a stream, marked only when the consumer is done with them (R25)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from solus_core.entities import Entity, Ttl, encode
from solus_core.errors import BatchError

if TYPE_CHECKING:
    from solus_core.handle import DeDuperHandle

Item = TypeVar("Item")


def unique(
    handle: DeDuperHandle,
    items: Iterable[Item],
    ttl: Ttl,
    key: Callable[[Item], Entity] | None,
    batch_size: int,
    mark_first: bool,
) -> Iterator[Item]:
    """See ``DeDuperHandle.unique``. Marks trail the consumer by one batch at most."""
    source = iter(items)
    failure: Exception | None = None
    while failure is None:
        first_seen: dict[bytes, tuple[Entity, Item]] = {}
        read = 0
        try:
            for item in islice(source, batch_size):
                read += 1
                entity: Any = item if key is None else key(item)
                first_seen.setdefault(encode(entity), (entity, item))
        except Exception as error:  # raised below, after what came before it was yielded
            failure = error
        if mark_first:
            yield from _claimed(handle, first_seen, ttl)
        else:
            yield from _absent(handle, first_seen, ttl)
        if read < batch_size:
            break
    if failure is not None:
        raise failure


def _absent(handle: DeDuperHandle, first_seen: dict[bytes, tuple[Entity, Item]], ttl: Ttl) -> Iterator[Item]:
    answers = handle.check_absence_many(entity for entity, _ in first_seen.values())
    done: list[Entity] = []
    try:
        for (entity, item), absent in zip(first_seen.values(), answers.values(), strict=True):
            if absent:
                yield item
                done.append(entity)  # the consumer has come back
    finally:
        handle.add_many(done, ttl)


def _claimed(handle: DeDuperHandle, first_seen: dict[bytes, tuple[Entity, Item]], ttl: Ttl) -> Iterator[Item]:
    failure: BatchError | None = None
    try:
        answers = handle.add_if_absent_many((entity for entity, _ in first_seen.values()), ttl)
    except BatchError as error:
        answers, failure = error.answers, error  # type: ignore[assignment]  # its keys are this batch's entities
    for entity, item in first_seen.values():
        if answers.get(entity, False):
            yield item
    if failure is not None:
        raise failure
