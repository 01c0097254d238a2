"""The map of a segment: every byte in a cell, the worst kind of batch in each, whatever the width."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.model import Cell, SegmentReader
from inspector.reading import strip, windows
from inspector.reading.answers import KINDS
from tests.helpers.damage import flipped, log, start_of
from tests.helpers.golden import Segment
from tests.helpers.inspected import all_batches, golden_segment, reader_of, segment_file, with_every_segment

RANKS = {kind: rank for rank, kind in enumerate(KINDS)}


def expected(reader: SegmentReader, width: int) -> list[Cell]:
    """What a look at every batch gives."""
    size = reader.size
    cells = []
    for i in range(width):
        start, end = size * i // width, size * (i + 1) // width
        rows = [row for row in all_batches(reader) if row.position < end and row.position + row.size > start]
        begun = [row.row for row in rows if start <= row.position < end]
        worst = max((RANKS[row.kind] for row in rows), default=0)
        cells.append(Cell(KINDS[worst], start, end - start, min(begun, default=-1), max(begun, default=-1)))
    return cells


@with_every_segment
def test_cells_are_of_the_worst_kind_of_their_batches(segment: Segment) -> None:
    reader = reader_of(segment.log)
    for width in (1, 7, 80) if reader.batches else ():
        assert reader.strip(width) == expected(reader, width)
    reader.close()


@pytest.mark.parametrize("width", [1, 3, 50, 500])
def test_cells_fill_the_file(width: int) -> None:
    reader = reader_of(golden_segment("kafka-3.9/v2-txn-0/193").log)
    cells = reader.strip(width)
    assert len(cells) == width
    assert sum(cell.bytes for cell in cells) == reader.size
    assert [cell.position for cell in cells[1:]] == [cell.position + cell.bytes for cell in cells[:-1]]
    reader.close()


def test_damage_is_seen_in_its_cell_also_where_cells_are_longer_than_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_ROWS", 2)
    monkeypatch.setattr(strip, "WINDOW_BYTES", 100)
    batches = log() * 20
    data = b"".join(batches)
    at = start_of(batches, 3 * len(batches) // 4) + 300
    reader = reader_of(segment_file(tmp_path, flipped(data, at, 0)))
    cells = reader.strip(10)
    assert [cell.kind == "corrupt" for cell in cells].count(True) in (1, 2)
    assert cells[at * 10 // len(data)].kind == "corrupt"
    assert [cell.first_row for cell in cells] == sorted(cell.first_row for cell in cells)
    assert (cells[0].first_row, cells[-1].last_row) == (0, reader.batches - 1)
    reader.close()


def test_what_was_not_read_yet_is_said_to_be_so(tmp_path: Path) -> None:
    data = b"".join(log(size=100_000)) * 4
    reader = SegmentReader(segment_file(tmp_path, data), 0)
    reader.index_more(max_bytes=1)
    kinds = [cell.kind for cell in reader.strip(20)]
    assert kinds[0] == "data"
    assert kinds[-1] == "unread"
    assert kinds == sorted(kinds)
    reader.close()


def test_damage_that_checksums_alone_show_is_seen_once_they_were_looked_at(tmp_path: Path) -> None:
    batches = log()
    reader = reader_of(segment_file(tmp_path, flipped(b"".join(batches), start_of(batches, 5) + 200, 1)))
    assert [cell.kind for cell in reader.strip(8)].count("corrupt") in (1, 2)
    reader.close()


def test_where_there_are_too_many_batches_to_look_at_windows_tell_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(golden_segment("kafka-3.9/v2-txn-0/193").log)
    monkeypatch.setattr(strip, "EXACT_BATCHES", 0)
    monkeypatch.setattr(SegmentReader, "header_rows", None)
    cells = reader.strip(100)
    assert sum(cell.bytes for cell in cells) == reader.size
    assert all(cell.kind in KINDS for cell in cells)
    rows = [row for cell in cells if cell.first_row >= 0 for row in range(cell.first_row, cell.last_row + 1)]
    assert rows == list(range(reader.batches))
    reader.close()
