"""Any URL, mapping or other target opens a store or raises a SolusError or TypeError; and nothing tells a password."""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from attrs import field, frozen
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from solus_core import SolusEngine, SolusError
from solus_core.config import Backend, StorageConfig, StorageContext, StoreUrl
from solus_core.hookspecs import hookimpl
from solus_core.plugins import PluginManager

FUZZ = settings.get_profile("solus-fuzz")


@frozen
class LockedConfig(StorageConfig):
    """``locked://user:password@host/table?...``: settings of every kind, one of them secret."""

    hosts: tuple[tuple[str, int | None], ...] = ()
    table: str = "t"
    user: str = ""
    password: str = field(default="", repr=False)
    size: int = 1
    share: float = 0.5
    fast: bool = False


class LockedPlugin:
    """A backend that never lets anybody in: its driver's error is all that comes of it."""

    SOLUS_API_VERSION = 1

    @hookimpl
    def solus_backends(self) -> list[Backend]:
        return [Backend("locked", LockedConfig, self._settings, self._connect, "never lets anybody in")]

    @staticmethod
    def _settings(url: StoreUrl) -> Mapping[str, object]:
        parts = {"user": url.user, "password": url.password, "table": url.path.strip("/")}
        return {**url.options, "hosts": url.hosts, **{name: part for name, part in parts.items() if part}}

    @staticmethod
    def _connect(config: LockedConfig) -> StorageContext:
        raise ConnectionError(f"refused: {config}")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginManager:
    monkeypatch.setenv("SOLUS_DISABLED_PLUGINS", "hbase,aerospike")  # they would look for servers
    plugins = PluginManager.load()
    assert plugins.register(LockedPlugin(), "locked").state == "ok"
    return plugins


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that Solus logs, tracebacks too."""
    written = io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("solus_core")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(level)


def said(target: Any, plugins: PluginManager, client_id: Any = "c") -> str:
    """Open and close; answers everything that an error says, its causes and their notes included."""
    raised: Exception
    try:
        with SolusEngine.open(target, client_id=client_id, plugins=plugins) as engine:
            engine.get_active_dedupers()
    except (SolusError, TypeError) as error:
        raised = error
    else:
        event("opened")
        return ""
    event(str(raised.code) if isinstance(raised, SolusError) else "TypeError")
    if isinstance(raised, TypeError):
        line = traceback.extract_tb(raised.__traceback__)[-1].line or ""
        assert line.startswith("raise TypeError"), f"Python's own complaint: {raised}"
    return "".join(traceback.format_exception(raised)) + repr(raised)


def stays_inside(text: str) -> bool:
    """No file is opened at a place that a fuzzer has thought up."""
    return not text.lower().startswith("memory://") or text[9:10] in ("", "?", "#")


PARTS = st.sampled_from(
    ["", "h", "h:9090", "h1,h2:1", "[::1]:5", "h:99999", "u@h", "u:p@h", "ü", "%41", "%4", "/", ","]
)
OPTIONS = st.sampled_from(
    ["size=1", "size=x", "share=0.1", "fast=true", "fast=1", "nosuch=1", "size", "=", "table=%ff"]
)
URLS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["locked://", "memory://", "LOCKED://", "locked:/", "nosuch://", "://", "", "hbase://"]),
    st.lists(PARTS, max_size=3).map("".join),
    st.sampled_from(["", "/t", "/t/u", "/%74", "//"]),
    st.lists(OPTIONS, max_size=3).map(lambda options: "?" + "&".join(options) if options else ""),
    st.sampled_from(["", "", "#", "#x", "\n", "\0", "\udc80"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
NAMES = st.sampled_from([*LockedConfig.__annotations__, "scheme", "name", "farm", "max_bytes"]) | st.text(max_size=4)
SCHEMES = st.sampled_from(["locked", "memory", "nosuch", "a b", ""])


@settings(FUZZ)
@given(url=URLS | st.text(max_size=30))
def test_any_url(plugins: PluginManager, url: str) -> None:
    assume(stays_inside(url))
    said(url, plugins)


@settings(FUZZ)
@given(base=URLS, at=st.integers(0, 60), cut=st.integers(0, 5), more=st.text(max_size=3))
def test_any_mutated_url(plugins: PluginManager, base: str, at: int, cut: int, more: str) -> None:
    url = base[:at] + more + base[at + cut :]
    assume(stays_inside(url))
    said(url, plugins)


@settings(FUZZ)
@given(scheme=SCHEMES | VALUES, settings_=st.dictionaries(NAMES | st.integers(), VALUES, max_size=4))
def test_any_mapping(plugins: PluginManager, scheme: Any, settings_: dict[Any, Any]) -> None:
    settings_.pop("path", None)
    said({**settings_, "scheme": scheme}, plugins)


@settings(FUZZ)
@given(target=VALUES, client_id=VALUES)
def test_any_target_and_client_id(plugins: PluginManager, target: Any, client_id: Any) -> None:
    assume(not isinstance(target, str) or stays_inside(target))
    said(target, plugins, client_id)
    said("memory://", plugins, client_id)


SECRET = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).map(lambda t: f"s3cr{t}et9")


def shows(secret: str, text: str) -> bool:
    """Whether ``text`` has the secret or a part of it that would do, plain, quoted or escaped."""
    return "s3cr" in text or "et9" in text or secret in text


@settings(FUZZ)
@given(secret=SECRET, options=st.lists(OPTIONS, max_size=3), hosts=PARTS, raw=st.booleans())
def test_no_url_shows_its_password(
    plugins: PluginManager, log: io.StringIO, secret: str, options: list[str], hosts: str, raw: bool
) -> None:
    """Case 15: not in errors, their causes, reprs or logs; however wrong the URL, and if it was not encoded."""
    written = secret if raw else quote(secret, safe="")
    url = f"locked://someone:{written}@{hosts}/t" + ("?" + "&".join(options) if options else "")
    assert not shows(secret, said(url, plugins)), "an error shows it"
    if not raw:
        decoded = said(url, plugins)
        assert "user" in decoded or "URL" in decoded, decoded
    assert not shows(secret, log.getvalue()), "the log shows it"


@settings(FUZZ)
@given(secret=SECRET, more=st.dictionaries(NAMES, VALUES, max_size=3))
def test_no_mapping_shows_its_password(
    plugins: PluginManager, log: io.StringIO, secret: str, more: dict[str, Any]
) -> None:
    target = {**more, "scheme": "locked", "password": secret}
    assert not shows(secret, said(target, plugins))
    assert not shows(secret, repr(LockedConfig(password=secret)) + repr(StoreUrl("locked", password=secret)))
    assert not shows(secret, log.getvalue())


@settings(FUZZ)
@given(secret=st.sampled_from([["s3cret9"], b"s3cret9", {"s3cret9": 1}]))
def test_no_password_of_a_wrong_type_is_shown(plugins: PluginManager, secret: object) -> None:
    """Case 15: a password of digits, say, that YAML has read as a number."""
    assert not shows("s3cret9", said({"scheme": "locked", "password": secret}, plugins))


def test_the_check_sees_a_password() -> None:
    assert shows("s3crxet9", "refused for s3crxet9")
    assert shows("s3cr/et9", "a host is 's3cr'")
