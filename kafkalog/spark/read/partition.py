"""The directory of a partition as the planner sees it, on a disk or in an object store.

00000000000000000000.log | 00000000000000004096.log | 00000000000000008192.log (the last one: it may still grow)
^ log start offset                                                        ^ log end: offset, and position there
            |          |          cuts: positions where a batch begins, about as far apart as a task should read

The planner reads the listing, the indexes and a few headers. It writes, creates and locks nothing. An index entry is a
hint: on a disk the planner checks the batch before it cuts a segment there. In a store each check is a request, so the
task that reads the split checks it. The last stable offset and offsets by timestamp come from `ReadOnlyLog`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog._speedups.framing import find_file_entry, scan_file_headers
from kafkalog.errors import CorruptIndexError, KafkaLogError
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.walk import Run, Source, Tail, walk
from kafkalog.record.message_set import RUN_ROWS
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
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.index.offset_index import OffsetEntry, OffsetIndex, entries_near
from kafkalog.storage.read.log_scan import NO_END
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import RemotePath
from kafkalog.storage.segment.file_message_set import ANY_TIMESTAMP, NO_OFFSET
from kafkalog.storage.segment.log_segment import LogSegment

# The number of indexes that are fetched from a store at once.
_INDEXES_AT_ONCE = 32
NO_ENTRIES = np.empty((0, 2), np.int64)

# Tells whether a partition is to be read.
Wanted: TypeAlias = Callable[[TopicPartition], bool]


class SegmentFile(NamedTuple):
    """A `.log` file.

    Attributes:
        base_offset: The base offset of the segment.
        path: The path of the file.
        size: The size when the directory was listed, bytes.
        next_base: The base offset of the next segment.
        sealed: Whether another segment follows, so that nothing is appended any more.
    """

    base_offset: int
    path: Path
    size: int
    next_base: int = NO_END
    sealed: bool = False

    @property
    def index_path(self) -> Path:
        """The path of the offset index, which need not exist."""
        return self.path.with_name(self.path.name.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX)


class LogEnd(NamedTuple):
    """The end of a log.

    Attributes:
        offset: The offset of the next record.
        position: The position in the last segment where the data ends, bytes.
        torn: The size of a torn tail after `position`, bytes; 0 for a zeroed tail.
    """

    offset: int
    position: int
    torn: int = 0


class Partition:
    """The directory of one partition, as it was when it was listed.

    Attributes:
        directory: The path of the directory.
        topic_partition: The partition in it.
        segments: The segments, in the order of their base offsets.
        swaps: The names of the swap files that compaction or splitting left. A broker completes the swap when it
            starts.
    """

    def __init__(self, directory: Path, topic_partition: TopicPartition) -> None:
        """List the directory.

        Raises:
            OSError: The directory was not listed.
        """
        self.directory = directory
        self.path = str(directory)
        self.topic_partition = topic_partition
        self.segments, self.swaps = _listed(directory)
        self._open: LogSegment | None = None
        self._fetched: set[Path] = set()

    # --- start and end

    @cached_property
    def log_start_offset(self) -> int:
        """The first offset that a consumer gets."""
        first = self.segments[0].base_offset if self.segments else 0
        checkpoint = real_path(self.directory).parent / LOG_START_OFFSET_CHECKPOINT
        return max(first, read_offset_checkpoint(checkpoint).get(self.topic_partition, first))

    @cached_property
    def log_end(self) -> LogEnd:
        """The end of the last complete batch. Unlike the read-only log's, it is after damage, which a task reports."""
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        segment = self.segments[-1]
        with closing(open_source(segment.path)) as source:
            end = _end_of(source, segment, _runs(source, self._last_indexed(segment), segment.size))
        return end._replace(offset=max(end.offset, self.log_start_offset))

    @cached_property
    def last_stable_offset(self) -> int:
        """The offset before which all transactions have ended."""
        return self._log.last_stable_offset

    @cached_property
    def leader_epoch(self) -> int:
        """The latest known leader epoch; -1 if there is none."""
        known = LeaderEpochCache(self.directory / LEADER_EPOCH_CHECKPOINT, writable=False).latest_epoch
        if known is not None:
            return known
        # A store would have to deliver the whole segment.
        return -1 if isinstance(self.directory, RemotePath) else self._last_batch_epoch()

    def _last_batch_epoch(self) -> int:
        for segment in reversed(self.segments):
            epochs = [int(rows["partition_leader_epoch"].max()) for rows in self.headers(segment, 0, segment.size)]
            if epochs:
                return max(epochs)
        return -1

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """Return the offset of the first record with this timestamp (ms) or a later one; None if there is none."""
        found = self._log.offset_for_timestamp(timestamp)
        return None if found is None else found.offset

    @cached_property
    def _log(self) -> ReadOnlyLog:
        return ReadOnlyLog(self.directory)

    def end_offset(self, *, committed: bool) -> int:
        """Return the offset after the last one that a reader sees.

        Args:
            committed: Whether the reader sees committed records only.
        """
        return min(self.log_end.offset, self.last_stable_offset) if committed else self.log_end.offset

    def end_position(self, segment: SegmentFile) -> int:
        """Return the position where the data of a segment ends, bytes."""
        return segment.size if segment.sealed else self.log_end.position

    def remarks(self) -> Iterator[str]:
        """Yield warnings about data that is skipped without an error."""
        end = self.log_end
        if end.torn:
            path = self.segments[-1].path
            yield f"{path}: position {end.position}: the last {end.torn} bytes are no whole batch and are not read"
        for name in self.swaps:
            yield (
                f"{self.path}/{name} is not read: compaction or splitting did not end; a broker puts it in place when "
                "it starts, as kafkalog.open(path, 'a') does"
            )

    # --- positions of batches in a segment

    def span(self, segment: SegmentFile, first: int, end: int) -> tuple[int, int]:
        """Return two positions between which all batches with offsets first <= offset < end begin.

        Args:
            segment: The segment.
            first: The first offset.
            end: The offset after the last one.

        Returns:
            Start and end, bytes; all of the segment if it is damaged there.
        """
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
            # The task that reads the damaged range reports it or skips it.
            return 0, self.end_position(segment)
        return start, max(start, stop)

    def _searched(self, segment: SegmentFile) -> LogSegment:
        """Return a segment for searches. The last one is kept, as the next search is mostly in it."""
        if self._open is None or self._open.base_offset != segment.base_offset:
            self._open = LogSegment(segment.base_offset, segment.path, sealed=segment.sealed)
        return self._open

    def _last_indexed(self, segment: SegmentFile) -> int:
        """Return the position of a batch near the end, by the last index entry that a batch confirms; else 0."""
        known = self._searched(segment)
        try:
            found = known.translate_offset(known.offset_index.last_offset)
        except KafkaLogError:
            return 0
        return 0 if found is None else found.position

    def cuts(self, segment: SegmentFile, start: int, end: int, target: int) -> list[int]:
        """Return positions where the range of a segment can be cut.

        Args:
            segment: The segment.
            start: The start of the range, bytes.
            end: The end of the range, bytes.
            target: The distance wanted between two cuts, bytes.

        Returns:
            Rising positions in (start, end). On a disk a batch begins at each. In a store they are index entries, not
            checked, and may be farther apart than `target`.
        """
        if end - start <= target:
            return []
        self._fetch_ahead(segment, target)
        pieces = -(-(end - start) // target)
        goals = [start + (end - start) * k // pieces for k in range(1, pieces)]
        try:
            near = entries_near(segment.index_path, segment.base_offset, goals)
        except CorruptIndexError:
            near = []
        indexed = [each for each in near if start < each.position < end]
        if isinstance(segment.path, RemotePath):
            return [each.position for each in indexed]
        with closing(open_source(segment.path)) as source:
            found = [each.position for each in indexed if _begins(source, each, segment)]
            wide = [(a, b) for a, b in pairwise([start, *found, end]) if b - a > 2 * target]
            for a, b in wide:
                found.extend(_walked(source, a, b, target))
        return sorted(found)

    def _fetch_ahead(self, segment: SegmentFile, target: int) -> None:
        """Fetch the index from a store together with the indexes of the next large segments, as one round trip."""
        path = segment.index_path
        if isinstance(path, RemotePath) and path not in self._fetched:
            following = self.segments[self.segments.index(segment) :]
            paths = [each.index_path for each in following if each.size > target][:_INDEXES_AT_ONCE]
            path.fetch_together(each.name for each in paths)
            self._fetched.update(paths)

    def index_entries(self, segment: SegmentFile) -> NDArray[np.int64]:
        """Return the entries of an offset index.

        Returns:
            (Offset, position) of each entry, rising, int64, shape (n, 2); no entries if one of them is wrong.
        """
        try:
            entries = OffsetIndex(segment.index_path, segment.base_offset, writable=False).rows()
        except CorruptIndexError:
            return NO_ENTRIES
        entries = entries[entries[:, 1] < segment.size]
        if isinstance(segment.path, RemotePath):
            return entries
        with closing(open_source(segment.path)) as source:
            right = (_begins(source, OffsetEntry(*each), segment) for each in entries.tolist())
            return entries if all(right) else NO_ENTRIES

    def headers(self, segment: SegmentFile, start: int, end: int) -> Iterator[NDArray[np.void]]:
        """Yield rows of the header table for the batches that begin in [start, end), up to the first damaged one."""
        with closing(open_source(segment.path)) as source:
            for rows, _, _ in _runs(source, start, end):
                if len(rows):
                    yield rows

    def close(self) -> None:
        """Close the open files."""
        if self._open is not None:
            self._open.close()
            self._open = None
        if "_log" in self.__dict__:
            self._log.close()
            del self._log


def _listed(directory: Path) -> tuple[tuple[SegmentFile, ...], tuple[str, ...]]:
    found: list[tuple[int, Path, int]] = []
    swaps: list[str] = []
    for path in directory.iterdir():
        if path.name.endswith(LOG_SUFFIX) and (base := segment_base_offset(path.name)) is not None:
            found.append((base, path, path.stat().st_size))
        elif path.name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            swaps.append(path.name)
    found.sort(key=lambda each: each[0])
    sealed = [SegmentFile(*each, following[0], sealed=True) for each, following in pairwise(found)]
    return (*sealed, *(SegmentFile(*each) for each in found[-1:])), tuple(sorted(swaps))


def _runs(source: ByteSource, start: int, end: int) -> Iterator[tuple[NDArray[np.void], int, int]]:
    """Yield header rows from `start` on, the status with which each scan stopped, and its position."""
    status = framing.LIMIT
    while status == framing.LIMIT and start < end:
        rows, status, start, _, _ = scan_file_headers(source.scanned, start, end, RUN_ROWS)
        yield rows, status, start


def _begins(source: ByteSource, entry: OffsetEntry, segment: SegmentFile) -> bool:
    """Return whether a batch that fits an index entry begins at its position."""
    row, *_ = find_file_entry(source.scanned, entry.position, segment.size, NO_OFFSET, ANY_TIMESTAMP, entry.offset)
    return row is not None and entry.offset < segment.next_base and row[3] >= segment.base_offset


def _walked(source: ByteSource, start: int, end: int, target: int) -> list[int]:
    """Return cuts found in the headers of a range without index entries."""
    found: list[int] = []
    goal = start + target
    for rows, _, _ in _runs(source, start, end):
        positions = rows["position"].tolist()
        at = bisect_left(positions, goal)
        while at < len(positions):
            found.append(positions[at])
            goal = positions[at] + target
            at = bisect_left(positions, goal, at)
    return found


def _end_of(source: Source, segment: SegmentFile, runs: Iterable[tuple[NDArray[np.void], int, int]]) -> LogEnd:
    """Find the end of the last segment. A torn or zeroed tail is after the end, damage is before it.

    Args:
        source: The file of the segment.
        segment: The segment; bytes after its `size` are not read.
        runs: Results of scans, from a batch near the end on: header rows, the status with which the scan stopped, and
            its position.
    """
    start, offset, end = 0, segment.base_offset, segment.size
    claimed = np.empty(0, np.int64)
    for rows, status, position in runs:
        end = position if status == framing.ZEROED else end
        if not len(rows):
            start = start or position
            continue
        start = int(rows["position"][-1])
        before = np.concatenate([claimed, rows["last_offset"][:-1]])
        claimed = rows["last_offset"][-1:]
        own = before[before >= segment.base_offset]
        offset = int(own[-1]) + 1 if len(own) else offset
    # The size field of the last batch may be damaged and point beyond other batches, or beyond the end.
    found = _end_from(source, segment, range(start, end), offset)
    # If the only batch scanned is damaged, the batches before it give the end.
    return found if found.offset > segment.base_offset else _end_from(source, segment, range(end), offset)


def _end_from(source: Source, segment: SegmentFile, positions: range, offset: int) -> LogEnd:
    """Find the end of the segment in a range of positions.

    Args:
        source: The file of the segment.
        segment: The segment.
        positions: The range to scan, bytes.
        offset: The end offset of the batches before the range.
    """
    bounds = Bounds(segment.base_offset)
    for item in walk(source, bounds, positions.start, positions.stop):
        if isinstance(item, Run):
            own = item.rows["last_offset"][bounds.inside(item.rows)]
            # Damage: the last offset of a batch is before its base offset.
            own = own[own >= segment.base_offset]
            offset = int(own[-1]) + 1 if len(own) else offset
        elif isinstance(item, Tail) or (item.why.status == framing.TORN and not item.followed):
            return LogEnd(offset, item.start, item.end - item.start if item.why.status == framing.TORN else 0)
    return LogEnd(offset, positions.stop)
