"""The steps by which messages are checked and corrected, each alone: magic, keys, timestamps, offsets, format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.helpers import strategies
from tests.reference.compression import GZIP, NONE, SNAPPY, ZSTD
from tests.reference.encode import (
    CONTROL,
    FORMATS,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    entries,
    records,
)

CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
THREE = [PlainRecord(0, 1, b"a", b"x"), PlainRecord(1, 2, b"b", b"y"), PlainRecord(2, 3, b"c", b"z")]

every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)
compressed_or_v2 = pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] == 2 or form[1]])


def three(magic: int, codec: int) -> ByteBufferMessageSet:
    return ByteBufferMessageSet(entries(THREE, magic, codec))


def offsets(message_set: ByteBufferMessageSet) -> list[int]:
    return [record.offset for record in message_set]


def content(message_set: ByteBufferMessageSet) -> list[Any]:
    """Return keys, values and headers of the records."""
    return [(record.key, record.value, record.headers) for record in message_set]


def refused(check: Callable[[], object]) -> list[int]:
    """The records for which a check refuses a set."""
    with pytest.raises(RecordValidationError) as error:
        check()
    return [each.index for each in error.value.record_errors]


# --- magic


@every_format
@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_set_of_one_format_is_taken_for_that_format_only(magic: int, codec: int, asked: int) -> None:
    message_set = three(magic, codec)
    if asked == magic:
        assert message_set.check_magic(asked) is message_set
    else:
        with pytest.raises(InvalidRecordError) as error:
            message_set.check_magic(asked)
        assert (error.value.expected, error.value.found) == (f"magic {asked}", f"magic {magic}")


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_another_format_inside_a_wrapper_are_named(magic: int) -> None:
    plain = entries(records(b"1", b"2", offset=0), magic)
    inner = b"".join(LegacyMessage(record, magic if i != 1 else 1 - magic).encoded() for i, record in enumerate(THREE))
    message_set = ByteBufferMessageSet(plain + LegacyWrapper(THREE, GZIP, magic, inner=inner).encoded())
    assert refused(lambda: message_set.check_magic(magic)) == [3]


def test_a_set_without_entries_passes_every_check() -> None:
    empty = ByteBufferMessageSet(b"")
    assert empty.check_magic(2).check_keys().check_timestamps(CREATE_TIME, 0, 0, 0) is empty


# --- keys


@every_format
def test_records_without_a_key_are_counted_through_the_whole_set(magic: int, codec: int) -> None:
    keyless = [replace(THREE[0], key=None), replace(THREE[1], key=b""), replace(THREE[2], key=None)]
    data = entries(THREE, magic, codec) + entries(keyless, magic, codec)
    assert refused(ByteBufferMessageSet(data).check_keys) == [3, 5]
    message_set = three(magic, codec)
    assert message_set.check_keys() is message_set


def test_keys_are_looked_for_in_every_format_at_once() -> None:
    data = b"".join(entries([THREE[0], replace(THREE[1], key=None)], *form) for form in FORMATS)
    assert refused(ByteBufferMessageSet(data).check_keys) == list(range(1, 2 * len(FORMATS), 2))


# --- timestamps


@every_format
def test_timestamps_too_far_from_now_are_named(magic: int, codec: int) -> None:
    times = [1000, 2000, 3000, 900, 3001, -1]
    message_set = ByteBufferMessageSet(entries([PlainRecord(i, time) for i, time in enumerate(times)], magic, codec))
    if magic == 0:
        message_set.check_timestamps(CREATE_TIME, 2000, 0, 0)
        return
    assert refused(lambda: message_set.check_timestamps(CREATE_TIME, 2000, 1000, 1000)) == [3, 4]
    assert message_set.check_timestamps(CREATE_TIME, 2000, 1100, 1001) is message_set
    assert message_set.check_timestamps(LOG_APPEND_TIME, 2000, 0, 0) is message_set


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0]])
def test_a_producer_must_not_set_append_time(magic: int, codec: int) -> None:
    message_set = three(magic, codec).with_timestamps(LOG_APPEND_TIME, 7)
    with pytest.raises(RecordValidationError) as error:
        message_set.check_timestamps(LOG_APPEND_TIME, 7, 0, 0)
    assert isinstance(error.value.reason, InvalidTimestampError)
    assert [each.index for each in error.value.record_errors] == [0, 1, 2]


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0]])
def test_append_time_is_every_records_and_the_checksum_holds(magic: int, codec: int) -> None:
    stamped = three(magic, codec).with_timestamps(LOG_APPEND_TIME, 15)
    assert [(r.timestamp, r.timestamp_type) for r in stamped] == [(15, LOG_APPEND_TIME)] * 3
    assert all(batch.is_valid for batch in stamped.batches())


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] == 2 or (form[0] and form[1])])
def test_create_time_is_the_batchs_and_its_records_keep_theirs(magic: int, codec: int) -> None:
    stamped = three(magic, codec).with_timestamps(CREATE_TIME, 15)
    assert next(stamped.batches()).max_timestamp == 15
    assert next(stamped.batches()).is_valid
    assert [record.timestamp for record in stamped] == [1, 2, 3]


def test_the_same_timestamp_changes_no_byte_and_unused_bits_stay() -> None:
    data = V2Batch(THREE, flags=0x7F80).encoded()
    assert ByteBufferMessageSet(data).with_timestamps(CREATE_TIME, 3).buffer == data
    assert ByteBufferMessageSet(data).with_timestamps(CREATE_TIME, 4).headers()["attributes"] == 0


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_format_0_has_no_timestamp_to_set(codec: int) -> None:
    with pytest.raises(UnsupportedForMessageFormatError):
        three(0, codec).with_timestamps(CREATE_TIME, 1)


@pytest.mark.parametrize("wrong", [(TimestampType.NO_TIMESTAMP_TYPE, 5), (CREATE_TIME, -2), (LOG_APPEND_TIME, -1)])
def test_a_type_or_time_that_does_not_exist_is_refused(wrong: tuple[TimestampType, int]) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        three(2, NONE).with_timestamps(*wrong)


# --- offsets


@every_format
def test_setting_the_offsets_moves_all_records_and_the_checksum_holds(magic: int, codec: int) -> None:
    numbered = three(magic, codec).with_offsets(498)
    assert offsets(numbered) == [498, 499, 500]
    assert [batch.last_offset for batch in numbered.batches()][-1] == 500
    assert all(batch.is_valid for batch in numbered.batches())
    assert content(numbered) == content(three(magic, codec))


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] or not form[1]])
def test_offsets_that_fit_change_nothing_but_the_offset(magic: int, codec: int) -> None:
    before, after = bytes(three(magic, codec).buffer), bytes(three(magic, codec).with_offsets(2**40).buffer)
    starts = [int(at) for at in three(magic, codec).headers()["position"]]
    allowed = {start + i for start in starts for i in range(8)}
    assert {i for i in range(len(before)) if before[i] != after[i]} <= allowed


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_a_format_0_wrapper_stays_only_where_its_offsets_are_right_already(codec: int) -> None:
    assert three(0, codec).with_offsets(0).buffer == three(0, codec).buffer
    assert three(0, codec).with_offsets(1).buffer != three(0, codec).buffer
    assert next(three(0, codec).with_offsets(1).batches()).compression_type == codec


@every_format
def test_gaps_are_closed(magic: int, codec: int) -> None:
    spread = [replace(record, offset=10 + record.offset * 3) for record in THREE]
    numbered = ByteBufferMessageSet(entries(spread, magic, codec) + entries(THREE, magic, codec)).with_offsets(100)
    assert offsets(numbered) == [100, 101, 102, 103, 104, 105]
    assert content(numbered) == content(three(magic, codec)) * 2
    assert {batch.compression_type for batch in numbered.batches()} == {codec}


def test_a_rebuilt_batch_keeps_its_producer_and_its_times() -> None:
    fields: dict[str, Any] = {"producer_id": 9, "producer_epoch": 1, "base_sequence": 5, "partition_leader_epoch": 3}
    spread = [replace(record, offset=record.offset * 2) for record in THREE]
    data = V2Batch(spread, GZIP, flags=TRANSACTIONAL, **fields).encoded()
    rebuilt = ByteBufferMessageSet(data).with_offsets(0)
    batch = next(rebuilt.batches())
    assert {name: getattr(batch, name) for name in fields} == fields
    assert batch.is_transactional
    assert [record.timestamp for record in rebuilt] == [1, 2, 3]


def test_an_emptied_batch_keeps_the_length_of_its_range() -> None:
    emptied = V2Batch([], base_offset=10, last_offset_delta=4).encoded()
    numbered = ByteBufferMessageSet(emptied + entries(THREE, 2)).with_offsets(50)
    assert [(batch.base_offset, batch.last_offset) for batch in numbered.batches()] == [(50, 54), (55, 57)]


def test_control_batches_stay_as_they_are() -> None:
    marker = [PlainRecord(20, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    data = V2Batch(marker, flags=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0).encoded()
    batch = next(ByteBufferMessageSet(data).with_offsets(3).batches())
    assert (batch.base_offset, batch.is_control, batch.size_in_bytes) == (3, True, 78)


def test_the_leader_epoch_is_set_where_there_is_one() -> None:
    message_set = ByteBufferMessageSet(entries(THREE, 1) + entries(THREE, 2))
    numbered = message_set.with_offsets(0, partition_leader_epoch=500)
    assert [batch.partition_leader_epoch for batch in numbered.batches()] == [-1, -1, -1, 500]
    assert all(batch.is_valid for batch in numbered.batches())


def test_offsets_begin_at_0_or_later() -> None:
    with pytest.raises(ValueError, match="first_offset"):
        three(2, NONE).with_offsets(-1)


@given(strategies.message_sets(), st.integers(0, 2**40))
def test_numbered_records_are_consecutive_or_the_set_is_refused(data: bytes, first: int) -> None:
    """Whatever is in a set, control batches and emptied ones among it."""
    message_set = ByteBufferMessageSet(data)
    try:
        numbered = message_set.with_offsets(first)
        expected = content(message_set)
    except KafkaLogError:
        return
    assert content(numbered) == expected
    ends = [(batch.base_offset, batch.last_offset) for batch in numbered.batches() if batch.records_count != 0]
    assert all(base <= last for base, last in ends)
    assert all(left[1] < right[0] for left, right in pairwise(ends))


# --- formats


@every_format
@pytest.mark.parametrize("to", [0, 1, 2])
def test_records_keep_offset_key_and_value_in_every_format(magic: int, codec: int, to: int) -> None:
    message_set = three(magic, codec).with_offsets(70)
    if codec == ZSTD and to < 2:
        with pytest.raises(UnsupportedCompressionError):
            message_set.to_magic(to)
        return
    converted = message_set.to_magic(to)
    assert converted.has_matching_magic(to)
    assert offsets(converted) == [70, 71, 72]
    assert content(converted) == content(message_set)
    assert {batch.compression_type for batch in converted.batches()} == {codec}
    assert [r.timestamp for r in converted] == ([1, 2, 3] if magic and to else [-1, -1, -1])
    assert all(batch.is_valid for batch in converted.batches())


@every_format
def test_entries_of_the_format_asked_for_stay_byte_for_byte(magic: int, codec: int) -> None:
    data = entries(THREE, magic, codec)
    assert ByteBufferMessageSet(data).to_magic(magic).buffer == data


def test_headers_and_producers_fall_away_on_the_way_down() -> None:
    given = [replace(record, headers=((b"h", b"1"),)) for record in THREE]
    data = V2Batch(given, flags=TRANSACTIONAL, producer_id=9, producer_epoch=1, base_sequence=5).encoded()
    converted = ByteBufferMessageSet(data).to_magic(1)
    assert content(converted) == [(r.key, r.value, ()) for r in THREE]
    assert {batch.producer_id for batch in converted.batches()} == {-1}


LOSSES: dict[str, V2Batch] = {
    "headers": V2Batch([replace(THREE[0], headers=((b"h", None),))]),
    "an idempotent producer": V2Batch(THREE, producer_id=9, producer_epoch=1, base_sequence=5),
    "transactional": V2Batch(THREE, producer_id=9, producer_epoch=1, base_sequence=5, flags=TRANSACTIONAL),
    "control": V2Batch([PlainRecord(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")], flags=CONTROL),
}


@pytest.mark.parametrize("batch", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("to", [0, 1])
def test_a_conversion_that_loses_something_is_refused_on_request(batch: V2Batch, to: int) -> None:
    message_set = ByteBufferMessageSet(batch.encoded())
    assert message_set.to_magic(2, lossy=False).buffer == message_set.buffer
    with pytest.raises(UnsupportedForMessageFormatError):
        message_set.to_magic(to, lossy=False)


def test_a_conversion_that_loses_nothing_is_never_refused() -> None:
    assert content(three(2, GZIP).to_magic(0, lossy=False)) == content(three(2, GZIP))


def test_control_batches_are_left_out_on_the_way_down() -> None:
    data = LOSSES["control"].encoded() + entries(THREE, 2) + LOSSES["control"].encoded()
    assert offsets(ByteBufferMessageSet(data).to_magic(1)) == [0, 1, 2]


def test_records_before_the_offset_asked_for_are_left_out_of_what_is_not_compressed() -> None:
    assert offsets(three(2, NONE).to_magic(1, start_offset=1)) == [1, 2]
    assert offsets(three(2, NONE).to_magic(1, start_offset=9)) == []
    assert offsets(three(1, NONE).to_magic(0, start_offset=1)) == [1, 2]
    assert offsets(three(2, GZIP).to_magic(1, start_offset=1)) == [0, 1, 2]
    assert offsets(three(2, NONE).to_magic(2, start_offset=1)) == [0, 1, 2]


def test_append_time_stays_append_time() -> None:
    appended = three(2, NONE).with_timestamps(LOG_APPEND_TIME, 15)
    down = appended.to_magic(1)
    assert [(r.timestamp, r.timestamp_type) for r in down] == [(15, LOG_APPEND_TIME)] * 3
    assert [(r.timestamp, r.timestamp_type) for r in down.to_magic(2)] == [(15, LOG_APPEND_TIME)] * 3


def test_messages_become_one_batch_as_long_as_one_batch_can_say_it() -> None:
    def message(offset: int, timestamp: int, timestamp_type: int) -> bytes:
        return LegacyMessage(PlainRecord(offset, timestamp, b"k", b"v"), 1, timestamp_type=timestamp_type).encoded()

    alike = [message(0, 5, 0), message(1, 9, 0)]
    appended = [message(2, 9, 1), message(3, 9, 1), message(4, 10, 1)]
    backwards = [message(4, 9, 0), message(3, 9, 0)]
    far = [message(2**33, 9, 0)]
    data = b"".join([*alike, *appended, *backwards, *far])
    batches = list(ByteBufferMessageSet(data).to_magic(2).batches())
    assert [[record.offset for record in batch] for batch in batches] == [[0, 1], [2, 3], [4], [4], [3], [2**33]]


def test_formats_in_turn_come_out_in_one_format() -> None:
    forms = [form for form in FORMATS if form[1] != ZSTD]
    data = b"".join(entries(records(b"a", b"b", offset=2 * i), *form) for i, form in enumerate(forms))
    for to in (0, 1, 2):
        converted = ByteBufferMessageSet(data).to_magic(to)
        assert offsets(converted) == list(range(2 * len(forms)))
        assert converted.has_matching_magic(to)


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="magic is 3"):
        three(2, NONE).to_magic(3)


def test_a_record_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidTimestampError):
        ByteBufferMessageSet(V2Batch([replace(THREE[0], timestamp=-5)]).encoded()).to_magic(1)


@pytest.mark.parametrize("to", [0, 1])
def test_a_record_before_all_offsets_is_refused(to: int) -> None:
    with pytest.raises(InvalidRecordError, match="negative offset"):
        ByteBufferMessageSet(V2Batch(THREE, base_offset=-(2**63), last_offset_delta=0).encoded()).to_magic(to)


# --- all of them


STEPS: dict[str, Callable[[ByteBufferMessageSet], ByteBufferMessageSet]] = {
    "timestamps": lambda messages: messages.with_timestamps(LOG_APPEND_TIME, 9),
    "offsets": lambda messages: messages.with_offsets(77, partition_leader_epoch=5),
    "format": lambda messages: messages.to_magic(1),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_the_bytes_given_are_not_changed(step: Callable[..., ByteBufferMessageSet], codec: int) -> None:
    given = bytearray(entries(THREE, 2, codec))
    before = bytes(given)
    changed = step(ByteBufferMessageSet(given))
    assert given == before
    assert changed.buffer != before


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_torn_tail_is_left_out(step: Callable[..., ByteBufferMessageSet]) -> None:
    data = entries(THREE, 2)
    assert step(ByteBufferMessageSet(data + data[:-1])).buffer == step(ByteBufferMessageSet(data)).buffer


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_nothing_stays_nothing(step: Callable[..., ByteBufferMessageSet]) -> None:
    assert step(ByteBufferMessageSet(b"")).size_in_bytes == 0


CHECKS: dict[str, Callable[[ByteBufferMessageSet], object]] = {
    "keys": lambda messages: messages.check_keys(),
    "timestamps": lambda messages: messages.check_timestamps(CREATE_TIME, 0, 0, 0),
    "new timestamps": STEPS["timestamps"],
    "format": STEPS["format"],
}


@pytest.mark.parametrize("step", CHECKS.values(), ids=CHECKS)
def test_a_batch_with_another_checksum_is_refused_and_not_mended(
    step: Callable[[ByteBufferMessageSet], object],
) -> None:
    with pytest.raises(CorruptRecordError, match="checksum"):
        step(ByteBufferMessageSet(V2Batch(THREE, checksum=1).encoded()))


@pytest.mark.parametrize("step", [*CHECKS.values(), STEPS["offsets"]], ids=[*CHECKS, "offsets"])
def test_a_batch_shorter_than_its_header_is_refused(step: Callable[[ByteBufferMessageSet], object]) -> None:
    short = bytearray(entries(THREE, 2)[:60])
    short[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match="shorter"):
        step(ByteBufferMessageSet(short))


def test_steps_follow_one_another() -> None:
    given = [Record(b"1", b"a", timestamp=10), Record(b"2", b"b", timestamp=20)]
    message_set = ByteBufferMessageSet.from_records(given, magic=1, compression_type=CompressionType.GZIP)
    done = message_set.check_magic(1).check_keys().with_timestamps(LOG_APPEND_TIME, 50).with_offsets(1000).to_magic(2)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in done] == [(1000, 50, b"a", b"1"), (1001, 50, b"b", b"2")]
