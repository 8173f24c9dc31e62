"""Settings: what URLs mean, and that everything wrong is said at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solus_aerospike import AerospikeConfig
from solus_aerospike.config import settings_from_url
from solus_core.config import build_config, parse_url
from solus_core.errors import InvalidConfigError, SolusError


def config(url: str) -> AerospikeConfig:
    return build_config(AerospikeConfig, settings_from_url(parse_url(url)), "aerospike:// URL")


def test_a_url_with_everything() -> None:
    made = config(
        "aerospike://shop:s%40cret@h1,h2:3001,[::1]:3002/test/solus?farm=dc1&layout=bins&port=3003"
        "&timeout=0.5&attempts=3&backoff=0.2&tls=true&tls_name=n&tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem"
    )
    assert made.addresses == (("h1", 3003), ("h2", 3001), ("::1", 3002))
    assert (made.namespace, made.set, made.farm, made.layout) == ("test", "solus", "dc1", "bins")
    assert (made.timeout, made.attempts, made.backoff) == (0.5, 3, 0.2)
    assert (made.user, made.password) == ("shop", "s@cret")
    assert (made.tls, made.tls_name, made.tls_ca, made.tls_cert, made.tls_key) == (
        *(True, "n", "/ca.pem", "/c.pem", "/k.pem"),
    )


def test_defaults() -> None:
    made = config("aerospike://h/test/solus")
    assert made == AerospikeConfig(hosts="h", namespace="test", set="solus")
    assert (made.addresses, made.farm, made.layout) == ((("h", 3000),), "default", None)
    assert (made.user, made.password, made.tls) == (None, None, False)
    assert (made.attempts, made.backoff) == (5, 0.08)


def test_a_password_is_not_shown() -> None:
    """Row 15 of the cases: decoded, and in no repr."""
    assert "s@cret" not in repr(config("aerospike://shop:s%40cret@h/test/solus"))
    assert config("aerospike://a:1@h/t/s") != config("aerospike://a:2@h/t/s")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("aerospike:///test/solus", "no host"),
        ("aerospike://h", "must be /namespace/set"),
        ("aerospike://h/test", "path is '/test', and must be /namespace/set"),
        ("aerospike://h/test/", "must be /namespace/set"),
        ("aerospike://h//solus", "must be /namespace/set"),
        ("aerospike://h/test/solus/more", "must be /namespace/set"),
        ("aerospike://h/test/solus?set=x", "set is no option: it is written before the '\\?'"),
        ("aerospike://h/test/solus?namespace=x", "before the '\\?'"),
        ("aerospike://h/test/solus?hosts=x", "before the '\\?'"),
        ("aerospike://h/test/solus?user=x", "before the '\\?'"),
        ("aerospike://h/test/solus?password=secret", "before the '\\?'"),
        ("aerospike://u@h/test/solus", "user and password belong together"),
        ("aerospike://:secret@h/test/solus", "user has 0 bytes"),
        ("aerospike://u:@h/test/solus", "password has 0 bytes"),
        ("aerospike://h%00/test/solus", "host 'h.x00' is not of the form"),
        ("aerospike://u%00:secret@h/test/solus", "user has a NUL or a lone surrogate"),
        ("aerospike://u:secret%00@h/test/solus", "password has a NUL or a lone surrogate"),
        ("aerospike://h/test/solus?tls=true&tls_ca=%00", "tls_ca has a NUL"),
        ("aerospike://h/test/solus?tls=true&tls_name=", "tls_name has 0 bytes"),
        ("aerospike://u:" + "secret" * 11 + "@h/test/solus", "password has 66 bytes, allowed are 1 to 63"),
        ("aerospike://h/test/solus?no_such=1", "'no_such' is not a setting, allowed are .*farm"),
        ("aerospike://h/test/sol%20us", "set is 'sol us'"),
        ("aerospike://h/te%20st/solus", "namespace is 'te st'"),
        ("aerospike://h/test/solus?farm=a%7Cb", "farm is 'a|b'"),
        (f"aerospike://h/{'n' * 32}/solus", "namespace is 'n{32}', which has 32 bytes, allowed are 31"),
        ("aerospike://h/test/solus?layout=java", "layout is 'java', allowed are map and bins"),
        ("aerospike://h/test/solus?port=0", "port is 0, allowed are whole numbers from 1 to 65535"),
        ("aerospike://h:70000/test/solus", "port"),
        ("aerospike://h/test/solus_DEDUPER?farm=shop", "the set of level DC is 'shop_solus_DEDUPER': sets that end in"),
        ("aerospike://h/test/solus?attempts=0", "attempts is 0"),
        ("aerospike://h/test/solus?timeout=0", "timeout is 0.0, allowed are seconds from 0.001 to 15"),
        ("aerospike://h/test/solus?timeout=0.0009", "timeout is 0.0009"),
        ("aerospike://h/test/solus?backoff=61", "backoff is 61.0, allowed are seconds from 0.001 to 60"),
        ("aerospike://h/test/solus?tls_ca=/x", "without tls=true"),
        ("aerospike://h/test/solus?tls_name=x", "without tls=true"),
        ("aerospike://h/test/solus?tls=true&tls_cert=/x", "tls_cert and tls_key belong together"),
        ("aerospike://h/test/solus?tls=true&tls_key=/x", "tls_cert and tls_key belong together"),
    ],
)
def test_what_is_wrong_is_named(url: str, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said) as caught:
        config(url)
    assert "secret" not in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        AerospikeConfig(
            hosts="h:0,a b", namespace="", set="|", layout="y", user="u", timeout=0, attempts=True, tls_ca="/x"
        )
    assert len(caught.value.problems) == 9


def test_wrong_types_are_told_with_all_else() -> None:
    """R22: each with what it must be, and a password is not shown."""
    wrong: dict[str, Any] = {
        "hosts": ["h"],
        "namespace": None,
        "farm": 7,
        "port": "3000",
        "timeout": "5",
        "backoff": True,
    }
    wrong |= {"attempts": 2.0, "tls": "yes", "tls_ca": b"/x", "user": "shop", "password": 90125, "layout": 1}
    with pytest.raises(InvalidConfigError) as caught:
        AerospikeConfig(**wrong, set="a|b", tls_name="")
    assert [problem.partition(", allowed")[0] for problem in caught.value.problems] == [
        "hosts is ['h'], and must be a text",
        "namespace is None, and must be a text",
        "port is '3000', and must be a whole number",
        "farm is 7, and must be a text",
        "layout is 1, and must be a text",
        "password is of another type, and must be a text",
        "timeout is '5', and must be a number",
        "attempts is 2.0, and must be a whole number",
        "backoff is True, and must be a number",
        "tls is 'yes', and must be True or False",
        "tls_ca is b'/x', and must be a text",
        "set is 'a|b'",
        "tls_name has 0 bytes",
    ]


def test_a_url_with_several_problems() -> None:
    """R22: what is no setting is told with them."""
    with pytest.raises(InvalidConfigError) as caught:
        config("aerospike:///test?set=x&nosuch=1&other=2")
    assert [problem.split(":")[0].split(",")[0] for problem in caught.value.problems] == [
        "it has no host",
        "the path is '/test'",
        "set is no option",
        "'nosuch' is not a setting",
        "'other' is not a setting",
    ]


def test_long_names_are_told_with_all_else() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        config(f"aerospike://h/{'n' * 32}/a%20b?layout=bins&attempts=0")
    said = [problem.split(",")[0] for problem in caught.value.problems]
    assert said == [said[0], f"namespace is '{'n' * 32}'", "farm is 'default'", "attempts is 0"]
    assert said[0].startswith("set is 'a b'")


def test_the_farm_by_default_is_too_long_for_bins() -> None:
    with pytest.raises(InvalidConfigError, match=r"allowed are 6: .*; give farm=, the farm that the Java services use"):
        config("aerospike://h/test/solus?layout=bins")


@pytest.mark.parametrize("of", ["shop_solus_DEDUPER", "_solus_DEDUPER"])
def test_data_among_dedupers_are_refused(of: str) -> None:
    """R17: the list of a client's de-dupers would find them there."""
    with pytest.raises(InvalidConfigError, match=f"set is '{of}': sets that end in _solus_DEDUPER are"):
        config(f"aerospike://h/test/{of}")
    config(f"aerospike://h/test/{of}S")


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        AerospikeConfig(hosts="\ud800", namespace="test", set="s", user="\ud800", password="\udfff")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("layout", [None, "map", "bins"])
@pytest.mark.parametrize("size", range(1, 21))
def test_farms_of_every_length(layout: str | None, size: int) -> None:
    """Row 5 of the cases: a farm that is too long for the layout is refused, with the length allowed (R17)."""
    limit = 6 if layout == "bins" else 15
    farm = "abcdefghijklmnopqrst"[:size]
    if size <= limit:
        assert AerospikeConfig(hosts="h", namespace="test", set="solus", farm=farm, layout=layout).farm == farm
        return
    with pytest.raises(InvalidConfigError, match=f"farm is '{farm}', which has {size} bytes, allowed are {limit}:"):
        AerospikeConfig(hosts="h", namespace="test", set="solus", farm=farm, layout=layout)


