"""Logs that brokers wrote: a check has no findings, deep or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.errors import NotALogError
from kafkalog.fsck.findings import Summary
from kafkalog.fsck.verifying import Options, verify_data_dir, verify_file, verify_partition, verify_path
from tests.helpers.golden import Partition, partitions, unpacked
from tests.helpers.partitions import every_partition

ARCHIVES = sorted({each.archive for each in partitions()})


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_brokers_logs_have_no_findings(archive: str, deep: bool) -> None:
    summary = Summary()
    assert list(verify_data_dir(unpacked() / archive / "data", Options(deep=deep, summary=summary))) == []
    segments = [log for each in partitions() if each.archive == archive for log in each.directory.glob("*.log")]
    assert summary.files == len(segments)
    assert summary.bytes == sum(log.stat().st_size for log in segments)


@every_partition
def test_every_batch_and_record_of_a_brokers_log_is_counted(partition: Partition) -> None:
    for segment in partition.segments:
        summary = Summary()
        assert list(verify_file(segment.log, Options(deep=True, summary=summary))) == []
        batches = segment.batches()
        assert summary.batches == len(batches)
        assert summary.records == sum(len(batch["records"]) for batch in batches)


def test_a_partition_is_checked_with_all_its_segments() -> None:
    partition = max(partitions(), key=lambda each: len(each.segments))
    summary = Summary()
    assert list(verify_partition(partition.directory, Options(summary=summary))) == []
    assert summary.files == len(partition.segments)


def test_progress_adds_up_to_all_bytes() -> None:
    steps: list[int] = []
    summary = Summary()
    directory = unpacked() / "kafka-3.9" / "data"
    assert list(verify_path(directory, Options(progress=steps.append, summary=summary))) == []
    assert sum(steps) == summary.bytes > 0


def test_a_partition_is_refused_as_a_data_directory() -> None:
    with pytest.raises(NotALogError):
        verify_data_dir(partitions()[0].directory)


def test_a_controllers_snapshot_is_checked_as_a_log_file() -> None:
    snapshots = list(unpacked().glob("kafka-3.9/data/*.checkpoint"))
    assert snapshots
    for snapshot in snapshots:
        assert list(verify_file(snapshot, Options(deep=True))) == []


def test_a_path_that_is_not_a_log_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The quick brown fox jumps over the lazy dog, and again.")
    found = [finding.code for name in ("notes.txt", "none", ".") for finding in verify_path(tmp_path / name)]
    assert found == ["not-a-log", "unreadable", "not-a-log"]
