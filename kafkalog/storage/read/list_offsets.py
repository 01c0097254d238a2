"""Offsets by timestamp, as in Kafka's ListOffsets requests.

    timestamp >= 0    the first record that is as late          -1 .. -6    the log's ends, its latest record

Source: storage/.../internals/log/UnifiedLog.java (`fetchOffsetByTimestamp`),
clients/.../requests/ListOffsetsRequest.java.
"""

from collections.abc import Iterable
from contextlib import suppress

from kafkalog.errors import KafkaLogError
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.read.retry import retry
from kafkalog.storage.segment.file_message_set import TimestampAndOffset
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# The special timestamps of Kafka's ListOffsets requests.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


def offset_for_timestamp(segments: LogSegments, log_start: int, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record at or after `log_start` with at least this timestamp (ms); None if there is none.

    Kafka looks only into the first segment that has such a timestamp. If all its records with one are before the log
    start, a later segment is searched here, and Kafka finds none. Damage there is no error: the result is Kafka's then.
    """
    first = segments.first_as_late_as(timestamp)
    found = None if first is None else first.find_offset_by_timestamp(timestamp, log_start)
    if found is not None or first is None:
        return found
    later = tuple(segments.higher_segments(first.base_offset))
    with suppress(KafkaLogError):
        return retry(lambda: _first_in(later, log_start, timestamp))
    return None


def _first_in(segments: Iterable[LogSegment], log_start: int, timestamp: int) -> TimestampAndOffset | None:
    late = (each for each in segments if each.size_in_bytes and each.largest_timestamp >= timestamp)
    places = (each.find_offset_by_timestamp(timestamp, log_start) for each in late)
    return next((place for place in places if place is not None), None)


def special_offset(
    segments: LogSegments, log_start: int, log_end: int, epochs: LeaderEpochCache, timestamp: int
) -> TimestampAndOffset | None:
    """Return the offset that a special timestamp stands for.

    Raises:
        ValueError: `timestamp` is not a special value.
    """
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
    """Return the first record with the largest timestamp; None if there is none or its format is 0."""
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
