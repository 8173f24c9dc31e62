"""Where an Aerospike is and how it is talked to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final

from attrs import field, frozen

from solus_core.config import StorageConfig, StoreUrl
from solus_core.errors import InvalidArgumentError, InvalidConfigError
from solus_core.model import check_identifier

DEFAULT_PORT: Final = 3000
MAP: Final = "map"
BINS: Final = "bins"

BIN_BYTES: Final = 15
"""Of a bin's name at most, in Aerospike."""
SET_BYTES: Final = 63
"""Of a set's name at most, in Aerospike."""
MAP_FARM_BYTES: Final = BIN_BYTES
"""Of a farm at most in the layout ``map``: its bin has its name."""
BINS_FARM_BYTES: Final = BIN_BYTES - len("##updated")
"""Of a farm at most in the layout ``bins``: it is a part of the names of all bins."""

_OF_BINS: Final = f"and Aerospike allows names of bins no more than {BIN_BYTES} bytes"
_NAMESPACE_BYTES: Final = 31
_LOGIN_BYTES: Final = 63  # the client cuts longer ones silently
_PATH_BYTES: Final = 4_096
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\],]+))(?::([0-9]{1,5}))?")


@final
@frozen(kw_only=True)
class AerospikeConfig(StorageConfig):
    """Settings of ``aerospike://[user:password@]host[:port][,host[:port]...]/namespace/set``.

    ``hosts``: nodes of one cluster as ``host``, ``host:port`` or ``[IPv6]:port``, comma-separated; one that answers
    tells the others. ``port``: of hosts without one. ``namespace``: which must exist. ``set``: of the data.
    ``farm``: whose data these are, at most 15 bytes, and 6 where positions are written in ``bins``.

    ``layout``: how positions of newly registered de-dupers are written, ``map`` (the default) or ``bins`` (where
    Java services write too). ``user``, ``password``: of a server with access control.

    ``timeout``: seconds of one try of a call. ``attempts``: tries of a call in all, where repeating is safe and can
    help; ``backoff``: seconds between them.

    ``tls``: encrypt; ``tls_name``: the name in the server's certificate (default: the host); ``tls_ca``: file of
    trusted certificates (default: the system's); ``tls_cert``, ``tls_key``: files of our own.

    Raises ``InvalidConfigError`` with all problems at once.
    """

    hosts: str
    namespace: str
    set: str
    port: int = DEFAULT_PORT
    farm: str = "default"
    layout: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout: float = 5.0
    attempts: int = 5
    backoff: float = 0.08
    tls: bool = False
    tls_name: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __attrs_post_init__(self) -> None:
        problems = [*self._bad_hosts(), *self._bad_names(), *self._bad_texts(), *self._bad_numbers()]
        if self.layout not in (None, MAP, BINS):
            problems.append(f"layout is {self.layout!r}, allowed are {MAP} and {BINS}")
        if not self.tls and (self.tls_name, self.tls_ca, self.tls_cert, self.tls_key) != (None, None, None, None):
            problems.append("tls_name, tls_ca, tls_cert or tls_key is given without tls=true")
        if (self.tls_cert is None) != (self.tls_key is None):
            problems.append("tls_cert and tls_key belong together: give both or neither")
        if problems:
            raise InvalidConfigError("aerospike:// store", problems)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The hosts in order, each with its port."""
        found = []
        for text in self.hosts.split(","):
            match = _HOST.fullmatch(text)
            assert match is not None  # checked when the config was made
            found.append((match[1] or match[2], int(match[3] or self.port)))
        return tuple(found)

    def _bad_hosts(self) -> list[str]:
        problems = []
        for text in self.hosts.split(","):
            match = _HOST.fullmatch(text)
            if match is None or not text.isprintable():
                problems.append(f"host {text!r} is not of the form host, host:port or [IPv6]:port")
            elif match[3] is not None and not 1 <= int(match[3]) <= 65_535:
                problems.append(f"host {text!r} has port {match[3]}, allowed are 1 to 65535")
        return problems

    def _bad_names(self) -> list[str]:
        problems = []
        for what in ("namespace", "set", "farm"):
            try:
                check_identifier(what, getattr(self, what))
            except InvalidArgumentError as error:
                problems.append(error.message)
        if problems:
            return problems
        # From here on all are ASCII: as many bytes as characters.
        if len(self.namespace) > _NAMESPACE_BYTES:
            problems.append(_too_long("namespace", self.namespace, _NAMESPACE_BYTES, "Aerospike allows no more"))
        if self.layout == BINS:
            limit, reason = BINS_FARM_BYTES, "the longest name of a bin is <farm>##updated"
        else:
            limit, reason = MAP_FARM_BYTES, "a bin is called like the farm"
        if len(self.farm) > limit:
            layout = self.layout or MAP
            problems.append(_too_long("farm", self.farm, limit, f"with layout={layout} {reason}, {_OF_BINS}"))
        of_level_dc = f"{self.farm}_{self.set}"
        if len(of_level_dc) > SET_BYTES:
            problems.append(
                _too_long("set <farm>_<set>", of_level_dc, SET_BYTES, "so the set of level DC would be called")
            )
        return problems

    def _bad_texts(self) -> list[str]:
        problems = []
        if (self.user is None) != (self.password is None):
            problems.append("user and password belong together: give both or neither")
        for what in ("user", "password", "tls_name", "tls_ca", "tls_cert", "tls_key"):
            value = getattr(self, what)
            if value is None:
                continue
            most = _LOGIN_BYTES if what in ("user", "password") else _PATH_BYTES
            if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
                problems.append(f"{what} has a NUL or a lone surrogate in it")
            elif not 1 <= len(value.encode()) <= most:
                problems.append(f"{what} has {len(value.encode())} bytes, allowed are 1 to {most}")
        return problems

    def _bad_numbers(self) -> list[str]:
        problems = [
            f"{name} is {getattr(self, name)!r}, allowed are whole numbers from 1 to {high}"
            for name, high in (("port", 65_535), ("attempts", 100))
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= high
        ]
        # In milliseconds 0 would mean: for ever.
        for name, low, high in (("timeout", 0.001, 3_600), ("backoff", 0.001, 60)):
            if not low <= getattr(self, name) <= high:
                problems.append(f"{name} is {getattr(self, name)!r}, allowed are seconds from {low} to {high}")
        return problems


def _too_long(what: str, value: str, limit: int, reason: str) -> str:
    return f"{what} is {value!r}, which has {len(value)} bytes, allowed are {limit}: {reason}"


def settings_from_url(url: StoreUrl) -> Mapping[str, object]:
    """The settings that ``aerospike://[user:password@]host[:port][,host...]/namespace/set[?farm=...]`` means."""
    problems = []
    if not url.hosts:
        problems.append("it has no host: write aerospike://host:3000/namespace/set")
    parts = url.path.strip("/").split("/")
    if len(parts) != 2 or not all(parts):
        problems.append(f"the path is {url.path!r}, and must be /namespace/set, as in aerospike://host:3000/test/solus")
    problems += [
        f"{name} is no option: it is written before the '?'"
        for name in ("hosts", "namespace", "set", "user", "password")
        if name in url.options
    ]
    unknown = sorted(set(url.options) - {a.name for a in AerospikeConfig.__attrs_attrs__})
    if problems and not unknown:
        raise InvalidConfigError("aerospike:// URL", problems)
    hosts = ",".join(_text(host, port) for host, port in url.hosts)
    settings: dict[str, object] = {**url.options, "hosts": hosts, "namespace": parts[0], "set": parts[-1]}
    if url.user is not None or url.password is not None:
        settings |= {"user": url.user, "password": url.password}
    return settings


def _text(host: str, port: int | None) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
