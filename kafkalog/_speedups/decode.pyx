"""Many batches at once to columns: rows of the header table and where their bytes are, to arrays.

A row says how its region reads (v2 records, one v0/v1 message, the set inside a wrapper); the region is a slice of
one buffer, either the log itself or decompressed bytes. The arrays that come out are all int64 and of one allocation,
eight rows of it:

    offset timestamp key_start key_length value_start value_length headers_start headers_length

Starts index the buffer; nothing is copied. DESIGN.md, "The kernel contract", says what each fault means.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups cimport cursor as c
from kafkalog._speedups.buffer_pool cimport Block as Memory
from kafkalog._speedups.cursor cimport Cursor, cursor_open
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.messages_v0_v1 cimport count_messages, decode_message_set
from kafkalog._speedups.records_v2 cimport SHORTEST_RECORD, Columns, Place, decode_record_batch, is_full
from kafkalog._speedups.header_table cimport Rows, open_rows, region_start

import numpy as np

from kafkalog._speedups.buffer_pool import Block

# Bytes that one instruction copies.
cdef enum:
    SHORT = 16

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


cdef Py_ssize_t room_for(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                         Py_ssize_t count, const Place* place, int64_t most) noexcept nogil:
    """Return the largest number of records that may follow in the regions, and one more; at most `most`.

    A region has as many as its header claims, or as its bytes can hold if that is less.
    """
    cdef int64_t room = 0
    cdef Py_ssize_t i
    cdef const uint8_t* start
    cdef int64_t fit
    for i in range(place.row, count):
        start = place.at if i == place.row else data + starts[i]
        if rows[i].magic < 2:
            room += count_messages(start, data + ends[i], most - room)
        else:
            fit = (data + ends[i] - start) // SHORTEST_RECORD
            room += max(0, min(fit, rows[i].records_count - (place.done if i == place.row else 0)))
        if room >= most:
            return most
    return room + 1


cdef Py_ssize_t decode_rows(const uint8_t* data, const Header* rows, const int64_t* starts, const int64_t* ends,
                            Py_ssize_t count, Columns* out, Cursor* region, Place* place) noexcept nogil:
    """Decode row after row from `place` on. Return the row of a fault, or the one where `out` is full, or `count`."""
    cdef Py_ssize_t i
    cdef int whole
    for i in range(place.row, count):
        if i > place.row:
            place.row = i
            place.at = data + starts[i]
            place.done = place.shift = 0
        cursor_open(region, place.at, data + ends[i])
        if is_full(out):
            return i
        if rows[i].magic < 2:
            whole = decode_message_set(data, region, &rows[i], <int32_t> i, out, place)
        else:
            whole = decode_record_batch(data, region, &rows[i], <int32_t> i, out, place)
        if not whole:
            return i
    return count


cdef Py_ssize_t fill_regions(starts, ends, const Rows* table, int64_t position, int64_t* regions) except -1:
    """Write the starts of the regions to `regions`, then their ends: those given, or those of the stored records."""
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
    """Set the columns to parts of `memory`, one after the other."""
    cdef int64_t* block = <int64_t*> memory
    out.count = 0
    out.weight = 0
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


cdef int open_place(after, const uint8_t* data, const int64_t* starts, const int64_t* ends, Py_ssize_t count,
                    Place* place) except -1:
    """Set `place` to the first row, or to the place in the stop that an earlier call has returned."""
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
    """Decode records of the regions. Return the memory of their columns, and the stop as `decode_batches`."""
    cdef int64_t[2] alone
    cdef int64_t* start = alone
    cdef int64_t* end
    cdef int64_t most
    cdef Memory kept, memory
    cdef Py_ssize_t room, done
    cdef Place place
    cdef Cursor region
    if table.count > 1:
        kept = <Memory?> Block(2 * sizeof(int64_t) * table.count)
        start = <int64_t*> kept.memory
    end = start + fill_regions(starts, ends, table, position, start)
    check_regions(start, end, table.count, length)
    open_place(after, data, start, end, table.count, &place)
    most, out.most = NO_LIMIT if part is None else part
    with nogil:
        room = room_for(data, table.at, start, end, table.count, &place, most) + 1
    memory = <Memory?> Block((8 * sizeof(int64_t) + sizeof(int32_t)) * room)
    lay_out(out, memory.memory, room)
    with nogil:
        done = decode_rows(data, table.at, start, end, table.count, out, &region, &place)
    if done >= table.count:
        return memory, None
    if region.fault:
        return memory, (region.fault, done, region.fault_at - data, region.expected, region.found)
    return memory, (c.NO_FAULT, done, place.at - data, place.done, place.shift)


def decode_batches(const uint8_t[::1] buffer not None, rows, starts=None, ends=None, int64_t position=0, part=None,
                   after=None):
    """Decode the records of the regions buffer[starts[i]:ends[i]], as rows[i] describes, up to a fault, or a part.

    Without starts and ends, the regions are those that `stored_regions` finds for `position`. `part` = (records,
    weight): decode at most so many records, and stop after the record with which they weigh so much. `after`: the stop
    of the call before, to decode those that follow.

    Returns (block int64 (8, n), batch int32 (n,), count <= n, stop), stop None or (code, row, at, expected, found);
    code NO_FAULT: there may be more. The GIL is released. ValueError: a region outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    memory, stop = decode(data, buffer.shape[0], &table, starts, ends, position, part, after, &out)
    block = np.ndarray((8, out.room), INT64, memory)
    batch = np.ndarray(out.room, INT32, memory, 8 * sizeof(int64_t) * out.room)
    block.setflags(False)
    batch.setflags(False)
    return block, batch, out.count, stop


def find_record(const uint8_t[::1] buffer not None, rows, starts, ends, int64_t position, int64_t offset,
                int64_t timestamp, part=None):
    """Find the first record that `decode_batches` would return whose offset and timestamp reach both figures.

    Returns (found, fault): found is (offset, timestamp, row), or None where there is none. All are decoded, a `part` at
    a time, so that the fault is the same. The GIL is released. ValueError: a region outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Columns out
    cdef Py_ssize_t i
    cdef object found = None
    stop = None
    while True:
        # A name for the memory, which `out` only points to.
        _memory, stop = decode(data, buffer.shape[0], &table, starts, ends, position, part, stop, &out)
        for i in range(out.count if found is None else 0):
            if out.offset[i] >= offset and out.timestamp[i] >= timestamp:
                found = out.offset[i], out.timestamp[i], out.batch[i]
                break
        if stop is None or stop[0] != c.NO_FAULT:
            return found, stop


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
