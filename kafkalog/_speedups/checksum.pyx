"""The checksums of many entries in one typed loop.

CRC-32C for v2 (byte 21 to the end), CRC-32 for v0/v1 (byte 16 to the end).

To call the library takes longer than the checksum of a small batch: these are done here, eight bytes an instruction,
where the processor has one for it. Several instructions at once, as the library does it, pay only for larger ones.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t

from kafkalog._speedups.layout cimport (
    BATCH_CRC_FROM,
    CONTROL_BIT,
    LOG_OVERHEAD,
    MESSAGE_CRC_FROM,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    Header,
)
from kafkalog._speedups.header_table cimport Rows, is_readable, open_rows

from crc32c import crc32c

try:
    from isal.isal_zlib import crc32  # twelve times the speed of zlib's
except ImportError:  # a platform isal has no wheel for
    from zlib import crc32

cdef extern from "Python.h":
    enum:
        PyBUF_READ

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    static int has_crc32c_instruction(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2") != 0;
    }
    __attribute__((target("sse4.2")))
    static uint32_t crc32c_by_instruction(const uint8_t *data, size_t length) {
        uint64_t crc = 0xFFFFFFFFu;
        uint64_t word;
        for (; length >= sizeof word; data += sizeof word, length -= sizeof word) {
            memcpy(&word, data, sizeof word);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; length > 0; data++, length--) {
            crc = __builtin_ia32_crc32qi((uint32_t) crc, *data);
        }
        return ~(uint32_t) crc;
    }
    #else
    static int has_crc32c_instruction(void) { return 0; }
    static uint32_t crc32c_by_instruction(const uint8_t *data, size_t length) { (void) data; return (uint32_t) length; }
    #endif
    """
    bint has_crc32c_instruction() noexcept nogil
    uint32_t crc32c_by_instruction(const uint8_t* data, size_t length) noexcept nogil

cdef enum:
    SMALL_BYTES = 2048

# Batches take some microseconds at most: less than it takes to get the GIL back while other threads run.
cdef object HOLD_GIL = 0
# Up to so many bytes are summed up here.
cdef int64_t summed_here = SMALL_BYTES if has_crc32c_instruction() else 0


cdef uint32_t checksum_of(const Header* row, const uint8_t* entry, int64_t size) except? 0:
    """What the checksum of an entry ought to be, which is long enough to have one."""
    cdef int64_t covered
    if row.magic >= 2:
        covered = BATCH_CRC_FROM
        if size - covered <= summed_here:
            return crc32c_by_instruction(entry + covered, <size_t> (size - covered))
        return crc32c(PyMemoryView_FromMemory(<char*> entry + covered, size - covered, PyBUF_READ), 0, HOLD_GIL)
    covered = MESSAGE_CRC_FROM
    return crc32(PyMemoryView_FromMemory(<char*> entry + covered, size - covered, PyBUF_READ))


cdef bint holds(const Header* row, const uint8_t[::1] buffer, int64_t position, uint32_t* computed) except -1:
    """Whether the stored checksum of a row is that of its bytes."""
    cdef int64_t start = row.position - position
    cdef int64_t size = row.size_in_bytes
    computed[0] = 0
    if start < 0 or size < 0 or size > buffer.shape[0] - start:
        raise ValueError(f"an entry at {start}, {size} bytes, is outside the buffer of {buffer.shape[0]} bytes")
    if size < (RECORD_BATCH_OVERHEAD if row.magic >= 2 else LOG_OVERHEAD + RECORD_OVERHEAD_V0):
        return False
    computed[0] = checksum_of(row, &buffer[start], size)
    return computed[0] == row.checksum


def first_invalid(const uint8_t[::1] buffer not None, rows, int64_t position=0):
    """The first of `rows` (HEADER_DTYPE) whose stored checksum is not that of its bytes, and the one found.

    The row's entry is buffer[row.position - position:][:row.size_in_bytes]. Returns (index, computed), or (len(rows),
    0) where all hold. An entry too short for its header counts as invalid, computed 0. ValueError: an entry outside
    the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Py_ssize_t i
    cdef uint32_t computed
    for i in range(table.count):
        if not holds(&table.at[i], buffer, position, &computed):
            return i, computed
    return table.count, 0


def first_unsound(const uint8_t[::1] buffer not None, rows, int64_t position, bint check_crcs):
    """The first of `rows` that `first_unreadable` or, if asked, `first_invalid` finds; and what those before it are.

    Returns (index, computed, any compressed, any control batch), computed as `first_invalid`, 0 for one that is
    unreadable. ValueError: an entry outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef uint32_t computed = 0
    cdef bint compressed = False
    cdef bint control = False
    cdef Py_ssize_t i
    for i in range(table.count):
        if not is_readable(&table.at[i]):
            return i, 0, compressed, control
        if check_crcs and not holds(&table.at[i], buffer, position, &computed):
            return i, computed, compressed, control
        compressed |= table.at[i].compression_type != 0
        control |= table.at[i].magic >= 2 and (table.at[i].attributes & CONTROL_BIT) != 0
    return table.count, 0, compressed, control
