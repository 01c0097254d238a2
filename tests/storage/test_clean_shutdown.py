"""The mark of a clean shutdown: it is there or not, and may tell the broker's epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.storage.checkpoint.clean_shutdown_file import (
    delete_clean_shutdown,
    read_broker_epoch,
    was_clean_shutdown,
    write_clean_shutdown,
)


def test_the_mark_is_written_as_kafka_writes_it_and_taken_back_once(tmp_path: Path) -> None:
    assert not was_clean_shutdown(tmp_path)
    write_clean_shutdown(tmp_path, 17)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":17}'
    assert was_clean_shutdown(tmp_path)
    assert read_broker_epoch(tmp_path) == 17
    assert delete_clean_shutdown(tmp_path)
    assert not was_clean_shutdown(tmp_path)
    assert not delete_clean_shutdown(tmp_path)


def test_who_is_no_broker_has_no_epoch(tmp_path: Path) -> None:
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
def test_that_the_file_is_there_counts_whatever_it_says(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    assert was_clean_shutdown(tmp_path)
    assert read_broker_epoch(tmp_path) is None


def test_what_it_says_besides_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b' {"brokerEpoch": 5, "version": 9, "new": [1]}\n')
    assert read_broker_epoch(tmp_path) == 5
