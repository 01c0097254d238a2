# Cursors: reading the bytes of a region, with a check of each read against the end of the region.
#
# A cursor reads the bytes [at, end). The first read that needs more bytes than are left stores a fault (code, address,
# expected, found), sets `at` to `end` and returns 0. So all later reads fail, too, and return 0. A kernel can therefore
# read a complete record without checks of its own, and test `fault` once at the end. These functions do not need the
# GIL, allocate no memory and raise no exception.
#
#   integers   big-endian, two's complement
#   varint     zig-zag LEB128, at most 5 bytes; varlong at most 10 (Kafka: common/utils/ByteUtils)

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <stdlib.h>
    #define kafkalog_swap16 _byteswap_ushort
    #define kafkalog_swap32 _byteswap_ulong
    #define kafkalog_swap64 _byteswap_uint64
    #elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define kafkalog_swap16(x) (x)
    #define kafkalog_swap32(x) (x)
    #define kafkalog_swap64(x) (x)
    #else
    #define kafkalog_swap16 __builtin_bswap16
    #define kafkalog_swap32 __builtin_bswap32
    #define kafkalog_swap64 __builtin_bswap64
    #endif
    """
    uint16_t kafkalog_swap16(uint16_t) noexcept nogil
    uint32_t kafkalog_swap32(uint32_t) noexcept nogil
    uint64_t kafkalog_swap64(uint64_t) noexcept nogil


# The codes of faults. DESIGN.md, "The kernel contract", defines the position and the two numbers of each.
cdef enum Fault:
    NO_FAULT = 0
    UNDERRUN = 1
    VARINT_TOO_LONG = 2
    NEGATIVE_LENGTH = 3
    RECORD_LENGTH = 4
    HEADER_COUNT = 5
    HEADER_KEY_LENGTH = 6
    RECORDS_COUNT = 7
    MESSAGE_SIZE = 8
    NESTED_WRAPPER = 9
    MESSAGE_MAGIC = 10
    EMPTY_WRAPPER = 11
    WRAPPER_OFFSET = 12
    TRAILING_BYTES = 13
    TOO_MANY_HEADERS = 14


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    const uint8_t* fault_at
    int64_t expected
    int64_t found
    int fault


cdef inline void cursor_open(Cursor* cursor, const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Set a cursor to the region [at, end), without a fault."""
    cursor.at = at
    cursor.end = end
    cursor.fault_at = at
    cursor.expected = 0
    cursor.found = 0
    cursor.fault = NO_FAULT


cdef inline int64_t bytes_left(const Cursor* cursor) noexcept nogil:
    return cursor.end - cursor.at


cdef inline void set_fault(Cursor* cursor, int fault, const uint8_t* at, int64_t expected,
                           int64_t found) noexcept nogil:
    """Store a fault, unless there is one already, and set `at` to `end`, so that all later reads fail."""
    if cursor.fault == NO_FAULT:
        cursor.fault = fault
        cursor.fault_at = at
        cursor.expected = expected
        cursor.found = found
    cursor.at = cursor.end


cdef inline const uint8_t* take(Cursor* cursor, int64_t length) noexcept nogil:
    """Skip `length` (>= 0) bytes. Return the address of the first one, or `end` if fewer bytes are left."""
    cdef const uint8_t* start = cursor.at
    if length > cursor.end - start:
        set_fault(cursor, UNDERRUN, start, length, cursor.end - start)
        return cursor.end
    cursor.at = start + length
    return start


cdef inline int8_t read_byte(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* address = take(cursor, 1)
    if cursor.fault:
        return 0
    return <int8_t> address[0]


cdef inline int32_t read_int(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* address = take(cursor, 4)
    if cursor.fault:
        return 0
    return load_int(address)


cdef inline int64_t read_long(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* address = take(cursor, 8)
    if cursor.fault:
        return 0
    return load_long(address)


cdef inline uint64_t read_leb128(Cursor* cursor, int max_bytes) noexcept nogil:
    """Read an unsigned integer in at most `max_bytes` bytes of 7 bits each, the lowest bits first.

    Bits beyond 64 are dropped, as in Kafka.
    """
    cdef const uint8_t* start = cursor.at
    cdef const uint8_t* at = start
    cdef const uint8_t* end = cursor.end
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef int last = 7 * (max_bytes - 1)
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        at += 1
        value |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            cursor.at = at
            return value
        if shift == last:
            set_fault(cursor, VARINT_TOO_LONG, start, max_bytes, max_bytes + 1)
            return 0
        shift += 7
    set_fault(cursor, UNDERRUN, start, end - start + 1, end - start)
    return 0


cdef inline int32_t read_varint(Cursor* cursor) noexcept nogil:
    cdef uint32_t value
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        value = cursor.at[0]
        cursor.at += 1
    else:
        value = <uint32_t> read_leb128(cursor, 5)
    return <int32_t> ((value >> 1) ^ (0 - (value & 1)))


cdef inline int64_t read_varlong(Cursor* cursor) noexcept nogil:
    cdef uint64_t value
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        value = cursor.at[0]
        cursor.at += 1
    else:
        value = read_leb128(cursor, 10)
    return <int64_t> ((value >> 1) ^ (0 - (value & 1)))


# Integers at an address. The caller has checked that the bytes are inside the buffer.

cdef inline int16_t load_short(const uint8_t* address) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, address, 2)
    return <int16_t> kafkalog_swap16(value)


cdef inline int32_t load_int(const uint8_t* address) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, address, 4)
    return <int32_t> kafkalog_swap32(value)


cdef inline int64_t load_long(const uint8_t* address) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, address, 8)
    return <int64_t> kafkalog_swap64(value)
