"""Decoding of many entries in one call: the records of their regions to columns.

A region is a part of one buffer, which has the bytes of the log or decompressed bytes. The row of the entry in the
header table says what the region contains: v2 records, one v0/v1 message, or the messages of a wrapper. The result is
one int64 array with a row for each of these fields:

    offset timestamp key_start key_length value_start value_length headers_start headers_length

A start is an index in the buffer; keys, values and headers are not copied. DESIGN.md, "The kernel contract", defines
the faults.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups cimport cursor as c
from kafkalog._speedups.buffer_pool cimport Block as Memory
from kafkalog._speedups.cursor cimport Cursor, cursor_open
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.messages_v0_v1 cimport count_messages, decode_message_set
from kafkalog._speedups.records_v2 cimport SHORTEST_RECORD, Columns, Place, decode_record_batch, is_full
from kafkalog._speedups.header_table cimport Rows, open_rows, region_end, region_start

import numpy as np

from kafkalog._speedups.buffer_pool import Block

# The most bytes that one instruction copies.
cdef enum:
    SHORT = 16

# The `part` that has no limits.
NO_LIMIT = (INT64_MAX, INT64_MAX)

cdef object INT64 = np.dtype(np.int64)
cdef object INT32 = np.dtype(np.int32)

NO_FAULT = c.NO_FAULT
UNDERRUN = c.UNDERRUN
VARINT_TOO_LONG = c.VARINT_TOO_LONG
NEGATIVE_LENGTH = c.NEGATIVE_LENGTH
RECORD_LENGTH = c.RECORD_LENGTH
HEADER_COUNT = c.HEADER_COUNT
HEADER_KEY_LENGTH = c.HEADER_KEY_LENGTH
RECORDS_COUNT = c.RECORDS_COUNT
MESSAGE_SIZE = c.MESSAGE_SIZE
NESTED_WRAPPER = c.NESTED_WRAPPER
MESSAGE_MAGIC = c.MESSAGE_MAGIC
EMPTY_WRAPPER = c.EMPTY_WRAPPER
WRAPPER_OFFSET = c.WRAPPER_OFFSET
TRAILING_BYTES = c.TRAILING_BYTES
TOO_MANY_HEADERS = c.TOO_MANY_HEADERS


cdef Py_ssize_t max_records(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                            Py_ssize_t count, const Place* place, int64_t limit) noexcept nogil:
    """Return one more than the largest number of records that the regions may contain from `place` on; at most `limit`.

    A region contains at most as many records as its header counts, and as fit in its bytes.
    """
    cdef int64_t records = 0
    cdef Py_ssize_t i
    cdef const uint8_t* start
    cdef int64_t fit
    for i in range(place.row, count):
        start = place.at if i == place.row else data + starts[i]
        if rows[i].magic < 2:
            records += count_messages(start, data + ends[i], limit - records)
        else:
            fit = (data + ends[i] - start) // SHORTEST_RECORD
            records += max(0, min(fit, rows[i].records_count - (place.done if i == place.row else 0)))
        if records >= limit:
            return limit
    return records + 1


cdef Py_ssize_t decode_rows(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                            Py_ssize_t count, Columns* out, Cursor* region, Place* place) noexcept nogil:
    """Decode the records from `place` on. Return the row of the first fault, or the row at which `out` is full.

    If all records have been decoded, return `count`.
    """
    cdef Py_ssize_t i
    cdef int complete
    for i in range(place.row, count):
        if i > place.row:
            place.row = i
            place.at = data + starts[i]
            place.done = place.shift = 0
        cursor_open(region, place.at, data + ends[i])
        if is_full(out):
            return i
        if rows[i].magic < 2:
            complete = decode_message_set(data, region, &rows[i], <int32_t> i, out, place)
        else:
            complete = decode_record_batch(data, region, &rows[i], <int32_t> i, out, place)
        if not complete:
            return i
    return count


cdef Py_ssize_t fill_regions(starts, ends, const Rows* table, int64_t position, int64_t* regions) except -1:
    """Write the starts of all regions to `regions`, then all ends. Return the number of regions.

    If `starts` and `ends` are None, the regions are where entries that are not compressed store their records.
    """
    cdef const int64_t[:] start_view
    cdef const int64_t[:] end_view
    cdef Py_ssize_t i
    if starts is None and ends is None:
        for i in range(table.count):
            regions[i] = region_start(&table.at[i], position)
            regions[table.count + i] = region_end(&table.at[i], position)
        return table.count
    if starts is None or ends is None:
        raise ValueError("starts and ends are needed, or neither")
    start_view, end_view = starts, ends
    if start_view.shape[0] != table.count or end_view.shape[0] != table.count:
        raise ValueError(f"{table.count} rows, {start_view.shape[0]} starts, {end_view.shape[0]} ends")
    for i in range(table.count):
        regions[i] = start_view[i]
        regions[table.count + i] = end_view[i]
    return table.count


cdef int check_regions(const int64_t* starts, const int64_t* ends, Py_ssize_t count, int64_t length) except -1:
    """Check that all regions are inside a buffer of `length` bytes."""
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= starts[i] <= ends[i] <= length:
            raise ValueError(f"region {i} [{starts[i]}, {ends[i]}) is outside the buffer of {length} bytes")
    return 0


cdef void divide(void* memory, Py_ssize_t capacity, Columns* out) noexcept:
    """Divide `memory` into columns for `capacity` records, one after the other."""
    cdef int64_t* block = <int64_t*> memory
    out.count = 0
    out.weight = 0
    out.capacity = capacity
    out.offset = block
    out.timestamp = block + capacity
    out.key_start = block + 2 * capacity
    out.key_length = block + 3 * capacity
    out.value_start = block + 4 * capacity
    out.value_length = block + 5 * capacity
    out.headers_start = block + 6 * capacity
    out.headers_length = block + 7 * capacity
    out.batch = <int32_t*> (block + 8 * capacity)


cdef int open_place(after, const uint8_t* data, const int64_t* starts, const int64_t* ends, Py_ssize_t count,
                    Place* place) except -1:
    """Set `place` to the first record, or, if `after` is the `stop` of an earlier call, to where that call stopped."""
    cdef int64_t at
    place.row = place.done = place.shift = 0
    place.at = data + starts[0] if count else data
    if after is None:
        return 0
    _, place.row, at, place.done, place.shift = after
    if not (0 <= place.row < count and starts[place.row] <= at <= ends[place.row] and place.done >= 0):
        raise ValueError(f"{after} is no place in {count} rows")
    place.at = data + at
    return 0


cdef tuple decode(const uint8_t* data, int64_t length, const Rows* table, starts, ends, int64_t position, part, after,
                  Columns* out):
    """Decode records. Return the memory of the columns, to which `out` points, and the `stop` of `decode_batches`."""
    cdef int64_t[2] single_region
    cdef int64_t* start = single_region
    cdef int64_t* end
    cdef int64_t limit
    cdef Memory regions, memory
    cdef Py_ssize_t capacity, done
    cdef Place place
    cdef Cursor region
    if table.count > 1:
        regions = <Memory?> Block(2 * sizeof(int64_t) * table.count)
        start = <int64_t*> regions.memory
    end = start + fill_regions(starts, ends, table, position, start)
    check_regions(start, end, table.count, length)
    open_place(after, data, start, end, table.count, &place)
    limit, out.max_weight = NO_LIMIT if part is None else part
    with nogil:
        capacity = max_records(data, table.at, start, end, table.count, &place, limit) + 1
    memory = <Memory?> Block((8 * sizeof(int64_t) + sizeof(int32_t)) * capacity)
    divide(memory.memory, capacity, out)
    with nogil:
        done = decode_rows(data, table.at, start, end, table.count, out, &region, &place)
    if done >= table.count:
        return memory, None
    if region.fault:
        return memory, (region.fault, done, region.fault_at - data, region.expected, region.found)
    return memory, (c.NO_FAULT, done, place.at - data, place.done, place.shift)


def decode_batches(const uint8_t[::1] buffer not None, rows, starts=None, ends=None, int64_t position=0, part=None,
                   after=None):
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
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    memory, stop = decode(data, buffer.shape[0], &table, starts, ends, position, part, after, &out)
    block = np.ndarray((8, out.capacity), INT64, memory)
    batch = np.ndarray(out.capacity, INT32, memory, 8 * sizeof(int64_t) * out.capacity)
    block.setflags(False)
    batch.setflags(False)
    return block, batch, out.count, stop


def find_record(const uint8_t[::1] buffer not None, rows, starts, ends, int64_t position, int64_t offset,
                int64_t timestamp, part=None):
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
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    cdef Py_ssize_t i
    cdef object found = None
    stop = None
    while True:
        # The variable keeps the memory alive, to which `out` points.
        _memory, stop = decode(data, buffer.shape[0], &table, starts, ends, position, part, stop, &out)
        for i in range(out.count if found is None else 0):
            if out.offset[i] >= offset and out.timestamp[i] >= timestamp:
                found = out.offset[i], out.timestamp[i], out.batch[i]
                break
        if stop is None or stop[0] != c.NO_FAULT:
            return found, stop


cdef Py_ssize_t count_before(const int64_t[:] offsets, int64_t end) noexcept nogil:
    """Count the offsets that are less than `end`; the offsets must be in ascending order."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = offsets.shape[0]
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if offsets[middle] < end:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint is_ascending(const int64_t[:] offsets) noexcept nogil:
    """Return whether no offset is less than the one before it."""
    cdef Py_ssize_t i
    for i in range(1, offsets.shape[0]):
        if offsets[i] < offsets[i - 1]:
            return False
    return True


