from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.config import LogConfig
from tests.helpers.logs import NOW, active, append, bases, batch, epochs, files, opened, replicated, snapshots, values
from tests.helpers.making import Clock

SIZE = batch(b"0").size_in_bytes
NO_LIMIT = -1
FIVE_A_SEGMENT = LogConfig(segment_bytes=5 * SIZE, retention_ms=NO_LIMIT, segment_index_bytes=2400)
EXPIRED = NOW - 1000
SHORT = {"retention_ms": 999}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def config(**settings: Any) -> LogConfig:
    return replace(FIVE_A_SEGMENT, **settings)


# --- how far it goes


def test_nothing_at_or_above_the_high_watermark_is_deleted(directory: Path) -> None:
    with opened(directory, config(**SHORT)) as log:
        for _ in range(100):
            append(log, b"v", timestamp=EXPIRED, epoch=1)
        assert log.delete_old_segments() == 0
        assert (len(log.segments), log.log_start_offset) == (20, 0)
        for mark in (25, 26, 27, 28, 29, 30):
            log.update_high_watermark(mark)
            log.delete_old_segments()
            assert log.log_start_offset <= mark
            assert log.log_start_offset == mark // 5 * 5
        replicated(log)
        log.delete_old_segments()
        assert (bases(log), log.log_start_offset, log.size_in_bytes) == ([100], 100, 0)
        assert epochs(log) == [(1, 100)]
        append(log, b"next", epoch=1)
        assert (values(log), log.log_start_offset) == ([b"next"], 100)


def test_retention_deletes_expired_segments_up_to_each_high_watermark(directory: Path) -> None:
    with opened(directory, config(segment_bytes=3 * SIZE, **SHORT)) as log:
        for _ in range(40):
            append(log, b"v", timestamp=EXPIRED)
        for mark in range(41):
            log.update_high_watermark(mark)
            log.delete_old_segments()
            assert log.log_start_offset <= mark
            assert all(base > mark for base in bases(log)[1:])
            assert len(list(log)) == log.count() == 40 - log.log_start_offset
        assert (bases(log), log.size_in_bytes) == ([40], 0)
        assert log.delete_old_segments() == 0, "an empty active segment stays"


# --- by size, by age


@pytest.mark.parametrize(("limit", "segments"), [(10, 2), (15, 3), (14, 3), (0, 1), (NO_LIMIT, 3)])
def test_the_oldest_segments_go_while_as_much_as_shall_be_kept_is_left(
    directory: Path, limit: int, segments: int
) -> None:
    with opened(directory, config(retention_bytes=limit if limit < 0 else limit * SIZE)) as log:
        for _ in range(15):
            append(log, b"v")
        replicated(log)
        log.delete_old_segments()
        assert len(log.segments) == segments


@pytest.mark.parametrize(
    ("timestamp", "retention_ms", "segments"), [(10, 10_000, 1), (NOW, 10_000, 3), (10, NO_LIMIT, 3), (NOW - 1, 0, 1)]
)
def test_segments_whose_latest_record_is_too_old_go(
    directory: Path, timestamp: int, retention_ms: int, segments: int
) -> None:
    with opened(directory, config(retention_ms=retention_ms)) as log:
        for _ in range(15):
            append(log, b"v", timestamp=timestamp)
        replicated(log)
        log.delete_old_segments()
        assert len(log.segments) == segments


def test_one_young_record_keeps_its_segment_and_all_behind_it(directory: Path) -> None:
    with opened(directory, config(**SHORT)) as log:
        for i in range(20):
            append(log, b"v", timestamp=NOW if i == 7 else EXPIRED)
        replicated(log)
        log.delete_old_segments()
        assert bases(log) == [5, 10, 15]


def test_segments_grow_old_while_the_clock_moves(directory: Path) -> None:
    clock = Clock(NOW)
    with opened(directory, config(**SHORT), clock=clock) as log:
        for i in range(15):
            append(log, b"v", timestamp=NOW + i * 100)
        replicated(log)
        left = []
        for _ in range(5):
            log.delete_old_segments()
            left.append(bases(log))
            clock.now += 700
        assert left == [[0, 5, 10], [0, 5, 10], [5, 10], [10], [15]]


@pytest.mark.parametrize(
    ("policy", "log_start", "segments"),
    [(("compact",), 0, 3), (("compact", "delete"), 0, 1), (("compact",), 5, 2), ((), 0, 3), ((), 10, 1)],
)
def test_a_log_without_the_delete_policy_loses_only_what_lies_before_its_start(
    directory: Path, policy: tuple[str, ...], log_start: int, segments: int
) -> None:
    with opened(directory, config(cleanup_policy=policy, retention_bytes=0, **SHORT)) as log:
        for offset in range(15):
            log.append_as_follower(batch(b"v", timestamp=EXPIRED, base_offset=offset, partition_leader_epoch=0))
        replicated(log)
        log.delete_records(log_start)
        log.delete_old_segments()
        assert len(log.segments) == segments


