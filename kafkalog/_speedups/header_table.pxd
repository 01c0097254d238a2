from libc.stdint cimport int64_t

from kafkalog._speedups.layout cimport RECORD_BATCH_OVERHEAD, Header


# The rows of a header table in memory. They are valid as long as the object that `open_rows` returns.
cdef struct Rows:
    const Header* at
    Py_ssize_t count


cdef object open_rows(object table, Rows* rows)


cdef inline bint is_readable(const Header* row) noexcept nogil:
    """Return whether an entry has a known format, and is not shorter than the header of that format."""
    return 0 <= row.magic <= 2 and (row.magic < 2 or row.size_in_bytes >= RECORD_BATCH_OVERHEAD)


cdef inline int64_t region_start(const Header* row, int64_t position) noexcept nogil:
    """Return the index of the first record (v2) or message (v0/v1) in a buffer whose first byte is at `position`."""
    return row.position - position + (RECORD_BATCH_OVERHEAD if row.magic >= 2 else 0)


cdef inline int64_t region_end(const Header* row, int64_t position) noexcept nogil:
    """Return the index after the last byte of an entry in a buffer whose first byte is at `position`."""
    return row.position - position + row.size_in_bytes
