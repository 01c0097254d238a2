"""Iterators of a log that is truncated while they are read: rising offsets, and an error for what was cut off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, Log, LogConfig, Record, WritableLog
from kafkalog.errors import CorruptRecordError, LogTruncatedError, OffsetOutOfRangeError
from kafkalog.record.decoding import Entries
from kafkalog.storage.file_names import offset_file, segment_files
from kafkalog.storage.read import count_records
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment

# Offset and value.
Seen: TypeAlias = tuple[int, bytes]
Read: TypeAlias = Callable[[Log, int], Iterator[Seen]]


def records(log: Log, start: int) -> Iterator[Seen]:
    return ((record.offset, record.value or b"") for record in log.records(start))


def columns(log: Log, start: int) -> Iterator[Seen]:
    return ((record.offset, record.value or b"") for part in log.columns(start) for record in part)


def batches(log: Log, start: int) -> Iterator[Seen]:
    return (
        (record.offset, record.value or b"")
        for batch in log.batches(start)
        for record in batch
        if record.offset >= start
    )


READS = pytest.mark.parametrize("read", [records, columns, batches])


@pytest.fixture(params=["r", "a"])
def reader(request: pytest.FixtureRequest, log: WritableLog) -> Iterator[Log]:
    """The log itself, or another object that reads it, as in another process."""
    if request.param == "a":
        yield log
    else:
        with kafkalog.open(log.directory) as other:
            yield other


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WritableLog]:
    """Three segments: offsets 0..19, 20..39 and 40..59, a record a batch."""
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(file_delete_delay_ms=0)) as made:
        for start in (0, 20, 40):
            if start:
                made.roll()
            write(made, start, start + 20)
        yield made


def write(log: WritableLog, start: int, end: int, name: str = "old", *, size: int = 20) -> None:
    """Append one batch a record."""
    assert log.log_end_offset == start
    for offset in range(start, end):
        log.append([Record(b"%s %d".ljust(size) % (name.encode(), offset))])


def offsets(found: list[Seen]) -> list[int]:
    return [offset for offset, _ in found]


def drained(rest: Iterator[Seen], found: list[Seen]) -> None:
    for each in rest:
        found.append(each)  # noqa: PERF402 - what came before an error is kept


# --- truncated below what was given


@pytest.mark.slow
@READS
@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize("start", [5, 25, 45])
@pytest.mark.parametrize("cut", [1, 3])
def test_records_written_again_below_the_position_are_reported(
    log: WritableLog, reader: Log, read: Read, start: int, size: int, cut: int
) -> None:
    rest = read(reader, start)
    found = [next(rest)]
    log.truncate_to(start + 1 - cut)
    write(log, log.log_end_offset, 62, "new", size=size)
    with pytest.raises(LogTruncatedError) as error:
        drained(rest, found)
    assert all(value.startswith(b"old") for _, value in found)
    assert offsets(found) == list(range(start, start + len(found)))
    assert (error.value.offset, error.value.log_end_offset) == (found[-1][0], 62)
    assert f"up to offset {found[-1][0]}; its end is 62 now" in str(error.value)


@READS
def test_a_log_that_ends_before_the_position_is_reported(log: WritableLog, reader: Log, read: Read) -> None:
    rest = read(reader, 30)
    found = [next(rest)]
    log.truncate_to(10)
    with pytest.raises(LogTruncatedError) as error:
        drained(rest, found)
    assert error.value.log_end_offset == 10


@READS
def test_a_log_that_begins_anew_is_reported(log: WritableLog, reader: Log, read: Read) -> None:
    rest = read(reader, 45)
    found = [next(rest)]
    log.truncate_fully_and_start_at(40)
    write(log, 40, 62, "new")
    with pytest.raises(LogTruncatedError):
        drained(rest, found)
    assert offsets(found) == list(range(45, 45 + len(found)))


def test_nothing_is_left_out_of_a_log_that_begins_anew_later(log: WritableLog, reader: Log) -> None:
    rest = reader.records(45)
    assert next(rest).offset == 45
    log.truncate_fully_and_start_at(70)
    write(log, 70, 75, "new")
    with pytest.raises(kafkalog.errors.OffsetOutOfRangeError):
        list(rest)


@READS
def test_no_segment_is_left_out_when_it_is_deleted_with_the_one_before_it(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment after another is the one that followed it when it was in the log."""
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(file_delete_delay_ms=60_000)) as log:
        for start in (0, 20, 40, 60):
            if start:
                log.roll()
            write(log, start, start + 20)

        opened = LogSegment.opened

        def deleted_before(segment: LogSegment) -> FileMessageSet:
            monkeypatch.undo()
            log.maybe_increment_log_start_offset(60)
            assert log.delete_old_segments() == 3
            return opened(segment)

        rest = read(log, 0)
        found = [next(rest)]
        monkeypatch.setattr(LogSegment, "opened", deleted_before)
        with pytest.raises(OffsetOutOfRangeError):
            drained(rest, found)
        assert offsets(found) == list(range(40))


