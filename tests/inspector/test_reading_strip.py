"""The map of a segment: every byte in a cell, the worst kind of batch in each, whatever the width."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.inspector.model import segment_index as windows
from kafkalog.inspector.model import segment_map as strip
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.model.types import KINDS, BatchRow, Cell
from tests.helpers.damage import flipped, log, start_of
from tests.helpers.golden import Segment
from tests.helpers.inspected import all_batches, golden_segment, reader_of, segment_file, with_every_segment

RANKS: dict[str, int] = {kind: rank for rank, kind in enumerate(KINDS)}


def expected(rows: list[BatchRow], size: int, width: int) -> list[Cell]:
    """The cells, computed from every batch."""
    cells = []
    for i in range(width):
        start, end = size * i // width, size * (i + 1) // width
        inside = [row for row in rows if row.position < end and row.position + row.size > start]
        begun = [row.row for row in inside if start <= row.position]
        worst = max((RANKS[row.kind] for row in inside), default=0)
        sound = [row for row in inside if row.kind != "corrupt"]
        sizes = [row.size // row.records for row in sound if row.records and (row.magic == 2 or row.codec == "none")]
        times = [row.max_timestamp for row in sound if row.max_timestamp is not None]
        place = KINDS[worst], start, end - start, min(begun, default=-1), max(begun, default=-1)
        cells.append(Cell(*place, max(sizes, default=None), max(times, default=None)))
    return cells


@with_every_segment
def test_cells_are_of_the_worst_kind_of_their_batches(segment: Segment) -> None:
    reader = reader_of(segment.log)
    rows = all_batches(reader)
    for width in (1, 7, 80) if rows else ():
        cells, wanted = reader.strip(width), expected(rows, reader.size, width)
        if any(row.magic in (0, 1) and row.codec != "none" for row in rows):
            # How many records a wrapper has, the index knows of some.
            cells, wanted = ([replace(each, record_bytes=None) for each in which] for which in (cells, wanted))
        assert cells == wanted
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


def test_cells_behind_the_indexed_bytes_are_unread(tmp_path: Path) -> None:
    data = b"".join(log(size=100_000)) * 4
    reader = SegmentReader(segment_file(tmp_path, data), 0)
    reader.index_more(max_bytes=1)
    kinds = [cell.kind for cell in reader.strip(20)]
    assert kinds[0] == "data"
    assert kinds[-1] == "unread"
    assert kinds == sorted(kinds)
    reader.close()


def test_a_batch_with_a_wrong_checksum_makes_its_cell_corrupt(tmp_path: Path) -> None:
    batches = log()
    reader = reader_of(segment_file(tmp_path, flipped(b"".join(batches), start_of(batches, 5) + 200, 1)))
    assert [cell.kind for cell in reader.strip(8)].count("corrupt") in (1, 2)
    reader.close()


def test_cells_of_very_many_batches_take_the_kind_of_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(golden_segment("kafka-3.9/v2-txn-0/193").log)
    exact = reader.strip(100)
    monkeypatch.setattr(strip, "EXACT_BATCHES", 0)
    cells = reader.strip(100)
    assert cells != exact
    assert all(RANKS[cell.kind] >= RANKS[other.kind] for cell, other in zip(cells, exact, strict=True))
    assert sum(cell.bytes for cell in cells) == reader.size
    assert all(cell.kind in KINDS for cell in cells)
    rows = [row for cell in cells if cell.first_row >= 0 for row in range(cell.first_row, cell.last_row + 1)]
    assert rows == list(range(reader.batches))
    reader.close()
