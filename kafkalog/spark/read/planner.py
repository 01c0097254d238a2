"""From options to splits: which bytes of which files each task reads.

    paths -> partition directories -> offsets from..to -> segments that hold them -> cut at batches -> packed -> splits

Only names, sizes, indexes and a few headers are read, so that a thousand segments take milliseconds. Replicas of a
partition are read once: the one with the highest leader epoch, then the longest.

A split owns the batches that begin in [start_pos, end_pos); offset bounds hold inside. Tasks are weighed by bytes, not
by offsets as in Spark's source: bytes are what takes time. minPartitions makes the pieces smaller,
maxRecordsPerPartition bounds records (`record_limit.py`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
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

_log = logging.getLogger(__name__)
# Small segments share a task up to this share of splitBytes: a task of its own costs more than reading them.
_PACKED_SHARE = 4
# So often a plan is made where files go while it is made.
_ATTEMPTS = 5
# More tasks than that no one wants: Spark would be at them for hours, and its driver at their list.
_MOST_SPLITS = 100_000
# So many partitions are named of which nothing is read.
_MOST_TOLD = 5

# Milliseconds up to March 1973, and as seconds up to the year 5138.
_AS_SECONDS = 10**11

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: the batches of a file that begin in [start_pos, end_pos), bytes.

    Of them the records with first_offset <= offset <= last_offset. base_offset <= offset < next_base holds for all of
    the segment's. file_size: bytes, when it was planned. sealed: nothing is appended to the file any more. shared: the
    batch at start_pos is another split's too, with offsets before these: that one tells of its damage.
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
        """Bytes to read, about."""
        return self.end_pos - self.start_pos

    @property
    def splits(self) -> tuple["Split", ...]:
        """Itself: as a group of one."""
        return (self,)

    def __reduce__(self) -> tuple[object, ...]:
        return Split, tuple(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Several small splits that one task reads, one after the other."""

    splits: tuple[Split, ...]

    @property
    def size_in_bytes(self) -> int:
        """Bytes to read, about."""
        return sum(each.size_in_bytes for each in self.splits)

    def __reduce__(self) -> tuple[object, ...]:
        return SplitGroup, (self.splits,)


AnySplit: TypeAlias = Split | SplitGroup


class OffsetRange(NamedTuple):
    """Offsets start <= offset < end."""

    start: int
    end: int


Ranges: TypeAlias = dict[TopicPartition, OffsetRange]


def plan_splits(
    options: ReadOptions,
    ranges: Mapping[TopicPartition, tuple[int, int]] | None = None,
    sources: Iterable[Partition] | None = None,
) -> list[AnySplit]:
    """The splits of all that the options ask for, by topic, partition and offset.

    ranges: start <= offset < end a partition, in place of what the options say (a micro-batch of a stream); sources:
    what `discover` found, where that is known.

    ValueError: an option does not fit what is there. OffsetOutOfRangeError: offsets are asked for that are not there
    any more, and failOnDataLoss is true. OSError, KafkaLogError: a directory or an index cannot be read.
    """
    if sources is not None:
        return _planned(options, ranges, list(sources))

    def plan() -> list[AnySplit]:
        found = discover(options)
        try:
            return _planned(options, ranges, found)
        finally:
            for source in found:
                source.close()

    return on_what_is_there(plan)


def on_what_is_there(make: Callable[[], Result]) -> Result:
    """What is made of files: where retention or truncation takes one away meanwhile, it is made anew."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return make()
    return make()


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
    """Warn of what is left out. A stream sees the tail again and again while a broker writes it: it is not told."""
    if span.end >= source.end_offset(committed=False) or source.swaps:
        for remark in source.remarks():
            _log.warning("%s", remark)


# --- from where to where


def offset_ranges(options: ReadOptions, sources: Iterable[Partition]) -> Ranges:
    """Which offsets of each partition the options ask for, as they are now.

    ValueError: offsets or times are given and a partition is not among them, or one that is not there; a start by time
    finds no record; one would end before it begins. OffsetOutOfRangeError: offsets that are not there, and
    failOnDataLoss is true.
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
    """Where reading begins in each partition, as the options say. ValueError: as `offset_ranges`."""
    return _resolved(options.starting, list(sources), lambda source, time: _start_at(source, time, options), options)


