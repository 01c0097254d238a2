"""Recovery of a data directory in one process and in several."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, LogManager, Record
from kafkalog.errors import (
    CorruptCheckpointError,
    CorruptRecordError,
    InvalidRecordError,
    LogLockedError,
    NotALogError,
)
from kafkalog.fsck import bytes_to_recover, recover
from kafkalog.storage.checkpoint.checkpoint_file import write_offset_checkpoint
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    offset_file,
)
from tests.helpers.broker_dirs import broker_dir
from tests.helpers.damage_kinds import places_of
from tests.helpers.partition_dirs import write_segments
from tests.reference.compression import GZIP
from tests.reference.encode import LegacyWrapper, records

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=500)
PARTITIONS = 4
RECORDS = 100
JOBS = pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A data directory that was not closed; the last batch of the first two partitions is torn."""
    directory = tmp_path / "data"
    with LogManager(directory, "a", CONFIG) as manager:
        for number in range(PARTITIONS):
            log = manager.create(f"orders-{number}")
            for offset in range(RECORDS):
                log.append([Record(b"%d %d" % (number, offset))])
        shutil.copytree(directory, tmp_path / "copy")
    shutil.rmtree(directory)
    (tmp_path / "copy").rename(directory)
    for number in range(2):
        tear(directory / f"orders-{number}")
    return directory


def tear(partition: Path) -> None:
    with max(partition.glob("*.log")).open("r+b") as file:
        file.truncate(file.seek(0, 2) - 1)


