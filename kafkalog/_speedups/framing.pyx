"""Framing: finding the entries of a log by their size fields, and reading their headers into a structured array.

    offset int64 | size int32 | ... magic int8 at 16 ...      size counts the bytes after itself

Only headers are read: a scan of a 1 GiB segment of 64 KB batches reads about 16,000 cache lines. In Kafka,
`FileLogInputStream` does this (it does not check magic), and `ByteBufferLogInputStream` (as with `strict_magic`).
DESIGN.md, "The kernel contract", defines the statuses and the order of the checks.
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
    /* Return the position of the first data at or after `at`: `end` if only a hole is left, `at` if the file system
       cannot tell. */
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


# The bytes that are read from a file at a time: PEEK_BYTES, enough for a header, if entries are large; else a window.
cdef enum:
    WINDOW_BYTES = 65536
    LARGE_ENTRY_BYTES = 8192
    PEEK_BYTES = 64
    FIRST_PEEK_BYTES = 1024
    # The window of a search. Most searches read no more than the interval between two index entries, 4 KiB.
    SEARCH_WINDOW_BYTES = 4096
    # The most rows that are allocated because of the size of the first entry.
    MAX_INITIAL_ROWS = 16384


# The bytes to scan: a buffer (fd < 0 and reader NULL), a local file (fd >= 0), or a `ByteSource` (reader not NULL). The
# bytes [base, base + loaded) are in memory at `data`, and the source ends at `end`. For a file and a `ByteSource`,
# `data` has space for `window` bytes, and `refill` reads further bytes.
cdef struct Source:
    uint8_t* data
    int64_t base
    int64_t loaded
    int64_t end
    int64_t window
    int fd
    int error
    PyObject* reader


@cython.final
cdef class _Reader:
    """A `ByteSource` that is scanned, and the exception that reading it has raised."""
    cdef object source
    cdef object failure


# The state of a scan: the position of the next entry, the size of the last one, the number of rows, and, once it has
# stopped, the status with its two numbers.
cdef struct Scan:
    int64_t at
    int64_t expected
    int64_t found
    int64_t last_size
    Py_ssize_t rows
    int status


cdef void copy_view(Source* source, int64_t at, int64_t wanted) noexcept with gil:
    """Do what `refill` does, for a `_Reader`. An exception is kept in the `_Reader`; the source then ends at `at`."""
    cdef _Reader reader = <_Reader> source.reader
    cdef const uint8_t[::1] view
    try:
        view = reader.source.view(at, wanted)
        source.loaded = min(wanted, <int64_t> view.shape[0])
        if source.loaded:
            memcpy(source.data, &view[0], <size_t> source.loaded)
    except BaseException as failure:
        reader.failure = failure
        source.loaded = 0
    if source.loaded < wanted:
        source.end = at + source.loaded


cdef void refill(Source* source, int64_t at, int64_t wanted) noexcept nogil:
    """Read `wanted` bytes at position `at`. If fewer are there, because the file has become shorter, change `end`."""
    cdef int64_t got
    source.base = at
    source.loaded = 0
    wanted = min(wanted, source.end - at)
    if source.reader != NULL:
        copy_view(source, at, wanted)
        return
    got = read_at(source.fd, source.data, wanted, at)
    if got < 0:
        source.error = <int> -got
    else:
        source.loaded = got
    if got < wanted:
        source.end = at + source.loaded


cdef inline bint in_memory(const Source* source) noexcept nogil:
    """Return whether the source is a buffer."""
    return source.fd < 0 and source.reader == NULL


cdef inline const uint8_t* peek(Source* source, int64_t at, int64_t length, int64_t read_ahead) noexcept nogil:
    """Return the address of bytes [at, at + length), reading them if needed; NULL if they are no longer in the file."""
    if at < source.base or at + length > source.base + source.loaded:
        if in_memory(source):
            return NULL
        refill(source, at, max(length, read_ahead))
        if length > source.loaded:
            return NULL
    return source.data + (at - source.base)


cdef bint all_zero(Source* source, int64_t at) noexcept nogil:
    """Return whether all bytes from `at` to the end are zero."""
    cdef const uint8_t* place
    cdef int64_t length
    cdef int64_t i
    while at < source.end:
        if source.fd >= 0:
            # A preallocated tail is a hole, which may be large. The file system finds its end without reading it.
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
    """Set the fields of a row that are specific to v0/v1."""
    row.checksum = <uint32_t> load_int(entry + MESSAGE_CRC_AT)
    row.attributes = entry[MESSAGE_ATTRIBUTES_AT]
    row.compression_type = row.attributes & CODEC_MASK
    if row.compression_type != 0:
        row.base_offset = -1
    if row.magic == 1:
        row.timestamp_type = (row.attributes & LOG_APPEND_TIME_BIT) != 0
        row.max_timestamp = load_long(entry + MESSAGE_TIMESTAMP_AT)


cdef inline void fill_batch(const uint8_t* entry, Header* row) noexcept nogil:
    """Set the fields of a row that are specific to v2."""
    row.partition_leader_epoch = load_int(entry + BATCH_LEADER_EPOCH_AT)
    row.checksum = <uint32_t> load_int(entry + BATCH_CRC_AT)
    row.attributes = load_short(entry + BATCH_ATTRIBUTES_AT)
    row.compression_type = row.attributes & CODEC_MASK
    row.timestamp_type = (row.attributes & LOG_APPEND_TIME_BIT) != 0
    # Unsigned: Java's addition wraps around.
    row.last_offset = <int64_t> (<uint64_t> row.base_offset
                                 + <uint64_t> <int64_t> load_int(entry + BATCH_LAST_OFFSET_DELTA_AT))
    row.base_timestamp = load_long(entry + BATCH_BASE_TIMESTAMP_AT)
    row.max_timestamp = load_long(entry + BATCH_MAX_TIMESTAMP_AT)
    row.producer_id = load_long(entry + BATCH_PRODUCER_ID_AT)
    row.producer_epoch = load_short(entry + BATCH_PRODUCER_EPOCH_AT)
    row.base_sequence = load_int(entry + BATCH_BASE_SEQUENCE_AT)
    row.records_count = load_int(entry + BATCH_RECORDS_COUNT_AT)


cdef inline void fill_row(const uint8_t* entry, int64_t position, int64_t size, Header* row) noexcept nogil:
    """Set all fields of a row from the header of an entry of `size` bytes."""
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
    """Return the number of bytes to read for the next header: a window, or one header if the last entry was large.

    Most entries are about as large as the one before.
    """
    if scan.last_size == 0:
        return FIRST_PEEK_BYTES
    return PEEK_BYTES if scan.last_size >= LARGE_ENTRY_BYTES else source.window


cdef const uint8_t* stop(Scan* scan, int status, int64_t expected, int64_t found) noexcept nogil:
    """Set the status of a scan. Return NULL, the result of `entry_at` in this case."""
    scan.status = status
    scan.expected = expected
    scan.found = found
    return NULL


cdef const uint8_t* entry_at(Source* source, bint strict_magic, int64_t max_size, Scan* scan) noexcept nogil:
    """Return the address of the header of the complete entry at `scan.at`. If there is none, call `stop`."""
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
    if entry == NULL:  # the file was truncated during the scan, to 17 to 60 bytes after `scan.at`
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
                       Header* rows, Py_ssize_t capacity, Scan* scan) noexcept nogil:
    """Append rows until there are `capacity`, `scan.at` reaches `until`, or no complete entry follows."""
    cdef const uint8_t* entry
    while scan.rows < capacity and scan.at < until:
        entry = entry_at(source, strict_magic, max_size, scan)
        if entry == NULL:
            return
        fill_row(entry, position + scan.at, scan.last_size, &rows[scan.rows])
        scan.rows += 1
        scan.at += scan.last_size
    stop(scan, AT_LIMIT, 0, 0)


cdef Py_ssize_t rows_wanted(Py_ssize_t read, Py_ssize_t likely, int64_t left, Py_ssize_t limit):
    """Return the number of rows to allocate: `read`, so that the table doubles, but at least 512 or `likely`.

    The number is at most that of the entries that `left` bytes can contain, and at most what is left of `limit`.
    """
    cdef Py_ssize_t most = <Py_ssize_t> (left // (LOG_OVERHEAD + RECORD_OVERHEAD_V0)) + 1
    cdef Py_ssize_t wanted = min(most, max(512, likely, read))
    return wanted if limit < 0 else min(wanted, limit - read)


cdef Py_ssize_t rows_likely(const Source* source, int64_t start):
    """Estimate the number of entries in a buffer from the size of the first one; return 0 for a file.

    With a good estimate the table need not grow, which copies it.
    """
    cdef int64_t left = source.end - start
    cdef int64_t size
    if not in_memory(source) or left < LOG_OVERHEAD:
        return 0
    size = LOG_OVERHEAD + max(<int64_t> RECORD_OVERHEAD_V0, <int64_t> load_int(source.data + start + SIZE_AT))
    return <Py_ssize_t> min(left // size + left // (8 * size) + 1, <int64_t> MAX_INITIAL_ROWS)


cdef object scan_all(Source* source, int64_t position, int64_t start, Py_ssize_t limit, bint strict_magic,
                     int64_t max_size, int64_t span):
    """Scan a source from `start` on. Return what `scan_headers` returns."""
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
    """Concatenate tables, as plain bytes: numpy would compare the types of all fields for each table."""
    return np.concatenate([each.view(f"V{sizeof(Header)}") for each in parts]).view(HEADER_DTYPE)


def scan_headers(const uint8_t[::1] buffer not None, int64_t position=0, int64_t start=0, Py_ssize_t limit=-1,
                 bint strict_magic=False, int64_t max_size=-1, int64_t span=-1):
    """Scan the complete entries of buffer[start:] by their headers.

    The GIL is released.

    Args:
        buffer: The bytes of the log.
        position: The file position of buffer[0].
        start: The index in `buffer` of the first entry.
        limit: The maximum number of rows; -1: no limit.
        strict_magic: Whether to stop at an entry whose magic is not 0, 1 or 2, as Kafka does in memory.
        max_size: The maximum value of a size field; -1: no limit.
        span: Stop when this number of bytes has been scanned; -1: no limit.

    Returns:
        (rows, status, at, expected, found):

        - rows: One row per entry, `HEADER_DTYPE`, shape (n,).
        - status: Why the scan stopped: LIMIT, END, ZEROED, TORN, SIZE_TOO_SMALL, BAD_MAGIC or SIZE_TOO_LARGE.
        - at: The index in `buffer` where it stopped.
        - expected, found: Two numbers whose meaning depends on the status: a size or magic that was expected, and the
          one found. DESIGN.md lists them.

    Raises:
        ValueError: `start` is outside the buffer.
    """
    cdef Source source
    source.end = source.loaded = buffer.shape[0]
    source.data = <uint8_t*> &buffer[0] if buffer.shape[0] else NULL
    source.base = 0
    source.window = WINDOW_BYTES
    source.fd = -1
    source.error = 0
    source.reader = NULL
    if start < 0 or start > source.end:
        raise ValueError(f"start {start} is outside the buffer of {source.end} bytes")
    return scan_all(&source, position, start, limit, strict_magic, max_size, span)


cdef _Reader open_source(Source* source, object file):
    """Set a source to a file descriptor or a `ByteSource`. Return the `_Reader`, which the caller must keep."""
    cdef _Reader reader
    source.base = source.loaded = 0
    source.error = 0
    if isinstance(file, int):
        source.fd = file
        source.reader = NULL
        return None
    reader = _Reader.__new__(_Reader)
    reader.source = file
    source.fd = -1
    source.reader = <PyObject*> reader
    return reader


cdef int check(const Source* source, _Reader reader) except -1:
    """Raise the error that reading the source has caused, if any."""
    if source.error:
        raise OSError(source.error, strerror(source.error))
    if reader is not None and reader.failure is not None:
        raise reader.failure
    return 0


def scan_file_headers(object file, int64_t start, int64_t end, Py_ssize_t limit=-1, int64_t span=-1,
                      int64_t max_size=-1):
    """Scan the complete entries in bytes [start, end) of an open file by their headers.

    Little more than the headers is read. If the file ends before `end`, or becomes shorter during the scan, its last
    byte ends the scan. The GIL is released, except while `ByteSource.view` is called.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: The file position of the first entry.
        end: The file position after the last byte to scan.
        limit: See `scan_headers`.
        span: See `scan_headers`.
        max_size: See `scan_headers`.

    Returns:
        (rows, status, at, expected, found), see `scan_headers`; `at` is a file position.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
    """
    cdef Source source
    cdef _Reader reader
    cdef bytes window
    if not 0 <= start <= end:
        raise ValueError(f"[{start}, {end}) is not a range of a file")
    window = PyBytes_FromStringAndSize(NULL, WINDOW_BYTES)  # there is no other reference, so writing to it is safe
    reader = open_source(&source, file)
    source.data = <uint8_t*> PyBytes_AS_STRING(window)
    source.end = end
    source.window = WINDOW_BYTES
    found = scan_all(&source, 0, start, limit, False, max_size, span)
    check(&source, reader)
    return found


cdef inline int64_t first_offset(const Header* row) noexcept nogil:
    """Return the base offset, or for v0/v1 the last offset, because a wrapper's header has no other."""
    return row.last_offset if row.magic < 2 else row.base_offset


