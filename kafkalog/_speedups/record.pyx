"""`Record`, and the function that builds many records from columns.

A record owns its bytes: it stays valid when the file is closed, truncated or deleted. Its fields cannot refer to it, so
there are no reference cycles and the garbage collector need not track records. Most of the speed of building a million
records comes from this.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_FromObject
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t

from kafkalog._speedups.arguments cimport member, whole
from kafkalog._speedups.cursor cimport Cursor, cursor_open, read_varint, take
from kafkalog._speedups.layout cimport Header
from kafkalog._speedups.header_table cimport Rows, open_rows

from kafkalog.attributes import TimestampType

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)

cdef tuple NO_HEADERS = ()
cdef dict TIMESTAMP_TYPES = {int(each): each for each in TimestampType}


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Record:
    """Record(value=None, key=None, headers=(), timestamp=-1, *, offset=-1, timestamp_type=0, sequence=-1)\n--\n
    One record of a log. Immutable, hashable, picklable.

    A record of a damaged log may have any numbers. Appending a record checks them; creating one does not.

    Attributes:
        value: The value as bytes; None = null.
        key: The key as bytes; None = null.
        headers: A tuple of pairs: the key as text, the value as bytes or None.
        timestamp: Milliseconds since the epoch; -1 = none. A `datetime` with a time zone is accepted.
        offset: The offset in the partition; -1 = not yet in a log.
        sequence: The sequence of an idempotent producer; -1 = none.

    Raises:
        TypeError: A field has another type.
        ValueError: A number does not fit in its field, or a header key cannot be encoded as UTF-8.
    """

    def __init__(self, value=None, key=None, headers=(), timestamp=-1, *, offset=-1,
                 timestamp_type=TimestampType.CREATE_TIME, sequence=-1):
        self.value = checked_bytes("value", value)
        self.key = checked_bytes("key", key)
        self.headers = checked_headers(headers)
        self.timestamp = whole("timestamp", timestamp, INT64_MIN, INT64_MAX, "ms since the epoch")
        self.offset = whole("offset", offset, INT64_MIN, INT64_MAX)
        self.sequence = whole("sequence", sequence, -1, INT32_MAX)
        # The number is stored, because looking up a member of an enum takes longer than all the rest.
        self.type_id = member("timestamp_type", timestamp_type, TimestampType)

    @property
    def timestamp_type(self):
        """Whether the producer or the broker has set the timestamp."""
        return TIMESTAMP_TYPES[self.type_id]

    cdef tuple fields(self):
        return (self.value, self.key, self.headers, self.timestamp, self.offset, self.type_id, self.sequence)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self.fields() == (<Record> other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return (f"Record(value={self.value!r}, key={self.key!r}, headers={self.headers!r}, timestamp={self.timestamp}, "
                f"offset={self.offset}, timestamp_type={self.timestamp_type.name}, sequence={self.sequence})")

    def __reduce__(self):
        return _restore, self.fields()


def _restore(value, key, headers, timestamp, offset, type_id, sequence):
    return Record(value, key, headers, timestamp, offset=offset, timestamp_type=type_id, sequence=sequence)


cdef object checked_bytes(str name, object value):
    """Return a key or value as bytes or None. Raise TypeError for any other type."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{name} must be bytes or None, not {type(value).__name__}")


cdef tuple checked_headers(object headers):
    """Return headers as a tuple of pairs (str, bytes or None). Raise TypeError or ValueError if they are invalid."""
    cdef list pairs = []
    cdef object pair
    if isinstance(headers, dict):
        raise TypeError("headers are pairs of str and bytes or None, not dict; its .items() are")
    for each in headers:
        pair = each if type(each) is tuple else pair_of(each)
        if PyTuple_GET_SIZE(pair) != 2:
            raise TypeError(f"headers are pairs of str and bytes or None, not {each!r}")
        key, value = <tuple> pair
        if not isinstance(key, str):
            raise TypeError(f"a header key is str, not {type(key).__name__}")
        # A subclass of str becomes str: kernels read its bytes, and an object of a subclass may refer to the record.
        key = PyUnicode_FromObject(key)
        if not PyUnicode_IS_COMPACT_ASCII(key):
            check_utf8(key)
        pairs.append((key, checked_bytes("a header value", value)))
    return tuple(pairs)


