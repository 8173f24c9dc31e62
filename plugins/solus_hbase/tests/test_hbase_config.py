"""Settings: what URLs mean, and that everything wrong is said at once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from solus_core.config import build_config, parse_url
from solus_core.errors import InvalidConfigError
from solus_hbase import HBaseConfig
from solus_hbase.config import settings_from_url


def config(url: str) -> HBaseConfig:
    return build_config(HBaseConfig, settings_from_url(parse_url(url)), "hbase:// URL")


def test_a_url_with_everything() -> None:
    made = config(
        "hbase://h1,h2:9091,[::1]:9092/solus?farm=dc1&namespace=ns&gateway=thrift2&transport=framed&protocol=compact"
        "&timeout=2.5&pool_size=3&splits=16&compression=NONE&layout=java&port=9095&tls=true&tls_ca=/ca.pem"
    )
    assert made.addresses == (("h1", 9095), ("h2", 9091), ("::1", 9092))
    assert (made.table, made.farm, made.namespace, made.layout) == ("solus", "dc1", "ns", "java")
    assert (made.transport, made.protocol, made.timeout, made.pool_size) == ("framed", "compact", 2.5, 3)
    assert made.table_name("t") == "ns:t"


def test_defaults() -> None:
    made = config("hbase://h/solus")
    assert made == HBaseConfig(hosts="h", table="solus")
    assert (made.addresses, made.farm, made.splits, made.compression) == ((("h", 9090),), "default", 256, "GZ")
    assert (made.gateway, made.layout, made.table_name("t")) == ("auto", None, "t")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hbase:///solus", "no host"),
        ("hbase://h", "no table"),
        ("hbase://h/", "no table"),
        ("hbase://h/a/b", "more in it than one table"),
        ("hbase://u:secret@h/solus", "user or a password"),
        ("hbase://h/solus?table=x", "before the '\\?'"),
        ("hbase://h/solus?hosts=x", "before the '\\?'"),
        (
            "hbase://h/solus?no_such=1",
            "'no_such' is not a setting, allowed are attempts, .*, farm, gateway, .*, splits, t",
        ),
        ("hbase:///?no_such=1&table=x", "no host.*no table.*'no_such' is not.*table is no option"),
        ("hbase://h/-solus", "may not begin with '-'"),
        ("hbase://h/solus?farm=.x", "farm is '.x'"),
        ("hbase://h/sol%20us", "table is 'sol us'"),
        ("hbase://h/solus?namespace=a-b", "namespace is 'a-b'"),
        ("hbase://h/solus?gateway=thrift3", "gateway is 'thrift3', allowed are auto, thrift2, thrift1"),
        ("hbase://h/solus?transport=x", "allowed are buffered, framed, http"),
        ("hbase://h/solus?protocol=json", "allowed are binary, compact"),
        ("hbase://h/solus?compression=gzip", "allowed are GZ, NONE"),
        ("hbase://h/solus?layout=both", "allowed are native, java"),
        ("hbase://h/solus?splits=257", "splits is 257, allowed are whole numbers from 0 to 256"),
        ("hbase://h/solus?pool_size=0", "pool_size is 0"),
        ("hbase://h/solus?attempts=0", "attempts is 0"),
        ("hbase://h/solus?timeout=0", "timeout is 0.0, allowed are seconds above 0"),
        ("hbase://h/solus?principal=p", "principal is given without kerberos=true"),
        ("hbase://h/solus?kerberos=true&principal=p", "belong together"),
        ("hbase://h/solus?kerberos=true&transport=http", "kerberos over transport http"),
        ("hbase://h/solus?tls_ca=/x", "without tls=true"),
        ("hbase://h/solus?tls=true&tls_key=/x", "tls_key is given without tls_cert"),
    ],
)
def test_what_is_wrong_is_named(url: str, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said) as caught:
        config(url)
    assert "secret" not in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        HBaseConfig(hosts="h:0,a b", table="", transport="x", pool_size=-1, layout="y")
    assert len(caught.value.problems) == 6


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("hosts", None, "hosts is None, and must be a text"),
        ("hosts", ["h"], r"hosts is \['h'\], and must be a text"),
        ("hosts", b"h", "hosts is b'h', and must be a text"),
        ("table", 3, "table is 3, and must be a text"),
        ("farm", None, "farm is None, and must be a text"),
        ("namespace", 3, "namespace is 3, and must be a text"),
        ("gateway", None, "gateway is None, and must be a text"),
        ("tls_ca", 3, "tls_ca is 3, and must be a text"),
        ("port", "9090", "port is '9090', and must be a whole number"),
        ("port", 9090.0, "port is 9090.0, and must be a whole number"),
        ("attempts", True, "attempts is True, and must be a whole number"),
        ("timeout", "10", "timeout is '10', and must be a number"),
        ("timeout", True, "timeout is True, and must be a number"),
        ("timeout", None, "timeout is None, and must be a number"),
        ("timeout", math.nan, "timeout is nan, allowed are seconds above 0"),
        ("pool_wait", math.inf, "pool_wait is inf, allowed are seconds above 0"),
        ("kerberos", "true", "kerberos is 'true', and must be True or False"),
        ("tls", "false", "tls is 'false', and must be True or False"),
        ("tls", 1, "tls is 1, and must be True or False"),
    ],
)
def test_values_of_another_type(name: str, value: Any, said: str) -> None:
    """R12, R22: as those of any config, whichever way it came."""
    with pytest.raises(InvalidConfigError, match=said) as caught:
        HBaseConfig(**{"hosts": "h", "table": "t", name: value})
    assert len(caught.value.problems) == 1


def test_types_and_values_at_once() -> None:
    """R12"""
    wrong: dict[str, Any] = {"hosts": None, "timeout": "10", "namespace": 3, "kerberos": "true"}
    with pytest.raises(InvalidConfigError) as caught:
        HBaseConfig(table="-t", backoff=0, layout="y", principal="p", **wrong)
    assert len(caught.value.problems) == 7


def test_whole_numbers_of_seconds() -> None:
    assert HBaseConfig(hosts="h", table="t", timeout=10) == HBaseConfig(hosts="h", table="t")
