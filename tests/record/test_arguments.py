"""What is given in another kind, unit or range than asked for is refused by name, never taken for something else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from kafkalog import (
    AppendOrigin,
    BatchSettings,
    ByteBufferMessageSet,
    CompressionType,
    Record,
    RecordsBuilder,
    TimestampType,
    ValidationResult,
    batches_of_records,
    validate_messages_and_assign_offsets,
)
from kafkalog.errors import InvalidRecordError, RecordValidationError
from tests.reference.encode import FORMATS

NOW = 1_700_000_000_000
LARGEST = 2**63 - 1
THREE = [Record(b"v", b"k", timestamp=NOW + i) for i in range(3)]
SET = ByteBufferMessageSet.from_records(THREE)
CONTROL = ByteBufferMessageSet.from_records(THREE[:1], is_control=True, producer_id=1, producer_epoch=0)


def validated(messages: Any = SET, **topic: Any) -> ValidationResult:
    return validate_messages_and_assign_offsets(messages, **{"first_offset": 0, "now": NOW, **topic})


# --- an enum's members, and their numbers


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_number_of_a_codec_is_taken_for_the_codec(magic: int, codec: int) -> None:
    by_number = ByteBufferMessageSet.from_records(THREE, magic=magic, compression_type=codec)  # type: ignore[arg-type]
    assert (
        by_number.buffer
        == ByteBufferMessageSet.from_records(THREE, magic=magic, compression_type=CompressionType(codec)).buffer
    )
    result = validated(by_number, magic=magic, target_compression=codec)
    assert [record.value for record in result.message_set] == [b"v"] * 3


def test_the_number_of_a_timestamp_type_is_taken_for_the_type() -> None:
    assert SET.with_timestamps(1, 5).buffer == SET.with_timestamps(TimestampType.LOG_APPEND_TIME, 5).buffer  # type: ignore[arg-type]
    made = ByteBufferMessageSet.from_records(THREE, timestamp_type=1, timestamp=9)  # type: ignore[arg-type]
    assert {(each.timestamp, each.timestamp_type.name) for each in made} == {(9, "LOG_APPEND_TIME")}
    (first, *_) = validated(timestamp_type=1).message_set
    assert (first.timestamp, first.timestamp_type) == (NOW, TimestampType.LOG_APPEND_TIME)
    with pytest.raises(RecordValidationError):
        SET.check_timestamps(0, 10 * NOW, 10, 10)  # type: ignore[arg-type]
    with pytest.raises(RecordValidationError):
        validated(now=10 * NOW, before_max_ms=10, timestamp_type=0)


ENUMS: dict[str, Callable[[Any], object]] = {
    "compression_type": lambda given: ByteBufferMessageSet.from_records(THREE, compression_type=given),
    "target_compression": lambda given: validated(target_compression=given),
    "timestamp_type": lambda given: SET.with_timestamps(given, 5),
    "timestamp_type of a check": lambda given: SET.check_timestamps(given, NOW, 10, 10),
    "timestamp_type of records": lambda given: ByteBufferMessageSet.from_records(THREE, timestamp_type=given),
    "timestamp_type of a topic": lambda given: validated(timestamp_type=given),
    "timestamp_type of a record": lambda given: Record(timestamp_type=given),
}


@pytest.mark.parametrize("call", ENUMS.values(), ids=ENUMS)
def test_a_value_that_is_no_member_of_an_enum_is_refused_by_name(
    call: Callable[[Any], object], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id.split()[0]
    for given in (True, 1.0, b"x"):
        with pytest.raises(TypeError, match=rf"^{name} is one of \w+Type\."):
            call(given)
    for number in (-2, 9):
        with pytest.raises(ValueError, match=rf"^{name} is {number}, not one of "):
            call(number)
    with pytest.raises(ValueError, match=rf"^{name} is 'lzma', not one of \w+, "):
        call("lzma")


def test_a_name_of_kafkas_settings_stands_for_a_member_of_an_enum() -> None:
    records = [Record(b"v" * 100, timestamp=5)]
    for codec in CompressionType:
        for name in (codec.name, codec.name.lower()):
            named = ByteBufferMessageSet.from_records(records, compression_type=name)  # type: ignore[arg-type]
            assert bytes(named.buffer) == bytes(
                ByteBufferMessageSet.from_records(records, compression_type=codec).buffer
            )
    for time in ("LogAppendTime", "LOG_APPEND_TIME", "log_append_time"):
        assert Record(timestamp_type=time).timestamp_type is TimestampType.LOG_APPEND_TIME  # type: ignore[arg-type]


@pytest.mark.parametrize("origin", ["leader", None, 2])
def test_a_wrong_origin_does_not_switch_the_checks_off(origin: Any) -> None:
    with pytest.raises(InvalidRecordError, match="control"):
        validated(CONTROL, origin=AppendOrigin.CLIENT)
    with pytest.raises((TypeError, ValueError), match=r"origin is .*one of "):
        validated(CONTROL, origin=origin)


# --- whole numbers


NUMBERS: dict[str, Callable[[Any], object]] = {
    "magic": lambda given: BatchSettings(magic=given),
    "base_offset": lambda given: BatchSettings(base_offset=given),
    "log_append_time": lambda given: BatchSettings(log_append_time=given),
    "producer_id": lambda given: BatchSettings(producer_id=given),
    "producer_epoch": lambda given: BatchSettings(producer_epoch=given),
    "base_sequence": lambda given: BatchSettings(base_sequence=given),
    "partition_leader_epoch": lambda given: BatchSettings(partition_leader_epoch=given),
    "delete_horizon_ms": lambda given: BatchSettings(delete_horizon_ms=given),
    "max_size": lambda given: batches_of_records([], max_size=given),
    "timestamp": lambda given: SET.with_timestamps(TimestampType.LOG_APPEND_TIME, given),
    "timestamp of a builder": lambda given: RecordsBuilder().append(b"x", timestamp=given),
    "offset of a builder": lambda given: RecordsBuilder().append(b"x", offset=given),
    "timestamp of records": lambda given: ByteBufferMessageSet.from_records(THREE, timestamp=given),
    "timestamp of a record": lambda given: Record(timestamp=given),
    "offset of a record": lambda given: Record(offset=given),
    "sequence of a record": lambda given: Record(sequence=given),
    "first_offset": SET.with_offsets,
    "first_offset of a topic": lambda given: validated(first_offset=given),
    "partition_leader_epoch of offsets": lambda given: SET.with_offsets(0, partition_leader_epoch=given),
    "partition_leader_epoch of a topic": lambda given: validated(partition_leader_epoch=given),
    "now": lambda given: SET.check_timestamps(TimestampType.CREATE_TIME, given, 10, 10),
    "now of a topic": lambda given: validated(now=given),
    "before_max_ms": lambda given: validated(before_max_ms=given),
    "after_max_ms": lambda given: SET.check_timestamps(TimestampType.CREATE_TIME, NOW, 10, given),
    "magic of a check": SET.check_magic,
    "magic of a conversion": SET.to_magic,
    "magic of a question": SET.has_matching_magic,
    "threads": lambda given: SET.columns(threads=given),
}


@pytest.mark.parametrize("call", NUMBERS.values(), ids=NUMBERS)
def test_a_value_that_is_no_whole_number_in_range_is_refused_by_name(
    call: Callable[[Any], object], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id.split()[0]
    for given in (1.5, 1.0, "1", True, timedelta(1), np.float64(1)):
        with pytest.raises(TypeError, match=rf"^{name} is a whole number.*, not {type(given).__name__}$"):
            call(given)
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match=rf"^{name} is {number}\b.* is needed$"):
            call(number)


def test_an_error_about_a_time_names_its_unit() -> None:
    with pytest.raises(TypeError, match=r"now is a whole number of ms since the epoch, not float"):
        validated(now=NOW / 1000)


def test_a_number_of_numpys_becomes_one_of_pythons() -> None:
    settings = BatchSettings(base_offset=np.int64(5), compression_type=np.int8(1))  # type: ignore[arg-type]
    assert (type(settings.base_offset), settings.compression_type) == (int, CompressionType.GZIP)


@pytest.mark.parametrize("name", ["is_control", "is_transactional"])
def test_a_flag_is_true_or_false_and_nothing_like_it(name: str) -> None:
    wrong: list[Any] = ["no", 1, None]
    for given in wrong:
        with pytest.raises(TypeError, match=f"{name} is True or False, not {given!r}"):
            BatchSettings(**{name: given})


# --- offsets up to the largest there is


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_offsets_end_at_the_largest_and_do_not_run_over_it(magic: int, codec: int) -> None:
    messages = ByteBufferMessageSet.from_records(THREE, magic=magic, compression_type=CompressionType(codec))
    for number in (
        messages.with_offsets,
        lambda first: validated(messages, magic=magic, first_offset=first).message_set,
    ):
        assert [record.offset for record in number(LARGEST - 2)] == [LARGEST - 2, LARGEST - 1, LARGEST]
        for first in (LARGEST - 1, LARGEST):
            with pytest.raises(ValueError, match=f"3 records from offset {first} on"):
                number(first)


def test_an_offset_below_the_base_is_refused_however_far_below() -> None:
    builder = RecordsBuilder(BatchSettings(base_offset=LARGEST))
    with pytest.raises(ValueError, match="not within"):
        builder.append(b"x", offset=-(2**63))


# --- objects


def test_validation_takes_message_sets_in_memory_only() -> None:
    for given in (bytes(SET.buffer), THREE, None):
        with pytest.raises(TypeError, match="message_set is a ByteBufferMessageSet"):
            validated(given)


def test_a_builder_takes_settings_only() -> None:
    for given in ({"magic": 1}, 2):
        with pytest.raises(TypeError, match="settings is a BatchSettings, not"):
            RecordsBuilder(given)  # type: ignore[arg-type]


def test_batches_are_made_of_records_and_settings() -> None:
    with pytest.raises(TypeError, match="Record"):
        list(batches_of_records(["s"]))  # type: ignore[list-item]
    with pytest.raises(TypeError, match="settings is a BatchSettings"):
        list(batches_of_records(THREE, {"magic": 1}))  # type: ignore[arg-type]
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"max_size is {size} bytes"):
            list(batches_of_records(THREE, max_size=size))


def test_assigned_offsets_take_records_and_whole_numbers_only() -> None:
    with pytest.raises(TypeError, match="record is a Record, not bytes"):
        ByteBufferMessageSet.from_records([b"x"], offsets=[1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="offset is a whole number, not NoneType"):
        ByteBufferMessageSet.from_records(THREE, offsets=[0, None])  # type: ignore[list-item]


def test_a_set_outlives_a_view_that_was_released() -> None:
    messages = ByteBufferMessageSet(bytes(SET.buffer))
    with messages.buffer:
        pass
    assert len(list(messages)) == 3


# --- times

TIME = datetime(2026, 1, 31, 10, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=2)))
TIME_MS = 1_769_846_400_123


def test_a_datetime_stands_for_its_milliseconds_since_the_epoch() -> None:
    assert Record(timestamp=TIME) == Record(timestamp=TIME_MS)
    assert Record(timestamp=datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)).timestamp == -1
    log_append = TimestampType.LOG_APPEND_TIME
    sets = [
        ByteBufferMessageSet.from_records([Record(b"v")], timestamp_type=log_append, timestamp=time)
        for time in (TIME, TIME_MS)
    ]
    assert bytes(sets[0]) == bytes(sets[1])


def test_a_datetime_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="timestamp is 2026-01-31 10:00:00: a datetime needs a time zone"):
        Record(timestamp=datetime(2026, 1, 31, 10))  # noqa: DTZ001 - that is what is refused


def test_only_a_time_since_the_epoch_may_be_a_datetime() -> None:
    with pytest.raises(TypeError, match="offset is a whole number, not datetime"):
        Record(offset=TIME)  # type: ignore[arg-type]
