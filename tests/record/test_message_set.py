"""A message set in memory: what Kafka's own tests show of its record classes, and what a reader may rely on."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, RecordBatch, TimestampType
from kafkalog.errors import CorruptRecordError, InvalidRecordError
from tests.helpers.reading import column_records, outcome
from tests.reference.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.reference.encode import (
    FORMATS,
    LOG_APPEND_TIME,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    compressed,
    entries,
    raw_snappy,
    records,
    v2_record,
    varint,
    with_right_checksum,
)

FIRST = entries(records(b"a", b"b"), 2)
SECOND = entries(records(b"c", b"d", offset=2), 2)
THREE = records(b"1", b"2", b"3")

every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)


def only_batch(data: bytes) -> RecordBatch:
    (batch,) = ByteBufferMessageSet(data).batches()
    return batch


# --- framing, as ByteBufferLogInputStreamTest and MemoryRecordsTest show it


def test_an_incomplete_entry_at_the_end_is_not_read() -> None:
    messages = ByteBufferMessageSet((FIRST + SECOND)[:-5])
    assert [batch.last_offset for batch in messages.batches()] == [1]
    assert messages.end_of_data.position == len(FIRST)
    assert messages.end_of_data.kind.name == "TORN"


def test_an_entry_smaller_than_any_can_be_is_damage() -> None:
    batches = ByteBufferMessageSet(FIRST + SECOND[:8] + struct.pack(">i", 9) + SECOND[12:]).batches()
    assert next(batches).last_offset == 1
    with pytest.raises(CorruptRecordError) as error:
        next(batches)
    assert (error.value.position, error.value.expected, error.value.found) == (len(FIRST), 14, 9)


@pytest.mark.parametrize("magic", [-1, 3, 37])
def test_an_entry_of_an_unknown_magic_is_damage(magic: int) -> None:
    batches = ByteBufferMessageSet(FIRST + SECOND[:16] + struct.pack(">b", magic) + SECOND[17:]).batches()
    assert next(batches).last_offset == 1
    with pytest.raises(CorruptRecordError) as error:
        next(batches)
    assert (error.value.position, error.value.found) == (len(FIRST), magic)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"", "END", id="nothing"),
        pytest.param(b"\x01" * 11, "TORN", id="11 bytes"),
        pytest.param(FIRST[:12], "TORN", id="only a size"),
        pytest.param(FIRST[:16], "TORN", id="cut before the magic"),
        pytest.param(FIRST[:17], "TORN", id="cut after the magic"),
        pytest.param(bytes(4096), "ZEROED", id="preallocated"),
    ],
)
def test_too_few_bytes_for_an_entry_hold_none_and_are_no_damage(data: bytes, kind: str) -> None:
    messages = ByteBufferMessageSet(data)
    assert list(messages.batches()) == []
    assert list(messages) == []
    assert list(messages.columns()) == []
    assert len(messages.headers()) == 0
    assert messages.valid_bytes == 0
    assert (messages.end_of_data.kind.name, messages.end_of_data.position) == (kind, 0)


@pytest.mark.parametrize("length", range(12, 17))
def test_a_size_field_is_checked_before_there_is_a_magic(length: int) -> None:
    data = FIRST + (SECOND[:8] + struct.pack(">i", 13) + SECOND[12:])[:length]
    batches = ByteBufferMessageSet(data).batches()
    assert next(batches).last_offset == 1
    with pytest.raises(CorruptRecordError) as error:
        next(batches)
    assert (error.value.position, error.value.expected, error.value.found) == (len(FIRST), 14, 13)
    assert ByteBufferMessageSet(FIRST + SECOND[:length]).end_of_data.kind.name == "TORN"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
def test_wrappers_have_no_offsets_beyond_the_largest(magic: int, count: int) -> None:
    wrapper = LegacyWrapper(records(*[b"v"] * count), GZIP, magic).encoded()
    largest = 2**63 - 1
    for times in [2, 3] if count == 1 else [1, 2, 3]:
        with pytest.raises(ValueError, match="exceed the largest offset"):
            ByteBufferMessageSet(wrapper * times).with_offsets(largest)
    numbered = ByteBufferMessageSet(wrapper).with_offsets(largest - count + 1)
    assert [record.offset for record in numbered][-1] == largest


def test_a_kilobyte_of_size_13_is_damage() -> None:
    with pytest.raises(CorruptRecordError):
        list(ByteBufferMessageSet(bytes(8) + struct.pack(">i", 13) + bytes(244)).batches())


@given(st.binary(max_size=400))
def test_random_bytes_are_damage_or_nothing(data: bytes) -> None:
    found = outcome(ByteBufferMessageSet(data))
    assert found.records == []
    if found.error is not None:
        assert isinstance(found.error, (CorruptRecordError, InvalidRecordError))


# --- formats 0 and 1, as AbstractLegacyRecordBatchTest and SimpleLegacyRecordTest show them


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_of_offset_zero_holds_the_offsets_that_its_messages_say(magic: int) -> None:
    data = LegacyWrapper(THREE, magic=magic, offset=0).encoded()
    assert [record.offset for record in ByteBufferMessageSet(data)] == [0, 1, 2]


def test_a_wrapper_whose_offset_is_less_than_its_last_messages_is_invalid() -> None:
    found = outcome(ByteBufferMessageSet(LegacyWrapper(THREE, offset=1).encoded()))
    assert found.records == []
    assert isinstance(found.error, InvalidRecordError)
    assert (found.error.expected, found.error.found) == (2, 1)


def test_append_time_of_a_v1_wrapper_is_that_of_every_message() -> None:
    batch = only_batch(LegacyWrapper(THREE, timestamp_type=LOG_APPEND_TIME, timestamp=15).encoded())
    assert [(record.timestamp, record.timestamp_type) for record in batch] == [(15, TimestampType.LOG_APPEND_TIME)] * 3
    assert batch.is_valid


def test_create_time_of_a_v1_wrapper_leaves_messages_their_own() -> None:
    written = [PlainRecord(place, place + 1, b"k", b"v") for place in range(3)]
    batch = only_batch(LegacyWrapper(written, timestamp=15).encoded())
    assert [record.timestamp for record in batch] == [1, 2, 3]
    assert batch.max_timestamp == 15


def test_the_base_offset_of_a_wrapper_is_that_of_its_first_message() -> None:
    batch = only_batch(LegacyWrapper(records(b"a", b"b", b"c", offset=498)).encoded())
    assert (batch.base_offset, batch.last_offset, batch.records_count) == (498, 500, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_does_not_exist_before_format_2(magic: int) -> None:
    found = outcome(ByteBufferMessageSet(LegacyWrapper(THREE, ZSTD, magic, value=compressed(b"", ZSTD)).encoded()))
    assert isinstance(found.error, InvalidRecordError)
    assert "zstd" in str(found.error)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "wrapper",
    [
        pytest.param(LegacyWrapper(THREE, has_value=False), id="a null value"),
        pytest.param(LegacyWrapper(THREE, inner=b""), id="no messages"),
        pytest.param(LegacyWrapper(THREE, inner=b"\x00" * 11), id="less than a message"),
        pytest.param(LegacyWrapper(THREE, inner=LegacyWrapper(THREE, LZ4).encoded()), id="a wrapper"),
        pytest.param(LegacyWrapper(THREE, value=b"not gzip"), id="bytes that are not of its codec"),
    ],
)
def test_a_wrapper_with_nothing_readable_in_it_is_invalid(wrapper: LegacyWrapper, magic: int) -> None:
    found = outcome(ByteBufferMessageSet(FIRST + replace(wrapper, magic=magic).encoded()))
    assert found.values == [b"a", b"b"]
    assert isinstance(found.error, InvalidRecordError)
    assert found.error.position == len(FIRST)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_v0_or_v1_message_with_another_crc_is_not_valid(magic: int) -> None:
    batch = only_batch(LegacyMessage(THREE[0], magic, checksum=7).encoded())
    assert not batch.is_valid
    with pytest.raises(CorruptRecordError):
        batch.ensure_valid()


def test_a_message_too_short_for_a_v1_header_is_not_a_record() -> None:
    short = with_right_checksum(struct.pack(">qiIbb8s", 0, 14, 0, 1, 0, bytes(8)))
    found = outcome(ByteBufferMessageSet(short))
    assert found.records == []
    assert isinstance(found.error, (CorruptRecordError, InvalidRecordError))


# --- format 2, as DefaultRecordTest and DefaultRecordBatchTest show it


def a_batch_around(record: bytes, codec: int = NONE) -> bytes:
    return V2Batch(base_offset=0, base_timestamp=0, records_count=1, region=record, codec=codec).encoded()


def record_of(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return varint(len(body)) + body


START = bytes(3)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(record_of(START, varint(-1), varint(-1), varint(-1)), id="header count -1"),
        pytest.param(record_of(START, varint(-1), varint(-1), varint(10)), id="more headers than bytes"),
        pytest.param(
            record_of(START, varint(-1), varint(-1), varint(1), varint(105), b"h"), id="a header key past the end"
        ),
        pytest.param(record_of(START, varint(-1), varint(-1), varint(1), varint(-1)), id="a null header key"),
        pytest.param(
            record_of(START, varint(-1), varint(-1), varint(1), varint(1), b"h", varint(105)), id="a header value past"
        ),
        pytest.param(record_of(START, varint(105), b"key"), id="a key past the end"),
        pytest.param(record_of(START, varint(-1), varint(105), b"value"), id="a value past the end"),
        pytest.param(varint(10) + bytes(5), id="a body of 10 bytes in 5"),
        pytest.param(record_of(b"\x00"), id="a body of attributes only"),
        pytest.param(record_of(b"\x00", b"\xff" * 3), id="a varlong cut off"),
        pytest.param(record_of(b"\x00", b"\xff" * 10), id="a varlong that goes on"),
        pytest.param(record_of(b"\x00", b"\x80" * 10 + b"\x01", bytes(8)), id="a varlong of 11 bytes"),
        pytest.param(b"\xff" * 5, id="a length of more than 5 bytes"),
        pytest.param(varint(-1), id="a negative length"),
        pytest.param(record_of(START, bytes(2), varint(0), b"rest"), id="bytes behind the headers"),
    ],
)
def test_a_record_that_does_not_follow_the_format_is_invalid(record: bytes, codec: int) -> None:
    found = outcome(ByteBufferMessageSet(FIRST + a_batch_around(record, codec)))
    assert found.values == [b"a", b"b"]
    assert isinstance(found.error, InvalidRecordError)
    assert found.error.position is not None
    assert found.error.position >= len(FIRST)
    assert found.error.expected is not None
    assert found.error.found is not None


def test_a_header_key_that_is_not_utf_8_hides_no_record() -> None:
    """Java puts U+FFFD where UTF-8 goes wrong; the record is read either way."""
    written = [PlainRecord(0, 0, b"k", b"v", ((b"\xff\xfe", b"x"),))]
    (found,) = ByteBufferMessageSet(V2Batch(written).encoded())
    assert found.value == b"v"
    assert [value for _, value in found.headers] == [b"x"]


def test_a_record_has_no_sequence_unless_its_batch_has_one() -> None:
    (found,) = ByteBufferMessageSet(a_batch_around(v2_record(PlainRecord(0), 0, 0)))
    assert found.sequence == -1


def test_offset_and_sequence_of_a_record_count_from_its_batchs() -> None:
    batch = V2Batch([PlainRecord(47)], base_offset=37, producer_id=1, producer_epoch=0, base_sequence=5)
    (found,) = ByteBufferMessageSet(batch.encoded())
    assert (found.offset, found.sequence) == (47, 15)


def test_sequences_begin_anew_after_the_largest() -> None:
    batch = only_batch(V2Batch(THREE, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2).encoded())
    assert batch.last_sequence == 0
    assert [record.sequence for record in batch] == [2**31 - 2, 2**31 - 1, 0]


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(5, 5, 10), (2**31 - 1, 1, 0), (2**31 - 6, 10, 4), (-1, 5, -1), (0, 0, 0)]
)
def test_the_last_sequence_counts_as_kafka_does(base: int, delta: int, last: int) -> None:
    batch = V2Batch(producer_id=1, producer_epoch=0, base_sequence=base, last_offset_delta=delta)
    assert only_batch(batch.encoded()).last_sequence == last


def test_a_size_that_leaves_no_room_for_the_header_is_damage() -> None:
    with pytest.raises(CorruptRecordError):
        list(ByteBufferMessageSet(FIRST[:8] + struct.pack(">i", 10) + FIRST[12:]).batches())


def test_a_batch_shorter_than_its_header_is_not_valid() -> None:
    batch = only_batch(struct.pack(">qii", 0, 48, 0) + b"\x02" + bytes(43))
    assert not batch.is_valid
    with pytest.raises(CorruptRecordError) as error:
        list(batch)
    assert error.value.found == 60


def test_a_changed_last_offset_breaks_the_checksum() -> None:
    batch = only_batch(FIRST[:23] + struct.pack(">i", 23) + FIRST[27:])
    assert not batch.is_valid
    with pytest.raises(CorruptRecordError) as error:
        batch.ensure_valid()
    assert error.value.position == 0
    assert error.value.expected != error.value.found
    with pytest.raises(CorruptRecordError):
        list(batch)


def test_base_offset_and_leader_epoch_are_not_under_the_checksum() -> None:
    batch = only_batch(struct.pack(">q", 498) + FIRST[8:12] + struct.pack(">i", 500) + FIRST[16:])
    assert batch.is_valid
    assert (batch.base_offset, batch.partition_leader_epoch) == (498, 500)
    assert [record.offset for record in batch] == [498, 499]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(("count", "given"), [(5, 3), (2, 2), (-1, 0), (2**31 - 1, 3)])
def test_a_count_that_is_not_that_of_the_records_is_invalid(count: int, given: int, codec: int) -> None:
    found = outcome(ByteBufferMessageSet(V2Batch(THREE, codec, records_count=count).encoded()))
    assert found.offsets == [0, 1, 2][:given]
    assert isinstance(found.error, InvalidRecordError)


def test_append_time_of_a_v2_batch_is_that_of_every_record() -> None:
    batch = only_batch(V2Batch(THREE, timestamp_type=LOG_APPEND_TIME, max_timestamp=15).encoded())
    assert [(record.timestamp, record.timestamp_type) for record in batch] == [(15, TimestampType.LOG_APPEND_TIME)] * 3


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_an_emptied_batch_keeps_all_but_its_records(
    transactional: bool, control: bool, timestamp_type: TimestampType
) -> None:
    flags = 0x10 * transactional | 0x20 * control
    data = V2Batch(
        base_offset=15,
        last_offset_delta=22,
        producer_id=23423,
        producer_epoch=145,
        base_sequence=983,
        max_timestamp=12,
        flags=flags,
        timestamp_type=max(timestamp_type, 0),
    ).encoded()
    batch = only_batch(data)
    assert len(data) == 61
    assert (batch.base_offset, batch.last_offset, batch.records_count, batch.last_sequence) == (15, 37, 0, 983 + 22)
    assert (batch.is_transactional, batch.is_control, batch.max_timestamp) == (transactional, control, 12)
    assert batch.is_valid
    assert list(batch) == []
    assert len(batch.columns()) == 0


def test_a_delete_horizon_stands_where_the_base_timestamp_was() -> None:
    batch = only_batch(V2Batch(THREE, flags=0x40, base_timestamp=5000).encoded())
    assert batch.delete_horizon_ms == 5000
    assert [record.timestamp for record in batch] == [1000, 1001, 1002]
    assert only_batch(FIRST).delete_horizon_ms is None


def test_a_record_attribute_of_0x80_is_one_byte_without_a_meaning() -> None:
    """kafka-python's and aiokafka's readers take it for the first byte of a varint; Kafka's takes it for a byte."""
    written = [replace(record, attributes=-128) for record in THREE]
    assert [record.value for record in ByteBufferMessageSet(V2Batch(written).encoded())] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_bits_that_name_no_codec_are_invalid(codec: int) -> None:
    messages = ByteBufferMessageSet(FIRST + V2Batch(THREE, codec, payload=b"?").encoded())
    found = outcome(messages)
    assert found.values == [b"a", b"b"]
    assert isinstance(found.error, InvalidRecordError)
    assert (found.error.position, found.error.found) == (len(FIRST), codec)
    _, batch = messages.batches()
    with pytest.raises(InvalidRecordError):
        _ = batch.compression_type


