"""Binary search in the entries of an index, in memory or in a file.

    entry | entry | entry | ...     of `stride` bytes; at byte `at` of each, an integer of 4 or 8 bytes, ascending

In a file, single entries are read until those that remain fit in a block of 4 KiB, which is read in one call.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups.cursor cimport load_int, load_long
from kafkalog._speedups.read_at cimport read_at

from os import strerror

cdef enum:
    BLOCK_BYTES = 4096


cdef struct Field:
    int64_t stride
    int64_t at
    bint wide


cdef inline int64_t value_of(const uint8_t* entry, const Field* field) noexcept nogil:
    """Return the value of the field of an entry."""
    return load_long(entry + field.at) if field.wide else load_int(entry + field.at)


cdef int64_t count_at_most(const uint8_t* begin, const Field* field, int64_t target, int64_t entries) noexcept nogil:
    """Count the entries whose field is at most `target`."""
    cdef int64_t low = 0, high = entries, middle
    while low < high:
        middle = (low + high) >> 1
        if value_of(begin + middle * field.stride, field) <= target:
            low = middle + 1
        else:
            high = middle
    return low


cdef tuple found_in(const uint8_t* begin, const Field* field, int64_t target, int64_t first, int64_t entries):
    """Return the result of `search_entries`, if the entries at `begin` follow `first` others."""
    cdef int64_t count = count_at_most(begin, field, target, entries), stride = field.stride
    return first + count, begin[(count - 1) * stride:count * stride] if count else b""


cdef int64_t read_block(int fd, const Field* field, int64_t target, int64_t entries, uint8_t* block,
                        int64_t* first) noexcept nogil:
    """Read a block that contains the last entry whose field is at most `target`, and set `first` to its first entry.

    Return the number of entries in the block, or -errno.
    """
    cdef int64_t stride = field.stride, low = 0, high = entries, middle, got
    # The block begins with the entry before `low`, because that may be the one to return.
    while (high - low + 1) * stride > BLOCK_BYTES:
        middle = (low + high) >> 1
        got = read_at(fd, block, stride, middle * stride)
        if got < 0:
            return got
        if got == stride and value_of(block, field) <= target:
            low = middle + 1
        else:
            high = middle
    first[0] = max(low - 1, 0)
    got = read_at(fd, block, (high - first[0]) * stride, first[0] * stride)
    return got if got < 0 else got // stride


def search_entries(source, int64_t stride, int64_t at, bint wide, int64_t target, int64_t entries):
    """Count the entries whose field is at most `target`, and return the last of them.

    The field is a signed big-endian integer, and is in ascending order. The GIL is released while a file is read.

    Args:
        source: A buffer, or the descriptor of a file, that begins with the entries.
        stride: The size of an entry, bytes; at most 2048.
        at: The position of the field in an entry, bytes.
        wide: Whether the field has 8 bytes; if not, it has 4.
        target: The value to compare with.
        entries: The number of entries to search. If the source has fewer, those are searched.

    Returns:
        (count, entry): `entry` is the bytes of the last entry that is counted; b"" if there is none.

    Raises:
        TypeError: `source` is neither a buffer nor a descriptor.
        ValueError: The field is not inside an entry, an entry is too large, or `entries` is negative.
        OSError: The file cannot be read.
    """
    cdef Field field
    cdef Py_buffer view
    cdef uint8_t block[BLOCK_BYTES]
    cdef int64_t first = 0, count
    cdef int fd
    if not 0 <= at <= stride - (8 if wide else 4) or stride > BLOCK_BYTES // 2 or entries < 0:
        raise ValueError(f"no field of {8 if wide else 4} bytes at {at} of {entries} entries of {stride} bytes")
    field.stride, field.at, field.wide = stride, at, wide
    if isinstance(source, int):
        fd = source
        with nogil:
            count = read_block(fd, &field, target, entries, block, &first)
        if count < 0:
            raise OSError(-count, strerror(-count))
        return found_in(block, &field, target, first, count)
    PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
    try:
        return found_in(<const uint8_t*> view.buf, &field, target, 0, min(entries, <int64_t> view.len // stride))
    finally:
        PyBuffer_Release(&view)
