"""The number of records between two offsets, counted from headers alone where possible.

    start        batch of 5    [4 gone]    batch of 3          end
      v             v                         v                 v
    ..|.. counted by reading | by its header | by its header ..|.. counted by reading

A v2 header has the number of records that remain after compaction. An uncompressed v0/v1 message is one record. Only
wrappers and batches that cross an end of the range are decompressed.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT
from kafkalog.record.decoding import read_columns
from kafkalog.record.message_set import MessageSet
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.segment.log_segments import LogSegments

# Rows of a header table -> a mask of those not to count; bool, same shape.
RowMask = Callable[[NDArray[np.void]], NDArray[np.bool_]]


def count_records(message_set: MessageSet, start: int, end: int, left_out: RowMask | None = None) -> int:
    """Return the number of records with start <= offset < end, without control records.

    Args:
        message_set: The entries.
        start: The first offset.
        end: The offset after the last.
        left_out: Returns a mask of the rows not to count.

    Raises:
        CorruptRecordError: The framing or a decompressed batch is damaged.
        InvalidRecordError: A decompressed batch is damaged.
    """
    total = 0
    for rows in message_set._runs():
        # The base offset of a wrapper is -1: whether it crosses the start is known only after decompression.
        in_range = (rows["last_offset"] >= start) & (rows["base_offset"] < end)
        control = (rows["magic"] >= 2) & ((rows["attributes"] & CONTROL_BIT) != 0)
        counted = in_range & ~control
        if left_out is not None:
            counted &= ~left_out(rows)
        # How many messages are in a wrapper is known only after decompression.
        has_count = (rows["magic"] >= 2) | (rows["compression_type"] == 0)
        by_header = counted & has_count & (rows["base_offset"] >= start) & (rows["last_offset"] < end)
        total += int(np.where(rows["magic"] >= 2, rows["records_count"], 1)[by_header].sum())
        total += sum(len(part.between(start, end)) for part in _parts(message_set, rows, counted & ~by_header))
        if len(rows) and int(rows["last_offset"][-1]) >= end:
            break
    return total


def count_in_segments(segments: LogSegments, start: int, end: int, left_out: RowMask | None) -> int:
    """Return the number of records of a log with start <= offset < end, as `count_records`.

    Raises:
        FileNotFoundError: A segment was deleted meanwhile.
        CorruptRecordError, InvalidRecordError: As `count_records`.
    """
    total = 0
    # The segments as of one moment: retention may delete the next one while this one is read.
    for segment in segments.from_floor(start):
        if segment.base_offset >= end:
            break
        with segment.opened() if segment.base_offset >= start else segment.entries_from(start) as message_set:
            total += count_records(message_set, start, end, left_out)
    return total


def _parts(message_set: MessageSet, rows: NDArray[np.void], wanted: NDArray[np.bool_]) -> Iterator[RecordColumns]:
    """Decompress the batches of the wanted rows."""
    for i in np.flatnonzero(wanted):
        yield from read_columns(message_set._entries(rows[i : i + 1]), message_set._reading)
