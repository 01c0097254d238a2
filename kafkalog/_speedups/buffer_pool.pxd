cdef class Block:
    cdef void* memory
    cdef readonly Py_ssize_t size
    cdef int size_class
