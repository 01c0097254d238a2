"""Decoding of the records of a v2 batch to columns: the decompressed bytes after its 61-byte header.

    record   length varint | attributes int8 | timestamp delta varlong | offset delta varint | key length varint, key |
             value length varint, value | headers count varint, headers
    header   key length varint, key (UTF-8) | value length varint, value

The length of null is -1; any negative length is read as null. The attributes are ignored, because Kafka defines none.
Source: clients/.../common/record/DefaultRecord.java. DESIGN.md, "The kernel contract", defines the faults.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafkalog._speedups.cursor cimport (
    HEADER_COUNT,
    HEADER_KEY_LENGTH,
    NEGATIVE_LENGTH,
    RECORD_LENGTH,
    RECORDS_COUNT,
    TOO_MANY_HEADERS,
    TRAILING_BYTES,
    Cursor,
    bytes_left,
    cursor_open,
    read_byte,
    read_varint,
    read_varlong,
    set_fault,
    take,
)
from kafkalog._speedups.layout cimport LOG_APPEND_TIME, Header


cdef inline int64_t add(int64_t base, int64_t delta) noexcept nogil:
    """Add with 64-bit wrap-around, as Java does."""
    return <int64_t> (<uint64_t> base + <uint64_t> delta)


cdef void skip_headers(Cursor* record, int32_t count) noexcept nogil:
    """Skip the headers of a record, checking them."""
    cdef const uint8_t* start
    cdef int32_t length
    cdef int32_t _
    for _ in range(count):
        start = record.at
        length = read_varint(record)
        if record.fault:
            return
        if length < 0:
            set_fault(record, HEADER_KEY_LENGTH, start, 0, length)
            return
        take(record, length)
        length = read_varint(record)
        if length > 0:
            take(record, length)
        if record.fault:
            return


cdef inline void copy_fault(Cursor* record, Cursor* region) noexcept nogil:
    """Copy the fault of a record to the cursor of its region."""
    set_fault(region, record.fault, record.fault_at, record.expected, record.found)


cdef inline int open_record(Cursor* region, Cursor* record) noexcept nogil:
    """Read the length of a record and open a cursor for its bytes. Return 0 if there is a fault."""
    cdef const uint8_t* start = region.at
    cdef int32_t length = read_varint(region)
    if region.fault:
        return 0
    if length < 0:
        set_fault(region, NEGATIVE_LENGTH, start, 0, length)
        return 0
    start = take(region, length)
    if region.fault:
        return 0
    cursor_open(record, start, start + length)
    return 1


cdef inline int decode_record(const uint8_t* data, Cursor* region, const Header* row, Columns* out) noexcept nogil:
    """Store the fields of the next record in `out`, without counting it. Return 0 if there is a fault."""
    cdef Cursor record
    cdef const uint8_t* start
    cdef const uint8_t* count_at
    cdef int32_t count
    cdef int32_t length
    cdef int64_t timestamp
    cdef Py_ssize_t i = out.count
    if not open_record(region, &record):
        return 0
    start = record.at
    read_byte(&record)
    timestamp = add(row.base_timestamp, read_varlong(&record))
    out.timestamp[i] = row.max_timestamp if row.timestamp_type == LOG_APPEND_TIME else timestamp
    out.offset[i] = add(row.base_offset, read_varint(&record))
    length = read_varint(&record)
    out.key_start[i] = record.at - data
    out.key_length[i] = length if length >= 0 else -1
    if length > 0:
        take(&record, length)
    length = read_varint(&record)
    out.value_start[i] = record.at - data
    out.value_length[i] = length if length >= 0 else -1
    if length > 0:
        take(&record, length)
    count_at = record.at
    count = read_varint(&record)
    out.headers_start[i] = record.at - data
    out.headers_length[i] = bytes_left(&record)
    if count != 0 and record.fault == 0:
        if count < 0 or count > bytes_left(&record):
            set_fault(&record, HEADER_COUNT, count_at, bytes_left(&record), count)
        elif count > MAX_HEADERS:
            set_fault(&record, TOO_MANY_HEADERS, count_at, MAX_HEADERS, count)
        else:
            skip_headers(&record, count)
            out.weight += HEADER_WEIGHT * count
    if record.fault == 0 and record.at != record.end:
        set_fault(&record, RECORD_LENGTH, record.at, record.end - start, record.at - start)
    if record.fault:
        copy_fault(&record, region)
        return 0
    out.weight += record.end - start
    return 1


cdef int decode_record_batch(const uint8_t* data, Cursor* region, const Header* row, int32_t index,
                             Columns* out, Place* place) noexcept nogil:
    """Append the records of a region to `out`. Return 0 if `out` is full, or at a fault, which is set in `region`."""
    cdef int64_t done
    if row.records_count < 0:
        set_fault(region, RECORDS_COUNT, region.at, 0, row.records_count)
        return 0
    for done in range(place.done, row.records_count):
        if is_full(out):
            place.at = region.at
            place.done = done
            return 0
        if not decode_record(data, region, row, out):
            return 0
        out.batch[out.count] = index
        out.count += 1
    if row.records_count > 0 and region.at != region.end:
        set_fault(region, TRAILING_BYTES, region.at, 0, region.end - region.at)
        return 0
    return 1