@READS
def test_a_reader_waits_for_a_truncation_that_a_thread_has_begun(
    log: WritableLog, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size in memory decreases before the file is truncated."""
    rest, ftruncate = read(log, 45), os.ftruncate
    found = [next(rest)]

    def slow(fd: int, size: int) -> None:
        begun.set()
        time.sleep(0.1)
        ftruncate(fd, size)

    begun = threading.Event()
    monkeypatch.setattr(os, "ftruncate", slow)
    writer = threading.Thread(target=log.truncate_to, args=(40,))
    writer.start()
    try:
        assert begun.wait(10)
        with pytest.raises(LogTruncatedError):
            drained(rest, found)
    finally:
        writer.join()


@READS
def test_a_segment_that_is_appended_to_after_its_end_was_read_is_read_on(
    log: WritableLog, reader: Log, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same segment follows as before: without another look at the file its new records would be left out."""
    log.truncate_to(15)
    write(log, 15, 20, "new")
    log.roll()
    write(log, 20, 30, "new")
    load, left = FileMessageSet.load, [1]

    def late(messages: FileMessageSet, position: int, span: int) -> Entries | None:
        found = load(messages, position, span)
        if found is None and left:
            left.clear()
            write(log, 15, 20, "newer")
            log.roll()
            write(log, 20, 30, "newer")
        return found

    rest = read(reader, 3)
    found = [next(rest)]
    log.truncate_to(15)
    monkeypatch.setattr(FileMessageSet, "load", late)
    drained(rest, found)
    assert offsets(found) == list(range(3, 30))
    assert found[-1][1].startswith(b"newer 29")


# --- truncated above what was given, and the end


@READS
def test_records_that_are_written_again_above_the_position_are_read(log: WritableLog, reader: Log, read: Read) -> None:
    rest = read(reader, 45)
    found = [next(rest)]
    log.truncate_to(50)
    write(log, 50, 65, "new", size=40)
    drained(rest, found)
    assert offsets(found) == list(range(45, 65))


@READS
@pytest.mark.parametrize("end", [30, 50])
def test_an_iterator_does_not_end_silently_before_the_end_that_the_log_had(
    log: WritableLog, reader: Log, read: Read, end: int
) -> None:
    rest = read(reader, 0)
    found = [next(rest)]
    log.truncate_to(end)
    with pytest.raises(LogTruncatedError) as error:
        drained(rest, found)
    assert offsets(found) == list(range(end))
    assert (error.value.offset, error.value.log_end_offset) == (end - 1, end)


def test_an_iterator_with_an_end_is_done_when_it_is_there(log: WritableLog, reader: Log) -> None:
    rest = reader.records(0, 30)
    assert next(rest).offset == 0
    log.truncate_to(30)
    assert [record.offset for record in rest] == list(range(1, 30))


@pytest.mark.parametrize("garbage", [b"\0\0\0\1" * 4, b"\0"], ids=["like a torn batch", "zeros"])
@pytest.mark.parametrize("start", [40, 45])
def test_a_file_that_is_overwritten_while_it_is_read_ends_in_an_error(
    tmp_path: Path, garbage: bytes, start: int
) -> None:
    """What is there then looks like the end of a log."""
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        write(log, 0, 3000, size=1000)
    path = offset_file(tmp_path / "t-0", 0, ".log")
    found = []
    with kafkalog.open(tmp_path / "t-0") as reader:
        rest = reader.records(start - 40)
        found = [next(rest).offset for _ in range(20)]
        cut = path.stat().st_size // 2
        with path.open("r+b") as file:
            file.seek(cut)
            file.write(garbage * ((path.stat().st_size - cut) // len(garbage)))
        with pytest.raises((CorruptRecordError, LogTruncatedError), match="t-0"):
            found.extend(record.offset for record in rest)
    assert found == list(range(start - 40, start - 40 + len(found)))
    assert len(found) < 2000


# --- what is not truncation


@READS
def test_records_deleted_by_retention_are_no_truncation(log: WritableLog, reader: Log, read: Read) -> None:
    rest = read(reader, 10)
    found = [next(rest)]
    log.delete_records(20)
    log.delete_old_segments()
    write(log, 60, 65)
    drained(rest, found)
    assert offsets(found) == list(range(10, 65))


def test_gaps_that_a_follower_has_are_no_truncation(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log, kafkalog.open(tmp_path / "t-0") as reader:
        for first in (0, 10, 20):
            sent = [Record(b"v"), Record(b"w")]
            log.append_as_follower(ByteBufferMessageSet.from_records(sent, base_offset=first, partition_leader_epoch=0))
            log.roll(first + 2)
        for each in (log, reader):
            assert [record.offset for record in each] == [0, 1, 10, 11, 20, 21]


@pytest.mark.parametrize("merged", [False, True])
def test_a_segment_that_is_compacted_while_it_is_read_is_no_truncation(log: WritableLog, merged: bool) -> None:
    """As a broker's cleaner does: another file, with some of the batches, is in the place of the old one.

    If the next segment is merged with it, another one follows than before, and the reader opens the new file.
    """
    with kafkalog.open(log.directory) as reader:
        rest = reader.records(5)
        assert next(rest).offset == 5
        path = offset_file(log.directory, 0, ".log")
        data, kept = path.read_bytes(), bytearray()
        for batch in reader.batches(0, 20):
            if batch.base_offset % 3 == 0:
                kept += data[batch.position : batch.position + batch.size_in_bytes]
        if merged:
            following = offset_file(log.directory, 20, ".log")
            kept += following.read_bytes()
            following.unlink()
        path.with_suffix(".swap").write_bytes(kept)
        path.with_suffix(".swap").replace(path)
        assert [record.offset for record in rest] == list(range(6, 60))


@READS
def test_segments_rolled_while_the_directory_is_listed_are_not_left_out_however_long_that_took(
    log: WritableLog, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_slowly(directory: Path) -> list[tuple[int, Path]]:
        # As a system may, which lists names in parts: it leaves out the first of two files that are created meanwhile.
        monkeypatch.undo()
        now = directory.stat().st_mtime_ns
        log.append([Record(b"60")])
        log.roll()
        log.append([Record(b"61")])
        os.utime(directory, ns=(now, now))
        time.sleep(0.06)
        return [file for file in segment_files(directory) if file[0] != 60]

    with kafkalog.open(log.directory) as other:
        log.roll()
        monkeypatch.setattr("kafkalog.storage.read.segment_listing.segment_files", list_slowly)
        assert [offset for offset, _ in read(other, 40)] == list(range(40, 62))


@READS
def test_an_empty_active_segment_that_a_roll_replaces_is_waited_for(log: WritableLog, read: Read) -> None:
    log.truncate_fully_and_start_at(60)
    with kafkalog.open(log.directory) as other:
        assert (other.log_start_offset, other.log_end_offset) == (60, 60)
        path = offset_file(log.directory, 60, ".log")
        path.rename(path.with_suffix(".log.deleted"))
        roll = threading.Timer(0.1, path.touch)
        roll.start()
        assert list(read(other, 60)) == []
        roll.join()
        assert other.log_end_offset == 60


@pytest.mark.slow
def test_a_log_whose_segments_are_all_deleted_is_empty(log: WritableLog) -> None:
    log.close()
    with kafkalog.open(log.directory) as other:
        assert other.log_end_offset == 60
        for _, path in segment_files(log.directory):
            path.unlink()
        assert (other.log_start_offset, other.log_end_offset) == (0, 0)


def test_a_batch_that_is_being_written_after_a_truncation_is_waited_for(tmp_path: Path) -> None:
    """The file is as long as before, but the new batch is not whole yet."""
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        write(log, 0, 3000, size=1000)
        middle = next(log.batches(1500)).position
    path = offset_file(tmp_path / "t-0", 0, ".log")
    data = path.read_bytes()

    def put(rest: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(middle)
            file.write(rest)

    with kafkalog.open(tmp_path / "t-0") as reader:
        found = reader.records()
        assert [next(found).offset for _ in range(20)] == list(range(20))
        put(bytes(len(data) - middle))
        written = threading.Timer(0.3, put, [data[middle:]])
        written.start()
        assert [record.offset for record in found] == list(range(20, 3000))
        written.join()


def test_a_count_leaves_no_segment_out_that_is_deleted_while_it_counts(
    log: WritableLog, reader: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts all three, or counts anew without the deleted ones."""
    in_first = count_records.count_records

    def and_delete(*arguments: Any) -> int:
        found = in_first(*arguments)
        if log.delete_records(40):
            assert log.delete_old_segments() == 2
        return found

    monkeypatch.setattr(count_records, "count_records", and_delete)
    assert reader.count() in {60, 20}