def span_of(const int64_t[:] offsets not None, int64_t start, int64_t end):
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
    cdef Py_ssize_t first, stop, i
    cdef int64_t smallest, largest
    if not offsets.shape[0]:
        raise ValueError("no offsets")
    smallest, largest = offsets[0], offsets[offsets.shape[0] - 1]
    if is_ascending(offsets):
        first = 0 if start <= smallest else count_before(offsets, start)
        stop = offsets.shape[0] if largest < end else count_before(offsets, end)
        return smallest, largest, first, max(first, stop)
    for i in range(offsets.shape[0]):
        smallest = min(smallest, offsets[i])
        largest = max(largest, offsets[i])
    return smallest, largest, 0, -1


def gather(const uint8_t[::1] buffer not None, const int64_t[::1] starts not None, const int64_t[::1] lengths not None):
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
    cdef Py_ssize_t count = starts.shape[0]
    cdef int32_t[::1] ends
    cdef uint8_t[::1] data
    cdef int64_t total = 0
    cdef int64_t start
    cdef int64_t length
    cdef Py_ssize_t i
    if lengths.shape[0] != count:
        raise ValueError(f"{count} starts, {lengths.shape[0]} lengths")
    ends_array = np.empty(count + 1, np.int32)
    ends = ends_array
    ends[0] = 0
    for i in range(count):
        start = starts[i]
        length = lengths[i]
        if length > 0:
            if start < 0 or length > buffer.shape[0] - start:
                raise ValueError(f"piece {i} at {start}, {length} bytes, is outside the buffer of "
                                 f"{buffer.shape[0]} bytes")
            total += length
            if total > 0x7FFFFFFF:
                raise OverflowError("more than 2**31 - 1 bytes in one Arrow array; take a smaller slice")
        ends[i + 1] = <int32_t> total
    data_array = np.ndarray(total, np.uint8, Block(total))
    data = data_array
    with nogil:
        for i in range(count):
            # Another thread may have changed the arrays since they were checked, because the GIL is released. The
            # lengths are those that were checked; the start is checked again.
            start = starts[i]
            length = ends[i + 1] - ends[i]
            if length <= 0 or not 0 <= start <= buffer.shape[0] - length:
                continue
            # Most keys are short. A copy of a constant size is one instruction; the surplus bytes are overwritten by
            # the next piece.
            if length <= SHORT and start <= buffer.shape[0] - SHORT and ends[i] <= total - SHORT:
                memcpy(&data[ends[i]], &buffer[start], SHORT)
            else:
                memcpy(&data[ends[i]], &buffer[start], length)
    return ends_array, data_array
