"""Logs that brokers wrote: a check has no findings, deep or not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.fsck.findings import Summary
from kafkalog.fsck.verifying import SUBJECTS, Options, verify_path
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_manager import LogManager
from tests.helpers.golden import Partition, partitions, unpacked
from tests.helpers.logs import append
from tests.helpers.partitions import every_partition

SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=512)
ARCHIVES = sorted({each.archive for each in partitions()})


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_brokers_logs_have_no_findings(archive: str, deep: bool) -> None:
    summary = Summary()
    assert list(verify_path(unpacked() / archive / "data", Options(deep=deep, summary=summary))) == []
    segments = [log for each in partitions() if each.archive == archive for log in each.directory.glob("*.log")]
    assert summary.files == len(segments)
    assert summary.bytes == sum(log.stat().st_size for log in segments)


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("archive", ARCHIVES)
def test_no_subject_alone_has_findings_in_brokers_logs(archive: str, subject: str) -> None:
    only = frozenset({subject})
    assert list(verify_path(unpacked() / archive / "data", Options(only=only))) == []


@every_partition
def test_no_partition_alone_has_findings(partition: Partition) -> None:
    assert list(verify_path(partition.directory)) == []


@pytest.mark.parametrize("stop", ["cleanly", "by a crash", "not at all"])
def test_a_directory_that_this_library_writes_has_no_findings(tmp_path: Path, stop: str) -> None:
    data, seen = tmp_path / "data", tmp_path / "seen"
    with LogManager(data, "a", SMALL) as manager:
        for log in (manager.create("orders-0"), manager.create("orders-1")):
            for number in range(40):
                append(log, b"v" * 300, b"%d" % number, epoch=number // 15, timestamp=1_767_225_600_000 + number)
        manager.checkpoint()
        if stop == "not at all":
            assert list(verify_path(data)) == []
        shutil.copytree(data, seen)
    assert list(verify_path(data if stop == "cleanly" else seen)) == []


@every_partition
def test_every_batch_and_record_of_a_brokers_log_is_counted(partition: Partition) -> None:
    for segment in partition.segments:
        summary = Summary()
        assert list(verify_path(segment.log, Options(deep=True, summary=summary))) == []
        batches = segment.batches()
        assert summary.batches == len(batches)
        assert summary.records == sum(len(batch["records"]) for batch in batches)


def test_a_partition_is_checked_with_all_its_segments() -> None:
    partition = max(partitions(), key=lambda each: len(each.segments))
    summary = Summary()
    assert list(verify_path(partition.directory, Options(summary=summary))) == []
    assert summary.files == len(partition.segments)


def test_progress_adds_up_to_all_bytes() -> None:
    steps: list[int] = []
    summary = Summary()
    directory = unpacked() / "kafka-3.9" / "data"
    assert list(verify_path(directory, Options(progress=steps.append, summary=summary))) == []
    assert sum(steps) == summary.bytes > 0


def test_a_controllers_snapshot_is_checked_as_a_log_file() -> None:
    snapshots = list(unpacked().glob("kafka-3.9/data/*.checkpoint"))
    assert snapshots
    for snapshot in snapshots:
        assert list(verify_path(snapshot, Options(deep=True))) == []


def test_a_path_that_is_not_a_log_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The quick brown fox jumps over the lazy dog, and again.")
    found = [finding.code for name in ("notes.txt", "none", ".") for finding in verify_path(tmp_path / name)]
    assert found == ["not-a-log", "unreadable", "not-a-log"]
