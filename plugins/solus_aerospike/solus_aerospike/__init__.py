"""Aerospike backend of Solus: ``aerospike://host:3000/namespace/set``."""

from solus_aerospike.config import AerospikeConfig
from solus_aerospike.context import AerospikeContext, connect
from solus_aerospike.data_store import AerospikeDataStore
from solus_aerospike.meta_store import AerospikeMetaStore

__all__ = ["AerospikeConfig", "AerospikeContext", "AerospikeDataStore", "AerospikeMetaStore", "connect"]
