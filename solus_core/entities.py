"""What callers pass in, made exact: entities to bytes (R20), batches to distinct entities (R6), TTLs to ms (R9)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from solus_core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from solus_core.model import DeDuper

Entity: TypeAlias = str | bytes | int | UUID
Ttl: TypeAlias = int | timedelta

_MILLISECOND: Final = timedelta(milliseconds=1)


def encode(entity: Entity) -> bytes:
    """The bytes that are hashed for ``entity``.

    Text in UTF-8, a lone surrogate as ``?``; ``int`` and ``UUID`` as their decimal and canonical text. Anything
    else raises ``TypeError`` that says what to pass.
    """
    if isinstance(entity, str):
        try:
            return str.encode(entity)
        except UnicodeEncodeError:
            # As the Java library sees the same text: two halves that form a pair are one character there.
            joined = str.encode(entity, "utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            return joined.encode("utf-8", "replace")
    if isinstance(entity, bytes):
        return bytes(entity)
    if isinstance(entity, int) and not isinstance(entity, bool):
        try:
            return int.__repr__(entity).encode()
        except ValueError as error:
            raise InvalidArgumentError(
                f"an int entity has {entity.bit_length()} bits, too many to write in decimal ({error}); "
                "pass its text or its bytes"
            ) from None
    if isinstance(entity, UUID):
        return str(entity).encode()
    raise TypeError(
        f"an entity must be str, bytes, int or uuid.UUID, not {type(entity).__name__}"
        f" ({_short(entity)}): pass the text that identifies the event, e.g. str(value)"
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def distinct(entities: Iterable[Entity]) -> tuple[dict[Entity, bool], list[bytes]]:
    """The distinct entities of a batch in first-seen order, as given, and their bytes: both of one length.

    The entities are keys, so that answers can be put in; until then all are True. ``1`` and ``"1"`` are one entity,
    answered under the form that came first. A single ``str`` or ``bytes`` is refused: its characters are hardly the
    batch that was meant.
    """
    if isinstance(entities, (str, bytes)):
        raise TypeError(f"a batch must be an iterable of entities, not one {type(entities).__name__}")
    batch = list(entities)
    # The usual batches are all str or all bytes: then equal objects are equal entities, and map() does the rest.
    kinds = set(map(type, batch))
    if kinds == {bytes}:
        unique = dict.fromkeys(batch, True)
        return unique, list(unique)  # type: ignore[arg-type]  # all bytes, as just seen
    if kinds == {str}:
        try:
            unique = dict.fromkeys(batch, True)
            return unique, list(map(str.encode, unique))  # type: ignore[arg-type]  # all str, as just seen
        except UnicodeEncodeError:
            pass  # texts with different lone surrogates can have the same bytes: the careful way below
    by_bytes: dict[bytes, Entity] = {}
    for index, entity in enumerate(batch):
        try:
            by_bytes.setdefault(encode(entity), entity)
        except TypeError as error:
            raise TypeError(f"entity {index} of the batch: {error}") from None
    return dict.fromkeys(by_bytes.values(), True), list(by_bytes)


def ttl_ms(ttl: Ttl) -> int:
    """A TTL in milliseconds, rounded up so that it never gets shorter; ``> 0`` is checked here."""
    if type(ttl) is int:
        milliseconds = ttl
    elif isinstance(ttl, timedelta):
        milliseconds = ttl // _MILLISECOND + bool(ttl % _MILLISECOND)
    else:
        raise TypeError(
            f"ttl must be a datetime.timedelta or an int of milliseconds, not {type(ttl).__name__} ({_short(ttl)})"
        )
    if milliseconds <= 0:
        raise InvalidArgumentError(f"ttl is {ttl!r}, allowed is anything above 0")
    return milliseconds


def check_ttl(milliseconds: int, deduper: DeDuper) -> None:
    """A TTL above the de-duper's expiry would be cut by the storage and turn into a missed duplicate (R9)."""
    allowed = deduper.config.expiry_seconds * 1000
    if milliseconds > allowed:
        raise InvalidArgumentError(
            f"ttl is {milliseconds} ms, allowed are at most {allowed} ms: "
            f"de-duper {deduper.name!r} has expiry_seconds={deduper.config.expiry_seconds}"
        )
