"""A numpy table's content on its way to and from a state file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solus_memory.dense import BLOCK, DenseForm
from solus_memory.sparse import SparseForm, slot_bytes
from solus_memory.tables import Dump, Read


def dump_form(form: SparseForm | DenseForm, unit: int, odd: Mapping[tuple[int, int], int]) -> Dump:
    """All stamps of ``form`` in the smaller way: one for each position, or those that are set with theirs."""
    record = _record(form.total)
    count, stamps = form.live(1), form.total * 4
    dense = count * record.itemsize >= stamps and isinstance(form, DenseForm)
    header = {
        "base": form.base,
        "unit": unit,
        "dense": dense,
        "odd": [[*key, expiry] for key, expiry in odd.items()],
    }
    if dense:
        return Dump(header, stamps, _stamps(form.stamps))
    return Dump(header, count * record.itemsize, _records(form, record))


def live_positions(header: Mapping[str, Any], total: int) -> int:
    """How many positions the payload holds, at most; ``ValueError`` if its size makes no sense."""
    count, rest = divmod(header["size"], 4 if header["dense"] else _record(total).itemsize)
    if rest or not 0 <= count <= total or (header["dense"] and count != total):
        raise ValueError(f"{header['size']!r} bytes for {total} positions")
    return int(count)


def fill_form(form: SparseForm | DenseForm, header: Mapping[str, Any], total: int, read: Read) -> None:
    """Put the payload into an empty form with room for it; ``ValueError`` if it makes no sense."""
    record = _record(total)
    if header["dense"]:
        for start in range(0, total, BLOCK):
            stamps = np.empty(min(BLOCK, total - start), "<u4")
            read(stamps.data.cast("B"))
            found = np.flatnonzero(stamps)
            form.load(found + start, stamps[found].astype(np.uint32))
        return
    for left in range(header["size"] // record.itemsize, 0, -BLOCK):
        block = np.empty(min(BLOCK, left), record)
        read(block.view(np.uint8).data)
        flat, stamps = block["at"].astype(np.int64), block["stamp"].astype(np.uint32)
        if not 0 <= int(flat.min()) <= int(flat.max()) < total or not stamps.all():
            raise ValueError("a position or a stamp is out of range")
        form.load(flat, stamps)


def _record(total: int) -> np.dtype[np.void]:
    """A position and its stamp."""
    return np.dtype([("at", "<u4" if slot_bytes(total) == 8 else "<u8"), ("stamp", "<u4")])


def _stamps(stamps: NDArray[np.uint32]) -> Iterator[memoryview]:
    for start in range(0, len(stamps), BLOCK):
        yield stamps[start : start + BLOCK].astype("<u4", copy=False).data.cast("B")


def _records(form: SparseForm | DenseForm, record: np.dtype[np.void]) -> Iterator[memoryview]:
    for flat, stamps in form.items(1):
        block = np.empty(len(flat), record)
        block["at"], block["stamp"] = flat, stamps
        yield block.view(np.uint8).data
