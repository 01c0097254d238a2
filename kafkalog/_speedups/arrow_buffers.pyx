"""Record headers to the buffers of an Arrow list<struct<key, value>>.

    headers   key length varint, key (UTF-8) | value length varint, value      one after the other, to the record's end

A header takes at least two bytes, and its key and value are among the bytes of its record. So the lengths of the
records say how much room is enough, and the headers are walked once, whatever is in them: the bytes may be those of a
file that changes meanwhile.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups.cursor cimport Cursor, bytes_left, cursor_open, read_varint, take

import numpy as np

from kafkalog._speedups.buffer_pool import Block


cdef struct Gathered:
    int64_t headers
    int32_t* key_ends
    uint8_t* keys
    int32_t* value_ends
    uint8_t* values
    uint8_t* present


cdef int add_headers(const uint8_t* start, int64_t length, Gathered* into) noexcept nogil:
    """Add the headers of one record. Return 0 if they do not follow the format."""
    cdef Cursor cursor
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int64_t key_size, value_size, i
    cursor_open(&cursor, start, start + length)
    while bytes_left(&cursor) > 0:
        i = into.headers
        key_size = read_varint(&cursor)
        key = take(&cursor, max(0, key_size))
        value_size = read_varint(&cursor)
        value = take(&cursor, max(0, value_size))
        if key_size < 0 or cursor.fault:
            return 0
        memcpy(into.keys + into.key_ends[i], key, key_size)
        memcpy(into.values + into.value_ends[i], value, max(0, value_size))
        into.key_ends[i + 1] = into.key_ends[i] + <int32_t> key_size
        into.value_ends[i + 1] = into.value_ends[i] + <int32_t> max(0, value_size)
        into.present[i] = value_size >= 0
        into.headers += 1
    return 1


cdef int64_t total_length(const int64_t[::1] starts, const int64_t[::1] lengths, Py_ssize_t size) except -1:
    """Return the bytes of all headers, after checking that they are inside a buffer of `size` bytes."""
    cdef int64_t total = 0
    cdef Py_ssize_t i
    if lengths.shape[0] != starts.shape[0]:
        raise ValueError(f"{starts.shape[0]} starts, {lengths.shape[0]} lengths")
    for i in range(starts.shape[0]):
        if lengths[i] <= 0:
            continue
        if starts[i] < 0 or lengths[i] > size - starts[i]:
            raise ValueError(f"headers of record {i} at {starts[i]}, {lengths[i]} bytes, are outside the buffer of "
                             f"{size} bytes")
        total += lengths[i]
        if total > 0x7FFFFFFF:
            raise OverflowError("more than 2**31 - 1 bytes of headers in one Arrow array; take a smaller slice")
    return total


def gather_headers(const uint8_t[::1] buffer not None, const int64_t[::1] starts not None,
                   const int64_t[::1] lengths not None):
    """Gather the headers in buffer[starts[i]:starts[i] + lengths[i]] (length 0 or less: none), one after the other.

    Returns:
        (ends int32 (n + 1,), headers up to each record; key_ends int32 (m + 1,), keys uint8; value_ends int32 (m + 1,),
        values uint8; present uint8 (m,), 0 where a value is null).

    Raises:
        OverflowError: More than 2**31 - 1 bytes of headers.
        ValueError: Headers outside the buffer, or bytes that are no headers.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef int64_t total = total_length(starts, lengths, buffer.shape[0])
    cdef Gathered into
    cdef Py_ssize_t i
    # Arrays have at least one element, so that they have an address. Memory that is not touched costs nothing.
    ends_array = np.zeros(count + 1, np.int32)
    key_ends_array = np.empty(total // 2 + 1, np.int32)
    value_ends_array = np.empty(total // 2 + 1, np.int32)
    present_array = np.empty(total // 2 + 1, np.uint8)
    keys_array = np.ndarray(total + 1, np.uint8, Block(total + 1))
    values_array = np.ndarray(total + 1, np.uint8, Block(total + 1))
    cdef int32_t[::1] ends = ends_array
    cdef int32_t[::1] key_ends = key_ends_array
    cdef int32_t[::1] value_ends = value_ends_array
    cdef uint8_t[::1] present = present_array
    cdef uint8_t[::1] keys = keys_array
    cdef uint8_t[::1] values = values_array
    key_ends[0] = value_ends[0] = 0
    into.headers = 0
    into.key_ends, into.value_ends, into.present = &key_ends[0], &value_ends[0], &present[0]
    into.keys, into.values = &keys[0], &values[0]
    for i in range(count):
        if lengths[i] > 0 and not add_headers(&buffer[starts[i]], lengths[i], &into):
            raise ValueError("the headers' bytes have changed since they were decoded")
        ends[i + 1] = <int32_t> into.headers
    return (ends_array, key_ends_array[:into.headers + 1], keys_array[:key_ends[into.headers]],
            value_ends_array[:into.headers + 1], values_array[:value_ends[into.headers]],
            present_array[:into.headers])
