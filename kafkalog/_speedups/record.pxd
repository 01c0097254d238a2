from libc.stdint cimport int32_t, int64_t


cdef class Record:
    cdef readonly object value
    cdef readonly object key
    cdef readonly tuple headers
    cdef readonly int64_t timestamp
    cdef readonly int64_t offset
    cdef readonly int32_t sequence
    cdef int type_id

    cdef tuple fields(self)


# The checks of keys, values and headers that records and encoders share.
cdef object checked_bytes(str name, object value)

cdef tuple checked_headers(object headers)
