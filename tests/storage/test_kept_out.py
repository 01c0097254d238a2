"""Others are kept out also where the lock file goes, or a partition is a link; and where they are not, it is told."""

from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogManager, Record
from kafkalog.errors import LogLockedError, LogStateError
from kafkalog.storage.checkpoint.partition_metadata_file import write_partition_metadata
from kafkalog.storage.data_dir import session as data_dir_session


def test_a_log_whose_lock_file_was_removed_takes_no_more_once_it_is_flushed_and_is_recovered(tmp_path: Path) -> None:
    log = kafkalog.open(tmp_path / "t-0", "a")
    log.append([Record(b"0")])
    (tmp_path / ".lock").unlink()
    for change in (log.flush, log.roll, lambda: log.append([Record(b"1")]), lambda: log.truncate_to(0), log.close):
        with pytest.raises(LogStateError, match="lock file"):
            change()
    assert log.closed
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with kafkalog.open(tmp_path / "t-0", "a") as again:
        assert [record.value for record in again] == [b"0"]


def test_a_manager_whose_lock_file_was_removed_says_so_when_it_is_closed_and_lets_go(tmp_path: Path) -> None:
    manager = LogManager(tmp_path, "a")
    (tmp_path / ".lock").unlink()
    with pytest.raises(ExceptionGroup) as raised:
        manager.close()
    assert raised.group_contains(LogLockedError, match="lock file")
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    LogManager(tmp_path, "a").close()


def test_a_partition_that_is_a_link_is_not_written_to_by_two(tmp_path: Path) -> None:
    for name in ("data", "links"):
        (tmp_path / name).mkdir()
    kafkalog.open(tmp_path / "data" / "t-0", "a").close()
    (tmp_path / "links" / "t-0").symlink_to(tmp_path / "data" / "t-0")
    with LogManager(tmp_path / "links", "a"):
        for path in (tmp_path / "data" / "t-0", tmp_path / "links" / "t-0"):
            with pytest.raises(LogLockedError):
                kafkalog.open(path, "a")
    with kafkalog.open(tmp_path / "data" / "t-0", "a"), pytest.raises(LogLockedError):
        LogManager(tmp_path / "links", "a")
    (tmp_path / "links" / "u-0").symlink_to(tmp_path / "data" / "t-0")
    with pytest.raises(LogLockedError):
        LogManager(tmp_path / "links", "a")


def test_another_processs_topic_id_is_taken_over_where_it_was_written_just_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = data_dir_session.begin

    def begin_later(*arguments: Any) -> Any:
        (tmp_path / "t-1").mkdir()
        write_partition_metadata(tmp_path / "t-1" / "partition.metadata", "bUPDMCVQRZiKdmIvGGjhHg")
        return begin(*arguments)

    monkeypatch.setattr(data_dir_session, "begin", begin_later)
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        assert log.topic_id == "bUPDMCVQRZiKdmIvGGjhHg"
