from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups.cursor cimport Cursor
from kafkalog._speedups.layout cimport Header

# The shortest record of a v2 batch: seven fields of one byte each.
cdef enum:
    SHORTEST_RECORD = 7

# MAX_HEADERS: the most headers of a record. Their objects take 50 MiB, because a header of two bytes becomes three.
# HEADER_WEIGHT: what each header adds to the weight of a record.
cdef enum:
    MAX_HEADERS = 1 << 18
    HEADER_WEIGHT = 64

# The columns that the decoders fill: eight int64 arrays in one block, and the row of each record. `capacity` is the
# length of each array: one more than the number of records, because the decoders store fields of a record before they
# know that it is valid. `weight` is the bytes of the records plus HEADER_WEIGHT for each header; decoding stops when it
# reaches `max_weight`.
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
    Py_ssize_t capacity
    Py_ssize_t count
    int64_t weight
    int64_t max_weight

# The next record to decode: its row, its address, and the number of records of the row that have been decoded. `shift`
# is added to the offsets of the messages in a v1 wrapper.
cdef struct Place:
    Py_ssize_t row
    const uint8_t* at
    int64_t done
    int64_t shift

cdef inline bint is_full(const Columns* out) noexcept nogil:
    """Return whether the columns have no space for a further record, or have reached their weight."""
    return out.count + 1 >= out.capacity or out.weight >= out.max_weight


cdef int decode_record_batch(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                             Columns* out, Place* place) noexcept nogil
