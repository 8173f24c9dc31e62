"""Which key a record has: JSON fields, CSV columns, whole lines, composite keys."""

import csv
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core.cli.keys import BadRecordError, composite, csv_fields, csv_key, json_key, line_key, nul_key
from solus_core.entities import encode


def reason(names: list[str], record: bytes) -> str:
    with pytest.raises(BadRecordError) as caught:
        json_key(names)(record)
    return caught.value.reason


@pytest.mark.parametrize(
    ("names", "record", "key"),
    [
        (["id"], b'{"id": "a"}\n', b"a"),
        (["id"], b'  {"n": 1, "id": 7}  \r\n', b"7"),
        (["id"], b'{"id": -0}', b"0"),
        (["id"], b'{"id": ""}', b""),
        (["id"], '{"id": "café"}'.encode(), "café".encode()),
        (["id"], b'{"id": "caf\\u00e9"}', "café".encode()),
        (["id"], b'{"\\u0069d": "escaped name"}', b"escaped name"),
        (["id"], b'{"id": "line\\nend"}', b"line\nend"),
        (["id"], b'{"id": "\\ud83d\\ude00"}', "\N{GRINNING FACE}".encode()),
        (["data.id"], b'{"id": 0, "data": {"id": "in"}}', b"in"),
        (["data.id"], b'{"data.id": "literal", "data": {"id": "in"}}', b"literal"),
        (["a.b.c"], b'{"a": {"b": {"c": 3}}}', b"3"),
        (["items.1.id"], b'{"items": [{"id": 1}, {"id": 2}]}', b"2"),
        (["items.1"], b'{"items": {"1": "a name, not an index"}}', b"a name, not an index"),
        (["id", "source"], b'{"id": "a", "source": "web"}', b"1:a3:web"),
        (["id"], b'{"id": "a", "x": 1, "x": 2}', b"a"),
        (["id"], b'{"id": "a", "x": "\\ud800"}', b"a"),
    ],
)
def test_json_keys(names: list[str], record: bytes, key: bytes) -> None:
    assert json_key(names)(record) == key


@pytest.mark.parametrize(
    ("names", "record", "expected"),
    [
        (["id"], b'{"n": 5}', "key 'id' is missing"),
        (["id"], b'{"id": null}', "key 'id' is null"),
        (["id"], b'{"id": 1.0}', "key 'id' is a number with a fraction or exponent"),
        (["id"], b'{"id": 1e3}', "key 'id' is a number with a fraction or exponent"),
        (["id"], b'{"id": true}', "key 'id' is true or false"),
        (["id"], b'{"id": [1]}', "key 'id' is a list"),
        (["id"], b'{"id": {}}', "key 'id' is an object"),
        (["id"], b'{"id": "\\ud800"}', "key 'id' has a lone surrogate"),
        (["id"], b'{"id": "x3", "id": "x4"}', "field 'id' is given more than once"),
        (["id"], b'{"id": "x3", "\\u0069d": "x4"}', "field 'id' is given more than once"),
        (["d.id"], b'{"d": {"id": 1}, "d": {"id": 2}}', "field 'd' is given more than once"),
        (["d.id"], b'{"d": {"id": 1, "id": 1}}', "field 'id' is given more than once"),
        (["d.id"], b'{"d": "text"}', "key 'd.id' is missing"),
        (["d.9"], b'{"d": [1]}', "key 'd.9' is missing"),
        (["d.-1"], b'{"d": [1]}', "key 'd.-1' is missing"),
        (["id", "s"], b'{"id": 1}', "key 's' is missing"),
        (["id"], b"[1, 2]", "not a JSON object"),
        (["id"], b'"text"', "not a JSON object"),
        (["id"], b"null", "not a JSON object"),
        (["id"], b'{"id": ', "not valid JSON"),
        (["id"], b'{"id": 1} {"id": 2}', "not valid JSON"),
        (["id"], b'{"id": "a\nb"}', "not valid JSON"),
        (["id"], b'{"id": 1, "x": NaN}', "not valid JSON"),
        (["id"], b'{"id": 1, "x": -Infinity}', "not valid JSON"),
        (["id"], b'\xef\xbb\xbf{"id": 1}', "not valid JSON"),
        (["id"], b'{"id": "caf\xe9"}', "not UTF-8"),
        (["id"], b'{"id": "\xed\xa0\x80"}', "not UTF-8"),
        (["id"], b'{"id": 1, "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
    ],
)
def test_bad_json_records_say_why(names: list[str], record: bytes, expected: str) -> None:
    assert reason(names, record) == expected


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="this Python has no limit on digits")
@pytest.mark.parametrize("field", ["id", "other"])
def test_a_number_with_too_many_digits_is_bad(field: str) -> None:
    record = f'{{"id": 1, "{field}": {"9" * 5000}}}'.encode()
    assert reason(["id"], record) == "a number has too many digits"


