"""`RecordColumns`: the records of some batches as numpy arrays, one per field.

Starts are indexes of `buffer`: the bytes of the log if nothing is compressed, else the concatenated decompressed
records. Keys and values are not copied, so a `RecordColumns` keeps its buffer (which may be a mapped file) alive.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog._speedups.decode import span_of
from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog._speedups.record import Record, build_records

if TYPE_CHECKING:
    import pyarrow as pa

# The number of objects created at a time: few enough to stay in the cache until they are used.
RECORDS_AT_A_TIME = 1024


def _column(row: int, doc: str) -> Any:
    return property(lambda self: self._block[row], doc=doc)


class RecordColumns:
    """The records of one or more batches as arrays; element i of every array belongs to record i.

    The arrays of fields are int64, shape (n,). The arrays and the buffer stay valid as long as this object or a view of
    them exists.

    Attributes:
        buffer: The bytes that starts refer to, read-only.
        batch: The index in `batches` of each record's batch, int32, shape (n,).
        batches: Rows of the header table (HEADER_DTYPE).
    """

    __slots__ = ("_block", "batch", "batches", "buffer")

    def __init__(
        self, buffer: memoryview, block: NDArray[np.int64], batch: NDArray[np.int32], batches: NDArray[np.void]
    ) -> None:
        self.buffer = buffer
        self.batch = batch
        self.batches = batches
        self._block = block

    offset: NDArray[np.int64] = _column(0, "The absolute offsets, int64.")
    timestamp: NDArray[np.int64] = _column(1, "The timestamps, milliseconds since the epoch, int64; -1 = none.")
    key_start: NDArray[np.int64] = _column(2, "The index in `buffer` of each key, int64.")
    key_length: NDArray[np.int64] = _column(3, "The length in bytes of each key, int64; -1 = null.")
    value_start: NDArray[np.int64] = _column(4, "The index in `buffer` of each value, int64.")
    value_length: NDArray[np.int64] = _column(5, "The length in bytes of each value, int64; -1 = null.")
    headers_start: NDArray[np.int64] = _column(
        6, "The index in `buffer` of the encoded headers of each record, after their count, int64."
    )
    headers_length: NDArray[np.int64] = _column(
        7, "The length in bytes of the encoded headers of each record, int64; 0 = no headers."
    )

    @classmethod
    def empty(cls) -> "RecordColumns":
        """Return columns without records."""
        return cls(memoryview(b""), np.empty((8, 0), np.int64), np.empty(0, np.int32), np.empty(0, HEADER_DTYPE))

    @property
    def offset_span(self) -> tuple[int, int]:
        """The smallest and the largest offset.

        Raises:
            ValueError: There are no records.
        """
        return span_of(self._block[0], 0, 0)[:2]

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """The `TimestampType` of each timestamp, int8: -1 none (format 0), 0 set by the producer, 1 by the broker."""
        types: NDArray[np.int8] = self.batches["timestamp_type"][self.batch]
        return types

    @property
    def sequence(self) -> NDArray[np.int64]:
        """The sequence of each record as `Record.sequence`, int64; 0 follows 2**31 - 1; -1 = none."""
        first = self.batches["base_sequence"].astype(np.int64)[self.batch]
        return np.where(first < 0, -1, (first + self.offset - self.batches["base_offset"][self.batch]) & INT32_MAX)

    def __len__(self) -> int:
        return len(self.batch)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "RecordColumns": ...
    def __getitem__(self, index: int | slice) -> "Record | RecordColumns":
        if isinstance(index, slice):
            return RecordColumns(self.buffer, self._block[:, index], self.batch[index], self.batches)
        return self.record(index)

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(self.record_lists())

    def record_lists(self, size: int = RECORDS_AT_A_TIME, *, first: int | None = None) -> Iterator[list[Record]]:
        """Yield the records in lists of `size`.

        Args:
            size: The length of the lists; the last one may be shorter.
            first: The length of the first list; None = `size`.
        """
        start, stop = 0, first or size
        while start < len(self):
            yield build_records(self.buffer, self._block[:, start:stop], self.batch[start:stop], self.batches)
            start, stop = stop, stop + size

    def record(self, i: int) -> Record:
        """Return record i.

        Raises:
            IndexError: There is no such record.
        """
        i = range(len(self))[i]
        return build_records(self.buffer, self._block[:, i : i + 1], self.batch[i : i + 1], self.batches)[0]

    def between(self, start: int, end: int) -> "RecordColumns":
        """Return the records with start <= offset < end; this object itself if these are all records."""
        return self.narrowed(start, end)[0] if len(self) else self

    def narrowed(self, start: int, end: int) -> tuple["RecordColumns", int, int]:
        """Return the result of `between`, and the smallest and the largest offset of all records.

        Raises:
            ValueError: There are no records.
        """
        offset = self._block[0]
        try:
            smallest, largest, first, stop = span_of(offset, start, end)
        except OverflowError:
            # A bound of more than 64 bits is beyond all offsets.
            (smallest, largest), first, stop = self.offset_span, 0, -1
        if start <= smallest and largest < end:
            return self, smallest, largest
        if stop < 0:
            return self.where((offset >= start) & (offset < end)), smallest, largest
        return self[first:stop], smallest, largest

    def where(self, wanted: NDArray[np.bool_]) -> "RecordColumns":
        """Return the records i for which wanted[i] is true; `wanted` has the shape (n,)."""
        count = int(np.count_nonzero(wanted))
        first = int(wanted.argmax()) if count else 0
        if np.count_nonzero(wanted[first : first + count]) == count:
            # The records are consecutive, so a view is enough.
            return self[first : first + count]
        return RecordColumns(self.buffer, self._block[:, wanted], self.batch[wanted], self.batches)

    def key(self, i: int) -> bytes | None:
        """Return the key of record i; None = null."""
        return self._piece(2, i)

    def value(self, i: int) -> bytes | None:
        """Return the value of record i; None = null."""
        return self._piece(4, i)

    def headers(self, i: int) -> tuple[tuple[str, bytes | None], ...]:
        """Return the headers of record i in their order."""
        return self.record(i).headers

    def _piece(self, row: int, i: int) -> bytes | None:
        start, length = int(self._block[row, i]), int(self._block[row + 1, i])
        return None if length < 0 else bytes(self.buffer[start : start + length])

    def to_arrow(self) -> "pa.RecordBatch":
        """Convert the records to a `pyarrow.RecordBatch`; see `kafkalog.arrow.to_arrow`.

        Raises:
            ImportError: pyarrow (the extra `arrow`) is not installed.
            OverflowError: Keys or values have more than 2**31 - 1 bytes in total; slice the columns first.
        """
        from kafkalog.arrow import to_arrow

        return to_arrow(self)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Export the records to a library of Arrow, as `to_arrow()` does."""
        exported: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return exported

    def __repr__(self) -> str:
        span = f"offsets {self.offset[0]}..{self.offset[-1]}" if len(self) else "empty"
        return f"<RecordColumns of {len(self)} records, {span}>"


def between(parts: Iterable[RecordColumns], start: int, stop: int) -> Iterator[RecordColumns]:
    """Yield the records with start <= offset < stop of columns whose offsets rise."""
    for part in parts:
        low, high = int(part.offset[0]), int(part.offset[-1])
        wanted = part if start <= low and high < stop else part.between(start, stop)
        if len(wanted):
            yield wanted
        if high >= stop - 1:
            return
        del part, wanted
