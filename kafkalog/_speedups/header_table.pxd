from libc.stdint cimport int64_t

from kafkalog._speedups.layout cimport RECORD_BATCH_OVERHEAD, Header


# Rows of the header table in memory; there as long as what `open_rows` has given is.
cdef struct Rows:
    const Header* at
    Py_ssize_t count


cdef object open_rows(object given, Rows* rows)


cdef inline bint is_readable(const Header* row) noexcept nogil:
    """Whether an entry is of a known format, and not shorter than its format's header."""
    return 0 <= row.magic <= 2 and (row.magic < 2 or row.size_in_bytes >= RECORD_BATCH_OVERHEAD)


cdef inline int64_t region_start(const Header* row, int64_t position) noexcept nogil:
    """Where the records are stored, in a view whose first byte is at `position`."""
    return row.position - position + (RECORD_BATCH_OVERHEAD if row.magic >= 2 else 0)
