"""The tail of a preallocated segment, zeros up to the end of the file, is not read at each question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Record

TAIL_BYTES = 64 << 20


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """The active segment of a log with two batches."""
    with kafkalog.open(tmp_path / "events-0", "a") as log:
        for value in (b"first", b"second"):
            log.append([Record(value)])
    return tmp_path / "events-0" / "00000000000000000000.log"


def bytes_read_by(ask: object) -> int:
    """Return how many bytes this process reads by system calls while `ask` is called."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])

    before = read()
    ask()  # type: ignore[operator]
    return read() - before


def extend_with_hole(path: Path) -> None:
    os.truncate(path, path.stat().st_size + TAIL_BYTES)


def extend_with_zeros(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(TAIL_BYTES))
    # Old enough for its time to tell whether it has changed.
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts the bytes that a process reads")
def test_log_end_behind_a_hole_is_found_without_reading_it(segment: Path) -> None:
    extend_with_hole(segment)
    with kafkalog.open(segment.parent) as log:
        assert bytes_read_by(lambda: log.log_end_offset) < 1 << 20
        assert log.log_end_offset == 2


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts the bytes that a process reads")
def test_written_zeros_are_read_once(segment: Path) -> None:
    extend_with_zeros(segment)
    with kafkalog.open(segment.parent) as log:
        assert log.log_end_offset == 2
        assert bytes_read_by(lambda: log.log_end_offset) < 1 << 20
        assert bytes_read_by(lambda: log.high_watermark) < 1 << 20


def test_batch_written_over_the_zeros_is_seen(segment: Path) -> None:
    batch = kafkalog.ByteBufferMessageSet.from_records([Record(b"third")], base_offset=2)
    end = segment.stat().st_size
    extend_with_zeros(segment)
    with kafkalog.open(segment.parent) as log:
        assert log.log_end_offset == 2
        with segment.open("r+b") as file:
            file.seek(end)
            file.write(bytes(batch.buffer))
        assert log.log_end_offset == 3
        assert [record.value for record in log] == [b"first", b"second", b"third"]


def test_bytes_behind_a_hole_are_damage_and_no_tail(segment: Path) -> None:
    extend_with_hole(segment)
    with segment.open("ab") as file:
        file.write(b"x")
    with kafkalog.FileMessageSet(segment) as messages, pytest.raises(kafkalog.errors.CorruptRecordError):
        list(messages)
