"""From options to splits: which bytes of which files each task reads.

    paths -> partition directories -> offsets from..to -> segments that hold them -> cut at batches -> packed -> splits

Only names, sizes, indexes and a few headers are read, so that a thousand segments take milliseconds. Replicas of a
partition are read once: the one with the highest leader epoch, then the longest.

A split owns the batches that begin in [start_pos, end_pos); offset bounds hold inside. Tasks are weighed by bytes, not
by offsets as in Spark's source: bytes are what takes time. minPartitions makes the pieces smaller,
maxRecordsPerPartition bounds offsets.
"""

import glob
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from kafkalog.errors import NotALogError, OffsetOutOfRangeError
from kafkalog.spark.local import LocalPartition
from kafkalog.spark.options import Bound, ReadOptions, path_of_file_url
from kafkalog.spark.partition import PartitionSource, Refused, SegmentFile, Wanted, ensure_not_wanted
from kafkalog.storage import data_dir
from kafkalog.storage.data_dir import DataDir, LogFile, PartitionDir
from kafkalog.storage.fetching import EARLIEST, LATEST
from kafkalog.storage.paths import TopicPartition

_log = logging.getLogger(__name__)
# Small segments share a task up to this share of splitBytes: a task of its own costs more than reading them.
_PACKED_SHARE = 4
# So often a plan is made where files go while it is made.
_ATTEMPTS = 5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: the batches of a file that begin in [start_pos, end_pos), bytes.

    Of them the records with first_offset <= offset <= last_offset. base_offset <= offset < next_base holds for all of
    the segment's. file_size: bytes, when it was planned. sealed: nothing is appended to the file any more.
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
    sources: "Iterable[PartitionSource] | None" = None,
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
    options: ReadOptions, ranges: Mapping[TopicPartition, tuple[int, int]] | None, found: list[PartitionSource]
) -> list[AnySplit]:
    wanted = offset_ranges(options, found) if ranges is None else _still_there(options, found, ranges)
    spans = [(each, wanted[each.topic_partition]) for each in found if each.topic_partition in wanted]
    pieces = [piece for source, span in spans for piece in _pieces(source, span)]
    target = _target(options, sum(piece.end - piece.start for piece in pieces))
    cut = [split for piece in pieces for split in _cut(piece, target, options.max_records_per_partition)]
    return list(_packed(cut, target // _PACKED_SHARE, options.max_records_per_partition))


# --- what there is


def discover(options: ReadOptions) -> list[PartitionSource]:
    """The partitions that the paths lead to and the options ask for, replicas once, by topic and number.

    No other partition's directory is opened, whatever is wrong with it. FileNotFoundError: a path, or what a glob
    should match, is not there. NotALogError: it holds no log. ValueError: a topic or partition that is asked for is not
    there. OSError: one that is asked for cannot be listed.
    """
    found: dict[TopicPartition, PartitionSource] = {}
    seen: set[str] = set()
    for source in _sources(options):
        # A directory may be named twice, or by a link: it is no replica of itself.
        itself = source.path if is_remote(source.path) else os.path.realpath(source.path)
        if itself in seen:
            continue
        seen.add(itself)
        rival = found.get(source.topic_partition)
        found[source.topic_partition] = source if rival is None else _better(rival, source)
    missing = options.topics.missing(found)
    if missing and not options.streaming:
        raise ValueError(f"option {options.topics.option}: not found: {', '.join(missing)}")
    return [found[partition] for partition in sorted(found)]


def _better(one: PartitionSource, other: PartitionSource) -> PartitionSource:
    """The replica to read."""

    def rank(each: PartitionSource) -> tuple[int, int, int]:
        return each.leader_epoch, each.log_end.offset, -each.log_start_offset

    chosen = other if rank(other) > rank(one) else one
    _log.info("%s: of %s and %s the replica in %s is read", one.topic_partition, one.path, other.path, chosen.path)
    return chosen


def _sources(options: ReadOptions) -> Iterator[PartitionSource]:
    wanted = options.topics.wanted
    for path in options.paths:
        if is_remote(path):
            from kafkalog.spark.remote import remote_partitions

            yield from remote_partitions(path, wanted)
            continue
        plain = local_path(path)
        if os.path.lexists(plain) or not glob.has_magic(plain):
            yield from _local_partitions(data_dir.discover(plain), plain, wanted)
        else:
            yield from _matching(path, plain, wanted)


def is_remote(path: str) -> bool:
    """Whether a path is a URL that leads elsewhere than to this machine's files."""
    return "://" in path and not path.lower().startswith("file:")


def local_path(path: str) -> str:
    """A path, or the path that a file: URL stands for."""
    return path_of_file_url(path) if path.lower().startswith("file:/") else path


def _matching(option: str, pattern: str, wanted: Wanted) -> Iterator[LocalPartition]:
    """Of what a glob matches, the logs: the rest was not meant, nor what is being deleted or moved here."""
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - an absolute pattern
    if not matches:
        raise FileNotFoundError(f"option path: nothing matches {option!r}")
    found: dict[str, DataDir | PartitionDir | LogFile] = {}
    refused: list[Refused] = []
    for each in filter(os.path.isdir, matches):
        try:
            found[each] = data_dir.discover(each)
        except NotALogError:
            continue
        except OSError as error:
            refused.append(Refused(each, data_dir.partition_dir(Path(each)).topic_partition, error))
    ensure_not_wanted(refused, [each for each, there in found.items() if isinstance(there, PartitionDir)], wanted)
    if not found:
        what = "a partition directory, <topic>-<number>, or one that holds some is needed; none of what matches is one"
        raise NotALogError(what, option)
    for each, there in found.items():
        if not (isinstance(there, PartitionDir) and there.mark is not None):
            yield from _local_partitions(there, each, wanted)


def _local_partitions(found: DataDir | PartitionDir | LogFile, path: str, wanted: Wanted) -> Iterator[LocalPartition]:
    if isinstance(found, DataDir):
        for each in found.partitions:
            # What is being deleted or moved here is none of the log.
            if each.mark is None and each.topic_partition is not None and wanted(each.topic_partition):
                yield LocalPartition(each.path.absolute(), each.topic_partition)
    elif isinstance(found, PartitionDir) and found.topic_partition is not None:
        if wanted(found.topic_partition):
            yield LocalPartition(found.path.absolute(), found.topic_partition)
    else:
        raise NotALogError("a partition directory, <topic>-<number>, or one that holds some is needed", path)


# --- from where to where


def offset_ranges(options: ReadOptions, sources: Iterable[PartitionSource]) -> Ranges:
    """Which offsets of each partition the options ask for, as they are now.

    ValueError: offsets or times are given and a partition is not among them, or one that is not there; a start by time
    finds no record. OffsetOutOfRangeError: offsets that are not there, and failOnDataLoss is true.
    """
    found = list(sources)
    starts = starting_offsets(options, found)
    ends = _resolved(options.ending, found, lambda source, time: _end_at(source, time, options), options)
    by_partition = {source.topic_partition: source for source in found}
    return {
        partition: _within(by_partition[partition], OffsetRange(starts[partition], ends[partition]), options)
        for partition in starts
    }


def starting_offsets(options: ReadOptions, sources: Iterable[PartitionSource]) -> dict[TopicPartition, int]:
    """Where reading begins in each partition, as the options say. ValueError: as `offset_ranges`."""
    return _resolved(options.starting, list(sources), lambda source, time: _start_at(source, time, options), options)


def earliest_offsets(sources: Iterable[PartitionSource]) -> dict[TopicPartition, int]:
    """The first offset of each partition."""
    return {each.topic_partition: each.log_start_offset for each in sources}


def latest_offsets(options: ReadOptions, sources: Iterable[PartitionSource]) -> dict[TopicPartition, int]:
    """The offset after the last that a reader sees, of each partition."""
    return {each.topic_partition: each.end_offset(committed=options.committed) for each in sources}


def _resolved(
    bound: Bound, sources: list[PartitionSource], at_time: Callable[[PartitionSource, int], int], options: ReadOptions
) -> dict[TopicPartition, int]:
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


def _ensure_all(option: str, figures: Mapping[TopicPartition, int], sources: list[PartitionSource]) -> None:
    there = {source.topic_partition for source in sources}
    unnamed, unknown = sorted(there - figures.keys()), sorted(figures.keys() - there)
    if unnamed:
        raise ValueError(f"option {option} must name every partition: {', '.join(map(str, unnamed))} missing")
    if unknown:
        raise ValueError(f"option {option}: no such partition is read: {', '.join(map(str, unknown))}")


def _absolute(source: PartitionSource, offset: int, options: ReadOptions) -> int:
    if offset == EARLIEST:
        return source.log_start_offset
    return source.end_offset(committed=options.committed) if offset == LATEST else offset


def _start_at(source: PartitionSource, time: int, options: ReadOptions) -> int:
    offset = source.offset_for_timestamp(time)
    if offset is not None:
        return offset
    if options.latest_when_no_timestamp:
        return source.end_offset(committed=options.committed)
    raise ValueError(
        f"option {options.starting.option}: {source.topic_partition} has no record as late as {time} ms; with "
        "startingOffsetsByTimestampStrategy=latest its end is taken"
    )


def _end_at(source: PartitionSource, time: int, options: ReadOptions) -> int:
    offset = source.offset_for_timestamp(time)
    return source.end_offset(committed=options.committed) if offset is None else offset


def _within(source: PartitionSource, asked: OffsetRange, options: ReadOptions) -> OffsetRange:
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


def _still_there(
    options: ReadOptions, sources: list[PartitionSource], ranges: Mapping[TopicPartition, tuple[int, int]]
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


def _lost(what: str, source: PartitionSource | None, options: ReadOptions) -> None:
    path = ", ".join(options.paths) if source is None else source.path
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(f"{what} (failOnDataLoss=false reads the rest)", path)
    _log.warning("%s: %s", path, what)


# --- cutting and packing


class _Piece(NamedTuple):
    """What is wanted of a segment: batches that begin in [start, end), offsets in [span.start, span.end)."""

    source: PartitionSource
    segment: SegmentFile
    start: int
    end: int
    span: OffsetRange


def _pieces(source: PartitionSource, span: OffsetRange) -> Iterator[_Piece]:
    for segment in source.segments:
        if segment.base_offset >= span.end or segment.next_base <= span.start or span.start >= span.end:
            continue
        start, end = 0, source.end_position(segment)
        if span.start > segment.base_offset or span.end < segment.next_base:
            start, end = source.span(segment, span.start, span.end)
        if start < end:
            yield _Piece(source, segment, start, end, span)


def _target(options: ReadOptions, total: int) -> int:
    """About so many bytes a task."""
    wanted = options.min_partitions
    return options.split_bytes if wanted is None else max(1, min(options.split_bytes, -(-total // wanted)))


def _cut(piece: _Piece, target: int, max_records: int | None) -> Iterator[Split]:
    if max_records is not None:
        for part in _by_offsets(piece, max_records):
            yield from _cut(part, target, None)
        return
    yield from _splits(
        piece, [piece.start, *piece.source.cuts(piece.segment, piece.start, piece.end, target), piece.end]
    )


def _by_offsets(piece: _Piece, most: int) -> Iterator[_Piece]:
    """The piece in parts of at most so many offsets."""
    segment = piece.segment
    first = max(piece.span.start, segment.base_offset)
    end = min(piece.span.end, segment.next_base)
    parts = -(-(end - first) // most)
    for k in range(parts):
        span = OffsetRange(first + (end - first) * k // parts, first + (end - first) * (k + 1) // parts)
        start, stop = piece.source.span(segment, span.start, span.end)
        if start < stop:
            yield piece._replace(start=start, end=stop, span=span)


def _splits(piece: _Piece, edges: list[int]) -> Iterator[Split]:
    """Of one segment, between these positions; a plan may have thousands, so that what they share is looked up once."""
    segment, span, (topic, partition) = piece.segment, piece.span, piece.source.topic_partition
    next_base = min(segment.next_base, piece.source.log_end.offset)
    offsets = span.start, span.end - 1, topic, partition
    whole = segment.base_offset, next_base, segment.size, segment.sealed
    for start, end in pairwise(edges):
        yield Split(segment.path, start, end, *offsets, *whole)


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