# --- codecs


@every_format
def test_every_format_and_codec_gives_the_records_that_were_written(magic: int, codec: int) -> None:
    written = records(b"one", None, b"", b"four" * 50000, offset=57)
    messages = ByteBufferMessageSet(entries(written, magic, codec))
    expected = [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in written]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in messages] == expected
    assert [(r.offset, r.timestamp, r.key, r.value) for r in column_records(messages.columns())] == expected
    assert {batch.compression_type for batch in messages.batches()} == {CompressionType(codec)}
    assert messages.has_matching_magic(magic)
    assert not messages.has_matching_magic(3)


def test_snappy_without_the_xerial_framing_is_read() -> None:
    batch = V2Batch(THREE, SNAPPY)
    data = V2Batch(THREE, SNAPPY, payload=raw_snappy(batch.plain_region())).encoded()
    assert [record.value for record in ByteBufferMessageSet(data)] == [b"1", b"2", b"3"]


def test_gzip_members_one_after_another_are_one_stream() -> None:
    region = V2Batch(THREE).plain_region()
    payload = compressed(region[:9], GZIP) + compressed(region[9:], GZIP)
    data = V2Batch(THREE, GZIP, payload=payload).encoded()
    assert [record.value for record in ByteBufferMessageSet(data)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_decompression_bomb_stops_at_the_limit(codec: int) -> None:
    bomb = V2Batch([PlainRecord(0, 0, None, bytes(1 << 20))], codec).encoded()
    found = outcome(ByteBufferMessageSet(FIRST + bomb, decompression_limit=1 << 16))
    assert found.values == [b"a", b"b"]
    assert isinstance(found.error, InvalidRecordError)
    assert str(1 << 16) in str(found.error)
    assert found.error.position == len(FIRST)
    assert len(list(ByteBufferMessageSet(bomb, decompression_limit=(1 << 20) + 64))) == 1


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_that_counts_no_records_is_not_opened(codec: int) -> None:
    assert list(ByteBufferMessageSet(V2Batch(codec=codec, payload=b"nonsense").encoded())) == []


# --- what a reader may rely on


def test_null_and_empty_are_kept_apart() -> None:
    written = [PlainRecord(0, 0, None, b""), PlainRecord(1, 0, b"", None)]
    for magic in (0, 1, 2):
        found = list(ByteBufferMessageSet(entries(written, magic)))
        assert [(record.key, record.value) for record in found] == [(None, b""), (b"", None)]
        assert found[0].headers == ()


def test_headers_keep_their_order_their_doubles_and_their_nulls() -> None:
    headers = ((b"b", b"1"), (b"", None), (b"b", b""), ("\u00fc".encode(), b"2"))
    (found,) = ByteBufferMessageSet(V2Batch([PlainRecord(0, 0, None, b"", headers)]).encoded())
    assert found.headers == (("b", b"1"), ("", None), ("b", b""), ("\u00fc", b"2"))


def test_control_batches_are_seen_as_batches_and_not_as_records() -> None:
    marker = PlainRecord(4, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    control = V2Batch([marker], flags=0x30, producer_id=1, producer_epoch=0).encoded()
    messages = ByteBufferMessageSet(FIRST + control + entries(records(b"e", offset=5), 2))
    assert [batch.is_control for batch in messages.batches()] == [False, True, False]
    assert [record.offset for record in messages] == [0, 1, 5]
    assert [offset for columns in messages.columns() for offset in columns.offset.tolist()] == [0, 1, 5]
    assert [record.offset for batch in messages.batches() for record in batch] == [0, 1, 4, 5]


def test_a_message_set_can_be_walked_many_times_at_once() -> None:
    messages = ByteBufferMessageSet(FIRST + SECOND)
    one, other = iter(messages), iter(messages)
    assert next(one).offset == 0
    assert [record.offset for record in other] == [0, 1, 2, 3]
    assert [record.offset for record in one] == [1, 2, 3]


def test_a_batch_outlives_the_set_it_came_from() -> None:
    batch = only_batch(bytes(bytearray(FIRST)))
    assert [record.value for record in batch] == [b"a", b"b"]


def test_formats_follow_one_another_in_one_log() -> None:
    data = (
        entries(records(b"a"), 0)
        + entries(records(b"b", offset=1), 1, GZIP)
        + entries(records(b"c", offset=2), 2, ZSTD)
    )
    messages = ByteBufferMessageSet(data)
    assert [(record.offset, record.value) for record in messages] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert [record.timestamp_type for record in messages] == [-1, 0, 0]
    assert not messages.has_matching_magic(2)


@pytest.mark.parametrize("threads", [0, -1])
def test_less_than_one_thread_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        ByteBufferMessageSet(FIRST).columns(threads=threads)
