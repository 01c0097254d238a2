"""The batches of header rows, and how many records each has.

    position  base_offset  last_offset  magic  attributes   records
    0         100          109          2      0x00         10 records, or as many as the header says there are
    512       110          119          1                   a wrapper: as many records as are found in it

A damaged header may have any number: if it is impossible, the batch counts as one record.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkalog import RecordBatch
from kafkalog.errors import CorruptRecordError, KafkaLogError

from .segment_file import SegmentFile

Rows: TypeAlias = NDArray[np.void]

# A longer one is not decoded: of a damaged batch the size may be anything.
MOST_BYTES = 64 << 20


def flags_of(rows: Rows) -> NDArray[np.int64]:
    """Return the attributes of the formats that have transactions, else 0."""
    flags: NDArray[np.int64] = np.where(rows["magic"] >= 2, rows["attributes"], 0)
    return flags


def record_counts(file: SegmentFile, rows: Rows) -> NDArray[np.int64]:
    """Return how many records each row stands for: one at least where its header makes no sense."""
    most = rows["last_offset"] - rows["base_offset"] + 1
    counts = np.where(rows["magic"] >= 2, rows["records_count"], 1).astype(np.int64)
    senseless = (rows["magic"] >= 2) & ((counts < 0) | (most < 1) | (counts > most))
    counts[senseless] = 1
    wrappers = (rows["magic"] < 2) & (rows["compression_type"] > 0)
    for i in np.flatnonzero(wrappers).tolist():
        counts[i] = max(1, len(decoded_offsets(file, rows[i])))
    return counts


def decoded_offsets(file: SegmentFile, row: np.void) -> NDArray[np.int64]:
    """Return the offsets inside a wrapper; none if it cannot be read."""
    try:
        batch = batch_of(file, row)
        return np.empty(0, np.int64) if batch is None else batch.columns(check_crcs=False).offset
    except KafkaLogError:
        return np.empty(0, np.int64)


def batch_of(file: SegmentFile, row: np.void) -> RecordBatch | None:
    """Return the batch of a row; None: it is not there any more. CorruptRecordError: it is too large."""
    start = int(row["position"])
    if row["size_in_bytes"] > MOST_BYTES:
        what = "the batch is too large to be looked into here"
        raise CorruptRecordError(what, str(file.path), start, f"at most {MOST_BYTES} bytes", int(row["size_in_bytes"]))
    return next(file.part(start, start + int(row["size_in_bytes"])).batches(), None)


def time_of(value: int) -> int | None:
    """Return a timestamp, ms; None if there is none."""
    return value if value >= 0 else None
