"""What an Aerospike server does, as one table of small programs; run on the double, and on a real server to compare."""

from aerospike_statements import batches, expressions, maps, records
from aerospike_statements.bench import Bench, Failed, Statement, attempt

STATEMENTS: tuple[Statement, ...] = tuple(
    statement for module in (records, maps, expressions, batches) for statement in module.table.rows
)

__all__ = ["STATEMENTS", "Bench", "Failed", "Statement", "attempt"]
