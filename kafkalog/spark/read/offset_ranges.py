"""The offsets that the options of a read select in each partition.

    option            "earliest" | "latest" | offsets | times
    partition         log start ... log end, or last stable offset       ->   start <= offset < end

Offsets outside the log are lost data: an error, or a warning with failOnDataLoss=false.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.spark.read.options import Bound, ReadOptions
from kafkalog.spark.read.partition import Partition
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.read.list_offsets import EARLIEST, LATEST

_log = logging.getLogger(__name__)
# The number of partitions that the warning about empty ranges names.
_MOST_NAMED = 5
# In ms this is March 1973, in seconds the year 5138: a smaller time is probably in seconds.
_AS_SECONDS = 10**11


class OffsetRange(NamedTuple):
    """The offsets start <= offset < end."""

    start: int
    end: int


Ranges: TypeAlias = dict[TopicPartition, OffsetRange]


def offset_ranges(options: ReadOptions, sources: Iterable[Partition]) -> Ranges:
    """Return the range of offsets that the options select in each partition, by the log as it is now.

    Raises:
        ValueError: The offsets or times of an option leave out a partition or name an unknown one, no record is as
            late as a starting time, or a range ends before it starts.
        OffsetOutOfRangeError: Offsets do not exist, and failOnDataLoss is true.
    """
    found = list(sources)
    starts = starting_offsets(options, found)
    ends = _resolve(options.ending, found, _end_at, options)
    asked = [(each, OffsetRange(starts[each.topic_partition], ends[each.topic_partition])) for each in found]
    for each, span in asked:
        _check_order(each, span, options)
    ranges = {each.topic_partition: _clamped(each, span, options) for each, span in asked}
    nothing = [each for each, span in asked if _is_silently_empty(each, span, ranges[each.topic_partition], options)]
    _warn_of_empty(nothing, options)
    return ranges


def starting_offsets(options: ReadOptions, sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return the first offset that the options select in each partition.

    Raises:
        ValueError: As `offset_ranges`.
    """
    return _resolve(options.starting, list(sources), _start_at, options)


def earliest_offsets(sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return the log start offset of each partition."""
    return {each.topic_partition: each.log_start_offset for each in sources}


def latest_offsets(options: ReadOptions, sources: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Return, for each partition, the offset after the last one that a reader sees."""
    return {each.topic_partition: each.end_offset(committed=options.committed) for each in sources}


def _resolve(
    bound: Bound, sources: list[Partition], at_time: Callable[[Partition, int, ReadOptions], int], options: ReadOptions
) -> dict[TopicPartition, int]:
    _warn_of_seconds(bound)
    if not isinstance(bound.figure, int):
        _check_names(bound.option, bound.figure, sources)
    resolved: dict[TopicPartition, int] = {}
    for source in sources:
        figure = bound.of(source.topic_partition)
        found = at_time(source, figure, options) if bound.is_time else _offset_of_word(source, figure, options)
        resolved[source.topic_partition] = found
    return resolved


def _warn_of_seconds(bound: Bound) -> None:
    for time in [bound.figure] if isinstance(bound.figure, int) else bound.figure.values():
        if bound.is_time and 0 < time < _AS_SECONDS:
            day = datetime.fromtimestamp(time / 1000, UTC).date()
            _log.warning("option %s: %d ms is %s; are seconds meant?", bound.option, time, day)
            return


def _check_names(option: str, figures: Mapping[TopicPartition, int], sources: list[Partition]) -> None:
    there = {source.topic_partition for source in sources}
    unnamed, unknown = sorted(there - figures.keys()), sorted(figures.keys() - there)
    if unnamed:
        raise ValueError(f"option {option} must name every partition: {', '.join(map(str, unnamed))} missing")
    if unknown:
        raise ValueError(f"option {option}: no such partition is read: {', '.join(map(str, unknown))}")


def _offset_of_word(source: Partition, offset: int, options: ReadOptions) -> int:
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


def _clamped(source: Partition, asked: OffsetRange, options: ReadOptions) -> OffsetRange:
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
            report_loss(
                f"{source.topic_partition}: offsets {lost.start}..{lost.end - 1} are not there; {where}",
                source,
                options,
            )
    # Records of open transactions are not lost.
    last = source.end_offset(committed=options.committed)
    return OffsetRange(max(asked.start, first), min(asked.end, last))


def _check_order(source: Partition, asked: OffsetRange, options: ReadOptions) -> None:
    """Check that a range does not end before it starts. Spark's Kafka source checks it too, for any failOnDataLoss.

    Raises:
        ValueError: It does: the offsets are those of another log.
    """
    if asked.start > asked.end:
        where = f"would begin at offset {asked.start} and end before {asked.end}"
        raise ValueError(f"option {options.starting.option}: {where}; {_described(source, options)}")


def _is_silently_empty(source: Partition, asked: OffsetRange, found: OffsetRange, options: ReadOptions) -> bool:
    """Return whether a range is empty without an error or a warning so far."""
    by_words = options.starting.is_word and options.ending.is_word
    if found.start < found.end or (by_words and not options.topics.partitions):
        return False
    if asked.start == asked.end:
        return any(each.is_time or each.of(source.topic_partition) < 0 for each in (options.starting, options.ending))
    return source.log_start_offset <= asked.start and asked.end <= source.log_end.offset


def _warn_of_empty(sources: list[Partition], options: ReadOptions) -> None:
    """Log one warning for all partitions of which nothing is read."""
    if sources:
        empty = "; ".join(_described(each, options) for each in sources[:_MOST_NAMED])
        others = f"; so it is with {len(sources) - _MOST_NAMED} more" if len(sources) > _MOST_NAMED else ""
        _log.warning("nothing is read of %s%s", empty, others)


def _described(source: Partition, options: ReadOptions) -> str:
    """Describe a partition: the range of the options, and the offsets that exist."""
    partition, end = source.topic_partition, source.end_offset(committed=options.committed)
    there = f"there are {source.log_start_offset}..{end - 1}" if source.log_start_offset < end else "there are none"
    asked = f"from {options.starting.said_of(partition)} to {options.ending.said_of(partition)}"
    return f"{partition}: {asked}, and {there}{' that are decided' if options.committed else ''}"


def clamp_ranges(
    options: ReadOptions, sources: list[Partition], ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Ranges:
    """Limit given ranges to the offsets in the log.

    Raises:
        OffsetOutOfRangeError: A partition or offsets do not exist any more, and failOnDataLoss is true.
    """
    by_partition = {source.topic_partition: source for source in sources}
    for partition in sorted(ranges.keys() - by_partition.keys()):
        if ranges[partition][0] < ranges[partition][1]:
            report_loss(f"{partition} is not there any more", None, options)
    return {
        partition: _clamped(by_partition[partition], OffsetRange(*span), options)
        for partition, span in ranges.items()
        if partition in by_partition
    }


def report_loss(what: str, source: Partition | None, options: ReadOptions) -> None:
    """Log a loss of data, or raise an error if failOnDataLoss is true.

    Raises:
        OffsetOutOfRangeError: failOnDataLoss is true.
    """
    path = ", ".join(options.paths) if source is None else source.path
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(f"{what} (failOnDataLoss=false reads the rest)", path)
    _log.warning("%s: %s", path, what)
