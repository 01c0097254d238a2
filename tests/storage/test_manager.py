from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import pytest

import kafkalog
from kafkalog import LogManager, Record, WritableLog
from kafkalog.errors import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    LogLockedError,
    LogStateError,
    NotALogError,
)
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.checkpoint.partition_metadata_file import random_topic_id, write_partition_metadata
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read_only_log import ReadOnlyLog
from tests.helpers.failing import out_of_space, refuse_fsync, refuse_open
from tests.helpers.locking import can_be_locked, other
from tests.helpers.logs import CONFIG, NOW, bases, fill, values
from tests.helpers.making import Clock
from tests.helpers.scheduling import ImmediateScheduler

CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def manager(data_dir: Path, config: LogConfig = CONFIG, **settings: Any) -> LogManager[WritableLog]:
    """A manager without a thread, whose clock stands still."""
    settings = {"scheduler": ImmediateScheduler(), "clock": Clock(NOW), **settings}
    return LogManager(data_dir, "a", config, **settings)


def appended(log: WritableLog, *given: bytes) -> None:
    log.append([Record(value) for value in given])


def lines(data_dir: Path, name: str) -> list[str]:
    return (data_dir / name).read_text().splitlines()


# --- a mapping


def test_a_new_log_begins_at_0_whatever_a_checkpoint_has_for_an_old_one_of_its_name(data_dir: Path) -> None:
    manager(data_dir).close()
    for name in CHECKPOINTS:
        write_offset_checkpoint(data_dir / name, {TopicPartition("orders", 5): 100})
    with manager(data_dir) as opened:
        log = opened.create("orders-5")
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (0, 0, 0, 0)


def test_the_partitions_are_a_mapping_in_the_order_of_topics_and_numbers(data_dir: Path) -> None:
    names = ["b-0", "a-10", "a-9", "a-b-0", "a-2"]
    with manager(data_dir) as written:
        for name in names:
            appended(written.create(name), name.encode())
        inside = list(written)
    assert inside == ["a-2", "a-9", "a-10", "a-b-0", "b-0"]
    for mode in ("r", "a"):
        with LogManager(data_dir, mode) as found:
            assert (list(found), len(found)) == (inside, 5)
            assert {name: values(log) for name, log in found.items()} == {name: [name.encode()] for name in names}
            assert "a-2" in found
            assert "a-3" not in found
            assert found.get("a-3") is None
            assert found["a-2"] is found["a-2"]
            with pytest.raises(KeyError):
                found["c-0"]


