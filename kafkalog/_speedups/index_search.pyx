"""A search in the entries of an index: in memory, or in a file that is opened, searched a block at a time and closed.

    entry | entry | entry | ...     of `stride` bytes; at byte `at` of each an integer of 4 or 8 bytes that rises

The last block is asked first: most searches are for what was appended last. DESIGN.md, "Mapped or read", says why
nobody's index but one's own may be mapped.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport strlen

from kafkalog._speedups.cursor cimport load_int, load_long

from os import strerror

cdef extern from "fcntl.h" nogil:
    int open(const char* path, int flags)
    int O_RDONLY
    int O_CLOEXEC
    int O_NONBLOCK

cdef extern from "unistd.h" nogil:
    ssize_t pread(int fd, void* buffer, size_t count, long long offset)
    int close(int fd)

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object text)

cdef enum:
    BLOCK_BYTES = 4096
    LONGEST_ENTRY = 16


cdef struct Search:
    int fd
    int error
    int64_t stride
    int64_t at
    int64_t target
    bint wide


cdef inline int64_t field_of(const Search* search, const uint8_t* entry) noexcept nogil:
    return load_long(entry + search.at) if search.wide else load_int(entry + search.at)


cdef int64_t read_entries(Search* search, uint8_t* room, int64_t first, int64_t entries) noexcept nogil:
    """Whole entries that were read from entry `first` on; fewer where the file has been cut."""
    cdef int64_t wanted = entries * search.stride
    cdef int64_t held = 0
    cdef ssize_t got
    while held < wanted:
        got = pread(search.fd, room + held, <size_t> (wanted - held), first * search.stride + held)
        if got < 0 and errno == EINTR:
            continue
        if got < 0:
            search.error = errno
        if got <= 0:
            break
        held += got
    return held // search.stride


cdef bint begins_at_most(Search* search, int64_t block, int64_t in_block) noexcept nogil:
    """Whether the first entry of a block is at most the target; one that has been cut off is not."""
    cdef uint8_t[LONGEST_ENTRY] entry
    return read_entries(search, entry, block * in_block, 1) == 1 and field_of(search, entry) <= search.target


cdef int64_t block_of(Search* search, int64_t entries, int64_t in_block) noexcept nogil:
    """The last block whose first entry is at most the target; 0 where there is none."""
    cdef int64_t low = 0
    cdef int64_t high = (entries - 1) // in_block
    cdef int64_t middle
    if high > 0 and begins_at_most(search, high, in_block):
        return high
    # Of `low` it holds, or it is the first; of `high` it does not.
    while high - low > 1:
        middle = (low + high) >> 1
        if begins_at_most(search, middle, in_block):
            low = middle
        else:
            high = middle
    return low


cdef int64_t count_in(const Search* search, const uint8_t* entries, int64_t count) noexcept nogil:
    """How many of `count` entries, which rise, have a field of at most the target."""
    cdef int64_t low = 0
    cdef int64_t high = count
    cdef int64_t middle
    while low < high:
        middle = (low + high) >> 1
        if field_of(search, entries + middle * search.stride) <= search.target:
            low = middle + 1
        else:
            high = middle
    return low


cdef int open_for(Search* search, bytes path) except -1:
    cdef const char* name = path
    if strlen(name) != <size_t> len(path):
        raise ValueError("embedded null byte")
    search.error = 0
    with nogil:
        # Without waiting: opening a pipe would wait for somebody to write into it.
        search.fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        while search.fd < 0 and errno == EINTR:
            search.fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if search.fd < 0:
            search.error = errno
    return 0


cdef int check_field(int64_t stride, int64_t at, bint wide, int64_t entries) except -1:
    if not 0 < stride <= LONGEST_ENTRY or not 0 <= at <= stride - (8 if wide else 4) or entries < 0:
        raise ValueError(f"no field of {8 if wide else 4} bytes at {at} of {entries} entries of {stride} bytes")
    return 0


def search_entries(held, int64_t stride, int64_t at, bint wide, int64_t target, int64_t entries):
    """As `search_index`, in a buffer that holds the entries. ValueError: no such entries. BufferError: not a buffer."""
    cdef Search search
    cdef Py_buffer view
    cdef const uint8_t* begin
    cdef int64_t last, count
    check_field(stride, at, wide, entries)
    search.stride, search.at, search.target, search.wide = stride, at, target, wide
    PyObject_GetBuffer(held, &view, PyBUF_SIMPLE)
    try:
        begin = <const uint8_t*> view.buf
        entries = min(entries, <int64_t> view.len // stride)
        # The end first: of a map, other pages need not be there.
        last = max(0, entries - BLOCK_BYTES // stride)
        if last and field_of(&search, begin + last * stride) <= target:
            count = last + count_in(&search, begin + last * stride, entries - last)
        else:
            count = count_in(&search, begin, last if last else entries)
        return count, begin[(count - 1) * stride:count * stride] if count else b""
    finally:
        PyBuffer_Release(&view)


def search_index(str path not None, int64_t stride, int64_t at, bint wide, int64_t target, int64_t entries):
    """How many of the first `entries` entries have a field of at most `target`, and the last of them.

    The entries have `stride` bytes, and their fields, which lie `at` bytes from the start, are of 8 bytes if `wide`,
    else of 4, big-endian, and rise. Returns (count, entry), entry `b""` where there is none; of a file that has been
    cut what is left is searched. The GIL is released. ValueError: no such entries. OSError: it cannot be read.
    """
    cdef Search search
    cdef uint8_t[BLOCK_BYTES] block
    cdef int64_t in_block, first, count
    check_field(stride, at, wide, entries)
    search.stride, search.at, search.target, search.wide = stride, at, target, wide
    open_for(&search, PyUnicode_EncodeFSDefault(path))
    if search.error:
        raise OSError(search.error, strerror(search.error), path)
    in_block = BLOCK_BYTES // stride
    with nogil:
        first = block_of(&search, entries, in_block) * in_block if entries else 0
        count = read_entries(&search, block, first, min(in_block, entries - first))
        count = count_in(&search, block, count)
        close(search.fd)
    if search.error:
        raise OSError(search.error, strerror(search.error), path)
    if not count:
        return first, b""
    return first + count, (<const uint8_t*> block)[(count - 1) * stride:count * stride]
