"""An append of which only a part is written: files, indexes, log end and producers are as they were before."""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet, LogConfig, Record, WritableLog
from kafkalog.errors import LogStateError
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex
from tests.helpers.making import together

SMALL = LogConfig(index_interval_bytes=0, segment_index_bytes=2400)
PRODUCER_ID = 7
# Two of them do not compress to less than what the system takes.
VALUE = random.Random(1).randbytes(200)


class Struck(BaseException):
    """What a signal handler raises, as that of Ctrl-C."""


def records(log: WritableLog, **options: Any) -> None:
    log.append([Record(VALUE, timestamp=10 * log.log_end_offset)] * 2, **options)


def compressed(log: WritableLog) -> None:
    records(log, compression_type=CompressionType.LZ4)


def produced(log: WritableLog, base_offset: int, count: int = 2) -> ByteBufferMessageSet:
    """Return a batch of an idempotent producer, which follows the last one in the log."""
    entry = log.producer_state.last_entry(PRODUCER_ID)
    last = -1 if entry is None else entry.last_seq
    return ByteBufferMessageSet.from_records(
        [Record(VALUE, timestamp=10 * log.log_end_offset)] * count,
        base_offset=base_offset,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=last + 1 + base_offset - (log.log_end_offset if base_offset else 0),
        partition_leader_epoch=0,
    )


def as_leader(log: WritableLog) -> None:
    log.append_as_leader(produced(log, 0), 0)


def as_follower(log: WritableLog) -> None:
    end = log.log_end_offset
    log.append_as_follower(together(produced(log, end), produced(log, end + 2)))


ROADS: list[Callable[[WritableLog], None]] = [records, compressed, as_leader, as_follower]


def no_space() -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def input_output_error() -> NoReturn:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def signalled() -> None:
    """Send the signal whose handler raises; the system call that it interrupts has done its work."""
    signal.raise_signal(signal.SIGUSR1)


FAILURES: list[Callable[[], None]] = [no_space, input_output_error, signalled]


@pytest.fixture(autouse=True)
def _handler_that_raises() -> Iterator[None]:
    def handler(*_: object) -> NoReturn:
        raise Struck

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


def write_a_part(monkeypatch: pytest.MonkeyPatch, taken: int, fail: Callable[[], None]) -> None:
    """Have the system take `taken` bytes of an append, and fail then."""
    written, write, left = 0, os.pwrite, taken

    def failing(fd: int, data: bytes | bytearray | memoryview, at: int) -> int:
        nonlocal written, left
        if left:
            written = write(fd, data[:left], at)
            left -= written
            if fail is not signalled:
                return written
        fail()
        return written

    monkeypatch.setattr(os, "pwrite", failing)


def state(log: WritableLog) -> list[object]:
    """What may not change: bytes of the log file, index entries, offsets, producers."""
    segment = log.segments[-1]
    entry = log.producer_state.last_entry(PRODUCER_ID)
    return [
        [path.name for path in sorted(log.directory.iterdir())],
        segment.path.read_bytes(),
        list(segment.offset_index),
        list(segment.time_index),
        segment.max_timestamp_and_offset_so_far,
        (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        log.producer_state.map_end_offset,
        None if entry is None else (entry.last_seq, entry.last_data_offset, entry.last_timestamp),
        [record.offset for record in log],
    ]


@pytest.fixture(params=[0, 3], ids=["empty", "filled"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WritableLog]:
    with kafkalog.open(tmp_path / "topic-0", "a", SMALL) as log:
        for _ in range(request.param):
            as_leader(log)
            records(log)
        yield log


def assert_nothing_happened(log: WritableLog, before: list[object], append: Callable[[WritableLog], None]) -> None:
    """The log is as before and takes appends, and what it then holds is found when it is opened again."""
    assert state(log) == before
    end = log.log_end_offset
    append(log)
    assert [record.offset for record in log] == list(range(log.log_end_offset))
    assert log.log_end_offset > end
    log.close()
    with kafkalog.open(log.directory, "a", SMALL) as again:
        assert [record.offset for record in again] == list(range(again.log_end_offset))
        assert again.log_end_offset == log.log_end_offset
        append(again)


@pytest.mark.slow
@pytest.mark.parametrize("append", ROADS)
@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("taken", [0, 100])
def test_a_log_is_as_before_where_the_system_takes_only_a_part_of_an_append(
    log: WritableLog,
    monkeypatch: pytest.MonkeyPatch,
    append: Callable[[WritableLog], None],
    fail: Callable[[], None],
    taken: int,
) -> None:
    before = state(log)
    with monkeypatch.context() as patched:
        write_a_part(patched, taken, fail)
        with pytest.raises((OSError, Struck)):
            append(log)
    assert_nothing_happened(log, before, append)


@pytest.mark.slow
@pytest.mark.parametrize("append", ROADS)
@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("method", [(OffsetIndex, "append"), (TimeIndex, "maybe_append")])
def test_a_log_is_as_before_where_an_index_takes_no_entry(
    log: WritableLog,
    monkeypatch: pytest.MonkeyPatch,
    append: Callable[[WritableLog], None],
    fail: Callable[[], None],
    method: tuple[type, str],
) -> None:
    """The first batch of a segment gets no entry."""
    if not log.log_end_offset:
        records(log)
    before, noted = state(log), getattr(*method)

    def failing(*arguments: object) -> None:
        noted(*arguments)
        fail()

    with monkeypatch.context() as patched:
        patched.setattr(*method, failing)
        with pytest.raises((OSError, Struck)):
            append(log)
    assert_nothing_happened(log, before, append)


@pytest.mark.parametrize("append", ROADS)
def test_a_log_whose_failed_append_cannot_be_taken_back_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, append: Callable[[WritableLog], None]
) -> None:
    log = kafkalog.open(tmp_path / "topic-0", "a", SMALL)
    append(log)
    with monkeypatch.context() as patched:
        patched.setattr(OffsetIndex, "append", lambda *_: no_space())
        patched.setattr(os, "ftruncate", lambda *_: input_output_error())
        with pytest.raises(OSError, match="No space"):
            append(log)
    with pytest.raises(LogStateError, match="open it again before appending"):
        append(log)
    log.abandon()
    with kafkalog.open(tmp_path / "topic-0", "a", SMALL) as again:
        assert [record.offset for record in again] == list(range(again.log_end_offset))


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("taken", [0, 1, 61, 150])
@pytest.mark.parametrize("preallocate_bytes", [0, 4096])
def test_a_file_is_as_before_where_the_system_takes_only_a_part_of_an_append(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[], None],
    taken: int,
    preallocate_bytes: int,
) -> None:
    path = tmp_path / "0.log"
    batch = ByteBufferMessageSet.from_records([Record(VALUE)])
    with FileMessageSet(path, read_only=False, preallocate_bytes=preallocate_bytes) as messages:
        messages.append(batch)
        before = path.read_bytes()
        for source in (batch, messages):
            with monkeypatch.context() as patched:
                write_a_part(patched, taken, fail)
                with pytest.raises((OSError, Struck)):
                    messages.append(source)
            assert path.read_bytes() == before
            assert messages.size_in_bytes == batch.size_in_bytes
        assert messages.append(batch) == batch.size_in_bytes
    assert path.read_bytes() == 2 * bytes(batch.buffer)
