"""Joins the files of all tasks to the log of one partition, in a new directory.

    tasks/0-.../orders-0/....log   offsets 0 1 2      existing log: offsets 0 .. 99
    tasks/1-.../orders-0/....log   offsets 0 1        -> offsets 0 .. 99, 100 101 102, 103 104

The checksum of a batch covers neither its offset nor its leader epoch: both are written into the headers, and nothing
is decompressed. An existing log is not changed: its sealed segments, which are immutable, are hard-linked into the new
directory; other files are copied.
"""

import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog._speedups.framing import scan_headers
from kafkalog.errors import CorruptRecordError, LogStateError
from kafkalog.record.layout import BATCH_LEADER_EPOCH_AT
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.spark.write.task_files import PartitionFile
from kafkalog.storage.append.append_records import FIRST_LEADER_EPOCH
from kafkalog.storage.data_dir.session import Checkpoints
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
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_SEALED_FILES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True)
class Source:
    """A task's file for the partition."""

    path: Path
    file: PartitionFile


@dataclass(frozen=True, slots=True)
class Before:
    """The existing log to append to.

    Attributes:
        directory: Its directory.
        was_clean: Whether its last writer closed it cleanly.
        checkpoints: The checkpoints of its data directory.
    """

    directory: Path
    was_clean: bool
    checkpoints: Checkpoints


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


@dataclass(frozen=True, slots=True)
class Joining:
    """The parameters of a join.

    Attributes:
        directory: The new directory, which does not exist yet.
        final: The directory that it will replace.
        partition: The partition.
        topic_id: The id of its topic.
        segment_bytes: The largest size of a segment.
    """

    directory: Path
    final: Path
    partition: TopicPartition
    topic_id: str
    segment_bytes: int

    def join(self, sources: Iterable[Source], before: Before | None = None) -> JoinedLog:
        """Create the log and flush it.

        Args:
            sources: The files, in order.
            before: The existing log to append to.

        Raises:
            CorruptRecordError: A task's file has changed.
            InconsistentTopicIdError: `before` belongs to another topic.
            LogStateError: `before` has a segment that Kafka would not open.
            OSError: A file was not read or written.
            KafkaLogError: As `kafkalog.open`, if `before` is damaged.
        """
        if before is not None:
            _clone(before, self.directory)
        log = WritableLog.load(self.directory, self._config(), self._opening(before))
        try:
            for source in sources:
                _append(log, source, min(_PIECE_BYTES, self.segment_bytes // 8))
            log.update_high_watermark(log.log_end_offset)
            log.close()
        except BaseException:
            log.abandon()
            raise
        sync_directory(self.directory)
        return JoinedLog(
            self.partition,
            log.recovery_point,
            log.log_start_offset,
            log.high_watermark,
            log.first_base_offset,
            self.directory.stat().st_ino,
            segment_bytes_in(self.final),
        )

    def _config(self) -> LogConfig:
        """Return a config that rolls segments by size alone: rows come in any order of time."""
        return LogConfig(segment_bytes=self.segment_bytes, segment_ms=INT64_MAX, max_message_bytes=INT32_MAX)

    def _opening(self, before: Before | None) -> Opening:
        if before is None:
            return Opening(had_clean_shutdown=True, topic_id=self.topic_id)
        known = before.checkpoints
        return Opening(
            had_clean_shutdown=before.was_clean,
            log_start_offset=known.log_starts.get(self.partition, 0),
            recovery_point=known.recovery_points.get(self.partition, 0),
            topic_id=self.topic_id,
        )


def segment_bytes_in(directory: Path) -> int | None:
    """Return the bytes of all segments; None if the directory does not exist."""
    if not directory.exists():
        return None
    return sum(path.stat().st_size for _, path in segment_files(directory))


def _append(log: WritableLog, source: Source, piece_bytes: int) -> None:
    """Append a task's file with the offsets and the leader epoch of the log."""
    first, epoch = log.log_end_offset, log.leader_epochs.latest_epoch
    for piece, rows in _pieces(source, piece_bytes):
        for at, offset in zip(rows["position"].tolist(), rows["base_offset"].tolist(), strict=True):
            _OFFSET.pack_into(piece, at, first + offset)
            _EPOCH.pack_into(piece, at + BATCH_LEADER_EPOCH_AT, FIRST_LEADER_EPOCH if epoch is None else epoch)
        log.append_as_follower(ByteBufferMessageSet(piece))
    found = log.log_end_offset - first
    if found != source.file.records:
        message = "a task's file has another number of records than the task wrote"
        raise CorruptRecordError(message, str(source.path), None, source.file.records, found)


def _pieces(source: Source, piece_bytes: int) -> Iterator[tuple[bytearray, NDArray[np.void]]]:
    """Yield complete batches of about `piece_bytes` together, with their header table."""
    waiting, left = bytearray(), source.file.size
    with open(source.path, "rb") as file:
        while left and (data := file.read(min(left, piece_bytes))):
            left -= len(data)
            waiting += data
            rows = scan_headers(waiting)[0]
            if len(rows):
                end = int(rows[-1]["position"]) + int(rows[-1]["size_in_bytes"])
                piece, waiting = waiting[:end], waiting[end:]
                yield piece, rows
    if left or waiting:
        message = "a task's file was truncated or ends within a batch"
        raise CorruptRecordError(message, str(source.path), source.file.size - left - len(waiting))


def _clone(before: Before, target: Path) -> None:
    """Create a directory with the same log. If the log may need recovery, all files are copied."""
    segments = segment_files(before.directory)
    for _, path in segments:
        if path.stat().st_size > INT32_MAX:
            what = "the segment is too large for Kafka to open, so nothing is appended to the log"
            raise LogStateError(what, str(path), None, f"at most {INT32_MAX} bytes", path.stat().st_size)
    target.mkdir()
    bases = [base for base, _ in segments][:-1]
    sealed = {offset_file(target, base, suffix).name for base in bases for suffix in _SEALED_FILES}
    for path in sorted(before.directory.iterdir()):
        if path.name.endswith(DELETED_SUFFIX) or not path.is_file():
            continue
        if not (before.was_clean and path.name in sealed and _linked(path, target / path.name)):
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
