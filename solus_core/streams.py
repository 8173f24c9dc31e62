"""First-seen items of a stream, marked only when the consumer is done with them (R25)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
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
    is_read = False
    try:
        for (entity, item), absent in zip(first_seen.values(), answers.values(), strict=True):
            if absent:
                yield item
                done.append(entity)  # the consumer has come back
        is_read = True
    finally:
        if is_read or not _is_in_a_call():
            handle.add_many(done, ttl)


def _is_in_a_call() -> bool:
    """Is this thread in the middle of another call of ours?

    The garbage collector may close a stream anywhere, also where this thread holds a lock of the store: it would wait
    for itself. So nothing is marked then, and items come again, as after a crash.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("solus_") and not name.startswith((__name__, "solus_core.testing")):
            return True
        frame = frame.f_back
    return False


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
