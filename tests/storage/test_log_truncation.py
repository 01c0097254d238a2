from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import Record, WritableLog
from kafkalog.storage.log_config import LogConfig
from tests.helpers.logs import (
    NOW,
    active,
    append,
    bases,
    batch,
    crashed,
    epochs,
    files,
    fill,
    opened,
    producers_in,
    replicated,
    snapshots,
    values,
)

SIZE = batch(b"0").size_in_bytes
THREE_A_SEGMENT = LogConfig(segment_bytes=3 * SIZE)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def numbers(stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(stop)]


def test_truncation_deletes_later_segments_and_cuts_the_one_with_the_offset(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=10 * SIZE)) as log:
        for number in range(12):
            append(log, b"%d" % number)
            if number % 3 == 2:
                log.roll()
        assert bases(log) == [0, 3, 6, 9, 12]
        assert log.truncate_to(7)
        assert (bases(log), log.log_end_offset) == ([0, 3, 6], 7)
        assert values(log) == numbers(7)


def test_truncation_removes_the_end_and_appends_continue_there(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=10 * SIZE)) as log:
        fill(log, 10)
        size = log.size_in_bytes
        for beyond in (10, 11):
            assert not log.truncate_to(beyond)
            assert (log.log_end_offset, log.size_in_bytes) == (10, size)
        assert log.truncate_to(5)
        assert (log.log_end_offset, log.size_in_bytes) == (5, size // 2)
        log.truncate_to(0)
        assert (log.log_end_offset, log.size_in_bytes) == (0, 0)
        fill(log, 10)
        assert (log.log_end_offset, log.size_in_bytes) == (10, size)
        log.truncate_fully_and_start_at(1)
        assert (log.log_start_offset, log.log_end_offset, log.size_in_bytes) == (1, 1, 0)
        fill(log, 9)
        assert log.log_end_offset == 10
        assert log.truncate_to(0), "before the first segment: the log begins anew there"
        assert (log.log_start_offset, log.log_end_offset, log.size_in_bytes) == (0, 0, 0)


def test_truncation_within_a_batch_removes_all_of_it_and_leaves_a_gap(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 1)
        append(log, b"a", b"b", b"c")
        log.truncate_to(2)
        assert (values(log), log.log_end_offset) == ([b"0"], 2)
        assert append(log, b"next") == 2


def test_a_gap_between_the_last_record_and_the_log_end_is_no_truncation_to_a_reader(directory: Path) -> None:
    """The active segment is empty, and the log ends behind its base offset."""
    with opened(directory) as log:
        fill(log, 2)
        log.roll()
        append(log, b"a", b"b", b"c")
        log.truncate_to(4)
        assert (values(log), log.log_end_offset, log.segments[-1].size_in_bytes) == ([b"0", b"1"], 4, 0)
        assert [batch.last_offset for batch in log.batches()] == [0, 1]


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_negative_offsets_are_refused(directory: Path, offset: int) -> None:
    with opened(directory) as log:
        for truncate in (log.truncate_to, log.truncate_fully_and_start_at):
            with pytest.raises(ValueError, match=str(offset)):
                truncate(offset)


def test_truncation_lowers_the_recovery_point_and_the_high_watermark(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 10)
        replicated(log)
        log.flush()
        log.truncate_to(4)
        assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (4, 4, 4)
        assert log.high_watermark_metadata.relative_position_in_segment == 4 * SIZE


def test_truncating_below_the_logs_start_moves_the_start(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 10)
        replicated(log)
        log.delete_records(6)
        log.truncate_to(4)
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 4, 4)


