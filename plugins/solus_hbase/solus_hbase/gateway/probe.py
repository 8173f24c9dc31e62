"""Finds out which Thrift interface answers, and says what to try when none does."""

from __future__ import annotations

from typing import Any

from thriftpy2.thrift import TApplicationException

from solus_core.errors import ErrorCode, StoreError
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Gateway
from solus_hbase.gateway.thrift2 import IDL, Thrift2Gateway
from solus_hbase.gateway.wire import OpenProtocol, Wire, reason


def open_gateway(config: HBaseConfig, open_protocol: OpenProtocol | None = None) -> Gateway:
    """The gateway that ``config`` asks for, after one call to a server.

    Raises ``StoreError`` if that call fails, or if another interface answers than the one asked for.
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


def _ask(wire: Wire, config: HBaseConfig) -> str | None:
    connection = wire.open(IDL.THBaseService)
    try:
        answer: Any = connection.client.getThriftServerType()
    except TApplicationException as error:
        if error.type == TApplicationException.UNKNOWN_METHOD:
            return None
        raise StoreError(ErrorCode.HBASE_ERROR, _advice(config, connection.address, error)) from error
    except Exception as error:  # a server that speaks otherwise can make the reader fail anyhow
        raise StoreError(ErrorCode.HBASE_ERROR, _advice(config, connection.address, error)) from error
    finally:
        connection.close()
    return {IDL.TThriftServerType.ONE: "thrift1", IDL.TThriftServerType.TWO: "thrift2"}.get(answer)


def _advice(config: HBaseConfig, address: str, error: Exception) -> str:
    used = f"transport={config.transport} and protocol={config.protocol}"
    others = [
        f"transport={transport}&protocol={protocol}"
        for transport in ("buffered", "framed", "http")
        for protocol in ("binary", "compact")
        if (transport, protocol) != (config.transport, config.protocol)
    ]
    return (
        f"what listens at {address or 'the given connection'} does not answer with {used} ({reason(error)}): "
        f"it may have been started another way, try {', '.join(others)} "
        "(-f and the nonblocking servers are framed, -c is compact)"
        + ("" if config.kerberos else ", or kerberos=true")
        + ("" if config.tls else ", or tls=true")
    )
