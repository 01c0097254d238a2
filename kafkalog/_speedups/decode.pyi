import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

NO_FAULT: int
UNDERRUN: int
VARINT_TOO_LONG: int
NEGATIVE_LENGTH: int
RECORD_LENGTH: int
HEADER_COUNT: int
HEADER_KEY_LENGTH: int
RECORDS_COUNT: int
MESSAGE_SIZE: int
NESTED_WRAPPER: int
MESSAGE_MAGIC: int
EMPTY_WRAPPER: int
WRAPPER_OFFSET: int
TRAILING_BYTES: int
TOO_MANY_HEADERS: int
NO_LIMIT: tuple[int, int]

def decode_batches(
    buffer: ReadableBuffer,
    rows: NDArray[np.void],
    starts: NDArray[np.int64] | None = None,
    ends: NDArray[np.int64] | None = None,
    position: int = 0,
    part: tuple[int, int] | None = None,
    after: tuple[int, int, int, int, int] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, tuple[int, int, int, int, int] | None]:
    """Decode the records of entries into columns, up to the first fault or the limits of `part`.

    The records of entry i are in the region buffer[starts[i]:ends[i]]. The GIL is released.

    Args:
        buffer: The bytes of the log, or decompressed bytes.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (k,).
        starts: The start of each region, int64, shape (k,). Without `starts` and `ends`, the records are where
            entries that are not compressed store them: v2 records 61 bytes after the entry's start, a message at it.
        ends: The end of each region, int64, shape (k,).
        position: The file position of buffer[0]; only used without `starts` and `ends`.
        part: (records, weight): Decode at most `records` records, and stop after the record with which their total size
            in bytes, plus 64 for each of their headers, is `weight` or more; None: no limits.
        after: The `stop` of the previous call, to decode the records that follow.

    Returns:
        (block, batch, count, stop):

        - block: One row per field, read-only, int64, shape (8, n): offset, timestamp, key_start, key_length,
          value_start, value_length, headers_start, headers_length. Timestamps are in ms, starts are indexes in
          `buffer`, lengths are in bytes. The length of null is -1; a record without headers has a headers_length of 0.
        - batch: The index in `rows` of the entry of each record, read-only, int32, shape (n,).
        - count: The number of records; later elements of the arrays are undefined.
        - stop: None if all records have been decoded, else (code, row, at, expected, found): the code of the fault, the
          index in `rows`, the index in `buffer`, and two numbers that DESIGN.md defines for each code. If the code is
          NO_FAULT, there may be more records.

    Raises:
        ValueError: A region is outside the buffer, the arrays differ in length, or `after` is not a `stop` of the same
            entries.
    """

def find_record(
    buffer: ReadableBuffer,
    rows: NDArray[np.void],
    starts: NDArray[np.int64] | None,
    ends: NDArray[np.int64] | None,
    position: int,
    offset: int,
    timestamp: int,
    part: tuple[int, int] | None = None,
) -> tuple[tuple[int, int, int] | None, tuple[int, int, int, int, int] | None]:
    """Find the first record with at least the given offset and at least the given timestamp.

    All records are decoded, `part` by `part`, so that the fault is that of `decode_batches`. The GIL is released.

    Args:
        buffer: See `decode_batches`.
        rows: See `decode_batches`.
        starts: See `decode_batches`.
        ends: See `decode_batches`.
        position: See `decode_batches`.
        offset: The smallest offset of the record.
        timestamp: The smallest timestamp of the record, ms.
        part: The limits of each step, see `decode_batches`; they limit the memory that is used.

    Returns:
        (found, fault): `found` is (offset, timestamp, index in `rows`) of the record, or None if there is none. `fault`
        is None or (code, row, at, expected, found), see `decode_batches`.

    Raises:
        ValueError: A region is outside the buffer, or the arrays differ in length.
    """

def span_of(offsets: NDArray[np.int64], start: int, end: int) -> tuple[int, int, int, int]:
    """Find the smallest and the largest of some offsets, and those in [start, end).

    Args:
        offsets: The offsets, int64, shape (n,), n > 0.
        start: The first offset of the range.
        end: The offset after the range.

    Returns:
        (smallest, largest, first, stop): the offsets in the range are offsets[first:stop]. If the offsets are not in
        ascending order, `stop` is -1, because those in the range may not be adjacent.

    Raises:
        ValueError: There are no offsets.
    """

def gather(
    buffer: ReadableBuffer,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Copy pieces of a buffer one after the other, as the two buffers of an Arrow binary array.

    The pieces are buffer[starts[i]:starts[i] + lengths[i]]. The GIL is released.

    Args:
        buffer: The bytes that `starts` refers to.
        starts: The index in `buffer` of each piece, int64, shape (n,).
        lengths: The length in bytes of each piece, int64, shape (n,); less than 0: null, which takes no bytes.

    Returns:
        (ends, data): `ends` is the total length up to each piece, from 0 on, int32, shape (n + 1,); `data` the bytes of
        all pieces, uint8, shape (ends[n],).

    Raises:
        OverflowError: The pieces have more than 2**31 - 1 bytes.
        ValueError: A piece is outside the buffer, or the arrays differ in length.
    """
