"""The header table: the type of its rows in numpy, and the way of kernels to rows that they are given.

A typed memoryview of a structured array costs more than many a kernel's work on a row or two: numpy puts the names and
types of all fields into words, and Cython reads them, each time. So the type is compared instead, and of the memory
only the address is asked for.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

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
