"""Beside somebody who cuts a log and writes it anew: what is told is what is there, and damage only where it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, CompressionType, IsolationLevel, Record
from kafkalog.errors import CorruptRecordError, InvalidRecordError
from kafkalog.storage.file_names import offset_file
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.read.rereading import steadily
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


def test_bytes_that_are_others_when_they_are_read_again_are_no_damage(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, torn = ReadableFile._read, []

    def torn_once(self: ReadableFile, position: int, length: int) -> memoryview:
        found = bytearray(read(self, position, length))
        if not torn:
            torn.append(position)
            found[-1] ^= 1
        return memoryview(found).toreadonly()

    monkeypatch.setattr(ReadableFile, "_read", torn_once)
    with kafkalog.open(directory) as log:
        assert values(log) == [b"0", b"1", b"2", b"3", b"4"]
    assert torn


def test_damage_that_stays_is_told_after_the_records_before_it_and_once(directory: Path) -> None:
    path = offset_file(directory, 0, ".log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = []
    with kafkalog.open(directory) as log, pytest.raises(CorruptRecordError, match="checksum"):
        found.extend(record.value for record in log)
    assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("padding", [b"", b"."])
def test_a_reader_goes_on_by_offset_where_batches_of_other_sizes_lie_across_the_place_it_had_come_to(
    tmp_path: Path, padding: bytes
) -> None:
    looks_like_a_size_or_a_batch = padding + b"\0\0\0\1" * 100
    with kafkalog.open(tmp_path / "t-0", "a") as log, kafkalog.open(tmp_path / "t-0") as reader:
        for number in range(6):
            log.append([Record(b"%d" % number * 100)])
        records = reader.records(start=1)
        assert next(records).offset == 1
        log.truncate_to(1)
        for _ in range(6):
            log.append([Record(looks_like_a_size_or_a_batch)])
        assert [(record.offset, record.value) for record in records] == [
            (offset, looks_like_a_size_or_a_batch) for offset in range(2, 7)
        ]


def test_a_file_that_is_cut_while_it_is_read_ends_there(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, view = offset_file(directory, 0, ".log"), ReadableFile.view
    half = path.stat().st_size // 5 * 2

    def cut_before(self: ReadableFile, position: int, length: int) -> memoryview:
        with path.open("r+b") as file:
            file.truncate(half)
        return view(self, position, length)

    monkeypatch.setattr(ReadableFile, "view", cut_before)
    with kafkalog.open(directory) as log:
        assert values(log) == [b"0", b"1"]


def test_what_is_wrong_twice_in_the_same_way_is_told_and_what_passes_is_not() -> None:
    answers: list[Any] = [FileNotFoundError("0.log"), CorruptRecordError("shorter"), 7]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert steadily(ask) == 7
    answers[:] = [CorruptRecordError("damage"), CorruptRecordError("damage"), 7]
    with pytest.raises(CorruptRecordError):
        steadily(ask)


def test_a_segment_that_was_deleted_under_a_reader_is_a_file_that_is_not_there(directory: Path) -> None:
    with kafkalog.open(directory, "a") as log:
        segment = log.segments[0]
        log.roll()
        segment.delete_if_exists()
        with pytest.raises(FileNotFoundError):
            segment.opened()


def test_a_limit_of_decompression_holds_for_a_log_that_is_written_to(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append([Record(bytes(5000))], compression_type=kafkalog.CompressionType.GZIP)
    for mode in ("r", "a"):
        limited = kafkalog.open(tmp_path / "t-0", mode, decompression_limit=100)
        with limited, pytest.raises(InvalidRecordError, match="100"):
            list(limited)


def test_an_append_that_would_take_the_last_offset_there_is_is_refused(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.truncate_fully_and_start_at(2**63 - 2)
        log.append([Record(b"v")])
        with pytest.raises(InvalidRecordError, match="last offset"):
            log.append([Record(b"v")])
        assert log.log_end_offset == 2**63 - 1
    with kafkalog.open(tmp_path / "t-0", "a") as again:
        assert values(again) == [b"v"]


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_an_append_that_would_go_beyond_the_last_offset_says_which_that_is(
    tmp_path: Path, codec: CompressionType
) -> None:
    records = [Record(b"v", timestamp=1)] * 3
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.truncate_fully_and_start_at(2**63 - 2)
        with pytest.raises(InvalidRecordError, match=f"less than {2**63 - 1}, found {2**63 - 1}"):
            log.append(records, compression_type=codec)
        for count, error, told in ((2, InvalidRecordError, f"found {2**63 - 1}"), (3, ValueError, "largest offset")):
            sent = ByteBufferMessageSet.from_records(records[:count], compression_type=codec)
            with pytest.raises(error, match=told):
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


@pytest.mark.parametrize("read", READ)
def test_who_begins_to_read_while_segments_go_begins_with_the_first_that_is_left(
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
def test_a_watermark_is_looked_for_again_where_its_segment_goes(
    segments: Path, read: str, isolation: IsolationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = LogSegment.translate_offset

    def gone(self: LogSegment, offset: int, start: int = 0) -> OffsetPosition | None:
        monkeypatch.undo()
        delete(segments, 0, 2)
        return search(self, offset, start)

    with kafkalog.open(segments) as log:
        monkeypatch.setattr(LogSegment, "translate_offset", gone)
        assert READ[read](log, isolation) == []


@pytest.fixture
def rolled(directory: Path) -> Path:
    """Five records in a segment, one behind it."""
    with kafkalog.open(directory, "a") as log:
        log.roll()
        log.append([Record(b"5")])
    return directory


def cut_meanwhile(directory: Path, monkeypatch: pytest.MonkeyPatch, left: float) -> None:
    """When bytes are first read, the last segment goes, and of the first so many batches are left: a truncation."""
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


@pytest.mark.parametrize("read", ["records", "batches", "count"])
def test_what_is_just_being_written_to_a_segment_that_is_the_last_again_is_no_damage(
    rolled: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    with kafkalog.open(rolled) as log:
        cut_meanwhile(rolled, monkeypatch, 2.5)
        if read == "batches":
            found = [batch.base_offset for batch in log.batches() if batch.columns()]
        else:
            found = [record.offset for record in log] if read == "records" else list(range(log.count()))
    # Headers that had been read before were there.
    assert found in ([0, 1], [0, 1, 2, 3, 4, 5]) if read == "count" else found == [0, 1]


def test_a_torn_tail_before_a_segment_is_damage(rolled: Path) -> None:
    with offset_file(rolled, 0, ".log").open("r+b") as file:
        file.seek(-1, 2)
        file.truncate()
    with kafkalog.open(rolled) as log, pytest.raises(CorruptRecordError, match="torn tail"):
        list(log)


def test_what_is_written_anew_where_a_reader_was_is_read_and_not_passed_over(
    rolled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafkalog.open(rolled) as log:
        cut_meanwhile(rolled, monkeypatch, 2)
        found = log.records()
        values = [next(found).value, next(found).value]
        with kafkalog.open(rolled, "a") as again:
            for number in range(2, 8):
                again.append([Record(b"new %d" % number)])
        values += [record.value for record in found]
    assert values == [b"0", b"1", *(b"new %d" % number for number in range(2, 8))]
