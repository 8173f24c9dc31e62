"""De-dupers in HBase: the view that one engine has of its client's meta table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import evolve

from solus_core.errors import ConfigMismatchError, DeDuperNotFoundError, ErrorCode, StoreError
from solus_core.model import DeDuper
from solus_hbase.config import check_table_part
from solus_hbase.context import HBaseContext
from solus_hbase.gateway.base import Cells
from solus_hbase.layout import META_FAMILY, meta_row_key, meta_table
from solus_hbase.records import ACTIVE, CLAIM, COLUMNS, NAME, YES, activity, decode, decode_claim, encode, encode_claim
from solus_hbase.tables import ensure_table


@final
class HBaseMetaStore:
    """A ``MetaStore`` (see there) for one client id. Farms share it."""

    __slots__ = ("_client_id", "_closed", "_context", "_gateway", "_table")

    def __init__(self, context: HBaseContext, client_id: str) -> None:
        self._context = context
        self._gateway = context.gateway
        self._client_id = check_table_part("client_id", client_id)
        self._table = meta_table(context.config, client_id)
        self._closed = False
        ensure_table(context.gateway, context.config, self._table, META_FAMILY)

    def create(self, deduper: DeDuper) -> DeDuper:
        stored = self._insert_if_absent(deduper)
        # Who names a layout relies on it: beside Java's writes, say.
        if self._context.config.layout == deduper.layout != stored.layout:
            raise ConfigMismatchError(deduper.name, {"layout": (stored.layout, deduper.layout)})
        return stored

    def _insert_if_absent(self, deduper: DeDuper) -> DeDuper:
        stored = self.get(deduper.name)
        if stored is not None:
            return stored
        key, cells = meta_row_key(self._client_id, deduper.name), encode(deduper)
        # An unclear try is not guessed at: whoever was first is read afterwards.
        if self._gateway.atomic:
            self._gateway.check_and_put(self._table, META_FAMILY, key, (NAME, None), cells)
        else:
            claim = [(CLAIM, encode_claim(deduper))]
            self._gateway.check_and_put(self._table, META_FAMILY, key, (CLAIM, None), claim)
            found = self._cells(deduper.name)
            won = self._claimed(found)
            if won is not None:
                # As of the claim: a try that is held up on its way undoes no later change.
                self._gateway.put(self._table, META_FAMILY, [(key, encode(won))], found[CLAIM][1])
        stored = self.get(deduper.name)
        if stored is None:
            raise StoreError(ErrorCode.HBASE_ERROR, f"de-duper {deduper.name!r} was recorded, and is not there")
        return stored

    def get(self, name: str) -> DeDuper | None:
        cells = self._cells(name)
        return decode(self._client_id, cells, repr(name)) if NAME in cells else self._claimed(cells)

    def set_active(self, name: str, active: bool, now: int) -> None:
        cells = self._cells(name)
        changed = activity(active, now)
        if NAME not in cells:
            claimed = self._claimed(cells)
            if claimed is None:
                raise DeDuperNotFoundError(name, "is not registered")
            # Whoever claimed the name stopped before the row was complete.
            changed = encode(evolve(claimed, active=active, updated_at=now))
        # Just after what is there, whosever clock that is by: it is seen, and a try that is held up on its way undoes
        # no later change. And not later than that: Java's writes, which have the server's time, go on to win.
        after = max(timestamp for _, timestamp in cells.values()) + 1
        self._gateway.put(self._table, META_FAMILY, [(meta_row_key(self._client_id, name), changed)], after)

    def active(self) -> Iterable[DeDuper]:
        self._check()
        found = self._gateway.scan(self._table, META_FAMILY, (ACTIVE, YES), COLUMNS)
        return [decode(self._client_id, cells, repr(row)) for row, cells in found if NAME in cells]

    def close(self) -> None:
        self._closed = True

    def _cells(self, name: str) -> Cells:
        self._check()
        return self._gateway.get(self._table, META_FAMILY, [(meta_row_key(self._client_id, name), COLUMNS)])[0]

    @staticmethod
    def _claimed(cells: Cells) -> DeDuper | None:
        return decode_claim(cells[CLAIM][0]) if CLAIM in cells and NAME not in cells else None

    def _check(self) -> None:
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.HBASE_ERROR, "this store is closed")
