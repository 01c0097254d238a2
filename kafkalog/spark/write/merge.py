"""Joins the files of all tasks to the log of one partition, in a new directory.

    tasks/0-.../orders-0/....log   offsets 0 1 2      existing log: offsets 0 .. 99
    tasks/1-.../orders-0/....log   offsets 0 1        -> offsets 0 .. 99, 100 101 102, 103 104

The checksum of a batch covers neither its offset nor its leader epoch: both are written into the headers, and nothing
is decompressed. An existing log is not changed: its sealed segments, which are immutable, are hard-linked into the new
directory; other files are copied.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog._speedups.framing import scan_headers
from kafkalog.errors import CorruptRecordError, LogStateError
from kafkalog.record.batch_headers import set_last_offsets, set_leader_epoch
from kafkalog.record.framing import end_of
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.spark.write.task_files import PartitionFile
from kafkalog.storage.append.append_records import FIRST_LEADER_EPOCH
from kafkalog.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    TopicPartition,
    offset_file,
    segment_files,
)
from kafkalog.storage.files.durable import naming, sync_directory
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.unified_log import Opening, WritableLog

_PIECE_BYTES = 1 << 20
_SEALED_FILES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True)
class JoinedLog:
    """The offsets of a joined log for the checkpoints, and the inode of its directory, which identifies it.

    Attributes:
        replaces_bytes: The size of the segments that it replaces; None if it replaces nothing.
    """

    topic_partition: TopicPartition
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    first_base_offset: int
    inode: int
    replaces_bytes: int | None


def join(
    partition: TopicPartition,
    sources: Iterable[tuple[Path, PartitionFile]],
    directory: Path,
    final: Path,
    *,
    opening: Opening,
    segment_bytes: int,
    appends: bool,
) -> JoinedLog:
    """Create the log of a partition and flush it.

    Args:
        partition: The partition.
        sources: The files of tasks, in order, and what the tasks wrote to them.
        directory: The new directory, which does not exist yet.
        final: The directory that it will replace.
        opening: How to open the log.
        segment_bytes: The largest size of a segment.
        appends: Whether the log continues the one in `final`.

    Raises:
        CorruptRecordError: A task's file has changed.
        InconsistentTopicIdError: The log in `final` belongs to another topic.
        LogStateError: The log in `final` has a segment that Kafka would not open.
        OSError: A file was not read or written.
        KafkaLogError: As `kafkalog.open`, if the log in `final` is damaged.
    """
    if appends:
        _clone(final, directory, was_clean=opening.had_clean_shutdown)
    # Segments roll by size alone, because rows come in any order of time.
    config = LogConfig(segment_bytes=segment_bytes, segment_ms=INT64_MAX, max_message_bytes=INT32_MAX)
    log = WritableLog.load(directory, config, opening)
    try:
        for path, written in sources:
            _append(log, path, written, min(_PIECE_BYTES, segment_bytes // 8))
        log.update_high_watermark(log.log_end_offset)
        log.close()
    except BaseException:
        log.abandon()
        raise
    sync_directory(directory)
    return JoinedLog(
        partition,
        log.recovery_point,
        log.log_start_offset,
        log.high_watermark,
        log.first_base_offset,
        directory.stat().st_ino,
        segment_bytes_in(final),
    )


def segment_bytes_in(directory: Path) -> int | None:
    """Return the bytes of all segments; None if the directory does not exist."""
    if not directory.exists():
        return None
    return sum(path.stat().st_size for _, path in segment_files(directory))


def _append(log: WritableLog, path: Path, written: PartitionFile, piece_bytes: int) -> None:
    """Append a task's file with the offsets and the leader epoch of the log."""
    first, epoch = log.log_end_offset, log.leader_epochs.latest_epoch
    for piece, rows in _pieces(path, written.size, piece_bytes):
        set_last_offsets(piece, rows, first + rows["last_offset"])
        set_leader_epoch(piece, rows, FIRST_LEADER_EPOCH if epoch is None else epoch)
        log.append_as_follower(ByteBufferMessageSet(piece))
    found = log.log_end_offset - first
    if found != written.records:
        message = "a task's file has another number of records than the task wrote"
        raise CorruptRecordError(message, str(path), None, written.records, found)


def _pieces(path: Path, size: int, piece_bytes: int) -> Iterator[tuple[bytearray, NDArray[np.void]]]:
    """Yield complete batches of about `piece_bytes` together, with their header table."""
    waiting, left = bytearray(), size
    with open(path, "rb") as file:
        while left and (data := file.read(min(left, piece_bytes))):
            left -= len(data)
            waiting += data
            rows = scan_headers(waiting)[0]
            if len(rows):
                end = end_of(rows)
                piece, waiting = waiting[:end], waiting[end:]
                yield piece, rows
    if left or waiting:
        message = "a task's file was truncated or ends within a batch"
        raise CorruptRecordError(message, str(path), size - left - len(waiting))


def _clone(source: Path, target: Path, *, was_clean: bool) -> None:
    """Create a directory with the same log. If the log may need recovery, all files are copied."""
    segments = segment_files(source)
    for _, path in segments:
        if path.stat().st_size > INT32_MAX:
            what = "the segment is too large for Kafka to open, so nothing is appended to the log"
            raise LogStateError(what, str(path), None, f"at most {INT32_MAX} bytes", path.stat().st_size)
    target.mkdir()
    bases = [base for base, _ in segments][:-1]
    sealed = {offset_file(target, base, suffix).name for base in bases for suffix in _SEALED_FILES}
    for path in sorted(source.iterdir()):
        if path.name.endswith(DELETED_SUFFIX) or not path.is_file():
            continue
        if not (was_clean and path.name in sealed and _linked(path, target / path.name)):
            _copy(path, target / path.name)


def _linked(path: Path, to: Path) -> bool:
    """Create a hard link. Return False if the file system does not support it."""
    try:
        to.hardlink_to(path)
    except OSError:
        return False
    return True


def _copy(path: Path, to: Path) -> None:
    shutil.copy2(path, to)
    with open(to, "rb") as file, naming(to):
        os.fsync(file.fileno())
