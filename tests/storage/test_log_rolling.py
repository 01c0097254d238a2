from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, IsolationLevel
from kafkalog.storage.files.appendable_file import sync_file
from kafkalog.storage.local_log import roll as rolling
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read_only_log import ReadOnlyLog
from tests.helpers.logs import (
    CONFIG,
    HOUR_MS,
    NOW,
    active,
    append,
    bases,
    batch,
    files,
    fill,
    follow,
    opened,
    replicated,
    seen,
    snapshots,
    values,
)
from tests.helpers.making import Clock

SIZE = batch(b"v").size_in_bytes
HOURLY = LogConfig(segment_ms=HOUR_MS, message_timestamp_after_max_ms=2**62)
LATE_DELETION = replace(CONFIG, file_delete_delay_ms=1000)


class Waiting:
    """A scheduler that keeps what it is given until it is asked to run it."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, int]] = []
        self._work: list[Callable[[], object]] = []

    def schedule(self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1) -> None:
        self.tasks.append((name, delay_ms))
        self._work.append(task)

    def run(self) -> None:
        work, self._work, self.tasks = self._work, [], []
        for task in work:
            task()

    def shutdown(self) -> None:
        pass


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def test_a_segment_is_rolled_when_the_next_batch_would_make_it_too_large(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=10 * SIZE)) as log:
        for _ in range(10):
            append(log, b"v")
        assert bases(log) == [0]
        append(log, b"v")
        assert bases(log) == [0, 10]


def test_without_timestamps_a_segment_is_rolled_by_the_clock_and_with_them_by_the_first_one(directory: Path) -> None:
    clock = Clock(NOW)
    with opened(directory, HOURLY, clock=clock) as log:

        def segments_after(timestamp: int, wait: int = 0) -> int:
            clock.now += wait
            append(log, b"test", timestamp=timestamp)
            return len(log.segments)

        later = HOUR_MS + 1
        assert segments_after(-1, later) == 1, "an empty segment is not rolled"
        assert segments_after(-1) == 2
        assert [segments_after(-1, later), segments_after(-1, later)] == [3, 4]
        ahead = clock.now + later
        assert segments_after(ahead) == 4, "the first message has no timestamp: the clock counts"
        assert segments_after(ahead, later) == 5
        assert segments_after(ahead, later) == 5, "the first message has one: the clock does not count"
        assert segments_after(clock.now) == 6
        clock.now += later
        log.append_as_leader(ByteBufferMessageSet(b""), 0)
        assert len(log.segments) == 6, "nothing is appended, nothing is rolled"


def test_jitter_rolls_a_segment_earlier(directory: Path) -> None:
    clock, jitter = Clock(NOW), HOUR_MS // 3
    with opened(directory, replace(HOURLY, segment_jitter_ms=jitter), clock=clock) as log:
        own = active(log).roll_jitter_ms
        assert 0 <= own < jitter
        append(log, b"first", timestamp=clock.now)
        clock.now += HOUR_MS - jitter
        append(log, b"second", timestamp=clock.now)
        assert len(log.segments) == 1
        clock.now += jitter - own + 1
        append(log, b"third", timestamp=clock.now)
        assert len(log.segments) == 2


def test_a_segment_whose_indexes_are_full_is_rolled(directory: Path) -> None:
    entries = 5
    with opened(directory, LogConfig(segment_index_bytes=entries * 12, index_interval_bytes=0)) as log:
        fill(log, 30)
        assert len(log.segments) > 3
        assert all(segment.time_index.entries <= entries for segment in log.segments)
        assert values(log) == [b"%d" % number for number in range(30)]


def test_rolling_an_empty_segment_replaces_it(directory: Path) -> None:
    with opened(directory) as log:
        old = active(log)
        log.roll(0)
        assert bases(log) == [0]
        assert active(log) is not old
        follow(log, 0, b"k1", b"k2")
        follow(log, 2, b"k3", b"k4")
        assert seen(log, 0) == [0, 1, 2, 3]


def test_the_files_of_an_empty_segment_that_was_rolled_are_renamed_and_deleted_later(directory: Path) -> None:
    waiting = Waiting()
    with opened(directory, LATE_DELETION, scheduler=waiting) as log:
        log.roll()
        assert bases(log) == [0]
        assert f"{0:020d}.log.deleted" in files(directory)
        assert ("delete segment files", 1000) in waiting.tasks
        waiting.run()
        assert files(directory, ".deleted") == {}
        append(log, b"v")
        assert values(log) == [b"v"]


def test_an_append_replaces_an_empty_segment_whose_indexes_are_full(directory: Path) -> None:
    with opened(directory) as log:
        active(log).resize_indexes(0)
        assert active(log).offset_index.is_full
        append(log, b"v")
        assert bases(log) == [0]
        assert active(log).offset_index.max_entries == CONFIG.segment_index_bytes // 8
        assert active(log).time_index.max_entries == CONFIG.segment_index_bytes // 12


def test_a_follower_begins_a_segment_at_the_base_offset_of_its_batch(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=10 * SIZE)) as log:
        fill(log, 10)
        follow(log, 100, b"v")
        assert bases(log) == [0, 100]
        assert seen(log, 10) == [100]


def test_stale_files_are_removed_for_a_new_segment(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(directory) as log:
        fill(log, 3)
        (directory / f"{3:020d}.log").write_bytes(b"left over")
        (directory / f"{3:020d}.index").write_bytes(b"left over")
        log.roll()
        fill(log, 1)
        assert values(log) == [b"0", b"1", b"2", b"3"]
        assert "left over" in caplog.text


def test_offsets_too_far_apart_for_an_index_begin_a_new_segment(directory: Path) -> None:
    far = 2**31 + 1
    with opened(directory) as log:
        follow(log, 0, b"near")
        follow(log, far, b"far")
        follow(log, far + 1, b"farther")
        assert bases(log) == [0, far]
        assert [record.offset for record in log] == [0, far, far + 1]


def test_a_wrapper_too_far_away_begins_a_segment_as_low_as_the_index_reaches(directory: Path) -> None:
    with opened(directory) as log:
        for base in (0, 2**31 + 1, 2**32 + 1):
            pair = batch(b"a", b"b", base_offset=base, magic=1, compression_type=CompressionType.GZIP)
            log.append_as_follower(pair)
        assert bases(log) == [0, 3, 2**31 + 3]
        assert [record.offset for record in log] == [0, 1, 2**31 + 1, 2**31 + 2, 2**32 + 1, 2**32 + 2]


def test_each_roll_leaves_a_snapshot_of_the_producers(directory: Path) -> None:
    with opened(directory) as log:
        for sequence in range(3):
            append(log, b"v", producer_id=9, producer_epoch=0, base_sequence=sequence)
            log.roll()
        assert snapshots(log) == [1, 2, 3]


def test_a_rolled_segment_is_flushed_in_the_background(directory: Path) -> None:
    waiting = Waiting()
    with opened(directory, scheduler=waiting) as log:
        fill(log, 3)
        log.roll()
        fill(log, 2)
        assert log.recovery_point == 0
        assert ("flush-log", 0) in waiting.tasks
        waiting.run()
        assert log.recovery_point == 3


def test_a_segment_is_flushed_while_its_snapshot_is_deleted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_too_late(path: Path) -> None:
        path.unlink()
        sync_file(path)

    monkeypatch.setattr(rolling, "sync_file", sync_too_late)
    waiting = Waiting()
    with opened(directory, scheduler=waiting) as log:
        fill(log, 3)
        log.roll()
        waiting.run()
        assert log.recovery_point == 3


def test_a_background_task_after_the_log_was_closed_does_nothing(directory: Path) -> None:
    waiting = Waiting()
    with opened(directory, scheduler=waiting) as log:
        fill(log, 3)
        log.roll()
        log.close()
        waiting.run()
        assert log.recovery_point == 3


def test_flushing_and_closing_leave_an_empty_active_segment_readable(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 1)
        log.roll()
        log.flush(force_active=True)
        assert log.recovery_point == 1
        log.close()
    assert (directory / f"{1:020d}.log").stat().st_size == 0
    with opened(directory) as log:
        assert (bases(log), log.log_end_offset) == ([0, 1], 1)


def test_a_rolled_segment_has_its_last_entry_in_the_time_index_and_no_room_to_spare(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 10)
        log.roll()
        rolled = log.segments[0]
        assert tuple(rolled.time_index.last_entry) == (NOW, 0)
        for ending in ("index", "timeindex"):
            size = (directory / f"{0:020d}.{ending}").stat().st_size
            assert size < CONFIG.segment_index_bytes // 2
        append(log, b"v")
        assert (directory / f"{10:020d}.index").stat().st_size == CONFIG.segment_index_bytes


def test_preallocated_segments_are_cut_to_size_when_they_are_rolled_and_closed(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=1 << 16, preallocate=True)) as log:
        fill(log, 3)
        first, second = directory / f"{0:020d}.log", directory / f"{3:020d}.log"
        assert (first.stat().st_size, log.size_in_bytes) == (1 << 16, 3 * SIZE)
        log.roll()
        assert first.stat().st_size == 3 * SIZE
        fill(log, 1)
        assert second.stat().st_size == 1 << 16
        log.close()
        assert second.stat().st_size == SIZE


def test_time_is_indexed_for_batches_whose_offsets_were_given(directory: Path) -> None:
    with opened(directory, replace(CONFIG, index_interval_bytes=1, segment_index_bytes=4096)) as log:
        for i in range(100):
            follow(log, 100 + i, b"%d" % i, timestamp=NOW + i)
        assert sum(segment.time_index.entries for segment in log.segments) == 99
        assert active(log).time_index.last_entry.timestamp == NOW + 99


def test_rolled_indexes_are_as_large_as_needed_and_grow_again_when_truncation_makes_the_segment_active(
    directory: Path,
) -> None:
    config = LogConfig(segment_bytes=10 * SIZE, index_interval_bytes=SIZE - 1)
    with opened(directory, config) as log:
        for i in range(20):
            append(log, b"v", timestamp=NOW + i)
        assert bases(log) == [0, 10]
        assert [log.segments[0].offset_index.max_entries, log.segments[0].time_index.max_entries] == [9, 9]
        log.truncate_to(0)
        assert bases(log) == [0]
        assert active(log).offset_index.max_entries == config.segment_index_bytes // 8
        assert active(log).time_index.max_entries == config.segment_index_bytes // 12
        for _ in range(10):
            append(log, b"v")
        assert bases(log) == [0]


def test_the_high_watermark_at_the_end_moves_to_the_new_segment_with_it(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        replicated(log)
        log.roll()
        assert log.high_watermark_metadata.segment_base_offset == 3
        fill(log, 3)
        assert seen(log, 0, IsolationLevel.HIGH_WATERMARK) == [0, 1, 2]
        assert seen(log, 3, IsolationLevel.HIGH_WATERMARK) == []


def test_closing_a_log_ends_its_background_thread(directory: Path) -> None:
    before = set(threading.enumerate())
    with opened(directory, LogConfig(segment_bytes=3 * SIZE), scheduler=None) as log:
        fill(log, 20)
        assert set(threading.enumerate()) - before
        log.close()
        assert not set(threading.enumerate()) - before
        assert log.recovery_point == 20
    with ReadOnlyLog(directory) as reopened:
        assert values(reopened) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_log_is_taken_over_with_smaller_indexes_than_it_was_written_with(
    directory: Path, slots: int, clean: bool
) -> None:
    every_batch = LogConfig(index_interval_bytes=0)
    with opened(directory, every_batch) as log:
        fill(log, 20)
        log.close()
    with opened(directory, replace(every_batch, segment_index_bytes=slots * 12), had_clean_shutdown=clean) as log:
        assert len(log.segments) == 1
        fill(log, 1)
        assert active(log).base_offset == 20
        assert [record.value for record in log] == [b"%d" % number for number in range(21)]
        assert [log.read(offset, 1).fetch_offset_metadata.message_offset for offset in range(21)] == list(range(21))
