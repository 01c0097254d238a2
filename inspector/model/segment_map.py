"""The segment map: a file as cells of equally many bytes.

    file    |data data data|txn txn c|lost|data ........|  not read yet  |
    cells   d    d    d    t    x    d    d    d    d    u    u    u    u

Where a cell is longer than a few windows of the sparse index these tell its kind; in a shorter file the batches do, as
long as there are not too many to look at each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalog.errors import KafkaLogError

from .batches import ranks
from .headers import time_of
from .segment_index import WINDOW_BYTES
from .types import KINDS, Cell, CellKind
from .window import Window

if TYPE_CHECKING:
    from .segment import SegmentReader


# So many are looked at in a tenth of a second.
EXACT_BATCHES = 20_000
# Less than the place of any kind.
_EMPTY, _UNREAD = -1, -2


class _Stretch(NamedTuple):
    """Bytes of one kind (its rank; -1: empty), the batches and records in them (0: unknown), the largest time."""

    start: int
    end: int
    worst: int
    first_row: int
    last_row: int
    records: int = 0
    time: int = -1


def strip(reader: SegmentReader, width: int) -> list[Cell]:
    """Return the cells of the map: `SegmentReader.strip`."""
    if not reader.size:
        return []
    exact = reader.size // width < 2 * WINDOW_BYTES and reader.batches <= EXACT_BATCHES
    cells = _Cells(reader.size, width, exact=exact)
    for stretch in _stretches(reader, cells.exact):
        cells.add(stretch)
    return cells.all()


class _Cells:
    """The cells while they are filled."""

    def __init__(self, size: int, width: int, *, exact: bool) -> None:
        self.exact = exact
        self._size = size
        self._width = width
        self._worst, self._first, self._last = [_UNREAD] * width, [-1] * width, [-1] * width
        # Bytes a record, of the stretch where that is most; and the largest time.
        self._bytes, self._times = [-1] * width, [-1] * width

    def add(self, stretch: _Stretch) -> None:
        """Take note of some bytes."""
        low, high = self._cell_of(stretch.start), self._cell_of(max(stretch.start, stretch.end - 1))
        for cell in range(low, high + 1):
            self._worst[cell] = max(self._worst[cell], stretch.worst)
            self._times[cell] = max(self._times[cell], stretch.time)
            if stretch.records:
                self._bytes[cell] = max(self._bytes[cell], (stretch.end - stretch.start) // stretch.records)
        self._count(stretch, low, high)

    def _count(self, stretch: _Stretch, low: int, high: int) -> None:
        """Count in which cells the batches of a stretch begin; those of a window are taken to be evenly long."""
        rows, cells = stretch.last_row - stretch.first_row + 1, high - low + 1
        for cell in range(low, low + 1 if self.exact else high + 1):
            begin = stretch.first_row + rows * (cell - low) // cells
            end = stretch.last_row if self.exact else stretch.first_row + rows * (cell - low + 1) // cells - 1
            if end >= begin:
                self._first[cell] = begin if self._first[cell] < 0 else min(self._first[cell], begin)
                self._last[cell] = max(self._last[cell], end)

    def _cell_of(self, position: int) -> int:
        """Return the cell that a byte is in; cell i begins at size * i // width."""
        return min(self._width - 1, ((position + 1) * self._width - 1) // self._size)

    def all(self) -> list[Cell]:
        """Return what is known of each cell."""
        borders = [self._size * i // self._width for i in range(self._width + 1)]
        return [
            Cell(
                _kind(self._worst[i]),
                borders[i],
                borders[i + 1] - borders[i],
                self._first[i],
                self._last[i],
                self._bytes[i] if self._bytes[i] >= 0 else None,
                time_of(self._times[i]),
            )
            for i in range(self._width)
        ]


def _kind(worst: int) -> CellKind:
    if worst == _UNREAD:
        return "unread"
    return "empty" if worst == _EMPTY else KINDS[worst]


def _stretches(reader: SegmentReader, exact: bool) -> Iterator[_Stretch]:
    for window in reader.raw.all:
        if window.zeroed:
            yield _Stretch(window.position, window.end, _EMPTY, window.first_row, window.first_row)
        elif exact and window.rows > 1:
            yield from _batches(reader, window)
        else:
            rows = window.first_row, window.first_row + window.rows - 1
            records = window.records if window.lost is None else 0
            yield _Stretch(window.position, window.end, window.worst, *rows, records, window.time)


def _batches(reader: SegmentReader, window: Window) -> Iterator[_Stretch]:
    try:
        rows = reader.raw.rows(window)
    except (OSError, KafkaLogError, ValueError):
        yield _Stretch(window.position, window.end, len(KINDS) - 1, window.first_row, window.first_row)
        return
    positions, sizes, times = (rows[name].tolist() for name in ("position", "size_in_bytes", "max_timestamp"))
    # Of a wrapper, only decoding it would tell.
    counts = np.where(rows["magic"] >= 2, np.maximum(rows["records_count"], 0), rows["compression_type"] == 0).tolist()
    for i, worst in enumerate(ranks(reader, window, rows)):
        number = window.first_row + i
        known = (counts[i], times[i]) if KINDS[worst] != "corrupt" else ()
        yield _Stretch(positions[i], positions[i] + sizes[i], worst, number, number, *known)
