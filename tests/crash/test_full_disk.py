"""A disk that is really full, and files that may not grow: appends raise, and all that was appended stays."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, Record, WritableLog
from tests.crash.workload import CONFIG
from tests.helpers.indexes import fill, small_disk

VALUE = b"x" * 700


def _append_until_refused(log: WritableLog) -> int:
    count = 0
    with pytest.raises(OSError, match=r"No space|File too large"):  # noqa: PT012 - how many there is room for is unknown
        for _ in range(10_000):
            log.append([Record(VALUE, b"%d" % log.log_end_offset)])
            count += 1
    return count


def _check(log: kafkalog.Log, count: int) -> None:
    assert [(each.offset, each.key) for each in log] == [(i, b"%d" % i) for i in range(count)]


def test_a_full_disk_refuses_appends_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        directory = disk / "orders-0"
        log = kafkalog.open(directory, "a", CONFIG)
        other = fill(disk)
        count = _append_until_refused(log)
        for reading in (log, kafkalog.open(directory)):
            _check(reading, count)
        other.unlink()
        log.append([Record(VALUE, b"%d" % count)])
        log.close()
        with kafkalog.open(directory, "a", CONFIG) as again:
            _check(again, count + 1)


def test_a_file_that_may_not_grow_refuses_appends_and_stays_whole(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    config = LogConfig(segment_bytes=1 << 20, segment_index_bytes=1200)
    with kafkalog.open(tmp_path / "orders-0", "a", config) as log:
        log.append([Record(VALUE, b"0")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        try:
            count = 1 + _append_until_refused(log)
            _check(log, count)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        log.append([Record(VALUE, b"%d" % count)])
        _check(log, count + 1)
    with kafkalog.open(tmp_path / "orders-0", "a", config) as again:
        _check(again, count + 1)
