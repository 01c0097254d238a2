"""A partition's directory on a disk of this machine, or mounted on it.

Names, sizes, indexes and a few headers are read.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog._speedups.framing import find_file_entry, scan_file_headers
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.record.message_set import RUN_ROWS
from kafkalog.spark.read.cuts import NO_ENTRIES, SparseIndex
from kafkalog.spark.read.partition_source import LogEnd, PartitionSource, SegmentFile, end_of, segment_file_list
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TopicPartition,
    real_path,
    segment_base_offset,
)
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.log import Log
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.segment.file_message_set import ANY_TIMESTAMP, NO_OFFSET
from kafkalog.storage.segment.log_segment import LogSegment


class LocalPartition(PartitionSource):
    """Segments as they were listed; nothing is written, created or locked."""

    def __init__(self, directory: Path, topic_partition: TopicPartition) -> None:
        """OSError: the directory cannot be listed."""
        self.directory = directory
        self.path = str(directory)
        self.topic_partition = topic_partition
        self.segments, self.swaps = _listed(self.path)
        self._open: LogSegment | None = None

    @cached_property
    def log_start_offset(self) -> int:
        first = self.segments[0].base_offset if self.segments else 0
        checkpoint = real_path(self.directory).parent / LOG_START_OFFSET_CHECKPOINT
        return max(first, read_offset_checkpoint(checkpoint).get(self.topic_partition, first))

    @cached_property
    def log_end(self) -> LogEnd:
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        end = _end_of(self.segments[-1])
        return end._replace(offset=max(end.offset, self.log_start_offset))

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
                runs = _runs(file.fileno(), 0, segment.size)
                epochs = [int(rows["partition_leader_epoch"].max()) for rows, _, _ in runs if len(rows)]
            if epochs:
                return max(epochs)
        return -1

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        found = self._log.offset_for_timestamp(timestamp)
        return None if found is None else found.offset

    @cached_property
    def _log(self) -> Log:
        return ReadOnlyLog(self.directory)

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

    def index_entries(self, segment: SegmentFile) -> NDArray[np.int64]:
        """None of them, where one is wrong."""
        with _index_of(segment) as index, _opened(segment.path) as fd:
            if index is None:
                return NO_ENTRIES
            entries = index.rising(segment.size)
            entries = entries[entries[:, 1] < segment.size]
            right = (_begins(fd, OffsetEntry(*each), segment) for each in entries.tolist())
            return entries if all(right) else NO_ENTRIES

    def headers(self, segment: SegmentFile, start: int, end: int) -> Iterator[NDArray[np.void]]:
        with _opened(segment.path) as fd:
            for rows, _, _ in _runs(fd, start, end):
                yield rows

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
        if "_log" in self.__dict__:
            self._log.close()
            del self._log


def _listed(directory: str) -> tuple[tuple[SegmentFile, ...], tuple[str, ...]]:
    found: list[tuple[int, str, int]] = []
    swaps: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(LOG_SUFFIX) and (base := segment_base_offset(entry.name)) is not None:
                found.append((base, entry.path, entry.stat().st_size))
            elif entry.name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                swaps.append(entry.name)
    return segment_file_list(found), tuple(sorted(swaps))


def _end_of(segment: SegmentFile) -> LogEnd:
    start = _last_indexed(segment)
    with closing(ReadableFile(segment.path)) as file:
        return end_of(file, segment, _runs(file.fileno(), start, segment.size))


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


def _runs(fd: int, start: int, end: int) -> Iterator[tuple[NDArray[np.void], int, int]]:
    """Header rows from `start` on, why the walk stopped, and where."""
    status = framing.LIMIT
    while status == framing.LIMIT and start < end:
        rows, status, start, _, _ = scan_file_headers(fd, start, end, RUN_ROWS)
        yield rows, status, start


def _indexed(segment: SegmentFile, start: int, end: int, target: int) -> list[OffsetEntry]:
    """What the offset index proposes; nothing where there is none."""
    with _index_of(segment) as index:
        return [] if index is None else index.cuts(start, end, target)


@contextmanager
def _index_of(segment: SegmentFile) -> Iterator[SparseIndex | None]:
    """The offset index, open; None where there is none, or something else in its place: it only tells what to try."""
    path = segment.path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
    try:
        file = ReadableFile(path)
    except (FileNotFoundError, NotALogError):
        yield None
        return
    with closing(file):
        fd = file.fileno()
        yield SparseIndex(lambda at, length: os.pread(fd, length, at), file.size, segment.base_offset)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor. OSError. NotALogError: it is no regular file."""
    with closing(ReadableFile(path)) as file:
        yield file.fileno()


def _begins(fd: int, entry: OffsetEntry, segment: SegmentFile) -> bool:
    """Whether a batch that an index entry can mean begins where it says."""
    row, *_ = find_file_entry(fd, entry.position, segment.size, NO_OFFSET, ANY_TIMESTAMP, entry.offset)
    return row is not None and entry.offset < segment.next_base and row[3] >= segment.base_offset


def _walked(fd: int, start: int, end: int, target: int) -> list[int]:
    """Cuts found by walking from header to header, where the index has none."""
    found: list[int] = []
    goal = start + target
    for rows, _, _ in _runs(fd, start, end):
        positions = rows["position"].tolist()
        at = bisect_left(positions, goal)
        while at < len(positions):
            found.append(positions[at])
            goal = positions[at] + target
            at = bisect_left(positions, goal, at)
    return found
