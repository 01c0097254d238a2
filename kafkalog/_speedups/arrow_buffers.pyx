"""Conversion of record headers to the buffers of an Arrow list<struct<key, value>>.

    headers   key length varint, key (UTF-8) | value length varint, value      one after the other, to the record's end

A header takes at least two bytes, and its key and value are part of them. So the total length of the headers limits the
size of every buffer before a header is read, and one pass is enough. The limit holds even if another process changes
the bytes between the allocation and that pass.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from kafkalog._speedups.cursor cimport Cursor, bytes_left, cursor_open, read_varint, take

import numpy as np

from kafkalog._speedups.buffer_pool import Block


# The buffers to fill, and the number of headers that they contain.
cdef struct Gathered:
    int64_t headers
    int32_t* key_ends
    uint8_t* keys
    int32_t* value_ends
    uint8_t* values
    uint8_t* present


cdef int add_headers(const uint8_t* start, int64_t length, Gathered* out) noexcept nogil:
    """Append the headers of one record to the buffers. Return 0 if the bytes do not follow the format."""
    cdef Cursor cursor
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int64_t key_size, value_size, i
    cursor_open(&cursor, start, start + length)
    while bytes_left(&cursor) > 0:
        i = out.headers
        key_size = read_varint(&cursor)
        key = take(&cursor, max(0, key_size))
        value_size = read_varint(&cursor)
        value = take(&cursor, max(0, value_size))
        if key_size < 0 or cursor.fault:
            return 0
        memcpy(out.keys + out.key_ends[i], key, key_size)
        memcpy(out.values + out.value_ends[i], value, max(0, value_size))
        out.key_ends[i + 1] = out.key_ends[i] + <int32_t> key_size
        out.value_ends[i + 1] = out.value_ends[i] + <int32_t> max(0, value_size)
        out.present[i] = value_size >= 0
        out.headers += 1
    return 1


cdef int64_t total_length(const int64_t[::1] starts, const int64_t[::1] lengths, Py_ssize_t size) except -1:
    """Return the total length of the headers in bytes, after checking that they are inside a buffer of `size` bytes."""
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
    """Convert the headers of n records to the buffers of an Arrow list<struct<key, value>>.

    Args:
        buffer: The bytes that `starts` refers to.
        starts: The index in `buffer` of the headers of each record, int64, shape (n,).
        lengths: The length in bytes of the headers of each record, int64, shape (n,); 0 or less: no headers.

    Returns:
        (ends, key_ends, keys, value_ends, values, present), for m headers:

        - ends: The number of headers up to the end of each record, from 0 on, int32, shape (n + 1,).
        - key_ends: The total length in bytes of the keys up to each header, from 0 on, int32, shape (m + 1,).
        - keys: The bytes of all keys, uint8; they may be invalid UTF-8.
        - value_ends: The same as key_ends, for the values.
        - values: The bytes of all values, uint8.
        - present: 0 where a value is null, else 1, uint8, shape (m,).

    Raises:
        OverflowError: The headers have more than 2**31 - 1 bytes.
        ValueError: A range is outside the buffer, the arrays differ in length, or the bytes are not valid headers,
            because they have changed since they were decoded.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef int64_t total = total_length(starts, lengths, buffer.shape[0])
    cdef Gathered out
    cdef Py_ssize_t i
    # Each array has at least one element, so that `&array[0]` is valid. Pages that are never touched cost nothing.
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
    out.headers = 0
    out.key_ends, out.value_ends, out.present = &key_ends[0], &value_ends[0], &present[0]
    out.keys, out.values = &keys[0], &values[0]
    for i in range(count):
        if lengths[i] > 0 and not add_headers(&buffer[starts[i]], lengths[i], &out):
            raise ValueError("the headers' bytes have changed since they were decoded")
        ends[i + 1] = <int32_t> out.headers
    return (ends_array, key_ends_array[:out.headers + 1], keys_array[:key_ends[out.headers]],
            value_ends_array[:out.headers + 1], values_array[:value_ends[out.headers]],
            present_array[:out.headers])
