# Read bytes inside a region: every pointer that follows a length from disk moves here.
#
# A cursor stands in a region of bytes [at, end). Every read asks first whether the bytes are there; the first read that
# finds them missing notes a fault (code, place, what was needed, what was there), empties the region and yields 0,
# and so does every read after it. A kernel therefore reads a whole record without a branch of its own and asks once,
# at the end, whether `fault` is still 0. Nothing here needs the GIL, allocates or raises.
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


# What is wrong with the bytes. The codes, their places and figures are a contract: DESIGN.md, "The kernel contract".
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
    cursor.at = at
    cursor.end = end
    cursor.fault_at = at
    cursor.expected = 0
    cursor.found = 0
    cursor.fault = NO_FAULT


cdef inline int64_t bytes_left(const Cursor* cursor) noexcept nogil:
    return cursor.end - cursor.at


cdef inline void blame(Cursor* cursor, int fault, const uint8_t* at, int64_t expected, int64_t found) noexcept nogil:
    """Note the first fault and empty the region, so that every later read fails without looking at memory."""
    if cursor.fault == NO_FAULT:
        cursor.fault = fault
        cursor.fault_at = at
        cursor.expected = expected
        cursor.found = found
    cursor.at = cursor.end


cdef inline const uint8_t* take(Cursor* cursor, int64_t length) noexcept nogil:
    """Step over `length` (>= 0) bytes and give the first one's place, or the region's end if they are not there."""
    cdef const uint8_t* start = cursor.at
    if length > cursor.end - start:
        blame(cursor, UNDERRUN, start, length, cursor.end - start)
        return cursor.end
    cursor.at = start + length
    return start


cdef inline int8_t read_byte(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* place = take(cursor, 1)
    if cursor.fault:
        return 0
    return <int8_t> place[0]


cdef inline int32_t read_int(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* place = take(cursor, 4)
    if cursor.fault:
        return 0
    return load_int(place)


cdef inline int64_t read_long(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* place = take(cursor, 8)
    if cursor.fault:
        return 0
    return load_long(place)


cdef inline uint64_t read_leb128(Cursor* cursor, int most) noexcept nogil:
    """At most `most` bytes of 7 bits, the lowest first.

    The bits that 64 cannot hold are dropped, as Kafka drops them.
    """
    cdef const uint8_t* start = cursor.at
    cdef const uint8_t* at = start
    cdef const uint8_t* end = cursor.end
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef int last = 7 * (most - 1)
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        at += 1
        value |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            cursor.at = at
            return value
        if shift == last:
            blame(cursor, VARINT_TOO_LONG, start, most, most + 1)
            return 0
        shift += 7
    blame(cursor, UNDERRUN, start, end - start + 1, end - start)
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


# Loads at a place whose bytes are known to be there.

cdef inline int16_t load_short(const uint8_t* place) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, place, 2)
    return <int16_t> kafkalog_swap16(value)


cdef inline int32_t load_int(const uint8_t* place) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, place, 4)
    return <int32_t> kafkalog_swap32(value)


cdef inline int64_t load_long(const uint8_t* place) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, place, 8)
    return <int64_t> kafkalog_swap64(value)
