from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import pytest

from kafkalog import (
    ByteBufferMessageSet,
    CompressionType,
    IsolationLevel,
    Log,
    LogOffsetMetadata,
    Record,
    WritableLog,
)
from kafkalog.errors import CorruptRecordError, LogStateError, OffsetOutOfRangeError, SerializationError
from kafkalog.record.serialization import DecodedRecord, deserialize_json, deserialize_text
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read import fetch as fetching
from kafkalog.storage.read.fetch import Fetch, fetch
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.segment.log_segments import LogSegments
from tests.helpers.logs import (
    CONFIG,
    EVERYTHING,
    NOW,
    append,
    bases,
    batch,
    fill,
    follow,
    opened,
    replicated,
    seen,
    values,
)
from tests.helpers.making import offsets

SIZE = batch(b"0").size_in_bytes
EARLIEST, LATEST, LARGEST, EARLIEST_LOCAL = -2, -1, -3, -4
EVERY_ISOLATION = list(IsolationLevel)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def place(metadata: LogOffsetMetadata) -> tuple[int, int, int]:
    return metadata.message_offset, metadata.segment_base_offset, metadata.relative_position_in_segment


# --- how far a read sees


@pytest.mark.parametrize(
    ("start", "bound", "expected"),
    [
        (3, LogOffsetMetadata(4, 4, 0), ([3], (3, 2, SIZE))),
        (4, LogOffsetMetadata(4, 4, 0), ([], (4, 4, 0))),
        (5, LogOffsetMetadata(4, 4, 0), ([], (5, 4, SIZE))),
        (3, LogOffsetMetadata(4), ([], (3, 2, SIZE))),
        (3, LogOffsetMetadata(4, 0, 40), ([], (3, 2, SIZE))),
    ],
    ids=["below it", "at it", "above it", "its place is not known", "on an older segment"],
)
def test_nothing_is_read_from_the_bound_on(
    directory: Path, start: int, bound: LogOffsetMetadata, expected: tuple[list[int], tuple[int, int, int]]
) -> None:
    with opened(directory) as log:
        for number in range(5):
            if number in (2, 4):
                log.roll()
            append(log, b"%d" % number)
        assert bases(log) == [0, 2, 4]
        end = LogOffsetMetadata(5, 4, SIZE)
        found = fetch(LogSegments(log.segments), end, Fetch(start, EVERYTHING, False, bound))
        assert (offsets(found), place(found.fetch_offset_metadata)) == expected


