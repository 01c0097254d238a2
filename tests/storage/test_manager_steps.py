"""Logs of a manager that are closed, deleted or abandoned one by one; managers whose closing fails."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogManager, Record, WritableLog
from kafkalog.errors import LogStateError
from kafkalog.storage.checkpoints import read_leader_epoch_checkpoint, read_offset_checkpoint
from kafkalog.storage.manager import Intervals
from kafkalog.storage.paths import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from kafkalog.storage.scheduler import ImmediateScheduler, ScheduledTask, Task
from tests.helpers.locking import can_be_locked
from tests.helpers.logs import append, values


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with the partitions a-0 and a-1, each with its name as its only record."""
    with LogManager(tmp_path / "data", "a") as manager:
        for name in ("a-0", "a-1"):
            manager.create(name).append([Record(name.encode())])
    return tmp_path / "data"


def recovery_points(data_dir: Path) -> dict[TopicPartition, int]:
    return read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT)


def test_a_deleted_log_is_no_longer_in_its_manager(data_dir: Path) -> None:
    with LogManager(data_dir, "a") as manager:
        manager["a-0"].delete()
        assert list(manager) == ["a-1"]
        for ask in (manager.__getitem__, manager.delete):
            with pytest.raises(KeyError):
                ask("a-0")
        assert list(recovery_points(data_dir)) == [("a", 1)]
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def test_a_partition_created_again_after_deletion_begins_at_0(data_dir: Path) -> None:
    with LogManager(data_dir, "a") as manager:
        manager["a-0"].delete_records(1)
        manager.checkpoint()
    with LogManager(data_dir, "a") as manager:
        manager.delete("a-0")
        log = manager.create("a-0")
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_closed_log_is_opened_again_by_the_next_lookup(data_dir: Path, mode: Any) -> None:
    with LogManager(data_dir, mode) as manager:
        for _ in range(2):
            with manager["a-0"] as log:
                assert values(log) == [b"a-0"]
            assert log.closed
        assert list(manager) == ["a-0", "a-1"]


def test_closing_one_log_writes_its_checkpoints(
    data_dir: Path,
) -> None:
    with LogManager(data_dir, "a") as manager:
        with manager["a-1"] as log:
            log.append([Record(b"more")])
            log.delete_records(1)
        assert recovery_points(data_dir)[TopicPartition("a", 1)] == 2
        log = manager["a-1"]
        assert (log.log_start_offset, log.high_watermark, values(log)) == (1, 2, [b"more"])
        log.append([Record(b"and more")])
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with LogManager(data_dir, "a") as manager:
        assert values(manager["a-1"]) == [b"more", b"and more"]
        with manager["a-1"]:
            pass
        manager.delete("a-1")
        assert not (data_dir / "a-1").exists()


def test_an_abandoned_log_is_recovered_by_the_next_lookup(data_dir: Path) -> None:
    with LogManager(data_dir, "a") as manager:
        log = manager["a-0"]
        log.append([Record(b"more")])
        log.abandon()
        segment = data_dir / "a-0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes() + b"torn")
        assert values(manager["a-0"]) == [b"a-0", b"more"]
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def test_threads_may_close_and_reopen_a_log_at_the_same_time(data_dir: Path) -> None:
    def work(manager: LogManager[WritableLog], number: int) -> int:
        done = 0
        for _ in range(10):
            try:
                with manager["a-0"] as log:
                    log.append([Record(b"%d" % number)])
                    done += 1
            except LogStateError:
                continue
        return done

    with LogManager(data_dir, "a") as manager, ThreadPoolExecutor(4) as threads:
        done = sum(threads.map(lambda number: work(manager, number), range(4)))
        log = manager["a-0"]
        assert [record.offset for record in log] == list(range(done + 1))
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize("error", [RuntimeError, IndexError, OSError])
def test_an_error_while_closing_releases_files_and_lock(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    manager = LogManager(data_dir, "a")

    def fail(*_: object) -> None:
        raise error("something")

    monkeypatch.setattr(manager["a-0"], "close", fail)
    with pytest.raises(ExceptionGroup) as raised:
        manager.close()
    assert [type(each) for each in raised.value.exceptions] == [error]
    manager.close()
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with kafkalog.open(data_dir / "a-0", "a") as log:
        assert values(log) == [b"a-0"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_interrupt_while_closing_releases_files_and_lock(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = LogManager(data_dir, "a")

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manager["a-0"], "close", interrupt)
    other = manager["a-1"]
    with pytest.raises(KeyboardInterrupt):
        manager.close()
    assert other.closed
    assert can_be_locked("data_dir", data_dir)
    # The log is abandoned and warns here rather than in a later test.
    monkeypatch.undo()
    del manager, other
    gc.collect()


def test_a_closed_manager_writes_no_checkpoints(data_dir: Path) -> None:
    class Kept(ImmediateScheduler):
        def __init__(self) -> None:
            super().__init__()
            self.tasks: list[ScheduledTask] = []

        def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
            if period_ms <= 0:
                return super().schedule(name, task, delay_ms, period_ms)
            self.tasks.append(ScheduledTask(name, task, period_ms))
            return self.tasks[-1]

    scheduler = Kept()
    manager = LogManager(data_dir, "a", scheduler=scheduler)
    manager.close()
    with kafkalog.open(data_dir / "a-0", "a") as log:
        log.append([Record(b"another")])
    before = recovery_points(data_dir)
    with pytest.raises(LogStateError, match="closed"):
        manager.checkpoint()
    for task in scheduler.tasks:
        task.run()
    assert scheduler.tasks
    assert recovery_points(data_dir) == before


class Later(ImmediateScheduler):
    """A scheduler whose tasks are run by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[ScheduledTask] = []

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        self.tasks.append(ScheduledTask(name, task))
        return self.tasks[-1]

    def run(self) -> None:
        for task in self.tasks:
            task.run()


def test_a_delayed_epoch_write_of_a_closed_log_does_not_overwrite_newer_epochs(
    data_dir: Path,
) -> None:
    scheduler = Later()
    with LogManager(data_dir, "a", scheduler=scheduler) as manager:
        with manager["a-0"] as log:
            log.append([Record(b"more")])
            append(log, b"epoch 1", epoch=1, timestamp=0)
            log.truncate_to(2)
        append(manager["a-0"], b"epoch 4", epoch=4, timestamp=0)
        scheduler.run()
        assert [tuple(each) for each in read_leader_epoch_checkpoint(data_dir / "a-0" / LEADER_EPOCH_CHECKPOINT)] == [
            (0, 0),
            (4, 2),
        ]


def test_a_delayed_epoch_write_of_a_deleted_log_does_not_reach_its_successor(data_dir: Path) -> None:
    scheduler = Later()
    with LogManager(data_dir, "a", scheduler=scheduler) as manager:
        log = manager["a-0"]
        log.append([Record(b"more")])
        log.roll()
        log.truncate_to(1)
        manager.delete("a-0")
        manager.create("a-0")
        scheduler.run()
        assert read_leader_epoch_checkpoint(data_dir / "a-0" / LEADER_EPOCH_CHECKPOINT) == []


def test_a_log_can_be_deleted_while_its_epochs_are_written_and_checkpoints_made(data_dir: Path) -> None:
    with LogManager(data_dir, "a", intervals=Intervals(checkpoint_ms=1)) as manager:
        for _ in range(15):
            log = manager.create("b-0")
            append(log, b"v", timestamp=0)
            append(log, b"w", epoch=1, timestamp=0)
            log.truncate_to(1)
            log.delete()
        assert list(manager) == ["a-0", "a-1"]
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
