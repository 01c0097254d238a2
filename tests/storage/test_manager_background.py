"""What a manager does in its own thread; times are short, and what is waited for is given long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import LogManager, Record, WritableLog
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint
from kafkalog.storage.file_names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, TopicPartition
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_manager import Intervals
from tests.helpers.locking import can_be_locked
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
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)


def append(log: WritableLog, *given: bytes, timestamp: int = -1) -> None:
    log.append([Record(value, timestamp=timestamp) for value in given])


def test_one_thread_works_for_all_logs_and_is_gone_when_they_are_closed(data_dir: Path) -> None:
    with manager(data_dir) as written:
        for number in range(3):
            append(written.create(f"a-{number}"), b"v")
            written[f"a-{number}"].roll()
        assert len(threads(data_dir)) == 1
    assert threads(data_dir) == []


def test_the_thread_is_gone_when_a_manager_cannot_be_opened(data_dir: Path) -> None:
    with manager(data_dir) as written:
        append(written.create("a-0"), b"v")
    (data_dir / "a-0" / "partition.metadata").write_text("nonsense")
    with pytest.raises(Exception, match=r"partition\.metadata"):
        manager(data_dir)
    assert threads(data_dir) == []


def test_the_thread_is_gone_when_a_log_cannot_be_closed(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    written = manager(data_dir, retention_ms=1)
    monkeypatch.setattr(written.create("a-0"), "_close_in_order", full)
    with pytest.raises(ExceptionGroup):
        written.close()
    assert threads(data_dir) == []
    assert can_be_locked("data_dir", data_dir)


def test_checkpoints_are_written_meanwhile(data_dir: Path) -> None:
    with manager(data_dir, checkpoint_ms=1) as written:
        log = written.create("a-0")
        append(log, b"v", b"v")
        log.flush()
        for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            wait_until(lambda name=name: read_offset_checkpoint(data_dir / name).get(PARTITION) == 2)


def test_logs_are_flushed_when_it_is_time(data_dir: Path) -> None:
    with manager(data_dir, LogConfig(flush_ms=1), flush_ms=1) as written:
        log = written.create("a-0")
        append(log, b"v")
        wait_until(lambda: log.recovery_point == 1)


def test_logs_that_need_not_be_flushed_yet_are_not(data_dir: Path) -> None:
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


def test_old_segments_are_deleted_and_their_files_after_a_delay(data_dir: Path) -> None:
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


def test_files_that_wait_to_be_deleted_when_all_is_closed_are_deleted_at_the_next_opening(data_dir: Path) -> None:
    with manager(data_dir, LogConfig(retention_ms=1000, file_delete_delay_ms=NEVER)) as written:
        log = written.create("a-0")
        append(log, b"old", timestamp=1_000)
        assert log.delete_old_segments() == 1
        assert files(log.directory, ".deleted") != {}
    assert files(data_dir / "a-0", ".deleted") != {}
    with manager(data_dir) as written:
        assert files(data_dir / "a-0", ".deleted") == {}
        assert written["a-0"].log_start_offset == 1


def test_producers_that_were_not_heard_of_are_forgotten(data_dir: Path) -> None:
    with manager(data_dir, producers_ms=1) as written:
        log = written.create("a-0")
        append_batch(log, b"v", producer_id=1, producer_epoch=0, base_sequence=0, timestamp=1_000)
        wait_until(lambda: not log.producer_state.active_producers)
        assert snapshots(log) == []


def test_a_log_that_fails_in_the_background_is_told_and_the_others_go_on(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full() -> int:
        raise OSError(28, "No space left on device")

    config = LogConfig(retention_ms=1000, file_delete_delay_ms=0)
    with manager(data_dir, config, retention_ms=1) as written:
        failing, other = written.create("a-0"), written.create("b-0")
        monkeypatch.setattr(failing._roller, "roll", full)
        append(failing, b"old", timestamp=1_000)
        append(other, b"old", timestamp=1_000)
        wait_until(lambda: other.log_start_offset == 1)
        wait_until(lambda: "retention failed" in caplog.text)
        assert values(failing) == [b"old"]
        monkeypatch.undo()
        wait_until(lambda: failing.log_start_offset == 1)


def test_partitions_are_created_and_deleted_while_the_thread_works(data_dir: Path) -> None:
    with manager(
        data_dir, LogConfig(flush_ms=0), flush_ms=1, checkpoint_ms=1, retention_ms=1, producers_ms=1
    ) as written:
        for number in range(30):
            append(written.create(f"a-{number}"), b"v")
            if number % 2:
                written.delete(f"a-{number - 1}")
        assert list(written) == [f"a-{number}" for number in range(1, 30, 2)]
    assert set(read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT)) == {
        TopicPartition("a", number) for number in range(1, 30, 2)
    }
    with LogManager(data_dir) as found:
        assert all(values(log) == [b"v"] for log in found.values())
