"""Encoding of records, one after the other: v2 records as in a batch, or v0/v1 messages with their offset and size.

    v2      length varint | attributes | timestamp delta | offset delta | key | value | headers
    v0, v1  offset | size | crc | magic | attributes | v1: timestamp | key | value

records_v2.pyx and messages_v0_v1.pyx decode these bytes.

An encoder also keeps the values of the batch header (count, last offset, first and largest timestamp), and enforces
Kafka's rules for the order of records. If a record breaks a rule, nothing is added. Source:
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
    INITIAL_CAPACITY = 4096
    MESSAGE_HEAD_BYTES = 10


cdef inline uint8_t* put_sized(uint8_t* place, object data) noexcept:
    """Store a varint length and the bytes; null has the length -1. Return the address after them."""
    cdef Py_ssize_t length
    if data is None:
        place[0] = 1
        return place + 1
    length = PyBytes_GET_SIZE(data)
    place += store_varlong(place, length)
    memcpy(place, PyBytes_AS_STRING(data), length)
    return place + length


cdef inline uint8_t* put_sized_int32(uint8_t* place, object data) noexcept:
    """Store an int32 length and the bytes; null has the length -1. Return the address after them."""
    cdef Py_ssize_t length = -1 if data is None else PyBytes_GET_SIZE(data)
    place += store_big_endian(place, <uint64_t> length, 4)
    if length > 0:
        memcpy(place, PyBytes_AS_STRING(data), length)
        place += length
    return place


cdef inline Py_ssize_t length_of(object data) noexcept:
    """Return the length of bytes; 0 for null."""
    return 0 if data is None else PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t sized_length(object data) noexcept:
    """Return the number of bytes that `put_sized` stores."""
    return 1 if data is None else size_of_varlong(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef uint32_t checksum_of(bytes head, object key, object value) except? 0:
    """Compute the CRC-32 of a message; `head` is its bytes from the magic up to the key length."""
    cdef uint32_t checksum = crc32(head)
    for data in (key, value):
        checksum = crc32((<int64_t> -1 if data is None else len(data)).to_bytes(4, "big", signed=True), checksum)
        if data:
            checksum = crc32(data, checksum)
    return checksum


cdef tuple encoded_headers(object headers):
    """Check headers and return (key bytes, value bytes or None) of each."""
    return tuple([((<str> key).encode("utf-8"), value) for key, value in checked_headers(headers)])


cdef Record checked_record(object item):
    """Return an object, after checking that it is a `Record`."""
    if not isinstance(item, Record):
        raise TypeError(f"a Record is added, not {type(item).__name__}")
    return <Record> item


cdef Py_ssize_t headers_length(tuple headers) noexcept:
    """Return the number of bytes of encoded headers, including their count."""
    cdef Py_ssize_t total = size_of_varlong(len(headers))
    for key, value in headers:
        total += sized_length(key) + sized_length(value)
    return total


cdef class RecordsEncoder:
    """An encoder for the records of one batch, which are added in the order of their offsets, by one thread.

    Args:
        magic: The format: 0, 1 or 2.
        base_offset: The base offset of the batch. The offsets of v2 records are stored relative to it.
        timestamp_type: The number of a `TimestampType`.
        log_append_time: If the type is LogAppendTime: the timestamp of every v1 message, and the largest timestamp in
            the header of a v2 batch, ms.
        relative: Whether the offsets of messages are stored relative to `base_offset`, as in a v1 wrapper.
        base_timestamp: The base timestamp of a v2 batch, ms; None: the timestamp of its first record.

    Attributes:
        size: The size of the records so far in bytes, before compression.
        magic: The format.
        records_count: The number of records so far.
        base_offset: The base offset of the batch.
        last_offset: The offset of the last record; -1 = no records.
        base_timestamp: The base timestamp of a v2 batch, ms; -1 = none.
        max_timestamp: The largest timestamp so far, ms; -1 = none.
        offset_of_max_timestamp: The offset of the first record with that timestamp; -1 = none.

    Raises:
        ValueError: `magic` is not 0, 1 or 2.
    """

    cdef uint8_t* data
    cdef Py_ssize_t capacity
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
        """Reset everything that depends on the records of a batch."""
        self.size = self.records_count = 0
        self.base_offset = base_offset
        self.has_base_timestamp = self.is_base_given
        if not self.is_base_given:
            self.base_timestamp = -1
        self.max_timestamp = self.offset_of_max_timestamp = self.last_offset = -1

    def restart(self, base_offset):
        """Remove all records and begin a new batch with the same settings.

        Args:
            base_offset: The base offset of the new batch.

        Raises:
            TypeError: `base_offset` is not an integer.
            ValueError: `base_offset` is negative or more than 2**63 - 1.
        """
        self.begin(whole("base_offset", base_offset, 0, INT64_MAX))

    def __dealloc__(self):
        PyMem_Free(self.data)

    def __reduce__(self):
        raise TypeError("an encoder cannot be copied")

    cdef uint8_t* place_for(self, Py_ssize_t length) except NULL:
        """Return the address for the next `length` bytes; grow the buffer if needed. `written` changes `size`."""
        cdef Py_ssize_t wanted = self.capacity
        cdef uint8_t* grown
        if self.size + length > self.capacity:
            wanted = max(INITIAL_CAPACITY, self.capacity)
            while wanted < self.size + length:
                wanted *= 2
            grown = <uint8_t*> PyMem_Realloc(self.data, wanted)
            if grown == NULL:
                raise MemoryError()
            self.data = grown
            self.capacity = wanted
        return self.data + self.size

    cdef int check(self, int64_t offset, int64_t timestamp, bint has_headers) except -1:
        """Raise ValueError if Kafka's rules do not allow this record to follow."""
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
        """Update the attributes after a record of `length` bytes has been stored."""
        self.size += length
        self.records_count += 1
        self.last_offset = offset
        if self.magic > 0 and timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset
        return 0

    cdef Py_ssize_t body_length(self, int64_t offset, int64_t timestamp, object key, object value,
                                tuple headers) except -1:
        """Return the number of bytes of a v2 record after its length."""
        cdef int64_t base = self.base_timestamp if self.has_base_timestamp else timestamp
        return (1 + size_of_varlong(<int64_t> (<uint64_t> timestamp - <uint64_t> base))
                + size_of_varlong(<int64_t> (<uint64_t> offset - <uint64_t> self.base_offset))
                + sized_length(key) + sized_length(value) + headers_length(headers))

    cdef int put_record(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers,
                        Py_ssize_t body) except -1:
        """Store a v2 record; `body` is the result of `body_length`."""
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
        """Return the number of bytes of a v0/v1 message after its offset and size."""
        cdef Py_ssize_t overhead = RECORD_OVERHEAD_V0 if self.magic == 0 else RECORD_OVERHEAD_V1
        return overhead + length_of(key) + length_of(value)

    cdef int put_message(self, int64_t offset, int64_t timestamp, object key, object value) except -1:
        """Store a v0/v1 message with its offset and size."""
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
        # Before `place_for`: this releases the GIL, and another thread could then reallocate the buffer.
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
        """Store the fields between CRC and key length: magic, attributes, v1: timestamp. Return their size."""
        place[0] = self.magic
        place[1] = LOG_APPEND_TIME_BIT if self.magic > 0 and self.timestamp_type == LOG_APPEND_TIME else 0
        return 2 + (store_big_endian(place + 2, <uint64_t> timestamp, 8) if self.magic > 0 else 0)

    cdef int put(self, int64_t offset, int64_t timestamp, object key, object value, tuple headers,
                 Py_ssize_t room=PY_SSIZE_T_MAX, double ratio=1.0) except -1:
        """Add a record if it fits in `room` bytes, see `fill`. Return 0 if it does not."""
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
        """Return the offset of the next record, unless it has its own."""
        return self.last_offset + 1 if self.records_count else self.base_offset

    def append(self, value=None, key=None, headers=(), timestamp=-1, *, offset=None):
        """Add a record.

        Args:
            value: The value as bytes; None = null.
            key: The key as bytes; None = null.
            headers: Pairs of a key as text, and a value as bytes or None.
            timestamp: Milliseconds since the epoch; -1 = none.
            offset: The offset; None: the one after the last record, or the base offset.

        Raises:
            TypeError: An argument has another type.
            ValueError: The offset is not greater than the last one, or not within 2**31 - 1 of the base offset; the
                timestamp is less than -1; a v0/v1 message has headers; or the record or batch is too large.
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
        """Add records.

        Args:
            records: `Record`s. Those before an invalid one are added.
            keep_offsets: Whether to keep the offsets of the records; if not, they get the next ones.
            default_timestamp: The timestamp for records that have none, ms.

        Raises:
            TypeError: An item is not a `Record`.
            ValueError: A record is invalid, see `append`.
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
        """Add records until one does not fit in the batch.

        A record fits if `size` times `ratio`, plus its own bytes, is at most `room`. The first record of a batch always
        fits.

        Args:
            records: An iterator of `Record`s. They get the next offsets.
            room: The maximum size of all records, bytes.
            first: A `Record` to add before those of the iterator, such as the result of the previous call.
            ratio: The expected size of the records after compression, divided by that before.
            taken: A list to which the added records are appended.
            default_timestamp: The timestamp for records that have none, ms.

        Returns:
            The record that does not fit, which has been taken from the iterator; None: all records have been added.

        Raises:
            TypeError: An item is not a `Record`.
            ValueError: A record is invalid, see `append`.
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
        """Return the number of bytes that `append` would add.

        Args:
            value: The value as bytes; None = null.
            key: The key as bytes; None = null.
            headers: Pairs of a key as text, and a value as bytes or None.
            timestamp: Milliseconds since the epoch; -1 = none.

        Raises:
            TypeError: An argument has another type.
            ValueError: The timestamp does not fit in 64 bits, or a header key cannot be encoded as UTF-8.
        """
        cdef Py_ssize_t body
        key = checked_bytes("key", key)
        value = checked_bytes("value", value)
        if self.magic < 2:
            return LOG_OVERHEAD + self.message_length(key, value)
        timestamp = whole("timestamp", timestamp, INT64_MIN, INT64_MAX, EPOCH_MS)
        body = self.body_length(self.next_offset(), timestamp, key, value, encoded_headers(headers))
        return size_of_varlong(body) + body

    def take(self):
        """Return a copy of the encoded records."""
        return PyByteArray_FromStringAndSize(<char*> self.data, self.size)

    def to_batch(self, bytes header not None, int32_t base_sequence=-1, payload=None):
        """Return the records as a v2 batch: the header, and the records or `payload`.

        Args:
            header: The 61 bytes of a header. The leader epoch, magic, attributes, producer id and producer epoch are
                kept; the other fields are set according to the records, and the CRC is computed.
            base_sequence: The sequence of the first record; -1 = none.
            payload: The compressed records; None: the records are not compressed.

        Raises:
            ValueError: The header does not have 61 bytes, the encoder has another format than 2, or the batch has more
                than 2**31 - 1 bytes.
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
        # From here to the end of `memcpy` no Python code runs, during which another thread could append a record.
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
        """Set the fields of a batch header that depend on the records, except the CRC."""
        cdef int64_t latest = self.log_append_time if self.timestamp_type == LOG_APPEND_TIME else self.max_timestamp
        store_big_endian(place, <uint64_t> self.base_offset, 8)
        store_big_endian(place + SIZE_AT, size - LOG_OVERHEAD, 4)
        store_big_endian(place + BATCH_LAST_OFFSET_DELTA_AT, <uint64_t> (self.last_offset - self.base_offset), 4)
        store_big_endian(place + BATCH_BASE_TIMESTAMP_AT, <uint64_t> self.base_timestamp, 8)
        store_big_endian(place + BATCH_MAX_TIMESTAMP_AT, <uint64_t> latest, 8)
        store_big_endian(place + BATCH_BASE_SEQUENCE_AT, <uint64_t> <int64_t> base_sequence, 4)
        store_big_endian(place + BATCH_RECORDS_COUNT_AT, self.records_count, 4)
