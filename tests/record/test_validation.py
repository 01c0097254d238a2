"""What a leader makes of what it is given: the cases of Kafka's own LogValidatorTest, by the numbers they are known by.

The outcome for thousands of drawn sets is laid beside Kafka's in `oracle/test_validation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, cast

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, Record, TimestampType
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaLogError,
    RecordValidationError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from kafkalog.record import record_columns as columns
from kafkalog.record.batch_validity import ensure_readable
from kafkalog.record.decoding import Reading
from kafkalog.record.log_validator import (
    AppendOrigin,
    Rules,
    ValidationResult,
    _validate_fitting_batch,
    _validate_others,
    validate_messages_and_assign_offsets,
)
from tests.oracle.validation_cases import cases
from tests.reference.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.reference.encode import (
    CONTROL,
    FORMATS,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    entries,
    linked_lz4,
    raw_snappy,
    with_right_checksum,
)

CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
NOW = 1_800_000_000_000
HOUR, DAY, MINUTE = 3_600_000, 86_400_000, 60_000
FIRST = 1234567
THREE = [PlainRecord(0, NOW - 1, b"a", b"x"), PlainRecord(1, NOW + 1, b"b", b"y"), PlainRecord(2, NOW, b"c", b"z")]
TWENTY = [PlainRecord(i, NOW, b"key", b"value %d" % i) for i in range(20)]
PRODUCER: dict[str, Any] = {"producer_id": 1324, "producer_epoch": 10, "base_sequence": 984}
MARKER = [PlainRecord(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\7")]

every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)
every_codec = pytest.mark.parametrize("codec", range(5))


def validated(data: bytes, **topic: Any) -> ValidationResult:
    topic = {"first_offset": FIRST, "now": NOW, **topic}
    return validate_messages_and_assign_offsets(ByteBufferMessageSet(data), **topic)


def offsets(result: ValidationResult) -> list[int]:
    return [record.offset for record in result.message_set]


def refused(data: bytes, **topic: Any) -> RecordValidationError:
    with pytest.raises(RecordValidationError) as error:
        validated(data, **topic)
    return error.value


def indices(error: RecordValidationError) -> list[int]:
    return [each.index for each in error.record_errors]


def invalid(data: bytes, **topic: Any) -> None:
    with pytest.raises(InvalidRecordError):
        validated(data, **topic)


# --- 38: how many batches


@every_codec
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_two_compressed_or_v2_batches_are_one_too_many(magic: int, codec: int) -> None:
    data = entries(THREE, magic, codec % 4 if magic < 2 else codec)
    if magic < 2 and codec % 4 == 0:
        assert offsets(validated(data + data, magic=magic)) == list(range(FIRST, FIRST + 6))
    else:
        invalid(data + data, magic=magic)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("target", [NONE, GZIP])
def test_messages_that_are_not_compressed_may_be_many(magic: int, target: int) -> None:
    data = entries(THREE, magic) + entries(THREE, magic)
    result = validated(data, magic=magic, target_compression=CompressionType(target))
    assert offsets(result) == list(range(FIRST, FIRST + 6))
    assert len(list(result.message_set.batches())) == (1 if target else 6)


def test_no_batch_at_all_is_invalid() -> None:
    invalid(b"")
    invalid(entries(THREE, 2)[:-1])


# --- 39: what the header says about the records


@every_codec
@pytest.mark.parametrize("target", [None, *CompressionType])
def test_a_batch_without_records_is_invalid(codec: int, target: CompressionType | None) -> None:
    for delta in (-1, 0, 3):
        empty = V2Batch([], codec, base_offset=0, last_offset_delta=delta)
        invalid(empty.encoded(), target_compression=target)


@pytest.mark.parametrize(("delta", "count"), [(0, 3), (15, 3), (-3, 3), (5, 6), (1, 2)])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_count_that_is_not_that_of_the_offsets_or_the_records_is_invalid(delta: int, count: int, codec: int) -> None:
    invalid(V2Batch(THREE, codec, last_offset_delta=delta, records_count=count).encoded())


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_count_that_is_right_is_taken(codec: int) -> None:
    assert validated(V2Batch(THREE, codec, last_offset_delta=2, records_count=3).encoded()).records_count == 3


# --- 40: offsets inside


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_whose_offsets_do_not_follow_one_another_is_written_anew(magic: int) -> None:
    spread = [replace(record, offset=record.offset * 2) for record in TWENTY]
    result = validated(entries(spread, magic, GZIP), first_offset=0, magic=magic)
    assert offsets(result) == list(range(20))
    assert result.message_size_maybe_changed


@every_codec
def test_a_v2_batch_whose_offsets_do_not_follow_one_another_is_invalid(codec: int) -> None:
    spread = [replace(record, offset=record.offset * 2) for record in TWENTY]
    invalid(V2Batch(spread, codec).encoded())


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_compressed_v2_batch_that_hides_such_offsets_behind_a_right_header_is_invalid(codec: int) -> None:
    spread = [replace(record, offset=record.offset * 2) for record in THREE]
    invalid(V2Batch(spread, codec, last_offset_delta=2).encoded())


# --- 41: magic inside


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_messages_of_another_format_inside_a_wrapper_are_all_named(magic: int, codec: int) -> None:
    inner = LegacyWrapper(TWENTY, codec, 1 - magic).inner_bytes()
    error = refused(LegacyWrapper(TWENTY, codec, magic, inner=inner).encoded(), magic=magic)
    assert indices(error) == list(range(20))
    assert isinstance(error.reason, InvalidRecordError)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("inner_magic", [2, 127])
def test_a_message_of_a_later_format_inside_a_wrapper_is_refused(magic: int, inner_magic: int, compacted: bool) -> None:
    inner = bytearray(LegacyMessage(THREE[0], 1).encoded())
    inner[16] = inner_magic
    error = refused(LegacyWrapper(THREE, GZIP, magic, inner=bytes(inner)).encoded(), magic=magic, compacted=compacted)
    assert indices(error) == [0]
    assert "format" in error.record_errors[0].message


# --- 42: CRC, sequence, keys


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("place", [0, 1])
def test_a_message_inside_a_wrapper_whose_crc_does_not_hold_is_damage(magic: int, codec: int, place: int) -> None:
    messages = [LegacyMessage(record, magic) for record in THREE]
    messages[place] = replace(messages[place], checksum=1)
    inner = b"".join(message.encoded() for message in messages)
    with pytest.raises(CorruptRecordError, match="checksum"):
        validated(LegacyWrapper(THREE, codec, magic, inner=inner).encoded(), magic=magic)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_an_idempotent_producer_needs_a_sequence(codec: int) -> None:
    invalid(V2Batch(THREE, codec, **{**PRODUCER, "base_sequence": -2}).encoded())


@every_format
@pytest.mark.parametrize("target", [None, CompressionType.NONE, CompressionType.GZIP])
def test_a_compacted_topic_takes_no_record_without_a_key(magic: int, codec: int, target: CompressionType) -> None:
    keyless = [THREE[0], replace(THREE[1], key=None), replace(THREE[2], key=None)]
    error = refused(entries(keyless, magic, codec), magic=magic, compacted=True, target_compression=target)
    # Messages that are not compressed are batches of their own; the first that is refused ends it.
    assert indices(error) == ([0] if magic < 2 and not codec else [1, 2])
    assert isinstance(error.reason, InvalidRecordError)
    assert validated(entries(THREE, magic, codec), magic=magic, compacted=True).records_count == 3


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_message_that_ends_before_the_length_of_its_key_has_no_key_to_ask_for(codec: int) -> None:
    whole = LegacyMessage(PlainRecord(0, NOW), 1).encoded()
    short = with_right_checksum(whole[:8] + (17).to_bytes(4, "big") + whole[12:29])
    data = LegacyWrapper(THREE, codec, 1, offset=0, inner=short).encoded() if codec else short
    invalid(data, magic=1, compacted=True)
    with pytest.raises(InvalidRecordError, match="key"):
        ByteBufferMessageSet(data).check_keys()
    assert validated(data, magic=1, first_offset=0).records_count == 1


# --- 43, 44: timestamps


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] == 2 or (form[0] and form[1])])
def test_records_too_far_from_now_are_all_named(magic: int, codec: int) -> None:
    for time in (NOW - 1001, NOW + 1001):
        data = entries([replace(record, timestamp=time) for record in THREE], magic, codec)
        error = refused(data, magic=magic, before_max_ms=1000, after_max_ms=1000)
        assert indices(error) == [0, 1, 2]
        assert isinstance(error.reason, InvalidTimestampError)


@pytest.mark.parametrize(
    ("time", "before"),
    [(NOW - DAY - 5 * MINUTE, DAY), (NOW + HOUR + 5 * MINUTE, 2**63 - 1), (NOW + HOUR + 1, 2**63 - 1)],
)
def test_records_too_old_or_too_far_ahead_are_refused_by_default_limits(time: int, before: int) -> None:
    data = entries([PlainRecord(0, time, b"k", b"v")], 2)
    assert indices(refused(data, before_max_ms=before)) == [0]
    assert validated(data, before_max_ms=before, timestamp_type=LOG_APPEND_TIME).max_timestamp == NOW


def test_a_time_at_the_very_limit_is_taken() -> None:
    for time in (NOW - 1000, NOW + 1000, -1):
        data = entries([PlainRecord(0, time, b"k", b"v")], 2)
        assert validated(data, before_max_ms=1000, after_max_ms=1000).max_timestamp == time


def test_one_bad_timestamp_among_bad_formats_makes_it_a_matter_of_timestamps() -> None:
    bad = LegacyMessage(PlainRecord(0, 0, b"k", b"v"), 1).encoded()
    other = b"".join(LegacyMessage(PlainRecord(i, NOW, b"k", b"v"), 0).encoded() for i in range(1, 6))
    data = LegacyWrapper(TWENTY[:6], GZIP, 1, inner=bad + other).encoded()
    error = refused(data, magic=1, before_max_ms=1000, after_max_ms=1000)
    assert isinstance(error.reason, InvalidTimestampError)
    assert indices(error) == [0, 1, 2, 3, 4, 5]
    assert "6 of the records" in str(error)


# --- 45, 46: offsets and formats


@every_format
@pytest.mark.parametrize("to", [0, 1, 2])
def test_offsets_are_assigned_in_every_conversion(magic: int, codec: int, to: int) -> None:
    data = entries(THREE, magic, codec)
    if codec == ZSTD and to < 2:
        with pytest.raises(UnsupportedCompressionError):
            validated(data, magic=to)
        return
    result = validated(data, magic=to)
    assert offsets(result) == [FIRST, FIRST + 1, FIRST + 2]
    assert result.message_size_maybe_changed == (magic != to or (magic == 0 and codec != NONE))
    assert result.message_set.has_matching_magic(to)
    assert {batch.compression_type for batch in result.message_set.batches()} == {codec}
    assert [(r.key, r.value) for r in result.message_set] == [(r.key, r.value) for r in THREE]
    assert all(batch.is_valid for batch in result.message_set.batches())


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_create_time_is_kept_from_format_1_to_2_and_is_none_from_format_0(codec: int) -> None:
    kept = validated(entries(THREE, 1, codec))
    assert (kept.max_timestamp, kept.offset_of_max_timestamp) == (NOW + 1, FIRST + 2)
    assert [record.timestamp for record in kept.message_set] == [NOW - 1, NOW + 1, NOW]
    for to in (1, 2):
        none = validated(entries(THREE, 0, codec), magic=to)
        assert (none.max_timestamp, none.offset_of_max_timestamp) == (-1, -1)
        assert {record.timestamp for record in none.message_set} == {-1}


# --- 47, 48: whose time it is


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_append_time_without_compression(magic: int) -> None:
    data = entries(THREE, magic)
    result = validated(data, magic=magic, timestamp_type=LOG_APPEND_TIME)
    assert (result.log_append_time, result.max_timestamp) == (NOW, NOW if magic else -1)
    assert {r.timestamp for r in result.message_set} == {NOW if magic else -1}
    assert result.offset_of_max_timestamp == (-1, FIRST, FIRST + 2)[magic]
    assert result.message_set.size_in_bytes == len(data)
    assert not result.message_size_maybe_changed


@pytest.mark.parametrize("to", [1, 2])
def test_append_time_with_compressing_anew(to: int) -> None:
    result = validated(entries(THREE, 0, GZIP), magic=to, timestamp_type=LOG_APPEND_TIME)
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (NOW, FIRST + 2)
    assert {(r.timestamp, r.timestamp_type) for r in result.message_set} == {(NOW, LOG_APPEND_TIME)}
    assert next(result.message_set.batches()).is_valid


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] and form[1]])
def test_append_time_without_compressing_anew(magic: int, codec: int) -> None:
    data = entries(THREE, magic, codec)
    result = validated(data, magic=magic, timestamp_type=LOG_APPEND_TIME)
    assert {(r.timestamp, r.timestamp_type) for r in result.message_set} == {(NOW, LOG_APPEND_TIME)}
    assert result.message_set.size_in_bytes == len(data)
    assert not result.message_size_maybe_changed
    assert next(result.message_set.batches()).is_valid


@every_codec
@pytest.mark.parametrize("target", [None, CompressionType.NONE, CompressionType.GZIP])
def test_the_producer_and_the_times_of_a_batch_are_kept(codec: int, target: CompressionType | None) -> None:
    data = V2Batch(THREE, codec, flags=TRANSACTIONAL, **PRODUCER).encoded()
    result = validated(data, target_compression=target, partition_leader_epoch=15)
    batch = next(result.message_set.batches())
    assert (result.max_timestamp, batch.max_timestamp) == (NOW + 1, NOW + 1)
    assert {name: getattr(batch, name) for name in PRODUCER} == PRODUCER
    assert (batch.partition_leader_epoch, batch.is_transactional, batch.is_valid) == (15, True, True)
    assert [record.timestamp for record in result.message_set] == [NOW - 1, NOW + 1, NOW]


# --- 49, 50: what a client or a format may not have


@every_codec
def test_a_client_sends_no_control_records(codec: int) -> None:
    invalid(V2Batch(MARKER, codec, flags=CONTROL | TRANSACTIONAL, **PRODUCER).encoded())


def test_a_marker_is_never_compressed() -> None:
    marker = V2Batch(MARKER, flags=CONTROL | TRANSACTIONAL, producer_id=7, producer_epoch=0).encoded()
    result = validated(marker, origin=AppendOrigin.COORDINATOR, target_compression=CompressionType.SNAPPY)
    batch = next(result.message_set.batches())
    assert (batch.is_control, batch.compression_type, batch.size_in_bytes) == (True, CompressionType.NONE, 78)
    assert (batch.base_offset, result.message_size_maybe_changed) == (FIRST, False)


@pytest.mark.parametrize("flags", [0, TRANSACTIONAL])
@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("to", [0, 1])
def test_producer_data_do_not_go_down(flags: int, codec: int, to: int) -> None:
    with pytest.raises(UnsupportedForMessageFormatError):
        validated(V2Batch(THREE, codec, flags=flags, **PRODUCER).encoded(), magic=to)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("to", [0, 1])
def test_headers_do_not_go_down(codec: int, to: int) -> None:
    with pytest.raises(UnsupportedForMessageFormatError, match="headers"):
        validated(V2Batch([replace(THREE[0], headers=((b"h", b"v"),))], codec).encoded(), magic=to)


def test_another_level_is_no_reason_to_compress_anew() -> None:
    best = ByteBufferMessageSet.from_records(
        [Record(bytes(500), b"k", timestamp=NOW)], compression_type=CompressionType.GZIP, compression_level=9
    )
    result = validated(bytes(best.buffer), target_compression=CompressionType.GZIP, compression_level=1, first_offset=0)
    assert result.message_set.buffer == best.buffer
    assert not result.message_size_maybe_changed


def test_the_level_asked_for_is_used_where_records_are_compressed() -> None:
    given = [PlainRecord(i, NOW, b"k", b"%d" % i**4) for i in range(2000)]
    sizes = [
        validated(
            entries(given, 2), target_compression=CompressionType.GZIP, compression_level=level
        ).message_set.size_in_bytes
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


# --- 51: whose codec it is


@every_codec
@pytest.mark.parametrize("target", [None, *CompressionType])
def test_the_brokers_codec_wins_unless_it_is_the_producers(codec: int, target: CompressionType | None) -> None:
    result = validated(entries(THREE, 2, codec), target_compression=target)
    batch = next(result.message_set.batches())
    assert batch.compression_type == (codec if target is None else target)
    assert result.message_size_maybe_changed == (target not in (None, codec))


def test_a_raw_snappy_block_stays_as_its_client_sent_it() -> None:
    data = V2Batch(THREE, SNAPPY, payload=raw_snappy(V2Batch(THREE).plain_region())).encoded()
    assert validated(data, first_offset=0, partition_leader_epoch=-1).message_set.buffer == data


# --- origins


@pytest.mark.parametrize("origin", [AppendOrigin.COORDINATOR, AppendOrigin.RAFT_LEADER, AppendOrigin.REPLICATION])
def test_offsets_and_count_need_not_agree_where_the_origin_is_no_client(origin: AppendOrigin) -> None:
    data = V2Batch(THREE, last_offset_delta=15).encoded()
    invalid(data)
    batch = next(validated(data, origin=origin).message_set.batches())
    assert (batch.base_offset, batch.last_offset) == (FIRST + 2 - 15, FIRST + 2)


# --- bytes


@every_format
def test_the_bytes_given_are_not_changed(magic: int, codec: int) -> None:
    given = bytearray(entries(THREE, magic, codec))
    before = bytes(given)
    changed = validated(cast("bytes", given), magic=magic, timestamp_type=LOG_APPEND_TIME, partition_leader_epoch=5)
    assert given == before
    assert changed.message_set.buffer != before


@pytest.mark.parametrize("codec", range(5))
def test_assigning_in_place_touches_offset_and_leader_epoch_alone(codec: int) -> None:
    before = entries(THREE, 2, codec)
    after = bytes(validated(before, partition_leader_epoch=5).message_set.buffer)
    assert after[8:12] + after[16:] == before[8:12] + before[16:]
    assert after[:8] + after[12:16] == FIRST.to_bytes(8, "big") + (5).to_bytes(4, "big")


def test_stamping_in_place_touches_the_header_alone() -> None:
    before = entries(THREE, 2, GZIP)
    assert validated(before, timestamp_type=LOG_APPEND_TIME).message_set.buffer[61:] == before[61:]


@every_format
def test_a_torn_tail_is_left_out(magic: int, codec: int) -> None:
    data = entries(THREE, magic, codec)
    whole = validated(data, magic=magic).message_set
    assert validated(data + data[:20], magic=magic).message_set.buffer == whole.buffer


@pytest.mark.parametrize("tail", [bytes(12), bytes(100), bytes(8) + b"\0\0\0\15" + bytes(20)])
def test_a_tail_of_zeros_or_of_an_impossible_size_is_damage(tail: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="size"):
        validated(entries(THREE, 2) + tail)


@pytest.fixture
def no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_records(*_: object) -> None:
        raise AssertionError("records became objects")

    monkeypatch.setattr(columns, "build_records", build_records)


@every_format
@pytest.mark.usefixtures("no_objects")
def test_records_that_are_not_rewritten_never_become_objects(magic: int, codec: int) -> None:
    if magic == 0 and codec:
        with pytest.raises(AssertionError, match="became objects"):
            validated(entries(THREE, magic, codec), magic=magic, compacted=True)
    else:
        validated(entries(THREE, magic, codec), magic=magic, compacted=True)


# --- the common case has a shortcut


def _outcome(work: Callable[[], ValidationResult | None]) -> Any:
    try:
        result = work()
    except KafkaLogError as error:
        return type(error), str(error)
    return result and (bytes(result.message_set.buffer), *result[1:-1], result.headers.tolist())


@pytest.mark.parametrize(("drawn", "flipped"), [(600, 250), pytest.param(4000, 2500, marks=pytest.mark.slow)])
def test_validation_at_once_gives_what_validation_step_by_step_gives(drawn: int, flipped: int) -> None:
    taken = 0
    for what, data, topic in cases(drawn, flipped):
        rules = Rules(**{name: getattr(topic, name) for name in asdict(topic)})
        try:
            entries = ByteBufferMessageSet(data)._whole()
            ensure_readable(entries.rows)
        except KafkaLogError:
            continue
        short = _outcome(lambda: _validate_fitting_batch(entries, Reading(), rules))  # noqa: B023 - called at once
        if short is None or not len(entries.rows):
            continue
        taken += 1
        assert short == _outcome(lambda: _validate_others(entries, Reading(), rules)), (what, topic)  # noqa: B023
    assert taken > drawn // 40


# --- arguments

WRONG: dict[str, dict[str, Any]] = {
    "magic": {"magic": 3},
    "first_offset": {"first_offset": -1},
    "timestamp type": {"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE},
    "now": {"now": -1},
    "level": {"target_compression": CompressionType.GZIP, "compression_level": 10},
    "target compression": {"compression_level": 1},
}


@pytest.mark.parametrize(("match", "topic"), WRONG.items(), ids=WRONG)
def test_invalid_arguments_are_refused(match: str, topic: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=match):
        validated(entries(THREE, 2), **topic)


def test_the_error_with_its_records_survives_pickling_and_naming_of_the_file() -> None:
    import pickle

    error = refused(entries([replace(record, key=None) for record in THREE], 2), compacted=True)
    error.add_note("noted")
    named = pickle.loads(pickle.dumps(error)).at("a/b.log", 7).at("c.log", 8)
    for same in (named, pickle.loads(pickle.dumps(named))):
        assert same.record_errors == error.record_errors
        assert type(same.reason) is type(error.reason)
        assert same.__notes__ == ["noted"]
        assert str(same) == f"a/b.log: position 7: {error}"


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("target", [None, CompressionType.NONE, CompressionType.GZIP])
def test_linked_lz4_blocks_are_refused(magic: int, target: CompressionType | None) -> None:
    wrapper, batch = LegacyWrapper(THREE, LZ4, magic), V2Batch(THREE, LZ4)
    linked = (
        replace(batch, payload=linked_lz4(batch.plain_region())).encoded()
        if magic == 2
        else replace(wrapper, value=linked_lz4(wrapper.inner_bytes(), magic)).encoded()
    )
    assert [record.value for record in ByteBufferMessageSet(linked)] == [b"x", b"y", b"z"]
    with pytest.raises(InvalidRecordError, match="LZ4 frame are linked"):
        validate_messages_and_assign_offsets(
            ByteBufferMessageSet(linked), first_offset=0, now=NOW, target_compression=target
        )
