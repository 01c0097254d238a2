"""A partition's directory on a disk of this machine, or mounted on it.

Names, sizes, indexes and a few headers are read.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog._speedups.framing import find_file_entry, scan_file_headers
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.search import SoundEntries
from kafkalog.record.message_set import RUN_ROWS
from kafkalog.spark.cuts import SparseIndex
from kafkalog.spark.partition import LogEnd, PartitionSource, SegmentFile, segment_file_list
from kafkalog.spark.window import DAMAGE
from kafkalog.storage.checkpoints import read_offset_checkpoint
from kafkalog.storage.file_message_set import NO_OFFSET, NO_TIMESTAMP
from kafkalog.storage.index import OffsetEntry
from kafkalog.storage.leader_epoch import LeaderEpochCache
from kafkalog.storage.log import Log
from kafkalog.storage.mapped import CLOSE_ON_EXEC, ReadableFile
from kafkalog.storage.paths import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    TopicPartition,
    segment_base_offset,
)
from kafkalog.storage.segment import LogSegment


class LocalPartition(PartitionSource):
    """Segments as they were listed; nothing is written, created or locked."""

    def __init__(self, directory: Path, topic_partition: TopicPartition) -> None:
        """OSError: the directory cannot be listed."""
        self.directory = directory
        self.path = str(directory)
        self.topic_partition = topic_partition
        self.segments = _listed(self.path)
        self._open: LogSegment | None = None

    @cached_property
    def log_start_offset(self) -> int:
        first = self.segments[0].base_offset if self.segments else 0
        checkpoint = self.directory.resolve().parent / LOG_START_OFFSET_CHECKPOINT
        return max(first, read_offset_checkpoint(checkpoint).get(self.topic_partition, first))

    @cached_property
    def log_end(self) -> LogEnd:
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        offset, position = _end_of(self.segments[-1])
        return LogEnd(max(offset, self.log_start_offset), position)

    @cached_property
    def last_stable_offset(self) -> int:
        return self._log.last_stable_offset

    @cached_property
    def leader_epoch(self) -> int:
        known = LeaderEpochCache(self.directory / LEADER_EPOCH_CHECKPOINT, writable=False).latest_epoch
        return self._last_batch_epoch() if known is None else known

    def _last_batch_epoch(self) -> int:
        for segment in reversed(self.segments):
            with closing(ReadableFile(segment.path)) as file:
                runs = _runs(file, 0, segment.size)
                epochs = [int(rows["partition_leader_epoch"].max()) for rows, _, _ in runs if len(rows)]
            if epochs:
                return max(epochs)
        return -1

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        found = self._log.offset_for_timestamp(timestamp)
        return None if found is None else found.offset

    @cached_property
    def _log(self) -> Log:
        return Log(self.directory)

    def span(self, segment: SegmentFile, first: int, end: int) -> tuple[int, int]:
        start, stop = 0, self.end_position(segment)
        known = self._searched(segment)
        try:
            if first > segment.base_offset:
                begin = known.translate_offset(first)
                start = stop if begin is None else min(begin.position, stop)
            if end < segment.next_base and end < self.log_end.offset:
                last = known.translate_offset(end)
                if last is not None:
                    within = last.offset < end
                    stop = min(stop, last.position + (last.size if within else 0))
        except KafkaLogError:
            # Damage on the way: whoever reads it says so, or passes over it.
            return 0, self.end_position(segment)
        return start, max(start, stop)

    def _searched(self, segment: SegmentFile) -> LogSegment:
        """The segment, open to be searched: the last one stays so, because it is mostly asked for again."""
        if self._open is None or self._open.base_offset != segment.base_offset:
            if self._open is not None:
                self._open.close()
            self._open = LogSegment(segment.base_offset, Path(segment.path), sealed=segment.sealed)
        return self._open

    def cuts(self, segment: SegmentFile, start: int, end: int, target: int) -> list[int]:
        if end - start <= target:
            return []
        with _opened(segment.path) as fd:
            found = [each.position for each in _indexed(segment, start, end, target) if _begins(fd, each, segment)]
            edges = [start, *found, end]
            wide = [(a, b) for a, b in pairwise(edges) if b - a > 2 * target]
            for a, b in wide:
                found.extend(_walked(fd, a, b, target))
        return sorted(found)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
        if "_log" in self.__dict__:
            self._log.close()
            del self._log


def _listed(directory: str) -> tuple[SegmentFile, ...]:
    found: list[tuple[int, str, int]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(LOG_SUFFIX) and (base := segment_base_offset(entry.name)) is not None:
                found.append((base, entry.path, entry.stat().st_size))
    return segment_file_list(found)


def _end_of(segment: SegmentFile) -> LogEnd:
    """Where the last segment ends: a torn or zeroed tail is none of it, damage is, for its reader to see."""
    position, offset = _last_indexed(segment), segment.base_offset
    with closing(ReadableFile(segment.path)) as file:
        while True:
            status = framing.END
            for rows, stopped, at in _runs(file, position, segment.size):
                offset = int(rows["last_offset"][-1]) + 1 if len(rows) else offset
                position, status = at, stopped
            if status not in DAMAGE:
                return LogEnd(offset, position)
            behind = SoundEntries(file, segment.size).first(position + 1, segment.size)
            if behind is None:
                return LogEnd(offset, segment.size)
            position = behind


def _last_indexed(segment: SegmentFile) -> int:
    """The position of a batch near the end, as far as the index tells and the batch confirms."""
    known = LogSegment(segment.base_offset, Path(segment.path), sealed=False)
    try:
        found = known.translate_offset(known.offset_index.last_offset)
    except KafkaLogError:
        return 0
    finally:
        known.close()
    return 0 if found is None else found.position


def _runs(file: ReadableFile, start: int, end: int) -> Iterator[tuple[NDArray[np.void], int, int]]:
    """Header rows from `start` on, why the walk stopped, and where."""
    status = framing.LIMIT
    while status == framing.LIMIT:
        rows, status, start, _, _ = scan_file_headers(file.fileno(), start, end, RUN_ROWS)
        yield rows, status, start


def _indexed(segment: SegmentFile, start: int, end: int, target: int) -> list[OffsetEntry]:
    """What the offset index proposes; nothing where there is none."""
    path = segment.path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
    try:
        with _opened(path) as fd:
            size = os.fstat(fd).st_size
            sparse = SparseIndex(lambda at, length: os.pread(fd, length, at), size, segment.base_offset)
            return sparse.cuts(start, end, target)
    except FileNotFoundError:
        return []


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor: a thousand segments are opened while a plan is made."""
    fd = os.open(path, os.O_RDONLY | CLOSE_ON_EXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _begins(fd: int, entry: OffsetEntry, segment: SegmentFile) -> bool:
    """Whether a batch that an index entry can mean begins where it says."""
    row, *_ = find_file_entry(fd, entry.position, segment.size, NO_OFFSET, NO_TIMESTAMP, entry.offset)
    return row is not None and entry.offset < segment.next_base and row[3] >= segment.base_offset


def _walked(fd: int, start: int, end: int, target: int) -> list[int]:
    """Cuts found by walking from header to header, where the index has none."""
    found: list[int] = []
    while True:
        _, status, start, _, _ = scan_file_headers(fd, start, end, -1, target)
        if status != framing.LIMIT or start >= end:
            return found
        found.append(start)
