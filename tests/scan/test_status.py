"""The state of a data directory at a glance."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkalog.scan.status import DirectoryStatus, Health, PartitionStatus
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.data_dir.discover import DataDir, discover
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from tests.helpers.broker_dirs import METADATA, broker_dir
from tests.helpers.partitions import sampled_archive

NONE = TopicPartition("v2-none", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of three of a broker's partitions."""
    return broker_dir(tmp_path, "v2-none-0", "v2-txn-0", "v2-deleted-records-0")


def status(data: Path, name: str = "v2-none-0") -> PartitionStatus:
    return statuses(data)[name]


def statuses(data: Path) -> dict[str, PartitionStatus]:
    place, found = discover(data), DirectoryStatus(data)
    assert isinstance(place, DataDir)
    return {each.name: found.status_of(each) for each in place.partitions}


def set_checkpoint(data: Path, name: str, offset: int) -> None:
    write_offset_checkpoint(data / name, read_offset_checkpoint(data / name) | {NONE: offset})


@sampled_archive
def test_logs_of_brokers_are_in_order(golden_logs: Path, archive: str) -> None:
    for name, each in statuses(golden_logs / archive / "data").items():
        assert (each.health, each.problem is None) in (
            [(Health.HANGING, False)] if name == "v2-txn-0" else [(Health.OK, True)]
        )
        assert each.log_start_offset is not None
        assert each.last_stable_offset is not None
        assert each.log_end_offset is not None
        assert each.log_start_offset <= each.last_stable_offset <= each.log_end_offset


def test_the_offsets_are_those_of_the_log_and_its_checkpoints(data: Path) -> None:
    found = status(data, "v2-deleted-records-0")
    assert (found.log_start_offset, found.last_stable_offset, found.high_watermark) == (492, 1200, 1200)
    assert (found.log_end_offset, found.recovery_point, found.segments) == (1200, 1200, 7)
    assert status(data, "v2-txn-0").last_stable_offset == 1411


def test_the_bytes_of_a_recovery_are_those_from_the_recovery_points_on(data: Path) -> None:
    assert (DirectoryStatus(data).was_clean, DirectoryStatus(data).to_recover) == (True, 0)
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    last = [
        max((data / name).glob("*.log")).stat().st_size for name in ("v2-none-0", "v2-txn-0", "v2-deleted-records-0")
    ]
    assert (DirectoryStatus(data).was_clean, DirectoryStatus(data).to_recover) == (False, sum(last))
    set_checkpoint(data, RECOVERY_POINT_CHECKPOINT, 0)
    all_of_it = sum(path.stat().st_size for path in (data / "v2-none-0").glob("*.log"))
    assert DirectoryStatus(data).to_recover == sum(last[1:]) + all_of_it


@pytest.mark.parametrize(
    ("name", "offset", "words"),
    [
        (HIGH_WATERMARK_CHECKPOINT, 1201, "before its high watermark"),
        (RECOVERY_POINT_CHECKPOINT, 1201, "before its recovery point"),
        (LOG_START_OFFSET_CHECKPOINT, 99_999, "before its start, which is 99,999"),
    ],
)
def test_a_checkpoint_beyond_the_end_is_a_problem(data: Path, name: str, offset: int, words: str) -> None:
    set_checkpoint(data, name, offset)
    found = status(data)
    assert (found.health, found.log_end_offset) == (Health.DAMAGED, 1200)
    assert found.problem is not None
    assert words in found.problem
    assert status(data, "v2-deleted-records-0").health is Health.OK


def test_a_checkpoint_that_cannot_be_read_does_not_hide_the_logs(data: Path) -> None:
    (data / HIGH_WATERMARK_CHECKPOINT).write_text("0\n1\nv2-none 0\n")
    assert [HIGH_WATERMARK_CHECKPOINT in str(each) for each in DirectoryStatus(data).problems] == [True]
    found = status(data)
    assert (found.health, found.log_end_offset, found.high_watermark) == (Health.OK, 1200, None)


