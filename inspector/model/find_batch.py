"""Which batch of a segment is meant: that at a position, an offset or a time; the next one of a kind.

    offset 1055       window 3 (1024..2047), row 31 of its header table
    next damage       window 0, 1, 2: none, not read; window 3: row 4

What the sparse index says of a window tells whether its batches have to be looked at at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT

from .batches import Held
from .headers import flags_of
from .window import CORRUPT, DATA, Window

if TYPE_CHECKING:
    from .segment import SegmentReader
    from .segment_index import Windows


def batch_at(reader: SegmentReader, *, position: int | None, offset: int | None) -> int | None:
    """Return the batch at a position or an offset: `SegmentReader.batch_at`."""
    if not reader.batches:
        return None
    if position is not None:
        return _row_at_position(reader, reader.raw, position)
    return None if offset is None else _row_at_offset(reader, reader.raw, offset)


def _row_at_position(reader: SegmentReader, windows: Windows, position: int) -> int | None:
    number = windows.number_at(lambda window: window.position, position)
    if number < 0 or position >= windows.all[-1].end:
        return None
    window = windows.all[number]
    rows = reader.held(window).rows
    if rows is None:
        return window.first_row
    return window.first_row + int(np.searchsorted(rows["position"], position, "right")) - 1


def _row_at_offset(reader: SegmentReader, windows: Windows, offset: int) -> int | None:
    """Return the first batch whose last offset is `offset` or more."""
    for window in windows.from_number(windows.number_at(lambda each: each.last_offset, offset - 1) + 1):
        rows = reader.held(window).rows
        if rows is not None and len(found := np.flatnonzero(rows["last_offset"] >= offset)):
            return window.first_row + int(found[0])
    return None


def next_damage(reader: SegmentReader, row: int, forwards: bool) -> int | None:
    """Return the next damaged batch: `SegmentReader.next_damage`."""
    return _next(reader, row, forwards, _damaged, lambda window: window.worst == CORRUPT)


def _damaged(window: Window, held: Held) -> list[int]:
    if held.rows is None:
        return [] if window.zeroed else list(range(window.rows))
    return sorted(held.bad)


def next_transaction(reader: SegmentReader, row: int, forwards: bool, producer: int | None) -> int | None:
    """Return the next batch of another transaction: `SegmentReader.next_transaction`."""
    own = producer_at(reader, row) if producer is None else producer

    def wanted(_: Window, held: Held) -> list[int]:
        if held.rows is None:
            return []
        flags = flags_of(held.rows)
        other = (held.rows["producer_id"] != (-1 if own is None else own)) | (flags & CONTROL_BIT != 0)
        return np.flatnonzero((flags & TRANSACTIONAL_BIT != 0) & other).tolist()

    return _next(reader, row, forwards, wanted, lambda window: window.worst > DATA)


def producer_at(reader: SegmentReader, row: int) -> int | None:
    """Return whose transaction a batch is of: `SegmentReader.producer_at`."""
    here = reader.batch(row)
    return here.producer_id if here is not None and here.is_transactional else None


def _next(
    reader: SegmentReader,
    row: int,
    forwards: bool,
    wanted: Callable[[Window, Held], list[int]],
    in_window: Callable[[Window], bool],
) -> int | None:
    """Return the next row that `wanted` selects among the rows of a window."""
    if not reader.batches:
        return None
    windows = reader.raw
    number = max(0, windows.number_at(lambda window: window.first_row, row))
    for each in windows.all[number:] if forwards else windows.all[number::-1]:
        if in_window(each):
            rows = [each.first_row + i for i in wanted(each, reader.held(each))]
            beyond = [found for found in rows if (found > row if forwards else found < row)]
            if beyond:
                return beyond[0 if forwards else -1]
    return None