cdef tuple pair_of(object header):
    """Return a header as a tuple, after checking that it is a tuple or a list."""
    if not isinstance(header, (tuple, list)):
        raise TypeError(f"headers are pairs of str and bytes or None, not {header!r}")
    return tuple(header)


cdef int check_utf8(str key) except -1:
    """Raise ValueError if a header key cannot be encoded as UTF-8."""
    try:
        key.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"a header key is text that UTF-8 can hold, not {key!r}") from error
    return 0


cdef tuple read_headers(const uint8_t* start, int64_t length):
    """Decode the headers in [start, start + length), which `decode_batches` has checked before."""
    cdef Cursor cursor
    cdef int32_t size
    cdef const uint8_t* place
    cdef list pairs = []
    cursor_open(&cursor, start, start + length)
    while cursor.at < cursor.end:
        size = read_varint(&cursor)
        place = take(&cursor, max(0, size))
        if cursor.fault or size < 0:
            raise changed_headers()
        key = place[:size].decode("utf-8", "replace")
        size = read_varint(&cursor)
        place = take(&cursor, max(0, size))
        if cursor.fault:
            raise changed_headers()
        pairs.append((key, None if size < 0 else place[:size]))
    return tuple(pairs)


cdef object changed_headers():
    return ValueError("the headers' bytes have changed since they were decoded")


cdef inline int32_t sequence_of(const Header* row, int64_t offset) noexcept nogil:
    """Return the sequence of a record, as Kafka's `incrementSequence` does: 0 follows 2**31 - 1. -1 = none."""
    cdef int64_t sequence
    if row.base_sequence < 0:
        return -1
    sequence = row.base_sequence + <int64_t> (<uint64_t> offset - <uint64_t> row.base_offset)
    return <int32_t> (sequence if sequence <= 0x7FFFFFFF else sequence - 0x7FFFFFFF - 1)


cdef inline bytes piece(const uint8_t* data, int64_t length, int64_t start, int64_t size):
    """Copy a key or value, after checking that it is inside the buffer of `length` bytes."""
    if size > length - start or start < 0:
        raise ValueError(f"a key or value at {start}, {size} bytes, is outside the buffer of {length} bytes")
    return PyBytes_FromStringAndSize(<const char*> data + start, size)


def build_records(const uint8_t[::1] buffer not None, const int64_t[:, :] block not None,
                  const int32_t[:] batch not None, rows not None):
    """Build one `Record` per column of `block`, copying keys, values and headers.

    Args:
        buffer: The bytes that starts refer to.
        block: The columns of the records, int64, shape (8, n), see `decode_batches`.
        batch: The index in `rows` of the entry of each record, int32, shape (n,).
        rows: The rows of the entries, `HEADER_DTYPE`, shape (k,).

    Raises:
        ValueError: A key, value or header is outside the buffer; an index is outside `rows`; the shapes do not match;
            or the bytes of headers have changed since they were decoded.
    """
    cdef Py_ssize_t count = block.shape[1]
    cdef int64_t length = buffer.shape[0]
    cdef const uint8_t* data = &buffer[0] if length else NULL
    cdef list records = PyList_New(count)
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef const Header* row
    cdef Record record
    cdef Py_ssize_t i
    if block.shape[0] != 8 or batch.shape[0] != count:
        raise ValueError(f"block has shape ({block.shape[0]}, {count}), batch {batch.shape[0]}")
    for i in range(count):
        if not 0 <= batch[i] < table.count:
            raise ValueError(f"record {i} is of row {batch[i]} of {table.count}")
        row = &table.at[batch[i]]
        record = Record.__new__(Record)
        record.offset = block[0, i]
        record.timestamp = block[1, i]
        record.key = None if block[3, i] < 0 else piece(data, length, block[2, i], block[3, i])
        record.value = None if block[5, i] < 0 else piece(data, length, block[4, i], block[5, i])
        record.headers = NO_HEADERS if block[7, i] <= 0 else headers_at(data, length, block[6, i], block[7, i])
        record.sequence = sequence_of(row, record.offset)
        record.type_id = row.timestamp_type
        Py_INCREF(record)
        PyList_SET_ITEM(records, i, record)
    return records


cdef inline tuple headers_at(const uint8_t* data, int64_t length, int64_t start, int64_t size):
    """Decode headers, after checking that they are inside the buffer of `length` bytes."""
    if size > length - start or start < 0:
        raise ValueError(f"headers at {start}, {size} bytes, are outside the buffer of {length} bytes")
    return read_headers(data + start, size)
