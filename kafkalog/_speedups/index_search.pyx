"""A search in the entries of an index, in memory or in a file.

    entry | entry | entry | ...     of `stride` bytes; at byte `at` of each an integer of 4 or 8 bytes that rises

In a file, single entries are read until those that are left fit in one block of 4 KiB, which is read at once.
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
    return load_long(entry + field.at) if field.wide else load_int(entry + field.at)


cdef int64_t count_at_most(const uint8_t* begin, const Field* field, int64_t target, int64_t entries) noexcept nogil:
    """How many of the entries have a field of at most `target`."""
    cdef int64_t low = 0, high = entries, middle
    while low < high:
        middle = (low + high) >> 1
        if value_of(begin + middle * field.stride, field) <= target:
            low = middle + 1
        else:
            high = middle
    return low


cdef tuple found_in(const uint8_t* begin, const Field* field, int64_t target, int64_t first, int64_t entries):
    """The answer for entries of which `first` are before `begin`."""
    cdef int64_t count = count_at_most(begin, field, target, entries), stride = field.stride
    return first + count, begin[(count - 1) * stride:count * stride] if count else b""


cdef int64_t read_block(int fd, const Field* field, int64_t target, int64_t entries, uint8_t* block,
                        int64_t* first) noexcept nogil:
    """Read a block with the last entry of at most `target`; the number of its entries, or negative: errno.

    `first` is the number of entries before the block.
    """
    cdef int64_t stride = field.stride, low = 0, high = entries, middle, got
    # The entry before `low` is read again with the block, since it may be the one that is returned.
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


def search_entries(held, int64_t stride, int64_t at, bint wide, int64_t target, int64_t entries):
    """How many of the first `entries` entries have a field of at most `target`, and the last of them.

    `held` is a buffer with the entries, or the descriptor of a file with them. An entry has `stride` bytes. Its field,
    which lies `at` bytes from its start, has 8 bytes if `wide`, else 4, big-endian, and rises from entry to entry.
    Returns (count, entry), entry `b""` if there is none. If `held` has fewer entries, those are searched. ValueError:
    the field is not within an entry. TypeError: neither a buffer nor a descriptor. OSError: the file cannot be read.
    """
    cdef Field field
    cdef Py_buffer view
    cdef uint8_t block[BLOCK_BYTES]
    cdef int64_t first = 0, count
    cdef int fd
    if not 0 <= at <= stride - (8 if wide else 4) or stride > BLOCK_BYTES // 2 or entries < 0:
        raise ValueError(f"no field of {8 if wide else 4} bytes at {at} of {entries} entries of {stride} bytes")
    field.stride, field.at, field.wide = stride, at, wide
    if isinstance(held, int):
        fd = held
        with nogil:
            count = read_block(fd, &field, target, entries, block, &first)
        if count < 0:
            raise OSError(-count, strerror(-count))
        return found_in(block, &field, target, first, count)
    PyObject_GetBuffer(held, &view, PyBUF_SIMPLE)
    try:
        return found_in(<const uint8_t*> view.buf, &field, target, 0, min(entries, <int64_t> view.len // stride))
    finally:
        PyBuffer_Release(&view)
