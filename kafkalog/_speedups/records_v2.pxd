from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups.cursor cimport Cursor
from kafkalog._speedups.layout cimport Header

# The shortest record of a v2 batch: seven fields of one byte each.
cdef enum:
    SHORTEST_RECORD = 7

# MOST_HEADERS take 50 MiB: a header of two bytes becomes three objects. HEADER_WEIGHT: what each adds to the weight.
cdef enum:
    MOST_HEADERS = 1 << 18
    HEADER_WEIGHT = 64

# The arrays that the decoders fill: eight of int64, one after the other in one block, and the row each record came
# from. `room` is one more than the records that may be there, because fields of a record are stored before it is known
# to be complete. `weight` is the size of the records and of the objects for their headers; decoding stops at `most`.
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
    int64_t weight
    int64_t most

# The place of the next record to decode: its row, its address, and the number of records before it in the row. `shift`
# is added to the offsets of the messages in a v1 wrapper.
cdef struct Place:
    Py_ssize_t row
    const uint8_t* at
    int64_t done
    int64_t shift

cdef inline bint is_full(const Columns* out) noexcept nogil:
    return out.count + 1 >= out.room or out.weight >= out.most


cdef int decode_record_batch(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                             Columns* out, Place* place) noexcept nogil
