"""The plan of a read: options to splits, which say which bytes of which files each task reads.

    paths -> partition directories -> offsets from..to -> segments that hold them -> cut at batches -> packed -> splits

The planner reads names, sizes, indexes and a few headers only, so that a thousand segments take milliseconds. Of the
replicas of a partition it reads one: the one with the highest leader epoch, then the longest.

A split has the batches that begin in [start_pos, end_pos), and of these the records within its offsets. Splits are
sized by bytes, not by offsets as in Spark's Kafka source, because the time of a task depends on bytes. minPartitions
makes the splits smaller, maxRecordsPerPartition limits the number of their records (`record_limit.py`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.spark.read.discover import discover
from kafkalog.spark.read.options import Bound, ReadOptions
from kafkalog.spark.read.partition import NO_ENTRIES, Partition, SegmentFile
from kafkalog.spark.read.record_limit import Part, parts_of
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.read.list_offsets import EARLIEST, LATEST
from kafkalog.storage.read.retry import retry

_log = logging.getLogger(__name__)
# Small segments share a task up to 1/4 of splitBytes: starting a task costs more than reading them.
_PACKED_SHARE = 4
# More tasks would take Spark hours, and its driver the memory for their list.
_MOST_SPLITS = 100_000
# The number of partitions that the warning about empty ranges names.
_MOST_TOLD = 5

# In ms this is March 1973, in seconds the year 5138: a smaller time is probably in seconds.
_AS_SECONDS = 10**11

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a segment file for one task.

    It has the records with first_offset <= offset <= last_offset of the batches that begin in [start_pos, end_pos).

    Attributes:
        path: The path of the file.
        start_pos: The first position, bytes.
        end_pos: The position after the last one, bytes.
        first_offset: The first offset.
        last_offset: The last offset, inclusive.
        topic: The topic.
        partition: The number of the partition.
        base_offset: The base offset of the segment.
        next_base: The offset after the last one that the segment may hold.
        file_size: The size of the file when the read was planned, bytes.
        sealed: Whether nothing is appended to the file any more.
        shared: Whether the batch at `start_pos` is in another split too, for its earlier offsets. The other split
            reports damage of this batch.
    """

    path: str
    start_pos: int
    end_pos: int
    first_offset: int
    last_offset: int
    topic: str
    partition: int
    base_offset: int
    next_base: int
    file_size: int
    sealed: bool
    shared: bool = False

    @property
    def size_in_bytes(self) -> int:
        """The approximate number of bytes to read."""
        return self.end_pos - self.start_pos

    @property
    def splits(self) -> tuple["Split", ...]:
        """The split itself, as a group of one."""
        return (self,)

    def __reduce__(self) -> tuple[object, ...]:
        return Split, tuple(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Several small splits for one task, in the order in which it reads them."""

    splits: tuple[Split, ...]

    @property
    def size_in_bytes(self) -> int:
        """The approximate number of bytes to read."""
        return sum(each.size_in_bytes for each in self.splits)

    def __reduce__(self) -> tuple[object, ...]:
        return SplitGroup, (self.splits,)


AnySplit: TypeAlias = Split | SplitGroup


class OffsetRange(NamedTuple):
    """The offsets start <= offset < end."""

    start: int
    end: int


Ranges: TypeAlias = dict[TopicPartition, OffsetRange]


def plan_splits(
    options: ReadOptions,
    ranges: Mapping[TopicPartition, tuple[int, int]] | None = None,
    sources: Iterable[Partition] | None = None,
) -> list[AnySplit]:
    """Plan the splits of a read.

    Args:
        options: The options of the read.
        ranges: (Start, end) offsets of each partition, end exclusive, for a micro-batch of a stream; they replace the
            offsets of the options.
        sources: The partitions that `discover` returned; None: call it.

    Returns:
        The splits, by topic, partition and offset.

    Raises:
        ValueError: An option does not fit the partitions found.
        OffsetOutOfRangeError: Offsets do not exist any more, and failOnDataLoss is true.
        OSError: A directory or a file was not read.
        KafkaLogError: A directory or an index is damaged.
    """
    if sources is not None:
        return _planned(options, ranges, list(sources))

    return with_partitions(options, lambda found: _planned(options, ranges, found))


def with_partitions(options: ReadOptions, make: Callable[[list[Partition]], Result]) -> Result:
    """Call `make` with the current partitions, again if retention or truncation changes files meanwhile."""

    def made() -> Result:
        sources = discover(options)
        try:
            return make(sources)
        finally:
            for source in sources:
                source.close()

    return retry(made)


def _planned(
    options: ReadOptions, ranges: Mapping[TopicPartition, tuple[int, int]] | None, found: list[Partition]
) -> list[AnySplit]:
    wanted = offset_ranges(options, found) if ranges is None else _still_there(options, found, ranges)
    spans = [(each, wanted[each.topic_partition]) for each in found if each.topic_partition in wanted]
    if not options.streaming:
        for source, span in spans:
            _tell(source, span)
    pieces = [piece for source, span in spans for piece in _pieces(source, span)]
    target = _target(options, sum(piece.part.end - piece.part.start for piece in pieces))
    cut = [split for piece in pieces for split in _cut(piece, target, options.max_records_per_partition)]
    return list(_packed(cut, target // _PACKED_SHARE, options.max_records_per_partition))


def _tell(source: Partition, span: OffsetRange) -> None:
    """Warn of data that is skipped. Streams get no such warning: a tail that a broker is writing is always torn."""
    if span.end >= source.end_offset(committed=False) or source.swaps:
        for remark in source.remarks():
            _log.warning("%s", remark)


# --- ranges of offsets


def offset_ranges(options: ReadOptions, sources: Iterable[Partition]) -> Ranges:
    """Return the range of offsets that the options select in each partition, by the log as it is now.

    Raises:
        ValueError: The offsets or times of an option leave out a partition or name an unknown one, no record is as
            late as a starting time, or a range ends before it starts.
        OffsetOutOfRangeError: Offsets do not exist, and failOnDataLoss is true.
    """
    found = list(sources)
    starts = starting_offsets(options, found)
    ends = _resolved(options.ending, found, lambda source, time: _end_at(source, time, options), options)
    asked = [(each, OffsetRange(starts[each.topic_partition], ends[each.topic_partition])) for each in found]
    for each, span in asked:
        _ensure_forward(each, span, options)
    ranges = {each.topic_partition: _within(each, span, options) for each, span in asked}
    nothing = [each for each, span in asked if _is_silent(each, span, ranges[each.topic_partition], options)]
    _tell_of_nothing(nothing, options)
    return ranges


def starting_offsets(options: ReadOptions, sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return the first offset that the options select in each partition.

    Raises:
        ValueError: As `offset_ranges`.
    """
    return _resolved(options.starting, list(sources), lambda source, time: _start_at(source, time, options), options)


def earliest_offsets(sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return the log start offset of each partition."""
    return {each.topic_partition: each.log_start_offset for each in sources}


def latest_offsets(options: ReadOptions, sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return, for each partition, the offset after the last one that a reader sees."""
    return {each.topic_partition: each.end_offset(committed=options.committed) for each in sources}


def _resolved(
    bound: Bound, sources: list[Partition], at_time: Callable[[Partition, int], int], options: ReadOptions
) -> dict[TopicPartition, int]:
    _tell_of_seconds(bound)
    figures = bound.offsets if bound.offsets is not None else bound.timestamps
    if figures is not None:
        _ensure_all(bound.option, figures, sources)
    resolved: dict[TopicPartition, int] = {}
    for source in sources:
        figure = None if figures is None else figures[source.topic_partition]
        time = bound.timestamp if bound.timestamps is None else figure
        if time is not None:
            resolved[source.topic_partition] = at_time(source, time)
        else:
            offset = figure if figure is not None else bound.offset
            assert offset is not None
            resolved[source.topic_partition] = _absolute(source, offset, options)
    return resolved


def _tell_of_seconds(bound: Bound) -> None:
    times = (bound.timestamps or {}).values() if bound.timestamp is None else [bound.timestamp]
    for time in times:
        if 0 < time < _AS_SECONDS:
            told = datetime.fromtimestamp(time / 1000, UTC).date()
            _log.warning("option %s: %d ms is %s; are seconds meant?", bound.option, time, told)
            return


def _ensure_all(option: str, figures: Mapping[TopicPartition, int], sources: list[Partition]) -> None:
    there = {source.topic_partition for source in sources}
    unnamed, unknown = sorted(there - figures.keys()), sorted(figures.keys() - there)
    if unnamed:
        raise ValueError(f"option {option} must name every partition: {', '.join(map(str, unnamed))} missing")
    if unknown:
        raise ValueError(f"option {option}: no such partition is read: {', '.join(map(str, unknown))}")


def _absolute(source: Partition, offset: int, options: ReadOptions) -> int:
    if offset == EARLIEST:
        return source.log_start_offset
    return source.end_offset(committed=options.committed) if offset == LATEST else offset


def _start_at(source: Partition, time: int, options: ReadOptions) -> int:
    offset, end = source.offset_for_timestamp(time), source.end_offset(committed=options.committed)
    # A broker does not return offsets of open transactions either.
    if offset is not None and (offset < end or not options.committed):
        return offset
    if options.latest_when_no_timestamp:
        return end
    what = "no decided record" if options.committed else "no record"
    raise ValueError(
        f"option {options.starting.option}: {source.topic_partition} has {what} as late as {time} ms; with "
        "startingOffsetsByTimestampStrategy=latest its end is taken"
    )


def _end_at(source: Partition, time: int, options: ReadOptions) -> int:
    offset = source.offset_for_timestamp(time)
    return source.end_offset(committed=options.committed) if offset is None else offset


def _within(source: Partition, asked: OffsetRange, options: ReadOptions) -> OffsetRange:
    """Limit a range to the offsets in the log, and report the others as lost.

    Raises:
        OffsetOutOfRangeError: Offsets are lost, and failOnDataLoss is true.
    """
    first, end = source.log_start_offset, source.log_end.offset
    before = OffsetRange(asked.start, min(first, asked.end))
    behind = OffsetRange(max(end, asked.start), asked.end)
    for lost in (before, behind):
        if lost.start < lost.end:
            where = f"there are {first}..{end - 1}" if first < end else "there are none"
            _lost(
                f"{source.topic_partition}: offsets {lost.start}..{lost.end - 1} are not there; {where}",
                source,
                options,
            )
    # Records of open transactions are not lost.
    last = source.end_offset(committed=options.committed)
    return OffsetRange(max(asked.start, first), min(asked.end, last))


def _ensure_forward(source: Partition, asked: OffsetRange, options: ReadOptions) -> None:
    """Check that a range does not end before it starts. Spark's Kafka source checks it too, for any failOnDataLoss.

    Raises:
        ValueError: It does: the offsets are those of another log.
    """
    if asked.start > asked.end:
        where = f"would begin at offset {asked.start} and end before {asked.end}"
        raise ValueError(f"option {options.starting.option}: {where}; {_told_of(source, options)}")


def _is_silent(source: Partition, asked: OffsetRange, found: OffsetRange, options: ReadOptions) -> bool:
    """Return whether a range is empty without an error or a warning so far."""
    by_words = options.starting.is_word and options.ending.is_word
    if found.start < found.end or (by_words and not options.topics.partitions):
        return False
    if asked.start == asked.end:
        figures = [(each.offsets or {}).get(source.topic_partition, -1) for each in (options.starting, options.ending)]
        return min(figures) < 0
    return source.log_start_offset <= asked.start and asked.end <= source.log_end.offset


def _tell_of_nothing(sources: list[Partition], options: ReadOptions) -> None:
    """Log one warning for all partitions of which nothing is read."""
    if sources:
        told = "; ".join(_told_of(each, options) for each in sources[:_MOST_TOLD])
        others = f"; so it is with {len(sources) - _MOST_TOLD} more" if len(sources) > _MOST_TOLD else ""
        _log.warning("nothing is read of %s%s", told, others)


def _told_of(source: Partition, options: ReadOptions) -> str:
    """Describe a partition: the range of the options, and the offsets that exist."""
    partition, end = source.topic_partition, source.end_offset(committed=options.committed)
    there = f"there are {source.log_start_offset}..{end - 1}" if source.log_start_offset < end else "there are none"
    asked = f"from {options.starting.said_of(partition)} to {options.ending.said_of(partition)}"
    return f"{partition}: {asked}, and {there}{' that are decided' if options.committed else ''}"


def _still_there(
    options: ReadOptions, sources: list[Partition], ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Ranges:
    """Limit given ranges to the offsets in the log.

    Raises:
        OffsetOutOfRangeError: A partition or offsets do not exist any more, and failOnDataLoss is true.
    """
    by_partition = {source.topic_partition: source for source in sources}
    for partition in sorted(ranges.keys() - by_partition.keys()):
        if ranges[partition][0] < ranges[partition][1]:
            _lost(f"{partition} is not there any more", None, options)
    return {
        partition: _within(by_partition[partition], OffsetRange(*span), options)
        for partition, span in ranges.items()
        if partition in by_partition
    }


def _lost(what: str, source: Partition | None, options: ReadOptions) -> None:
    path = ", ".join(options.paths) if source is None else source.path
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(f"{what} (failOnDataLoss=false reads the rest)", path)
    _log.warning("%s: %s", path, what)


# --- cutting and packing


class _Piece(NamedTuple):
    """The part of a segment to read."""

    source: Partition
    segment: SegmentFile
    part: Part


def _pieces(source: Partition, span: OffsetRange) -> Iterator[_Piece]:
    for segment in source.segments:
        if segment.base_offset >= span.end or segment.next_base <= span.start or span.start >= span.end:
            continue
        start, end = 0, source.end_position(segment)
        if span.start > segment.base_offset or span.end < segment.next_base:
            start, end = source.span(segment, span.start, span.end)
        if start < end:
            yield _Piece(source, segment, Part(start, end, span.start, span.end - 1))


def _target(options: ReadOptions, total: int) -> int:
    """Return the number of bytes that a task should have."""
    wanted = options.min_partitions
    target = options.split_bytes if wanted is None else max(1, min(options.split_bytes, -(-total // wanted)))
    least = total // _MOST_SPLITS
    if target < least:
        option = "splitBytes" if wanted is None or options.split_bytes <= -(-total // wanted) else "minPartitions"
        _log.warning("option %s: tasks have %d bytes, not %d, so that there are not more", option, least, target)
    return max(target, least)


def _cut(piece: _Piece, target: int, max_records: int | None) -> Iterator[Split]:
    for part in [piece.part] if max_records is None else _by_records(piece, max_records):
        edges = [part.start, *piece.source.cuts(piece.segment, part.start, part.end, target), part.end]
        yield from _splits(piece._replace(part=part), edges)


def _by_records(piece: _Piece, most: int) -> Iterator[Part]:
    """Divide a piece into parts of at most `most` records."""
    source, segment = piece.source, piece.segment
    whole = piece.part._replace(
        first=max(piece.part.first, segment.base_offset), last=min(piece.part.last, segment.next_base - 1)
    )
    entries = source.index_entries(segment) if whole.last - whole.first >= most else NO_ENTRIES
    return parts_of(whole, most, entries, partial(source.headers, segment))


def _splits(piece: _Piece, edges: list[int]) -> Iterator[Split]:
    """Yield the splits of one segment between these positions.

    A plan may have thousands of splits: the fields that they share are looked up once.
    """
    segment, part, (topic, partition) = piece.segment, piece.part, piece.source.topic_partition
    next_base = min(segment.next_base, piece.source.log_end.offset)
    path, offsets = str(segment.path), (part.first, part.last, topic, partition)
    whole = segment.base_offset, next_base, segment.size, segment.sealed
    for start, end in pairwise(edges):
        yield Split(path, start, end, *offsets, *whole, part.shared and start == part.start)


def _packed(splits: list[Split], room: int, max_records: int | None) -> Iterator[AnySplit]:
    """Group small splits that follow each other, up to `room` bytes."""
    if max_records is not None:
        yield from splits
        return
    group: list[Split] = []
    size = 0
    for split in splits:
        length = split.size_in_bytes
        if group and size + length > room:
            yield _grouped(group)
            group, size = [], 0
        group.append(split)
        size += length
    if group:
        yield _grouped(group)


def _grouped(group: list[Split]) -> AnySplit:
    return group[0] if len(group) == 1 else SplitGroup(tuple(group))
