"""The records of a segment as numbered rows: what Kafka reads, from any row on, and where each is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, Record, RecordColumns
from kafkalog.inspector.model import segment_index as windows
from kafkalog.inspector.model.records import Content
from kafkalog.inspector.model.types import ROW_BYTES
from tests.helpers.golden import Segment
from tests.helpers.inspected import all_records, golden_segment, reader_of, segment_file, spread, with_every_segment
from tests.reference.compression import GZIP
from tests.reference.encode import V2Batch, records

# So many records of each segment are looked at one by one.
MOST = 20


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_ROWS", 8)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 4000)


@with_every_segment
def test_records_and_the_gaps_between_them_are_those_that_kafka_reads(segment: Segment) -> None:
    reader = reader_of(segment.log)
    following = int(segment.log.stem)
    known = [(number, record) for number, batch in enumerate(segment.batches()) for record in batch["records"]]
    rows = all_records(reader)
    assert [row.row for row in rows] == list(range(len(known)))
    for row, (batch, (offset, timestamp, _, key, value, headers)) in zip(rows, known, strict=True):
        assert (row.offset, row.batch, row.problem) == (offset, batch, None)
        assert row.timestamp == (timestamp if timestamp >= 0 else None)
        assert row.key == (None if key is None else key[:ROW_BYTES])
        assert row.value == (None if value is None else value[:ROW_BYTES])
        assert row.headers_count == len(headers)
        assert row.gap_before == offset - following
        following = offset + 1
    reader.close()


@with_every_segment
def test_a_whole_record_is_what_kafka_reads_at_the_bytes_it_names(segment: Segment) -> None:
    reader = reader_of(segment.log)
    data = segment.log.read_bytes()
    known = [(batch, record) for batch in segment.batches() for record in batch["records"]]
    assert reader.records == len(known)
    for number in spread(len(known), MOST):
        batch, (offset, timestamp, sequence, key, value, headers) = known[number]
        found = reader.record(number)
        assert found is not None
        assert (found.offset, found.key, found.value, found.headers) == (offset, key, value, headers)
        assert found.timestamp == (timestamp if timestamp >= 0 else None)
        assert found.sequence == (sequence if sequence >= 0 else None)
        assert found.batch.position == batch["position"]
        for name, whole in (("key", key), ("value", value)):
            span = found.spans.get(name)
            assert (span is None) == (whole is None)
            if span is not None and batch["codec"] == "none":
                assert not span.compressed
                assert data[span.start : span.start + span.length] == whole
    reader.close()


@with_every_segment
def test_a_record_is_found_by_its_batch_and_its_offset_and_a_missing_offset_leads_to_the_next(segment: Segment) -> None:
    reader = reader_of(segment.log)
    batches = segment.batches()
    sizes = [len(batch["records"]) for batch in batches]
    for number in spread(len(sizes), MOST):
        begin = sum(sizes[:number])
        assert reader.first_record_of(number) == (begin if begin < reader.records else None)
    offsets = [record[0] for batch in batches for record in batch["records"]]
    for number in spread(len(offsets), MOST):
        offset = offsets[number]
        assert reader.record_at(offset) == number
        if number and offsets[number - 1] < offset - 1:
            assert reader.record_at(offset - 1) == number
    if offsets:
        assert reader.record_at(offsets[-1] + 1) is None
        assert reader.record_at(0) == 0
    reader.close()


def test_control_records_have_their_type() -> None:
    segment = golden_segment("kafka-3.9/v2-txn-0/193")
    reader = reader_of(segment.log)
    markers = [row for row in all_records(reader) if row.kind == "control"]
    assert {row.control for row in markers} <= {"COMMIT", "ABORT"}
    assert len(markers) == sum(batch["control"] for batch in segment.batches())
    first = reader.record(markers[0].row)
    assert first is not None
    assert first.control == markers[0].control
    reader.close()


def test_a_long_value_is_cut_in_the_table_and_whole_in_the_record(tmp_path: Path) -> None:
    value = bytes(range(256)) * 40
    reader = reader_of(segment_file(tmp_path, V2Batch(records(value)).encoded()))
    (row,) = all_records(reader)
    assert (row.value, row.size) == (value[:ROW_BYTES], len(row.key or b"") + len(value))
    found = reader.record(0)
    assert found is not None
    assert found.value == value
    reader.close()


def test_batches_without_records_have_no_rows(tmp_path: Path) -> None:
    empty = V2Batch(base_offset=1, last_offset_delta=3).encoded()
    data = V2Batch(records(b"a")).encoded() + empty + V2Batch(records(b"b", offset=9)).encoded()
    reader = reader_of(segment_file(tmp_path, data))
    assert [(row.offset, row.batch, row.gap_before) for row in all_records(reader)] == [(0, 0, 0), (9, 2, 8)]
    assert reader.record_at(2) == 1
    reader.close()


def test_records_of_wrappers_are_counted_and_numbered(tmp_path: Path) -> None:
    sets = [
        ByteBufferMessageSet.from_records(
            [Record(b"%d" % (10 * i + j), timestamp=5) for j in range(4)],
            magic=1, base_offset=10 * i, compression_type=CompressionType.GZIP,
        )
        for i in range(5)
    ]  # fmt: skip
    reader = reader_of(segment_file(tmp_path, b"".join(bytes(each.buffer) for each in sets)))
    assert (reader.batches, reader.records) == (5, 20)
    assert [row.offset for row in reader.record_rows(7, 3)] == [13, 20, 21]
    assert [(row.base_offset, row.records) for row in reader.batch_rows(1, 1)] == [(10, 4)]
    reader.close()


def test_a_batch_that_cannot_be_decompressed_stands_for_its_records(tmp_path: Path) -> None:
    broken = V2Batch(records(b"a", b"b", b"c", offset=1), codec=GZIP, payload=b"no gzip").encoded()
    data = V2Batch(records(b"x")).encoded() + broken + V2Batch(records(b"y", offset=4)).encoded()
    reader = reader_of(segment_file(tmp_path, data))
    rows = all_records(reader)
    assert [(row.offset, row.kind) for row in rows] == [
        (0, "data"), (1, "corrupt"), (2, "corrupt"), (3, "corrupt"), (4, "data"),
    ]  # fmt: skip
    assert "gzip" in (rows[1].problem or "").lower()
    found = reader.record(2)
    assert found is not None
    assert (found.offset, found.value, found.problem) == (2, None, rows[2].problem)
    reader.close()


def test_a_missing_record_is_reported_with_the_position_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [V2Batch(records(b"%d" % i, offset=i)).encoded() for i in range(3)]
    path = segment_file(tmp_path, b"".join(batches))
    monkeypatch.setattr("kafkalog.inspector.model.records.decoded", lambda *_: Content(RecordColumns.empty()))
    reader = reader_of(path)
    said = f"{path.name}: position {len(batches[0])}: the header promises more records than there are"
    assert reader.record_rows(1, 1)[0].problem == said
    reader.close()
