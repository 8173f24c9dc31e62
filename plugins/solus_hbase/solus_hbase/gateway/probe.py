"""Finds out which Thrift interface answers, and says what to try when none does."""

from __future__ import annotations

from typing import Any, final

from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TTransportException

from solus_core.errors import ErrorCode, SolusError, StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Gateway
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway
from solus_hbase.gateway.wire import Address, OpenProtocol, Wire, reason, where, why_not


def open_gateway(config: HBaseConfig, open_protocol: OpenProtocol | None = None) -> Gateway:
    """The gateway that ``config`` asks for, after one call to the first server that answers it.

    Raises ``StoreError`` if none does, or if another interface answers than the one asked for.
    """
    wire = Wire(config, open_protocol)
    found = _ask(wire, config)
    if found is None:
        if config.gateway == "auto":
            raise StoreError(
                ErrorCode.HBASE_ERROR,
                "the server does not say which Thrift interface it speaks: set gateway=thrift2 or gateway=thrift1",
            )
        found = config.gateway
    if config.gateway not in ("auto", found):
        raise StoreError(
            ErrorCode.HBASE_ERROR,
            f"gateway={config.gateway} is configured, and the server speaks {found}: set gateway={found}, "
            "or the port of another Thrift server",
        )
    if found == "thrift2":
        return Thrift2Gateway(wire, config)
    from solus_hbase.gateway.thrift1 import Thrift1Gateway  # noqa: PLC0415  # happybase is slow to import

    return Thrift1Gateway(wire, config)


@final
class _StrangeError(Exception):
    """Somebody listens there, and what comes is no answer; the cause says what."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


def _ask(wire: Wire, config: HBaseConfig) -> str | None:
    unreachable, strange = [], []
    cause: Exception | None = None
    for address in wire.in_turn():
        try:
            return _kind(wire, address)
        except SolusError:
            raise
        except _StrangeError as error:
            strange.append(f"{where(address)} ({reason(error.cause)})")
            cause = error.cause
        except Exception as error:
            unreachable.append(f"{where(address)} ({why_not(error)})")
            cause = error
        wire.shun(address)
    said = [f"no Thrift server of HBase can be reached: {', '.join(unreachable)}"] if unreachable else []
    if strange:
        said.append(_advice(config, ", ".join(strange)))
    raise StoreError(ErrorCode.HBASE_ERROR, "; ".join(said)) from cause


def _kind(wire: Wire, address: Address) -> str | None:
    """What answers there. Fails as ``Wire.connect`` does, or with :class:`_StrangeError`."""
    try:
        return _answer(wire, address)
    except _StrangeError as error:
        if not isinstance(error.cause, (EOFError, TTransportException)):
            raise
    # Hung up: by a server that can't read us, which does so again, or by one that just ended, which can't.
    return _answer(wire, address)


def _answer(wire: Wire, address: Address) -> str | None:
    connection = wire.connect(IDL.THBaseService, address)
    try:
        answer: Any = connection.client.getThriftServerType()
    except ConnectionError:
        raise  # no server of HBase resets a connection because of what it can't read
    except Exception as error:  # a server that speaks otherwise can make the reader fail anyhow
        if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
            return None
        raise _StrangeError(error) from error
    finally:
        connection.close()
    return {IDL.TThriftServerType.ONE: "thrift1", IDL.TThriftServerType.TWO: "thrift2"}.get(answer)


def _advice(config: HBaseConfig, strange: str) -> str:
    used = f"transport={config.transport} and protocol={config.protocol}"
    others = [
        f"transport={transport}&protocol={protocol}"
        for transport in ("buffered", "framed", "http")
        for protocol in ("binary", "compact")
        if (transport, protocol) != (config.transport, config.protocol)
    ]
    return (
        f"what listens at {strange} does not answer with {used}: "
        f"it may have been started another way, try {', '.join(others)} "
        "(-f and the nonblocking servers are framed, -c is compact)"
        + ("" if config.kerberos else ", or kerberos=true")
        + ("" if config.tls else ", or tls=true")
    )
