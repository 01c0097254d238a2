"""Many batches at once to columns: rows of the header table and where their bytes are, to arrays.

A row says how its region reads (v2 records, one v0/v1 message, the set inside a wrapper); the region is a slice of
one buffer, either the log itself or decompressed bytes. The arrays that come out are all int64 and of one allocation,
eight rows of it:

    offset timestamp key_start key_length value_start value_length headers_start headers_length

Starts index the buffer; nothing is copied. DESIGN.md, "The kernel contract", says what each fault means.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups cimport cursor as c
from kafkalog._speedups.cursor cimport Cursor, cursor_open
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.message_set cimport count_messages, decode_message_set
from kafkalog._speedups.records cimport SHORTEST_RECORD, Columns, decode_record_batch

import numpy as np

from kafkalog._speedups.arena import Block

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


cdef Py_ssize_t room_for(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                         Py_ssize_t count) noexcept nogil:
    """At most so many records are in the regions.

    What a header claims, or what its bytes can hold where that is less.
    """
    cdef Py_ssize_t room = 0
    cdef Py_ssize_t i
    cdef int64_t fit
    for i in range(count):
        if rows[i].magic < 2:
            room += count_messages(data + starts[i], data + ends[i])
            continue
        fit = (ends[i] - starts[i]) // SHORTEST_RECORD
        room += max(0, min(fit, rows[i].records_count))
    return room


cdef Py_ssize_t decode_rows(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                            Py_ssize_t count, Columns* out, Cursor* region) noexcept nogil:
    """Decode row after row; the row of the first fault, or `count`."""
    cdef Py_ssize_t i
    cdef int whole
    for i in range(count):
        cursor_open(region, data + starts[i], data + ends[i])
        if rows[i].magic < 2:
            whole = decode_message_set(data, region, &rows[i], <int32_t> i, out)
        else:
            whole = decode_record_batch(data, region, &rows[i], <int32_t> i, out)
        if not whole:
            return i
    return count


cdef void check_regions(const int64_t[::1] starts, const int64_t[::1] ends, Py_ssize_t count, int64_t length) except *:
    cdef Py_ssize_t i
    if starts.shape[0] != count or ends.shape[0] != count:
        raise ValueError(f"{count} rows, {starts.shape[0]} starts, {ends.shape[0]} ends")
    for i in range(count):
        if not 0 <= starts[i] <= ends[i] <= length:
            raise ValueError(f"region {i} [{starts[i]}, {ends[i]}) is outside the buffer of {length} bytes")


def decode_batches(const uint8_t[::1] buffer not None, const Header[::1] rows, const int64_t[::1] starts not None,
                   const int64_t[::1] ends not None):
    """Records of the regions buffer[starts[i]:ends[i]], read as rows[i] says, up to the first fault.

    Returns (block int64 (8, n), batch int32 (n,), count <= n, fault), fault None or (code, row, at, expected, found).
    The GIL is released. ValueError: a region outside the buffer.
    """
    cdef Py_ssize_t rows_count = 0 if rows is None else rows.shape[0]
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef const Header* row = &rows[0] if rows_count else NULL
    cdef const int64_t* start = &starts[0] if rows_count else NULL
    cdef const int64_t* end = &ends[0] if rows_count else NULL
    cdef int64_t[:, ::1] block
    cdef int32_t[::1] batch
    cdef Columns out
    cdef Cursor region
    cdef Py_ssize_t done
    check_regions(starts, ends, rows_count, buffer.shape[0])
    with nogil:
        out.room = room_for(data, row, start, end, rows_count) + 1
    memory = Block((8 * sizeof(int64_t) + sizeof(int32_t)) * out.room)
    block = block_array = np.ndarray((8, out.room), np.int64, memory)
    batch = batch_array = np.ndarray(out.room, np.int32, memory, 8 * sizeof(int64_t) * out.room)
    out.count = 0
    out.offset = &block[0, 0]
    out.timestamp = &block[1, 0]
    out.key_start = &block[2, 0]
    out.key_length = &block[3, 0]
    out.value_start = &block[4, 0]
    out.value_length = &block[5, 0]
    out.headers_start = &block[6, 0]
    out.headers_length = &block[7, 0]
    out.batch = &batch[0]
    with nogil:
        done = decode_rows(data, row, start, end, rows_count, &out, &region)
    fault = None
    if done < rows_count:
        fault = (region.fault, done, region.fault_at - data, region.expected, region.found)
    block_array.setflags(write=False)
    batch_array.setflags(write=False)
    return block_array, batch_array, out.count, fault


def gather(const uint8_t[::1] buffer not None, const int64_t[::1] starts not None, const int64_t[::1] lengths not None):
    """The pieces buffer[starts[i]:starts[i] + lengths[i]] one after the other (null, length -1, takes no bytes).

    Returns (ends int32 (n + 1,), the running sum of the lengths from 0; bytes uint8 (ends[n],)): an Arrow binary
    array's two buffers. The GIL is released. OverflowError: more than 2**31 - 1 bytes; ValueError: a piece outside
    the buffer.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef int32_t[::1] ends
    cdef uint8_t[::1] room
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
    room_array = np.ndarray(total, np.uint8, Block(total))
    room = room_array
    with nogil:
        for i in range(count):
            # What was checked: somebody else may write to the arrays, now that they can run.
            start = starts[i]
            length = ends[i + 1] - ends[i]
            if length > 0 and 0 <= start <= buffer.shape[0] - length:
                memcpy(&room[ends[i]], &buffer[start], length)
    return ends_array, room_array
