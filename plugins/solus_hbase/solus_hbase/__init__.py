"""HBase backend of Solus: ``hbase://host:9090/table``."""

from solus_hbase.config import HBaseConfig
from solus_hbase.context import HBaseContext, connect
from solus_hbase.data_store import HBaseDataStore
from solus_hbase.gateway.base import Gateway
from solus_hbase.meta_store import HBaseMetaStore

__all__ = ["Gateway", "HBaseConfig", "HBaseContext", "HBaseDataStore", "HBaseMetaStore", "connect"]
