from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogOffsetMetadata
from kafkalog.errors import CorruptCheckpointError, InconsistentTopicIdError, LogStateError
from kafkalog.storage.config import LogConfig
from kafkalog.storage.partition_metadata import random_topic_id, write_partition_metadata
from kafkalog.storage.paths import CLEAN_SHUTDOWN_FILE, PARTITION_METADATA
from kafkalog.storage.writable_log import Ending, WritableLog
from tests.helpers.logs import (
    CONFIG,
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
    replicated,
    seen,
    snapshots,
    values,
)

SIZE = batch(b"0").size_in_bytes
ONE_A_SEGMENT = replace(CONFIG, segment_bytes=SIZE)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def index_state(log: WritableLog) -> list[object]:
    """Return the entries of all indexes."""
    return [
        (list(segment.offset_index), list(segment.time_index), segment.time_index.last_entry)
        for segment in log.segments
    ]


# --- what is there when it is opened again


@pytest.mark.parametrize("recovery_point", [0, 10, 50, 99, 100])
def test_a_crashed_log_is_recovered_from_any_recovery_point(directory: Path, recovery_point: int) -> None:
    config = replace(CONFIG, segment_bytes=30 * SIZE)
    with opened(directory, config) as log:
        for i in range(100):
            append(log, b"v", timestamp=NOW + i)
        log.close()
        before = files(directory, ".log"), files(directory, "index")
    with opened(directory, config, recovery_point=recovery_point) as log:
        clean = index_state(log)
    with crashed(directory, config, recovery_point=recovery_point) as log:
        assert log.log_end_offset == 100
        assert index_state(log) == clean
        assert tuple(active(log).time_index.last_entry) == (NOW + 99, 99)
        log.close()
    assert (files(directory, ".log"), files(directory, "index")) == before


@pytest.mark.parametrize("damage", [None, b" "])
def test_reads_and_times_are_right_with_indexes_that_were_lost(directory: Path, damage: bytes | None) -> None:
    with opened(directory, replace(CONFIG, segment_bytes=20 * SIZE)) as log:
        for i in range(100):
            append(log, b"v", timestamp=NOW + i * 10)
        log.close()
    for name in files(directory, "index"):
        if damage is None:
            (directory / name).unlink()
        else:
            (directory / name).write_bytes(damage)
    with crashed(directory, replace(CONFIG, segment_bytes=20 * SIZE)) as log:
        for i in range(100):
            assert seen(log, i)[0] == i
            assert log.offset_for_timestamp(NOW + i * 10 - 1) == (NOW + i * 10, i, 0)
        assert log.offset_for_timestamp(NOW + 991) is None


def test_a_log_goes_on_where_it_ended(directory: Path) -> None:
    for number in range(5):
        with opened(directory, ONE_A_SEGMENT) as log:
            assert log.log_end_offset == number
            fill(log, 1, epoch=number)
            log.close()
    with opened(directory) as log:
        assert values(log) == [b"0", b"1", b"2", b"3", b"4"]
        assert epochs(log) == [(number, number) for number in range(5)]
        assert bases(log) == [0, 1, 2, 3, 4]


def test_segments_that_were_deleted_by_hand_leave_the_start_that_the_checkpoint_has(directory: Path) -> None:
    directory.mkdir()
    with opened(directory, log_start_offset=500) as log:
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark, bases(log)) == (500, 500, 500, [500])
        assert append(log, b"v") == 500


