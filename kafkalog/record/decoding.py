"""Decoding of log entries to columns.

    entries (rows of the header table, and their bytes)
      -> checksums checked -> control batches dropped -> compressed regions decompressed -> kernel -> RecordColumns

The records before damage are yielded before the error is raised: a step that finds an error in an entry passes on the
entries before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import decode as kernel
from kafkalog._speedups.decompress import DEFAULT_LIMIT, decompress_rows
from kafkalog._speedups.header_table import cut_rows
from kafkalog.attributes import CONTROL_BIT, CompressionType
from kafkalog.errors import DecompressedSizeError, InvalidRecordError, KafkaLogError
from kafkalog.record.batch_validity import check_entries
from kafkalog.record.framing import end_of
from kafkalog.record.record_columns import RecordColumns

# The most records in a RecordColumns: its arrays then fit in the cache of a core.
RECORDS_A_PIECE = 8192
# A RecordColumns ends with the record with which its bytes, and the objects for its headers, come to so much. Readers
# make several times as much of it: objects, Arrow arrays, text.
WEIGHT_A_PIECE = 4 << 20
# The size of the arrays for one record, and how large they may be if all records of a batch are read together.
BYTES_A_ROW = 68
MOST_ARRAYS = 64 << 20
# The mean size of batches from which decoding them in threads is faster. Between two calls of a package a thread holds
# the GIL, and smaller batches, or those of the faster codecs, do not outweigh passing it on.
LEAST_FOR_A_THREAD: dict[int, int] = {
    CompressionType.NONE: 8 << 10,
    CompressionType.GZIP: 1 << 10,
    CompressionType.SNAPPY: 4 << 10,
    CompressionType.LZ4: 8 << 10,
    CompressionType.ZSTD: 1 << 10,
}
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

    @property
    def end(self) -> int:
        """The position after the last entry."""
        return end_of(self.rows)

    def only(self, rows: NDArray[np.void]) -> "Entries":
        """Return the entries of `rows`, which are consecutive, with only their bytes."""
        if len(rows) == len(self.rows):
            return self
        start = int(rows["position"][0])
        return Entries(rows, self.view[start - self.position : end_of(rows) - self.position], start)


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings for decoding entries.

    Attributes:
        check_crcs: Whether a wrong checksum is an error, as for a consumer.
        control: Whether to read control batches too.
        decompression_limit: The number of bytes that one batch may decompress to.
        path: The file, as named in errors.
    """

    check_crcs: bool = True
    control: bool = False
    decompression_limit: int = DEFAULT_LIMIT
    path: str | None = None


def read_whole(entries: Entries, reading: Reading, *, check_crcs: bool) -> RecordColumns:
    """Read all records, control records too, of a single entry or of messages that are not compressed.

    Raises:
        CorruptRecordError: An entry is not a batch or, with `check_crcs`, its checksum is wrong.
        DecompressedSizeError: There are more records than the decompression limit allows.
        InvalidRecordError: The content does not follow the format.
    """
    found = list(read_columns(entries, replace(reading, check_crcs=check_crcs, control=True), whole=True))
    return found[0] if found else RecordColumns.empty()


def pieces(rows: NDArray[np.void]) -> list[NDArray[np.void]]:
    """Cut rows of the header table into chunks of some thousand records, each to be decoded at once."""
    if len(rows) == 1:
        return [rows]
    return [rows[start:end] for start, end in pairwise([0, *cut_rows(rows, RECORDS_A_PIECE)])]


def read_pieces(entries: Entries, reading: Reading) -> Iterator[RecordColumns]:
    """Yield the records of any number of entries as `read_columns` does, decoding some thousand at a time."""
    return chain.from_iterable(read_columns(entries.only(piece), reading) for piece in pieces(entries.rows))


def pays_in_threads(entries: Entries) -> bool:
    """Return whether entries are decoded faster if some of them are decoded in another thread meanwhile."""
    codecs = entries.rows["compression_type"]
    codec = int(codecs[(codecs > 0).argmax()])
    return bool(entries.rows["size_in_bytes"].mean() >= LEAST_FOR_A_THREAD.get(codec, 0))


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
        part = RECORDS_A_PIECE, WEIGHT_A_PIECE
        found, fault = kernel.find_record(buffer, rows, starts, ends, entries.position, offset, timestamp, part)
        if fault is not None:
            error = _fault_error(fault, entries, regions)
        if error is not None:
            raise error.at(reading.path)
        if found is not None:
            return found
    return None


