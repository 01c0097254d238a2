"""Decoding of messages of formats 0 and 1 to columns: a message in the log, or the decompressed messages of a wrapper.

    entry     offset int64 | size int32 | message
    message   crc uint32 | magic int8 | attributes int8 | v1: timestamp int64 | key length int32, key |
              value length int32, value

A wrapper is a message whose value is a compressed set of messages. The offset of a wrapper is that of its *last* inner
message. Inner messages have absolute offsets in format 0, and relative ones in format 1, so that a broker can assign
offsets without compressing the messages again:

    relative offset = inner offset - inner offset of the last message
    absolute offset = wrapper offset + relative offset

Old versions of librdkafka wrote 0 as the wrapper offset; then the inner offsets are absolute. If the timestamp type of
a wrapper is LogAppendTime, its timestamp is that of every inner message. Inner CRCs are not checked, because the CRC of
the wrapper covers the same bytes.
Source: clients/.../common/record/{LegacyRecord,AbstractLegacyRecordBatch}.java.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

from kafkalog._speedups.cursor cimport (
    EMPTY_WRAPPER,
    MESSAGE_MAGIC,
    MESSAGE_SIZE,
    NESTED_WRAPPER,
    WRAPPER_OFFSET,
    Cursor,
    bytes_left,
    cursor_open,
    load_int,
    load_long,
    read_byte,
    read_int,
    read_long,
    set_fault,
    take,
)
from kafkalog._speedups.layout cimport (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    RECORD_OVERHEAD_V0,
    SIZE_AT,
    Header,
)
from kafkalog._speedups.records_v2 cimport Place, is_full


cdef Py_ssize_t count_messages(const uint8_t* at, const uint8_t* end, int64_t limit) noexcept nogil:
    """Count the messages in [at, end) by their size fields, up to `limit`."""
    cdef Py_ssize_t count = 0
    cdef int64_t size
    while count < limit and end - at >= LOG_OVERHEAD:
        size = load_int(at + SIZE_AT)
        if size < RECORD_OVERHEAD_V0 or size > end - at - LOG_OVERHEAD:
            break
        at += LOG_OVERHEAD + size
        count += 1
    return count


cdef inline int open_message(Cursor* region, Cursor* message) noexcept nogil:
    """Open a cursor for the next message. Return 0 at a fault, or at the end: a partial message ends the set."""
    cdef const uint8_t* entry = region.at
    cdef int64_t size
    if bytes_left(region) < LOG_OVERHEAD:
        return 0
    size = load_int(entry + SIZE_AT)
    if size < RECORD_OVERHEAD_V0:
        set_fault(region, MESSAGE_SIZE, entry, RECORD_OVERHEAD_V0, size)
        return 0
    if size > bytes_left(region) - LOG_OVERHEAD:
        return 0
    region.at = entry + LOG_OVERHEAD + size
    cursor_open(message, entry + LOG_OVERHEAD, region.at)
    return 1


cdef inline int64_t read_sized(const uint8_t* data, Cursor* message, int64_t* length_of) noexcept nogil:
    """Skip an int32 length and its bytes. Return the index of the bytes in `data`; set the length, -1 for null."""
    cdef int64_t length = read_int(message)
    cdef int64_t start = message.at - data
    length_of[0] = length if length >= 0 else -1
    if length > 0:
        take(message, length)
    return start


cdef int decode_message(const uint8_t* data, Cursor* region, Cursor* message, const Header* row,
                        Columns* out) noexcept nogil:
    """Store the fields of a message in `out`, without counting it. Return 0 if there is a fault."""
    cdef const uint8_t* entry = message.at - LOG_OVERHEAD
    cdef Py_ssize_t i = out.count
    cdef int8_t magic
    cdef int codec
    cdef int64_t timestamp
    read_int(message)
    magic = read_byte(message)
    if magic != 0 and magic != 1:
        set_fault(region, MESSAGE_MAGIC, entry, row.magic, magic)
        return 0
    codec = read_byte(message) & CODEC_MASK
    if codec != 0 and row.compression_type != 0:
        set_fault(region, NESTED_WRAPPER, entry, 0, codec)
        return 0
    timestamp = read_long(message) if magic == 1 else -1
    if magic == 1 and row.compression_type != 0 and row.timestamp_type == LOG_APPEND_TIME:
        timestamp = row.max_timestamp
    out.timestamp[i] = timestamp
    out.offset[i] = load_long(entry)
    out.key_start[i] = read_sized(data, message, &out.key_length[i])
    out.value_start[i] = read_sized(data, message, &out.value_length[i])
    out.headers_start[i] = message.at - data
    out.headers_length[i] = 0
    if message.fault:
        set_fault(region, message.fault, message.fault_at, message.expected, message.found)
        return 0
    return 1


cdef int find_shift(const uint8_t* region_start, Cursor* region, const Header* row, int64_t last_inner,
                    Place* place) noexcept nogil:
    """Set `place.shift` to the difference between absolute and inner offsets in a v1 wrapper. Return 0 at a fault."""
    if row.magic != 1 or row.compression_type == 0 or row.last_offset == 0:
        return 1
    if row.last_offset < last_inner:
        set_fault(region, WRAPPER_OFFSET, region_start, last_inner, row.last_offset)
        return 0
    # Unsigned: Java's addition wraps around.
    place.shift = <int64_t> (<uint64_t> row.last_offset - <uint64_t> last_inner)
    return 1


cdef int decode_messages(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                         Columns* out, Place* place) noexcept nogil:
    """Append the messages of a region to `out`. Return 0 if `out` is full, or at a fault.

    The first call for a region also checks the messages that do not fit in `out`.
    """
    cdef Cursor message
    cdef const uint8_t* region_start = region.at
    cdef const uint8_t* entry = region.at
    cdef const uint8_t* rest = NULL
    cdef Py_ssize_t first = out.count
    cdef Py_ssize_t i
    while open_message(region, &message):
        if rest == NULL and is_full(out):
            rest = entry
            if place.done:
                break
        if not decode_message(data, region, &message, row, out):
            return 0
        if rest == NULL:
            out.batch[out.count] = index
            out.count += 1
            out.weight += region.at - entry
        entry = region.at
    if region.fault:
        return 0
    if not place.done:
        if out.count == first:
            set_fault(region, EMPTY_WRAPPER, region_start, 1, 0)
            return 0
        if not find_shift(region_start, region, row, out.offset[out.count - (rest == NULL)], place):
            return 0
    for i in range(first, out.count):
        out.offset[i] = <int64_t> (<uint64_t> out.offset[i] + <uint64_t> place.shift)
    if rest != NULL:
        place.at = rest
        place.done += out.count - first
        return 0
    return 1


cdef int decode_message_set(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                            Columns* out, Place* place) noexcept nogil:
    """Append the messages of a region to `out`. Return 0 if `out` is full, or at a fault, which is set in `region`.

    At a fault, none of the messages is appended. If `out` is full, the next call appends those that follow.
    """
    cdef Py_ssize_t first = out.count
    if decode_messages(data, region, row, index, out, place):
        return 1
    if region.fault:
        out.count = first
    return 0