@pytest.mark.parametrize(("log_start", "left"), [(1, [0, 5, 10]), (5, [5, 10]), (6, [5, 10]), (14, [10]), (15, [10])])
def test_deleting_records_lets_the_segments_before_the_start_go(
    directory: Path, log_start: int, left: list[int]
) -> None:
    with opened(directory, FIVE_A_SEGMENT) as log:
        for _ in range(15):
            append(log, b"v")
        replicated(log)
        log.delete_records(log_start)
        assert log.log_start_offset == log_start
        log.delete_old_segments()
        assert bases(log) == left
        assert [record.offset for record in log] == list(range(log_start, 15))


def test_a_second_run_of_retention_deletes_nothing(directory: Path) -> None:
    with opened(directory, config(**SHORT)) as log:
        append(log, b"future", timestamp=NOW + 10_000)
        log.roll()
        append(log, b"past", timestamp=EXPIRED)
        log.roll()
        replicated(log)
        log.delete_records(1)
        assert (log.delete_old_segments(), log.delete_old_segments()) == (2, 0)


# --- how segments go


def test_deleted_segments_are_renamed_first_and_readers_go_on(directory: Path) -> None:
    waiting: list[Callable[[], object]] = []

    class Keeping:
        def schedule(self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1) -> None:
            waiting.append(task)

        def shutdown(self) -> None:
            pass

    with opened(directory, config(**SHORT), scheduler=Keeping()) as log:
        for _ in range(6):
            append(log, b"v", timestamp=EXPIRED)
        replicated(log)
        reading = log.segments[0]
        log.delete_old_segments()
        gone = sorted(files(directory, ".deleted"))
        assert f"{0:020d}.log.deleted" in gone
        assert len(list(reading.log)) == 5
        for task in waiting:
            task()
        assert files(directory, ".deleted") == {}
        assert sorted(files(directory, ".log")) == [f"{6:020d}.log"]


def test_snapshots_of_the_producers_go_with_their_segments(directory: Path) -> None:
    for name, rolls_last in (("a-0", True), ("b-0", False)):
        with opened(directory.with_name(name), config(**SHORT)) as log:
            for sequence in range(3):
                settings = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
                append(log, b"v", timestamp=EXPIRED, **settings)
                if sequence < 2 or rolls_last:
                    log.roll()
            replicated(log)
            assert len(snapshots(log)) == 2 + rolls_last
            log.delete_old_segments()
            assert (bases(log), snapshots(log)) == ([3], [3])


def test_deleting_records_lets_snapshots_go_and_keeps_the_producers(directory: Path) -> None:
    with opened(directory, config(segment_bytes=SIZE)) as log:
        for producer in (1, 2):
            append(log, b"v", producer_id=producer, producer_epoch=0, base_sequence=0)
        log.roll()
        assert snapshots(log) == [1, 2]
        replicated(log)
        log.delete_records(2)
        log.delete_old_segments()
        assert snapshots(log) == [2]
        assert sorted(log.producer_state.active_producers) == [1, 2]


@pytest.mark.parametrize(
    ("begun", "left"),
    [([(0, 0), (1, 5), (2, 10)], [(1, 5), (2, 10)]), ([(0, 0), (1, 7), (2, 10)], [(0, 5), (1, 7), (2, 10)])],
)
def test_leader_epochs_of_deleted_segments_are_forgotten_but_for_the_one_at_the_start(
    directory: Path, begun: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    with opened(directory, config(retention_bytes=10 * SIZE)) as log:
        for offset in range(15):
            epoch = max(epoch for epoch, start in begun if start <= offset)
            log.append_as_follower(batch(b"v", base_offset=offset, partition_leader_epoch=epoch))
        replicated(log)
        assert epochs(log) == begun
        log.delete_old_segments()
        assert epochs(log) == left


def test_a_log_whose_records_have_all_expired_goes_on_where_it_ended(directory: Path) -> None:
    with opened(directory, config(**SHORT)) as log:
        append(log, b"old", timestamp=EXPIRED)
        replicated(log)
        assert log.delete_old_segments() == 1
        assert (log.log_start_offset, log.log_end_offset, active(log).size) == (1, 1, 0)
        log.close()
    with opened(directory, config(**SHORT)) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)
        with pytest.raises(OffsetOutOfRangeError):
            log.read(0, 100)