def test_a_full_truncation_forgets_transactions_and_producers_and_may_start_earlier(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        append(log, b"open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        before = log.first_unstable_offset
        log.truncate_fully_and_start_at(2, 1)
        assert (before, log.first_unstable_offset) == (3, None)
        assert log.producer_state.is_empty
        assert (log.log_start_offset, log.log_end_offset) == (1, 2)
        assert (snapshots(log), producers_in(log, 2)) == ([2], [])
        assert append(log, b"next") == 2


def test_truncated_segments_are_deleted_later(directory: Path) -> None:
    with opened(directory, THREE_A_SEGMENT) as log:
        fill(log, 9)
        log.truncate_to(1)
        assert sorted(files(directory, ".log")) == [f"{0:020d}.log"]
        assert files(directory, ".deleted") == {}


def test_snapshots_of_truncated_segments_are_deleted(directory: Path) -> None:
    with opened(directory, THREE_A_SEGMENT) as log:
        for sequence in range(12):
            append(log, b"v", producer_id=9, producer_epoch=0, base_sequence=sequence)
        assert snapshots(log) == [3, 6, 9]
        log.truncate_to(7)
        assert max(snapshots(log)) <= 7
        entry = log.producer_state.last_entry(9)
        assert entry is not None
        assert entry.last_seq == 6
        assert append(log, b"v", producer_id=9, producer_epoch=0, base_sequence=7) == 7


def test_a_segment_emptied_by_truncation_waits_for_its_first_timestamp_again(directory: Path) -> None:
    with opened(directory, LogConfig(segment_ms=1000)) as log:
        append(log, b"old", timestamp=NOW - 5000)
        log.truncate_to(0)
        append(log, b"new", timestamp=NOW)
        append(log, b"new", timestamp=NOW + 900)
        assert bases(log) == [0]


# --- leader epochs


def epochs_begun_at(log: WritableLog, *begun: tuple[int, int]) -> None:
    """Leader epochs, and the offset at which each began."""
    for epoch, offset in begun:
        log.leader_epochs.assign(epoch, offset)


def test_leader_epochs_that_began_behind_the_cut_are_forgotten(directory: Path) -> None:
    with opened(directory, LogConfig(segment_bytes=10 * SIZE)) as log:
        fill(log, 20)
        log.leader_epochs.clear_and_flush()
        epochs_begun_at(log, (0, 0), (1, 10), (2, 16))
        kept = []
        for offset in (20, 11, 10, 0):
            log.truncate_to(offset)
            kept.append(len(epochs(log)))
        assert kept == [3, 2, 1, 0]


@pytest.mark.parametrize("offset", [29, 30])
def test_an_epoch_that_began_at_the_end_and_wrote_nothing_is_forgotten(directory: Path, offset: int) -> None:
    with opened(directory) as log:
        fill(log, 9, epoch=17)
        fill(log, 18, epoch=18)
        fill(log, 2, epoch=19)
        epochs_begun_at(log, (20, 29))
        assert not log.truncate_to(offset)
        assert log.leader_epochs.latest_entry == (19, 27)


def test_an_epoch_can_be_truncated_away_and_begun_again(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 5, epoch=1)
        fill(log, 5, epoch=2)
        log.truncate_to(5)
        fill(log, 1, epoch=3)
        assert epochs(log) == [(1, 0), (3, 5)]
        assert log.leader_epochs.end_offset_for(2, log.log_end_offset) == (1, 5)


def test_a_truncation_survives_closing_and_a_crash(directory: Path) -> None:
    with opened(directory, THREE_A_SEGMENT) as log:
        fill(log, 10)
        log.truncate_to(4)
        log.close()
    with crashed(directory, THREE_A_SEGMENT) as log:
        assert (values(log), log.log_end_offset) == (numbers(4), 4)
        fill(log, 1)
    with crashed(directory, THREE_A_SEGMENT) as log:
        assert (values(log), log.log_end_offset) == (numbers(5), 5)


def test_a_log_opened_again_can_be_truncated(directory: Path) -> None:
    with opened(directory, THREE_A_SEGMENT) as log:
        fill(log, 7)
        log.close()
    with opened(directory, THREE_A_SEGMENT) as log:
        log.truncate_to(3)
        assert (bases(log), active(log).size, log.log_end_offset) == ([0, 3], 0, 3)
        fill(log, 2)
        assert values(log) == numbers(5)


def test_a_reader_finds_the_end_of_a_log_that_was_cut_and_has_grown_longer_again(directory: Path) -> None:
    with kafkalog.open(directory, "a") as log:
        for size in (100, 200, 300):
            log.append([Record(b"x" * size)])
        with kafkalog.open(directory) as reader:
            assert reader.log_end_offset == 3
            log.truncate_to(1)
            for _ in range(20):
                log.append([Record(b"y" * 90)])
            assert reader.log_end_offset == log.log_end_offset == 21
