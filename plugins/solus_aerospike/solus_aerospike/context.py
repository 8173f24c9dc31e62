"""A live connection to Aerospike: the client, and on whose behalf it is used."""

from __future__ import annotations

import ctypes
import os
import ssl
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakSet

from solus_aerospike.config import AerospikeConfig
from solus_aerospike.retry import Caller
from solus_core.config import StorageContext
from solus_core.errors import ErrorCode, InvalidConfigError, StoreError

if TYPE_CHECKING:
    from aerospike import Client

_TEND_INTERVAL: Final = 250
"""Milliseconds. After 100 errors the client sends a node nothing more until it has next looked after it. That can't be
switched off (it takes ``max_error_rate`` 0 for 100), but this is over before the last of our tries."""

_DYNAMIC_CONFIG: Final = "AEROSPIKE_CLIENT_CONFIG_URL"

_CONTEXTS: Final[WeakSet[AerospikeContext]] = WeakSet()
# All contexts, weakly: a hook that runs at a fork can't be taken back, so there is one for all of them.


@final
class AerospikeContext(StorageContext):
    """``config``: namespace, set, farm, layout. ``caller``: repeats calls. ``owned``: is the client ours
    alone?

    To use a client of your own, or one that several contexts share, pass it here, with ``owned`` False. What
    ``config`` says about hosts, login and TLS is not used then; its ``timeout`` is that of each call.
    """

    __slots__ = ("__weakref__", "_client", "_lock", "_milliseconds", "caller", "closed", "config", "owned")

    def __init__(self, client: Client, config: AerospikeConfig, *, owned: bool = False) -> None:
        if _DYNAMIC_CONFIG in os.environ:
            problem = (
                f"the environment has {_DYNAMIC_CONFIG}, and what that names overrules the policies of all calls: "
                "with retries by the client an event can be lost. Unset it for this process"
            )
            raise InvalidConfigError("aerospike:// store", [problem])
        self.config = config
        self.caller = Caller(config.attempts, config.backoff)
        self.owned = owned
        self._milliseconds = round(config.timeout * 1000)
        self.closed = False
        self._client: Client | None = client
        self._lock = threading.Lock()
        _CONTEXTS.add(self)

    @property
    def client(self) -> Client:
        """The client, to be asked for anew for each call: a forked child has another one (R24)."""
        if self.closed:
            raise StoreError(ErrorCode.AEROSPIKE_ERROR, "the connection to Aerospike is closed")
        return self._client or self._open_in_child()

    @property
    def info_policy(self) -> dict[str, Any]:
        """The policy of a question about the server itself."""
        return {"timeout": self._milliseconds}

    def policy(self, **more: Any) -> dict[str, Any]:
        """A policy for one try of a call on records: ``config.timeout`` for all of it, no retries by the client.

        Nothing that can change an answer is left to the defaults of the client, which may be its owner's.
        """
        import aerospike  # noqa: PLC0415  # no driver before a store is opened

        return {
            "total_timeout": self._milliseconds,
            "socket_timeout": self._milliseconds,
            "max_retries": 0,
            "replica": aerospike.POLICY_REPLICA_MASTER,
            **more,
        }

    def reading(self) -> dict[str, Any]:
        """A ``policy`` for reading, where writing may be a part of it.

        While a cluster moves its data, a node may have an older copy of a record: then the others are asked too.
        """
        import aerospike  # noqa: PLC0415  # no driver before a store is opened

        return self.policy(read_mode_ap=aerospike.POLICY_READ_MODE_AP_ALL)

    def close(self) -> None:
        """Let go of the client, which ends it if nobody else has it; the stores are closed in any case. Again is fine.

        Where other threads are using it, the last of them ends it. To close it under them can crash the process.
        """
        with self._lock:
            self.closed = True
            client, self._client = self._client, None
        alone = object()
        if client is not None and sys.getrefcount(client) == sys.getrefcount(alone):
            client.close()  # not left to the garbage collection, which stops all threads for up to a second

    def forked(self) -> None:
        """In a forked child: leave the parent's client alone, for ever. Its threads are not here, and to end it or
        free it without them crashes the process."""
        if self._client is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client))
        self._client = None
        self._lock = threading.Lock()

    def _open_in_child(self) -> Client:
        if not self.owned and not self.closed:
            raise StoreError(
                ErrorCode.AEROSPIKE_ERROR,
                "the client was made before this process was forked, and can't be used here: "
                "make a client and a context after the fork",
            )
        with self._lock:
            if self._client is None and not self.closed:
                self._client = _open(self.config, self.caller)
        return self.client


def connect(config: AerospikeConfig) -> AerospikeContext:
    """A context for ``config``, with a client of its own.

    Raises ``StoreError`` if no host can be reached, or if the login is refused.
    """
    return AerospikeContext(_open(config, Caller(config.attempts, config.backoff)), config, owned=True)


def writing(ttl: int, **more: Any) -> dict[str, Any]:
    """What the policy of a write needs besides, in a batch the whole of it. ``ttl``: of the record, in seconds."""
    import aerospike  # noqa: PLC0415  # no driver before a store is opened

    return {
        "key": aerospike.POLICY_KEY_SEND,
        "exists": aerospike.POLICY_EXISTS_IGNORE,
        "gen": aerospike.POLICY_GEN_IGNORE,
        "commit_level": aerospike.POLICY_COMMIT_LEVEL_ALL,
        # Without one the record would get that of the namespace, which often is for ever.
        "ttl": ttl,
        **more,
    }


def _open(config: AerospikeConfig, caller: Caller) -> Client:
    import aerospike  # noqa: PLC0415  # no driver before a store is opened

    settings: dict[str, Any] = {
        "hosts": [(host, port, config.tls_name or host) for host, port in config.addresses],
        "tend_interval": _TEND_INTERVAL,
    }
    what = f"connecting to {config.hosts}"
    if config.user is not None:
        settings |= {"user": config.user, "password": config.password}
    if config.tls:
        # The client by itself trusts nobody.
        system = ssl.get_default_verify_paths()
        trusted = {"cafile": config.tls_ca} if config.tls_ca else {"cafile": system.cafile, "capath": system.capath}
        ours = {"certfile": config.tls_cert, "keyfile": config.tls_key}
        # To the client they look the same.
        what += " with TLS (does the port speak it, and is its certificate trusted here, and for that name?)"
        settings["tls"] = {"enable": True, **{name: path for name, path in (trusted | ours).items() if path}}
    try:
        return caller.read(what, lambda: aerospike.client(settings))
    except StoreError as error:
        if len(config.addresses) == 1:
            raise
        return _open_what_is_left(settings, error)


def _open_what_is_left(settings: dict[str, Any], error: StoreError) -> Client:
    """Where one node is left of a cluster, the client by itself insists on the other hosts too.

    A function of its own: the traceback of ``error`` has the locals of its caller, and would keep the client.
    """
    import aerospike  # noqa: PLC0415  # no driver before a store is opened

    client = aerospike.client({**settings, "fail_if_not_connected": False})
    if client.is_connected():
        return client
    client.close()
    raise error


def _forked() -> None:
    for context in list(_CONTEXTS):
        context.forked()


os.register_at_fork(after_in_child=_forked)
