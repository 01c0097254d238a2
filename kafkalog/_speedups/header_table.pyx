"""The header table: the type of its rows in numpy, the way of kernels to rows that they are given, what rows tell.

A typed memoryview of a structured array costs more than many a kernel's work on a row or two: numpy puts the names and
types of all fields into words, and Cython reads them, each time. So the type is compared instead, and of the memory
only the address is asked for.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

from kafkalog._speedups.layout cimport Header

import numpy as np

HEADER_DTYPE = np.dtype(
    [
        ("position", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("size_in_bytes", np.int32),
        ("partition_leader_epoch", np.int32),
        ("base_sequence", np.int32),
        ("records_count", np.int32),
        ("checksum", np.uint32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("magic", np.int8),
        ("compression_type", np.int8),
        ("timestamp_type", np.int8),
        ("reserved", np.int8),
    ],
    align=True,
)
if HEADER_DTYPE.itemsize != sizeof(Header):
    raise ImportError(f"HEADER_DTYPE has {HEADER_DTYPE.itemsize} bytes, the compiled row {sizeof(Header)}")

cdef object ROW_TYPE = HEADER_DTYPE
cdef type ARRAY = np.ndarray
cdef object in_one_piece = np.ascontiguousarray


cdef object open_rows(object given, Rows* rows):
    """Where the rows of an array of `HEADER_DTYPE` lie, and what keeps them there: `given`, or a copy in one piece.

    None stands for no rows. ValueError: something else, or of another shape or type.
    """
    cdef Py_buffer view
    rows.at = NULL
    rows.count = 0
    if given is None:
        return None
    if not isinstance(given, ARRAY) or given.ndim != 1:
        raise ValueError(f"rows are an array of one dimension, not {given!r}")
    if given.dtype is not ROW_TYPE and given.dtype != ROW_TYPE:
        raise ValueError(f"rows are of HEADER_DTYPE, not of {given.dtype}")
    if not given.flags.c_contiguous:
        given = in_one_piece(given)
    # The address stays good when the buffer is given back: an array moves only when it is resized, which numpy refuses
    # as long as others refer to it, a buffer or not.
    PyObject_GetBuffer(given, &view, PyBUF_SIMPLE)
    rows.at = <const Header*> view.buf
    rows.count = view.len // <Py_ssize_t> sizeof(Header)
    PyBuffer_Release(&view)
    return given


def cut_rows(rows, int64_t records):
    """Where to cut `rows` so that no piece holds more than `records` records, or else a single row: the pieces' ends.

    Compressed records count twice, because decompressing them takes room of its own. What a v0/v1 wrapper holds is
    known only by decompressing it: one record to 64 bytes is assumed. A count is only a claim.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Py_ssize_t count = table.count
    cdef int64_t together = 0
    cdef int64_t weight
    cdef list ends = []
    cdef Py_ssize_t i
    for i in range(count):
        weight = table.at[i].records_count
        if table.at[i].magic < 2:
            weight = table.at[i].size_in_bytes >> 6 if table.at[i].compression_type else 1
        weight = max(1, weight) * (2 if table.at[i].compression_type else 1)
        if together and weight > records - together:
            ends.append(i)
            together = 0
        together += weight
    if count:
        ends.append(count)
    return ends


def first_unreadable(rows):
    """The first of `rows` that is of no known format or shorter than its format's header; len(rows) if none is."""
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Py_ssize_t count = table.count
    cdef Py_ssize_t i
    for i in range(count):
        if not is_readable(&table.at[i]):
            return i
    return count


def stored_regions(rows, int64_t position):
    """Where the records of each row are stored, as indices in a view whose first byte is at file position `position`.

    Returns (starts, ends), int64. A v2 region begins behind the header, that of a v0/v1 message at its framing.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef int64_t[::1] starts
    cdef int64_t[::1] ends
    cdef Py_ssize_t i
    starts_array, ends_array = np.empty(table.count, np.int64), np.empty(table.count, np.int64)
    starts, ends = starts_array, ends_array
    for i in range(table.count):
        starts[i] = region_start(&table.at[i], position)
        ends[i] = table.at[i].position - position + table.at[i].size_in_bytes
    return starts_array, ends_array
