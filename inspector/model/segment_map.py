"""The segment map: a file as cells of equally many bytes.

    file    |data data data|txn txn c|lost|data ........|  not read yet  |
    cells   d    d    d    t    x    d    d    d    d    u    u    u    u

Where a cell is longer than a few windows of the sparse index these tell its kind; in a shorter file the batches do, as
long as there are not too many to look at each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalog.errors import KafkaLogError

from .batches import ranks
from .segment_index import WINDOW_BYTES
from .types import KINDS, Cell, CellKind
from .window import Window

if TYPE_CHECKING:
    from .segment import SegmentReader


# So many are looked at in a tenth of a second.
EXACT_BATCHES = 20_000
_WORST_LAST: tuple[CellKind, ...] = ("unread", "empty", *KINDS)


class _Stretch(NamedTuple):
    """Bytes of one kind, the batches and records in them (0: unknown), the largest time (-1: none)."""

    start: int
    end: int
    kind: CellKind
    first_row: int
    last_row: int
    records: int = 0
    time: int = -1


def strip(reader: SegmentReader, width: int) -> list[Cell]:
    """Return the cells of the map: `SegmentReader.strip`."""
    size = reader.size
    if not size:
        return []
    exact = size // width < 2 * WINDOW_BYTES and reader.batches <= EXACT_BATCHES
    borders = [size * i // width for i in range(width + 1)]
    cells = [Cell("unread", start, end - start) for start, end in pairwise(borders)]
    for stretch in _stretches(reader, exact):
        ends = stretch.start, max(stretch.start, stretch.end - 1)
        low, high = (min(width - 1, ((position + 1) * width - 1) // size) for position in ends)
        for cell in cells[low : high + 1]:
            _add(cell, stretch)
        _count(cells[low : low + 1 if exact else high + 1], stretch)
    return cells


def _add(cell: Cell, stretch: _Stretch) -> None:
    """Take note of bytes in a cell."""
    cell.kind = max(cell.kind, stretch.kind, key=_WORST_LAST.index)
    if stretch.time >= 0:
        cell.time = max(cell.time or 0, stretch.time)
    if stretch.records:
        cell.record_bytes = max(cell.record_bytes or 0, (stretch.end - stretch.start) // stretch.records)


def _count(cells: list[Cell], stretch: _Stretch) -> None:
    """Count in which cells the batches of a stretch begin; those of a window are taken to be evenly long."""
    rows = stretch.last_row - stretch.first_row + 1
    for i, cell in enumerate(cells):
        begin, end = (stretch.first_row + rows * each // len(cells) for each in (i, i + 1))
        if end > begin:
            cell.first_row = begin if cell.first_row < 0 else cell.first_row
            cell.last_row = end - 1


def _stretches(reader: SegmentReader, exact: bool) -> Iterator[_Stretch]:
    for window in reader.raw.all:
        if window.zeroed:
            yield _Stretch(window.position, window.end, "empty", window.first_row, window.first_row)
        elif exact and window.rows > 1:
            yield from _batches(reader, window)
        else:
            rows = window.first_row, window.first_row + window.rows - 1
            records = window.records if window.lost is None else 0
            yield _Stretch(window.position, window.end, KINDS[window.worst], *rows, records, window.time)


def _batches(reader: SegmentReader, window: Window) -> Iterator[_Stretch]:
    try:
        rows = reader.raw.rows(window)
    except (OSError, KafkaLogError, ValueError):
        yield _Stretch(window.position, window.end, "corrupt", window.first_row, window.first_row)
        return
    positions, sizes, times = (rows[name].tolist() for name in ("position", "size_in_bytes", "max_timestamp"))
    # Of a wrapper, only decoding it would tell.
    counts = np.where(rows["magic"] >= 2, np.maximum(rows["records_count"], 0), rows["compression_type"] == 0).tolist()
    for i, rank in enumerate(ranks(reader, window, rows)):
        number, kind = window.first_row + i, KINDS[rank]
        known = (counts[i], times[i]) if kind != "corrupt" else ()
        yield _Stretch(positions[i], positions[i] + sizes[i], kind, number, number, *known)
