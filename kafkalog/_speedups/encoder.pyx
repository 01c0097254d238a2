"""Records to bytes, one after the other: v2 records as they lie in a batch, or v0/v1 messages, framing and all.

    v2      length varint | attributes | timestamp delta | offset delta | key | value | headers
    v0, v1  offset | size | crc | magic | attributes | v1: timestamp | key | value

What records.pyx and message_set.pyx read.

An encoder knows what the header of the batch will want to know (count, last offset, first and largest timestamp) and
keeps Kafka's rules for what may follow what. A record that breaks one leaves no trace. Source:
clients/.../common/record/{MemoryRecordsBuilder,DefaultRecord,LegacyRecord}.java.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkalog._speedups.layout cimport LOG_APPEND_TIME, LOG_APPEND_TIME_BIT, LOG_OVERHEAD, RECORD_OVERHEAD_V0
from kafkalog._speedups.record cimport Record, checked_bytes, checked_headers
from kafkalog._speedups.store cimport size_of_varlong, store_big_endian, store_varlong

from operator import index

from kafkalog._speedups.checksum import crc32

cdef enum:
    RECORD_OVERHEAD_V1 = 22
    FIRST_ROOM = 4096
    MESSAGE_HEAD_BYTES = 10


cdef inline uint8_t* put_sized(uint8_t* place, object data) noexcept:
    """A varint length and the bytes; null is the length -1."""
    cdef Py_ssize_t length
    if data is None:
        place[0] = 1
        return place + 1
    length = PyBytes_GET_SIZE(data)
    place += store_varlong(place, length)
    memcpy(place, PyBytes_AS_STRING(data), length)
    return place + length


cdef inline uint8_t* put_sized_int32(uint8_t* place, object data) noexcept:
    """An int32 length and the bytes; null is the length -1."""
    cdef Py_ssize_t length = -1 if data is None else PyBytes_GET_SIZE(data)
    place += store_big_endian(place, <uint64_t> length, 4)
    if length > 0:
        memcpy(place, PyBytes_AS_STRING(data), length)
        place += length
    return place


cdef inline Py_ssize_t length_of(object data) noexcept:
    return 0 if data is None else PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t sized_length(object data) noexcept:
    return 1 if data is None else size_of_varlong(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef uint32_t checksum_of(bytes head, object key, object value) except? 0:
    """The CRC-32 of a message from its magic on."""
    cdef uint32_t checksum = crc32(head)
    for data in (key, value):
        checksum = crc32((<int64_t> -1 if data is None else len(data)).to_bytes(4, "big", signed=True), checksum)
        if data:
            checksum = crc32(data, checksum)
    return checksum


cdef tuple encoded_headers(object headers):
    """(key bytes, value bytes or None) of each header."""
    return tuple([((<str> key).encode("utf-8"), value) for key, value in checked_headers(headers)])


cdef Py_ssize_t headers_length(tuple headers) noexcept:
    cdef Py_ssize_t total = size_of_varlong(len(headers))
    for key, value in headers:
        total += sized_length(key) + sized_length(value)
    return total


cdef class RecordsEncoder:
    """Records of one batch, as bytes, in the order of their offsets.

    magic: 0, 1 or 2. base_offset: offsets of v2 records, and of v1 messages if `relative`, count from it.
    log_append_time: ms, what every v0/v1 message gets for its timestamp where timestamp_type is LogAppendTime.
    base_timestamp: what v2 timestamps count from (None: the first record's).
    """

    cdef uint8_t* data
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t size
    cdef readonly int magic
    cdef readonly int32_t records_count
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t offset_of_max_timestamp
    cdef int timestamp_type
    cdef int64_t log_append_time
    cdef bint relative
    cdef bint has_base_timestamp

    def __init__(self, int magic, int64_t base_offset=0, *, int timestamp_type=0, int64_t log_append_time=-1,
                 bint relative=False, base_timestamp=None):
        if not 0 <= magic <= 2:
            raise ValueError(f"magic is {magic}, not 0, 1 or 2")
        self.magic = magic
        self.size = self.records_count = 0
        self.base_offset = base_offset
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.relative = relative
        self.has_base_timestamp = base_timestamp is not None
        self.base_timestamp = -1 if base_timestamp is None else base_timestamp
        self.max_timestamp = self.offset_of_max_timestamp = self.last_offset = -1

    def __dealloc__(self):
        PyMem_Free(self.data)

    def __reduce__(self):
        raise TypeError("an encoder cannot be copied")

    cdef uint8_t* place_for(self, Py_ssize_t length) except NULL:
        """Where the next `length` bytes go. They are not written until `size` has moved past them."""
        cdef Py_ssize_t wanted = self.room
        cdef uint8_t* grown
        if self.size + length > self.room:
            wanted = max(FIRST_ROOM, self.room)
            while wanted < self.size + length:
                wanted *= 2
            grown = <uint8_t*> PyMem_Realloc(self.data, wanted)
            if grown == NULL:
                raise MemoryError()
            self.data = grown
            self.room = wanted
        return self.data + self.size

    cdef int check(self, int64_t offset, int64_t timestamp, bint has_headers) except -1:
        if self.records_count and offset <= self.last_offset:
            raise ValueError(f"offset {offset} follows offset {self.last_offset}; offsets must increase")
        if not 0 <= offset - self.base_offset <= INT32_MAX:
            raise ValueError(f"offset {offset} is not within 2**31 - 1 of the base offset {self.base_offset}")
        if timestamp < -1:
            raise ValueError(f"the timestamp is {timestamp}; at least 0, or -1 for none")
        if has_headers and self.magic < 2:
            raise ValueError(f"magic {self.magic} does not support record headers")
        if self.records_count == INT32_MAX:
            raise ValueError("a batch holds at most 2**31 - 1 records")
        return 0

    cdef int written(self, Py_ssize_t length, int64_t offset, int64_t timestamp) except -1:
        self.size += length
        self.records_count += 1
        self.last_offset = offset
        if self.magic > 0 and timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset
        return 0

    cdef Py_ssize_t body_length(self, int64_t offset, int64_t timestamp, object key, object value,
                                tuple headers) except -1:
        """Bytes of a v2 record after its length."""
        cdef int64_t base = self.base_timestamp if self.has_base_timestamp else timestamp
        return (1 + size_of_varlong(<int64_t> (<uint64_t> timestamp - <uint64_t> base))
                + size_of_varlong(offset - self.base_offset) + sized_length(key) + sized_length(value)
                + headers_length(headers))

    cdef int put_record(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers) except -1:
        cdef Py_ssize_t body = self.body_length(offset, timestamp, key, value, headers)
        cdef uint8_t* start
        cdef uint8_t* place
        if body > INT32_MAX:
            raise ValueError(f"a record of {body} bytes; at most 2**31 - 1")
        start = place = self.place_for(size_of_varlong(body) + body)
        if not self.has_base_timestamp:
            self.has_base_timestamp = True
            self.base_timestamp = timestamp
        place += store_varlong(place, body)
        place[0] = 0
        place += 1
        place += store_varlong(place, <int64_t> (<uint64_t> timestamp - <uint64_t> self.base_timestamp))
        place += store_varlong(place, offset - self.base_offset)
        place = put_sized(place, key)
        place = put_sized(place, value)
        place += store_varlong(place, len(headers))
        for header_key, header_value in headers:
            place = put_sized(place, header_key)
            place = put_sized(place, header_value)
        return self.written(place - start, offset, timestamp)

    cdef Py_ssize_t message_length(self, object key, object value) noexcept:
        """Bytes of a v0/v1 message after its framing."""
        cdef Py_ssize_t overhead = RECORD_OVERHEAD_V0 if self.magic == 0 else RECORD_OVERHEAD_V1
        return overhead + length_of(key) + length_of(value)

    cdef int put_message(self, int64_t offset, int64_t timestamp, object key, object value) except -1:
        cdef Py_ssize_t length = self.message_length(key, value)
        cdef uint8_t head[MESSAGE_HEAD_BYTES]
        cdef int head_size
        cdef uint32_t checksum
        cdef uint8_t* start
        cdef uint8_t* place
        if length > INT32_MAX - LOG_OVERHEAD:
            raise ValueError(f"a message of {length} bytes; at most 2**31 - 13")
        if self.timestamp_type == LOG_APPEND_TIME:
            timestamp = self.log_append_time
        head_size = self.store_head(head, timestamp)
        # Before any room is taken: it gives up the GIL, and another thread could move the room.
        checksum = checksum_of(head[:head_size], key, value)
        start = place = self.place_for(LOG_OVERHEAD + length)
        place += store_big_endian(place, <uint64_t> (offset - self.base_offset if self.relative else offset), 8)
        place += store_big_endian(place, length, 4)
        place += store_big_endian(place, checksum, 4)
        memcpy(place, head, head_size)
        place = put_sized_int32(place + head_size, key)
        place = put_sized_int32(place, value)
        return self.written(place - start, offset, timestamp)

    cdef int store_head(self, uint8_t* place, int64_t timestamp) noexcept:
        """What stands between a message's CRC and its key: magic, attributes and, in format 1, the timestamp."""
        place[0] = self.magic
        place[1] = LOG_APPEND_TIME_BIT if self.magic > 0 and self.timestamp_type == LOG_APPEND_TIME else 0
        return 2 + (store_big_endian(place + 2, <uint64_t> timestamp, 8) if self.magic > 0 else 0)

    cdef int put(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers) except -1:
        self.check(offset, timestamp, len(headers) > 0)
        if self.magic < 2:
            return self.put_message(offset, timestamp, key, value)
        return self.put_record(offset, timestamp, key, value, headers)

    cdef int64_t next_offset(self) noexcept:
        return self.last_offset + 1 if self.records_count else self.base_offset

    def append(self, value=None, key=None, headers=(), timestamp=-1, *, offset=None):
        """Add one record; its offset is the next one unless given.

        ValueError: the offset does not follow, the timestamp is less than -1, headers below magic 2, too large.
        TypeError: not bytes.
        """
        if type(timestamp) is not int:
            timestamp = index(timestamp)
        if value is not None and type(value) is not bytes:
            value = checked_bytes("value", value)
        if key is not None and type(key) is not bytes:
            key = checked_bytes("key", key)
        self.put(self.next_offset() if offset is None else index(offset), timestamp, key, value,
                 encoded_headers(headers) if headers else ())

    def extend(self, records, bint keep_offsets=False):
        """Add `Record`s; their offsets are the next ones, or their own if keep_offsets. As `append` for each."""
        cdef Record record
        for each in records:
            if not isinstance(each, Record):
                raise TypeError(f"a Record is added, not {type(each).__name__}")
            record = each
            self.put(record.offset if keep_offsets else self.next_offset(), record.timestamp, record.key, record.value,
                     encoded_headers(record.headers) if record.headers else ())

    def size_of(self, value=None, key=None, headers=(), timestamp=-1):
        """Bytes that `append` would add now. TypeError: not bytes."""
        cdef Py_ssize_t body
        key = checked_bytes("key", key)
        value = checked_bytes("value", value)
        if self.magic < 2:
            return LOG_OVERHEAD + self.message_length(key, value)
        body = self.body_length(self.next_offset(), index(timestamp), key, value, encoded_headers(headers))
        return size_of_varlong(body) + body

    def take(self, Py_ssize_t header_size=0):
        """The bytes, after `header_size` zero bytes of room for a header, as a bytearray of its own."""
        cdef bytearray result
        cdef char* place
        if header_size < 0:
            raise ValueError(f"a header of {header_size} bytes")
        # No Python code runs from here on: another thread could append.
        result = PyByteArray_FromStringAndSize(NULL, header_size + self.size)
        place = PyByteArray_AS_STRING(result)
        memset(place, 0, header_size)
        if self.size:
            memcpy(place + header_size, self.data, self.size)
        return result
