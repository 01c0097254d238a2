# Encoding of integers; cursor.pxd decodes them. The caller makes sure that there is space at the address.

from libc.stdint cimport int64_t, uint8_t, uint64_t

# The length of the longest varlong.
cdef enum:
    VARLONG_BYTES = 10


cdef inline int store_big_endian(uint8_t* address, uint64_t value, int size) noexcept nogil:
    """Store the lower `size` bytes of an integer. Return `size`."""
    cdef int i
    for i in range(size):
        address[i] = <uint8_t> (value >> (8 * (size - 1 - i)))
    return size


cdef inline uint64_t zig_zag(int64_t value) noexcept nogil:
    """Return the zig-zag code of an integer: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int store_varlong(uint8_t* address, int64_t value) noexcept nogil:
    """Store an integer as zig-zag LEB128, which is the same for varints. Return the number of bytes."""
    cdef uint64_t bits = zig_zag(value)
    cdef int size = 0
    while bits >= 0x80:
        address[size] = <uint8_t> ((bits & 0x7F) | 0x80)
        bits >>= 7
        size += 1
    address[size] = <uint8_t> bits
    return size + 1


cdef inline int size_of_varlong(int64_t value) noexcept nogil:
    """Return the number of bytes that `store_varlong` stores."""
    cdef uint64_t bits = zig_zag(value)
    cdef int size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size
