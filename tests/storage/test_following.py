"""`Log.follow` and `Log.afollow`: records as they come, from this process or another, through every change of a log."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import Log, LogConfig, Record, WritableLog
from kafkalog.errors import LogStateError, LogTruncatedError, OffsetOutOfRangeError

PATIENCE = 20.0


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WritableLog]:
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(file_delete_delay_ms=0)) as made:
        write(made, 3)
        yield made


@pytest.fixture(params=["the log itself", "another reader"])
def reader(request: pytest.FixtureRequest, log: WritableLog) -> Iterator[Log]:
    if request.param == "the log itself":
        yield log
    else:
        with kafkalog.open(log.directory) as other:
            yield other


def write(log: WritableLog, count: int, **options: Any) -> None:
    """Append records, each a batch, whose values are their offsets."""
    for _ in range(count):
        log.append([Record(b"%d" % log.log_end_offset)], **options)


def offsets(records: list[Record]) -> list[int]:
    assert all(record.value == b"%d" % record.offset for record in records)
    return [record.offset for record in records]


def taken(records: Iterator[Record], count: int) -> list[int]:
    return offsets([next(records) for _ in range(count)])


def test_records_are_given_as_they_are_appended(log: WritableLog, reader: Log) -> None:
    found = reader.follow(1, timeout=PATIENCE)
    assert taken(found, 2) == [1, 2]
    write(log, 2)
    log.roll()
    write(log, 2)
    assert taken(found, 4) == [3, 4, 5, 6]


def test_a_record_is_given_soon_after_another_thread_appends_it(log: WritableLog, reader: Log) -> None:
    later = threading.Timer(0.3, write, (log, 1))
    later.start()
    found = reader.follow(3, timeout=PATIENCE)
    assert taken(found, 1) == [3]
    later.join()


def test_the_iterator_ends_when_nothing_came_for_the_timeout(reader: Log) -> None:
    began = time.monotonic()
    assert offsets(list(reader.follow(timeout=0.2))) == [0, 1, 2]
    assert time.monotonic() - began >= 0.2
    assert offsets(list(reader.follow(3, timeout=0))) == []


def test_a_truncation_below_what_was_given_is_an_error(log: WritableLog, reader: Log) -> None:
    found = reader.follow(timeout=PATIENCE)
    assert taken(found, 3) == [0, 1, 2]
    log.truncate_to(1)
    with pytest.raises(LogTruncatedError, match="up to offset 2; its end is 1 now"):
        next(found)


def test_other_records_in_the_place_of_those_given_are_an_error(log: WritableLog, reader: Log) -> None:
    found = reader.follow(timeout=PATIENCE)
    assert taken(found, 3) == [0, 1, 2]
    log.truncate_to(1)
    for _ in range(4):
        log.append([Record(b"other")])
    with pytest.raises(LogTruncatedError):
        next(found)


def test_records_deleted_before_they_were_given_are_an_error(log: WritableLog, reader: Log) -> None:
    found = reader.follow(timeout=PATIENCE)
    assert taken(found, 1) == [0]
    log.truncate_fully_and_start_at(10)
    write(log, 1)
    with pytest.raises(OffsetOutOfRangeError):
        taken(found, 3)


def test_retention_of_all_that_was_not_given_is_an_error(log: WritableLog, reader: Log) -> None:
    found = reader.follow(timeout=PATIENCE)
    assert taken(found, 3) == [0, 1, 2]
    write(log, 3)
    log.truncate_fully_and_start_at(6)
    with pytest.raises(OffsetOutOfRangeError, match="deleted before they were read"):
        next(found)


@pytest.mark.parametrize("start", [0, 9])
def test_a_start_out_of_range_is_refused_or_replaced(log: WritableLog, reader: Log, start: int) -> None:
    log.update_high_watermark(3)
    log.delete_records(1)
    write(log, 1)
    if isinstance(reader, WritableLog):
        with pytest.raises(OffsetOutOfRangeError):
            reader.follow(start)
        assert offsets(list(reader.follow(start, timeout=0, on_out_of_range="earliest"))) == [1, 2, 3]
    assert offsets(list(reader.follow(9, timeout=0, on_out_of_range="latest"))) == []
    with pytest.raises(ValueError, match="on_out_of_range is 'newest'"):
        reader.follow(on_out_of_range="newest")  # type: ignore[arg-type]


def test_only_committed_records_are_given_once_they_are_committed(log: WritableLog) -> None:
    log.update_high_watermark(2)
    found = log.follow(timeout=0.1, isolation="high_watermark")
    assert taken(found, 2) == [0, 1]
    log.update_high_watermark(3)
    assert taken(found, 1) == [2]
    assert list(found) == []


def test_a_log_that_is_closed_ends_it_with_an_error(log: WritableLog) -> None:
    found = log.follow(timeout=PATIENCE)
    assert taken(found, 3) == [0, 1, 2]
    log.close()
    with pytest.raises(LogStateError):
        next(found)


def test_other_tasks_run_while_a_task_waits_for_records(log: WritableLog, reader: Log) -> None:
    async def follow() -> list[Record]:
        async with aclosing(reader.afollow(1, timeout=PATIENCE)) as found:  # type: ignore[type-var]
            return [record async for record in _first(found, 4)]

    async def append() -> None:
        for _ in range(2):
            await asyncio.sleep(0.05)
            write(log, 1)

    async def both() -> list[Record]:
        found, _ = await asyncio.gather(follow(), append())
        return found

    assert offsets(asyncio.run(both())) == [1, 2, 3, 4]


async def _first(found: Any, count: int) -> Any:
    async for record in found:
        yield record
        count -= 1
        if not count:
            return