@pytest.mark.parametrize(("farm", "longest"), [("f", 61), ("f" * 15, 47)])
def test_sets_of_every_length(farm: str, longest: int) -> None:
    """R17, R19: the set of level DC has the farm before its name, and 63 bytes in all."""
    AerospikeConfig(hosts="h", namespace="n" * 31, set="s" * longest, farm=farm)
    with pytest.raises(InvalidConfigError, match=f"{farm}_s+', which has 64 bytes, allowed are 63"):
        AerospikeConfig(hosts="h", namespace="n" * 31, set="s" * (longest + 1), farm=farm)


PARTS = st.sampled_from(
    ["h", ":3000", ",", "[::1]", "/", "test", "solus", "u:secret@", "%00", "%2F", "%", "ü", " ", "\ud800"]
)
GOOD = ["farm=a", "layout=bins", "timeout=9", "port=9", "tls=true", "tls_ca=/x"]
BAD = [
    "farm=%20",
    "layout=",
    "timeout=1e5",
    "attempts=-1",
    "tls_ca=%00",
    "user=secret",
    "x",
    "hosts=h",
    "nosuch=secret",
]
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.binary(max_size=3)


@given(
    parts=st.lists(PARTS, max_size=8).map("".join),
    options=st.lists(st.sampled_from(GOOD + BAD), max_size=4).map("&".join),
)
def test_any_url_is_a_config_or_refused(parts: str, options: str) -> None:
    """R22; and what could be a password is not told."""
    said: object
    try:
        said = made = config(f"aerospike://{parts}?{options}")
    except SolusError as error:
        said = error
    else:
        assert made.addresses
    assert "secret" not in repr(said)


# On a busy machine drawing texts takes longer than Hypothesis likes; what is tested does not depend on it.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([a.name for a in AerospikeConfig.__attrs_attrs__]), VALUES))
def test_any_mapping_is_a_config_or_refused(mapping: dict[str, Any]) -> None:
    """R22: whatever is in it, and what is accepted can be handed to the driver, which takes C strings."""
    mapping = {"hosts": "h", "namespace": "test", "set": "s", **mapping}
    try:
        made = build_config(AerospikeConfig, mapping, "mapping")
    except InvalidConfigError:
        return
    for value in (made.hosts, made.user, made.password, made.tls_name, made.tls_ca, made.tls_cert, made.tls_key):
        assert value is None or b"\0" not in value.encode()
    assert round(made.timeout * 1_000) >= 1
