"""What the planner asks of a partition's directory, wherever it lies.

00000000000000000000.log | 00000000000000004096.log | 00000000000000008192.log (the last one: it may still grow)
^ log start offset                                                        ^ log end: offset, and position there
            |          |          cuts: positions where a batch begins, about as far apart as a task should read
"""

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.walk import Run, Source, Tail, walk
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.read.log_scan import NO_END

# Whether a partition is to be read.
Wanted: TypeAlias = Callable[[TopicPartition], bool]


class SegmentFile(NamedTuple):
    """A `.log` file: its base offset, its path or URL, its size (bytes) when it was listed, and the next one's base.

    sealed: another segment follows, so that nothing is appended any more.
    """

    base_offset: int
    path: str
    size: int
    next_base: int = NO_END
    sealed: bool = False


class LogEnd(NamedTuple):
    """The offset of the next record, and where in the last segment (bytes) there is nothing more to read.

    torn: bytes behind it that are no whole batch, other than zeros.
    """

    offset: int
    position: int
    torn: int = 0


class PartitionSource(ABC):
    """The directory of one partition, as it was when it was listed.

    topic_partition; path: of the directory; segments: in order; swaps: the names of segments that compaction or
    splitting left under their temporary name, which a broker puts in place when it starts.
    """

    topic_partition: TopicPartition
    path: str
    segments: tuple[SegmentFile, ...]
    swaps: tuple[str, ...] = ()

    @property
    @abstractmethod
    def log_start_offset(self) -> int:
        """The first offset a consumer gets."""

    @property
    @abstractmethod
    def log_end(self) -> LogEnd:
        """Behind the last whole batch."""

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """Every transaction before it is decided."""

    @property
    @abstractmethod
    def leader_epoch(self) -> int:
        """The latest that is known; -1 where none is."""

    @abstractmethod
    def offset_for_timestamp(self, timestamp: int) -> int | None:
        """The first record whose timestamp (ms) is that or more; None where there is none."""

    @abstractmethod
    def span(self, segment: SegmentFile, first: int, end: int) -> tuple[int, int]:
        """Positions in a segment between which all batches with offsets first <= offset < end begin."""

    @abstractmethod
    def cuts(self, segment: SegmentFile, start: int, end: int, target: int) -> list[int]:
        """Positions in (start, end) where batches begin, about `target` bytes apart, as far as is known."""

    @abstractmethod
    def index_entries(self, segment: SegmentFile) -> NDArray[np.int64]:
        """(Offset, position) of its index's entries, rising, shape (n, 2), as far as they are known to be right."""

    @abstractmethod
    def headers(self, segment: SegmentFile, start: int, end: int) -> Iterator[NDArray[np.void]]:
        """Header rows of the batches that begin in [start, end), up to the first that is damaged."""

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

    def end_offset(self, *, committed: bool) -> int:
        """The offset after the last that a reader sees."""
        return min(self.log_end.offset, self.last_stable_offset) if committed else self.log_end.offset

    def end_position(self, segment: SegmentFile) -> int:
        """Where there is nothing more to read in a segment, bytes."""
        return segment.size if segment.sealed else self.log_end.position

    @abstractmethod
    def close(self) -> None:
        """Let go of open files."""


def segment_file_list(found: list[tuple[int, str, int]]) -> tuple[SegmentFile, ...]:
    """Segments of (base offset, path, size), which need not be in order."""
    found.sort()
    if not found:
        return ()
    sealed = [SegmentFile(*each, following[0], sealed=True) for each, following in pairwise(found)]
    return (*sealed, SegmentFile(*found[-1]))


def end_of(source: Source, segment: SegmentFile, runs: Iterable[tuple[NDArray[np.void], int, int]]) -> LogEnd:
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
    found = _walked(source, segment, range(start, end), offset)
    # Where the last batch does not survive, and no other was looked at, the others tell.
    return found if found.offset > segment.base_offset else _walked(source, segment, range(end), offset)


def _walked(source: Source, segment: SegmentFile, positions: range, offset: int) -> LogEnd:
    """Return where the segment ends. offset: the log end before the first position."""
    bounds = Bounds(segment.base_offset)
    for item in walk(source, bounds, positions.start, positions.stop):
        if isinstance(item, Run):
            own = item.rows["last_offset"][bounds.inside(item.rows)]
            offset = int(own[-1]) + 1 if len(own) else offset
        elif isinstance(item, Tail) or (item.why.status == framing.TORN and not item.followed):
            return LogEnd(offset, item.start, item.end - item.start if item.why.status == framing.TORN else 0)
    return LogEnd(offset, positions.stop)


class Refused(NamedTuple):
    """A directory that a glob matches and that cannot be listed, the partition that its name tells, and why."""

    path: str
    topic_partition: TopicPartition | None
    error: OSError


def ensure_not_wanted(refused: Iterable[Refused], partitions: Iterable[str], wanted: Wanted) -> None:
    """Raise the error of a directory that may hold what is asked for. partitions: the directories that could be listed.

    A data directory may be named kafka-1, as a partition would be: one that cannot be listed is taken for a partition
    only beside others.
    """
    above = {posixpath.dirname(each) for each in partitions}
    for path, partition, error in refused:
        if partition is None or wanted(partition) or posixpath.dirname(path) not in above:
            raise error
