"""Which batch of a segment is meant: that at a position, an offset or a time; the next one of a kind.

    offset 1055       window 3 (1024..2047), row 31 of its header table
    next damage       window 0, 1, 2: none, not read; window 3: row 4

What the sparse index says of a window tells whether its batches have to be looked at at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from inspector.reading.answers import BatchRow
from inspector.reading.batch_rows import row_of
from inspector.reading.window import CORRUPT, Window

if TYPE_CHECKING:
    from inspector.reading.batches import SegmentReader
    from inspector.reading.windows import Windows


def batch_at(
    reader: SegmentReader, *, position: int | None = None, offset: int | None = None, timestamp: int | None = None
) -> int | None:
    """See `SegmentReader.batch_at`."""
    if reader.raw is None:
        return None
    if position is not None:
        return _row_at_position(reader, reader.raw, position)
    if offset is not None:
        return _first_row(reader, reader.raw, "last_offset", offset)
    if timestamp is not None:
        return _first_row(reader, reader.raw, "max_timestamp", timestamp)
    raise ValueError("a position, an offset or a timestamp is needed")


def _row_at_position(reader: SegmentReader, windows: Windows, position: int) -> int | None:
    number = windows.number_at(lambda window: window.position, position)
    if number < 0 or position >= windows.all[-1].end:
        return None
    window = windows.all[number]
    rows = reader.held(window).rows
    if rows is None:
        return window.first_row
    return window.first_row + int(np.searchsorted(rows["position"], position, "right")) - 1


def _first_row(reader: SegmentReader, windows: Windows, name: str, value: int) -> int | None:
    """The first batch whose `name` is `value` or more."""
    if name == "last_offset":
        candidates = windows.from_number(windows.number_at(lambda window: window.last_offset, value - 1) + 1)
    else:
        candidates = (window for window in windows.all if window.max_timestamp >= value)
    for window in candidates:
        rows = reader.held(window).rows
        if rows is None:
            continue
        found = np.flatnonzero(rows[name] >= value)
        if len(found):
            return window.first_row + int(found[0])
    return None


def next_damage(reader: SegmentReader, row: int, forwards: bool) -> int | None:
    """See `SegmentReader.next_damage`."""
    return _next(reader, row, forwards, lambda each: each.kind == "corrupt", lambda window: window.worst == CORRUPT)


def next_transaction(reader: SegmentReader, row: int, forwards: bool) -> int | None:
    """See `SegmentReader.next_transaction`."""
    here = reader.batch(row)
    producer = here.producer_id if here is not None and here.is_transactional else None

    def wanted(each: BatchRow) -> bool:
        other = each.producer_id != producer or each.control is not None
        return each.is_transactional and other

    return _next(reader, row, forwards, wanted, lambda window: window.has_transactional)


def _next(
    reader: SegmentReader,
    row: int,
    forwards: bool,
    wanted: Callable[[BatchRow], bool],
    in_window: Callable[[Window], bool],
) -> int | None:
    windows = reader.raw
    if windows is None or not windows.all:
        return None
    number = max(0, windows.number_at(lambda window: window.first_row, row))
    for each in range(number, len(windows.all)) if forwards else range(number, -1, -1):
        if in_window(windows.all[each]):
            found = _next_in(reader, windows.all[each], row, forwards, wanted)
            if found is not None:
                return found
    return None


def _next_in(
    reader: SegmentReader, window: Window, row: int, forwards: bool, wanted: Callable[[BatchRow], bool]
) -> int | None:
    held = reader.held(window)
    for i in range(window.rows) if forwards else range(window.rows - 1, -1, -1):
        number = window.first_row + i
        is_beyond = number > row if forwards else number < row
        if is_beyond and wanted(row_of(reader, window, held, i)):
            return number
    return None
