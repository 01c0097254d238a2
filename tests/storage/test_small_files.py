"""Small files beside segments: a damaged or sparse one of many gigabytes is rejected before it is read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import CorruptCheckpointError, CorruptSnapshotError, KafkaLogError
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    read_leader_epoch_checkpoint,
    read_offset_checkpoint,
    write_leader_epoch_checkpoint,
)
from kafkalog.storage.checkpoint.clean_shutdown_file import read_broker_epoch
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.producer.producer_snapshot import read_snapshot

READERS: list[tuple[Callable[[Path], object], type[KafkaLogError]]] = [
    (read_leader_epoch_checkpoint, CorruptCheckpointError),
    (read_offset_checkpoint, CorruptCheckpointError),
    (read_partition_metadata, CorruptCheckpointError),
    (read_snapshot, CorruptSnapshotError),
]


@pytest.mark.parametrize("size", [8 << 30, 1 << 40])
@pytest.mark.parametrize(("read", "error"), READERS)
def test_a_sparse_file_of_gigabytes_is_rejected_by_name_without_reading_it(
    tmp_path: Path, read: Callable[[Path], object], error: type[KafkaLogError], size: int
) -> None:
    path = tmp_path / "small"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(error, match=f"the file is too large .*found {size} bytes") as raised:
        read(path)
    assert raised.value.path == str(path)


@pytest.mark.parametrize(("read", "error"), READERS)
def test_a_pipe_is_rejected_instead_of_waited_for(
    tmp_path: Path, read: Callable[[Path], object], error: type[KafkaLogError]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error, match="not a regular file"):
        read(tmp_path / "pipe")


def test_a_sparse_clean_shutdown_file_has_no_broker_epoch(tmp_path: Path) -> None:
    (tmp_path / CLEAN_SHUTDOWN_FILE).touch()
    os.truncate(tmp_path / CLEAN_SHUTDOWN_FILE, 1 << 40)
    assert read_broker_epoch(tmp_path) is None


@pytest.mark.slow
def test_a_million_leader_epochs_load(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_leader_epoch_checkpoint(path, [(epoch, 3 * epoch) for epoch in range(1_000_000)])
    cache = LeaderEpochCache(path, writable=False)
    assert (cache.latest_entry, cache.epoch_for_offset(1_500_001)) == ((999_999, 2_999_997), 500_000)


def test_thirty_thousand_leader_epochs_load(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_leader_epoch_checkpoint(path, [EpochEntry(epoch, 3 * epoch) for epoch in range(30_000)])
    cache = LeaderEpochCache(path, writable=False)
    assert len(cache.entries) == 30_000
    assert cache.epoch_for_offset(44_999) == 14_999
