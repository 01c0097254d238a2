"""Reads over the segments of a log: batches by offset, and the aborted transactions among them.

    segment | segment | active segment
        ^ start offset: its batch, found through the index              ^ bound: the read ends before it

Used by read-only and writable logs. Source: storage/.../internals/log/LocalLog.java
(`read`, `addAbortedTransactions`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.fetch_data_info import NO_MESSAGES, AbortedTransaction, FetchDataInfo
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.index.transaction_index import AbortedTxn
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments


@dataclass(frozen=True, slots=True)
class Fetch:
    """The arguments of a read.

    Attributes:
        start_offset: The offset whose batch is the first one.
        max_length: The most bytes to return.
        min_one_message: Return the first batch completely, even if it is larger than `max_length`.
        bound: The end of the read.
        with_aborted: Whether to return the aborted transactions.
    """

    start_offset: int
    max_length: int
    min_one_message: bool
    bound: LogOffsetMetadata
    with_aborted: bool = False


def fetch(segments: LogSegments, log_end: LogOffsetMetadata, asked: Fetch) -> FetchDataInfo:
    """Return the requested batches, all of one segment.

    Raises:
        OffsetOutOfRangeError: The start offset is after the log end or before the first segment.
    """
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
    """Return the place of the batch that contains an offset; only the offset if it is not in the log."""
    try:
        return fetch(segments, log_end, Fetch(offset, 1, False, log_end)).fetch_offset_metadata
    except OffsetOutOfRangeError:
        return LogOffsetMetadata(offset)


def _end_of(segment: LogSegment, bound: LogOffsetMetadata) -> int | None:
    """Return the position, bytes, where a read in this segment ends; None if nothing may be read or it is unknown."""
    if segment.base_offset < bound.segment_base_offset:
        return segment.size
    if segment.base_offset == bound.segment_base_offset and not bound.message_offset_only:
        return bound.relative_position_in_segment
    return None


def _out_of_range(segments: LogSegments, log_end: LogOffsetMetadata, offset: int) -> OffsetOutOfRangeError:
    first = segments.first
    expected = f"{'no segment' if first is None else first.base_offset}..{log_end.message_offset}"
    return OffsetOutOfRangeError("the offset is not in the log", None, None, expected, offset)


# --- aborted transactions


def _with_aborted(
    segments: LogSegments, log_end: LogOffsetMetadata, asked: Fetch, segment: LogSegment, found: FetchDataInfo
) -> FetchDataInfo:
    """Add the aborted transactions to the result of a read."""
    at = found.fetch_offset_metadata
    first = OffsetEntry(at.message_offset, at.relative_position_in_segment)
    entry = segment.offset_index.fetch_upper_bound_offset(first, found.message_set.size_in_bytes)
    following = segments.higher(segment.base_offset)
    end = log_end.message_offset if following is None else following.base_offset
    aborted = aborted_txns(segments, asked.start_offset, end if entry is None else entry.offset)
    return replace(
        found, aborted_transactions=tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in aborted)
    )


def aborted_txns(segments: LogSegments, start: int, end: int) -> Iterator[AbortedTxn]:
    """Yield the aborted transactions with records in [start, end), perhaps with a few others."""
    for segment in segments.from_floor(start):
        result = segment.txn_index.collect_aborted_txns(start, end)
        yield from result.aborted_txns
        if result.is_complete:
            return