def content(directory: Path) -> dict[str, bytes]:
    """All files but the lock; the lines of checkpoints in order."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file() and path.name != ".lock":
            data = path.read_bytes()
            is_checkpoint = path.parent == directory and path.name.endswith("-checkpoint")
            found[str(path.relative_to(directory))] = b"\n".join(sorted(data.split(b"\n"))) if is_checkpoint else data
    return found


@JOBS
def test_the_files_are_those_that_a_log_manager_leaves(crashed: Path, jobs: int) -> None:
    other = crashed.with_name("other")
    shutil.copytree(crashed, other)
    LogManager(other, "a", CONFIG).close()
    results = list(recover(crashed, CONFIG, jobs=jobs))
    assert content(crashed) == content(other)
    assert (crashed / CLEAN_SHUTDOWN_FILE).exists()
    assert sorted((str(each.topic_partition), each.log_end_offset, len(each.messages)) for each in results) == [
        ("orders-0", 99, 1),
        ("orders-1", 99, 1),
        ("orders-2", 100, 0),
        ("orders-3", 100, 0),
    ]


@JOBS
def test_logs_of_a_crashed_broker_are_recovered_as_by_a_log_manager(golden_crash: Path, jobs: int) -> None:
    other = golden_crash.with_name("other")
    shutil.copytree(golden_crash, other)
    LogManager(other, "a").close()
    results = list(recover(golden_crash, jobs=jobs))
    assert [each.error for each in results] == [None] * len(results)
    assert content(golden_crash) == content(other)


@pytest.fixture
def golden_crash(tmp_path: Path, golden_logs: Path) -> Path:
    shutil.copytree(golden_logs / "kafka-3.9-crash" / "data", tmp_path / "crash")
    (tmp_path / "crash" / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    return tmp_path / "crash"


def test_the_offsets_that_are_lost_are_named(crashed: Path) -> None:
    tear(crashed / "orders-1")
    active = max((crashed / "orders-2").glob("*.log"))
    os.truncate(active, 0)
    write_offset_checkpoint(crashed / HIGH_WATERMARK_CHECKPOINT, {TopicPartition("orders", 1): RECORDS})
    lost = {str(each.topic_partition): each.lost_offsets for each in recover(crashed, CONFIG)}
    # Of a batch at the end that no checkpoint has, it is not known that it was ever whole.
    assert lost == {"orders-0": None, "orders-1": (99, 99), "orders-2": None, "orders-3": None}


def test_the_segments_that_go_with_a_damaged_one_are_named_as_lost(crashed: Path) -> None:
    for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        (crashed / name).unlink(missing_ok=True)
    segments = sorted((crashed / "orders-3").glob("*.log"))
    os.truncate(segments[0], segments[0].stat().st_size - 1)
    lost = {str(each.topic_partition): each.lost_offsets for each in recover(crashed, CONFIG)}
    bases = [int(path.stem) for path in segments]
    assert lost["orders-3"] == (bases[1] - 1, bases[-1] - 1)


def test_all_offsets_of_a_log_that_ends_before_its_start_are_named_as_lost(crashed: Path) -> None:
    partition = TopicPartition("orders", 2)
    write_offset_checkpoint(crashed / LOG_START_OFFSET_CHECKPOINT, {partition: 99_999})
    (crashed / HIGH_WATERMARK_CHECKPOINT).unlink(missing_ok=True)
    found = {each.topic_partition: each.lost_offsets for each in recover(crashed)}
    assert found[partition] == (0, RECORDS - 1)
    assert found[TopicPartition("orders", 3)] is None


def test_two_directories_of_one_partition_are_refused_before_anything_changes(crashed: Path) -> None:
    (crashed / "orders-3").rename(crashed / "orders-02")
    before = content(crashed)
    with pytest.raises(NotALogError, match="two directories for orders-2"):
        list(recover(crashed))
    assert content(crashed) == before


def test_a_log_without_an_offset_for_its_next_record_fails_alone(crashed: Path) -> None:
    path = max((crashed / "orders-3").glob("*.log"))
    content = bytearray(path.read_bytes())
    struct.pack_into(">q", content, places_of(bytes(content))[-2], 2**63 - 1)
    path.write_bytes(content)
    errors = {each.directory.name: each.error for each in recover(crashed)}
    assert "no offset is left" in str(errors.pop("orders-3"))
    assert set(errors.values()) == {None}


@pytest.mark.parametrize("topic", ["my topic", "a\nb", os.fsdecode(b"\xff")])
def test_a_partition_that_no_checkpoint_can_have_fails_alone(crashed: Path, topic: str) -> None:
    wrong = (crashed / "orders-0").rename(crashed / f"{topic}-0")
    errors = {each.directory: each.error for each in recover(crashed)}
    assert "no checkpoint can have the topic's name" in str(errors.pop(wrong))
    assert set(errors.values()) == {None}
    assert not (crashed / CLEAN_SHUTDOWN_FILE).exists()


def test_a_log_that_begins_with_a_wrapper_that_cannot_be_decompressed_fails_alone(crashed: Path) -> None:
    """Kafka fails too: it searches for an offset in the segment, and needs the first one of the wrapper."""
    damaged = LegacyWrapper(records(b"a", b"b"), GZIP, value=b"?").encoded()
    write_segments(crashed / "old-0", {0: [damaged], 2: [LegacyWrapper(records(b"c", offset=2)).encoded()]})
    failed = [(result.directory.name, result.error) for result in recover(crashed, CONFIG) if result.error]
    assert [name for name, _ in failed] == ["old-0"]
    assert isinstance(failed[0][1], InvalidRecordError)
    assert failed[0][1].path == str(crashed / "old-0" / f"{0:020}.log")
    assert failed[0][1].position == 0


def test_nothing_is_done_where_the_last_writer_stopped_cleanly(crashed: Path) -> None:
    assert bytes_to_recover(crashed) > 0
    list(recover(crashed))
    before = {path: path.stat().st_mtime_ns for path in crashed.rglob("*")}
    assert bytes_to_recover(crashed) == 0
    assert list(recover(crashed)) == []
    assert {path: path.stat().st_mtime_ns for path in crashed.rglob("*")} == before


@JOBS
def test_progress_counts_the_bytes_to_recover(crashed: Path, jobs: int) -> None:
    steps, size = list[int](), bytes_to_recover(crashed)
    list(recover(crashed, jobs=jobs, progress=steps.append))
    assert sum(steps) == size


def test_the_largest_partitions_come_first(crashed: Path) -> None:
    shutil.rmtree(crashed / "orders-2")
    with kafkalog.open(crashed / "large-0", "a") as log:
        log.append([Record(bytes(100_000))])
    (crashed / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    (crashed / RECOVERY_POINT_CHECKPOINT).unlink()
    assert next(str(each.topic_partition) for each in recover(crashed)) == "large-0"


@JOBS
def test_the_directory_is_not_marked_if_a_partition_fails(crashed: Path, jobs: int) -> None:
    # An offset before the segment's base offset: no broker loads it.
    broken, number = offset_file(crashed / "orders-3", 0, ".log"), len(list((crashed / "orders-3").glob("*.log")))
    broken.rename(offset_file(crashed / "orders-3", 5, ".log"))
    results = {str(each.topic_partition): each for each in recover(crashed, CONFIG, jobs=jobs)}
    assert number > 1
    assert isinstance(results["orders-3"].error, CorruptRecordError)
    assert results["orders-3"].log_end_offset == -1
    assert [results[f"orders-{each}"].log_end_offset for each in range(3)] == [99, 99, 100]
    assert not (crashed / CLEAN_SHUTDOWN_FILE).exists()
    # What was recovered is not read again.
    assert bytes_to_recover(crashed) < sum(path.stat().st_size for path in crashed.glob("*/*.log")) / 2


def test_a_partition_that_is_a_link_is_locked_where_it_is(crashed: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (crashed / "orders-3").rename(tmp_path / "elsewhere" / "orders-3")
    (crashed / "orders-3").symlink_to(tmp_path / "elsewhere" / "orders-3")
    with kafkalog.open(tmp_path / "elsewhere" / "orders-3", "a"), pytest.raises(LogLockedError):
        list(recover(crashed))
    assert {each.log_end_offset for each in recover(crashed)} == {99, 100}


def test_a_locked_directory_is_refused(crashed: Path) -> None:
    with kafkalog.open(crashed / "orders-0", "a"), pytest.raises(LogLockedError):
        list(recover(crashed))


def test_nothing_is_changed_beside_a_damaged_checkpoint(crashed: Path) -> None:
    (crashed / RECOVERY_POINT_CHECKPOINT).write_text("0\n2\norders 0\n")
    before = content(crashed)
    with pytest.raises(CorruptCheckpointError):
        list(recover(crashed))
    assert content(crashed) == before


def test_a_partition_is_not_a_data_directory(crashed: Path) -> None:
    with pytest.raises(NotALogError, match="data directory"):
        list(recover(crashed / "orders-0"))


def test_an_iterator_that_is_closed_early_leaves_no_mark(crashed: Path) -> None:
    results = recover(crashed)
    next(results)
    results.close()
    assert not (crashed / CLEAN_SHUTDOWN_FILE).exists()
    assert len(list(recover(crashed))) == PARTITIONS
    assert (crashed / CLEAN_SHUTDOWN_FILE).exists()


# --- processes that are killed


@pytest.fixture
def running(crashed: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kafkalog recover -j 2`, whose workers wait for a second in each partition."""
    code = (
        "import time; from kafkalog.fsck import recovering\n"
        "import kafkalog.cli, tests.fsck.test_recovering as slow\n"
        "recovering._recover_partition = slow.slowly\n"
        f"kafkalog.cli.main(['recover', '-j', '2', {str(crashed)!r}])"
    )
    root = Path(__file__).parents[2]
    started = subprocess.Popen([sys.executable, "-c", code], cwd=root, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while len(workers_of(started.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    yield started
    started.kill()
    started.communicate()


def slowly(task: object, advance: object) -> object:
    from kafkalog.fsck import recovering

    time.sleep(1)
    return recovering._recover_partition(task, advance)  # type: ignore[arg-type]


def workers_of(process: int) -> list[int]:
    """Return the workers of a process, without the tracker of their resources."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(each) for each in children if b"resource_tracker" not in Path(f"/proc/{each}/cmdline").read_bytes()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_workers_end_with_a_killed_parent(running: subprocess.Popen[bytes], crashed: Path) -> None:
    workers = workers_of(running.pid)
    running.kill()
    running.wait()
    deadline = time.monotonic() + 10
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, workers))
    assert {each.log_end_offset for each in recover(crashed, CONFIG)} == {99, 100}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_sigterm_ends_the_command_and_its_workers_at_once(running: subprocess.Popen[bytes], crashed: Path) -> None:
    workers = workers_of(running.pid)
    began = time.monotonic()
    running.terminate()
    assert running.wait(10) == 128 + signal.SIGTERM
    assert time.monotonic() - began < 5
    assert not any(map(is_running, workers))
    assert not (crashed / CLEAN_SHUTDOWN_FILE).exists()
    assert {each.log_end_offset for each in recover(crashed, CONFIG)} == {99, 100}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_killed_worker_is_an_error(running: subprocess.Popen[bytes], crashed: Path) -> None:
    for each in workers_of(running.pid):
        os.kill(each, signal.SIGKILL)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 3
    assert b"worker" in errors
    assert b"--debug" not in errors
    assert {each.log_end_offset for each in recover(crashed, CONFIG)} == {99, 100}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_recovery_by_root_leaves_all_files_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, "v2-none-0", "v2-txn-0")
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    for path in (data, *data.rglob("*")):
        os.chown(path, 65534, 65534)
    assert all(each.error is None for each in recover(data))
    assert {path.stat().st_uid for path in (data, *data.rglob("*"))} == {65534}
    assert (data / CLEAN_SHUTDOWN_FILE).exists()