def test_each_isolation_sees_as_far_as_it_says(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"stable")
        append(log, b"open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        append(log, b"replicated")
        log.update_high_watermark(3)
        append(log, b"not replicated")
        assert seen(log, 0, IsolationLevel.LOG_END) == [0, 1, 2, 3]
        assert seen(log, 0, IsolationLevel.HIGH_WATERMARK) == [0, 1, 2]
        assert seen(log, 0, IsolationLevel.TXN_COMMITTED) == [0]
        for isolation, end in zip(EVERY_ISOLATION, (4, 3, 1), strict=True):
            assert [record.offset for record in log.records(isolation=isolation)] == list(range(end))
            assert [b.base_offset for b in log.batches(isolation=isolation)] == list(range(end))
            assert log.count(isolation=isolation) == end


def test_only_reads_of_committed_records_return_aborted_transactions(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        replicated(log)
        for start in (0, 2, 3):
            found = [log.read(start, EVERYTHING, each).aborted_transactions for each in EVERY_ISOLATION]
            assert found == [None, None, ()]


# --- how much it gives


def test_a_maximum_size_of_0_returns_nothing_and_a_small_one_part_of_the_first_batch(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        nothing, cut = log.read(0, 0), log.read(0, 1)
        assert (nothing.message_set.size_in_bytes, nothing.first_entry_incomplete) == (0, False)
        assert (cut.message_set.size_in_bytes, cut.first_entry_incomplete) == (1, True)
        with pytest.raises(ValueError, match="max_length"):
            log.read(0, -1)


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE])
def test_the_first_batch_is_given_whole_where_that_is_asked_for(directory: Path, size: int) -> None:
    with opened(directory) as log:
        fill(log, 3)
        for start in range(3):
            found = log.read(start, size, IsolationLevel.LOG_END, min_one_message=True)
            assert (values(found.message_set), found.first_entry_incomplete) == ([b"%d" % start], False)


def test_even_a_batch_given_whole_does_not_reach_over_the_high_watermark(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        log.update_high_watermark(1)
        assert seen(log, 0, IsolationLevel.HIGH_WATERMARK) == [0]
        found = log.read(1, 1, IsolationLevel.HIGH_WATERMARK, min_one_message=True)
        assert found.message_set.size_in_bytes == 0


def test_the_last_batch_may_be_cut(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        found = log.read(0, 2 * SIZE + 5)
        assert found.message_set.size_in_bytes == 2 * SIZE + 5
        assert offsets(found) == [0, 1]


def test_a_read_stays_in_one_segment(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        log.roll()
        fill(log, 2)
        assert [seen(log, start) for start in range(5)] == [[0, 1], [1], [2, 3], [3], []]


def test_a_read_returns_whole_batches_with_records_before_its_start(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"hello", b"there", compression_type=CompressionType.GZIP)
        append(log, b"alpha", b"beta", compression_type=CompressionType.GZIP)
        assert [seen(log, start) for start in range(4)] == [[0, 1, 2, 3], [0, 1, 2, 3], [2, 3], [2, 3]]
        assert [record.offset for record in log.records(1)] == [1, 2, 3]


def test_at_a_gap_the_next_batch_is_given(directory: Path) -> None:
    with opened(directory) as log:
        follow(log, 0, b"a")
        follow(log, 100, b"b")
        log.roll()
        follow(log, 200, b"c")
        assert [seen(log, start)[0] for start in (0, 1, 99, 100, 101, 150, 200)] == [0, 100, 100, 100, 200, 200, 200]
        found = log.read(101, EVERYTHING)
        assert place(found.fetch_offset_metadata) == (200, 101, 0)


def test_at_the_end_there_is_nothing_and_beyond_it_no_offset(directory: Path) -> None:
    with opened(directory, log_start_offset=1024) as log:
        append(log, b"v")
        assert offsets(log.read(1025, EVERYTHING)) == []
        for outside in (0, 1023, 1026):
            with pytest.raises(OffsetOutOfRangeError) as refused:
                log.read(outside, EVERYTHING)
            assert refused.value.found == outside


def test_records_before_the_logs_start_are_not_given_though_their_bytes_are_there(directory: Path) -> None:
    with opened(directory) as log:
        append(log, *[b"v"] * 10)
        replicated(log)
        log.delete_records(4)
        assert [record.offset for record in log] == [4, 5, 6, 7, 8, 9]
        assert log.count() == 6
        with pytest.raises(OffsetOutOfRangeError):
            log.read(3, EVERYTHING)


def test_a_read_before_an_empty_last_segment_returns_nothing(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        log.close()
    (directory / f"{50:020}.log").touch()
    with opened(directory) as log:
        found = log.read(2, EVERYTHING)
        assert (offsets(found), found.fetch_offset_metadata.message_offset) == ([], 50)


def test_messages_read_outlive_the_log_and_a_closed_log_is_not_read(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        found = list(log.read(0, EVERYTHING).message_set)
        log.close()
        assert [record.value for record in found] == [b"0", b"1"]
        with pytest.raises(LogStateError, match="closed"):
            log.read(0, EVERYTHING, IsolationLevel.HIGH_WATERMARK)


# --- by time


def test_a_timestamp_leads_to_the_first_record_as_late_and_its_leader_epoch(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"a", timestamp=NOW + 10, epoch=0)
        log.roll()
        append(log, b"b", timestamp=NOW + 20, epoch=1)
        found = [log.offset_for_timestamp(NOW + time) for time in (0, 10, 11, 20, 21)]
        assert [each and (each.timestamp - NOW, each.offset, each.leader_epoch) for each in found] == [
            (10, 0, 0),
            (10, 0, 0),
            (20, 1, 1),
            (20, 1, 1),
            None,
        ]


def test_the_special_timestamps_lead_to_the_start_and_the_end_and_the_latest_record(directory: Path) -> None:
    with opened(directory) as log:
        for time, epoch in ((1, 0), (2, 0), (1, 1)):
            append(log, b"v", timestamp=NOW + time, epoch=epoch)
        assert log.offset_for_timestamp(EARLIEST) == (-1, 0, 0)
        assert log.offset_for_timestamp(EARLIEST_LOCAL) == (-1, 0, 0)
        assert log.offset_for_timestamp(LATEST) == (-1, 3, 1)
        assert log.offset_for_timestamp(LARGEST) == (NOW + 2, 1, 0)
        assert log.offset_for_timestamp(-5) == (-1, -1, -1)
        with pytest.raises(ValueError, match="special values"):
            log.offset_for_timestamp(-7)


def test_the_latest_record_is_found_inside_of_its_batch(directory: Path) -> None:
    times = [NOW + 5, NOW + 9, NOW + 9, NOW + 1]
    with opened(directory) as log:
        for codec in (CompressionType.NONE, CompressionType.ZSTD):
            log.truncate_fully_and_start_at(0)
            append(log, b"before")
            records = [Record(b"v", timestamp=time) for time in times]
            log.append_as_leader(ByteBufferMessageSet.from_records(records, compression_type=codec), 4)
            assert log.offset_for_timestamp(LARGEST) == (NOW + 9, 2, 4)


def test_an_empty_log_has_a_start_and_an_end_and_no_latest_record(directory: Path) -> None:
    with opened(directory) as log:
        assert log.offset_for_timestamp(EARLIEST) == (-1, 0, None)
        assert log.offset_for_timestamp(LATEST) == (-1, 0, None)
        assert log.offset_for_timestamp(LARGEST) is None
        assert log.offset_for_timestamp(NOW) is None


def test_the_start_has_no_epoch_where_epochs_began_later(directory: Path) -> None:
    with opened(directory) as log:
        log.append_as_follower(batch(b"old", magic=1))
        append(log, b"new", epoch=3)
        assert log.offset_for_timestamp(EARLIEST) == (-1, 0, None)
        replicated(log)
        log.delete_records(1)
        assert log.offset_for_timestamp(EARLIEST) == (-1, 1, 3)


def test_deleted_records_are_not_found_by_their_time(directory: Path) -> None:
    with opened(directory) as log:
        for i in range(4):
            append(log, b"v", timestamp=NOW + i)
        replicated(log)
        log.delete_records(2)
        assert log.offset_for_timestamp(NOW) == (NOW + 2, 2, 0)


def test_damage_where_kafka_does_not_search_is_no_error(directory: Path) -> None:
    with opened(directory) as log:
        for i in range(3):
            append(log, b"v", timestamp=NOW + 5 - i)
            append(log, b"v", timestamp=NOW - i)
            log.roll()
        replicated(log)
        log.delete_records(1)
        assert log.offset_for_timestamp(NOW + 1) == (NOW + 4, 2, 0)
        path = log.segments[1].path
        path.write_bytes(b"\xff" * path.stat().st_size)
        assert log.offset_for_timestamp(NOW + 1) is None
        with pytest.raises(CorruptRecordError):
            list(log.records())


# --- keys and values as they are meant


def test_keys_and_values_are_deserialized(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b'{"a": 1}', None)
        for reader in (log, ReadOnlyLog(directory)):
            found = list(reader.records(value_deserializer=deserialize_json, key_deserializer=deserialize_text))
            assert [(each.offset, each.key, each.value) for each in found] == [(0, None, {"a": 1}), (1, None, None)]
            assert_type(found, list[DecodedRecord[str | None, Any]])
            assert [each.value for each in reader.records(key_deserializer=deserialize_text)] == [b'{"a": 1}', None]


def test_a_value_that_cannot_be_deserialized_is_named(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"1", b"{")
        reading = log.records(value_deserializer=deserialize_json)
        assert next(reading).value == 1
        with pytest.raises(SerializationError):
            next(reading)


# --- a reader beside the writer


def test_a_log_opened_for_reading_follows_the_writer_through_rolls_and_deletions(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=3 * SIZE, file_delete_delay_ms=0)) as log:
        fill(log, 2)
        with ReadOnlyLog(directory) as reader:
            for _ in range(4):
                fill(log, 3)
                assert values(reader) == values(log)
                assert reader.log_end_offset == log.log_end_offset
            replicated(log)
            log.delete_records(6)
            log.delete_old_segments()
            assert bases(reader) == bases(log)
            assert [record.offset for record in reader] == list(range(6, 14))


def test_a_log_opened_for_reading_knows_a_transaction_that_is_open(directory: Path) -> None:
    with opened(directory, CONFIG) as log:
        fill(log, 3)
        append(log, b"open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        with ReadOnlyLog(directory) as reader:
            assert (reader.high_watermark, reader.last_stable_offset) == (4, 3)
            assert seen(reader, 0, IsolationLevel.TXN_COMMITTED) == [0, 1, 2]


# --- seeking


def test_a_record_sought_far_inside_is_found_by_the_index_past_damage_that_comes_before(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 100)
    path = directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[8:12] = bytes(4)  # the first batch's size
    path.write_bytes(data)
    with ReadOnlyLog(directory) as log:
        assert next(log.records(60)).offset == 60
        assert [record.offset for record in log.records(97)] == [97, 98, 99]
        with pytest.raises(CorruptRecordError):
            next(log.records())


def bytes_read() -> int:
    """Return how many bytes this process has read from files."""
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not count the bytes read")
def test_seeking_a_record_reads_little_more_than_its_batch(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 1000)
        before = bytes_read()
        found = log.records(10)
        assert next(found).offset == 10
        assert bytes_read() - before < 200 * SIZE
        assert [record.offset for record in found] == list(range(11, 1000))


def test_reading_after_a_seek_continues_in_segments_rolled_since(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 10)
        walk = log.records(5)
        found = [next(walk).offset]
        log.roll()
        fill(log, 10)
        log.flush()
        assert found + [record.offset for record in walk] == list(range(5, 20))


def test_reading_a_segment_that_is_deleted_meanwhile_is_out_of_range(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(directory, LogConfig(segment_bytes=3 * SIZE)) as log, ReadOnlyLog(directory) as reader:
        fill(log, 7)
        replicated(log)
        turns = iter([True])

        def late(*arguments: Any) -> object:
            if next(turns, False):
                log.delete_records(4)
                log.delete_old_segments()
            return fetch(*arguments)

        monkeypatch.setattr(fetching, "fetch", late)
        with pytest.raises(OffsetOutOfRangeError):
            reader.read(1, EVERYTHING)
        assert seen(reader, 4) == [4, 5]


# --- a start outside the log

OUTSIDE = pytest.mark.parametrize("start", [0, 2, 9, 10**6])


@pytest.fixture
def shortened(directory: Path) -> Iterator[WritableLog]:
    """Offsets 3 to 7, after 0 to 2 were deleted."""
    with opened(directory) as log:
        fill(log, 8)
        log.update_high_watermark(8)
        log.delete_records(3)
        yield log


def starting_at(log: Log, start: int, **options: Any) -> list[list[int]]:
    """The offsets that each kind of iterator gives."""
    return [
        [record.offset for record in log.records(start, **options)],
        [int(offset) for part in log.columns(start, **options) for offset in part.offset],
        [batch.base_offset for batch in log.batches(start, **options)],
    ]


@OUTSIDE
def test_a_start_outside_the_log_is_refused_as_a_read_refuses_it(shortened: WritableLog, start: int) -> None:
    for read in (shortened.records, shortened.columns, shortened.batches):
        with pytest.raises(OffsetOutOfRangeError, match=r"offset is (before|after) the log (start|end) offset"):
            next(iter(read(start)), None)
    with pytest.raises(OffsetOutOfRangeError):
        shortened.read(start, 100)


@OUTSIDE
def test_a_reader_may_begin_at_the_earliest_offset_instead(shortened: WritableLog, start: int) -> None:
    assert starting_at(shortened, start, on_out_of_range="earliest") == [[3, 4, 5, 6, 7]] * 3


@OUTSIDE
def test_a_reader_may_begin_at_the_latest_offset_instead(shortened: WritableLog, start: int) -> None:
    assert starting_at(shortened, start, on_out_of_range="latest") == [[]] * 3


@pytest.mark.parametrize("choice", ["raise", "earliest", "latest"])
def test_a_start_in_the_log_or_at_its_end_is_never_replaced(shortened: WritableLog, choice: str) -> None:
    for start in range(3, 9):
        assert starting_at(shortened, start, on_out_of_range=choice) == [list(range(start, 8))] * 3


def test_a_start_above_the_high_watermark_is_in_the_log(shortened: WritableLog) -> None:
    append(shortened, b"8")
    assert list(shortened.records(9, isolation=IsolationLevel.HIGH_WATERMARK)) == []


def test_another_choice_is_refused_at_once(shortened: WritableLog) -> None:
    with pytest.raises(ValueError, match="on_out_of_range is 'newest', not one of raise, earliest, latest"):
        shortened.records(3, on_out_of_range="newest")  # type: ignore[call-overload]


# --- by index


def test_a_record_is_found_by_its_offset_and_a_slice_of_offsets_is_a_range(shortened: WritableLog) -> None:
    assert [shortened[offset].offset for offset in range(3, 8)] == [3, 4, 5, 6, 7]
    assert [record.offset for record in shortened[4:6]] == [4, 5]
    assert [record.offset for record in shortened[:]] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("offset", [-1, 2, 9])
def test_an_index_outside_the_log_is_out_of_range(shortened: WritableLog, offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError):
        shortened[offset]


def test_an_offset_that_no_record_has_is_no_index(shortened: WritableLog) -> None:
    with pytest.raises(IndexError, match="no record has offset 8"):
        shortened[8]
    with pytest.raises(ValueError, match="no step"):
        shortened[::2]
    with pytest.raises(TypeError):
        shortened["3"]  # type: ignore[call-overload]


def test_a_datetime_stands_for_a_timestamp(directory: Path) -> None:
    with opened(directory) as log:
        time = datetime(2026, 1, 31, 10, tzinfo=UTC)
        log.append([Record(b"%d" % i, timestamp=time + timedelta(seconds=i)) for i in range(3)])
        found = log.offset_for_timestamp(time + timedelta(milliseconds=1))
        assert found is not None
        assert found.offset == 1
        segment = log.segments[0].log.search_timestamp(time + timedelta(milliseconds=1))
        assert segment is not None
        assert segment.offset == 1
