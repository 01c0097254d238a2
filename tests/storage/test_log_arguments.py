"""Invalid arguments are named and change nothing."""

from __future__ import annotations

import io
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

import kafkalog
from kafkalog import IsolationLevel, LogConfig, LogManager, ReadOnlyLog, Record, WritableLog
from kafkalog.errors import NotALogError, OffsetOutOfRangeError, RecordValidationError
from kafkalog.storage.segment.log_segment import LogSegment
from tests.helpers.logs import NOW, append, batch, opened


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append([Record(b"a"), Record(b"b")])
        yield log


@pytest.mark.parametrize("config", [{}, {"segment.bytes": 100}, "segment.bytes=100"])
def test_a_config_of_another_type_is_refused_before_any_file_is_created(tmp_path: Path, config: Any) -> None:
    home = tmp_path / "data"
    for ask in (
        lambda: kafkalog.open(home / "t-0", "a", config),
        lambda: WritableLog.load(home / "t-0", config),
        lambda: LogManager(home, "a", config),
        lambda: LogManager(home, "a", topic_configs={"t": config}),
    ):
        with pytest.raises(TypeError, match=r"config is a LogConfig, as LogConfig\.from_topic_config makes.*, not "):
            ask()
    assert list(tmp_path.iterdir()) == []


def test_a_config_of_another_type_creates_no_partition(tmp_path: Path) -> None:
    with LogManager(tmp_path, "a") as manager:
        with pytest.raises(TypeError, match="config is a LogConfig"):
            manager.create("t-0", {"segment.bytes": 100})  # type: ignore[arg-type]
        assert list(manager) == []


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decompression_limit": -1}, "decompression_limit is -1 bytes"),
        ({"decompression_limit": "1"}, "decompression_limit is a whole number of bytes, not str"),
        ({"config": {}}, "config is a LogConfig"),
    ],
)
def test_invalid_options_of_open_are_named(log: WritableLog, mode: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        kafkalog.open(log.directory, mode, **options)


def test_a_progress_argument_that_is_not_callable_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="progress is a function of bytes done and bytes to do, not int"):
        kafkalog.open(tmp_path / "t-0", "a", progress=3)  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_file_is_no_directory_in_either_mode(tmp_path: Path, mode: Any) -> None:
    (tmp_path / "t-0").touch()
    with pytest.raises(NotADirectoryError):
        kafkalog.open(tmp_path / "t-0", mode)


def test_each_mode_opens_its_class_of_log(log: WritableLog, tmp_path: Path) -> None:
    modes: tuple[Literal["r", "a"], ...] = ("r", "a")
    for mode, kind in zip(modes, (ReadOnlyLog, WritableLog), strict=True):
        with kafkalog.open(tmp_path / f"{mode}-0" if mode == "a" else log.directory, mode) as other:
            assert type(other) is kind


def test_reading_out_of_range_names_the_log(log: WritableLog) -> None:
    for start in (-1, 3):
        with pytest.raises(OffsetOutOfRangeError) as error:
            log.read(start, 100)
        assert error.value.path == str(log.directory)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0, -1), "max_length is -1 bytes"), ((0, "1"), "max_length is a whole"), ((None, 1), "start_offset is a whole")],
)
def test_invalid_arguments_of_read_are_named(log: WritableLog, arguments: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        log.read(*arguments)


def test_isolation_is_given_to_count_by_name_as_to_all_others(log: WritableLog) -> None:
    with pytest.raises(TypeError, match="positional"):
        log.count(0, 2, IsolationLevel.LOG_END)  # type: ignore[call-arg]
    assert log.count(0, 2, isolation=IsolationLevel.HIGH_WATERMARK) == 2


@pytest.mark.parametrize("special", [-5, -6])
def test_special_timestamps_of_remote_storage_have_no_offset(log: WritableLog, special: int) -> None:
    found = log.offset_for_timestamp(special)
    assert found is not None
    assert found.offset == -1


def test_the_error_for_refused_records_names_the_log_and_its_limit(tmp_path: Path) -> None:
    with opened(tmp_path / "t-0", LogConfig(message_timestamp_before_max_ms=50)) as log:
        with pytest.raises(RecordValidationError, match="at most 50 ms before") as error:
            log.append_as_leader(batch(timestamp=NOW - 51), 0)
        assert error.value.path == str(log.directory)
        assert error.value.refused_count == 1


def test_no_segment_of_a_log_that_is_only_read_is_deleted_or_renamed(log: WritableLog) -> None:
    log.roll()
    before = {path.name for path in log.directory.iterdir()}
    with kafkalog.open(log.directory) as reader:
        segment: LogSegment = reader.segments[0]
        with pytest.raises(io.UnsupportedOperation, match=r"cannot delete .*: it was opened for reading"):
            segment.delete_if_exists()
        with pytest.raises(io.UnsupportedOperation, match="cannot rename"):
            segment.change_file_suffixes("", ".deleted")
        assert len(list(reader)) == 2
    assert {path.name for path in log.directory.iterdir()} == before


def test_epochs_and_producers_have_readable_representations(tmp_path: Path) -> None:
    with opened(tmp_path / "t-0") as log:
        assert "no epochs" in repr(log.leader_epochs)
        append(log, b"a", epoch=3, producer_id=1, producer_epoch=0, base_sequence=0)
        append(log, b"a", epoch=5)
        assert "3 from 0, 5 from 1" in repr(log.leader_epochs)
        assert repr(log.producer_state) == "<ProducerStateManager of t-0: 1 producers at 2>"


def test_intervals_can_be_imported_from_the_package() -> None:
    assert kafkalog.Intervals(flush_ms=5).flush_ms == 5


def test_a_data_directory_that_is_named_like_a_partition_is_not_an_empty_log(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "backup-2024" / "orders-0", "a") as log:
        log.append([Record(b"v")])
    with pytest.raises(NotALogError, match="a data directory, not a partition"):
        kafkalog.open(tmp_path / "backup-2024")


@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_partition_is_not_an_empty_data_directory(tmp_path: Path, mode: Literal["r", "a"]) -> None:
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.append([Record(b"v")])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(NotALogError, match="a partition, not a data directory"):
        LogManager(tmp_path / "orders-0", mode)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_negative_end_is_not_an_empty_range(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.append([Record(b"v")] * 3)
        for read in (lambda: list(log[:-1]), lambda: list(log.records(0, -1)), lambda: log.count(end=-1)):
            with pytest.raises(OffsetOutOfRangeError, match="the end is negative"):
                read()
        with pytest.raises(OffsetOutOfRangeError):
            log[2**70]
        assert len(list(log[: 2**70])) == 3


def test_a_closed_or_deleted_log_can_be_printed(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.append([Record(b"v")])
    reader, other = kafkalog.open(tmp_path / "orders-0"), kafkalog.open(tmp_path / "orders-0")
    reader.close()
    shutil.rmtree(tmp_path / "orders-0")
    assert "closed or deleted" in repr(reader)
    assert "closed or deleted" in repr(other)


def test_a_datetime_before_1970_is_not_a_special_timestamp(tmp_path: Path) -> None:
    with kafkalog.open(tmp_path / "orders-0", "a") as log, pytest.raises(ValueError, match="before 1970"):
        log.offset_for_timestamp(datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
