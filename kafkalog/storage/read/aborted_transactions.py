"""Filter for the records of aborted transactions, which a read_committed consumer skips.

    offset      10   11   12   13   14   15   16          transactional batches of producers A and B
    batch       A    A    B    A    x    B    c           x: A's transaction is aborted, c: B's committed
    left out    10   11        13                         batches of A from the first to the marker

A producer has one transaction at a time, so all its batches from the first offset to the marker belong to it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import TRANSACTIONAL_BIT
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.index.transaction_index import AbortedTxn


class AbortedBatches:
    """The aborted transactions of a range of offsets."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        found = sorted({(each.producer_id, each.first_offset, each.last_offset) for each in aborted})
        self._producers = np.array([each[0] for each in found], dtype=np.int64)
        self._first = np.array([each[1] for each in found], dtype=np.int64)
        self._last = np.array([each[2] for each in found], dtype=np.int64)

    def among(self, rows: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return a mask of the rows (HEADER_DTYPE) that belong to an aborted transaction; bool, shape as `rows`."""
        aborted: NDArray[np.bool_]
        aborted = (rows["attributes"] & TRANSACTIONAL_BIT != 0) & np.isin(rows["producer_id"], self._producers)
        for producer in np.unique(rows["producer_id"][aborted]).tolist():
            own = aborted & (rows["producer_id"] == producer)
            offset = rows["last_offset"][own]
            start, end = (np.searchsorted(self._producers, producer, side) for side in ("left", "right"))
            begun = np.searchsorted(self._first[start:end], offset, "right")
            # Damaged indexes may have transactions of a producer that overlap.
            latest = np.maximum.accumulate(self._last[start:end])
            aborted[own] = (begun > 0) & (offset <= latest[begun - 1])
        return aborted

    def left_out_of(self, columns: RecordColumns) -> RecordColumns:
        """Return the columns without the records of aborted transactions."""
        aborted = self.among(columns.batches)
        return columns.where(~aborted[columns.batch]) if aborted.any() else columns
