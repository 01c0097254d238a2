"""Reading a log's segments: batches by offset, offsets by time, and which transactions were aborted.

    segment | segment | active segment
        ^ start offset: the batch that holds it, found by the index     ^ bound: nothing from here on is seen

What is shared by a log that is only read and one that is written to. Source: storage/.../internals/log/LocalLog.java
(`read`, `addAbortedTransactions`), UnifiedLog.java (`fetchOffsetByTimestamp`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.fetch_data_info import NO_MESSAGES, AbortedTransaction, FetchDataInfo
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.file_message_set import TimestampAndOffset
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# What stands for a time in Kafka's requests for an offset.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True)
class Fetch:
    """What is asked for: bytes from the batch that holds start_offset on, and nothing from `bound` on."""

    start_offset: int
    max_length: int
    min_one_message: bool
    bound: LogOffsetMetadata
    with_aborted: bool = False


def fetch(segments: LogSegments, log_end: LogOffsetMetadata, asked: Fetch) -> FetchDataInfo:
    """The batches asked for, all of one segment. OffsetOutOfRangeError: after the log's end, or before its segments."""
    start, bound = asked.start_offset, asked.bound
    segment = segments.floor(start)
    if start > log_end.message_offset or segment is None:
        raise _out_of_range(segments, log_end, start)
    if start >= bound.message_offset:
        at = bound if start == bound.message_offset else offset_metadata(segments, log_end, start)
        return FetchDataInfo(at, NO_MESSAGES, aborted_transactions=() if asked.with_aborted else None)
    while segment is not None:
        found = segment.read(start, asked.max_length, _end_of(segment, bound), min_one_message=asked.min_one_message)
        if found is not None:
            return _with_aborted(segments, log_end, asked, segment, found) if asked.with_aborted else found
        segment = segments.higher(segment.base_offset)
    return FetchDataInfo(log_end, NO_MESSAGES)


def offset_metadata(segments: LogSegments, log_end: LogOffsetMetadata, offset: int) -> LogOffsetMetadata:
    """Where the batch that holds an offset lies. OffsetOutOfRangeError: no segment can."""
    return fetch(segments, log_end, Fetch(offset, 1, False, log_end)).fetch_offset_metadata


def _end_of(segment: LogSegment, bound: LogOffsetMetadata) -> int | None:
    """How far a read may go in a segment, bytes; None: what lies there is not to be seen, or where is not known."""
    if segment.base_offset < bound.segment_base_offset:
        return segment.size
    if segment.base_offset == bound.segment_base_offset and not bound.message_offset_only:
        return bound.relative_position_in_segment
    return None


def _out_of_range(segments: LogSegments, log_end: LogOffsetMetadata, offset: int) -> OffsetOutOfRangeError:
    first = segments.first
    expected = f"{'no segment' if first is None else first.base_offset}..{log_end.message_offset}"
    return OffsetOutOfRangeError("no such offset in the log", None, None, expected, offset)


# --- aborted transactions


def _with_aborted(
    segments: LogSegments, log_end: LogOffsetMetadata, asked: Fetch, segment: LogSegment, found: FetchDataInfo
) -> FetchDataInfo:
    at = found.fetch_offset_metadata
    first = OffsetEntry(at.message_offset, at.relative_position_in_segment)
    upper = segment.fetch_upper_bound_offset(first, found.message_set.size_in_bytes)
    if upper is None:
        following = segments.higher(segment.base_offset)
        upper = log_end.message_offset if following is None else following.base_offset
    aborted = aborted_txns(segments, segment, asked.start_offset, upper)
    return replace(
        found, aborted_transactions=tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in aborted)
    )


def aborted_txns(segments: LogSegments, first: LogSegment, start: int, end: int) -> Iterator[AbortedTxn]:
    """The aborted transactions with records in [start, end), from segment `first` on, perhaps a few more."""
    for segment in (first, *segments.higher_segments(first.base_offset)):
        result = segment.collect_aborted_txns(start, end)
        yield from result.aborted_txns
        if result.is_complete:
            return


# --- by time


def offset_for_timestamp(segments: LogSegments, log_start: int, timestamp: int) -> TimestampAndOffset | None:
    """The first record from log_start on that is as late as `timestamp` (ms)."""
    first = segments.first_as_late_as(timestamp)
    found = None if first is None else first.find_offset_by_timestamp(timestamp, log_start)
    if found is not None or first is None:
        return found
    # Its only such records lie before the log's start.
    later = (each for each in segments.higher_segments(first.base_offset) if each.size_in_bytes)
    late = (each for each in later if each.largest_timestamp >= timestamp)
    places = (each.find_offset_by_timestamp(timestamp, log_start) for each in late)
    return next((place for place in places if place is not None), None)


def special_offset(
    segments: LogSegments, log_start: int, log_end: int, epochs: LeaderEpochCache, timestamp: int
) -> TimestampAndOffset | None:
    """What a special value stands for. ValueError: it is none."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        first = epochs.earliest_entry
        known = first is not None and first.start_offset <= log_start
        return TimestampAndOffset(-1, log_start, first.epoch if known and first is not None else None)
    if timestamp == LATEST:
        return TimestampAndOffset(-1, log_end, epochs.latest_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return TimestampAndOffset(-1, -1, -1)
    if timestamp == MAX_TIMESTAMP:
        return _latest_record(segments)
    raise ValueError(f"timestamp is {timestamp}, neither 0 ms or more nor one of Kafka's special values -1..-6")


def _latest_record(segments: LogSegments) -> TimestampAndOffset | None:
    """The first record with the largest timestamp of all; format 0 has none."""
    latest = max(segments.values, key=lambda each: each.max_timestamp_and_offset_so_far.timestamp, default=None)
    if latest is None:
        return None
    largest = latest.max_timestamp_and_offset_so_far
    batches = latest.entries_from(largest.offset).batches()
    batch = next((each for each in batches if each.max_timestamp == largest.timestamp), None)
    if batch is None or batch.magic == 0:
        return None
    columns, epoch = batch.columns(), batch.partition_leader_epoch
    found = columns.timestamp == largest.timestamp
    if not found.any():
        return None
    return TimestampAndOffset(largest.timestamp, int(columns.offset[found.argmax()]), epoch if epoch >= 0 else None)