def test_a_directory_being_deleted_without_segments_can_be_loaded(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    directory.mkdir()
    with opened(directory) as log:
        assert len(log.segments) == 1


def test_segments_deleted_before_a_crash_do_not_return(directory: Path) -> None:
    with opened(directory, ONE_A_SEGMENT) as log:
        fill(log, 5)
        log.close()
    for suffix in (".log", ".index", ".timeindex"):
        path = directory / f"{0:020d}{suffix}"
        path.rename(path.with_name(path.name + ".deleted"))
    with crashed(directory, ONE_A_SEGMENT) as log:
        assert files(directory, ".deleted") == {}
        assert (log.log_start_offset, values(log)) == (1, [b"1", b"2", b"3", b"4"])


@pytest.mark.parametrize("rolls", [False, True], ids=["within a segment", "a segment"])
def test_deleted_records_stay_deleted_and_their_producers_known_as_long_as_their_segment_is_there(
    directory: Path, rolls: bool
) -> None:
    with opened(directory) as log:
        for producer in (1, 2):
            append(log, b"v", producer_id=producer, producer_epoch=0, base_sequence=0)
            if rolls:
                log.roll()
        replicated(log)
        log.delete_records(1)
        log.delete_old_segments()
        log.flush()
        assert sorted(log.producer_state.active_producers) == [1, 2]
    for name in files(directory, ".snapshot"):
        (directory / name).unlink()
    with crashed(directory, log_start_offset=1, recovery_point=0) as log:
        assert [record.offset for record in log] == [1]
        assert sorted(log.producer_state.active_producers) == ([2] if rolls else [1, 2])


def test_snapshots_that_belong_to_no_segment_are_removed(directory: Path) -> None:
    with opened(directory, ONE_A_SEGMENT) as log:
        for sequence in range(3):
            append(log, b"v", producer_id=1, producer_epoch=0, base_sequence=sequence)
        assert snapshots(log) == [1, 2]
        log.close()
        assert snapshots(log) == [1, 2, 3]
    (directory / f"{7:020d}.snapshot").write_bytes((directory / f"{2:020d}.snapshot").read_bytes())
    with opened(directory, ONE_A_SEGMENT) as log:
        assert snapshots(log) == [1, 2, 3]


def test_the_log_has_its_own_config_after_it_was_opened_with_another(directory: Path) -> None:
    with opened(directory, ONE_A_SEGMENT) as log:
        fill(log, 3)
        log.close()
    with opened(directory, LogConfig()) as log:
        fill(log, 3)
        assert bases(log) == [0, 1, 2]


# --- closing


def test_closing_flushes_and_leaves_a_snapshot_at_the_end(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"v", producer_id=1, producer_epoch=0, base_sequence=0)
        log.close()
        assert (log.recovery_point, snapshots(log)) == (1, [1])
        log.close()
    assert len((directory / f"{0:020d}.index").read_bytes()) == 0
    assert len((directory / f"{0:020d}.timeindex").read_bytes()) == 12


def test_a_failed_flush_raises_and_closes_the_log_to_appends(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise OSError(5, "Input/output error")

    with opened(directory) as log:
        fill(log, 2)
        monkeypatch.setattr(active(log), "flush", failing)
        with pytest.raises(OSError, match="Input/output"):
            log.flush()
        monkeypatch.undo()
        assert log.recovery_point == 0
        for refused in (lambda: fill(log, 1), lambda: log.truncate_to(0), log.roll):
            with pytest.raises(LogStateError, match="could not be flushed"):
                refused()
        assert values(log) == [b"0", b"1"]
        with pytest.raises(LogStateError, match="could not be flushed"):
            log.close()
    with crashed(directory) as log:
        assert values(log) == [b"0", b"1"]


@pytest.mark.parametrize("how", list(Ending))
def test_the_end_of_a_log_is_reported_once(directory: Path, how: Ending) -> None:
    told: list[Ending] = []
    with opened(directory, at_end=lambda _, ending: told.append(ending)) as log:
        fill(log, 1)
        end = {Ending.CLOSED: log.close, Ending.ABANDONED: log.abandon, Ending.DELETED: log.delete}[how]
        end()
        log.close()
        log.abandon()
    assert told == [how]
    assert directory.exists() == (how is not Ending.DELETED)


# --- what goes wrong on opening


def test_a_directory_without_a_partitions_name_is_refused(tmp_path: Path) -> None:
    for name in ("topic", "topic-", "-1", "topic-1a"):
        with pytest.raises(ValueError, match="not the name of a partition"):
            WritableLog.load(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_partition_of_another_topic_of_the_same_name_is_refused(directory: Path) -> None:
    topic_id = random_topic_id()
    for _ in range(2):
        with opened(directory, topic_id=topic_id) as log:
            assert log.topic_id == topic_id
            fill(log, 1)
            log.close()
    with pytest.raises(InconsistentTopicIdError), opened(directory, topic_id=random_topic_id()):
        pass
    with opened(directory) as log:
        assert (log.topic_id, values(log)) == (topic_id, [b"0", b"1"])


def test_a_partition_opened_by_itself_has_the_id_that_its_topic_has(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("a-0", "a-1", "b-0"))
    ids = []
    for directory in (first, second, other):
        with kafkalog.open(directory, "a") as log:
            ids.append(log.topic_id)
    assert ids[0] == ids[1] != ids[2]


def test_damaged_metadata_of_another_partition_leaves_nothing_locked(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "a-0", "a"):
        pass
    (tmp_path / "a-0" / PARTITION_METADATA).write_text("nonsense")
    with pytest.raises(CorruptCheckpointError, match="a-0"):
        kafkalog.open(tmp_path / "a-1", "a")
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    (tmp_path / "a-0" / PARTITION_METADATA).unlink()
    with kafkalog.open(tmp_path / "a-1", "a"):
        pass
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


def test_a_log_that_cannot_be_opened_leaves_no_file_and_no_thread(tmp_path: Path) -> None:
    directory = tmp_path / "unopened-0"
    with opened(directory, ONE_A_SEGMENT) as log:
        fill(log, 3, epoch=1)
        log.leader_epochs.assign(5, 90)  # is taken back in the background, when the log is loaded
        log.close()
    (directory / PARTITION_METADATA).write_text("nonsense")
    with pytest.raises(CorruptCheckpointError, match=PARTITION_METADATA):
        kafkalog.open(directory, "a")
    assert [each.name for each in threading.enumerate() if "unopened" in each.name] == []
    assert [path for path in _open_files() if "unopened" in path] == []
    (directory / PARTITION_METADATA).unlink()
    write_partition_metadata(directory / PARTITION_METADATA, random_topic_id())
    with kafkalog.open(directory) as reader:
        assert values(reader) == [b"0", b"1", b"2"]
        assert reader.high_watermark_metadata == LogOffsetMetadata(3, 2, SIZE)


def _open_files() -> list[str]:
    return [str(each.resolve()) for each in Path("/proc/self/fd").iterdir()]
