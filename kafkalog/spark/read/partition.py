"""A partition's directory as the planner sees it, on a disk or in a store.

00000000000000000000.log | 00000000000000004096.log | 00000000000000008192.log (the last one: it may still grow)
^ log start offset                                                        ^ log end: offset, and position there
            |          |          cuts: positions where a batch begins, about as far apart as a task should read

A listing, indexes and a few headers are read, nothing is written, created or locked. What an index says is a hint: on a
disk the batch is looked at before a segment is cut there; in a store, where each look is a request, whoever reads does
that. The watermarks that take more are those of the read-only log.
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

# So many indexes are fetched from a store together.
_INDEXES_AT_ONCE = 32
NO_ENTRIES = np.empty((0, 2), np.int64)

# Whether a partition is to be read.
Wanted: TypeAlias = Callable[[TopicPartition], bool]


class SegmentFile(NamedTuple):
    """A `.log` file: its base offset, its path, its size (bytes) when it was listed, and the next one's base.

    sealed: another segment follows, so that nothing is appended any more.
    """

    base_offset: int
    path: Path
    size: int
    next_base: int = NO_END
    sealed: bool = False

    @property
    def index_path(self) -> Path:
        """Where its offset index is, if it has one."""
        return self.path.with_name(self.path.name.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX)


class LogEnd(NamedTuple):
    """The offset of the next record, and where in the last segment (bytes) there is nothing more to read.

    torn: bytes behind it that are no whole batch, other than zeros.
    """

    offset: int
    position: int
    torn: int = 0


class Partition:
    """The directory of one partition, as it was when it was listed.

    Attributes:
        directory: Its path.
        topic_partition: What is in it.
        segments: In order.
        swaps: The names of segments that compaction or splitting left under their temporary name, which a broker puts
            in place when it starts.
    """

    def __init__(self, directory: Path, topic_partition: TopicPartition) -> None:
        """OSError: the directory cannot be listed."""
        self.directory = directory
        self.path = str(directory)
        self.topic_partition = topic_partition
        self.segments, self.swaps = _listed(directory)
        self._open: LogSegment | None = None
        self._fetched: set[Path] = set()

    # --- where it begins and ends

    @cached_property
    def log_start_offset(self) -> int:
        """The first offset a consumer gets."""
        first = self.segments[0].base_offset if self.segments else 0
        checkpoint = real_path(self.directory).parent / LOG_START_OFFSET_CHECKPOINT
        return max(first, read_offset_checkpoint(checkpoint).get(self.topic_partition, first))

    @cached_property
    def log_end(self) -> LogEnd:
        """Behind the last whole batch; unlike the read-only log's, behind damage, which is for its reader to see."""
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        segment = self.segments[-1]
        with closing(open_source(segment.path)) as source:
            end = _end_of(source, segment, _runs(source, _last_indexed(segment), segment.size))
        return end._replace(offset=max(end.offset, self.log_start_offset))

    @cached_property
    def last_stable_offset(self) -> int:
        """Every transaction before it is decided."""
        return self._log.last_stable_offset

    @cached_property
    def leader_epoch(self) -> int:
        """The latest that is known; -1 where none is."""
        known = LeaderEpochCache(self.directory / LEADER_EPOCH_CHECKPOINT, writable=False).latest_epoch
        if known is not None:
            return known
        # All of a segment would have to be fetched.
        return -1 if isinstance(self.directory, RemotePath) else self._last_batch_epoch()

    def _last_batch_epoch(self) -> int:
        for segment in reversed(self.segments):
            epochs = [int(rows["partition_leader_epoch"].max()) for rows in self.headers(segment, 0, segment.size)]
            if epochs:
                return max(epochs)
        return -1

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """The first record whose timestamp (ms) is that or more; None where there is none."""
        found = self._log.offset_for_timestamp(timestamp)
        return None if found is None else found.offset

    @cached_property
    def _log(self) -> ReadOnlyLog:
        return ReadOnlyLog(self.directory)

    def end_offset(self, *, committed: bool) -> int:
        """The offset after the last that a reader sees."""
        return min(self.log_end.offset, self.last_stable_offset) if committed else self.log_end.offset

    def end_position(self, segment: SegmentFile) -> int:
        """Where there is nothing more to read in a segment, bytes."""
        return segment.size if segment.sealed else self.log_end.position

    def remarks(self) -> Iterator[str]:
        """What a reader leaves out without an error, and yet should know of."""
        end = self.log_end
        if end.torn:
            path = self.segments[-1].path
            yield f"{path}: position {end.position}: the last {end.torn} bytes are no whole batch and are not read"
        for name in self.swaps:
            yield (
                f"{self.path}/{name} is not read: compaction or splitting did not end; a broker puts it in place when "
                "it starts, as kafkalog.open(path, 'a') does"
            )

    # --- where batches lie in a segment

    def span(self, segment: SegmentFile, first: int, end: int) -> tuple[int, int]:
        """Positions in a segment between which all batches with offsets first <= offset < end begin."""
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
            self._open = LogSegment(segment.base_offset, segment.path, sealed=segment.sealed)
        return self._open

    def cuts(self, segment: SegmentFile, start: int, end: int, target: int) -> list[int]:
        """Positions in (start, end) where batches begin, about `target` bytes apart, as far as is known."""
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
        """Fetch its index from a store with those of the next segments that are to be cut, which takes as long."""
        path = segment.index_path
        if isinstance(path, RemotePath) and path not in self._fetched:
            following = self.segments[self.segments.index(segment) :]
            paths = [each.index_path for each in following if each.size > target][:_INDEXES_AT_ONCE]
            path.fetch_together(each.name for each in paths)
            self._fetched.update(paths)

    def index_entries(self, segment: SegmentFile) -> NDArray[np.int64]:
        """(Offset, position) of its index's entries, rising, shape (n, 2); none of them, where one is wrong."""
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
        """Header rows of the batches that begin in [start, end), up to the first that is damaged."""
        with closing(open_source(segment.path)) as source:
            for rows, _, _ in _runs(source, start, end):
                if len(rows):
                    yield rows

    def close(self) -> None:
        """Let go of open files."""
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


