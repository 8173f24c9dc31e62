"""A live connection to HBase: the gateway, and on whose behalf it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from solus_core.config import StorageContext
from solus_hbase.config import HBaseConfig
from solus_hbase.gateway.base import Gateway


@final
class HBaseContext(StorageContext):
    """``gateway``: makes the calls. ``config``: tables, farm, layout. ``owned``: does :meth:`close` close the gateway?

    To use a gateway of your own, or one that several contexts share, pass it here, with ``owned`` False. To use
    connections that you open yourself, see :meth:`around`.
    """

    __slots__ = ("closed", "config", "gateway", "owned")

    def __init__(self, gateway: Gateway, config: HBaseConfig, *, owned: bool = False) -> None:
        self.gateway = gateway
        self.config = config
        self.owned = owned
        self.closed = False

    @classmethod
    def around(cls, open_protocol: Callable[[], Any], config: HBaseConfig) -> HBaseContext:
        """A context whose connections ``open_protocol`` opens: it answers a thriftpy2 protocol, ready for calls.

        It is called when a connection is needed, up to ``config.pool_size`` times at once, and again for those
        that break; whatever it raises then counts as a server that can't be reached. Connections that it opened are
        closed with the context.
        """
        from solus_hbase.gateway.probe import open_gateway  # noqa: PLC0415  # no driver before a store is opened

        return cls(open_gateway(config, open_protocol), config, owned=True)

    def close(self) -> None:
        """Close the gateway if it is ours; the stores are closed in any case. Closing again is fine."""
        self.closed = True
        if self.owned:
            self.gateway.close()


def connect(config: HBaseConfig) -> HBaseContext:
    """A context for ``config``: finds out which Thrift interface answers.

    Raises ``StoreError`` if no server can be reached, or if it doesn't speak as configured.
    """
    from solus_hbase.gateway.probe import open_gateway  # noqa: PLC0415  # no driver before a store is opened

    return HBaseContext(open_gateway(config), config, owned=True)
