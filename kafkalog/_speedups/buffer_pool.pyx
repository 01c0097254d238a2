"""A pool of large buffers that are reused.

The C library returns a large buffer to the system when it is freed, and each page of the next one causes a page fault
when it is first touched. In a stream of pieces, these faults cost as much as parsing the bytes. Therefore the memory of
a `Block` that is no longer referenced is put on a free list, and the next `Block` of its size class uses it.

    size classes    4 KiB, 8 KiB ... 16 MiB; larger buffers are freed
    free lists      one per size class; at most 16 buffers each, 32 MiB together
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef enum:
    SMALLEST_SHIFT = 12
    CLASSES = 13
    FREE_LIST_LENGTH = 16
    MAX_FREE_BYTES = 32 << 20

cdef void* free_lists[CLASSES][FREE_LIST_LENGTH]
cdef int free_counts[CLASSES]
cdef Py_ssize_t free_bytes = 0


cdef int class_of(Py_ssize_t size) noexcept:
    """Return the smallest size class of at least `size` bytes, or CLASSES if there is none."""
    cdef int size_class = 0
    while size_class < CLASSES and (<Py_ssize_t> 1 << (SMALLEST_SHIFT + size_class)) < size:
        size_class += 1
    return size_class


cdef Py_ssize_t bytes_of(int size_class) noexcept:
    """Return the size of the buffers of a size class."""
    return <Py_ssize_t> 1 << (SMALLEST_SHIFT + size_class)


# The GIL protects the free lists: the next two functions need it.

cdef void* acquire(int size_class) noexcept:
    """Return memory from the free list of a size class, or newly allocated memory; NULL if there is none."""
    global free_bytes
    if free_counts[size_class] == 0:
        return malloc(bytes_of(size_class))
    free_counts[size_class] -= 1
    free_bytes -= bytes_of(size_class)
    return free_lists[size_class][free_counts[size_class]]


cdef void release(void* memory, int size_class) noexcept:
    """Put memory on the free list of its size class, or free it if a limit is reached."""
    global free_bytes
    if (size_class == CLASSES or free_counts[size_class] == FREE_LIST_LENGTH
            or free_bytes + bytes_of(size_class) > MAX_FREE_BYTES):
        free(memory)
        return
    free_lists[size_class][free_counts[size_class]] = memory
    free_counts[size_class] += 1
    free_bytes += bytes_of(size_class)


@cython.final
cdef class Block:
    """A writable buffer with undefined content, whose memory comes from the pool and returns to it.

    Args:
        size: The size in bytes.

    Attributes:
        size: The size in bytes.

    Raises:
        ValueError: `size` is negative.
        MemoryError: There is not enough memory.
    """

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError(f"a block of {size} bytes")
        self.size = size
        self.size_class = class_of(size)
        self.memory = malloc(size) if self.size_class == CLASSES else acquire(self.size_class)
        if self.memory == NULL:
            raise MemoryError(f"a block of {size} bytes")

    def __dealloc__(self):
        # Every view of this memory, and every array over it, keeps the block alive. So nothing refers to it now.
        if self.memory != NULL:
            release(self.memory, self.size_class)

    cdef int grow(self, Py_ssize_t size) except -1:
        """Enlarge the buffer; its content stays. Raise BufferError if a view of it exists."""
        cdef int size_class = class_of(size)
        cdef void* memory
        if self.views:
            raise BufferError("a block with views cannot grow")
        if size_class == self.size_class != CLASSES:
            # The memory has the size of its class.
            self.size = size
            return 0
        if self.size_class == CLASSES:
            # The system moves the pages of a large buffer without a copy.
            memory = realloc(self.memory, size)
        else:
            memory = malloc(size) if size_class == CLASSES else acquire(size_class)
        if memory == NULL:
            raise MemoryError(f"a block of {size} bytes")
        if self.size_class != CLASSES:
            memcpy(memory, self.memory, self.size)
            release(self.memory, self.size_class)
        self.memory, self.size, self.size_class = memory, size, size_class
        return 0

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.memory, self.size, 0, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.views -= 1

    def __len__(self):
        return self.size

    def __reduce__(self):
        raise TypeError("a block of memory cannot be copied")