def _last_indexed(segment: SegmentFile) -> int:
    """Return the position of a batch near the end, as far as the index tells and the batch confirms."""
    known = LogSegment(segment.base_offset, segment.path, sealed=False)
    try:
        found = known.translate_offset(known.offset_index.last_offset)
    except KafkaLogError:
        return 0
    finally:
        known.close()
    return 0 if found is None else found.position


def _runs(source: ByteSource, start: int, end: int) -> Iterator[tuple[NDArray[np.void], int, int]]:
    """Yield header rows from `start` on, why the scan stopped, and where."""
    status = framing.LIMIT
    while status == framing.LIMIT and start < end:
        rows, status, start, _, _ = scan_file_headers(source.scanned, start, end, RUN_ROWS)
        yield rows, status, start


def _begins(source: ByteSource, entry: OffsetEntry, segment: SegmentFile) -> bool:
    """Return whether a batch that an index entry can mean begins where it says."""
    row, *_ = find_file_entry(source.scanned, entry.position, segment.size, NO_OFFSET, ANY_TIMESTAMP, entry.offset)
    return row is not None and entry.offset < segment.next_base and row[3] >= segment.base_offset


def _walked(source: ByteSource, start: int, end: int, target: int) -> list[int]:
    """Return cuts found by going from header to header, where the index has none."""
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
    """Return where the last segment ends: a torn or zeroed tail is none of the log, damage is, for its reader to see.

    Args:
        source: The file of the segment.
        segment: The segment, with the size up to which it is looked at.
        runs: Header rows from a batch near the end on, and for each run the status with which it stopped, and where.
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
    # The size field of the last batch may lead beyond others, or beyond the end.
    found = _end_from(source, segment, range(start, end), offset)
    # Where the last batch does not survive, and no other was looked at, the others tell.
    return found if found.offset > segment.base_offset else _end_from(source, segment, range(end), offset)


def _end_from(source: Source, segment: SegmentFile, positions: range, offset: int) -> LogEnd:
    """Return where the segment ends. offset: the log end before the first position."""
    bounds = Bounds(segment.base_offset)
    for item in walk(source, bounds, positions.start, positions.stop):
        if isinstance(item, Run):
            own = item.rows["last_offset"][bounds.inside(item.rows)]
            offset = int(own[-1]) + 1 if len(own) else offset
        elif isinstance(item, Tail) or (item.why.status == framing.TORN and not item.followed):
            return LogEnd(offset, item.start, item.end - item.start if item.why.status == framing.TORN else 0)
    return LogEnd(offset, positions.stop)