def test_a_recovery_point_that_cannot_be_read_does_not_hide_a_hanging_transaction(data: Path) -> None:
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    before = status(data, "v2-txn-0")
    assert before.health is Health.HANGING
    (data / RECOVERY_POINT_CHECKPOINT).write_text("0\n1\nv2-txn 0 x\n")
    after = status(data, "v2-txn-0")
    assert (after.health, after.last_stable_offset) == (Health.HANGING, before.last_stable_offset)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("leader-epoch-checkpoint", "0\n1\nx 0\n", "leader-epoch-format"),
        ("partition.metadata", "version: 9\n", "partition-metadata-format"),
        (f"{0:020}.txnindex", "\1" * 34, "txn-index-version"),
        ("notes.log", "", "foreign-log-name"),
    ],
)
def test_a_file_of_a_partition_that_keeps_a_broker_from_starting_is_damage(
    data: Path, name: str, content: str, words: str
) -> None:
    (data / "v2-none-0" / name).write_text(content)
    found = status(data)
    assert found.health is Health.DAMAGED
    assert words in str(found.problem)
    assert (found.log_end_offset, status(data, "v2-deleted-records-0").health) == (1200, Health.OK)


def test_a_partition_that_a_broker_sets_aside_is_damaged(data: Path) -> None:
    path = data / "v2-none-0" / PARTITION_METADATA
    path.unlink()
    place, found = discover(data), DirectoryStatus(data, is_data_dir=True)
    assert isinstance(place, DataDir)
    health = {each.name: found.status_of(each) for each in place.partitions}
    assert health["v2-none-0"].health is Health.DAMAGED
    assert "partition-metadata-missing" in str(health["v2-none-0"].problem)
    assert health["v2-deleted-records-0"].health is Health.OK


def test_a_partition_that_the_cluster_has_under_another_topic_id_is_damaged(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, METADATA, "v2-none-0", "v2-zstd-0")
    shutil.copy(data / "v2-zstd-0" / PARTITION_METADATA, data / "v2-none-0")
    place, found = discover(data), DirectoryStatus(data, is_data_dir=True)
    assert isinstance(place, DataDir)
    problems = {each.name: found.status_of(each).problem for each in place.partitions}
    assert "topic-name-differs" in str(problems.pop("v2-none-0"))
    assert set(problems.values()) == {None}


def test_a_partition_without_a_directory_is_a_problem_of_the_directory(data: Path) -> None:
    shutil.rmtree(data / "v2-none-0")
    (problem,) = DirectoryStatus(data, is_data_dir=True).problems
    assert "partition-gone" in str(problem)


@pytest.mark.parametrize(
    "name", ["v2-none-0.bak", "v2-none-00", "meta.properties", "__cluster_metadata-0/quorum-state"]
)
def test_what_keeps_a_broker_from_starting_is_a_problem_of_the_directory(data: Path, name: str) -> None:
    if name.startswith("v2"):
        (data / name).mkdir()
    else:
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text("{")
    (problem,) = DirectoryStatus(data, is_data_dir=True).problems
    assert name in str(problem)
    assert status(data, "v2-deleted-records-0").health is Health.OK
    # Beside a single partition there may be anything.
    assert len(DirectoryStatus(data).problems) == (not name.startswith("v2"))


def test_damage_of_a_partition_is_its_own(data: Path) -> None:
    last = max((data / "v2-none-0").glob("*.log"))
    last.write_bytes(b"\x07" * 100)
    shutil.rmtree(data / "v2-txn-0")
    (data / "v2-txn-0").symlink_to(data / "nowhere")
    found = statuses(data)
    assert [(name, each.health) for name, each in found.items()] == [
        ("v2-deleted-records-0", Health.OK),
        ("v2-none-0", Health.DAMAGED),
    ]


def test_a_partition_without_segments_is_empty(data: Path) -> None:
    (data / "new-0").mkdir()
    found = status(data, "new-0")
    assert (found.health, found.segments, found.log_end_offset) == (Health.OK, 0, 0)


def test_what_this_user_may_not_read_is_unreadable_and_told_of_once(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, checkpoint = data / "v2-none-0" / f"{0:020}.log", data / RECOVERY_POINT_CHECKPOINT

    def refuse(path: Path) -> Mapping[TopicPartition, int]:
        if path == checkpoint:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_offset_checkpoint(path)

    monkeypatch.setattr("kafkalog.fsck.checkpoint_checks.read_offset_checkpoint", refuse)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) not in {log, checkpoint})
    found = status(data)
    assert (found.health, "unreadable" in str(found.problem)) == (Health.UNREADABLE, True)
    (problem,) = DirectoryStatus(data, is_data_dir=True).problems
    assert str(checkpoint) in str(problem)


def test_records_that_an_index_hides_after_a_clean_stop_are_told(data: Path) -> None:
    log = max((data / "v2-txn-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-30])
    found = status(data, "v2-txn-0")
    assert found.health is Health.DAMAGED
    assert "hides offsets 1,335..1,434" in str(found.problem)
