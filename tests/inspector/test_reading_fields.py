"""Every byte of a batch belongs to a field, and the fields say what the batch says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.model.types import BatchRow, Field
from tests.helpers.damage import flipped, log
from tests.helpers.golden import Segment
from tests.helpers.inspected import all_batches, golden_segment, reader_of, segment_file, spread, with_every_segment
from tests.reference.encode import V2Batch, records


def bounds(fields: tuple[Field, ...]) -> list[tuple[int, int]]:
    return [
        (field.start, field.end) for field in fields if field.name != "records" or "compressed" in field.explanation
    ]


def some_batches(reader: SegmentReader) -> list[BatchRow]:
    rows = all_batches(reader)
    return [rows[i] for i in spread(len(rows), 8)]


@with_every_segment
def test_fields_fill_their_batch_and_its_header_says_what_the_row_says(segment: Segment) -> None:
    reader = reader_of(segment.log)
    for row in some_batches(reader):
        fields = tuple(reader.every_field(row.row))
        borders = bounds(fields)
        assert borders[0][0] == row.position
        assert [start for start, _ in borders[1:]] == [end for _, end in borders[:-1]]
        # Only the fields of the first records are listed where there are many.
        if (row.records or 0) <= 100:
            assert borders[-1][1] == row.position + row.size
        values = {field.name: field.value.split(" ")[0] for field in fields[:14]}
        assert row.magic is not None
        assert values["magic"] == str(row.magic)
        assert values["crc"] == f"{row.checksum:#010x}"
        if row.magic >= 2:
            assert values["base offset"] == str(row.base_offset)
            assert values["records count"] == str(row.records)
            assert values["producer id"] == str(-1 if row.producer_id is None else row.producer_id)
        else:
            assert values["offset"] == str(row.last_offset)
        end = row.position
        for field in reader.every_field(row.row):
            assert field.start == end < field.end
            end = field.end
        assert end == row.position + row.size
    reader.close()


@with_every_segment
def test_a_field_is_found_by_its_first_and_last_byte(segment: Segment) -> None:
    reader = reader_of(segment.log)
    row = all_batches(reader)[-1] if reader.batches else None
    fields = tuple(reader.every_field(row.row)) if row is not None else ()
    for field in (fields[i] for i in spread(len(fields), 12)):
        if field.name == "records" and "compressed" not in field.explanation:
            continue
        for position in {field.start, field.end - 1}:
            assert reader.field_at(position) == field
    reader.close()


@pytest.mark.parametrize("name", ["kafka-3.9/v2-uncompressed-0/0", "kafka-3.9/v2-txn-0/20", "kafka-0.10.2/v1-none-0/0"])
def test_fields_are_found_by_position_in_any_order(name: str) -> None:
    reader = reader_of(golden_segment(name).log)
    fields = [field for row in range(min(reader.batches, 20)) for field in reader.every_field(row)]
    for i in [*range(0, len(fields), 7), *range(len(fields) - 1, -1, -5)]:
        for position in {fields[i].start, fields[i].end - 1}:
            assert reader.field_at(position) == fields[i]
    reader.close()


@pytest.mark.parametrize("name", ["kafka-3.9/v2-uncompressed-0/0", "kafka-3.9/v2-lz4-0/0", "kafka-0.8.2/v0-none-0/0"])
def test_the_position_of_a_record_is_that_of_its_first_field(name: str) -> None:
    reader = reader_of(golden_segment(name).log)
    for number in [*range(0, reader.records, 13), reader.records - 1, 0]:
        record = reader.record_rows(number, 1)[0]
        batch, position = reader.batch(record.batch), reader.position_of(number)
        assert batch is not None
        assert position is not None
        field, first = reader.field_at(position), reader.first_record_of(record.batch)
        assert field is not None
        assert first is not None
        if batch.codec == "none" and batch.magic == 2:
            assert (field.name, field.path[-1], field.start) == ("length", f"record {number - first}", position)
        else:
            assert position == batch.position
    assert reader.position_of(reader.records) is None
    reader.close()


def test_the_fields_of_a_record_are_named_and_explained(tmp_path: Path) -> None:
    data = bytes(
        ByteBufferMessageSet.from_records(
            [Record(b"value", None, [("name", b"x"), ("none", None)], timestamp=1_700_000_000_000)]
        ).buffer
    )
    reader = reader_of(segment_file(tmp_path, data))
    fields = [field for field in tuple(reader.every_field(0)) if len(field.path) > 1]
    assert [(field.name, field.value) for field in fields] == [
        ("length", "24"),
        ("attributes", "0x00"),
        ("timestamp delta", "0 (1700000000000 (2023-11-14T22:13:20.000Z))"),
        ("offset delta", "0 (0)"),
        ("key length", "-1 (null)"),
        ("value length", "5"),
        ("value", "value"),
        ("headers count", "2"),
        ("header key length", "4"),
        ("header key", "name"),
        ("header value length", "1"),
        ("header value", "x"),
        ("header key length", "4"),
        ("header key", "none"),
        ("header value length", "-1 (null)"),
    ]
    assert fields[-1].path == ("batch 0", "record 0", "header 1")
    assert all(field.explanation for field in tuple(reader.every_field(0)))
    reader.close()


def test_the_fields_of_a_marker_say_what_it_ends() -> None:
    reader = reader_of(golden_segment("kafka-3.9/v2-txn-0/193").log)
    marker = next(row for row in all_batches(reader) if row.control == "ABORT")
    values = {field.name: field.value for field in tuple(reader.every_field(marker.row))}
    assert values["type"] == "0 (ABORT)"
    assert values["coordinator epoch"] == "0"
    assert "control" in values["attributes"] or "control" in tuple(reader.every_field(marker.row))[5].value
    reader.close()


def test_any_of_many_records_is_found(tmp_path: Path) -> None:
    data = V2Batch(records(*[b"v%d" % i for i in range(5000)])).encoded()
    reader = reader_of(segment_file(tmp_path, data))
    found = reader.field_at(data.index(b"v4321") + 2)
    assert found is not None
    assert (found.name, found.value, found.path[-1]) == ("value", "v4321", "record 4321")
    reader.close()


def test_bytes_are_escaped_and_shortened(tmp_path: Path) -> None:
    data = V2Batch(records(b"\x1b[31m" + b"x" * 100_000)).encoded()
    reader = reader_of(segment_file(tmp_path, data))
    value = next(field for field in tuple(reader.every_field(0)) if field.name == "value")
    assert value.value.startswith("\\x1b[31mxxx")
    assert len(value.value) <= 120
    assert value.length == 100_005
    reader.close()


def test_lost_bytes_are_one_field_and_positions_after_the_end_have_none(tmp_path: Path) -> None:
    batches = log()
    data = b"".join([*batches[:2], b"\x99" * 100, *batches[2:]])
    reader = reader_of(segment_file(tmp_path, data))
    (field,) = tuple(reader.every_field(2))
    assert (field.name, field.length) == ("no batch", 100)
    assert field.explanation
    assert reader.field_at(len(data)) is None
    assert tuple(reader.every_field(99)) == ()
    reader.close()


@given(place=st.integers(0, 2**20), bit=st.integers(0, 7))
def test_every_byte_has_a_field_after_any_bit_flip(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    data = b"".join(log(size=20))
    data = flipped(data, place % len(data), bit)
    reader: SegmentReader = reader_of(segment_file(tmp_path_factory.mktemp("flip"), data))
    for position in range(0, len(data), 31):
        field = reader.field_at(position)
        assert field is not None
        assert field.start <= position < field.end
    for row in all_batches(reader):
        assert all(
            row.position <= f.start and f.end <= row.position + row.size for f in tuple(reader.every_field(row.row))
        )
        assert sum(field.length for field in reader.every_field(row.row)) == row.size
    reader.close()
