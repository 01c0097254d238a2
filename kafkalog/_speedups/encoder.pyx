"""Records to bytes, one after the other: v2 records as they lie in a batch, or v0/v1 messages, framing and all.

    v2      length varint | attributes | timestamp delta | offset delta | key | value | headers
    v0, v1  offset | size | crc | magic | attributes | v1: timestamp | key | value

What records_v2.pyx and messages_v0_v1.pyx read.

An encoder knows what the header of the batch will want to know (count, last offset, first and largest timestamp) and
keeps Kafka's rules for what may follow what. A record that breaks one leaves no trace. Source:
clients/.../common/record/{MemoryRecordsBuilder,DefaultRecord,LegacyRecord}.java.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from itertools import chain

from kafkalog._speedups.arguments cimport whole
from kafkalog._speedups.layout cimport (
    BATCH_BASE_SEQUENCE_AT,
    BATCH_BASE_TIMESTAMP_AT,
    BATCH_CRC_AT,
    BATCH_CRC_FROM,
    BATCH_LAST_OFFSET_DELTA_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_RECORDS_COUNT_AT,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    SIZE_AT,
)
from kafkalog._speedups.record cimport Record, checked_bytes, checked_headers
from kafkalog._speedups.put cimport size_of_varlong, store_big_endian, store_varlong

from crc32c import crc32c

from kafkalog._speedups.checksum import crc32

cdef str EPOCH_MS = "ms since the epoch"

cdef extern from "Python.h":
    enum:
        PyBUF_READ
    Py_ssize_t PY_SSIZE_T_MAX

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


cdef Record checked_record(object given):
    if not isinstance(given, Record):
        raise TypeError(f"a Record is added, not {type(given).__name__}")
    return <Record> given


cdef Py_ssize_t headers_length(tuple headers) noexcept:
    cdef Py_ssize_t total = size_of_varlong(len(headers))
    for key, value in headers:
        total += sized_length(key) + sized_length(value)
    return total


cdef class RecordsEncoder:
    """Records of one batch, as bytes, in the order of their offsets.

    Args:
        magic: 0, 1 or 2.
        base_offset: What the offsets of v2 records, and of v1 messages if `relative`, count from.
        timestamp_type: The number of a `TimestampType`.
        log_append_time: The timestamp of every v0/v1 message, ms, if the type is LogAppendTime.
        relative: Whether v1 messages are those of a wrapper.
        base_timestamp: What v2 timestamps count from; None: the first record's.

    Attributes:
        size: The bytes of the records so far, before compression.
        magic: The format.
        records_count: The number of records so far.
        base_offset: As given.
        last_offset: The offset of the last record.
        base_timestamp: The timestamp that those of v2 records count from, ms; -1 = none.
        max_timestamp: The largest timestamp so far, ms; -1 = none.
        offset_of_max_timestamp: The offset of the first record that has it; -1 = none.
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
    cdef bint is_base_given

    def __init__(self, int magic, int64_t base_offset=0, *, int timestamp_type=0, int64_t log_append_time=-1,
                 bint relative=False, base_timestamp=None):
        if not 0 <= magic <= 2:
            raise ValueError(f"magic is {magic}, not 0, 1 or 2")
        self.magic = magic
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.relative = relative
        self.is_base_given = base_timestamp is not None
        self.base_timestamp = -1 if base_timestamp is None else base_timestamp
        self.begin(base_offset)

    cdef void begin(self, int64_t base_offset) noexcept:
        self.size = self.records_count = 0
        self.base_offset = base_offset
        self.has_base_timestamp = self.is_base_given
        if not self.is_base_given:
            self.base_timestamp = -1
        self.max_timestamp = self.offset_of_max_timestamp = self.last_offset = -1

    def restart(self, base_offset):
        """Forget the records, and begin another batch with what this one was told. ValueError: no offset."""
        self.begin(whole("base_offset", base_offset, 0, INT64_MAX))

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
        if offset < self.base_offset or <uint64_t> offset - <uint64_t> self.base_offset > INT32_MAX:
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
                + size_of_varlong(<int64_t> (<uint64_t> offset - <uint64_t> self.base_offset))
                + sized_length(key) + sized_length(value) + headers_length(headers))

    cdef int put_record(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers,
                        Py_ssize_t body) except -1:
        """body: what `body_length` says of it."""
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

    cdef int put(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers,
                 Py_ssize_t room=PY_SSIZE_T_MAX, double ratio=1.0) except -1:
        """Add a record if it has room, see `fill`; 0: it has none."""
        cdef Py_ssize_t length, body = 0
        if self.magic < 2:
            length = LOG_OVERHEAD + self.message_length(key, value)
        else:
            body = self.body_length(offset, timestamp, key, value, headers)
            length = size_of_varlong(body) + body
        if self.records_count and <int64_t> (self.size * ratio) + length > room:
            return 0
        self.check(offset, timestamp, len(headers) > 0)
        if self.magic < 2:
            self.put_message(offset, timestamp, key, value)
        else:
            self.put_record(offset, timestamp, key, value, headers, body)
        return 1

    cdef int64_t next_offset(self) noexcept:
        return self.last_offset + 1 if self.records_count else self.base_offset

    def append(self, value=None, key=None, headers=(), timestamp=-1, *, offset=None):
        """Add one record; its offset is the next one unless given.

        ValueError: the offset does not follow, the timestamp is less than -1, headers below magic 2, too large.
        TypeError: not bytes.
        """
        timestamp = whole("timestamp", timestamp, INT64_MIN, INT64_MAX, EPOCH_MS)
        if value is not None and type(value) is not bytes:
            value = checked_bytes("value", value)
        if key is not None and type(key) is not bytes:
            key = checked_bytes("key", key)
        offset = self.next_offset() if offset is None else whole("offset", offset, INT64_MIN, INT64_MAX)
        self.put(offset, timestamp, key, value,
                 encoded_headers(headers) if headers else ())

    def extend(self, records, bint keep_offsets=False, *, int64_t default_timestamp=-1):
        """Add `Record`s; their offsets are the next ones, or their own if keep_offsets. As `append` for each.

        default_timestamp: ms, for records that have no timestamp.
        """
        cdef Record record
        cdef int64_t timestamp
        for each in records:
            record = checked_record(each)
            timestamp = record.timestamp if record.timestamp != -1 else default_timestamp
            self.put(record.offset if keep_offsets else self.next_offset(), timestamp, record.key, record.value,
                     encoded_headers(record.headers) if record.headers else ())

    def fill(self, records, Py_ssize_t room, *, first=None, double ratio=1.0, list taken=None,
             int64_t default_timestamp=-1):
        """Add `Record`s, `first` if given and those of an iterator, until one has no room in `room` bytes.

        Returns that one; None: there are no more. What is here already counts for `ratio` of its bytes, as it may be
        once it is compressed. A batch that is empty has room for any. taken: a list to append those to that were added.
        default_timestamp, errors: as `extend`.
        """
        cdef Record record
        cdef int64_t timestamp
        for each in records if first is None else chain((first,), records):
            record = checked_record(each)
            timestamp = record.timestamp if record.timestamp != -1 else default_timestamp
            if not self.put(self.next_offset(), timestamp, record.key, record.value,
                            encoded_headers(record.headers) if record.headers else (), room, ratio):
                return each
            if taken is not None:
                taken.append(each)
        return None

    def size_of(self, value=None, key=None, headers=(), timestamp=-1):
        """Bytes that `append` would add now. TypeError: not bytes."""
        cdef Py_ssize_t body
        key = checked_bytes("key", key)
        value = checked_bytes("value", value)
        if self.magic < 2:
            return LOG_OVERHEAD + self.message_length(key, value)
        timestamp = whole("timestamp", timestamp, INT64_MIN, INT64_MAX, EPOCH_MS)
        body = self.body_length(self.next_offset(), timestamp, key, value, encoded_headers(headers))
        return size_of_varlong(body) + body

    def take(self):
        """The bytes, as a bytearray of its own."""
        return PyByteArray_FromStringAndSize(<char*> self.data, self.size)

    def to_batch(self, bytes header not None, int32_t base_sequence=-1, payload=None):
        """The v2 batch of the records, as a bytearray of its own.

        header: its 61 bytes; filled in is what the records and base_sequence say, and what follows from all bytes.
        payload: the records compressed. ValueError: no such header, or a batch of more than 2**31 - 1 bytes.
        """
        cdef const uint8_t[::1] compressed = payload
        cdef const uint8_t* data = self.data
        cdef Py_ssize_t length = self.size
        cdef bytearray batch
        cdef uint8_t* place
        if payload is not None:
            length = compressed.shape[0]
            data = &compressed[0] if length else NULL
        if PyBytes_GET_SIZE(header) != RECORD_BATCH_OVERHEAD or self.magic < 2:
            raise ValueError(f"a header of {PyBytes_GET_SIZE(header)} bytes for format {self.magic}")
        if length > INT32_MAX - RECORD_BATCH_OVERHEAD:
            raise ValueError(f"a batch of {RECORD_BATCH_OVERHEAD + length} bytes; at most 2**31 - 1")
        # No Python code runs between here and the copying: another thread could append.
        batch = PyByteArray_FromStringAndSize(NULL, RECORD_BATCH_OVERHEAD + length)
        place = <uint8_t*> PyByteArray_AS_STRING(batch)
        memcpy(place, PyBytes_AS_STRING(header), RECORD_BATCH_OVERHEAD)
        if length:
            memcpy(place + RECORD_BATCH_OVERHEAD, data, length)
        self.fill_in(place, RECORD_BATCH_OVERHEAD + length, base_sequence)
        covered = PyMemoryView_FromMemory(<char*> place + BATCH_CRC_FROM,
                                          RECORD_BATCH_OVERHEAD + length - BATCH_CRC_FROM, PyBUF_READ)
        store_big_endian(place + BATCH_CRC_AT, <uint32_t> crc32c(covered), 4)
        return batch

    cdef void fill_in(self, uint8_t* place, Py_ssize_t size, int32_t base_sequence) noexcept:
        cdef int64_t latest = self.log_append_time if self.timestamp_type == LOG_APPEND_TIME else self.max_timestamp
        store_big_endian(place, <uint64_t> self.base_offset, 8)
        store_big_endian(place + SIZE_AT, size - LOG_OVERHEAD, 4)
        store_big_endian(place + BATCH_LAST_OFFSET_DELTA_AT, <uint64_t> (self.last_offset - self.base_offset), 4)
        store_big_endian(place + BATCH_BASE_TIMESTAMP_AT, <uint64_t> self.base_timestamp, 8)
        store_big_endian(place + BATCH_MAX_TIMESTAMP_AT, <uint64_t> latest, 8)
        store_big_endian(place + BATCH_BASE_SEQUENCE_AT, <uint64_t> <int64_t> base_sequence, 4)
        store_big_endian(place + BATCH_RECORDS_COUNT_AT, self.records_count, 4)
