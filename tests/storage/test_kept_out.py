"""Other writers are excluded, or the loss is noticed, when the lock file is removed or a partition is a link."""

from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogManager, Record
from kafkalog.errors import LogLockedError, LogStateError
from kafkalog.storage.checkpoint.partition_metadata_file import write_partition_metadata
from kafkalog.storage.data_dir.session import Session


def test_a_log_whose_lock_file_was_removed_refuses_changes_and_is_recovered_when_opened_again(tmp_path: Path) -> None:
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


def test_a_manager_whose_lock_file_was_removed_raises_on_close_and_releases_its_lock(tmp_path: Path) -> None:
    manager = LogManager(tmp_path, "a")
    (tmp_path / ".lock").unlink()
    with pytest.raises(ExceptionGroup) as raised:
        manager.close()
    assert raised.group_contains(LogLockedError, match="lock file")
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    LogManager(tmp_path, "a").close()


@pytest.mark.slow
def test_a_linked_partition_has_one_writer(tmp_path: Path) -> None:
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


def test_a_topic_id_that_another_process_has_just_written_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Session.__init__

    def begin_later(*arguments: Any) -> None:
        (tmp_path / "t-1").mkdir()
        write_partition_metadata(tmp_path / "t-1" / "partition.metadata", "bUPDMCVQRZiKdmIvGGjhHg")
        begin(*arguments)

    monkeypatch.setattr(Session, "__init__", begin_later)
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        assert log.topic_id == "bUPDMCVQRZiKdmIvGGjhHg"
