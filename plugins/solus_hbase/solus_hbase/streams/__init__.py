"""Records of a stream into HBase: puts, counters, counters that count once. No stream processor is needed."""

from solus_hbase.streams.counter_sink import CounterSink
from solus_hbase.streams.errors import (
    BufferFullError,
    CounterError,
    FlushError,
    Record,
    RecordError,
    StaleTransactionError,
)
from solus_hbase.streams.idempotent import IdempotentCounterSink, Transaction
from solus_hbase.streams.mapping import TableMapping
from solus_hbase.streams.put_sink import PutSink
from solus_hbase.streams.tables import create_table

__all__ = [
    "BufferFullError",
    "CounterError",
    "CounterSink",
    "FlushError",
    "IdempotentCounterSink",
    "PutSink",
    "Record",
    "RecordError",
    "StaleTransactionError",
    "TableMapping",
    "Transaction",
    "create_table",
]
