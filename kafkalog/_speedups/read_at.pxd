# Reading bytes of a file without the GIL.

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t

cdef extern from "unistd.h" nogil:
    ssize_t pread(int fd, void* buffer, size_t count, long long offset)


cdef inline int64_t read_at(int fd, uint8_t* into, int64_t length, int64_t at) noexcept nogil:
    """Read `length` bytes at position `at`. Return their number, fewer only at the end of the file, or -errno."""
    cdef int64_t done = 0
    cdef ssize_t got
    while done < length:
        got = pread(fd, into + done, <size_t> (length - done), at + done)
        if got > 0:
            done += got
        elif got == 0:
            break
        elif errno != EINTR:
            return -errno
    return done
