"""Where one log entry ends and the next begins, and what the headers say: bytes to one structured array.

    offset int64 | size int32 | ... magic int8 at 16 ...      size counts the bytes after itself

Nothing but headers is read: a scan of a 1 GiB segment of 64 KB batches touches some 16,000 cache lines.
Kafka's twin is `FileLogInputStream` (magic is not looked at) and, with `strict_magic`, `ByteBufferLogInputStream`.
The contract (statuses, their order and figures) stands in DESIGN.md.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafkalog._speedups.buffer_pool cimport Block as Memory
from kafkalog._speedups.cursor cimport load_int, load_long, load_short
from kafkalog._speedups.layout cimport (
    BATCH_ATTRIBUTES_AT,
    BATCH_BASE_SEQUENCE_AT,
    BATCH_BASE_TIMESTAMP_AT,
    BATCH_CRC_AT,
    BATCH_LAST_OFFSET_DELTA_AT,
    BATCH_LEADER_EPOCH_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_PRODUCER_EPOCH_AT,
    BATCH_PRODUCER_ID_AT,
    BATCH_RECORDS_COUNT_AT,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_TIMESTAMP_AT,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    SIZE_AT,
    Header,
)
from kafkalog._speedups.read_at cimport read_at

from os import strerror

import numpy as np

from kafkalog._speedups.buffer_pool import Block
from kafkalog._speedups.header_table import HEADER_DTYPE

cdef extern from *:
    """
    #include <errno.h>
    #include <unistd.h>
    /* Where data begins at or after `at`; `end` where only a hole is left; `at` where the file system cannot tell. */
    static long long kafkalog_data_from(int fd, long long at, long long end) {
    #ifdef SEEK_DATA
        long long data = lseek(fd, at, SEEK_DATA);
        if (data >= at)
            return data < end ? data : end;
        if (data < 0 && errno == ENXIO)
            return end;
    #endif
        return at;
    }
    """
    int64_t kafkalog_data_from(int fd, int64_t at, int64_t end) noexcept nogil

LIMIT = 0
END = 1
ZEROED = 2
TORN = 3
SIZE_TOO_SMALL = 4
BAD_MAGIC = 5
SIZE_TOO_LARGE = 6

cdef enum Status:
    AT_LIMIT = 0
    AT_END = 1
    AT_ZEROES = 2
    AT_TORN_ENTRY = 3
    AT_SMALL_SIZE = 4
    AT_BAD_MAGIC = 5
    AT_LARGE_SIZE = 6


# The window that a file scan reads into, and what it reads of it: only a header where entries are large, else all of
# it.
cdef enum:
    WINDOW_BYTES = 65536
    LARGE_ENTRY_BYTES = 8192
    PEEK_BYTES = 64
    FIRST_PEEK_BYTES = 1024
    # The window of a search, which mostly ends within what an index leaves between two of its entries.
    SEARCH_WINDOW_BYTES = 4096
    # A table of so many rows is begun with at most, whatever the first entry says.
    LIKELY_ROWS = 16384


cdef struct Source:
    # Bytes [base, base + held) of the data lie at `data`; the data ends at `end`. A file refills it, which has room for
    # `window` bytes, on demand: one of this machine (fd >= 0), or a `_Reader` (neither: all is in memory).
    uint8_t* data
    int64_t base
    int64_t held
    int64_t end
    int64_t window
    int fd
    int error
    PyObject* viewed


@cython.final
cdef class _Reader:
    """A `ByteSource` that a scan reads from, and the exception with which reading ended."""
    cdef object source
    cdef object failure


cdef struct Scan:
    int64_t at
    int64_t expected
    int64_t found
    int64_t last_size
    Py_ssize_t rows
    int status


cdef void copy_view(Source* source, int64_t at, int64_t wanted) noexcept with gil:
    """As `refill`, from a `_Reader`. After an exception the file ends at `at`."""
    cdef _Reader viewed = <_Reader> source.viewed
    cdef const uint8_t[::1] view
    try:
        view = viewed.source.view(at, wanted)
        source.held = min(wanted, <int64_t> view.shape[0])
        if source.held:
            memcpy(source.data, &view[0], <size_t> source.held)
    except BaseException as failure:
        viewed.failure = failure
        source.held = 0
    if source.held < wanted:
        source.end = at + source.held


cdef void refill(Source* source, int64_t at, int64_t wanted) noexcept nogil:
    """Read `wanted` bytes of the file from `at`; a file that has become shorter ends where its bytes do."""
    cdef int64_t got
    source.base = at
    source.held = 0
    wanted = min(wanted, source.end - at)
    if source.viewed != NULL:
        copy_view(source, at, wanted)
        return
    got = read_at(source.fd, source.data, wanted, at)
    if got < 0:
        source.error = <int> -got
    else:
        source.held = got
    if got < wanted:
        source.end = at + source.held


cdef inline bint in_memory(const Source* source) noexcept nogil:
    return source.fd < 0 and source.viewed == NULL


cdef inline const uint8_t* peek(Source* source, int64_t at, int64_t length, int64_t read_ahead) noexcept nogil:
    """Where bytes [at, at + length) lie in memory, after reading at least them; NULL where the file has lost them."""
    if at < source.base or at + length > source.base + source.held:
        if in_memory(source):
            return NULL
        refill(source, at, max(length, read_ahead))
        if length > source.held:
            return NULL
    return source.data + (at - source.base)


cdef bint all_zero(Source* source, int64_t at) noexcept nogil:
    cdef const uint8_t* place
    cdef int64_t length
    cdef int64_t i
    while at < source.end:
        if source.fd >= 0:
            # A preallocated tail is a hole, gigabytes perhaps: the file system knows that without reading it.
            at = kafkalog_data_from(source.fd, at, source.end)
            if at == source.end:
                return True
        length = min(source.window, source.end - at)
        place = peek(source, at, length, 0)
        if place == NULL:
            return True
        for i in range(length):
            if place[i] != 0:
                return False
        at += length
    return True


cdef inline void fill_message(const uint8_t* entry, Header* row) noexcept nogil:
    row.checksum = <uint32_t> load_int(entry + MESSAGE_CRC_AT)
    row.attributes = entry[MESSAGE_ATTRIBUTES_AT]
    row.compression_type = row.attributes & CODEC_MASK
    if row.compression_type != 0:
        row.base_offset = -1
    if row.magic == 1:
        row.timestamp_type = (row.attributes & LOG_APPEND_TIME_BIT) != 0
        row.max_timestamp = load_long(entry + MESSAGE_TIMESTAMP_AT)


cdef inline void fill_batch(const uint8_t* entry, Header* row) noexcept nogil:
    row.partition_leader_epoch = load_int(entry + BATCH_LEADER_EPOCH_AT)
    row.checksum = <uint32_t> load_int(entry + BATCH_CRC_AT)
    row.attributes = load_short(entry + BATCH_ATTRIBUTES_AT)
    row.compression_type = row.attributes & CODEC_MASK
    row.timestamp_type = (row.attributes & LOG_APPEND_TIME_BIT) != 0
    # As Java's arithmetic: wraps around.
    row.last_offset = <int64_t> (<uint64_t> row.base_offset
                                 + <uint64_t> <int64_t> load_int(entry + BATCH_LAST_OFFSET_DELTA_AT))
    row.base_timestamp = load_long(entry + BATCH_BASE_TIMESTAMP_AT)
    row.max_timestamp = load_long(entry + BATCH_MAX_TIMESTAMP_AT)
    row.producer_id = load_long(entry + BATCH_PRODUCER_ID_AT)
    row.producer_epoch = load_short(entry + BATCH_PRODUCER_EPOCH_AT)
    row.base_sequence = load_int(entry + BATCH_BASE_SEQUENCE_AT)
    row.records_count = load_int(entry + BATCH_RECORDS_COUNT_AT)


cdef inline void fill_row(const uint8_t* entry, int64_t position, int64_t size, Header* row) noexcept nogil:
    memset(row, 0, sizeof(Header))
    row.position = position
    row.base_offset = load_long(entry)
    row.last_offset = row.base_offset
    row.base_timestamp = row.max_timestamp = row.producer_id = -1
    row.size_in_bytes = <int32_t> size
    row.partition_leader_epoch = row.base_sequence = row.records_count = -1
    row.producer_epoch = -1
    row.timestamp_type = -1
    row.magic = <int8_t> entry[MAGIC_AT]
    if row.magic < 2:
        fill_message(entry, row)
    elif size >= RECORD_BATCH_OVERHEAD:
        fill_batch(entry, row)


cdef inline int64_t bytes_to_read(const Source* source, const Scan* scan) noexcept nogil:
    """Entries mostly resemble the one before.

    Beside a large one only its header is read, small ones come by the window.
    """
    if scan.last_size == 0:
        return FIRST_PEEK_BYTES
    return PEEK_BYTES if scan.last_size >= LARGE_ENTRY_BYTES else source.window


cdef const uint8_t* stop(Scan* scan, int status, int64_t expected, int64_t found) noexcept nogil:
    scan.status = status
    scan.expected = expected
    scan.found = found
    return NULL


cdef const uint8_t* entry_at(Source* source, bint strict_magic, int64_t max_size, Scan* scan) noexcept nogil:
    """The header bytes of the whole entry at scan.at, or NULL where none begins; the reason is then in `scan`."""
    cdef int64_t left = source.end - scan.at
    cdef const uint8_t* entry = NULL
    cdef int64_t size
    if left > 0:
        entry = peek(source, scan.at, min(left, RECORD_BATCH_OVERHEAD), bytes_to_read(source, scan))
        left = source.end - scan.at
    if left <= 0:
        return stop(scan, AT_END, 0, 0)
    if left < HEADER_SIZE_UP_TO_MAGIC:
        if all_zero(source, scan.at):
            return stop(scan, AT_ZEROES, 0, 0)
        if strict_magic and left >= LOG_OVERHEAD:
            size = load_int(entry + SIZE_AT)
            if size < RECORD_OVERHEAD_V0:
                return stop(scan, AT_SMALL_SIZE, RECORD_OVERHEAD_V0, size)
            if 0 <= max_size < size:
                return stop(scan, AT_LARGE_SIZE, max_size, size)
        return stop(scan, AT_TORN_ENTRY, HEADER_SIZE_UP_TO_MAGIC, left)
    if entry == NULL:  # the file shrank to between 17 and 61 bytes from here while being read
        entry = peek(source, scan.at, left, 0)
        if entry == NULL:
            return stop(scan, AT_END, 0, 0)
    size = load_int(entry + SIZE_AT)
    if size < RECORD_OVERHEAD_V0:
        if size == 0 and load_long(entry) == 0 and all_zero(source, scan.at):
            return stop(scan, AT_ZEROES, 0, 0)
        return stop(scan, AT_SMALL_SIZE, RECORD_OVERHEAD_V0, size)
    if strict_magic and not 0 <= <int8_t> entry[MAGIC_AT] <= 2:
        return stop(scan, AT_BAD_MAGIC, 2, <int8_t> entry[MAGIC_AT])
    if 0 <= max_size < size:
        return stop(scan, AT_LARGE_SIZE, max_size, size)
    if LOG_OVERHEAD + size > left:
        return stop(scan, AT_TORN_ENTRY, LOG_OVERHEAD + size, left)
    if LOG_OVERHEAD + size > INT32_MAX:
        return stop(scan, AT_LARGE_SIZE, INT32_MAX - LOG_OVERHEAD, size)
    scan.last_size = LOG_OVERHEAD + size
    return entry


cdef void scan_entries(Source* source, int64_t position, bint strict_magic, int64_t max_size, int64_t until,
                       Header* rows, Py_ssize_t room, Scan* scan) noexcept nogil:
    """Fill `rows` until they are full, `scan.at` has reached `until`, or no whole entry follows."""
    cdef const uint8_t* entry
    while scan.rows < room and scan.at < until:
        entry = entry_at(source, strict_magic, max_size, scan)
        if entry == NULL:
            return
        fill_row(entry, position + scan.at, scan.last_size, &rows[scan.rows])
        scan.rows += 1
        scan.at += scan.last_size
    stop(scan, AT_LIMIT, 0, 0)


cdef Py_ssize_t rows_wanted(Py_ssize_t read, Py_ssize_t likely, int64_t left, Py_ssize_t limit):
    """How many rows to make room for: as asked, no more than the bytes left can hold, doubling from 512 or `likely`."""
    cdef Py_ssize_t most = <Py_ssize_t> (left // (LOG_OVERHEAD + RECORD_OVERHEAD_V0)) + 1
    cdef Py_ssize_t wanted = min(most, max(512, likely, read))
    return wanted if limit < 0 else min(wanted, limit - read)


cdef Py_ssize_t rows_likely(const Source* source, int64_t start):
    """How many entries there are in memory if all are as large as the first: a table that has to grow is copied."""
    cdef int64_t left = source.end - start
    cdef int64_t size
    if not in_memory(source) or left < LOG_OVERHEAD:
        return 0
    size = LOG_OVERHEAD + max(<int64_t> RECORD_OVERHEAD_V0, <int64_t> load_int(source.data + start + SIZE_AT))
    return <Py_ssize_t> min(left // size + left // (8 * size) + 1, <int64_t> LIKELY_ROWS)


cdef object scan_all(Source* source, int64_t position, int64_t start, Py_ssize_t limit, bint strict_magic,
                     int64_t max_size, int64_t span):
    cdef Scan scan
    cdef Memory memory
    cdef Py_ssize_t wanted
    cdef Py_ssize_t read = 0
    cdef Py_ssize_t likely = rows_likely(source, start)
    cdef int64_t until = INT64_MAX if span < 0 or span > INT64_MAX - start else start + span
    cdef list parts = []
    scan.at = start
    scan.last_size = 0
    while True:
        wanted = rows_wanted(read, likely, source.end - scan.at, limit)
        memory = <Memory?> Block(wanted * sizeof(Header))
        rows = np.ndarray(wanted, HEADER_DTYPE, memory)
        scan.rows = 0
        with nogil:
            scan_entries(source, position, strict_magic, max_size, until, <Header*> memory.memory, wanted, &scan)
        read += scan.rows
        parts.append(rows[:scan.rows])
        if scan.status != AT_LIMIT or scan.at >= until or read == limit:
            break
    return (parts[0] if len(parts) == 1 else joined(parts)), scan.status, scan.at, scan.expected, scan.found


cdef object joined(list parts):
    """One after the other; as bytes: numpy would compare the types of all fields, for each part anew."""
    return np.concatenate([each.view(f"V{sizeof(Header)}") for each in parts]).view(HEADER_DTYPE)


def scan_headers(const uint8_t[::1] buffer not None, int64_t position=0, int64_t start=0, Py_ssize_t limit=-1,
                 bint strict_magic=False, int64_t max_size=-1, int64_t span=-1):
    """Rows of `HEADER_DTYPE` for the whole entries of buffer[start:], and where and why the walk ended.

    `position` is the file position of buffer[0]. The walk ends (LIMIT) after `limit` rows or once it has covered
    `span` bytes (-1: neither). Returns (rows, status, at, expected, found), `at` an index in `buffer`. The GIL is
    released. ValueError: start outside the buffer.
    """
    cdef Source source
    source.end = source.held = buffer.shape[0]
    source.data = <uint8_t*> &buffer[0] if buffer.shape[0] else NULL
    source.base = 0
    source.window = WINDOW_BYTES
    source.fd = -1
    source.error = 0
    source.viewed = NULL
    if start < 0 or start > source.end:
        raise ValueError(f"start {start} is outside the buffer of {source.end} bytes")
    return scan_all(&source, position, start, limit, strict_magic, max_size, span)


cdef _Reader open_source(Source* source, object file):
    """Let `source` read from a descriptor or a `ByteSource`. The caller keeps what is returned, which may be None."""
    cdef _Reader viewed
    source.base = source.held = 0
    source.error = 0
    if isinstance(file, int):
        source.fd = file
        source.viewed = NULL
        return None
    viewed = _Reader.__new__(_Reader)
    viewed.source = file
    source.fd = -1
    source.viewed = <PyObject*> viewed
    return viewed


cdef int check(const Source* source, _Reader viewed) except -1:
    """Raise the error with which reading ended, if it did."""
    if source.error:
        raise OSError(source.error, strerror(source.error))
    if viewed is not None and viewed.failure is not None:
        raise viewed.failure
    return 0


def scan_file_headers(object file, int64_t start, int64_t end, Py_ssize_t limit=-1, int64_t span=-1,
                      int64_t max_size=-1):
    """As `scan_headers`, over bytes [start, end) of an open file, reading little more than the headers.

    file: a descriptor, or a `ByteSource`, of which views are taken. Positions are file positions. A file that ends
    before `end`, or shrinks meanwhile, ends where its bytes do. The GIL is released but for taking views. ValueError:
    start or end negative, or start > end; OSError: the file cannot be read; whatever the `ByteSource` raises.
    """
    cdef Source source
    cdef _Reader viewed
    cdef bytes window
    if not 0 <= start <= end:
        raise ValueError(f"[{start}, {end}) is not a range of a file")
    window = PyBytes_FromStringAndSize(NULL, WINDOW_BYTES)  # not shared with anyone, so it may be written to
    viewed = open_source(&source, file)
    source.data = <uint8_t*> PyBytes_AS_STRING(window)
    source.end = end
    source.window = WINDOW_BYTES
    found = scan_all(&source, 0, start, limit, False, max_size, span)
    check(&source, viewed)
    return found


cdef inline int64_t beginning(const Header* row) noexcept nogil:
    """The base offset; of messages and wrappers the last offset, which is known."""
    return row.last_offset if row.magic < 2 else row.base_offset


cdef inline bint begins_at_most(const Header* row, int64_t hint) noexcept nogil:
    """Whether a known format begins here, no later than `hint`."""
    return 0 <= row.magic <= 2 and 0 <= beginning(row) <= hint


cdef bint next_begins_after(Source* source, int64_t offset, Scan ahead) noexcept nogil:
    """Whether the entry behind that at ahead.at begins after `offset`; also where there is none."""
    cdef const uint8_t* entry
    cdef Header row
    ahead.at += ahead.last_size
    entry = entry_at(source, False, -1, &ahead)
    if entry == NULL:
        return True
    fill_row(entry, ahead.at, ahead.last_size, &row)
    return beginning(&row) > offset


cdef inline bint holds(Source* source, const Header* row, int64_t offset, const Scan* scan) noexcept nogil:
    """Whether a search for an offset ends at this entry.

    What begins before the offset claims by its last offset to hold it, as damage may; what follows belies that.
    """
    if beginning(row) >= offset:
        return True
    return row.last_offset >= offset and next_begins_after(source, offset, scan[0])


cdef bint find_entry(Source* source, int64_t offset, int64_t timestamp, int64_t hint, Header* row,
                     Scan* scan) noexcept nogil:
    """Walk from scan.at to the first entry that reaches both; False where none does or the first one belies `hint`."""
    cdef const uint8_t* entry
    cdef bint first = hint >= 0
    while True:
        entry = entry_at(source, False, -1, scan)
        if entry == NULL:
            return False
        fill_row(entry, scan.at, scan.last_size, row)
        if first and not begins_at_most(row, hint):
            stop(scan, AT_LIMIT, 0, 0)
            return False
        if (holds(source, row, offset, scan) if timestamp == INT64_MIN else
                row.last_offset >= offset and row.max_timestamp >= timestamp):
            stop(scan, AT_LIMIT, 0, 0)
            return True
        first = False
        scan.at += scan.last_size


cdef struct Search:
    int64_t start
    int64_t end
    int64_t offset
    int64_t timestamp
    int64_t hint


cdef bint search_file(object file, const Search* search, Header* row, Scan* scan) except -1:
    """As `find_entry`, in a file."""
    cdef Source source
    cdef _Reader viewed
    cdef bint reached
    cdef uint8_t[SEARCH_WINDOW_BYTES] window
    if not 0 <= search.start <= search.end:
        raise ValueError(f"[{search.start}, {search.end}) is not a range of a file")
    viewed = open_source(&source, file)
    source.data = window
    source.end = search.end
    source.window = SEARCH_WINDOW_BYTES
    scan.at = search.start
    scan.last_size = scan.rows = 0
    with nogil:
        reached = find_entry(&source, search.offset, search.timestamp, search.hint, row, scan)
    check(&source, viewed)
    return reached


def find_file_entry(object file, int64_t start, int64_t end, int64_t offset, int64_t timestamp=INT64_MIN,
                    int64_t hint=-1):
    """The first entry in bytes [start, end) of an open file whose last offset and largest timestamp reach both figures.

    Of the offset alone (timestamp INT64_MIN) the one that holds it, or the first that begins after it: one that begins
    before it, and is followed by another that begins no later than it, does not hold it, whatever its last offset is.

    Returns (row, status, at, expected, found): row is (position, size, base offset, last offset, largest timestamp,
    magic), the base offset -1 for a wrapper; or None where the walk ended before, as in `scan_file_headers`. hint: the
    entry at `start` begins at this offset or before (-1: not asked); where it does not, LIMIT at `start`.
    file, errors: as `scan_file_headers`.
    """
    cdef Search search = Search(start, end, offset, timestamp, hint)
    cdef Scan scan
    cdef Header row
    if not search_file(file, &search, &row, &scan):
        return None, scan.status, scan.at, scan.expected, scan.found
    fields = row.position, row.size_in_bytes, row.base_offset, row.last_offset, row.max_timestamp, row.magic
    return fields, scan.status, scan.at, scan.expected, scan.found


def load_file_entry(object file, int64_t start, int64_t end, int64_t offset, int64_t timestamp=INT64_MIN,
                    int64_t hint=-1):
    """The same entry, whole: its row of the header table, and its bytes, which are read after its header.

    Returns (entry, status, at, expected, found): entry is (one row of `HEADER_DTYPE`, a read-only memoryview of the
    bytes, position, size), with fewer bytes than its size where the file has just become shorter; or None where there
    is no such entry. file, errors: as `scan_file_headers`.
    """
    cdef Search search = Search(start, end, offset, timestamp, hint)
    cdef Scan scan
    cdef Header row
    cdef Source source
    cdef _Reader viewed
    cdef Memory table, data
    if not search_file(file, &search, &row, &scan):
        return None, scan.status, scan.at, scan.expected, scan.found
    table = <Memory?> Block(sizeof(Header))
    data = <Memory?> Block(row.size_in_bytes)
    viewed = open_source(&source, file)
    source.data = <uint8_t*> data.memory
    source.end = scan.at + row.size_in_bytes
    with nogil:
        refill(&source, scan.at, row.size_in_bytes)
    check(&source, viewed)
    (<Header*> table.memory)[0] = row
    view = PyMemoryView_FromObject(data)[:source.held].toreadonly()
    entry = np.ndarray(1, HEADER_DTYPE, table), view, row.position, row.size_in_bytes
    return entry, scan.status, scan.at, scan.expected, scan.found