cdef inline bint confirms(const Header* row, int64_t hint) noexcept nogil:
    """Return whether the entry has a known magic and begins at an offset in 0..hint."""
    return 0 <= row.magic <= 2 and 0 <= first_offset(row) <= hint


cdef bint next_begins_after(Source* source, int64_t offset, Scan scan) noexcept nogil:
    """Return whether the entry after the one at `scan.at` begins after `offset`, or does not exist.

    `scan` is a copy, so that the scan of the caller stays where it is.
    """
    cdef const uint8_t* entry
    cdef Header row
    scan.at += scan.last_size
    entry = entry_at(source, False, -1, &scan)
    if entry == NULL:
        return True
    fill_row(entry, scan.at, scan.last_size, &row)
    return first_offset(&row) > offset


cdef inline bint ends_search(Source* source, const Header* row, int64_t offset, const Scan* scan) noexcept nogil:
    """Return whether the search for an offset ends at this entry.

    The last offset of a damaged entry may be too large. Therefore, for an entry that begins before `offset`, the next
    entry must begin after `offset`.
    """
    if first_offset(row) >= offset:
        return True
    return row.last_offset >= offset and next_begins_after(source, offset, scan[0])


cdef bint find_entry(Source* source, int64_t offset, int64_t timestamp, int64_t hint, Header* row,
                     Scan* scan) noexcept nogil:
    """Scan from `scan.at` to the entry that `find_file_entry` describes. Return whether there is one."""
    cdef const uint8_t* entry
    cdef bint first = hint >= 0
    while True:
        entry = entry_at(source, False, -1, scan)
        if entry == NULL:
            return False
        fill_row(entry, scan.at, scan.last_size, row)
        if first and not confirms(row, hint):
            stop(scan, AT_LIMIT, 0, 0)
            return False
        if (ends_search(source, row, offset, scan) if timestamp == INT64_MIN else
                row.last_offset >= offset and row.max_timestamp >= timestamp):
            stop(scan, AT_LIMIT, 0, 0)
            return True
        first = False
        scan.at += scan.last_size


