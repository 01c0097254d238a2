from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups.cursor cimport Cursor
from kafkalog._speedups.layout cimport Header

# The shortest record of a v2 batch: seven fields of one byte each.
cdef enum:
    SHORTEST_RECORD = 7

# The arrays that the decoders fill: eight of int64, one after the other in one block, and the row each record came
# from. `room` is one more than the records that were counted there: a record that breaks off has had some of its
# fields noted before that shows.
cdef struct Columns:
    int64_t* offset
    int64_t* timestamp
    int64_t* key_start
    int64_t* key_length
    int64_t* value_start
    int64_t* value_length
    int64_t* headers_start
    int64_t* headers_length
    int32_t* batch
    Py_ssize_t room
    Py_ssize_t count

cdef inline bint is_full(const Columns* out) noexcept nogil:
    """Whether there are more records now than were counted: somebody writes to the bytes while they are read."""
    return out.count + 1 >= out.room


cdef int decode_record_batch(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                             Columns* out) noexcept nogil
