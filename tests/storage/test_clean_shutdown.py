"""The mark of a clean shutdown: it is there or not, and may tell the broker's epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.storage.clean_shutdown import (
    delete_clean_shutdown,
    read_broker_epoch,
    was_clean_shutdown,
    write_clean_shutdown,
)


def test_the_clean_shutdown_file_has_kafkas_content_and_is_deleted_once(tmp_path: Path) -> None:
    assert not was_clean_shutdown(tmp_path)
    write_clean_shutdown(tmp_path, 17)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":17}'
    assert was_clean_shutdown(tmp_path)
    assert read_broker_epoch(tmp_path) == 17
    assert delete_clean_shutdown(tmp_path)
    assert not was_clean_shutdown(tmp_path)
    assert not delete_clean_shutdown(tmp_path)


def test_a_writer_that_is_no_broker_writes_epoch_minus_one(tmp_path: Path) -> None:
    write_clean_shutdown(tmp_path)
    assert read_broker_epoch(tmp_path) == -1
    assert [each.name for each in tmp_path.iterdir()] == [".kafka_cleanshutdown"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0",
        b"[]",
        b"{}",
        b'{"version":0}',
        b'{"brokerEpoch":null}',
        b'{"brokerEpoch":"x"}',
        b"\xff",
        b'{"brokerEpo',
    ],
)
def test_a_clean_shutdown_file_counts_whatever_its_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    assert was_clean_shutdown(tmp_path)
    assert read_broker_epoch(tmp_path) is None


def test_unknown_fields_of_the_clean_shutdown_file_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b' {"brokerEpoch": 5, "version": 9, "new": [1]}\n')
    assert read_broker_epoch(tmp_path) == 5