# The arguments of `find_file_entry`.
cdef struct Search:
    int64_t start
    int64_t end
    int64_t offset
    int64_t timestamp
    int64_t hint


cdef bint search_file(object file, const Search* search, Header* row, Scan* scan) except -1:
    """Call `find_entry` for a file, and raise the error that reading it has caused."""
    cdef Source source
    cdef _Reader reader
    cdef bint is_found
    cdef uint8_t[SEARCH_WINDOW_BYTES] window
    if not 0 <= search.start <= search.end:
        raise ValueError(f"[{search.start}, {search.end}) is not a range of a file")
    reader = open_source(&source, file)
    source.data = window
    source.end = search.end
    source.window = SEARCH_WINDOW_BYTES
    scan.at = search.start
    scan.last_size = scan.rows = 0
    with nogil:
        is_found = find_entry(&source, search.offset, search.timestamp, search.hint, row, scan)
    check(&source, reader)
    return is_found


def find_file_entry(object file, int64_t start, int64_t end, int64_t offset, int64_t timestamp=INT64_MIN,
                    int64_t hint=-1):
    """Find the first entry with a last offset and a largest timestamp of at least the given values.

    Bytes [start, end) of an open file are scanned. Without a timestamp, a damaged last offset must not hide the entries
    that follow. So the entry then either begins at `offset` or after it, or has a last offset of at least `offset` and
    is not followed by an entry that begins at `offset` or before it. For an entry of magic 0 or 1, the last offset is
    used as the offset at which it begins. The GIL is released, except while `ByteSource.view` is called.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: The file position of the first entry.
        end: The file position after the last byte to scan.
        offset: The smallest last offset of the entry.
        timestamp: The smallest value of its largest timestamp, ms; -2**63: search for the offset only.
        hint: The largest offset at which the entry at `start` may begin; -1: any. If that entry begins at another
            offset than 0..hint, or its magic is not 0, 1 or 2, the scan stops there with the status LIMIT.

    Returns:
        (row, status, at, expected, found):

        - row: (position, size, base offset, last offset, largest timestamp, magic) of the entry, or None if there is
          none. The base offset of a wrapper is -1.
        - status, at, expected, found: See `scan_file_headers`; the status is LIMIT if an entry was found.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
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
    """Find an entry as `find_file_entry` does, and read its bytes.

    Args:
        file: A file descriptor, or a `ByteSource`.
        start: See `find_file_entry`.
        end: See `find_file_entry`.
        offset: See `find_file_entry`.
        timestamp: See `find_file_entry`.
        hint: See `find_file_entry`.

    Returns:
        (entry, status, at, expected, found):

        - entry: (row, view, position, size), or None if there is none: the row of the entry, `HEADER_DTYPE`, shape
          (1,); a read-only memoryview of its bytes; its file position; its size in bytes. The view is shorter than the
          size if the file has become shorter since the header was read.
        - status, at, expected, found: See `find_file_entry`.

    Raises:
        ValueError: `start` is negative, or greater than `end`.
        OSError: The file cannot be read. An exception of the `ByteSource` is raised as it is.
    """
    cdef Search search = Search(start, end, offset, timestamp, hint)
    cdef Scan scan
    cdef Header row
    cdef Source source
    cdef _Reader reader
    cdef Memory table, data
    if not search_file(file, &search, &row, &scan):
        return None, scan.status, scan.at, scan.expected, scan.found
    table = <Memory?> Block(sizeof(Header))
    data = <Memory?> Block(row.size_in_bytes)
    reader = open_source(&source, file)
    source.data = <uint8_t*> data.memory
    source.end = scan.at + row.size_in_bytes
    with nogil:
        refill(&source, scan.at, row.size_in_bytes)
    check(&source, reader)
    (<Header*> table.memory)[0] = row
    view = PyMemoryView_FromObject(data)[:source.loaded].toreadonly()
    entry = np.ndarray(1, HEADER_DTYPE, table), view, row.position, row.size_in_bytes
    return entry, scan.status, scan.at, scan.expected, scan.found
