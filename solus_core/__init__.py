"""Solus: "have I seen this id in the last N days?", answered by sharded Bloom filters with expiry times."""

from solus_core.engine import SolusEngine
from solus_core.errors import ErrorCode, SolusError
from solus_core.model import Atomicity, DeDuper, DeDuperConfig, Level

__all__ = ["Atomicity", "DeDuper", "DeDuperConfig", "ErrorCode", "Level", "SolusEngine", "SolusError"]
