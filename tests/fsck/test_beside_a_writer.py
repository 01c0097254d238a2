"""A check beside a writer that rolls and deletes segments: nothing that is being done is damage."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, LogConfig, LogManager, Record
from kafkalog.fsck import Severity, verify_path
from kafkalog.fsck.layout_checks import modes, names_in
from kafkalog.storage.checkpoint.checkpoint_file import EpochEntry, read_leader_epoch_checkpoint

SECONDS = 2.0
SMALL = LogConfig(segment_bytes=8000, index_interval_bytes=500, retention_bytes=80_000, file_delete_delay_ms=20)


def damage(data: Path) -> list[str]:
    return [str(each) for each in verify_path(data) if each.severity is not Severity.INFO]


@pytest.mark.slow
def test_what_a_writer_does_meanwhile_is_no_damage(tmp_path: Path) -> None:
    ready, stop = threading.Event(), threading.Event()

    def write() -> None:
        with LogManager(tmp_path, "a", SMALL) as manager:
            log = manager.create("orders-0")
            while not stop.is_set():
                for _ in range(50):
                    log.append([Record(b"v" * 200)])
                log.update_high_watermark(log.log_end_offset)
                log.delete_old_segments()
                manager.checkpoint()
                ready.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert ready.wait(60)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert damage(tmp_path) == []
    finally:
        stop.set()
        writer.join()
    assert damage(tmp_path) == []


def test_a_file_that_is_deleted_after_the_directory_was_listed_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager(tmp_path, "a") as manager:
        manager.create("orders-0").append([Record(b"v")])
    may_be_read = os.access

    def deleted_before(path: str, mode: int) -> bool:
        Path(path).unlink(missing_ok=True)
        return may_be_read(path, mode)

    monkeypatch.setattr(os, "access", deleted_before)
    directory = tmp_path / "orders-0"
    names = names_in(directory)
    assert names.files
    assert list(modes(directory, names)) == []
    assert names_in(directory).files == set()


def test_an_epoch_that_begins_after_its_partition_was_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager(tmp_path, "a") as manager:
        log = manager.create("orders-0")
        log.append_as_leader(ByteBufferMessageSet.from_records([Record(b"v")]), 0)

        def read_later(path: Path) -> list[EpochEntry]:
            for epoch in (0, 5):
                log.append_as_leader(ByteBufferMessageSet.from_records([Record(b"v")]), epoch)
            return read_leader_epoch_checkpoint(path)

        monkeypatch.setattr("kafkalog.fsck.state_checks.read_leader_epoch_checkpoint", read_later)
        assert damage(tmp_path) == []
