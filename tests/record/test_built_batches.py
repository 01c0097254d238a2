"""`batches_of`: the batches of a builder that is asked before each record, and what their headers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, Record, TimestampType
from kafkalog.record.message_set import batches_of_records
from kafkalog.record.records_builder import BatchSettings, BuiltBatch, RecordsBuilder
from tests.reference.encode import FORMATS

NOW = 1_700_000_000_000
payloads = st.none() | st.binary(max_size=100) | st.integers(0, 300).map(bytes)
rows = st.lists(st.builds(Record, payloads, payloads, timestamp=st.sampled_from([-1, 5, NOW])), max_size=60)


def built_batches(
    records: Iterable[Record], settings: BatchSettings | None = None, *, max_size: int, base_offset: int | None = None
) -> Iterator[BuiltBatch]:
    builder = RecordsBuilder(settings)
    first = builder.base_offset if base_offset is None else base_offset
    return builder.batches_of(records, first, max_size=max_size)


def one_by_one(records: list[Record], settings: BatchSettings, max_size: int) -> Iterator[bytes]:
    """What comes out where a builder is asked before each record; nothing is compressed, so that none is split."""
    builder = RecordsBuilder(settings)
    for record in records:
        size = builder.size_of(record.value, record.key, record.headers, record.timestamp)
        if builder.records_count and settings.header_size + builder.size + size > max_size:
            yield bytes(builder.build())
            sequence = (builder.settings.base_sequence + builder.records_count) % 2**31
            following = sequence if settings.base_sequence >= 0 else -1
            settings = replace(settings, base_offset=builder.last_offset + 1, base_sequence=following)
            builder = RecordsBuilder(settings)
        builder.append(record.value, record.key, record.headers, record.timestamp)
    if builder.records_count:
        yield bytes(builder.build())


@given(
    records=rows,
    magic=st.integers(0, 2),
    max_size=st.integers(1, 2000),
    base_offset=st.integers(0, 2**40),
    appended=st.booleans(),
)
def test_batches_are_those_of_a_builder_asked_before_each_record(
    records: list[Record], magic: int, max_size: int, base_offset: int, appended: bool
) -> None:
    settings = BatchSettings(magic=magic, base_offset=base_offset, partition_leader_epoch=3)
    if magic == 2:
        settings = replace(settings, producer_id=7, producer_epoch=1, base_sequence=2**31 - 9)
    if appended:
        settings = replace(settings, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW)
    made = [bytes(each.data) for each in built_batches(records, settings, max_size=max_size)]
    assert made == list(one_by_one(records, settings, max_size))
    assert [bytes(each.buffer) for each in batches_of_records(records, settings, max_size=max_size)] == made


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("appended", [False, True])
def test_the_fields_of_a_built_batch_are_those_of_its_header(magic: int, codec: int, appended: bool) -> None:
    kind = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
    settings = BatchSettings(
        magic=magic,
        compression_type=CompressionType(codec),
        timestamp_type=kind,
        log_append_time=NOW + 1,
        base_offset=5,
    )
    records = [Record(bytes(i), timestamp=NOW - i) for i in range(100)]
    built = list(built_batches(records, settings, max_size=700))
    assert len(built) > 1
    expected = 5
    for batch in built:
        entries = ByteBufferMessageSet(batch.data)
        headers = entries.headers()
        assert [record.offset for record in entries] == list(range(expected, batch.last_offset + 1))
        assert (batch.base_offset, batch.last_offset) == (expected, headers["last_offset"][-1])
        assert batch.size_in_bytes == entries.size_in_bytes
        assert batch.max_timestamp == headers["max_timestamp"].max()
        expected = batch.last_offset + 1
    assert expected == 105


@pytest.mark.parametrize(("magic", "codec"), [each for each in FORMATS if each[0]])
def test_records_without_a_timestamp_get_the_default(magic: int, codec: int) -> None:
    settings = BatchSettings(magic=magic, compression_type=CompressionType(codec))
    records = [Record(b"has", timestamp=7), Record(b"has none"), Record(b"at zero", timestamp=0)] * 40
    sets = batches_of_records(records, settings, max_size=300, default_timestamp=NOW)
    assert [record.timestamp for each in sets for record in each] == [7, NOW, 0] * 40


def test_settings_serve_again_with_another_base_offset() -> None:
    settings = BatchSettings(partition_leader_epoch=9)
    for codec in (CompressionType.NONE, CompressionType.ZSTD):
        for offset in (0, 8, 2**40):
            (batch,) = built_batches(
                [Record(b"x")], replace(settings, compression_type=codec), max_size=100, base_offset=offset
            )
            (found,) = ByteBufferMessageSet(batch.data)
            (row,) = ByteBufferMessageSet(batch.data).headers()
            assert (found.offset, batch.base_offset, row["partition_leader_epoch"]) == (offset, offset, 9)
    with pytest.raises(ValueError, match="base_offset is -1"):
        list(built_batches([], settings, max_size=100, base_offset=-1))


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
@pytest.mark.parametrize("max_size", [50, 1000])
def test_no_batch_begins_or_goes_on_behind_the_last_offset_that_there_is(codec: CompressionType, max_size: int) -> None:
    settings = BatchSettings(compression_type=codec, base_offset=2**63 - 1)
    with pytest.raises(ValueError, match="offset"):
        list(built_batches([Record(bytes(50))] * 2, settings, max_size=max_size))
    (last,) = built_batches([Record(bytes(50))], settings, max_size=max_size)
    assert last.last_offset == 2**63 - 1


def test_records_are_taken_no_faster_than_batches_are_asked_for() -> None:
    taken: list[int] = []

    def given_out() -> Iterator[Record]:
        for i in range(100):
            taken.append(i)
            yield Record(bytes(100))

    batches = built_batches(given_out(), max_size=400)
    first = next(batches)
    assert len(taken) == first.last_offset + 2


def test_settings_that_have_made_a_header_are_still_equal_and_can_be_copied() -> None:
    used = BatchSettings(producer_id=1, producer_epoch=0, base_sequence=0)
    fresh = replace(used)
    list(built_batches([Record(b"x")], used, max_size=100))
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert "header" not in repr(used)
    changed = replace(used, partition_leader_epoch=4, base_offset=3)
    (batch,) = built_batches([Record(b"x")], changed, max_size=100)
    (row,) = ByteBufferMessageSet(batch.data).headers()
    assert (row["partition_leader_epoch"], row["base_offset"]) == (4, 3)
