cdef class Block:
    cdef void* memory
    cdef readonly Py_ssize_t size
    cdef int size_class
    # The number of views that exist.
    cdef Py_ssize_t views

    cdef int grow(self, Py_ssize_t size) except -1
