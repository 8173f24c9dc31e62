"""A real HBase on this machine, for development and tests: downloaded by Maven, run in three Java processes.

:class:`HBaseServer` is the tool, ``solus-hbase dev-server`` the command.
"""

from solus_hbase.dev_server.server import HBaseServer
from solus_hbase.dev_server.tools import DevServerError

__all__ = ["DevServerError", "HBaseServer"]
