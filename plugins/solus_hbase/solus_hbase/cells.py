"""What the cells of a data row say about positions, and what to write so that R4 holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import final

from attrs import frozen

from solus_core.errors import ErrorCode, StoreError
from solus_core.model import DeDuper
from solus_hbase.gateway.base import Cells, Pairs
from solus_hbase.layout import LONG, SHARD, RowKeys, legacy_qualifier, qualifier


@final
@frozen(eq=False)
class Place:
    """Where one de-duper's positions are and how they are written.

    ``native``: a cell's timestamp is its expiry. The newest timestamp is what HBase answers, so that the longest
    expiry wins by itself and an add needs no read. Otherwise (``java``) the timestamp is the time of writing, or
    later where a cell is there that would hide ours, and legacy boolean cells may be there.
    """

    deduper: DeDuper
    table: str
    row_key: RowKeys
    native: bool

    @property
    def expiry_ms(self) -> int:
        """How long a cell stays after it was written (R10), ms."""
        return self.deduper.config.expiry_seconds * 1_000

    def stamps(self, now: int, expires_at: int, newest: int = 0) -> tuple[int, int]:
        """Timestamp and TTL (counted from it) of the cells of one write, ms.

        ``newest``: the newest timestamp of the cells that are written over, which may be later than ``now``: others
        have other clocks. It has no say in the native layout.
        """
        if self.native:
            return expires_at, max(1, now + self.expiry_ms - expires_at)
        return max(now, newest + 1), self.expiry_ms

    def qualifiers(self, positions: Iterable[int]) -> list[bytes]:
        """The columns to read."""
        wanted = [qualifier(position) for position in positions]
        if not self.native:
            wanted += [legacy_qualifier(position) for position in positions]
        return wanted


@final
class Held:
    """What is known of one data row, as read, and as written since."""

    __slots__ = ("_cells", "_place")

    def __init__(self, place: Place, cells: Cells) -> None:
        self._place = place
        self._cells = _checked(place, cells)

    def unset(self, positions: Collection[int], now: int) -> list[int]:
        """Those of the positions that are unset or expired (R1), in order."""
        return sorted(position for position in positions if not self._live(position, now))

    def absent(self, positions: Iterable[int], now: int) -> bool:
        """Is at least one of the positions unset or expired (R1)?"""
        return any(not self._live(position, now) for position in positions)

    def value(self, position: int) -> bytes | None:
        """The cell of the position as stored, for a check that it hasn't changed."""
        cell = self._cells.get(qualifier(position))
        return None if cell is None else cell[0]

    def lowest(self, positions: Iterable[int]) -> int:
        """The position that ends first, of several the first one: an unset one before all others.

        Whoever raises any of the positions raises this one, so a check on it tells of all of them.
        """
        return min(positions, key=lambda position: (self._end(position), position))

    def newest(self, positions: Iterable[int]) -> int:
        """The newest timestamp among the cells of these positions, 0 if there are none."""
        cells = (self._cells.get(qualifier(position)) for position in positions)
        return max((cell[1] for cell in cells if cell is not None), default=0)

    def raised(self, positions: Collection[int], expires_at: int) -> dict[int, int]:
        """The positions that must be written so that each holds ``expires_at`` or later, and what to write."""
        if self._place.native:
            return dict.fromkeys(positions, expires_at)
        wanted = {}
        for position in positions:
            value = self.value(position)
            if value is None:
                # Our cell will hide a legacy one; it must last as long, and that one lives this long at most.
                wanted[position] = max(expires_at, self._legacy_end(position))
            elif LONG.unpack(value)[0] < expires_at:
                wanted[position] = expires_at
        return wanted

    def read_again(self, positions: Iterable[int], cells: Cells) -> None:
        """Take in the cells of these positions as just read; one that is gone must not linger here."""
        for name in self._place.qualifiers(positions):
            self._cells.pop(name, None)
        self._cells.update(_checked(self._place, cells))

    def wrote(self, written: Pairs, timestamp: int) -> None:
        """Take in cells that were just written."""
        for name, value in written:
            cell = self._cells.get(name)
            # A lower timestamp stays hidden.
            if cell is None or cell[1] <= timestamp:
                self._cells[name] = (value, timestamp)

    def _live(self, position: int, now: int) -> bool:
        cell = self._cells.get(qualifier(position))
        if cell is not None:
            return bool(LONG.unpack(cell[0])[0] >= now)
        return not self._place.native and self._legacy(position) is not None

    def _end(self, position: int) -> int:
        value = self.value(position)
        return -1 if value is None else int(LONG.unpack(value)[0])

    def _legacy(self, position: int) -> tuple[bytes, int] | None:
        cell = self._cells.get(legacy_qualifier(position))
        return None if cell is None or cell[0] in (b"\0", b"") else cell

    def _legacy_end(self, position: int) -> int:
        cell = self._legacy(position)
        return 0 if cell is None else cell[1] + self._place.expiry_ms


def _checked(place: Place, cells: Cells) -> Cells:
    for name, (value, _) in cells.items():
        if len(value) != LONG.size and name.endswith(b"#ttl"):
            raise StoreError(
                ErrorCode.HBASE_ERROR,
                f"table {place.table}, de-duper {place.deduper.name!r}, column S:{name.decode(errors='replace')}: "
                f"the value is {value[:40]!r}, where an expiry of {LONG.size} bytes belongs",
            )
    return cells


def pairs(shard: int, expiries: dict[int, int]) -> Pairs:
    """The cells that set positions to expiries, and the column that the Java batch reader needs in each row."""
    cells = [(qualifier(position), LONG.pack(expiry)) for position, expiry in expiries.items()]
    cells.append((SHARD, LONG.pack(shard)))
    return cells
