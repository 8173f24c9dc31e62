"""What the stores want from HBase, whatever the Thrift interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

Cells = dict[bytes, tuple[bytes, int]]
"""The newest cells of one row and family, by qualifier: value, and timestamp in ms."""

Pairs = Sequence[tuple[bytes, bytes]]
"""Cells to write into one row and family: qualifier and value."""


class Gateway(Protocol):
    """A Thrift server of HBase. Every method may be called by many threads at once.

    Failures are ``StoreError`` with the code ``HBASE_ERROR``, the first line of the server's message (and where it
    announces a list of errors, the last one) and the driver's error as cause; they come after the retries that
    could cure them. Tables are full names
    (``namespace:table``), timestamps and TTLs (counted from the cell's timestamp) are milliseconds, None where
    the server's default is meant. Each method but ``scan`` is one call to the server when all goes well.
    """

    @property
    def atomic(self) -> bool:
        """Can :meth:`check_and_put` write several cells in one atomic step?"""

    def get(self, table: str, family: bytes, wanted: Sequence[tuple[bytes, Sequence[bytes] | None]]) -> list[Cells]:
        """The cells of each row, of the qualifiers given or of all; no cells for a row that isn't there."""

    def put(
        self,
        table: str,
        family: bytes,
        rows: Sequence[tuple[bytes, Pairs]],
        timestamp: int | None = None,
        ttl: int | None = None,
    ) -> None:
        """Write cells into rows. Repeated after a failure, so it must not matter that it is applied twice."""

    def check_and_put(
        self,
        table: str,
        family: bytes,
        row: bytes,
        check: tuple[bytes, bytes | None],
        cells: Pairs,
        timestamp: int | None = None,
        ttl: int | None = None,
    ) -> bool:
        """Write the cells if the one cell of ``check`` still has this value (None: is absent); did that happen?

        Where the gateway is not ``atomic``, ``cells`` is one cell, the checked one. True is certain. False is
        not: a try whose answer was lost is repeated, here and by HBase's own client in the Thrift server, and may
        have been applied. Read what is there.
        """

    def scan(
        self, table: str, family: bytes, equal: tuple[bytes, bytes], qualifiers: Sequence[bytes]
    ) -> Iterable[tuple[bytes, Cells]]:
        """All rows whose cell ``equal[0]`` has the value ``equal[1]``, filtered by the server; row key and cells."""

    def families(self, table: str) -> frozenset[bytes] | None:
        """The families of a table, None if there is no such table."""

    def available(self, table: str) -> bool:
        """Can an existing table be used already?"""

    def create_table(self, table: str, family: bytes, compression: str, split_keys: Sequence[bytes]) -> None:
        """Create a table with one family of one version. Not repeated after a failure."""

    def close(self) -> None:
        """Close the connections; closing again is fine."""
