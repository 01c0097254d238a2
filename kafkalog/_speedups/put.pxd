# How integers are written: what cursor.pxd reads. The place has room; whoever calls has seen to that.

from libc.stdint cimport int64_t, uint8_t, uint64_t

# The longest varlong.
cdef enum:
    VARLONG_BYTES = 10


cdef inline int store_big_endian(uint8_t* place, uint64_t value, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        place[i] = <uint8_t> (value >> (8 * (size - 1 - i)))
    return size


cdef inline uint64_t zig_zag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int store_varlong(uint8_t* place, int64_t value) noexcept nogil:
    """Zig-zag LEB128; an int32's varint is the same bytes. Returns how many, at most VARLONG_BYTES."""
    cdef uint64_t bits = zig_zag(value)
    cdef int size = 0
    while bits >= 0x80:
        place[size] = <uint8_t> ((bits & 0x7F) | 0x80)
        bits >>= 7
        size += 1
    place[size] = <uint8_t> bits
    return size + 1


cdef inline int size_of_varlong(int64_t value) noexcept nogil:
    cdef uint64_t bits = zig_zag(value)
    cdef int size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size
