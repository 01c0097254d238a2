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
from kafkalog._speedups.buffer_pool cimport Block as Memory
from kafkalog._speedups.cursor cimport Cursor, cursor_open
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.messages_v0_v1 cimport count_messages, decode_message_set
from kafkalog._speedups.records_v2 cimport SHORTEST_RECORD, Columns, decode_record_batch
from kafkalog._speedups.header_table cimport Rows, open_rows, region_start

import numpy as np

from kafkalog._speedups.buffer_pool import Block

# Bytes that one instruction copies.
cdef enum:
    SHORT = 16

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


cdef Py_ssize_t fill_regions(starts, ends, const Rows* table, int64_t position, int64_t* regions) except -1:
    """Where the regions begin, and behind that where they end: as told, or where they are stored."""
    cdef const int64_t[:] begin
    cdef const int64_t[:] end
    cdef Py_ssize_t i
    if starts is None and ends is None:
        for i in range(table.count):
            regions[i] = region_start(&table.at[i], position)
            regions[table.count + i] = table.at[i].position - position + table.at[i].size_in_bytes
        return table.count
    if starts is None or ends is None:
        raise ValueError("starts and ends are needed, or neither")
    begin, end = starts, ends
    if begin.shape[0] != table.count or end.shape[0] != table.count:
        raise ValueError(f"{table.count} rows, {begin.shape[0]} starts, {end.shape[0]} ends")
    for i in range(table.count):
        regions[i] = begin[i]
        regions[table.count + i] = end[i]
    return table.count


cdef int check_regions(const int64_t* starts, const int64_t* ends, Py_ssize_t count, int64_t length) except -1:
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= starts[i] <= ends[i] <= length:
            raise ValueError(f"region {i} [{starts[i]}, {ends[i]}) is outside the buffer of {length} bytes")
    return 0


cdef void lay_out(Columns* out, void* memory, Py_ssize_t room) noexcept:
    """The columns one after the other in `memory`."""
    cdef int64_t* block = <int64_t*> memory
    out.count = 0
    out.room = room
    out.offset = block
    out.timestamp = block + room
    out.key_start = block + 2 * room
    out.key_length = block + 3 * room
    out.value_start = block + 4 * room
    out.value_length = block + 5 * room
    out.headers_start = block + 6 * room
    out.headers_length = block + 7 * room
    out.batch = <int32_t*> (block + 8 * room)


cdef Memory decode(const uint8_t* data, int64_t length, const Rows* table, starts, ends, int64_t position,
                   Columns* out, Cursor* region, Py_ssize_t* done):
    """The records of the regions, laid out in the memory that is returned; and how many rows without a fault."""
    cdef int64_t[2] alone
    cdef int64_t* start = alone
    cdef int64_t* end
    cdef Memory kept, memory
    cdef Py_ssize_t room
    if table.count > 1:
        kept = <Memory?> Block(2 * sizeof(int64_t) * table.count)
        start = <int64_t*> kept.memory
    end = start + fill_regions(starts, ends, table, position, start)
    check_regions(start, end, table.count, length)
    with nogil:
        room = room_for(data, table.at, start, end, table.count) + 1
    memory = <Memory?> Block((8 * sizeof(int64_t) + sizeof(int32_t)) * room)
    lay_out(out, memory.memory, room)
    with nogil:
        done[0] = decode_rows(data, table.at, start, end, table.count, out, region)
    return memory


cdef inline object fault_of(const Rows* table, const uint8_t* data, const Cursor* region, Py_ssize_t done):
    if done >= table.count:
        return None
    return region.fault, done, region.fault_at - data, region.expected, region.found


def decode_batches(const uint8_t[::1] buffer not None, rows, starts=None, ends=None, int64_t position=0):
    """Records of the regions buffer[starts[i]:ends[i]], read as rows[i] says, up to the first fault.

    Without starts and ends, the regions are those that `stored_regions` finds for `position`.

    Returns (block int64 (8, n), batch int32 (n,), count <= n, fault), fault None or (code, row, at, expected, found).
    The GIL is released. ValueError: a region outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    cdef Cursor region
    cdef Py_ssize_t done
    cdef Memory memory = decode(data, buffer.shape[0], &table, starts, ends, position, &out, &region, &done)
    block = np.ndarray((8, out.room), INT64, memory)
    batch = np.ndarray(out.room, INT32, memory, 8 * sizeof(int64_t) * out.room)
    block.setflags(False)
    batch.setflags(False)
    return block, batch, out.count, fault_of(&table, data, &region, done)


def find_record(const uint8_t[::1] buffer not None, rows, starts, ends, int64_t position, int64_t offset,
                int64_t timestamp):
    """The first of the records that `decode_batches` would give whose offset and timestamp reach both figures.

    Returns (found, fault): found is (offset, timestamp, row), or None where there is none. All are decoded, so that the
    fault is the same. The GIL is released. ValueError: a region outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    cdef Cursor region
    cdef Py_ssize_t done
    # Alive as long as what is laid out in it is looked at.
    cdef Memory memory = decode(data, buffer.shape[0], &table, starts, ends, position, &out, &region, &done)
    cdef Py_ssize_t i
    cdef object found = None
    for i in range(out.count):
        if out.offset[i] >= offset and out.timestamp[i] >= timestamp:
            found = out.offset[i], out.timestamp[i], out.batch[i]
            break
    del memory
    return found, fault_of(&table, data, &region, done)


cdef Py_ssize_t rising_before(const int64_t[:] offsets, int64_t end) noexcept nogil:
    """How many offsets, which rise, come before the first that is `end` or more."""
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


cdef bint is_rising(const int64_t[:] offsets) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(1, offsets.shape[0]):
        if offsets[i] < offsets[i - 1]:
            return False
    return True


def span_of(const int64_t[:] offsets not None, int64_t start, int64_t end):
    """The smallest of some offsets and the largest, and which of them are in [start, end).

    Returns (smallest, largest, first, stop): those in [start, end) are offsets[first:stop]; stop is -1 where offsets do
    not rise, so that these may not lie together. ValueError: there are no offsets.
    """
    cdef Py_ssize_t first, stop, i
    cdef int64_t smallest, largest
    if not offsets.shape[0]:
        raise ValueError("no offsets")
    smallest, largest = offsets[0], offsets[offsets.shape[0] - 1]
    if is_rising(offsets):
        first = 0 if start <= smallest else rising_before(offsets, start)
        stop = offsets.shape[0] if largest < end else rising_before(offsets, end)
        return smallest, largest, first, max(first, stop)
    for i in range(offsets.shape[0]):
        smallest = min(smallest, offsets[i])
        largest = max(largest, offsets[i])
    return smallest, largest, 0, -1


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
            if length <= 0 or not 0 <= start <= buffer.shape[0] - length:
                continue
            # A short piece, as most keys are, is copied in one step with some of what follows it in the buffer, over
            # which the next piece is copied.
            if length <= SHORT and start <= buffer.shape[0] - SHORT and ends[i] <= total - SHORT:
                memcpy(&room[ends[i]], &buffer[start], SHORT)
            else:
                memcpy(&room[ends[i]], &buffer[start], length)
    return ends_array, room_array
