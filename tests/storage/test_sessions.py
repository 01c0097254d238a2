"""Sessions: partitions opened one by one, the clean shutdown file they leave, and other processes beside them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogManager, Record, WritableLog
from kafkalog.errors import CorruptCheckpointError, LogLockedError, NotALogError
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint
from kafkalog.storage.checkpoint.clean_shutdown_file import write_clean_shutdown
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from kafkalog.storage.log_config import LogConfig
from tests.helpers import logs
from tests.helpers.failing import refuse_fsync
from tests.helpers.locking import SECONDS, Other, can_be_locked, lock_partition, other, python, started
from tests.helpers.logs import CONFIG, files, values

# Opens a partition in another process and prints so; then it crashes or closes, as its input says.
ELSEWHERE = """
import sys, os
import kafkalog
log = kafkalog.open(sys.argv[1], "a")
log.append([kafkalog.Record(b"elsewhere")])
print("locked", flush=True)
how = sys.stdin.readline().strip()
if how == "crash":
    log.flush()
    os._exit(1)
log.close()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextmanager
def writing_elsewhere(directory: Path) -> Iterator[Other]:
    """Have the partition open in another process, which closes it when its input ends."""
    with started(python(ELSEWHERE, directory)) as process:
        assert process.has_it
        yield process


def write(directory: Path, *given: bytes) -> None:
    with kafkalog.open(directory, "a") as log:
        log.append([Record(value) for value in given])


def fill(log: WritableLog, count: int) -> None:
    """Append batches of the present time, as these logs go by the system's clock."""
    logs.fill(log, count, timestamp=int(time.time() * 1000))


def has_clean_shutdown_file(data_dir: Path) -> bool:
    return (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def recovered(directory: Path) -> bool:
    """Open and close the partition; return whether that recovered it."""
    progress: list[tuple[int, int]] = []
    with kafkalog.open(directory, "a", progress=lambda done, todo: progress.append((done, todo))):
        return bool(progress)


# --- one partition


def test_opening_creates_a_partition_and_closing_writes_checkpoints_as_a_broker_does(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "topic-0", "a", CONFIG) as log:
        assert isinstance(log, WritableLog)
        assert log.topic_id is not None
        fill(log, 3)
        log.update_high_watermark(2)
        log.delete_records(1)
        assert not has_clean_shutdown_file(data_dir)
    assert has_clean_shutdown_file(data_dir)
    partition = TopicPartition("topic", 0)
    found = [
        read_offset_checkpoint(data_dir / name)[partition]
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    ]
    assert found == [3, 1, 2]
    with kafkalog.open(data_dir / "topic-0", "a", CONFIG) as log:
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1, 2, 3)
        assert values(log) == [b"1", b"2"]


def test_a_closed_partition_is_not_recovered(data_dir: Path) -> None:
    write(data_dir / "topic-0", b"v")
    assert not recovered(data_dir / "topic-0")


@pytest.mark.slow
def test_a_partition_is_recovered_after_a_crash_and_not_after_a_close(data_dir: Path) -> None:
    write(data_dir / "topic-0", b"v")
    assert not recovered(data_dir / "topic-0")
    with writing_elsewhere(data_dir / "topic-0") as process:
        process.process.communicate("crash\n")
    assert not has_clean_shutdown_file(data_dir)
    assert recovered(data_dir / "topic-0")
    assert not recovered(data_dir / "topic-0")
    with kafkalog.open(data_dir / "topic-0") as log:
        assert values(log) == [b"v", b"elsewhere"]


def test_abandoning_a_log_leaves_its_records_and_no_clean_shutdown_file(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "topic-0", "a") as log:
        fill(log, 3)
        log.abandon()
    assert not has_clean_shutdown_file(data_dir)
    assert recovered(data_dir / "topic-0")
    assert has_clean_shutdown_file(data_dir)


def test_deleting_a_partition_leaves_the_clean_shutdown_file(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "topic-0", "a") as log:
        fill(log, 3)
        log.delete()
    assert not (data_dir / "topic-0").exists()
    assert has_clean_shutdown_file(data_dir)
    for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        assert read_offset_checkpoint(data_dir / name) == {}


