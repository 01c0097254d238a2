"""Memory that is used again: large buffers that come and go a thousand times a second.

The C library gives a large buffer back to the system when it is freed, and the system hands out zeroed pages one
fault at a time when the next one is touched; on a stream of pieces that costs as much as parsing them. A `Block` goes
onto a shelf instead when nothing refers to it any more, and the next one of its size comes from there.

    size classes    4 KiB, 8 KiB ... 16 MiB; larger ones are not kept
    on the shelves  at most 32 MiB together
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc

cdef enum:
    SMALLEST_SHIFT = 12
    CLASSES = 13
    SHELF_DEPTH = 16
    MOST_KEPT_BYTES = 32 << 20

cdef void* shelves[CLASSES][SHELF_DEPTH]
cdef int kept[CLASSES]
cdef Py_ssize_t kept_bytes = 0


cdef int class_of(Py_ssize_t size) noexcept:
    """The smallest class that holds `size` bytes; CLASSES where none does."""
    cdef int size_class = 0
    while size_class < CLASSES and (<Py_ssize_t> 1 << (SMALLEST_SHIFT + size_class)) < size:
        size_class += 1
    return size_class


cdef Py_ssize_t bytes_of(int size_class) noexcept:
    return <Py_ssize_t> 1 << (SMALLEST_SHIFT + size_class)


# The shelves are touched only with the GIL held.

cdef void* take_memory(int size_class) noexcept:
    global kept_bytes
    if kept[size_class] == 0:
        return malloc(bytes_of(size_class))
    kept[size_class] -= 1
    kept_bytes -= bytes_of(size_class)
    return shelves[size_class][kept[size_class]]


cdef void give_back(void* memory, int size_class) noexcept:
    global kept_bytes
    if size_class == CLASSES or kept[size_class] == SHELF_DEPTH or kept_bytes + bytes_of(size_class) > MOST_KEPT_BYTES:
        free(memory)
        return
    shelves[size_class][kept[size_class]] = memory
    kept[size_class] += 1
    kept_bytes += bytes_of(size_class)


@cython.final
cdef class Block:
    """A writable buffer of `size` bytes, what is in them undefined.

    ValueError: size < 0; MemoryError: there are not so many.
    """

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError(f"a block of {size} bytes")
        self.size = size
        self.size_class = class_of(size)
        self.memory = malloc(size) if self.size_class == CLASSES else take_memory(self.size_class)
        if self.memory == NULL:
            raise MemoryError(f"a block of {size} bytes")

    def __dealloc__(self):
        # A view or an array over this block keeps it alive, so that nobody looks at the memory any more.
        if self.memory != NULL:
            give_back(self.memory, self.size_class)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.memory, self.size, 0, flags)

    def __len__(self):
        return self.size

    def __reduce__(self):
        raise TypeError("a block of memory cannot be copied")
