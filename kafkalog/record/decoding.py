"""Decoding of log entries to columns.

    entries (rows of the header table, and their bytes)
      -> checksums checked -> control batches dropped -> compressed regions decompressed -> kernel -> RecordColumns

The records before damage are yielded before the error is raised: a step that finds an error in an entry passes on the
entries before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import decode as kernel
from kafkalog._speedups.buffer_pool import Block
from kafkalog._speedups.header_table import cut_rows, stored_regions
from kafkalog.attributes import CONTROL_BIT, CompressionType
from kafkalog.errors import InvalidRecordError, KafkaLogError
from kafkalog.record import decompress
from kafkalog.record.batch_validity import check_entries
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.wrapper import decompressed_messages

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The first buffer is four times the size of the compressed records, but at most so many bytes larger.
MOST_GUESSED_BYTES = 4 << 20
# The most records in a RecordColumns of several batches: its arrays then fit in the cache of a core.
RECORDS_A_PIECE = 8192
# After so many decompressed bytes, the records are decoded before the next batch is decompressed, to bound the memory:
# a few hundred bytes may decompress to a megabyte.
BYTES_A_PIECE = 16 << 20


class Entries(NamedTuple):
    """Complete log entries: rows of the header table, and the bytes that they describe.

    Attributes:
        rows: One row per entry.
        view: Their bytes.
        position: The position in the file of `view[0]`.
    """

    rows: NDArray[np.void]
    view: memoryview
    position: int

    def only(self, rows: NDArray[np.void]) -> "Entries":
        """Return the entries of `rows`, which are consecutive, with only their bytes."""
        start, end = int(rows["position"][0]), int(rows["position"][-1] + rows["size_in_bytes"][-1])
        return Entries(rows, self.view[start - self.position : end - self.position], start)


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read entries.

    Attributes:
        check_crcs: Whether a wrong checksum is an error, as for a consumer.
        control: Whether to read control batches too.
        decompression_limit: The number of bytes that one batch may decompress to.
        path: The file, as named in errors.
    """

    check_crcs: bool = True
    control: bool = False
    decompression_limit: int = decompress.DEFAULT_LIMIT
    path: str | None = None


def read_columns(entries: Entries, reading: Reading) -> Iterator[RecordColumns]:
    """Yield the records of `entries`; those before damage are yielded before the error is raised.

    Raises:
        CorruptRecordError: An entry is not a batch, or its checksum is wrong.
        InvalidRecordError: The content of an entry does not follow the format.
    """
    for regions in _regions(entries, reading, control=reading.control):
        columns, error = _decode(entries, regions)
        if len(columns):
            yield columns
        if error is not None:
            raise error.at(reading.path)


def read_whole(entries: Entries, reading: Reading, *, check_crcs: bool) -> RecordColumns:
    """Read all records, control records too, of a single entry or of messages that are not compressed.

    Raises:
        CorruptRecordError: An entry is not a batch or, with `check_crcs`, its checksum is wrong.
        InvalidRecordError: The content does not follow the format.
    """
    found = list(read_columns(entries, replace(reading, check_crcs=check_crcs, control=True)))
    return found[0] if found else RecordColumns.empty()


