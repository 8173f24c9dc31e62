"""In-memory backend of Solus: ``memory://``, ``memory://?name=x`` and ``memory:///path/to/file``."""

from solus_memory.config import MemoryConfig
from solus_memory.context import MemoryContext, connect
from solus_memory.data_store import MemoryDataStore
from solus_memory.meta_store import MemoryMetaStore

__all__ = ["MemoryConfig", "MemoryContext", "MemoryDataStore", "MemoryMetaStore", "connect"]
