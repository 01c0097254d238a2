"""The segment map: a file as cells of equally many bytes.

    file    |data data data|txn txn c|lost|data ........|  not read yet  |
    cells   d    d    d    t    x    d    d    d    d    u    u    u    u

Where a cell is longer than a few windows of the sparse index these tell its kind; in a shorter file the batches do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from inspector.reading.answers import KINDS, Cell, CellKind
from inspector.reading.windows import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from inspector.reading.batches import SegmentReader


class _Stretch(NamedTuple):
    """Bytes of one kind (its rank; -1: empty), and the batches in them."""

    start: int
    end: int
    worst: int
    first_row: int
    last_row: int


def strip(reader: SegmentReader, width: int) -> list[Cell]:
    """See `SegmentReader.strip`."""
    size = reader.size
    if not size:
        return []
    borders = [size * i // width for i in range(width + 1)]
    worst, first, last = [-2] * width, [-1] * width, [-1] * width
    exact = size // width < 2 * WINDOW_BYTES
    for stretch in _stretches(reader, exact):
        low = _cell_of(stretch.start, size, width)
        high = _cell_of(max(stretch.start, stretch.end - 1), size, width)
        for cell in range(low, high + 1):
            worst[cell] = max(worst[cell], stretch.worst)
        _count(stretch, low, high, exact, first, last)
    return [
        Cell(_kind(worst[i]), borders[i], borders[i + 1] - borders[i], first[i], last[i])
        for i in range(width)
    ]  # fmt: skip


def _count(stretch: _Stretch, low: int, high: int, exact: bool, first: list[int], last: list[int]) -> None:
    """Say in which cells the batches of a stretch begin; those of a window are taken to be evenly long."""
    rows, cells = stretch.last_row - stretch.first_row + 1, high - low + 1
    for cell in range(low, low + 1 if exact else high + 1):
        begin = stretch.first_row + rows * (cell - low) // cells
        end = stretch.last_row if exact else stretch.first_row + rows * (cell - low + 1) // cells - 1
        if end < begin:
            continue
        first[cell] = begin if first[cell] < 0 else min(first[cell], begin)
        last[cell] = max(last[cell], end)


def _cell_of(position: int, size: int, width: int) -> int:
    """The cell that a byte is in, borders as `size * i // width`."""
    return min(width - 1, ((position + 1) * width - 1) // size)


def _kind(worst: int) -> CellKind:
    if worst == -2:
        return "unread"
    return "empty" if worst == -1 else KINDS[worst]


def _stretches(reader: SegmentReader, exact: bool) -> Iterator[_Stretch]:
    for window in reader.windows:
        if window.zeroed:
            yield _Stretch(window.position, window.end, -1, window.first_row, window.first_row)
        elif exact and window.rows > 1:
            yield from _batches(reader, window)
        else:
            yield _Stretch(
                window.position, window.end, window.worst, window.first_row, window.first_row + window.rows - 1
            )


def _batches(reader: SegmentReader, window: Window) -> Iterator[_Stretch]:
    rows = reader.header_rows(window)
    if rows is None:
        yield _Stretch(window.position, window.end, len(KINDS) - 1, window.first_row, window.first_row)
        return
    positions, sizes = rows["position"].tolist(), rows["size_in_bytes"].tolist()
    for i, worst in enumerate(reader.ranks(window, rows)):
        number = window.first_row + i
        yield _Stretch(positions[i], positions[i] + sizes[i], worst, number, number)
