"""`RecordColumns`: the records of some batches as numpy arrays, one a field.

Starts index `buffer`: the log's own bytes where nothing is compressed, else the decompressed regions one after the
other. Nothing is copied into the arrays, so a `RecordColumns` keeps its buffer (a mapped file, perhaps) alive as long
as it lives.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.decode import span_of
from kafkalog._speedups.framing import HEADER_DTYPE
from kafkalog._speedups.record import Record, build_records

if TYPE_CHECKING:
    import pyarrow as pa

# So many objects are made at a time: few enough that they stay in cache until they are used.
RECORDS_AT_A_TIME = 1024


class RecordColumns:
    """The records of one or more batches as arrays; row i of every array is record i.

    offset, timestamp (ms; -1 = none), key_start, key_length, value_start, value_length, headers_start,
    headers_length: int64 (n,); a length of -1 is null, starts index `buffer`; headers_length 0 = no headers. batch:
    int32 (n,), the row of `batches` (HEADER_DTYPE) that a record belongs to. buffer: read-only memoryview.

    The arrays and the buffer stay valid as long as this object or a view of them lives.
    """

    __slots__ = ("_block", "batch", "batches", "buffer")

    def __init__(
        self, buffer: memoryview, block: NDArray[np.int64], batch: NDArray[np.int32], batches: NDArray[np.void]
    ) -> None:
        self.buffer = buffer
        self.batch = batch
        self.batches = batches
        self._block = block

    @classmethod
    def empty(cls) -> "RecordColumns":
        """No records."""
        return cls(memoryview(b""), np.empty((8, 0), np.int64), np.empty(0, np.int32), np.empty(0, HEADER_DTYPE))

    @property
    def offset(self) -> NDArray[np.int64]:
        """Absolute offsets, int64."""
        return self._field(0)

    @property
    def offset_span(self) -> tuple[int, int]:
        """The smallest offset and the largest. ValueError: there are no records."""
        return span_of(self._block[0], 0, 0)[:2]

    @property
    def timestamp(self) -> NDArray[np.int64]:
        """Milliseconds since the epoch, int64; -1 = none."""
        return self._field(1)

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """Who set each timestamp, int8: -1 nobody (format 0), 0 the producer, 1 the broker (`TimestampType`)."""
        types: NDArray[np.int8] = self.batches["timestamp_type"][self.batch]
        return types

    @property
    def key_start(self) -> NDArray[np.int64]:
        """Where keys begin in `buffer`, int64."""
        return self._field(2)

    @property
    def key_length(self) -> NDArray[np.int64]:
        """Bytes of each key, int64; -1 = null."""
        return self._field(3)

    @property
    def value_start(self) -> NDArray[np.int64]:
        """Where values begin in `buffer`, int64."""
        return self._field(4)

    @property
    def value_length(self) -> NDArray[np.int64]:
        """Bytes of each value, int64; -1 = null."""
        return self._field(5)

    @property
    def headers_start(self) -> NDArray[np.int64]:
        """Where the encoded headers begin in `buffer`, after their count, int64."""
        return self._field(6)

    @property
    def headers_length(self) -> NDArray[np.int64]:
        """Bytes of the encoded headers, int64; 0 = none."""
        return self._field(7)

    def _field(self, row: int) -> NDArray[np.int64]:
        field: NDArray[np.int64] = self._block[row]
        return field

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
        """The records, `size` of them made at a time; first: the first time (None: as many)."""
        start, stop = 0, first or size
        while start < len(self):
            yield build_records(self.buffer, self._block[:, start:stop], self.batch[start:stop], self.batches)
            start, stop = stop, stop + size

    def record(self, i: int) -> Record:
        """Record i. IndexError: there is none."""
        i = range(len(self))[i]
        return build_records(self.buffer, self._block[:, i : i + 1], self.batch[i : i + 1], self.batches)[0]

    def between(self, start: int, end: int) -> "RecordColumns":
        """The records with start <= offset < end; this object itself where that is all of them."""
        return self.narrowed(start, end)[0] if len(self) else self

    def narrowed(self, start: int, end: int) -> tuple["RecordColumns", int, int]:
        """What `between` gives, and the smallest and the largest offset of all. ValueError: there are no records."""
        offset = self._block[0]
        try:
            smallest, largest, first, stop = span_of(offset, start, end)
        except OverflowError:
            # No offset is a number of more than 64 bits.
            (smallest, largest), first, stop = self.offset_span, 0, -1
        if start <= smallest and largest < end:
            return self, smallest, largest
        if stop < 0:
            return self.where((offset >= start) & (offset < end)), smallest, largest
        return self[first:stop], smallest, largest

    def where(self, wanted: NDArray[np.bool_]) -> "RecordColumns":
        """The records i for which wanted[i]; bool, shape (n,)."""
        count = int(np.count_nonzero(wanted))
        first = int(wanted.argmax()) if count else 0
        if np.count_nonzero(wanted[first : first + count]) == count:
            # They lie together: nothing need be copied.
            return self[first : first + count]
        return RecordColumns(self.buffer, self._block[:, wanted], self.batch[wanted], self.batches)

    def key(self, i: int) -> bytes | None:
        """The key of record i, None = null."""
        return self._piece(2, i)

    def value(self, i: int) -> bytes | None:
        """The value of record i, None = null."""
        return self._piece(4, i)

    def headers(self, i: int) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of record i, in their order."""
        return self.record(i).headers

    def _piece(self, row: int, i: int) -> bytes | None:
        start, length = int(self._block[row, i]), int(self._block[row + 1, i])
        return None if length < 0 else bytes(self.buffer[start : start + length])

    def to_arrow(self) -> "pa.RecordBatch":
        """A `pyarrow.RecordBatch`; see `kafkalog.arrow.to_arrow`.

        ImportError: pyarrow (the extra `arrow`) is missing.
        """
        from kafkalog.arrow import to_arrow

        return to_arrow(self)

    def __repr__(self) -> str:
        span = f"offsets {self.offset[0]}..{self.offset[-1]}" if len(self) else "empty"
        return f"<RecordColumns of {len(self)} records, {span}>"


def between(parts: Iterable[RecordColumns], start: int, stop: int) -> Iterator[RecordColumns]:
    """Cut the records with start <= offset < stop out of parts whose offsets rise."""
    for part in parts:
        low, high = int(part.offset[0]), int(part.offset[-1])
        wanted = part if start <= low and high < stop else part.between(start, stop)
        if len(wanted):
            yield wanted
        if high >= stop - 1:
            return
