"""Appending to a segment and reading it, as Kafka's own tests show, and what a log relies on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.errors import SegmentOffsetOverflowError
from kafkalog.record.records_builder import BuiltBatch
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.log_segment import LogSegment
from tests.helpers.making import SMALL, Clock, append, batch, fill, offsets, segment, together

MAX_INT = 2**31 - 1
SOON = replace(SMALL, segment_ms=10_000)


@pytest.fixture
def seg(tmp_path: Path) -> Iterator[LogSegment]:
    made = segment(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("base", "largest"),
    [(0, -(2**31)), (0, 2**31), (1, 0), (100, 10), (2**31, 0), (2**31 - 1, 2**32 + 5)],
)
def test_an_offset_beyond_the_index_range_is_refused_before_a_byte_is_written(
    tmp_path: Path, base: int, largest: int
) -> None:
    made = segment(tmp_path, base)
    with pytest.raises(SegmentOffsetOverflowError) as caught:
        made.append(b"batch", [BuiltBatch(bytearray(b"batch"), largest, largest, -1, 5)])
    assert caught.value.found == largest
    assert made.size == 0
    made.close()


def test_reading_an_empty_segment_finds_nothing(seg: LogSegment) -> None:
    assert seg.read(40, 300) is None


def test_reading_before_the_first_offset_begins_with_the_first_batch(seg: LogSegment) -> None:
    append(seg, batch(50, b"hello", b"there", b"little", b"bee"))
    assert offsets(seg.read(41, 300)) == [50, 51, 52, 53]


def test_reading_inside_of_a_batch_begins_with_that_batch_and_says_so(seg: LogSegment) -> None:
    append(seg, batch(50, b"hello", b"there", b"little", b"bee", magic=2))
    found = seg.read(52, 300)
    assert found is not None
    assert found.fetch_offset_metadata == LogOffsetMetadata(50, 40, 0)
    assert offsets(found) == [50, 51, 52, 53]


def test_reading_behind_the_last_offset_finds_nothing(seg: LogSegment) -> None:
    append(seg, batch(50, b"hello", b"there"))
    assert seg.read(52, 200) is None


def test_reading_in_a_gap_begins_behind_it(seg: LogSegment) -> None:
    append(seg, batch(50, b"hello", b"there"), batch(60, b"alpha", b"beta"))
    assert offsets(seg.read(55, 200)) == [60, 61]


@pytest.mark.parametrize("min_one_message", [False, True])
def test_a_read_without_a_maximum_position_returns_only_the_position(seg: LogSegment, min_one_message: bool) -> None:
    append(seg, batch(50, b"hello", b"there"))
    for offset, place in (
        (49, LogOffsetMetadata(50, 40, 0)),
        (50, LogOffsetMetadata(50, 40, 0)),
        (51, LogOffsetMetadata(51, 40, 39)),
    ):
        found = seg.read(offset, 1, None, min_one_message=min_one_message)
        assert found is not None
        assert (found.fetch_offset_metadata, found.message_set.size_in_bytes) == (place, 0)
    assert seg.read(52, 1, None, min_one_message=min_one_message) is None


def test_min_one_message_returns_a_whole_message(seg: LogSegment) -> None:
    append(seg, batch(50, b"hello", b"there"))
    whole, part, none = (seg.read(50, 1, min_one_message=True), seg.read(50, 1), seg.read(50, 0))
    assert whole is not None
    assert part is not None
    assert none is not None
    assert (whole.message_set.size_in_bytes, whole.first_entry_incomplete) == (39, False)
    assert (part.message_set.size_in_bytes, part.first_entry_incomplete) == (1, True)
    assert none.message_set.size_in_bytes == 0
    with pytest.raises(ValueError, match="max_size is -1"):
        seg.read(50, -1)


def test_nothing_is_read_from_the_last_position_on(seg: LogSegment) -> None:
    fill(seg, range(50, 54))
    assert offsets(seg.read(50, 1000, 78)) == [50, 51]
    assert offsets(seg.read(52, 1000, 78)) == []
    assert offsets(seg.read(53, 1000, 78)) == []


def test_truncating_removes_the_last_of_two_messages(seg: LogSegment) -> None:
    for offset in range(40, 70):
        append(seg, batch(offset), batch(offset + 1))
        assert offsets(seg.read(offset, 10_000)) == [offset, offset + 1]
        seg.truncate_to(offset + 1)
        assert offsets(seg.read(offset, 10_000)) == [offset]


def test_truncating_to_an_offset_in_a_gap_removes_the_batches_behind_it(seg: LogSegment) -> None:
    append(seg, batch(40), batch(43))
    assert seg.truncate_to(41) == 39
    assert offsets(seg.read(40, 10_000)) == [40]


def test_truncating_inside_a_batch_removes_all_of_it(seg: LogSegment) -> None:
    append(seg, batch(40, magic=2), batch(41, b"a", b"b", b"c", magic=2))
    seg.truncate_to(42)
    assert offsets(seg.read(40, 10_000)) == [40]


def test_truncating_behind_the_end_does_nothing(seg: LogSegment) -> None:
    fill(seg, range(40, 43))
    assert seg.truncate_to(43) == 0
    assert offsets(seg.read(40, 1000)) == [40, 41, 42]


def test_truncating_updates_largest_timestamp_and_next_offset(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, LogConfig(index_interval_bytes=2 * 39 - 1, segment_index_bytes=1000))
    fill(made, range(40, 70))
    assert made.largest_timestamp == 690
    assert made.time_index.entries == 14
    made.truncate_to(41)
    assert (made.time_index.entries, made.largest_timestamp, made.read_next_offset()) == (0, 400, 41)
    assert made.max_timestamp_and_offset_so_far == (400, 40)
    made.close()


def test_a_segment_truncated_to_nothing_is_like_a_new_one(tmp_path: Path) -> None:
    clock = Clock(1000)
    made = segment(tmp_path, clock=clock)
    append(made, batch(40, b"hello", b"there", timestamp=-1))
    clock.now += 500
    assert made.time_waited_for_roll(clock.now, -1) == 500
    assert not made.time_index.is_full
    assert not made.offset_index.is_full
    made.truncate_to(0)
    assert made.time_waited_for_roll(clock.now, -1) == 0
    assert not made.time_index.is_full
    assert not made.offset_index.is_full
    assert made.read(0, 1024) is None
    append(made, batch(40, b"hello", b"there"))
    assert made.read(40, 1024) is not None
    made.close()


def test_an_empty_segment_that_is_opened_again_can_be_truncated_and_appended_to(tmp_path: Path) -> None:
    first = segment(tmp_path, 0)
    first.time_index, first.offset_index  # noqa: B018 that they are there
    first.close()
    clock = Clock(500)
    made = segment(tmp_path, 0, replace(SMALL, segment_ms=60_000), clock=clock, file_already_exists=True)
    assert (made.time_index.length, made.offset_index.length) == (0, 0)
    assert has_full_index(made)
    clock.now += 500
    made.truncate_to(57)
    assert made.time_waited_for_roll(clock.now, 0) == 0
    assert not has_full_index(made)
    assert not made.should_roll(1024, 100, -1, clock.now)
    clock.now += 60_001
    assert made.time_waited_for_roll(clock.now, 0) == 60_001
    assert not made.should_roll(1024, 100, -1, clock.now)
    assert made.should_roll(1024, MAX_INT + 200, -1, clock.now)
    made.close()


def has_full_index(made: LogSegment) -> bool:
    return made.time_index.is_full or made.offset_index.is_full


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (420, (420, 42)),
        (421, (430, 43)),
        (430, (430, 43)),
        (431, (440, 44)),
        (491, None),
        (401, (410, 41)),
        (399, (400, 40)),
    ],
)
def test_an_offset_is_found_by_timestamp(seg: LogSegment, timestamp: int, found: tuple[int, int] | None) -> None:
    fill(seg, range(40, 50))
    assert seg.largest_timestamp == 490
    got = seg.find_offset_by_timestamp(timestamp)
    assert (got and (got.timestamp, got.offset)) == found


def test_an_offset_by_timestamp_is_not_before_the_starting_offset(seg: LogSegment) -> None:
    fill(seg, range(40, 50))
    got = seg.find_offset_by_timestamp(400, 45)
    assert got is not None
    assert (got.timestamp, got.offset) == (450, 45)
    assert seg.find_offset_by_timestamp(400, 50) is None


def test_the_next_offset_follows_the_last_batch(seg: LogSegment) -> None:
    assert seg.read_next_offset() == 40
    append(seg, batch(50, b"hello", b"there", b"you"))
    assert seg.read_next_offset() == 53


def test_the_first_batch_timestamp_is_none_until_there_is_a_batch(seg: LogSegment) -> None:
    assert seg.first_batch_timestamp is None
    append(seg, batch(50, timestamp=1000), batch(51, timestamp=900))
    assert seg.first_batch_timestamp == 1000


def test_one_decision_about_an_index_entry_is_made_for_every_batch_of_an_append(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, LogConfig(index_interval_bytes=1, segment_index_bytes=1000))
    append(made, together(batch(0, timestamp=0, magic=2), batch(1, timestamp=1, magic=2)))
    append(made, batch(2, timestamp=2, magic=2))
    size = batch(0, magic=2).size_in_bytes
    assert list(made.offset_index) == [(1, size), (2, 2 * size)]
    assert list(made.time_index) == [(1, 1), (2, 2)]
    made.close()


def test_a_timestamp_that_is_not_the_largest_so_far_gets_no_entry(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, LogConfig(index_interval_bytes=1, segment_index_bytes=1000))
    append(made, together(batch(0, timestamp=1, magic=2), batch(1, timestamp=0, magic=2)))
    append(made, batch(2, timestamp=2, magic=2))
    assert [entry.offset for entry in made.offset_index] == [1, 2]
    assert list(made.time_index) == [(1, 0), (2, 2)]
    made.close()


def rolls(made: LogSegment, *, size: int = 39, max_timestamp: int = 400, now: int = 400) -> bool:
    return made.should_roll(size, 41, max_timestamp, now)


def test_a_segment_is_rolled_when_it_would_grow_beyond_its_size(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, replace(SMALL, segment_bytes=1000))
    fill(made, range(40, 42))
    assert not rolls(made, size=1000 - 2 * 39)
    assert rolls(made, size=1001 - 2 * 39)
    made.close()


def test_a_segment_is_rolled_when_its_first_batch_is_older_than_it_may_be(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, SOON)
    append(made, batch(40))
    assert not rolls(made, max_timestamp=10_400)
    assert rolls(made, max_timestamp=10_401)
    made.close()


def test_a_segment_without_timestamps_is_rolled_by_the_clock(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, SOON, clock=Clock(1000))
    append(made, batch(40, magic=0))
    assert not rolls(made, max_timestamp=-1, now=11_000)
    assert rolls(made, max_timestamp=-1, now=11_001)
    made.close()


def test_a_segment_is_rolled_when_an_index_is_full(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    fill(made, range(40, 42))
    assert not rolls(made)
    fill(made, range(42, 43))
    assert made.time_index.is_full
    assert not made.offset_index.is_full
    assert rolls(made)
    made.close()


def test_jitter_makes_a_segment_roll_earlier(tmp_path: Path) -> None:
    made = segment(tmp_path, 40, replace(SOON, segment_jitter_ms=5000))
    made.roll_jitter_ms = 3000
    append(made, batch(40))
    assert not rolls(made, max_timestamp=7400)
    assert rolls(made, max_timestamp=7401)
    made.close()


def test_a_last_offset_beyond_the_index_range_is_an_overflow(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, SMALL)
    found = []
    for offset in (5, MAX_INT + 1):
        made.log.append(batch(offset))
        found.append(made.has_overflow)
    assert found == [False, True]
    made.close()
