"""A partition directory read as one log, and directories that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import CorruptRecordError, KafkaLogError, NotALogError
from tests.helpers.reading import column_records, outcome
from tests.reference.compression import GZIP
from tests.reference.encode import PlainRecord, V2Batch, entries, records


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition directory `orders-0` without segments."""
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    return directory


def segment(directory: Path, base_offset: int, data: bytes) -> Path:
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(data)
    return path


def three_segments(directory: Path) -> None:
    segment(directory, 0, entries(records(b"0", b"1"), 1, GZIP))
    segment(directory, 2, entries(records(b"2", offset=2), 2) + entries(records(b"3", offset=3), 2))
    segment(directory, 4, entries(records(b"4", b"5", offset=4), 2, GZIP))


def test_segments_are_read_in_the_order_of_their_offsets(partition: Path) -> None:
    three_segments(partition)
    log = kafkalog.open(partition)
    assert [record.value for record in log] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert [each.sealed for each in log.segments] == [True, True, False]
    assert str(log.topic_partition) == "orders-0"


@pytest.mark.parametrize("start", range(7))
@pytest.mark.parametrize("end", [*range(8), None])
def test_a_range_of_offsets_yields_its_records(partition: Path, start: int, end: int | None) -> None:
    three_segments(partition)
    log = kafkalog.open(partition)
    wanted = list(range(6))[start : 6 if end is None else end]
    assert [record.offset for record in log.records(start, end)] == wanted
    assert [offset for columns in log.columns(start, end) for offset in columns.offset.tolist()] == wanted
    held = [range(batch.base_offset, batch.next_offset) for batch in log.batches(start, end)]
    assert held == [r for r in (range(2), range(2, 3), range(3, 4), range(4, 6)) if set(r) & set(wanted)]


def test_other_files_of_a_partition_are_not_taken_for_segments(partition: Path) -> None:
    three_segments(partition)
    for name in (
        "00000000000000000006.log.deleted",
        "00000000000000000006.log.swap",
        "00000000000000000006.log.cleaned",
        "00000000000000000006.index",
        "leader-epoch-checkpoint",
        "6.log",
    ):
        (partition / name).write_bytes(b"whatever")
    assert len(kafkalog.open(partition).segments) == 3


def test_records_deleted_but_still_in_the_file_are_not_read(partition: Path) -> None:
    three_segments(partition)
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n2\nother 0 9\norders 0 3\n")
    log = kafkalog.open(partition)
    assert log.log_start_offset == 3
    assert [record.offset for record in log.records()] == [3, 4, 5]
    assert [batch.base_offset for batch in log.batches()] == [3, 4]


def test_a_start_offset_checkpoint_older_than_the_first_segment_says_nothing(partition: Path) -> None:
    segment(partition, 7, entries(records(b"7", offset=7), 2))
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    assert kafkalog.open(partition).log_start_offset == 7


def test_a_checkpoint_that_is_damaged_is_named(partition: Path) -> None:
    three_segments(partition)
    (partition.parent / "log-start-offset-checkpoint").write_text("0\n2\norders 0 3\n")
    with pytest.raises(KafkaLogError, match="log-start-offset-checkpoint"):
        _ = kafkalog.open(partition).log_start_offset


def test_the_log_ends_where_compaction_left_its_last_offset(partition: Path) -> None:
    segment(partition, 0, V2Batch([PlainRecord(3)], base_offset=0, last_offset_delta=9).encoded())
    assert kafkalog.open(partition).log_end_offset == 10


def test_a_log_that_is_appended_to_is_read_as_far_as_it_goes(partition: Path) -> None:
    path = segment(partition, 0, entries(records(b"0"), 2))
    log = kafkalog.open(partition)
    assert [record.offset for record in log] == [0]
    with path.open("ab") as file:
        file.write(entries(records(b"1", offset=1), 2))
    assert [record.offset for record in log] == [0, 1]
    assert log.log_end_offset == 2


def test_a_torn_tail_of_the_active_segment_is_its_end(partition: Path) -> None:
    three_segments(partition)
    path = segment(partition, 6, entries(records(b"6", offset=6), 2)[:-1])
    log = kafkalog.open(partition)
    assert outcome(log).error is None
    assert log.log_end_offset == 6
    assert log.segments[-1].log.end_of_data.kind.name == "TORN"
    assert path.stat().st_size > 0


def test_a_torn_tail_of_a_sealed_segment_is_damage_that_names_the_file(partition: Path) -> None:
    three_segments(partition)
    path = partition / "00000000000000000002.log"
    path.write_bytes(path.read_bytes()[:-1])
    found = outcome(kafkalog.open(partition))
    assert found.offsets == [0, 1, 2]
    assert type(found.error) is CorruptRecordError
    assert found.error.path == str(path)


def test_damage_in_one_segment_names_it_after_the_records_before(partition: Path) -> None:
    three_segments(partition)
    path = partition / "00000000000000000002.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = kafkalog.open(partition)
    for walk in (log, column_records(log.columns()), column_records(log.columns(threads=2))):
        found = outcome(walk)
        assert found.offsets == [0, 1, 2]
        assert type(found.error) is CorruptRecordError
        assert (found.error.path, found.error.position) == (str(path), len(data) // 2)


@pytest.mark.parametrize("data", [b"", bytes(100)])
def test_an_active_segment_without_entries_ends_at_its_base(partition: Path, data: bytes) -> None:
    segment(partition, 5, data)
    log = kafkalog.open(partition)
    assert list(log) == []
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_a_partition_without_segments_is_empty(partition: Path) -> None:
    log = kafkalog.open(partition)
    assert list(log) == []
    assert list(log.columns()) == []
    assert list(log.batches()) == []
    assert (log.segments, log.log_start_offset, log.log_end_offset) == ((), 0, 0)


def test_a_directory_that_holds_no_log_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "pictures"
    directory.mkdir()
    (directory / "cat.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(NotALogError, match="pictures") as error:
        kafkalog.open(directory)
    assert error.value.path == str(directory)


def test_a_copied_segment_is_read_from_a_directory_of_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "backup"
    directory.mkdir()
    three_segments(directory)
    assert [record.offset for record in kafkalog.open(directory)] == list(range(6))


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing-0"):
        kafkalog.open(tmp_path / "missing-0")
    assert not (tmp_path / "missing-0").exists()


def test_a_file_is_no_directory(partition: Path) -> None:
    path = segment(partition, 0, b"")
    with pytest.raises(NotADirectoryError):
        kafkalog.open(path)


@pytest.mark.parametrize("mode", ["", "rw", "x", "R"])
def test_an_unknown_mode_is_refused(partition: Path, mode: str) -> None:
    with pytest.raises(ValueError, match="mode"):
        kafkalog.open(partition, mode)  # type: ignore[call-overload]
