"""The controllers' log lies among the partitions of a KRaft broker that is a controller too, and is not one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogManager, Record
from kafkalog.storage.clean_shutdown import was_clean_shutdown
from kafkalog.storage.paths import RECOVERY_POINT_CHECKPOINT

METADATA = "__cluster_metadata-0"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """With a partition and the cluster's metadata, which nobody closed in order."""
    with LogManager(tmp_path, "a") as manager:
        manager.create("orders-0").append([Record(b"value")])
    (tmp_path / METADATA).mkdir()
    (tmp_path / METADATA / f"{0:020}.log").write_bytes(b"half a batch")
    return tmp_path


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_manager_that_writes_leaves_the_metadata_of_the_cluster_as_it_is(data_dir: Path) -> None:
    before = contents(data_dir / METADATA)
    with LogManager(data_dir, "a") as manager:
        assert list(manager) == ["orders-0"]
    assert contents(data_dir / METADATA) == before
    assert "__cluster_metadata" not in (data_dir / RECOVERY_POINT_CHECKPOINT).read_text()


def test_a_manager_that_reads_has_the_metadata_of_the_cluster(data_dir: Path) -> None:
    with LogManager(data_dir) as manager:
        assert list(manager) == [METADATA, "orders-0"]


def test_a_manager_closes_cleanly_without_opening_the_metadata_of_the_cluster(data_dir: Path) -> None:
    (data_dir / ".kafka_cleanshutdown").unlink()
    with LogManager(data_dir, "a") as manager:
        assert manager["orders-0"].log_end_offset == 1
    assert was_clean_shutdown(data_dir)


def test_a_single_log_closes_cleanly_without_opening_the_metadata_of_the_cluster(data_dir: Path) -> None:
    (data_dir / ".kafka_cleanshutdown").unlink()
    with kafkalog.open(data_dir / "orders-0", "a"):
        assert not was_clean_shutdown(data_dir)
    assert was_clean_shutdown(data_dir)
