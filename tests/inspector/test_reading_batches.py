"""The batches of a segment, read in windows: as Kafka reads them, and found by position, offset and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.inspector.model import segment_index as windows
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.model.types import BatchRow, Place
from tests.helpers.damage import log, start_of
from tests.helpers.golden import Segment
from tests.helpers.inspected import (
    all_batches,
    all_steps,
    golden_segment,
    read_through,
    reader_of,
    segment_file,
    spread,
    with_every_segment,
)
from tests.reference.encode import V2Batch, records


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many windows in a few kilobytes as else in a gigabyte."""
    monkeypatch.setattr(windows, "WINDOW_ROWS", 3)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 2000)


def shown(row: BatchRow) -> dict[str, Any]:
    def absent(value: int | None) -> int:
        return -1 if value is None else value

    return {
        "position": row.position,
        "size": row.size,
        "magic": row.magic,
        "base_offset": row.base_offset,
        "last_offset": row.last_offset,
        "records": row.records,
        "codec": row.codec,
        "timestamp_type": row.timestamp_type,
        "max_timestamp": absent(row.max_timestamp),
        "leader_epoch": absent(row.leader_epoch),
        "producer_id": absent(row.producer_id),
        "producer_epoch": absent(row.producer_epoch),
        "base_sequence": absent(row.base_sequence),
        "transactional": row.is_transactional,
        "control": row.control is not None,
        "crc": row.checksum,
        "problem": row.problem,
    }


def expected(batch: dict[str, Any]) -> dict[str, Any]:
    same = {name: batch[name] for name in shown(BatchRow(0, 0, 0, "data")) if name in batch}
    return {**same, "records": len(batch["records"]), "problem": None}


@with_every_segment
def test_batches_and_the_gaps_between_them_are_those_that_kafka_reads(segment: Segment) -> None:
    reader = reader_of(segment.log)
    batches, rows = segment.batches(), all_batches(reader)
    assert [shown(row) for row in rows] == [expected(batch) for batch in batches]
    assert [row.row for row in rows] == list(range(len(batches)))
    ends = [int(segment.log.stem), *(batch["last_offset"] + 1 for batch in batches)]
    assert [row.gap_before for row in rows] == [row.base_offset - end for row, end in zip(rows, ends, strict=False)]
    assert reader.records == sum(len(batch["records"]) for batch in batches)
    assert dict(reader.summary.codecs) == {
        codec: sum(b["codec"] == codec for b in batches) for codec in {b["codec"] for b in batches}
    }
    reader.close()


@with_every_segment
def test_a_batch_is_found_by_its_positions_and_offsets(segment: Segment) -> None:
    reader = reader_of(segment.log)
    rows = all_batches(reader)
    for row in (rows[i] for i in spread(len(rows))):
        for position in (row.position, row.position + row.size // 2, row.position + row.size - 1):
            assert reader.batch_at(position=position) == row.row
        assert reader.batch_at(offset=row.base_offset) == reader.batch_at(offset=row.last_offset) == row.row
    end = rows[-1] if rows else None
    if end is not None:
        assert end.last_offset is not None
        assert reader.batch_at(position=end.position + end.size) is None
        assert reader.batch_at(offset=end.last_offset + 1) is None
    reader.close()


@given(first=st.integers(0, 40), count=st.integers(0, 50))
def test_any_window_is_the_same_part_of_all(first: int, count: int) -> None:
    segment = golden_segment("kafka-3.9/v2-txn-0/193")
    reader = reader_of(segment.log)
    assert reader.batch_rows(first, count) == all_batches(reader)[first : first + count]
    assert reader.record_rows(first, count) == reader.record_rows(0, reader.records)[first : first + count]
    reader.close()


def test_indexing_in_steps_adds_the_batches_of_each_step(tmp_path: Path) -> None:
    data = b"".join(V2Batch(records(b"x" * 5_000, offset=i)).encoded() for i in range(1_000))
    reader = SegmentReader(segment_file(tmp_path, data), 0)
    assert (reader.batches, reader.records, reader.batch_rows(0, 5), reader.record_rows(0, 5)) == (0, 0, [], [])
    progress = reader.index_more(max_bytes=1)
    assert 0 < progress.done_bytes < progress.total_bytes == len(data)
    assert 0 < reader.batches < 1_000
    assert len(reader.batch_rows(0, 2_000)) == reader.batches
    assert len(all_steps(lambda: reader.index_more(max_bytes=1))) > 5
    assert (reader.batches, reader.records) == (1_000, 1_000)
    assert (reader.summary.first_timestamp, reader.summary.last_timestamp) == (1000, 1000)
    reader.close()


def test_offsets_that_do_not_rise_are_reported(tmp_path: Path) -> None:
    data = b"".join(V2Batch(records(b"v", offset=offset)).encoded() for offset in (5, 6, 3, 9))
    rows = all_batches(reader := reader_of(segment_file(tmp_path, data)))
    assert [row.gap_before for row in rows] == [5, 0, 0, 2]
    place = f"00000000000000000000.log: position {rows[2].position}"
    problem = f"{place}: it begins no later than the batch before (expected at least 7, found 3)"
    assert [row.problem for row in rows] == [None, None, problem, None]
    reader.close()


def test_a_file_under_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "copy.of.a.segment"
    path.write_bytes(V2Batch(records(b"v", offset=700)).encoded())
    reader = reader_of(path)
    assert [(row.base_offset, row.gap_before) for row in all_batches(reader)] == [(700, 0)]
    reader.close()


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    reader = reader_of(segment_file(tmp_path, b""))
    assert (reader.batches, reader.records, reader.strip(10), reader.problem) == (0, 0, [], None)
    assert (reader.batch(0), reader.record(0), reader.batch_at(position=0), reader.record_at(0)) == (None,) * 4
    reader.close()


def test_a_missing_file_is_reported_and_nothing_raises(tmp_path: Path) -> None:
    reader = SegmentReader(tmp_path / f"{0:020d}.log", 0)
    assert "No such file" in (reader.problem or "")
    assert reader.index_more().is_done
    assert (reader.batches, reader.batch_rows(0, 9), reader.strip(10), reader.read_bytes(0, 9)) == (0, [], [], b"")
    segment_file(tmp_path, V2Batch(records(b"v")).encoded())
    reader.index_more()
    assert (reader.problem, reader.batches) == (None, 1)
    reader.close()


def test_a_place_that_was_found_by_its_row_is_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = log()
    path = segment_file(tmp_path, b"".join(batches))
    reader = reader_of(path)
    place = Place(0, start_of(batches, 3), None, 3, reader.generation)
    with monkeypatch.context() as patch:
        patch.setattr(SegmentReader, "batch_at", None)
        assert reader.batch_of(place) == 3
    path.write_bytes(b"".join([*[V2Batch(records(b"v")).encoded()] * 9, *batches]))
    read_through(reader)
    assert reader.batch_of(place) == reader.batch_at(position=place.position) != 3
    reader.close()