def test_a_partition_that_cannot_be_loaded_leaves_no_clean_shutdown_file(data_dir: Path) -> None:
    write(data_dir / "topic-0", b"v")
    (data_dir / "topic-0" / PARTITION_METADATA).write_text("nonsense")
    with pytest.raises(CorruptCheckpointError):
        kafkalog.open(data_dir / "topic-0", "a")
    assert not has_clean_shutdown_file(data_dir)


def test_a_partition_that_cannot_be_closed_leaves_no_clean_shutdown_file(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kafkalog.open(data_dir / "topic-0", "a")
    fill(log, 3)
    with monkeypatch.context() as patched:
        refuse_fsync(patched, data_dir / "topic-0")
        with pytest.raises(OSError, match="No space"):
            log.close()
    assert not has_clean_shutdown_file(data_dir)
    assert recovered(data_dir / "topic-0")


@pytest.mark.slow
def test_closing_abandoning_and_deleting_release_the_lock_and_so_do_failures(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = data_dir / "topic-0"
    for how in ("abandon", "delete", "close"):
        getattr(kafkalog.open(partition, "a"), how)()
        assert can_be_locked("data_dir", data_dir)
    (partition / PARTITION_METADATA).write_text("nonsense")
    with pytest.raises(CorruptCheckpointError):
        kafkalog.open(partition, "a")
    assert can_be_locked("data_dir", data_dir)
    (partition / PARTITION_METADATA).unlink()
    log = kafkalog.open(partition, "a")
    fill(log, 3)
    with monkeypatch.context() as patched:
        refuse_fsync(patched, partition)
        with pytest.raises(OSError, match="No space"):
            log.close()
    assert can_be_locked("data_dir", data_dir)


@pytest.mark.parametrize(
    "name", ["topic", "my topic-0", "topic-0.0123456789abcdef0123456789abcdef-delete", "t" * 250 + "-0", "topic-007"]
)
def test_a_directory_that_is_not_named_as_a_partition_is_not_written_to(data_dir: Path, name: str) -> None:
    with pytest.raises(NotALogError):
        kafkalog.open(data_dir / name, "a")
    assert not data_dir.exists()


def test_a_relative_path_and_a_link_lead_to_the_same_partition(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(data_dir / "topic-0", b"v")
    (data_dir.parent / "link").symlink_to(data_dir)
    with kafkalog.open(data_dir.parent / "link" / "topic-0", "a"), pytest.raises(LogLockedError):
        kafkalog.open(data_dir / "topic-0", "a")
    monkeypatch.chdir(data_dir / "topic-0")
    with kafkalog.open(".", "a") as log:
        fill(log, 1)
    assert has_clean_shutdown_file(data_dir)


# --- several partitions, one process


def test_closing_the_last_open_partition_writes_the_clean_shutdown_file(data_dir: Path) -> None:
    first, second = (kafkalog.open(data_dir / name, "a") for name in ("a-0", "a-1"))
    for log in (first, second):
        fill(log, 2)
    first.close()
    assert not has_clean_shutdown_file(data_dir)
    second.close()
    assert has_clean_shutdown_file(data_dir)


def test_one_abandoned_partition_prevents_the_clean_shutdown_file(data_dir: Path) -> None:
    first, second = (kafkalog.open(data_dir / name, "a") for name in ("a-0", "a-1"))
    fill(first, 2)
    fill(second, 2)
    first.abandon()
    second.close()
    assert not has_clean_shutdown_file(data_dir)
    assert recovered(data_dir / "a-0")
    assert not has_clean_shutdown_file(data_dir), "a-1 is not known to be closed any more"
    with LogManager(data_dir, "a"):
        pass
    assert has_clean_shutdown_file(data_dir)


def test_a_partition_reopened_in_the_same_session_is_not_recovered(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "a-0", "a") as first:
        fill(first, 2)
        write(data_dir / "a-1", b"v")
        assert not recovered(data_dir / "a-1")
    assert has_clean_shutdown_file(data_dir)


def test_a_partition_can_be_opened_only_once_in_a_process(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "a-0", "a"):
        with pytest.raises(LogLockedError, match="this process"):
            kafkalog.open(data_dir / "a-0", "a")
        with pytest.raises(LogLockedError, match="this process"):
            LogManager(data_dir, "a")
    with LogManager(data_dir, "a"), pytest.raises(LogLockedError, match="this process"):
        kafkalog.open(data_dir / "a-0", "a")
    assert has_clean_shutdown_file(data_dir)


# --- other partitions in the directory


def test_the_clean_shutdown_file_returns_if_it_was_there_before(data_dir: Path) -> None:
    with LogManager(data_dir, "a") as manager:
        for name in ("a-0", "b-0"):
            fill(manager.create(name), 2)
    write(data_dir / "a-0", b"v")
    assert has_clean_shutdown_file(data_dir)


def test_the_clean_shutdown_file_does_not_return_before_all_partitions_were_closed(data_dir: Path) -> None:
    with LogManager(data_dir, "a") as manager:
        for name in ("a-0", "b-0"):
            fill(manager.create(name), 2)
    (data_dir / CLEAN_SHUTDOWN_FILE).unlink()
    write(data_dir / "a-0", b"v")
    assert not has_clean_shutdown_file(data_dir)
    write(data_dir / "b-0", b"v")
    assert not has_clean_shutdown_file(data_dir), "a-0 was closed, but no file says so"
    first, second = (kafkalog.open(data_dir / name, "a") for name in ("a-0", "b-0"))
    first.close()
    second.close()
    assert has_clean_shutdown_file(data_dir), "one session has closed them all"


def test_directories_without_segments_do_not_prevent_the_clean_shutdown_file(data_dir: Path) -> None:
    (data_dir / "empty-0").mkdir(parents=True)
    write(data_dir / "a-0", b"v")
    assert has_clean_shutdown_file(data_dir)


def test_a_brokers_clean_shutdown_file_is_accepted_and_its_epoch_not_kept(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    write_clean_shutdown(data_dir, 17)
    assert not recovered(data_dir / "a-0")
    assert (data_dir / CLEAN_SHUTDOWN_FILE).read_text() == '{"version":0,"brokerEpoch":-1}'
    (data_dir / CLEAN_SHUTDOWN_FILE).write_text("")
    assert not recovered(data_dir / "a-0"), "older brokers leave an empty file"


# --- two processes


@pytest.mark.slow
def test_two_processes_that_overlap_leave_no_clean_shutdown_file(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    write(data_dir / "a-1", b"v")
    with writing_elsewhere(data_dir / "a-1"):
        write(data_dir / "a-0", b"beside it")
        assert not has_clean_shutdown_file(data_dir), "a-1 is still being written to"
        with pytest.raises(LogLockedError):
            kafkalog.open(data_dir / "a-1", "a")
        with pytest.raises(LogLockedError):
            LogManager(data_dir, "a")
    assert not has_clean_shutdown_file(data_dir), "neither process knows how the other ended"
    recovery = read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT)
    assert recovery == {TopicPartition("a", 0): 2, TopicPartition("a", 1): 2}


@pytest.mark.slow
def test_a_crash_of_another_process_prevents_the_clean_shutdown_file(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    write(data_dir / "a-1", b"v")
    with kafkalog.open(data_dir / "a-0", "a") as log:
        fill(log, 1)
        with writing_elsewhere(data_dir / "a-1") as process:
            process.kill()
    assert not has_clean_shutdown_file(data_dir)
    assert recovered(data_dir / "a-1")
    with kafkalog.open(data_dir / "a-1") as log:
        assert values(log) == [b"v", b"elsewhere"]


@pytest.mark.slow
def test_a_process_that_closes_in_order_prevents_the_clean_shutdown_file_of_another(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    write(data_dir / "a-1", b"v")
    with kafkalog.open(data_dir / "a-0", "a"), writing_elsewhere(data_dir / "a-1"):
        pass
    assert not has_clean_shutdown_file(data_dir)
    with LogManager(data_dir, "a") as manager:
        assert {name: values(log)[-1] for name, log in manager.items()} == {"a-0": b"v", "a-1": b"elsewhere"}
    assert has_clean_shutdown_file(data_dir)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["data_dir", "partition"])
def test_opening_a_locked_directory_changes_nothing(data_dir: Path, what: str) -> None:
    write(data_dir / "a-0", b"v")
    before = files(data_dir / "a-0")
    with other(what, data_dir if what == "data_dir" else data_dir / "a-0") as holder:
        with pytest.raises(LogLockedError, match=str(holder.pid)):
            kafkalog.open(data_dir / "a-0", "a")
        assert files(data_dir / "a-0") == before
        assert has_clean_shutdown_file(data_dir)


@pytest.mark.slow
def test_a_reader_needs_no_lock(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    with writing_elsewhere(data_dir / "a-0"), kafkalog.open(data_dir / "a-0") as log:
        assert values(log) == [b"v", b"elsewhere"]


# Opens and closes a partition again and again.
TURNS = """
import sys
import kafkalog
for turn in range(20):
    with kafkalog.open(sys.argv[1], "a") as log:
        log.append([kafkalog.Record(b"%d" % turn)])
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_processes_keep_each_others_checkpoint_lines(data_dir: Path) -> None:
    data_dir.mkdir()
    with started(python(TURNS, data_dir / "a-0")) as first, started(python(TURNS, data_dir / "a-1")) as second:
        assert first.has_it
        assert second.has_it
    for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        assert read_offset_checkpoint(data_dir / name) == {TopicPartition("a", 0): 20, TopicPartition("a", 1): 20}
    with LogManager(data_dir, "a") as manager:
        assert all(values(log) == [b"%d" % turn for turn in range(20)] for log in manager.values())


@pytest.mark.slow
def test_opening_waits_for_a_process_that_writes_checkpoints(data_dir: Path) -> None:
    write(data_dir / "a-0", b"v")
    with lock_partition(data_dir / "a-0") as lock, ThreadPoolExecutor(1) as threads:
        with lock.exclusive():
            command = python(ELSEWHERE, data_dir / "a-1")
            opening = threads.submit(subprocess.run, command, stdin=subprocess.DEVNULL, check=True, timeout=SECONDS)
            time.sleep(1)
            assert not opening.done()
            assert has_clean_shutdown_file(data_dir)
        opening.result(SECONDS)
        assert not has_clean_shutdown_file(data_dir), "another process has a-0"


def test_threads_may_open_and_close_partitions_at_the_same_time(data_dir: Path) -> None:
    def turns(name: str) -> None:
        for turn in range(10):
            write(data_dir / name, b"%d" % turn)

    names = [f"a-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(turns, names))
    assert has_clean_shutdown_file(data_dir)
    with LogManager(data_dir) as manager:
        assert list(manager) == names
        assert all(values(log) == [b"%d" % turn for turn in range(10)] for log in manager.values())
    assert read_offset_checkpoint(data_dir / RECOVERY_POINT_CHECKPOINT) == {
        TopicPartition("a", number): 10 for number in range(4)
    }


@pytest.mark.slow
def test_a_forked_child_has_neither_the_log_nor_the_lock(data_dir: Path) -> None:
    code = """
import os, sys
import kafkalog
from kafkalog.errors import LogLockedError
log = kafkalog.open(sys.argv[1], "a")
log.append([kafkalog.Record(b"parent")])
child = os.fork()
if not child:
    try:
        kafkalog.open(sys.argv[1], "a")
    except LogLockedError:
        os._exit(7)
    os._exit(0)
refused = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
log.append([kafkalog.Record(b"parent")])
log.close()
print("locked" if refused else "child had it", flush=True)
sys.stdin.readline()
"""
    with started(python(code, data_dir / "a-0")) as process:
        assert process.answer == "locked"
    assert has_clean_shutdown_file(data_dir)
    with kafkalog.open(data_dir / "a-0") as log:
        assert values(log) == [b"parent", b"parent"]


# --- settings


@pytest.mark.parametrize("compression", ["producer", kafkalog.CompressionType.GZIP])
def test_the_topic_settings_apply(data_dir: Path, compression: Any) -> None:
    config = LogConfig(segment_bytes=200, compression_type=compression)
    with kafkalog.open(data_dir / "a-0", "a", config) as log:
        fill(log, 10)
        assert len(log.segments) > 2
        wanted = kafkalog.CompressionType.NONE if compression == "producer" else compression
        assert {each.compression_type for each in log.batches()} == {wanted}
