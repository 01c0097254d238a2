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
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

from kafkalog.spark.read.discover import discover
from kafkalog.spark.read.offset_ranges import OffsetRange, clamp_ranges, offset_ranges
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.partition import NO_ENTRIES, Partition, SegmentFile
from kafkalog.spark.read.record_limit import Part, parts_of
from kafkalog.spark.read.split import AnySplit, Split, SplitGroup
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.read.retry import retry

_log = logging.getLogger(__name__)
# Small segments share a task up to 1/4 of splitBytes: starting a task costs more than reading them.
_PACKED_SHARE = 4
# More tasks would take Spark hours, and its driver the memory for their list.
_MOST_SPLITS = 100_000

Result = TypeVar("Result")


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
    wanted = offset_ranges(options, found) if ranges is None else clamp_ranges(options, found, ranges)
    if options.corrupt_report is not None:
        options.corrupt_report.mkdir(parents=True, exist_ok=True)
    spans = [(each, wanted[each.topic_partition]) for each in found if each.topic_partition in wanted]
    if not options.streaming:
        for source, span in spans:
            _warn_of_skipped(source, span)
    pieces = [piece for source, span in spans for piece in _pieces(source, span)]
    target = _target(options, sum(piece.part.end - piece.part.start for piece in pieces))
    cut = [split for piece in pieces for split in _cut(piece, target, options.max_records_per_partition)]
    return list(_packed(cut, target // _PACKED_SHARE, options.max_records_per_partition))


def _warn_of_skipped(source: Partition, span: OffsetRange) -> None:
    """Warn of data that is skipped. Streams get no such warning: a tail that a broker is writing is always torn."""
    if span.end >= source.end_offset(committed=False) or source.swaps:
        for remark in source.remarks():
            _log.warning("%s", remark)


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
