"""Checks of the checksums of many entries in one call.

    v2        CRC-32C of byte 21 to the end
    v0, v1    CRC-32 of byte 16 to the end

For a small batch, calling the library takes longer than computing the checksum. So the checksum of a batch of up to
2 KiB is computed here, eight bytes per instruction, if the processor has an instruction for CRC-32C. The library
executes several of these instructions at once, which is faster only for larger batches.
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
    from isal.isal_zlib import crc32  # twelve times as fast as zlib's
except ImportError:  # there is no wheel of isal for this platform
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

# Other threads decompress and parse meanwhile.
cdef object RELEASE_GIL = 1
# The most bytes whose CRC-32C is computed without the library.
cdef int64_t max_inline_bytes = SMALL_BYTES if has_crc32c_instruction() else 0


cdef uint32_t checksum_of(const Header* row, const uint8_t* entry, int64_t size) except? 0:
    """Compute the checksum of the bytes of an entry, which must be long enough to have a checksum field."""
    cdef int64_t covered
    if row.magic >= 2:
        covered = BATCH_CRC_FROM
        if size - covered <= max_inline_bytes:
            return crc32c_by_instruction(entry + covered, <size_t> (size - covered))
        return crc32c(PyMemoryView_FromMemory(<char*> entry + covered, size - covered, PyBUF_READ), 0, RELEASE_GIL)
    covered = MESSAGE_CRC_FROM
    return crc32(PyMemoryView_FromMemory(<char*> entry + covered, size - covered, PyBUF_READ))


cdef bint matches(const Header* row, const uint8_t[::1] buffer, int64_t position, uint32_t* computed) except -1:
    """Return whether the stored checksum of an entry is that of its bytes; set `computed` to the latter."""
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
    """Find the first entry whose stored checksum is not that of its bytes.

    An entry that is too short for the header of its format is invalid, too.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of buffer[0].

    Returns:
        (index, computed): the index of the row, and the checksum of its bytes, 0 for an entry that is too short. If all
        entries are valid, (n, 0).

    Raises:
        ValueError: An entry is outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Py_ssize_t i
    cdef uint32_t computed
    for i in range(table.count):
        if not matches(&table.at[i], buffer, position, &computed):
            return i, computed
    return table.count, 0


def first_unsound(const uint8_t[::1] buffer not None, rows, int64_t position, bint check_crcs):
    """Find the first entry that is unreadable or whose checksum is wrong.

    An entry is unreadable if its magic is not 0, 1 or 2, or if it is a v2 batch of less than 61 bytes.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of buffer[0].
        check_crcs: Whether to check checksums.

    Returns:
        (index, computed, compressed, control):

        - index: The index of the row; n if all entries are sound.
        - computed: The checksum of its bytes; 0 for an unreadable entry, and if all entries are sound.
        - compressed: Whether any entry before it is compressed.
        - control: Whether any entry before it is a v2 control batch.

    Raises:
        ValueError: An entry is outside the buffer.
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
        if check_crcs and not matches(&table.at[i], buffer, position, &computed):
            return i, computed, compressed, control
        compressed |= table.at[i].compression_type != 0
        control |= table.at[i].magic >= 2 and (table.at[i].attributes & CONTROL_BIT) != 0
    return table.count, 0, compressed, control
