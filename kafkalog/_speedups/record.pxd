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


# What a record and an encoder take for a key, a value and headers; anything else is a TypeError.
cdef object checked_bytes(str name, object given)

cdef tuple checked_headers(object given)