@pytest.mark.parametrize("record", [b"", b"\n", b"\r\n", b" \t \n"])
def test_a_blank_line_has_no_key_and_is_not_bad(record: bytes) -> None:
    assert json_key(["id"])(record) is None
    assert json_key(["id", "b"])(record) is None


@given(st.one_of(st.text(st.characters(codec="utf-8")), st.integers(-(10**30), 10**30)))
def test_a_single_key_is_the_entity_itself(value: str | int) -> None:
    """R20: what engine.add(value) marked, the command finds; 1 and "1" are one entity."""
    record = json.dumps({"id": value}).encode()
    assert json_key(["id"])(record) == encode(value)


PARTS = st.lists(st.binary(max_size=12) | st.sampled_from([b"1:a", b":", b"1", b"12:", b""]), min_size=2, max_size=4)


@given(PARTS, PARTS)
def test_composite_keys_are_equal_only_if_their_parts_are(one: list[bytes], other: list[bytes]) -> None:
    """Case 12: ("a", "bc") is not ("ab", "c")."""
    assert (composite(one) == composite(other)) == (one == other)


def test_the_encoding_of_composite_keys_never_changes() -> None:
    """States kept by earlier versions must stay readable."""
    assert composite([b"a", b"bc"]) == b"1:a2:bc"
    assert composite([b"ab", b"c"]) == b"2:ab1:c"
    assert composite(["é".encode(), b""]) == b"2:\xc3\xa90:"


def test_line_and_nul_keys() -> None:
    assert line_key(b"a\r\n") == line_key(b"a\n") == line_key(b"a") == b"a"
    assert line_key(b" a\n") == b" a"
    assert line_key(b"\n") == b""
    assert line_key(b"a\r\r\n") == b"a\r"
    assert nul_key(b"a\n\0") == b"a\n"


# CSV

TEXT_CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.lists(TEXT_CELL, min_size=2, max_size=4), min_size=1, max_size=3), st.sampled_from(",;\t"))
def test_csv_fields_reads_what_the_csv_module_writes(rows: list[list[str]], delimiter: str) -> None:
    for row in rows:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter).writerow(row)
        cells = csv_fields(text.getvalue().encode(), delimiter.encode())
        assert [cell.decode() for cell in cells] == row


def test_csv_keys_by_column() -> None:
    key_of = csv_key(["'id'", "'size'"], [0, 2], 3, b",")
    assert key_of(b'1,"a, b",x\r\n') == b"1:11:x"
    assert key_of(b'"say ""hi""",,\n') == b'8:say "hi"0:'
    assert key_of(b"\r\n") is None
    assert csv_key(["2"], [1], None, b";")(b"a;b;c") == b"b"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b"1,2", "not as many columns as the header"),
        (b"1,2,3,4", "not as many columns as the header"),
        (b",b,c", "the key is empty"),
        (b'"1"x,2,3', "text after a closing quote"),
        (b'1,2,"3\n', "a quoted field is never closed"),
    ],
)
def test_bad_csv_records_say_why(record: bytes, expected: str) -> None:
    with pytest.raises(BadRecordError) as caught:
        csv_key(["'id'"], [0], 3, b",")(record)
    assert caught.value.reason == expected


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(BadRecordError) as caught:
        csv_key(["3"], [2], None, b",")(b"1,2\n")
    assert caught.value.reason == "column 3 is missing"
