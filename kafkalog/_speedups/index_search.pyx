"""A search in the entries of an index, in memory.

    entry | entry | entry | ...     of `stride` bytes; at byte `at` of each an integer of 4 or 8 bytes that rises
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t

from kafkalog._speedups.cursor cimport load_int, load_long


def search_entries(held, int64_t stride, int64_t at, bint wide, int64_t target, int64_t entries):
    """How many of the first `entries` entries have a field of at most `target`, and the last of them.

    `held` has the entries, of `stride` bytes each. Their fields, which lie `at` bytes from their start, are of 8 bytes
    if `wide`, else of 4, big-endian, and rise. Returns (count, entry), entry `b""` if there is none. If `held` has
    fewer entries, those are searched. ValueError: the field is not within an entry. BufferError: not a buffer.
    """
    cdef Py_buffer view
    cdef const uint8_t* begin
    cdef int64_t low, high, middle, value
    if not 0 <= at <= stride - (8 if wide else 4) or entries < 0:
        raise ValueError(f"no field of {8 if wide else 4} bytes at {at} of {entries} entries of {stride} bytes")
    PyObject_GetBuffer(held, &view, PyBUF_SIMPLE)
    try:
        begin = <const uint8_t*> view.buf
        low = 0
        high = min(entries, <int64_t> view.len // stride)
        while low < high:
            middle = (low + high) >> 1
            value = load_long(begin + middle * stride + at) if wide else load_int(begin + middle * stride + at)
            if value <= target:
                low = middle + 1
            else:
                high = middle
        return low, begin[(low - 1) * stride:low * stride] if low else b""
    finally:
        PyBuffer_Release(&view)
