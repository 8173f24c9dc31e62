"""Store URLs and settings: parsed once, strictly, with every problem named and no password shown (row 15)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from solus_core import Level, SolusError
from solus_core.config import (
    StorageConfig,
    StoreUrl,
    addresses,
    build_config,
    parse_url,
    scheme_of,
    wrong_hosts,
    wrong_types,
)
from solus_core.errors import InvalidConfigError


@frozen
class Sample(StorageConfig):
    table: str
    port: int = 1
    ratio: float = 0.5
    secure: bool = False
    level: Level = Level.XDC


def test_all_parts_of_a_url() -> None:
    assert parse_url("HBase://me:p%40ss%3A@h1:9090,h2,[::1]:3,[fe80::1%25eth0]/solus/x?farm=dc%201&empty=") == StoreUrl(
        scheme="hbase",
        hosts=(("h1", 9090), ("h2", None), ("::1", 3), ("fe80::1%eth0", None)),
        path="/solus/x",
        options={"farm": "dc 1", "empty": ""},
        user="me",
        password="p@ss:",
    )
    assert parse_url("memory://") == StoreUrl("memory")
    assert parse_url("memory:///a%20b").path == "/a b"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nothing", "must start with a scheme"),
        ("", "must start with a scheme"),
        ("a://h?x", "not of the form name=value"),
        ("a://h?=x", "not of the form name=value"),
        ("a://h?x=1&x=2", "option 'x' is given twice"),
        ("a://h:0", "port '0', allowed are 1 to 65535"),
        ("a://h:99999", "port '99999'"),
        ("a://h:", "port ''"),
        ("a://h:9x", "port '9x'"),
        ("a://h:²", "port '²'"),
        ("a://h,,g", "host '' is not"),
        ("a://::1", "host '::1' is not of the form"),
        ("a://h/%zz", "write %25"),
        ("a://h?x=%ff", "write %25"),
        ("a://h/x#y", "write %23"),
    ],
)
def test_what_is_wrong_is_said(url: str, message: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_url(url)
    assert message in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_url("a://h:0,g:x/%?b=1&b=2&c")
    assert len(caught.value.problems) == 5


def test_row_15_a_password_is_decoded_and_never_shown() -> None:
    url = parse_url("a://me:s%65cret@h/?token=secret")
    assert url.password == "secret"
    assert "secret" not in repr(url)
    for bad in (
        "a://me:se/secret@h",
        "a://me:se?secret@h",
        "a://me:se#secret@h",
        "a://me:secret%@h:0",
        "a://me:secret@h?x",
        "a://h?token=secret%",
        "me:secret@h",
        "a://h?secret",
    ):
        with pytest.raises(InvalidConfigError) as caught:
            parse_url(bad)
        assert "secret" not in str(caught.value), bad


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for url in (text, "a://" + text):
        with suppress(InvalidConfigError):
            assert parse_url(url).scheme == scheme_of(url)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"table": "t"}, Sample("t")),
        ({"table": "t", "port": "8", "ratio": "1.5", "secure": "true"}, Sample("t", 8, 1.5, True)),
        ({"table": "t", "ratio": "-0.5"}, Sample("t", ratio=-0.5)),  # who has the limits says what is allowed
        ({"table": "t", "level": "DC"}, Sample("t", level=Level.DC)),
        ({"table": "t", "level": Level.DC}, Sample("t", level=Level.DC)),
        ({"table": "t", "port": 8, "ratio": 2, "secure": False}, Sample("t", 8, 2.0, False)),
    ],
)
def test_settings_become_a_typed_config(settings: dict[str, object], expected: Sample) -> None:
    assert build_config(Sample, settings, "settings") == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "table is missing"),
        ({"table": 1}, "table: 1 is not a text"),
        ({"table": "t", "port": 1.9}, "port: 1.9 is not a whole number"),
        ({"table": "t", "port": True}, "port: True is not a whole number"),
        ({"table": "t", "port": "٣"}, "port: '٣' is not a whole number"),
        ({"table": "t", "ratio": "x"}, "ratio: 'x' is not a number"),
        ({"table": "t", "secure": "yes"}, "secure: 'yes' is neither true nor false"),
        ({"table": "t", "secure": 0}, "secure: 0 is neither true nor false"),
        ({"table": "t", "level": "dc"}, "level: 'dc' is none of XDC, DC"),
        ({"table": "t", "prot": 1}, "'prot' is not a setting, allowed are level, port, ratio, secure, table"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SolusError) as caught:
        build_config(Sample, settings, "settings")
    assert message in str(caught.value)


def test_all_wrong_settings_are_reported_together() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        build_config(Sample, {"port": "x", "secure": "y", "extra": 1, "other": 2}, "settings")
    assert len(caught.value.problems) == 5, caught.value.problems


@frozen
class Typed(StorageConfig):
    text: str = "x"
    secret: str | None = field(default=None, repr=False)
    whole: int = 1
    number: float = 0.5
    switch: bool = True


def test_wrong_types_are_named() -> None:
    """R22: for configs that are made in Python, which checks no types itself."""
    assert wrong_types(Typed()) == {}
    assert wrong_types(Typed(secret="s", number=3)) == {}
    wrong: dict[str, Any] = {"text": None, "secret": 7, "whole": True, "number": True, "switch": 1}
    assert wrong_types(Typed(**wrong)) == {
        "text": "text is None, and must be a text",
        "secret": "secret is of another type, and must be a text",
        "whole": "whole is True, and must be a whole number",
        "number": "number is True, and must be a number",
        "switch": "switch is 1, and must be True or False",
    }
    wrong = {"text": b"x", "whole": 1.0, "number": "1"}
    assert list(wrong_types(Typed(**wrong))) == ["text", "whole", "number"]


def test_hosts() -> None:
    assert wrong_hosts("h,h:1,[::1],[fe80::1%eth0]:65535,10.0.0.1:3000") == []
    assert addresses("h,h:1,[::1],[::2]:9", 5) == (("h", 5), ("h", 1), ("::1", 5), ("::2", 9))
    for wrong in ("", "h,", "h:", "h:x", "h:123456", "::1", "[::1", "h/x", "h h", "h:²", "h\x00", "h\n"):
        (problem,) = wrong_hosts(f"ok,{wrong}" if "," not in wrong else wrong)
        assert "is not of the form host, host:port or [IPv6]:port" in problem
    assert wrong_hosts("a:0,b:65536") == [
        "host 'a:0' has port 0, allowed are 1 to 65535",
        "host 'b:65536' has port 65536, allowed are 1 to 65535",
    ]