def pieces(rows: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """Cut rows of the header table into chunks of some thousand records, each to be decoded at once."""
    if len(rows) == 1:
        yield rows
        return
    start = 0
    for end in cut_rows(rows, RECORDS_A_PIECE):
        yield rows[start:end]
        start = end


def first_record(entries: Entries, reading: Reading, offset: int, timestamp: int) -> tuple[int, int, int] | None:
    """Find the first record, control records too, of at least this offset and this timestamp.

    Returns:
        Its offset, its timestamp and the index of its row; None if there is none.

    Raises:
        CorruptRecordError: An entry is not a batch, or its checksum is wrong.
        InvalidRecordError: The content of an entry does not follow the format.
    """
    for regions in _regions(entries, reading, control=True):
        buffer, rows, starts, ends, error = regions
        found, fault = kernel.find_record(buffer, rows, starts, ends, entries.position, offset, timestamp)
        if fault is not None:
            error = _fault_error(fault, entries, regions)
        if error is not None:
            raise error.at(reading.path)
        if found is not None:
            return found
    return None


def _decode(entries: Entries, regions: "_Regions") -> tuple[RecordColumns, KafkaLogError | None]:
    buffer, rows, starts, ends, error = regions
    block, batch, count, fault = kernel.decode_batches(buffer, rows, starts, ends, entries.position)
    columns = RecordColumns(buffer, block[:, :count], batch[:count], rows)
    return columns, error if fault is None else _fault_error(fault, entries, regions)


def _regions(entries: Entries, reading: Reading, *, control: bool) -> "Iterator[_Regions]":
    """Yield the regions of all rows or, if any is compressed, of as many at a time as may be decompressed together.

    Each step may find an error in a row and pass on the rows before it, so the error of the earliest row remains.
    """
    count, error, compressed, has_control = check_entries(*entries, check_crcs=reading.check_crcs)
    rows = entries.rows[:count]
    if has_control and not control:
        rows = rows[(rows["attributes"] & CONTROL_BIT == 0) | (rows["magic"] < 2)]
    if not compressed:
        yield _Regions(entries.view, rows, error=error)
        return
    while True:
        regions = _decompressed(entries._replace(rows=rows), reading.decompression_limit)
        rows = rows[len(regions.rows) :]
        if regions.error is None and len(rows):
            yield regions
            continue
        yield regions if regions.error is not None else regions._replace(error=error)
        return


class _Regions(NamedTuple):
    """The decompressed records of rows, and the error of the row after the last one.

    The records of row i are buffer[starts[i]:ends[i]]; without starts and ends, they are at their stored positions.
    """

    buffer: memoryview
    rows: NDArray[np.void]
    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    error: KafkaLogError | None = None


def _decompressed(entries: Entries, limit: int) -> _Regions:
    """Decompress regions into one buffer, up to the first error, or until BYTES_A_PIECE is reached."""
    rows = entries.rows
    starts, ends = stored_regions(rows, entries.position)
    stored = int((ends - starts).sum())
    out = Gathered(stored + min(3 * stored, MOST_GUESSED_BYTES))
    error: KafkaLogError | None = None
    for i, start, end in zip(range(len(rows)), starts.tolist(), ends.tolist(), strict=True):
        if out.size >= BYTES_A_PIECE:
            break
        try:
            out.append(_region(rows[i], entries.view[start:end], limit))
        except KafkaLogError as found:
            error = found.at(None, int(rows["position"][i]))
            break
    ends = np.array(out.ends, np.int64)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    return _Regions(out.view(), rows[: len(ends)], starts, ends, error)


class Gathered:
    """Chunks of bytes, concatenated in recycled memory; `ends` has the end index of each chunk."""

    def __init__(self, room: int) -> None:
        self._bytes = memoryview(Block(room))
        self.ends: list[int] = []

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        return self.ends[-1] if self.ends else 0

    def append(self, piece: "ReadableBuffer") -> None:
        """Append a copy of a chunk, or the chunk itself if it is the first and large."""
        data = memoryview(piece)
        start = self.size
        end = start + data.nbytes
        if not start and end >= BYTES_A_PIECE:
            self._bytes = data
            self.ends.append(end)
            return
        if end > len(self._bytes):
            larger = memoryview(Block(end + end // 2))
            larger[:start] = self._bytes[:start]
            self._bytes = larger
        self._bytes[start:end] = data
        self.ends.append(end)

    def view(self) -> memoryview:
        """Return all bytes, read-only."""
        return self._bytes[: self.size].toreadonly()


def _region(row: np.void, stored: memoryview, limit: int) -> "ReadableBuffer":
    """Return the decompressed bytes of the records of one row."""
    codec = int(row["compression_type"])
    if codec == CompressionType.NONE:
        return stored
    if row["magic"] >= 2:
        # Kafka does not decompress a batch that claims no records.
        return decompress.decompress(codec, stored, limit=limit) if row["records_count"] else b""
    return decompressed_messages(row, stored, limit)


_FAULTS = {
    kernel.UNDERRUN: "a field needs more bytes than are left",
    kernel.VARINT_TOO_LONG: "a varint is too long",
    kernel.NEGATIVE_LENGTH: "a record's length is negative",
    kernel.RECORD_LENGTH: "a record ends before its length says",
    kernel.HEADER_COUNT: "invalid number of headers",
    kernel.HEADER_KEY_LENGTH: "a header's key has a negative length",
    kernel.RECORDS_COUNT: "the header gives an invalid number of records",
    kernel.TRAILING_BYTES: "bytes are left after the last record that the header counts",
    kernel.MESSAGE_SIZE: "a message's size is less than the smallest message's",
    kernel.NESTED_WRAPPER: "a message inside a compressed message is itself compressed",
    kernel.MESSAGE_MAGIC: "a message's magic is none of 0, 1",
    kernel.EMPTY_WRAPPER: "a compressed message holds no message",
    kernel.WRAPPER_OFFSET: "a compressed message's offset is less than its last inner one",
}


def _fault_error(fault: tuple[int, int, int, int, int], entries: Entries, regions: _Regions) -> InvalidRecordError:
    """Return the error for a kernel's fault, with the position of the byte or, if it is decompressed, of the batch."""
    code, row, at, expected, found = fault
    position = int(regions.rows["position"][row])
    message = f"{_FAULTS[code]}, in the batch with last offset {int(regions.rows['last_offset'][row])}"
    if regions.starts is None:
        position = entries.position + at
    elif regions.rows["compression_type"][row]:
        message += f", byte {at - int(regions.starts[row])} of its decompressed records"
    return InvalidRecordError(message, None, position, expected, found)
