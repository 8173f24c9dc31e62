"""Logging in to a Thrift server with Kerberos: SASL GSSAPI over ``gssapi`` (the extra ``kerberos``).

As RFC 4752 says: tokens go back and forth until the security context stands, then the server offers security
layers and we choose "none" (HBase's ``qop=auth``). Tickets from a keytab are taken anew before they end.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from typing import Any, Final, final

from thriftpy2.transport import TSaslClientTransport, TTransportException

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.config import HBaseConfig

_SASL: Final[Any] = TSaslClientTransport  # thriftpy2 is typed in part only
_RENEW_BEFORE: Final = 60.0
"""Seconds of validity that a ticket must have left when a connection is opened."""
_NO_LAYER: Final = 1


def sasl_transport(transport: Any, config: HBaseConfig, host: str, tickets: Tickets) -> Any:
    """``transport`` with the login done, ready for calls to ``host``.

    Raises ``TTransportException`` if the server refuses, ``StoreError`` if there is no ticket.
    """
    service = f"{config.kerberos_service}@{config.kerberos_host or host}"
    secure = _SASL(lambda: GssapiClient(service, tickets), "GSSAPI", transport)
    secure.open()
    return secure


@final
class Tickets:
    """Credentials for one principal, from its keytab, or those that the process has."""

    def __init__(self, config: HBaseConfig) -> None:
        try:
            self.gssapi: Any = importlib.import_module("gssapi")
        except ImportError as error:
            raise StoreError(
                ErrorCode.HBASE_ERROR, "kerberos=true needs gssapi: pip install 'solus-hbase[kerberos]'"
            ) from error
        self._principal = config.principal
        self._keytab = config.keytab
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._held: Any = None
        self._ends = 0.0

    def current(self) -> Any:
        """Credentials that are valid for a while yet; None for those of the process."""
        if self._keytab is None:
            return None
        if self._pid != os.getpid():
            # Forked: a thread of the parent may have held the lock, for as long as a login takes.
            self._lock = threading.Lock()
            self._pid = os.getpid()
        with self._lock:
            if self._held is None or time.monotonic() > self._ends - _RENEW_BEFORE:
                self._held = self._login()
                self._ends = time.monotonic() + float(self._held.lifetime or 0)
            return self._held

    def _login(self) -> Any:
        name = self.gssapi.Name(self._principal, self.gssapi.NameType.kerberos_principal)
        try:
            # A cache of our own: the process may have other tickets, or none.
            return self.gssapi.Credentials(
                name=name,
                usage="initiate",
                store={
                    "client_keytab": f"FILE:{self._keytab}",
                    "ccache": f"MEMORY:solus-{id(self)}-{time.monotonic_ns()}",
                },
            )
        except self.gssapi.exceptions.GSSError as error:
            raise StoreError(
                ErrorCode.HBASE_ERROR, f"no Kerberos ticket for {self._principal} from {self._keytab}: {_said(error)}"
            ) from error


@final
class GssapiClient:
    """What thriftpy2's SASL transport wants of a client: ``start``, ``step``, ``encode``, ``getError``."""

    def __init__(self, service: str, tickets: Tickets) -> None:
        gssapi = tickets.gssapi
        self._service = service
        self._error = ""
        self._gss_error = gssapi.exceptions.GSSError
        try:
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(service, gssapi.NameType.hostbased_service),
                mech=gssapi.MechType.kerberos,
                usage="initiate",
                creds=tickets.current(),
            )
        except self._gss_error as error:
            raise _refused(service, error) from error

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        """The first token."""
        try:
            return True, mechanism, self._context.step() or b""
        except self._gss_error as error:
            raise _refused(self._service, error) from error

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        """The answer to the server's token, and at the end to its offer of security layers."""
        try:
            if not self._context.complete:
                return True, self._context.step(challenge) or b""
            offer = self._context.unwrap(challenge).message
            if not offer or not offer[0] & _NO_LAYER:
                self._error = "the server insists on a security layer: set hbase.thrift.security.qop=auth there"
                return False, b""
            return True, self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message
        except self._gss_error as error:
            raise _refused(self._service, error) from error

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        """Without a security layer, data go as they are."""
        return True, data

    def getError(self) -> str:  # noqa: N802  # thriftpy2's name for it
        """Why the last step failed."""
        return self._error


def _refused(service: str, error: Exception) -> TTransportException:
    return TTransportException(TTransportException.NOT_OPEN, f"Kerberos login to {service} failed: {_said(error)}")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
