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
        aborted = np.zeros(len(rows), dtype=bool)
        candidates = np.flatnonzero((rows["attributes"] & TRANSACTIONAL_BIT) != 0) if len(self._first) else ()
        for i in candidates:
            offset = rows["last_offset"][i]
            own = (self._first <= offset) & (offset <= self._last) & (self._producers == rows["producer_id"][i])
            aborted[i] = own.any()
        return aborted

    def left_out_of(self, columns: RecordColumns) -> RecordColumns:
        """Return the columns without the records of aborted transactions."""
        aborted = self.among(columns.batches)
        return columns.where(~aborted[columns.batch]) if aborted.any() else columns
