"""Where an HBase is and how it is talked to."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final, final

from attrs import frozen

from solus_core.config import StorageConfig, StoreUrl, addresses, wrong_hosts, wrong_types
from solus_core.errors import InvalidArgumentError, InvalidConfigError
from solus_core.model import check_identifier

DEFAULT_PORT: Final = 9090
NATIVE: Final = "native"
JAVA: Final = "java"

_CHOICES: Final = {
    "gateway": ("auto", "thrift2", "thrift1"),
    "transport": ("buffered", "framed", "http"),
    "protocol": ("binary", "compact"),
    "compression": ("GZ", "NONE", "SNAPPY", "LZ4", "LZO", "BZIP2", "ZSTD"),
    "layout": (NATIVE, JAVA),
}
_WHOLE: Final = {"port": (1, 65_535), "pool_size": (1, 1_000), "attempts": (1, 100), "splits": (0, 256)}
_SECONDS: Final = {"timeout": 3_600, "pool_wait": 3_600, "backoff": 60}
_TABLE: Final = re.compile(r"[A-Za-z0-9_]")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_]{1,100}")
_BEFORE_OPTIONS: Final = {"hosts", "table"}


@final
@frozen(kw_only=True)
class HBaseConfig(StorageConfig):
    """Settings of ``hbase://host[:port][,host[:port]...]/table``; what talks to HBase is its Thrift server.

    ``hosts``: Thrift servers as ``host``, ``host:port`` or ``[IPv6]:port``, comma-separated; one that can't be
    reached, or gives no answer in time, is followed by the next. ``port``: of hosts without one. ``table``: the
    data table; ``namespace``: where the tables are. ``farm``: whose data of level DC these are (R19).

    ``gateway``: the Thrift interface, ``auto`` asks the server. ``transport``, ``protocol``: as the server was
    started (``-f`` is framed, ``-c`` compact). ``timeout``: seconds for connecting and for each answer.
    ``pool_size``: connections at most. ``pool_wait``: seconds to wait for a free one. ``attempts``: of a call in
    all, where repeating is safe and can help; ``backoff``: seconds before the second try, doubled for each further one.

    ``layout``: how positions of newly registered de-dupers are written, ``native`` (the default) or ``java``
    (where Java services write too). ``splits``: split keys of tables that are created here; ``compression`` of
    their family.

    ``kerberos``: log in with ``principal`` from ``keytab``, or with the tickets that are there without these;
    ``kerberos_service``, ``kerberos_host``: the server's principal (default: ``hbase`` and the host connected
    to). ``tls``: encrypt; ``tls_ca``: file of trusted certificates (default: the system's); ``tls_cert``,
    ``tls_key``: files of our own.

    Raises ``InvalidConfigError`` with all problems at once, values of a wrong Python type among them.
    """

    hosts: str
    table: str
    port: int = DEFAULT_PORT
    farm: str = "default"
    namespace: str | None = None
    gateway: str = "auto"
    transport: str = "buffered"
    protocol: str = "binary"
    timeout: float = 10.0
    pool_size: int = 8
    pool_wait: float = 10.0
    attempts: int = 4
    backoff: float = 0.1
    layout: str | None = None
    splits: int = 256
    compression: str = "GZ"
    kerberos: bool = False
    kerberos_service: str = "hbase"
    kerberos_host: str | None = None
    principal: str | None = None
    keytab: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __attrs_post_init__(self) -> None:
        wrong = wrong_types(self)
        problems = [*wrong.values(), *self._bad_values(wrong)]
        # What depends on several settings is looked at once each is of its type.
        if not wrong:
            problems += self._bad_pairs()
        if problems:
            raise InvalidConfigError("hbase:// store", problems)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The hosts in order, each with its port."""
        return addresses(self.hosts, self.port)

    def table_name(self, name: str) -> str:
        """``name`` in the namespace of this store."""
        return name if self.namespace is None else f"{self.namespace}:{name}"

    def _bad_values(self, wrong: Container[str]) -> list[str]:
        """What is wrong with single settings, those of a ``wrong`` type left out."""
        values = {a.name: getattr(self, a.name) for a in HBaseConfig.__attrs_attrs__ if a.name not in wrong}
        values = {name: value for name, value in values.items() if value is not None}
        problems = wrong_hosts(self.hosts) if "hosts" in values else []
        for name in ("table", "farm"):
            try:
                if name in values:
                    check_table_part(name, values[name])
            except InvalidArgumentError as error:
                problems.append(error.message)
        if "namespace" in values and not _NAMESPACE.fullmatch(values["namespace"]):
            problems.append(
                f"namespace is {self.namespace!r}, allowed are 1 to 100 characters of ASCII letters, digits and '_'"
            )
        for name, (low, high) in _WHOLE.items():
            if name in values and not low <= values[name] <= high:
                problems.append(f"{name} is {values[name]!r}, allowed are whole numbers from {low} to {high}")
        for name, high in _SECONDS.items():
            if name in values and not 0 < values[name] <= high:
                problems.append(f"{name} is {values[name]!r}, allowed are seconds above 0 up to {high}")
        for name, allowed in _CHOICES.items():
            if name in values and values[name] not in allowed:
                problems.append(f"{name} is {values[name]!r}, allowed are {', '.join(allowed)}")
        return problems

    def _bad_pairs(self) -> list[str]:
        problems = []
        if self.principal is not None and not self.kerberos:
            problems.append("principal is given without kerberos=true")
        if (self.keytab is None) != (self.principal is None):
            problems.append("principal and keytab belong together: give both, or neither to use the tickets there are")
        if self.kerberos and self.transport == "http":
            problems.append("kerberos over transport http is not supported: use a server with transport buffered")
        if not self.tls and (self.tls_ca, self.tls_cert, self.tls_key) != (None, None, None):
            problems.append("tls_ca, tls_cert or tls_key is given without tls=true")
        if self.tls_key is not None and self.tls_cert is None:
            problems.append("tls_key is given without tls_cert")
        return problems


def check_table_part(what: str, value: str) -> str:
    """``value`` if HBase allows it at the start of a table's name, else an error that says why (R17)."""
    check_identifier(what, value)
    if not _TABLE.match(value):
        raise InvalidArgumentError(
            f"{what} is {value!r}, and a table of HBase may not begin with {value[0]!r}: "
            "allowed first are ASCII letters, digits and '_'"
        )
    return value


def settings_from_url(url: StoreUrl) -> Mapping[str, object]:
    """The settings that ``hbase://host[:port][,host...]/table[?farm=...&...]`` means."""
    problems = []
    if not url.hosts:
        problems.append("it has no host: write hbase://host:9090/table, with the host of a Thrift server of HBase")
    if url.user is not None or url.password is not None:
        problems.append("it has a user or a password, and HBase knows neither: see kerberos, principal and keytab")
    table = url.path.strip("/")
    if "/" in table:
        problems.append(f"the path is {url.path!r}, which has more in it than one table")
    elif not table:
        problems.append("it has no table: write hbase://host:9090/table")
    options = sorted({a.name for a in HBaseConfig.__attrs_attrs__} - _BEFORE_OPTIONS)
    for name in sorted(set(url.options) - set(options)):
        if name in _BEFORE_OPTIONS:
            problems.append(f"{name} is no option: it is written before the '?'")
        else:
            problems.append(f"{name!r} is not a setting, allowed are {', '.join(options)}")
    if problems:
        raise InvalidConfigError("hbase:// URL", problems)
    hosts = ",".join(host_text(host, port) for host, port in url.hosts)
    return {**url.options, "hosts": hosts, "table": table}


def host_text(host: str, port: int | None) -> str:
    """A host and its port as URLs have them, ``host:port`` or ``[IPv6]:port``."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
