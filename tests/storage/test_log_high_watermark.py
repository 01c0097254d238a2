from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import IsolationLevel, LogOffsetMetadata, Record, WritableLog
from kafkalog.errors import LogStateError, OffsetOutOfRangeError
from tests.helpers.logs import CONFIG, active, append, batch, fill, follow, opened, replicated, seen
from tests.helpers.making import COMMIT, marker

SIZE = batch(b"0").size_in_bytes
COUNTED = (IsolationLevel.LOG_END, IsolationLevel.HIGH_WATERMARK, IsolationLevel.TXN_COMMITTED)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def metadata(log: WritableLog) -> tuple[int, int, int]:
    found = log.high_watermark_metadata
    return found.message_offset, found.segment_base_offset, found.relative_position_in_segment


# --- where an offset lies


# --- the high watermark


def test_the_high_watermark_follows_what_replicas_have_and_never_leaves_the_log(directory: Path) -> None:
    with opened(directory) as log:
        marks = [log.high_watermark]
        append(log, b"a", b"b", b"c")
        marks.append(log.high_watermark)
        log.maybe_increment_high_watermark(LogOffsetMetadata(1))
        marks.append(log.high_watermark)
        log.update_high_watermark(5)
        marks.append(log.high_watermark)
        follow(log, 3, b"d", b"e", b"f")
        log.update_high_watermark(6)
        marks.append(log.high_watermark)
        log.truncate_to(3)
        marks.append(log.high_watermark)
        append(log, b"g")
        marks.append(log.high_watermark)
        log.truncate_fully_and_start_at(4)
        assert marks == [0, 0, 1, 3, 6, 3, 3]
        assert (log.high_watermark, log.log_start_offset, log.log_end_offset) == (4, 4, 4)


def test_a_high_watermark_below_the_logs_start_is_raised_to_it(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 10)
        log.update_high_watermark(8)
        log.delete_records(5)
        assert log.update_high_watermark(3) == 5
        assert log.update_high_watermark(-1) == 5


def test_a_leaders_high_watermark_only_rises_and_the_previous_one_is_returned(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 4)
        before = log.maybe_increment_high_watermark(LogOffsetMetadata(3))
        assert before == LogOffsetMetadata(0, 0, 0)
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(2, 0, 2 * SIZE)) is None
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(3, 0, 3 * SIZE)) is None
        assert log.high_watermark == 3


def test_a_leaders_high_watermark_beyond_the_logs_end_is_refused(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 4)
        with pytest.raises(ValueError, match="after the log's end"):
            log.maybe_increment_high_watermark(LogOffsetMetadata(5))
        assert log.high_watermark == 0


def test_the_same_high_watermark_moves_to_a_newer_segment(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        old = LogOffsetMetadata(3, 0, 3 * SIZE)
        log.update_high_watermark(2)
        log.roll()
        fill(log, 1)
        log.maybe_increment_high_watermark(old)
        assert metadata(log) == (3, 0, 3 * SIZE)
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(3, 3, 0)) == old
        assert metadata(log) == (3, 3, 0)
        assert log.maybe_increment_high_watermark(old) is None


def test_the_place_of_the_high_watermark_is_looked_up_when_it_is_asked_for(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        log.roll()
        fill(log, 3)
        log.update_high_watermark(5)
        assert metadata(log) == (5, 3, 2 * SIZE)
        replicated(log)
        assert metadata(log) == (6, 3, 3 * SIZE)


def test_a_high_watermark_inside_of_a_batch_lies_where_the_batch_begins(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 1)
        append(log, b"a", b"b", b"c")
        log.update_high_watermark(3)
        assert metadata(log) == (1, 0, SIZE)
        assert seen(log, 0, IsolationLevel.HIGH_WATERMARK) == [0]


def test_the_high_watermark_of_a_closed_log_is_known_and_its_place_is_not(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        log.update_high_watermark(2)
        log.close()
        assert log.high_watermark == 2
        with pytest.raises(LogStateError, match="closed"):
            _ = log.high_watermark_metadata


def test_lowering_the_high_watermark_is_logged(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(directory) as log:
        fill(log, 4)
        replicated(log)
        assert log.update_high_watermark(1) == 1
        assert "goes back" in caplog.text


def test_an_embedded_logs_high_watermark_is_its_end(directory: Path) -> None:
    with opened(directory) as log:
        for count in (1, 3, 2):
            log.append([Record(b"v")] * count)
            assert log.high_watermark == log.log_end_offset
            assert log.high_watermark_metadata.relative_position_in_segment == log.size_in_bytes


# --- the log's start


def test_the_log_cannot_start_after_the_high_watermark(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 100)
        log.update_high_watermark(25)
        with pytest.raises(OffsetOutOfRangeError):
            log.maybe_increment_log_start_offset(26)
        assert log.log_start_offset == 0
        assert log.maybe_increment_log_start_offset(25)
        assert (log.log_start_offset, log.recovery_point) == (25, 25)


def test_the_log_start_never_goes_back(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 5)
        replicated(log)
        assert [log.delete_records(offset) for offset in (3, 3, 1, 4)] == [True, False, False, True]
        assert log.log_start_offset == 4


# --- what is not replicated yet


def test_unreplicated_records_are_counted(directory: Path) -> None:
    with opened(directory) as log:
        for length in (1, 3, 2, 5, 1):
            append(log, *[b"v"] * length)
            if length == 2:
                log.roll()
        counts = []
        for mark in range(13):
            log.update_high_watermark(mark)
            counts.append(log.count(log.high_watermark, log.log_end_offset))
        assert counts == list(range(12, -1, -1))


def test_markers_and_gaps_are_not_counted(directory: Path) -> None:
    with opened(directory) as log:
        follow(log, 0, b"a", b"b")
        follow(log, 10, b"c")
        log.append_as_follower(marker(20, COMMIT, 1, partition_leader_epoch=0))
        log.update_high_watermark(1)
        assert (log.count(), log.count(log.high_watermark, log.log_end_offset)) == (3, 2)


@given(
    batches=st.lists(st.integers(1, 6), max_size=12),
    rolls=st.sets(st.integers(0, 11)),
    mark=st.integers(0, 60),
    ends=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_counts_equal_the_numbers_of_listed_records(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[int],
    rolls: set[int],
    mark: int,
    ends: tuple[int, int],
) -> None:
    with opened(tmp_path_factory.mktemp("counted") / "topic-0", CONFIG) as log:
        for i, length in enumerate(batches):
            append(log, *[b"v"] * length)
            if i in rolls:
                log.roll()
        log.update_high_watermark(mark)
        assert 0 <= log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        for isolation in COUNTED:
            assert log.count(*ends, isolation=isolation) == len(
                list(log.records(*ends, isolation=isolation, on_out_of_range="latest"))
            )
        assert log.count(log.high_watermark, log.log_end_offset) == log.log_end_offset - log.high_watermark
        assert active(log).base_offset <= log.log_end_offset
