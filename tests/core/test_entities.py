"""R6, R9, R20, R21: what callers may pass in, and what it stands for."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core import DeDuper, DeDuperConfig, ErrorCode, SolusError
from solus_core.entities import Entity, check_ttl, distinct, encode, ttl_ms

ANY_TEXT = st.text(st.characters(exclude_categories=()))


class Colour(enum.IntEnum):
    RED = 7


class Text(str):
    """A subclass that would answer otherwise if asked."""

    def encode(self, *_: object) -> bytes:
        return b"not this"


def test_r20_each_type_stands_for_its_text() -> None:
    uuid = UUID("AF8B82DC-8898-AE35-0657-83A15226F91E")
    assert encode("é") == b"\xc3\xa9"
    assert encode(b"\xff\x00") == b"\xff\x00"
    assert encode(-12) == encode("-12") == b"-12"
    assert encode(uuid) == encode("af8b82dc-8898-ae35-0657-83a15226f91e")
    assert encode(Colour.RED) == b"7"
    assert encode(Text("x")) == b"x"
    assert encode("") == b"", "R21: the empty string is an entity"


@pytest.mark.parametrize("bad", [True, 1.0, None, [1], (1,), {"a": 1}, bytearray(b"x"), np.int64(3), object()])
def test_r20_other_types_are_refused_with_what_to_pass(bad: Any) -> None:
    with pytest.raises(TypeError, match=rf"str, bytes, int or uuid.UUID, not {type(bad).__name__}"):
        encode(bad)
    with pytest.raises(TypeError, match="entity 1 of the batch"):
        distinct(["fine", bad])


def test_r20_an_int_too_long_to_write_is_one_clear_error() -> None:
    with pytest.raises(SolusError, match="bits") as caught:
        encode(10**5000)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_r20_lone_surrogates_are_question_marks_and_pairs_are_characters() -> None:
    assert encode("a\ud800b\udc00") == b"a?b?"
    assert encode("\udc00\ud800") == b"??"
    assert encode("\ud83c\udf9f") == "\U0001f39f".encode()


@given(ANY_TEXT)
def test_r20_every_text_encodes_as_java_would(text: str) -> None:
    # Java: UTF-16 code units; pairs joined; each half that is left becomes one question mark.
    utf16 = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert encode(text) == re.sub("[\ud800-\udfff]", "?", utf16).encode()


def parts(entities: Iterable[Entity]) -> tuple[list[Entity], list[bytes]]:
    answered, data = distinct(entities)
    assert all(answered.values()), "True until answered"
    return list(answered), data


def test_r6_distinct_entities_in_first_seen_order() -> None:
    assert parts(["b", "a", "b"]) == (["b", "a"], [b"b", b"a"])
    assert parts([b"b", b"a", b"b"]) == ([b"b", b"a"], [b"b", b"a"])
    mixed: list[Entity] = [1, "1", 2, b"2"]
    assert parts(iter(mixed)) == ([1, 2], [b"1", b"2"])
    assert parts([]) == ([], [])


@given(st.lists(st.one_of(ANY_TEXT, st.binary(max_size=3), st.integers(-9, 9), st.uuids())))
def test_r6_no_two_answers_have_the_same_bytes(batch: list[Any]) -> None:
    names, data = parts(batch)
    assert data == list(dict.fromkeys(map(encode, batch)))
    assert [encode(name) for name in names] == data


@pytest.mark.parametrize("bad", ["abc", b"abc"])
def test_a_single_text_is_no_batch(bad: Any) -> None:
    with pytest.raises(TypeError, match="iterable of entities"):
        distinct(bad)


@pytest.mark.parametrize(
    ("ttl", "milliseconds"),
    [
        (1, 1),
        (timedelta(seconds=2), 2_000),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1_001), 2),
        (timedelta(days=10), 864_000_000),
        (timedelta.max, 86_400_000_000_000_000),
    ],
)
def test_r9_ttls_are_milliseconds_and_never_rounded_down(ttl: Any, milliseconds: int) -> None:
    assert ttl_ms(ttl) == milliseconds


@pytest.mark.parametrize("bad", [1.5, True, None, "10d", np.int64(5)])
def test_r9_other_types_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match=type(bad).__name__):
        ttl_ms(bad)


@pytest.mark.parametrize("bad", [0, -1, timedelta(0), timedelta(microseconds=-1)])
def test_r9_a_ttl_must_be_above_zero(bad: Any) -> None:
    with pytest.raises(SolusError, match="above 0") as caught:
        ttl_ms(bad)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_r9_a_ttl_may_equal_the_expiry_and_not_exceed_it() -> None:
    deduper = DeDuper(name="d", client_id="c", config=DeDuperConfig(expiry_seconds=10))
    check_ttl(10_000, deduper)
    with pytest.raises(SolusError, match=r"10001 ms, allowed are at most 10000 ms.*expiry_seconds=10"):
        check_ttl(10_001, deduper)