def read_columns(entries: Entries, reading: Reading, *, whole: bool = False) -> Iterator[RecordColumns]:
    """Yield the records of `entries` in parts or, if `whole`, all together; those before damage come before the error.

    Nothing refers to a part, or to decompressed bytes, when the next ones are made.

    Raises:
        CorruptRecordError: An entry is not a batch, or its checksum is wrong.
        DecompressedSizeError: There are more records than the decompression limit allows to be read together.
        InvalidRecordError: The content of an entry does not follow the format.
    """
    for regions in _regions(entries, reading, control=reading.control):
        buffer, rows, starts, ends, error = regions
        part = _most_together(regions, reading) if whole else (RECORDS_A_PIECE, WEIGHT_A_PIECE)
        stop, more = None, True
        while more:
            block, batch, count, stop = kernel.decode_batches(buffer, rows, starts, ends, entries.position, part, stop)
            more = stop is not None and stop[0] == kernel.NO_FAULT
            if whole and more:
                position, most = int(entries.rows["position"][0]), f"at most {part[0]}"
                message = "the batch has more records than may be read at once"
                raise DecompressedSizeError(message, reading.path, position, most, f"more than {count}")
            if count:
                yield RecordColumns(buffer, block[:, :count], batch[:count], rows)
            del block, batch
        if stop is not None:
            error = _fault_error(stop, entries, regions)
        del regions, buffer
        if error is not None:
            raise error.at(reading.path)


def _most_together(regions: "_Regions", reading: Reading) -> tuple[int, int]:
    """Return the most records that may be read at once: their arrays fit in the memory that the limits leave."""
    decompressed = 0 if regions.starts is None else regions.buffer.nbytes
    return max(1, (reading.decompression_limit + MOST_ARRAYS - decompressed) // BYTES_A_ROW), kernel.NO_LIMIT[1]


def _regions(entries: Entries, reading: Reading, *, control: bool) -> "Iterator[_Regions]":
    """Return the regions of all rows or, if any is compressed, of as many at a time as may be decompressed together.

    Each step may find an error in a row and pass on the rows before it, so the error of the earliest row remains.
    """
    count, error, compressed, has_control = check_entries(*entries, check_crcs=reading.check_crcs)
    rows = entries.rows[:count]
    if has_control and not control:
        rows = rows[(rows["attributes"] & CONTROL_BIT == 0) | (rows["magic"] < 2)]
    if not compressed:
        return iter([_Regions(entries.view, rows, error=error)])
    return _decompressed(entries._replace(rows=rows), reading.decompression_limit, error)


class _Regions(NamedTuple):
    """The decompressed records of rows, and the error of the row after the last one.

    The records of row i are buffer[starts[i]:ends[i]]; without starts and ends, they are at their stored positions.
    """

    buffer: memoryview
    rows: NDArray[np.void]
    starts: NDArray[np.int64] | None = None
    ends: NDArray[np.int64] | None = None
    error: KafkaLogError | None = None


def _decompressed(entries: Entries, limit: int, error: KafkaLogError | None) -> Iterator[_Regions]:
    """Decompress regions into buffers, each of which ends with the region with which it comes to BYTES_A_PIECE.

    Args:
        entries: The entries.
        limit: The number of bytes that one may decompress to.
        error: The error of the entry after the last one.
    """
    rows = entries.rows
    more = True
    while more:
        data, bounds, damage = decompress_rows(entries.view, rows, entries.position, limit, BYTES_A_PIECE)
        done = len(bounds) - 1
        more = damage is None and done < len(rows)
        yield _Regions(data, rows[:done], bounds[:-1], bounds[1:], None if more else damage or error)
        del data
        rows = rows[done:]


_FAULTS = {
    kernel.UNDERRUN: "a field needs more bytes than are left",
    kernel.VARINT_TOO_LONG: "a varint is too long",
    kernel.NEGATIVE_LENGTH: "a record's length is negative",
    kernel.RECORD_LENGTH: "a record ends before its length says",
    kernel.HEADER_COUNT: "invalid number of headers",
    kernel.HEADER_KEY_LENGTH: "a header's key has a negative length",
    kernel.RECORDS_COUNT: "the header gives an invalid number of records",
    kernel.TOO_MANY_HEADERS: "a record has more headers than allowed",
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
    if code == kernel.TOO_MANY_HEADERS:
        return DecompressedSizeError(message, None, position, f"at most {expected}", found)
    return InvalidRecordError(message, None, position, expected, found)
