"""The header table: its dtype, access of kernels to its rows, and functions that need only its rows.

A kernel gets the address of the rows (`open_rows`), not a typed memoryview. For a typed memoryview of a structured
array, numpy formats the names and types of all fields, and Cython parses them, at each call. This takes longer than the
work on one or two rows; comparing the dtypes does not.
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
cdef object to_contiguous = np.ascontiguousarray


cdef object open_rows(object table, Rows* rows):
    """Set `rows` to the memory of an array of `HEADER_DTYPE`, or to no rows if `table` is None.

    Return the object that keeps the memory alive: `table`, or a contiguous copy. Raise ValueError for anything but an
    array of that dtype with one dimension.
    """
    cdef Py_buffer view
    rows.at = NULL
    rows.count = 0
    if table is None:
        return None
    if not isinstance(table, ARRAY) or table.ndim != 1:
        raise ValueError(f"rows are an array of one dimension, not {table!r}")
    if table.dtype is not ROW_TYPE and table.dtype != ROW_TYPE:
        raise ValueError(f"rows are of HEADER_DTYPE, not of {table.dtype}")
    if not table.flags.c_contiguous:
        table = to_contiguous(table)
    # The address stays valid after the buffer is released: only resizing moves the memory of an array, and numpy
    # refuses to resize an array to which there are other references.
    PyObject_GetBuffer(table, &view, PyBUF_SIMPLE)
    rows.at = <const Header*> view.buf
    rows.count = view.len // <Py_ssize_t> sizeof(Header)
    PyBuffer_Release(&view)
    return table


def cut_rows(rows, int64_t records):
    """Divide rows into groups of at most `records` records each.

    A row with more records is a group of its own. A wrapper is assumed to have one message per 64 bytes, because only
    decompressing it shows their number. For a v2 batch, the count in its header is used, which may be wrong.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        records: The maximum number of records per group.

    Returns:
        The end of each group: the index of the row after its last one.
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
        weight = max(1, weight)
        if together and weight > records - together:
            ends.append(i)
            together = 0
        together += weight
    if count:
        ends.append(count)
    return ends


def first_unreadable(rows):
    """Find the first entry that has no known format or is shorter than the header of its format.

    Args:
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).

    Returns:
        The index of the row; n if there is none.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Py_ssize_t count = table.count
    cdef Py_ssize_t i
    for i in range(count):
        if not is_readable(&table.at[i]):
            return i
    return count