def earliest_offsets(sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """The first offset of each partition."""
    return {each.topic_partition: each.log_start_offset for each in sources}


def latest_offsets(options: ReadOptions, sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """The offset after the last that a reader sees, of each partition."""
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
    # A broker does not tell of what is undecided either.
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
    """The range, as far as it is in the log; what is missing of it is lost."""
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
    # Undecided transactions are not lost.
    last = source.end_offset(committed=options.committed)
    return OffsetRange(max(asked.start, first), min(asked.end, last))


def _ensure_forward(source: Partition, asked: OffsetRange, options: ReadOptions) -> None:
    """Spark's source refuses it too, whatever failOnDataLoss says: such offsets are another log's."""
    if asked.start > asked.end:
        where = f"would begin at offset {asked.start} and end before {asked.end}"
        raise ValueError(f"option {options.starting.option}: {where}; {_told_of(source, options)}")


def _is_silent(source: Partition, asked: OffsetRange, found: OffsetRange, options: ReadOptions) -> bool:
    """Whether nothing is read of what was asked for, and neither an error nor a warning tells."""
    by_words = options.starting.is_word and options.ending.is_word
    if found.start < found.end or (by_words and not options.topics.partitions):
        return False
    if asked.start == asked.end:
        figures = [(each.offsets or {}).get(source.topic_partition, -1) for each in (options.starting, options.ending)]
        return min(figures) < 0
    return source.log_start_offset <= asked.start and asked.end <= source.log_end.offset


def _tell_of_nothing(sources: list[Partition], options: ReadOptions) -> None:
    """One warning of them all."""
    if sources:
        told = "; ".join(_told_of(each, options) for each in sources[:_MOST_TOLD])
        others = f"; so it is with {len(sources) - _MOST_TOLD} more" if len(sources) > _MOST_TOLD else ""
        _log.warning("nothing is read of %s%s", told, others)


def _told_of(source: Partition, options: ReadOptions) -> str:
    """A partition, what was asked of it, and what there is."""
    partition, end = source.topic_partition, source.end_offset(committed=options.committed)
    there = f"there are {source.log_start_offset}..{end - 1}" if source.log_start_offset < end else "there are none"
    asked = f"from {options.starting.said_of(partition)} to {options.ending.said_of(partition)}"
    return f"{partition}: {asked}, and {there}{' that are decided' if options.committed else ''}"


def _still_there(
    options: ReadOptions, sources: list[Partition], ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Ranges:
    """The given ranges, as far as they are in the log."""
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
    """What is wanted of a segment."""

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
    """About so many bytes a task."""
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
    """The piece in parts of at most so many records."""
    source, segment = piece.source, piece.segment
    whole = piece.part._replace(
        first=max(piece.part.first, segment.base_offset), last=min(piece.part.last, segment.next_base - 1)
    )
    entries = source.index_entries(segment) if whole.last - whole.first >= most else NO_ENTRIES
    return parts_of(whole, most, entries, partial(source.headers, segment))


def _splits(piece: _Piece, edges: list[int]) -> Iterator[Split]:
    """Of one segment, between these positions; a plan may have thousands, so that what they share is looked up once."""
    segment, part, (topic, partition) = piece.segment, piece.part, piece.source.topic_partition
    next_base = min(segment.next_base, piece.source.log_end.offset)
    path, offsets = str(segment.path), (part.first, part.last, topic, partition)
    whole = segment.base_offset, next_base, segment.size, segment.sealed
    for start, end in pairwise(edges):
        yield Split(path, start, end, *offsets, *whole, part.shared and start == part.start)


def _packed(splits: list[Split], room: int, max_records: int | None) -> Iterator[AnySplit]:
    """Small neighbours together."""
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
