"""Reading a log that another program truncates and rewrites meanwhile."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, CompressionType, IsolationLevel, Record
from kafkalog.errors import CorruptRecordError, InvalidRecordError, LogTruncatedError
from kafkalog.storage.file_names import offset_file
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.read.retry import at_one_moment, retry
from kafkalog.storage.segment.file_message_set import FileMessageSet, OffsetPosition
from kafkalog.storage.segment.log_segment import LogSegment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for number in range(5):
            log.append([Record(b"%d" % number)])
    return tmp_path / "t-0"


def values(log: kafkalog.Log) -> list[bytes | None]:
    return [record.value for record in log]


def test_bytes_that_differ_when_read_again_are_not_damage(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv, torn = os.preadv, list[int]()

    def torn_once(fd: int, buffers: list[memoryview], position: int) -> int:
        length = preadv(fd, buffers, position)
        if not torn and length:
            torn.append(position)
            buffers[0][length - 1] ^= 1
        return length

    monkeypatch.setattr(os, "preadv", torn_once)
    with kafkalog.open(directory) as log:
        assert values(log) == [b"0", b"1", b"2", b"3", b"4"]
    assert torn


def test_lasting_damage_is_raised_once_after_the_records_before_it(directory: Path) -> None:
    path = offset_file(directory, 0, ".log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found: list[bytes | None] = []
    with kafkalog.open(directory) as log, pytest.raises(CorruptRecordError, match="checksum"):
        found.extend(record.value for record in log)
    assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("padding", [b"", b"."])
def test_a_reader_is_told_that_the_log_was_rewritten_below_its_position(tmp_path: Path, padding: bytes) -> None:
    looks_like_a_size_or_a_batch = padding + b"\0\0\0\1" * 100
    with kafkalog.open(tmp_path / "t-0", "a") as log, kafkalog.open(tmp_path / "t-0") as reader:
        for number in range(6):
            log.append([Record(b"%d" % number * 100)])
        records = reader.records(start=1)
        assert next(records).offset == 1
        log.truncate_to(1)
        for _ in range(6):
            log.append([Record(looks_like_a_size_or_a_batch)])
        with pytest.raises(LogTruncatedError) as error:
            list(records)
        assert (error.value.offset, error.value.log_end_offset) == (1, 7)


def test_a_file_that_is_cut_while_it_is_read_ends_in_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, view = offset_file(directory, 0, ".log"), ReadableFile.view
    half = path.stat().st_size // 5 * 2

    def cut_before(self: ReadableFile, position: int, length: int) -> memoryview:
        with path.open("r+b") as file:
            file.truncate(half)
        return view(self, position, length)

    monkeypatch.setattr(ReadableFile, "view", cut_before)
    found: list[bytes | None] = []
    with kafkalog.open(directory) as log, pytest.raises(LogTruncatedError) as error:
        found.extend(record.value for record in log)
    assert (found, error.value.log_end_offset) == ([b"0", b"1"], 2)


def test_an_error_is_raised_only_if_it_occurs_twice() -> None:
    answers: list[Any] = [FileNotFoundError("0.log"), CorruptRecordError("shorter"), 7]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert retry(ask) == 7
    answers[:] = [CorruptRecordError("damage"), CorruptRecordError("damage"), 7]
    with pytest.raises(CorruptRecordError):
        retry(ask)


def test_damage_is_the_same_bytes_in_the_same_place_twice(tmp_path: Path) -> None:
    path, written = tmp_path / "0.log", [b"batch 1", b"batch 2", b"batch 2", b"batch 4"]

    def read() -> None:
        path.write_bytes(written.pop(0))
        raise CorruptRecordError("the checksum is wrong", str(path), 2)

    with pytest.raises(CorruptRecordError, match="checksum"):
        retry(read)
    assert written == [b"batch 4"]


def test_opening_a_deleted_segment_raises_file_not_found(directory: Path) -> None:
    with kafkalog.open(directory, "a") as log:
        segment = log.segments[0]
        log.roll()
        segment.delete_if_exists()
        with pytest.raises(FileNotFoundError):
            segment.opened()


def test_the_decompression_limit_applies_to_writable_logs(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append([Record(bytes(5000))], compression_type=kafkalog.CompressionType.GZIP)
    for mode in ("r", "a"):
        limited = kafkalog.open(tmp_path / "t-0", mode, decompression_limit=100)
        with limited, pytest.raises(InvalidRecordError, match="100"):
            list(limited)


def test_an_append_at_the_largest_offset_is_refused(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.truncate_fully_and_start_at(2**63 - 2)
        log.append([Record(b"v")])
        with pytest.raises(InvalidRecordError, match="the log is full"):
            log.append([Record(b"v")])
        assert log.log_end_offset == 2**63 - 1
    with kafkalog.open(tmp_path / "t-0", "a") as again:
        assert values(again) == [b"v"]


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_an_append_beyond_the_largest_offset_names_it(tmp_path: Path, codec: CompressionType) -> None:
    records = [Record(b"v", timestamp=1)] * 3
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.truncate_fully_and_start_at(2**63 - 2)
        with pytest.raises(InvalidRecordError, match=f"less than {2**63 - 1}, found {2**63 - 1}"):
            log.append(records, compression_type=codec)
        for count, error, words in ((2, InvalidRecordError, f"found {2**63 - 1}"), (3, ValueError, "largest offset")):
            sent = ByteBufferMessageSet.from_records(records[:count], compression_type=codec)
            with pytest.raises(error, match=words):
                log.append_as_leader(sent, 0)
        assert log.log_end_offset == 2**63 - 2
        assert log.append(records[:1], compression_type=codec).last_offset == 2**63 - 2


# --- a log that loses its first segments


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Six records, two a segment, the first three of them replicated."""
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        for number in range(6):
            if number in (2, 4):
                log.roll()
            log.append([Record(b"%d" % number)])
        log.update_high_watermark(3)
    return tmp_path / "t-0"


