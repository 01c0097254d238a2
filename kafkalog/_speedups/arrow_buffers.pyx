"""Record headers to the buffers of an Arrow list<struct<key, value>>.

    headers   key length varint, key (UTF-8) | value length varint, value      one after the other, to the record's end

A decoder has walked them before; the bytes may be a file's that somebody changes meanwhile, so every step asks again
whether they are there, and what the first walk counted bounds what the second one writes.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups.cursor cimport Cursor, bytes_left, cursor_open, read_varint, take

import numpy as np

from kafkalog._speedups.buffer_pool import Block


cdef struct Sums:
    int64_t headers
    int64_t key_bytes
    int64_t value_bytes


cdef struct Room:
    Sums counted
    Sums used
    int32_t* key_ends
    uint8_t* keys
    int32_t* value_ends
    uint8_t* values
    uint8_t* present


cdef int count_headers(const uint8_t* start, int64_t length, Sums* sums) noexcept nogil:
    """Add up what the headers of one record hold; 0 where they are none."""
    cdef Cursor cursor
    cdef int64_t size
    cursor_open(&cursor, start, start + length)
    while bytes_left(&cursor) > 0:
        size = read_varint(&cursor)
        if size < 0:
            return 0
        take(&cursor, size)
        sums.key_bytes += size
        size = max(0, read_varint(&cursor))
        take(&cursor, size)
        sums.value_bytes += size
        sums.headers += 1
    return cursor.fault == 0


cdef int copy_headers(const uint8_t* start, int64_t length, Room* room) noexcept nogil:
    """Copy the headers of one record behind what is there; 0 where they are not those that were counted."""
    cdef Cursor cursor
    cdef const uint8_t* piece
    cdef int64_t size
    cursor_open(&cursor, start, start + length)
    while bytes_left(&cursor) > 0:
        if room.used.headers == room.counted.headers:
            return 0
        size = read_varint(&cursor)
        if size < 0 or size > room.counted.key_bytes - room.used.key_bytes:
            return 0
        piece = take(&cursor, size)
        if cursor.fault:
            return 0
        memcpy(room.keys + room.used.key_bytes, piece, size)
        room.used.key_bytes += size
        size = read_varint(&cursor)
        if cursor.fault or size > room.counted.value_bytes - room.used.value_bytes:
            return 0
        room.present[room.used.headers] = size >= 0
        size = max(0, size)
        piece = take(&cursor, size)
        if cursor.fault:
            return 0
        memcpy(room.values + room.used.value_bytes, piece, size)
        room.used.value_bytes += size
        room.used.headers += 1
        room.key_ends[room.used.headers] = <int32_t> room.used.key_bytes
        room.value_ends[room.used.headers] = <int32_t> room.used.value_bytes
    return 1


cdef object changed():
    return ValueError("the headers' bytes have changed since they were decoded")


def gather_headers(const uint8_t[::1] buffer not None, const int64_t[::1] starts not None,
                   const int64_t[::1] lengths not None):
    """The headers in buffer[starts[i]:starts[i] + lengths[i]] (length 0 or less: none), one after the other.

    Returns (ends int32 (n + 1,), headers up to each record; key_ends int32 (m + 1,), keys uint8; value_ends int32
    (m + 1,), values uint8; present uint8 (m,), 0 where a value is null). OverflowError: more than 2**31 - 1 headers or
    bytes; ValueError: headers outside the buffer, or that are none.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef int32_t[::1] ends
    cdef int32_t[::1] key_ends
    cdef int32_t[::1] value_ends
    cdef uint8_t[::1] keys
    cdef uint8_t[::1] values
    cdef uint8_t[::1] present
    cdef Room room
    cdef Py_ssize_t i
    cdef int64_t start
    cdef int64_t length
    if lengths.shape[0] != count:
        raise ValueError(f"{count} starts, {lengths.shape[0]} lengths")
    ends_array = np.zeros(count + 1, np.int32)
    ends = ends_array
    room.counted.headers = room.counted.key_bytes = room.counted.value_bytes = 0
    for i in range(count):
        start = starts[i]
        length = lengths[i]
        if length > 0:
            if start < 0 or length > buffer.shape[0] - start:
                raise ValueError(f"headers of record {i} at {start}, {length} bytes, are outside the buffer of "
                                 f"{buffer.shape[0]} bytes")
            if not count_headers(data + start, length, &room.counted):
                raise changed()
            if max(room.counted.headers, room.counted.key_bytes, room.counted.value_bytes) > 0x7FFFFFFF:
                raise OverflowError("more than 2**31 - 1 headers or bytes in one Arrow array; take a smaller slice")
        ends[i + 1] = <int32_t> room.counted.headers
    # One more, so that even nothing has an address.
    key_ends_array = np.zeros(room.counted.headers + 1, np.int32)
    value_ends_array = np.zeros(room.counted.headers + 1, np.int32)
    present_array = np.zeros(room.counted.headers + 1, np.uint8)
    keys_array = np.ndarray(room.counted.key_bytes + 1, np.uint8, Block(room.counted.key_bytes + 1))
    values_array = np.ndarray(room.counted.value_bytes + 1, np.uint8, Block(room.counted.value_bytes + 1))
    key_ends, value_ends, present = key_ends_array, value_ends_array, present_array
    keys, values = keys_array, values_array
    room.used.headers = room.used.key_bytes = room.used.value_bytes = 0
    room.key_ends, room.value_ends = &key_ends[0], &value_ends[0]
    room.keys, room.values, room.present = &keys[0], &values[0], &present[0]
    for i in range(count):
        start = starts[i]
        length = lengths[i]
        if ends[i + 1] > ends[i] and (start < 0 or length > buffer.shape[0] - start
                                      or not copy_headers(data + start, length, &room)
                                      or room.used.headers != ends[i + 1]):
            raise changed()
    return (ends_array, key_ends_array, keys_array[:room.used.key_bytes], value_ends_array,
            values_array[:room.used.value_bytes], present_array[:room.used.headers])
