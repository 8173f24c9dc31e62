"""Where an Aerospike is and how it is talked to."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, final

from attrs import field, frozen

from solus_core.config import StorageConfig, StoreUrl, addresses, wrong_hosts, wrong_types
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

META_SUFFIX: Final = "_solus_DEDUPER"
"""At the end of the names of the sets with registered de-dupers."""
JAVAS_FARM: Final = "give farm=, the farm that the Java services use"

_OF_BINS: Final = f"and Aerospike allows names of bins no more than {BIN_BYTES} bytes"
_NAMESPACE_BYTES: Final = 31
_LOGIN_BYTES: Final = 63  # the client cuts longer ones silently
_PATH_BYTES: Final = 4_096
_WHOLE: Final = {"port": 65_535, "attempts": 100}
# In milliseconds 0 would mean: for ever. A try must end long before a farm that joins may add (see ``farms``).
_SECONDS: Final = {"timeout": (0.001, 15), "backoff": (0.001, 60)}
_BEFORE_OPTIONS: Final = ("hosts", "namespace", "set", "user", "password")


@final
@frozen(kw_only=True)
class AerospikeConfig(StorageConfig):
    """Settings of ``aerospike://[user:password@]host[:port][,host[:port]...]/namespace/set``.

    ``hosts``: nodes of one cluster as ``host``, ``host:port`` or ``[IPv6]:port``, comma-separated; one that answers
    tells the others. ``port``: of hosts without one. ``namespace``: which must exist. ``set``: of the data.
    ``farm``: whose data these are, at most 15 bytes, and 6 where positions are written in ``bins``.

    ``layout``: how positions of newly registered de-dupers are written, ``map`` (the default) or ``bins`` (where
    Java services write too). ``user``, ``password``: of a server with access control.

    ``timeout``: seconds of one try of a call, at most 15. ``attempts``: tries of a call in all, where repeating is safe
    and can help; ``backoff``: seconds between them.

    ``tls``: encrypt; ``tls_name``: the name in the server's certificate (default: the host); ``tls_ca``: file of
    trusted certificates (default: the system's); ``tls_cert``, ``tls_key``: files of our own.

    Raises ``InvalidConfigError`` with all problems at once, values of a wrong Python type among them.
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
        wrong = wrong_types(self)
        problems = [*wrong.values(), *self._bad_values(wrong), *self._bad_pairs()]
        if problems:
            raise InvalidConfigError("aerospike:// store", problems)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The hosts in order, each with its port."""
        return addresses(self.hosts, self.port)

    def _bad_values(self, wrong: Container[str]) -> list[str]:
        """What is wrong with single settings, those of a ``wrong`` type left out."""
        values = {a.name: getattr(self, a.name) for a in AerospikeConfig.__attrs_attrs__ if a.name not in wrong}
        values = {name: value for name, value in values.items() if value is not None}
        problems = wrong_hosts(self.hosts) if "hosts" in values else []
        problems += self._bad_names(values)
        problems += self._bad_texts(values)
        for name, most in _WHOLE.items():
            if name in values and not 1 <= values[name] <= most:
                problems.append(f"{name} is {values[name]!r}, allowed are whole numbers from 1 to {most}")
        for name, (low, high) in _SECONDS.items():
            if name in values and not low <= values[name] <= high:
                problems.append(f"{name} is {values[name]!r}, allowed are seconds from {low} to {high}")
        if "layout" in values and values["layout"] not in (MAP, BINS):
            problems.append(f"layout is {self.layout!r}, allowed are {MAP} and {BINS}")
        return problems

    def _bad_names(self, values: Mapping[str, str]) -> list[str]:
        problems, good = [], {}
        for what in ("namespace", "set", "farm"):
            try:
                if what in values:
                    good[what] = check_identifier(what, values[what])
            except InvalidArgumentError as error:
                problems.append(error.message)
        # These are ASCII: as many bytes as characters.
        namespace, of, farm = (good.get(what, "") for what in ("namespace", "set", "farm"))
        if len(namespace) > _NAMESPACE_BYTES:
            problems.append(_too_long("namespace", namespace, _NAMESPACE_BYTES, "Aerospike allows no more"))
        if self.layout == BINS and len(farm) > BINS_FARM_BYTES:
            reason = f"with layout={BINS} the longest name of a bin is <farm>##updated, {_OF_BINS}; {JAVAS_FARM}"
            problems.append(_too_long("farm", farm, BINS_FARM_BYTES, reason))
        elif len(farm) > MAP_FARM_BYTES:
            problems.append(
                _too_long("farm", farm, MAP_FARM_BYTES, f"with layout={MAP} a bin is called like the farm, {_OF_BINS}")
            )
        of_level_dc = f"{farm}_{of}"
        for what, name in (("set", of), ("the set of level DC", of_level_dc)):
            if name.endswith(META_SUFFIX):
                problems.append(f"{what} is {name!r}: sets that end in {META_SUFFIX} are those of registered de-dupers")
                break
        if farm and of and len(of_level_dc) > SET_BYTES:
            problems.append(
                _too_long("set <farm>_<set>", of_level_dc, SET_BYTES, "so the set of level DC would be called")
            )
        return problems

    def _bad_texts(self, values: Mapping[str, str]) -> list[str]:
        problems = []
        for what in ("user", "password", "tls_name", "tls_ca", "tls_cert", "tls_key"):
            if what not in values:
                continue
            value, most = values[what], _LOGIN_BYTES if what in ("user", "password") else _PATH_BYTES
            if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
                problems.append(f"{what} has a NUL or a lone surrogate in it")
            elif not 1 <= len(value.encode()) <= most:
                problems.append(f"{what} has {len(value.encode())} bytes, allowed are 1 to {most}")
        return problems

    def _bad_pairs(self) -> list[str]:
        problems = []
        if (self.user is None) != (self.password is None):
            problems.append("user and password belong together: give both or neither")
        if not self.tls and (self.tls_name, self.tls_ca, self.tls_cert, self.tls_key) != (None, None, None, None):
            problems.append("tls_name, tls_ca, tls_cert or tls_key is given without tls=true")
        if (self.tls_cert is None) != (self.tls_key is None):
            problems.append("tls_cert and tls_key belong together: give both or neither")
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
        f"{name} is no option: it is written before the '?'" for name in _BEFORE_OPTIONS if name in url.options
    ]
    if problems:
        allowed = sorted({a.name for a in AerospikeConfig.__attrs_attrs__} - {*_BEFORE_OPTIONS})
        unknown = sorted(set(url.options) - {*allowed, *_BEFORE_OPTIONS})
        problems += [f"{name!r} is not a setting, allowed are {', '.join(allowed)}" for name in unknown]
        raise InvalidConfigError("aerospike:// URL", problems)
    hosts = ",".join(_text(host, port) for host, port in url.hosts)
    settings: dict[str, object] = {**url.options, "hosts": hosts, "namespace": parts[0], "set": parts[-1]}
    if url.user is not None or url.password is not None:
        settings |= {"user": url.user, "password": url.password}
    return settings


def _text(host: str, port: int | None) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