def test_directories_that_are_no_partitions_in_use_are_left_out(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("topic-0")
    uuid = "0123456789abcdef" * 2
    for name in (f"topic-1.{uuid}-delete", f"topic-2.{uuid}-future", f"topic-3.{uuid}-stray", "notes", "topic-04"):
        (data_dir / name).mkdir()
    (data_dir / "topic-5").write_text("a file")
    for mode in ("r", "a"):
        with LogManager(data_dir, mode) as found:
            assert list(found) == ["topic-0"]


@pytest.mark.parametrize("name", ["topic", "", "-0", "topic-", "topic-x", "topic-01", "topic-0-delete", "../topic-0"])
def test_names_that_are_no_partitions_are_refused(data_dir: Path, name: str) -> None:
    with manager(data_dir) as found:
        with pytest.raises(ValueError, match="name of a partition"):
            found.create(name)
        with pytest.raises(KeyError):
            found.delete(name)
        assert name not in found
        assert list(data_dir.glob("*/")) == []


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_closed_manager_gives_nothing_more(data_dir: Path, mode: Literal["r", "a"]) -> None:
    with manager(data_dir) as written:
        written.create("topic-0")
    found = LogManager(data_dir, mode)
    log = found["topic-0"]
    found.close()
    found.close()
    for ask in (lambda: found["topic-0"], lambda: list(found), lambda: len(found)):
        with pytest.raises(LogStateError, match="closed"):
            ask()
    with pytest.raises(LogStateError, match="closed"):
        list(log)


def test_reading_writes_and_creates_nothing(data_dir: Path) -> None:
    with manager(data_dir) as written:
        appended(written.create("topic-0"), b"v")
    before = {path: path.stat().st_mtime_ns for path in data_dir.rglob("*")}
    with LogManager(data_dir) as found:
        assert values(found["topic-0"]) == [b"v"]
        for change in (lambda: found.create("topic-1"), lambda: found.delete("topic-0"), found.checkpoint):
            with pytest.raises(io.UnsupportedOperation):
                change()
    after = {path: path.stat().st_mtime_ns for path in data_dir.rglob("*")}
    assert {path: time for path, time in after.items() if path.name != LOCK_FILE} == {
        path: time for path, time in before.items() if path.name != LOCK_FILE
    }


@pytest.mark.slow
def test_a_reader_takes_no_lock(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("topic-0")
    with LogManager(data_dir) as found:
        assert found["topic-0"].count() == 0
        assert can_be_locked("data_dir", data_dir)


def test_a_path_that_is_no_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        LogManager(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        LogManager(tmp_path / "missing")
    with pytest.raises(ValueError, match="mode is 'w'"):
        LogManager(tmp_path, "w")  # type: ignore[call-overload]


# --- creating and deleting


def test_a_new_partition_gets_the_topic_id_of_its_topic(data_dir: Path) -> None:
    with manager(data_dir) as written:
        ids = [written.create(name).topic_id for name in ("a-0", "a-1", "b-0")]
        assert ids[0] is not None
        assert ids[0] == ids[1] != ids[2]
        text = (data_dir / "a-1" / PARTITION_METADATA).read_text()
        assert text == f"version: 0\ntopic_id: {ids[0]}"
    with manager(data_dir) as written:
        assert written.create("a-2").topic_id == ids[0]
        assert written["b-0"].topic_id == ids[2]


def test_a_partition_whose_creation_failed_half_way_can_be_created_once_it_is_possible(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager(data_dir, "a") as manager:
        with monkeypatch.context() as patched:
            refuse_open(patched, ".index")
            with pytest.raises(OSError, match="Too many open files"):
                manager.create("new-0")
        assert (data_dir / "new-0").is_dir()
        assert "new-0" not in manager
        manager.create("new-0").append([Record(b"v")])
        with pytest.raises(FileExistsError):
            manager.create("new-0")
    with kafkalog.open(data_dir / "new-0") as log:
        assert [record.value for record in log] == [b"v"]


def test_a_partition_that_is_there_is_not_created(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("topic-0")
        (data_dir / "topic-1").mkdir()
        for name in ("topic-0", "topic-1"):
            with pytest.raises(FileExistsError, match=name):
                written.create(name)


def test_each_topic_has_its_settings(data_dir: Path) -> None:
    own, new = LogConfig(retention_ms=1), LogConfig(retention_ms=2)
    with manager(data_dir, topic_configs={"own": own}) as written:
        assert written.create("own-0").config is own
        assert written.create("other-0").config is CONFIG
        assert written.create("new-0", new).config is new
        assert written.create("new-1").config is new
        assert (written.config_of("own"), written.config_of("nobody")) == (own, CONFIG)


def test_deleting_a_partition_removes_its_directory_and_its_checkpoint_lines(data_dir: Path) -> None:
    with manager(data_dir) as written:
        for name in ("a-0", "a-1"):
            appended(written.create(name), b"v")
        written.checkpoint()
        log = written["a-0"]
        written.delete("a-0")
        assert list(written) == ["a-1"]
        assert not (data_dir / "a-0").exists()
        assert lines(data_dir, RECOVERY_POINT_CHECKPOINT) == ["0", "1", "a 1 0"]
        with pytest.raises(LogStateError, match="closed"):
            log.append([Record(b"late")])
        with pytest.raises(KeyError):
            written.delete("a-0")
        appended(written.create("a-0"), b"new")
    with LogManager(data_dir) as found:
        assert values(found["a-0"]) == [b"new"]


# --- checkpoints


def test_checkpoints_are_written_as_a_broker_writes_them(data_dir: Path) -> None:
    with manager(data_dir) as written:
        log = written.create("topic-1")
        fill(log, 10)
        log.update_high_watermark(7)
        log.delete_records(3)
        log.flush()
        appended(written.create("other-0"), b"a", b"b")
        written.checkpoint()
        assert lines(data_dir, RECOVERY_POINT_CHECKPOINT) == ["0", "2", "topic 1 10", "other 0 0"]
        assert lines(data_dir, HIGH_WATERMARK_CHECKPOINT) == ["0", "2", "topic 1 7", "other 0 2"]
        assert lines(data_dir, LOG_START_OFFSET_CHECKPOINT) == ["0", "1", "topic 1 3"]
        for name in CHECKPOINTS:
            assert (data_dir / name).read_bytes().endswith(b"\n")


def test_a_log_that_starts_with_its_first_segment_has_no_line_in_the_log_starts(data_dir: Path) -> None:
    with manager(data_dir) as written:
        log = written.create("topic-0")
        fill(log, 3)
        log.roll()
        fill(log, 3)
        log.update_high_watermark(6)
        log.delete_records(3)
        written.checkpoint()
        assert lines(data_dir, LOG_START_OFFSET_CHECKPOINT) == ["0", "1", "topic 0 3"]
        log.delete_old_segments()
        written.checkpoint()
        assert lines(data_dir, LOG_START_OFFSET_CHECKPOINT) == ["0", "0"]


def test_checkpoint_lines_of_unknown_partitions_are_kept(data_dir: Path) -> None:
    data_dir.mkdir()
    for name in CHECKPOINTS:
        (data_dir / name).write_text("0\n1\nelsewhere 3 42\n")
    with manager(data_dir) as written:
        appended(written.create("topic-0"), b"v")
    elsewhere = TopicPartition("elsewhere", 3)
    assert [read_offset_checkpoint(data_dir / name)[elsewhere] for name in CHECKPOINTS] == [42, 42, 42]


def test_unchanged_checkpoints_are_not_rewritten(data_dir: Path) -> None:
    with manager(data_dir) as written:
        appended(written.create("topic-0"), b"v")
        written.checkpoint()
        before = {name: (data_dir / name).stat().st_ino for name in CHECKPOINTS}
        written.checkpoint()
        assert {name: (data_dir / name).stat().st_ino for name in CHECKPOINTS} == before


def test_a_reopened_log_has_the_offsets_of_the_checkpoints(data_dir: Path) -> None:
    with manager(data_dir) as written:
        log = written.create("topic-0")
        fill(log, 10)
        log.update_high_watermark(7)
        log.delete_records(3)
    with manager(data_dir) as written:
        log = written["topic-0"]
        offsets = (log.log_start_offset, log.high_watermark, log.recovery_point, log.log_end_offset)
        assert offsets == (3, 7, 10, 10)
    with LogManager(data_dir) as found:
        reader = found["topic-0"]
        assert (reader.log_start_offset, reader.high_watermark, reader.recovery_point) == (3, 7, 10)


def test_a_checkpointed_high_watermark_beyond_the_log_end_is_lowered_to_it(data_dir: Path) -> None:
    with manager(data_dir) as written:
        fill(written.create("topic-0"), 3)
    (data_dir / HIGH_WATERMARK_CHECKPOINT).write_text("0\n1\ntopic 0 99\n")
    with manager(data_dir) as written:
        assert written["topic-0"].high_watermark == 3


def test_a_damaged_checkpoint_is_an_error_that_names_it(data_dir: Path) -> None:
    with manager(data_dir) as written:
        fill(written.create("topic-0"), 3)
    (data_dir / RECOVERY_POINT_CHECKPOINT).write_text("7\n")
    with pytest.raises(CorruptCheckpointError, match=RECOVERY_POINT_CHECKPOINT):
        manager(data_dir)
    (data_dir / RECOVERY_POINT_CHECKPOINT).unlink()
    with manager(data_dir) as again:
        assert again["topic-0"].log_end_offset == 3


# --- the file of a clean shutdown, the lock


def test_the_clean_shutdown_file_exists_while_no_writer_is_open(data_dir: Path) -> None:
    file = data_dir / CLEAN_SHUTDOWN_FILE
    with manager(data_dir) as written:
        fill(written.create("topic-0"), 3)
        assert not file.exists()
    assert file.read_text() == '{"version":0,"brokerEpoch":-1}'
    with manager(data_dir):
        assert not file.exists()
    assert file.exists()


def test_logs_are_recovered_unless_the_clean_shutdown_file_exists(data_dir: Path) -> None:
    with manager(data_dir) as written:
        fill(written.create("topic-0"), 5)
    recovered: list[tuple[int, int]] = []
    with manager(data_dir, progress=lambda done, todo: recovered.append((done, todo))):
        assert recovered == []
    (data_dir / CLEAN_SHUTDOWN_FILE).unlink()
    for name in CHECKPOINTS:
        (data_dir / name).unlink()
    with manager(data_dir, progress=lambda done, todo: recovered.append((done, todo))) as written:
        size = written["topic-0"].size_in_bytes
        assert recovered == [(0, size), (size, size)]


@pytest.mark.slow
def test_a_manager_excludes_every_other_writer(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("topic-0")
        for what, directory in (("data_dir", data_dir), ("partition", data_dir / "topic-0")):
            assert not can_be_locked(what, directory)
        with pytest.raises(LogLockedError):
            manager(data_dir)
    assert can_be_locked("data_dir", data_dir)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["data_dir", "partition"])
def test_a_manager_does_not_open_while_another_process_writes(data_dir: Path, what: str) -> None:
    with manager(data_dir) as written:
        fill(written.create("topic-0"), 1)
    with other(what, data_dir if what == "data_dir" else data_dir / "topic-0") as holder:
        assert holder.has_it
        with pytest.raises(LogLockedError, match=LOCK_FILE):
            manager(data_dir)
        assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()


# --- where something fails


def test_one_log_that_cannot_be_loaded_closes_the_others(data_dir: Path) -> None:
    with manager(data_dir) as written:
        for name in ("a-0", "b-0"):
            fill(written.create(name), 3)
    (data_dir / "b-0" / PARTITION_METADATA).write_text("nonsense")
    with pytest.raises(CorruptCheckpointError, match=PARTITION_METADATA):
        manager(data_dir)
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists(), "the log that was loaded was abandoned"
    (data_dir / "b-0" / PARTITION_METADATA).unlink()
    with manager(data_dir) as written:
        assert values(written["a-0"]) == [b"0", b"1", b"2"]


def test_one_log_that_cannot_be_closed_leaves_the_others_closed_and_no_clean_shutdown_file(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = manager(data_dir)
    for name in ("a-0", "b-0", "c-0"):
        fill(written.create(name), 3)
    refuse_fsync(monkeypatch, data_dir / "b-0")
    with pytest.raises(ExceptionGroup) as raised:
        written.close()
    assert [type(error) for error in raised.value.exceptions] == [OSError]
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    assert lines(data_dir, RECOVERY_POINT_CHECKPOINT) == ["0", "3", "a 0 3", "b 0 0", "c 0 3"]
    monkeypatch.undo()
    with manager(data_dir) as again:
        assert [values(log) for log in again.values()] == [[b"0", b"1", b"2"]] * 3
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def test_unwritable_checkpoints_leave_no_clean_shutdown_file(data_dir: Path) -> None:
    written = manager(data_dir)
    fill(written.create("a-0"), 3)
    # A checkpoint is written under this name first.
    obstacle = data_dir / f"{RECOVERY_POINT_CHECKPOINT}.tmp"
    obstacle.mkdir()
    with pytest.raises(ExceptionGroup):
        written.close()
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    obstacle.rmdir()
    with manager(data_dir) as again:
        assert values(again["a-0"]) == [b"0", b"1", b"2"]


@pytest.mark.slow
def test_a_failed_opening_or_closing_releases_the_lock(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = manager(data_dir)
    fill(written.create("a-0"), 3)
    with monkeypatch.context() as patched:
        refuse_fsync(patched, data_dir / "a-0")
        with pytest.raises(ExceptionGroup):
            written.close()
    assert can_be_locked("data_dir", data_dir)
    for damaged in (data_dir / RECOVERY_POINT_CHECKPOINT, data_dir / "a-0" / PARTITION_METADATA):
        damaged.write_text("nonsense")
        with pytest.raises(CorruptCheckpointError):
            manager(data_dir)
        assert can_be_locked("data_dir", data_dir)
        damaged.unlink()


def test_an_abandoned_log_leaves_no_clean_shutdown_file(data_dir: Path) -> None:
    written = manager(data_dir)
    fill(written.create("a-0"), 3)
    fill(written.create("b-0"), 3)
    written["a-0"].abandon()
    written.close()
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with manager(data_dir) as again:
        assert values(again["a-0"]) == values(again["b-0"]) == [b"0", b"1", b"2"]


def test_a_log_closed_before_its_manager_leaves_the_clean_shutdown_file(data_dir: Path) -> None:
    written = manager(data_dir)
    fill(written.create("a-0"), 3)
    with written["a-0"]:
        pass
    written.close()
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    assert lines(data_dir, RECOVERY_POINT_CHECKPOINT) == ["0", "1", "a 0 3"]


def test_a_failed_deletion_leaves_no_clean_shutdown_file(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = manager(data_dir)
    fill(written.create("a-0"), 3)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", out_of_space)
        with pytest.raises(OSError, match="No space"):
            written.delete("a-0")
    written.close()
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def _stopped(data_dir: Path) -> None:
    with manager(data_dir) as written:
        fill(written.create("a-0"), 3)
        raise RuntimeError("mine")


def test_an_exception_in_the_with_block_closes_everything_in_order(data_dir: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"):
        _stopped(data_dir)
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with ReadOnlyLog(data_dir / "a-0") as log:
        assert (values(log), bases(log)) == ([b"0", b"1", b"2"], [0])


def test_partition_metadata_of_another_topic_id_is_refused(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("a-0")
    with pytest.raises(InconsistentTopicIdError):
        write_partition_metadata(data_dir / "a-0" / PARTITION_METADATA, random_topic_id())


def test_a_data_directory_is_not_opened_as_a_log(data_dir: Path) -> None:
    with manager(data_dir) as written:
        written.create("a-0")
    with pytest.raises(NotALogError, match="data directory"):
        ReadOnlyLog(data_dir)
