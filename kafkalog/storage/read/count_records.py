"""How many records lie between two offsets: from headers alone, wherever they can tell.

    start        batch of 5    [4 gone]    batch of 3          end
      v             v                         v                 v
    ..|.. counted by reading | by its header | by its header ..|.. counted by reading

A v2 header has the number of records that compaction has left; a v0/v1 message that is not compressed is one record.
Read are only wrappers, and batches that reach over an end of the range.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT
from kafkalog.record.message_set import MessageSet
from kafkalog.record.record_batch import RecordBatch, batches_of

# Rows of a header table -> which of them are not to be counted; bool, same shape.
LeftOut = Callable[[NDArray[np.void]], NDArray[np.bool_]]


def count_records(message_set: MessageSet, start: int, end: int, left_out: LeftOut | None = None) -> int:
    """The records of a message set with start <= offset < end, control records not counted.

    CorruptRecordError: damage in the framing. CorruptRecordError, InvalidRecordError: a batch to be read is damaged.
    """
    total = 0
    for rows in message_set._runs():
        # A wrapper's base offset is -1: whether it reaches over the start is known only from inside.
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
    told: NDArray[np.bool_] = (rows["magic"] >= 2) | (rows["compression_type"] == 0)
    return told


def _batches(message_set: MessageSet, rows: NDArray[np.void], wanted: NDArray[np.bool_]) -> Iterator[RecordBatch]:
    for i in np.flatnonzero(wanted):
        yield from batches_of(message_set._entries(rows[i : i + 1]), message_set._reading)


def _inside(batch: RecordBatch, start: int, end: int) -> int:
    return len(batch.columns().between(start, end))
