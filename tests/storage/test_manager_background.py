"""Background work of a manager in its own thread: short intervals, long deadlines."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import LogManager, Record, WritableLog
from kafkalog.storage.checkpoints import read_offset_checkpoint
from kafkalog.storage.config import LogConfig
from kafkalog.storage.manager import Intervals
from kafkalog.storage.paths import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, TopicPartition
from tests.helpers.failing import refuse_fsync
from tests.helpers.logs import append as append_batch
from tests.helpers.logs import files, names, snapshots, values
from tests.helpers.making import Clock

NEVER = 3_600_000
SECONDS = 180
PARTITION = TopicPartition("a", 0)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def manager(data_dir: Path, config: LogConfig | None = None, **intervals: int) -> LogManager[WritableLog]:
    """A manager that does in the background only what it is given an interval for."""
    periods = dict.fromkeys(("flush_ms", "checkpoint_ms", "retention_ms", "producers_ms"), NEVER) | intervals
    return LogManager(data_dir, "a", config, intervals=Intervals(**periods))


def threads(data_dir: Path) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == f"kafkalog {data_dir.name}"]


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {SECONDS} s: {inspect.getsource(holds).strip()}"
        time.sleep(0.002)


def append(log: WritableLog, *given: bytes, timestamp: int = -1) -> None:
    log.append([Record(value, timestamp=timestamp) for value in given])


def test_all_logs_share_one_thread_which_ends_with_the_manager(data_dir: Path) -> None:
    with manager(data_dir) as written:
        for number in range(3):
            append(written.create(f"a-{number}"), b"v")
            written[f"a-{number}"].roll()
        assert len(threads(data_dir)) == 1
    assert threads(data_dir) == []


def test_the_thread_ends_if_opening_a_manager_fails(data_dir: Path) -> None:
    with manager(data_dir) as written:
        append(written.create("a-0"), b"v")
    (data_dir / "a-0" / "partition.metadata").write_text("nonsense")
    with pytest.raises(Exception, match=r"partition\.metadata"):
        manager(data_dir)
    assert threads(data_dir) == []


def test_the_thread_ends_if_closing_a_log_fails(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = manager(data_dir, retention_ms=1)
    append(written.create("a-0"), b"v")
    refuse_fsync(monkeypatch, data_dir / "a-0")
    with pytest.raises(ExceptionGroup):
        written.close()
    assert threads(data_dir) == []


def test_checkpoints_are_written_in_the_background(data_dir: Path) -> None:
    with manager(data_dir, checkpoint_ms=1) as written:
        log = written.create("a-0")
        append(log, b"v", b"v")
        log.flush()
        wait_until(lambda: read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT).get(PARTITION) == 2)
        wait_until(lambda: read_offset_checkpoint(data_dir / HIGH_WATERMARK_CHECKPOINT).get(PARTITION) == 2)


def test_logs_are_flushed_in_the_background(data_dir: Path) -> None:
    with manager(data_dir, LogConfig(flush_ms=1), flush_ms=1) as written:
        log = written.create("a-0")
        append(log, b"v")
        wait_until(lambda: log.recovery_point == 1)


def test_logs_are_not_flushed_before_flush_ms(data_dir: Path) -> None:
    clock = Clock(1_700_000_000_000)
    written = LogManager(
        data_dir, "a", LogConfig(flush_ms=1000), intervals=Intervals(flush_ms=1, retention_ms=NEVER), clock=clock
    )
    with written:
        log = written.create("a-0")
        append(log, b"v")
        time.sleep(0.05)
        assert log.recovery_point == 0
        clock.now += 1000
        wait_until(lambda: log.recovery_point == 1)


def test_expired_segments_and_later_their_files_are_deleted_in_the_background(data_dir: Path) -> None:
    config = LogConfig(retention_ms=NEVER, file_delete_delay_ms=1)
    with manager(data_dir, config, retention_ms=1) as written:
        log = written.create("a-0")
        append(log, b"old", timestamp=1_000)
        # The log's start moves first, then files get another name, then they go.
        wait_until(lambda: names(log.directory, ".log") == [f"{1:020d}.log"] and not names(log.directory, ".deleted"))
        assert log.log_start_offset == 1
        append(log, b"new")
        time.sleep(0.05)
        assert values(log) == [b"new"]


def test_files_pending_deletion_at_close_are_deleted_when_opened_again(data_dir: Path) -> None:
    with manager(data_dir, LogConfig(retention_ms=1000, file_delete_delay_ms=NEVER)) as written:
        log = written.create("a-0")
        append(log, b"old", timestamp=1_000)
        assert log.delete_old_segments() == 1
        assert files(log.directory, ".deleted") != {}
    assert files(data_dir / "a-0", ".deleted") != {}
    with manager(data_dir) as written:
        assert files(data_dir / "a-0", ".deleted") == {}
        assert written["a-0"].log_start_offset == 1


def test_expired_producers_are_removed_in_the_background(data_dir: Path) -> None:
    with manager(data_dir, producers_ms=1) as written:
        log = written.create("a-0")
        append_batch(log, b"v", producer_id=1, producer_epoch=0, base_sequence=0, timestamp=1_000)
        wait_until(lambda: not log.producer_state.active_producers)
        assert snapshots(log) == []


def test_a_background_failure_of_one_log_is_logged_and_the_others_go_on(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = LogConfig(retention_ms=1000, file_delete_delay_ms=0)
    with manager(data_dir, config, retention_ms=1) as written:
        failing, other = written.create("a-0"), written.create("b-0")
        obstacle = failing.directory / f"{1:020d}.log"
        # The segment that retention would begin.
        obstacle.mkdir()
        append(failing, b"old", timestamp=1_000)
        append(other, b"old", timestamp=1_000)
        wait_until(lambda: other.log_start_offset == 1)
        wait_until(lambda: "retention failed" in caplog.text)
        assert values(failing) == [b"old"]
        obstacle.rmdir()
        wait_until(lambda: failing.log_start_offset == 1)


def test_partitions_are_created_and_deleted_while_the_thread_works(data_dir: Path) -> None:
    with manager(
        data_dir, LogConfig(flush_ms=0), flush_ms=1, checkpoint_ms=1, retention_ms=1, producers_ms=1
    ) as written:
        for number in range(16):
            append(written.create(f"a-{number}"), b"v")
            if number % 2:
                written.delete(f"a-{number - 1}")
        assert list(written) == [f"a-{number}" for number in range(1, 16, 2)]
    assert set(read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT)) == {
        TopicPartition("a", number) for number in range(1, 16, 2)
    }
    with LogManager(data_dir) as found:
        assert all(values(log) == [b"v"] for log in found.values())