def delete(directory: Path, *bases: int) -> None:
    for base in bases:
        for each in directory.glob(f"{base:020}.*"):
            each.unlink()


READ: dict[str, Callable[[kafkalog.Log, IsolationLevel], list[int]]] = {
    "records": lambda log, isolation: [record.offset for record in log.records(isolation=isolation)],
    "batches": lambda log, isolation: [batch.base_offset for batch in log.batches(isolation=isolation)],
}


PARTS: dict[str, Callable[[kafkalog.Log], Iterator[int]]] = {
    "records": lambda log: (record.offset for record in log),
    "batches": lambda log: (batch.base_offset for batch in log.batches()),
}


@pytest.mark.parametrize("read", READ)
def test_a_reader_begins_with_the_first_segment_left_while_segments_are_deleted(
    segments: Path, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = LogSegment.opened

    def gone(self: LogSegment) -> FileMessageSet:
        monkeypatch.undo()
        delete(segments, 0, 2)
        return opened(self)

    with kafkalog.open(segments) as log:
        monkeypatch.setattr(LogSegment, "opened", gone)
        assert READ[read](log, IsolationLevel.LOG_END) == [4, 5]


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("isolation", [IsolationLevel.HIGH_WATERMARK, IsolationLevel.TXN_COMMITTED])
def test_a_watermark_is_located_again_if_its_segment_is_deleted(
    segments: Path, read: str, isolation: IsolationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = LogSegment.translate_offset

    def gone(self: LogSegment, offset: int) -> OffsetPosition | None:
        monkeypatch.undo()
        delete(segments, 0, 2)
        return search(self, offset)

    with kafkalog.open(segments) as log:
        monkeypatch.setattr(LogSegment, "translate_offset", gone)
        assert READ[read](log, isolation) == []


@pytest.fixture
def rolled(directory: Path) -> Path:
    """Five records in a segment, and one in the segment after it."""
    with kafkalog.open(directory, "a") as log:
        log.roll()
        log.append([Record(b"5")])
    return directory


def truncate_at_first_read(directory: Path, monkeypatch: pytest.MonkeyPatch, left: float) -> None:
    """At the first read, delete the last segment and truncate the first to `left` batches."""
    path, view = offset_file(directory, 0, ".log"), ReadableFile.view
    size = int(path.stat().st_size / 5 * left)

    def cut_before(self: ReadableFile, position: int, length: int) -> memoryview:
        monkeypatch.undo()
        for each in directory.glob(f"{5:020}.*"):
            each.unlink()
        with path.open("r+b") as file:
            file.truncate(size)
        return view(self, position, length)

    monkeypatch.setattr(ReadableFile, "view", cut_before)


@pytest.mark.parametrize("read", READ)
def test_a_torn_tail_is_not_damage_in_a_segment_that_became_the_last(
    rolled: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    found: list[int] = []
    with kafkalog.open(rolled) as log:
        truncate_at_first_read(rolled, monkeypatch, 2.5)
        with pytest.raises(LogTruncatedError) as error:
            found.extend(PARTS[read](log))
    assert found == [0, 1]
    assert (error.value.offset, error.value.log_end_offset) == (1, 2)


def test_a_torn_tail_is_not_damage_to_a_count_in_a_segment_that_became_the_last(
    rolled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafkalog.open(rolled) as log:
        truncate_at_first_read(rolled, monkeypatch, 2.5)
        # Headers that had been read before were there.
        assert log.count() in (2, 6)


def test_a_torn_tail_before_a_segment_is_damage(rolled: Path) -> None:
    with offset_file(rolled, 0, ".log").open("r+b") as file:
        file.seek(-1, 2)
        file.truncate()
    with kafkalog.open(rolled) as log, pytest.raises(CorruptRecordError, match="torn tail"):
        list(log)


def test_records_rewritten_at_the_readers_position_are_read(rolled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kafkalog.open(rolled) as log:
        truncate_at_first_read(rolled, monkeypatch, 2)
        found = log.records()
        values = [next(found).value, next(found).value]
        with kafkalog.open(rolled, "a") as again:
            for number in range(2, 8):
                again.append([Record(b"new %d" % number)])
        values += [record.value for record in found]
    assert values == [b"0", b"1", *(b"new %d" % number for number in range(2, 8))]


# --- a chunk is read as it was at one moment


def large(offset: int, fill: bytes) -> bytes:
    """A batch that is larger than the chunk in which it is read."""
    return bytes(ByteBufferMessageSet.from_records([Record(fill * 5000)], base_offset=offset).buffer)


def test_the_header_of_a_large_batch_belongs_to_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, view = tmp_path / "00000000000000000000.log", ReadableFile.view
    path.write_bytes(large(0, b"a"))

    def replaced_before(self: ReadableFile, position: int, length: int) -> memoryview:
        if length > 5000:
            monkeypatch.undo()
            path.write_bytes(large(7, b"b"))
        return view(self, position, length)

    monkeypatch.setattr(ReadableFile, "view", replaced_before)
    with kafkalog.FileMessageSet(path) as messages:
        found = messages.load(0, 100)
    assert found is not None
    assert (found.rows["last_offset"].tolist(), bytes(found.view)) == ([7], large(7, b"b"))


def test_a_chunk_of_a_file_that_is_written_to_is_read_until_it_is_the_same_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, view = tmp_path / "00000000000000000000.log", ReadableFile.view
    contents = [large(0, b"c") + large(1, b"c"), large(0, b"b") + large(1, b"b")]
    path.write_bytes(large(0, b"a") + large(1, b"a"))

    def replaced_after(self: ReadableFile, position: int, length: int) -> memoryview:
        found = view(self, position, length)
        if contents:
            path.write_bytes(contents.pop())
        return found

    monkeypatch.setattr(ReadableFile, "view", replaced_after)
    with kafkalog.FileMessageSet(path) as messages:
        found = at_one_moment(messages.source, lambda: messages.load(0, 1 << 20))
    assert found is not None
    assert bytes(found.view) == large(0, b"c") + large(1, b"c")


def test_what_is_appended_between_two_reads_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a reader beside a writer that only appends would read again without end."""
    path, view = tmp_path / "00000000000000000000.log", ReadableFile.view
    path.write_bytes(large(0, b"a"))

    def appended_after(self: ReadableFile, position: int, length: int) -> memoryview:
        found = view(self, position, length)
        with path.open("ab") as file:
            file.write(large(path.stat().st_size, b"b"))
        return found

    monkeypatch.setattr(ReadableFile, "view", appended_after)
    with kafkalog.FileMessageSet(path) as messages:
        found = at_one_moment(messages.source, lambda: messages.load(0, 1 << 20))
    assert found is not None
    assert bytes(found.view) == large(0, b"a")
