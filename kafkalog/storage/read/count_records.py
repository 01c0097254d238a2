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
from kafkalog.record.message_set import MessageSet
from kafkalog.record.record_batch import RecordBatch, batches_of

# Rows of a header table -> a mask of those not to count; bool, same shape.
LeftOut = Callable[[NDArray[np.void]], NDArray[np.bool_]]


def count_records(message_set: MessageSet, start: int, end: int, left_out: LeftOut | None = None) -> int:
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
        told = counted & _told_by_header(rows) & (rows["base_offset"] >= start) & (rows["last_offset"] < end)
        total += int(np.where(rows["magic"] >= 2, rows["records_count"], 1)[told].sum())
        total += sum(_inside(batch, start, end) for batch in _batches(message_set, rows, counted & ~told))
        if len(rows) and int(rows["last_offset"][-1]) >= end:
            break
    return total


def _told_by_header(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return a mask of the rows whose header has the number of records."""
    told: NDArray[np.bool_] = (rows["magic"] >= 2) | (rows["compression_type"] == 0)
    return told


def _batches(message_set: MessageSet, rows: NDArray[np.void], wanted: NDArray[np.bool_]) -> Iterator[RecordBatch]:
    """Yield the batches of the wanted rows."""
    for i in np.flatnonzero(wanted):
        yield from batches_of(message_set._entries(rows[i : i + 1]), message_set._reading)


def _inside(batch: RecordBatch, start: int, end: int) -> int:
    """Decompress a batch and return its number of records with start <= offset < end."""
    return len(batch.columns().between(start, end))
