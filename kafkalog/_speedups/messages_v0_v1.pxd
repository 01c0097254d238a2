from libc.stdint cimport int32_t, int64_t, uint8_t

from kafkalog._speedups.cursor cimport Cursor
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.records_v2 cimport Columns, Place

cdef Py_ssize_t count_messages(const uint8_t* at, const uint8_t* end, int64_t limit) noexcept nogil

cdef int decode_message_set(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                            Columns* out, Place* place) noexcept nogil
