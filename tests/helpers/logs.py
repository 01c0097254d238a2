"""Logs to append to in tests: their clock stands still, and scheduled tasks run at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from kafkalog import ByteBufferMessageSet, IsolationLevel, Log, Record, WritableLog
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.config import LogConfig
from kafkalog.storage.paths import offset_file
from kafkalog.storage.producer_snapshot import read_snapshot
from kafkalog.storage.scheduler import ImmediateScheduler
from kafkalog.storage.segment import LogSegment
from kafkalog.storage.writable_log import Opening
from tests.helpers.making import Clock

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
# Small indexes with an entry for nearly every batch: a few kilobytes show what gigabytes would.
CONFIG = LogConfig(segment_bytes=1 << 20, segment_index_bytes=2400, index_interval_bytes=10)
EVERYTHING = 1 << 24


@contextmanager
def opened(directory: Path, config: LogConfig = CONFIG, **opening: Any) -> Iterator[WritableLog]:
    """Open a log; abandon it in the end, as a crash would, unless the test has closed it."""
    settings: dict[str, Any] = {
        "had_clean_shutdown": True,
        "clock": Clock(NOW),
        "scheduler": ImmediateScheduler(),
    } | opening
    log = WritableLog.load(directory, config, Opening(**settings))
    try:
        yield log
    finally:
        log.abandon()


def crashed(directory: Path, config: LogConfig = CONFIG, **opening: Any) -> AbstractContextManager[WritableLog]:
    """Open a log whose last writer did not close it."""
    return opened(directory, config, had_clean_shutdown=False, **opening)


def batch(*values: bytes | None, timestamp: int = NOW, **settings: Any) -> ByteBufferMessageSet:
    """Return a batch as a client sends it: format 2, offsets from 0 on."""
    records = [Record(value, timestamp=timestamp) for value in values or (b"hello",)]
    return ByteBufferMessageSet.from_records(records, **settings)


def append(log: WritableLog, *values: bytes | None, epoch: int = 0, **settings: Any) -> int:
    """Append one batch as the leader; return its first offset."""
    return log.append_as_leader(batch(*values, **settings), epoch).first_offset


def fill(log: WritableLog, count: int, **settings: Any) -> None:
    """Append `count` batches of one record, whose values are numbers."""
    for number in range(log.log_end_offset, log.log_end_offset + count):
        append(log, b"%d" % number, **settings)


def follow(log: WritableLog, base_offset: int, *values: bytes | None, epoch: int = 0, **settings: Any) -> None:
    """Append as a follower a batch of a leader of that epoch."""
    settings = {"partition_leader_epoch": epoch} | settings
    log.append_as_follower(batch(*values, base_offset=base_offset, **settings))


def replicated(log: WritableLog) -> None:
    """Raise the high watermark to the end of the log."""
    log.update_high_watermark(log.log_end_offset)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def active(log: Log) -> LogSegment:
    return log.segments[-1]


def values(messages: MessageSet | Log) -> list[bytes | None]:
    return [record.value for record in messages]


def seen(log: Log, start: int, isolation: IsolationLevel = IsolationLevel.LOG_END, size: int = EVERYTHING) -> list[int]:
    """Return the offsets of one read."""
    return [record.offset for record in log.read(start, size, isolation).message_set]


def epochs(log: Log) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries]


def snapshots(log: Log) -> list[int]:
    return sorted(int(path.name.partition(".")[0]) for path in log.directory.glob("*.snapshot"))


def producers_in(log: Log, offset: int) -> list[int]:
    return sorted(entry.producer_id for entry in read_snapshot(offset_file(log.directory, offset, ".snapshot")))


def files(directory: Path, ending: str = "") -> dict[str, bytes]:
    """Return the content of each file by its name."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.name.endswith(ending)}


def names(directory: Path, ending: str = "") -> list[str]:
    """Return the names of the files, some of which a thread may be deleting."""
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(ending))
