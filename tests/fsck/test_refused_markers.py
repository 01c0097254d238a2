"""A control batch with a sound checksum whose marker cannot be read: recovery cuts the log there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, Record
from kafkalog.errors import InvalidRecordError
from kafkalog.fsck import recover, salvage
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE

GOOD, AFTER = 60, 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One-record batches in one range of a recovery: 60 good ones, the control batch, 40 good ones."""
    directory = tmp_path / "data" / "orders-0"
    with kafkalog.open(directory, "a") as log:
        for number in range(GOOD + 1 + AFTER):
            log.append([Record(b"%d" % number)])
    marker = ByteBufferMessageSet.from_records(
        [Record(b"\0\0", b"\0\0")], base_offset=GOOD, producer_id=7, producer_epoch=0, is_transactional=True,
        is_control=True, partition_leader_epoch=0,
    )  # fmt: skip
    (path,) = directory.glob("*.log")
    batches = list(kafkalog.FileMessageSet(path).batches())
    content = path.read_bytes()
    start, end = batches[GOOD].position, batches[GOOD + 1].position
    path.write_bytes(content[:start] + bytes(marker.buffer) + content[end:])
    (directory.parent / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    for each in directory.glob("*.snapshot"):
        each.unlink()
    return directory


def test_recovery_keeps_all_batches_before_the_refused_one(log: Path) -> None:
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log.parent / name).unlink(missing_ok=True)
    end_of_good = list(kafkalog.FileMessageSet(next(log.glob("*.log"))).batches())[GOOD].position
    (result,) = recover(log.parent)
    assert result.error is None
    assert result.log_end_offset == GOOD
    assert any("control record's key" in each and f"position {end_of_good}" in each for each in result.messages)
    with kafkalog.open(log) as again:
        assert [record.offset for record in again] == list(range(GOOD))


def test_salvage_refuses_what_recovery_would_cut(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "copy")
    with pytest.raises(InvalidRecordError, match="a control record"):
        salvage(log, tmp_path / "new" / "orders-0")
    assert not (tmp_path / "new" / "orders-0").exists()
