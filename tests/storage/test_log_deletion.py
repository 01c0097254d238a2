"""Segments that are deleted from a log while they are still in use."""

import warnings
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, Record
from kafkalog.storage.scheduler import ImmediateScheduler
from kafkalog.storage.segment import LogSegment
from kafkalog.storage.writable_log import Opening, WritableLog

SMALL = LogConfig(segment_bytes=200, file_delete_delay_ms=0, retention_bytes=1)


def test_a_log_that_was_truncated_is_closed_without_a_file_left_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with kafkalog.open(tmp_path / "t-0", "a", LogConfig(file_delete_delay_ms=60_000)) as log:
            log.append([Record(b"1")])
            log.roll()
            log.append([Record(b"2")])
            log.truncate_to(0)
            log.append([Record(b"3")])

            assert [record.value for record in log] == [b"3"]


def test_a_segment_that_retention_deletes_while_it_is_flushed_does_not_fail_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WritableLog.load(tmp_path / "t-0", SMALL, Opening(scheduler=ImmediateScheduler()))
    flush = LogSegment.flush

    def deleted_first(segment: LogSegment) -> None:
        if segment.base_offset == 0 and len(log.segments) > 1:
            log.delete_old_segments()
        flush(segment)

    with monkeypatch.context() as patched:
        patched.setattr(LogSegment, "flush", deleted_first)
        for _ in range(5):
            log.append([Record(b"v" * 100)])
        log.flush()

    assert log.recovery_point == log.log_end_offset == 5
    assert [record.offset for record in log] == list(range(log.log_start_offset, 5))
    log.close()
