"""Mistakes of a program: each is refused, or harmless, and leaves the log unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import kafkalog
from kafkalog import FileMessageSet, IsolationLevel, LogManager, Record, WritableLog
from kafkalog.errors import CorruptCheckpointError, LogStateError, NotALogError
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_dir,
)
from kafkalog.storage.log_config import LogConfig
from tests.helpers.logs import CONFIG, append, bases, crashed, epochs, fill, follow, opened, values

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=10, segment_index_bytes=240)
# A topic that asks something of each record: embedded appends go the leader's way.
LOOKS = LogConfig(segment_index_bytes=2400, message_timestamp_before_max_ms=2**62)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "a-0"


# --- an append whose records change the log


def truncate_and_follow(log: WritableLog) -> None:
    log.truncate_to(2)
    follow(log, 2, b"i", epoch=7)


CHANGES: dict[str, Callable[[WritableLog], object]] = {
    "appends": lambda log: log.append([Record(b"i1"), Record(b"i2")]),
    "appends as a leader": lambda log: append(log, b"i1"),
    "truncates": lambda log: log.truncate_to(1),
    "truncates and appends as much": truncate_and_follow,
    "begins anew": lambda log: log.truncate_fully_and_start_at(3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("config", [CONFIG, LOOKS], ids=["short way", "long way"])
def test_records_that_change_the_log_while_they_are_taken_are_not_appended(
    directory: Path, change: Callable[[WritableLog], object], config: LogConfig
) -> None:
    def records(log: WritableLog) -> Iterator[Record]:
        yield Record(b"a")
        change(log)
        yield Record(b"b")

    with opened(directory, config) as log:
        fill(log, 3)
        with pytest.raises(LogStateError, match="changed the log") as error:
            log.append(records(log))
        after = values(log), log.log_end_offset, epochs(log)
        assert not {b"a", b"b"} & set(values(log))
        assert not list(vars(error.value)["appended"])
        assert [record.offset for record in log] == sorted({record.offset for record in log})
        log.append([Record(b"next")])
        log.close()
    with crashed(directory, config) as again:
        assert values(again) == [*after[0], b"next"]


def test_batches_before_the_one_whose_records_changed_the_log_stay_and_are_reported(directory: Path) -> None:
    def records(log: WritableLog) -> Iterator[Record]:
        yield Record(b"a" * 100)
        yield Record(b"b" * 100)
        yield Record(b"c" * 100)
        log.append([Record(b"inner")])
        yield Record(b"d" * 100)

    with opened(directory) as log:
        with pytest.raises(LogStateError) as error:
            log.append(records(log), max_batch_bytes=200)
        appended = list(vars(error.value)["appended"])
        assert appended
        assert [(value or b"")[:1] for value in values(log)] == [*[b"a", b"b", b"c"][: len(appended)], b"i"]
        assert [record.offset for record in log] == list(range(log.log_end_offset))


@pytest.mark.parametrize("end", [WritableLog.close, WritableLog.abandon, WritableLog.delete])
def test_records_that_close_the_log_while_they_are_taken_are_not_appended(
    directory: Path, end: Callable[[WritableLog], None]
) -> None:
    def records(log: WritableLog) -> Iterator[Record]:
        end(log)
        yield Record(b"a")

    with opened(directory) as log, pytest.raises(LogStateError, match="closed"):
        log.append(records(log))


def test_records_may_come_from_the_log_itself(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 3)
        log.append(log.records(0, 2))
        assert values(log) == [b"0", b"1", b"2", b"0", b"1"]


# --- a process that goes elsewhere


def test_a_log_stays_where_it_was_opened_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A", "B"):
        with kafkalog.open(tmp_path / name / "t-0", "a", SMALL) as log:
            log.append([Record(name.encode())])
    before = {path.name: path.read_bytes() for path in (tmp_path / "B" / "t-0").iterdir()}
    monkeypatch.chdir(tmp_path / "A")
    with kafkalog.open("t-0", "a", SMALL) as log, kafkalog.open("t-0") as reader:
        monkeypatch.chdir(tmp_path / "B")
        for number in range(9):
            log.append([Record(b"%d" % number * 50)])
        assert len(log.segments) > 1
        assert values(reader) == values(log)
        assert log.directory == tmp_path / "A" / "t-0"
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "B" / "t-0").iterdir()}
    with kafkalog.open(tmp_path / "A" / "t-0") as log:
        assert log.count() == 10


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_data_directory_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    kafkalog.open(tmp_path / "A" / "t-0", "a").close()
    monkeypatch.chdir(tmp_path / "A")
    manager = LogManager(".", mode)
    monkeypatch.chdir(tmp_path)
    with manager:
        assert list(manager) == ["t-0"]
        assert manager["t-0"].log_end_offset == 0


# --- arguments


@pytest.mark.parametrize("isolation", ["committed", "", None, 1])
def test_an_isolation_that_is_no_isolation_level_is_refused(directory: Path, isolation: Any) -> None:
    with opened(directory) as log:
        append(log, b"open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        for read in (log.records, log.columns, log.batches, log.count, lambda isolation: log.read(0, 9, isolation)):
            with pytest.raises((TypeError, ValueError), match=r"isolation is .*one of "):
                read(isolation=isolation)
        assert log.count(isolation=IsolationLevel.TXN_COMMITTED) == 0


@pytest.mark.parametrize("isolation", ["txn_committed", "TXN_COMMITTED", "read_committed"])
def test_a_name_stands_for_an_isolation_level(directory: Path, isolation: Any) -> None:
    with opened(directory) as log:
        append(log, b"open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.update_high_watermark(log.log_end_offset)
        for name in ("log_end", "high_watermark", "read_uncommitted"):
            assert log.count(isolation=name) == len(list(log.records(isolation=name))) == 1
        assert log.count(isolation=isolation) == len(list(log.records(isolation=isolation))) == 0


@pytest.mark.parametrize("start", [101, 200, -1])
def test_a_log_start_after_the_end_or_before_0_is_refused(directory: Path, start: int) -> None:
    with opened(directory) as log:
        fill(log, 2)
        with pytest.raises(ValueError, match=f"cannot start at {start}|log_start_offset is {start}"):
            log.truncate_fully_and_start_at(100, start)
        assert values(log) == [b"0", b"1"]


@pytest.mark.parametrize("offset", [-5, 3, 5000])
def test_a_segment_is_begun_at_no_offset_that_the_log_does_not_reach(directory: Path, offset: int) -> None:
    with opened(directory) as log:
        fill(log, 2)
        with pytest.raises(ValueError, match=f"expected_next_offset is {offset}"):
            log.roll(offset)
        log.roll(1)
        fill(log, 1)
        assert (bases(log), values(log)) == ([0, 2], [b"0", b"1", b"2"])


# --- what a log gives out


def test_closing_a_message_set_that_was_read_does_not_close_the_log(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        for end in ("close", "release", "retire"):
            found = log.read(0, 1000).message_set
            getattr(found, end)()
            with cast(FileMessageSet, found):
                assert values(found) == [b"%d" % number for number in range(log.log_end_offset)]
            fill(log, 1)
        log.close()
    with opened(directory) as log:
        assert log.count() == 5


# --- names


@pytest.mark.parametrize("name", ["x-2147483648", "x-99999999999", "x-01", "x-00"])
def test_an_invalid_partition_number_is_refused_before_any_file_is_created(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotALogError, match="<topic>-<number>"):
        kafkalog.open(tmp_path / "data" / name, "a")
    with LogManager(tmp_path / "data", "a") as manager, pytest.raises(ValueError, match=name):
        manager.create(name)
    assert not (tmp_path / "data" / name).exists()
    kafkalog.open(tmp_path / "data" / "x-2147483647", "a").close()
    kafkalog.open(tmp_path / "data" / "x-2147483647", "a").close()


def test_a_directory_with_too_large_a_number_is_no_partition_directory() -> None:
    assert parse_partition_dir("x-2147483648") is None


# --- a data directory's checkpoints


@pytest.mark.parametrize(
    ("name", "then"),
    [
        (RECOVERY_POINT_CHECKPOINT, "read again"),
        (LOG_START_OFFSET_CHECKPOINT, "first segment"),
        (HIGH_WATERMARK_CHECKPOINT, "its end"),
    ],
)
def test_a_damaged_checkpoint_is_named_with_the_effect_of_deleting_it(tmp_path: Path, name: str, then: str) -> None:
    with kafkalog.open(tmp_path / "a-0", "a") as log:
        log.append([Record(b"v")])
    (tmp_path / name).write_text("0\nnonsense\n")
    for open_it in (lambda: kafkalog.open(tmp_path / "a-0", "a"), lambda: LogManager(tmp_path, "a")):
        with pytest.raises(CorruptCheckpointError, match=f"{name}: .*delete it: .*{then}"):
            open_it()
    (tmp_path / name).unlink()
    with kafkalog.open(tmp_path / "a-0", "a") as log:
        assert values(log) == [b"v"]
