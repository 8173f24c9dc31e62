"""A statement: a small program with the client, and what it gives on a server of ours or a real one."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aerospike
from aerospike import exception
from aerospike_helpers.batch import records as batch  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import expression_operations  # type: ignore[import-untyped]  # it has no types

EXPRESSION_DEFAULT = aerospike.EXP_READ_DEFAULT


@dataclass(frozen=True)
class Failed:
    """The client raised; ``code`` is negative where the client itself refused."""

    code: int


class Bench:
    """A client, and a set that only this statement uses.

    Args:
        client: Connected to the server to ask.
        namespace: With TTLs, and records of at most 1 MiB.
    """

    def __init__(self, client: Any, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.set = "s" + uuid.uuid4().hex[:12]

    def key(self, name: Any = "k") -> tuple[str, str, Any]:
        """Key of a record in the set."""
        return self.namespace, self.set, name

    def put(self, bins: dict[str, Any], name: Any = "k", **policy: Any) -> None:
        """Write bins of a record."""
        self.client.put(self.key(name), bins, policy=policy)

    def bins(self, name: Any = "k") -> dict[str, Any]:
        """All bins of a record."""
        return dict(self.client.get(self.key(name))[2])

    def meta(self, name: Any = "k") -> dict[str, int]:
        """Generation and TTL of a record."""
        return dict(self.client.get(self.key(name))[1])

    def operate(self, *operations: dict[str, Any], name: Any = "k", **policy: Any) -> dict[str, Any]:
        """Answer of several operations on a record, by bin."""
        return dict(self.client.operate(self.key(name), list(operations), policy=policy)[2])

    def ordered(self, *operations: dict[str, Any], name: Any = "k", **policy: Any) -> list[Any]:
        """Answers of several operations, in their order."""
        found = self.client.operate_ordered(self.key(name), list(operations), policy=policy)[2]
        return [value for _, value in found]

    def value(self, expression: Any, name: Any = "k", flags: int = EXPRESSION_DEFAULT) -> Any:
        """Value of an expression on a record."""
        read = expression_operations.expression_read("x", expression.compile(), flags)
        return self.client.operate(self.key(name), [read])[2].get("x", "nothing")

    def passes(self, expression: Any, name: Any = "k") -> Any:
        """Whether a record passes a filter; :class:`Failed` for other failures than that."""
        found = attempt(lambda: self.client.get(self.key(name), policy={"expressions": expression.compile()}))
        return found if isinstance(found, Failed) and found.code != 27 else not isinstance(found, Failed)

    def batch(self, *rows: Any, **policy: Any) -> tuple[int, list[tuple[int, Any]]]:
        """Result of a ``batch_write``, and code and bins of each row."""
        found = batch.BatchRecords(list(rows))
        self.client.batch_write(found, policy)
        return found.result, outcomes(found)


def outcomes(found: Any) -> list[tuple[int, Any]]:
    """Code and bins of each row of a batch."""
    return [(row.result, None if row.record is None else [*row.record, {}][2]) for row in found.batch_records]


def attempt(run: Callable[[], Any]) -> Any:
    """What ``run`` gives, or how the client failed."""
    try:
        return run()
    except exception.AerospikeError as error:
        return Failed(error.code or 0)


@dataclass(frozen=True)
class Statement:
    """One row of the table: ``run`` on a bench of its own gives ``expected``."""

    name: str
    serves: str
    run: Callable[[Bench], Any]
    expected: Any


class Table:
    """Collects statements: ``@table.row("R4", expected)`` on a function of a bench."""

    def __init__(self) -> None:
        self.rows: list[Statement] = []

    def row(self, serves: str, expected: Any) -> Callable[[Callable[[Bench], Any]], Callable[[Bench], Any]]:
        """The function below gives ``expected``; ``serves`` names the promise or fact behind it."""

        def add(run: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
            self.rows.append(Statement(run.__name__, serves, run, expected))
            return run

        return add
