"""The checksums of many entries in one typed loop.

CRC-32C for v2 (byte 21 to the end), CRC-32 for v0/v1 (byte 16 to the end).

To call the library takes longer than the checksum of a small batch: these are done here, eight bytes an instruction,
where the processor has one for it. Several instructions at once, as the library does it, pay only for larger ones.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t

from kafkalog._speedups.layout cimport BATCH_CRC_FROM, MESSAGE_CRC_FROM, RECORD_BATCH_OVERHEAD, Header

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

# Up to so many bytes are summed up here.
cdef int64_t summed_here = SMALL_BYTES if has_crc32c_instruction() else 0


def first_invalid(const uint8_t[::1] buffer not None, const Header[:] rows, int64_t position=0):
    """The first of `rows` (HEADER_DTYPE) whose stored checksum is not that of its bytes, and the one found.

    The row's entry is buffer[row.position - position:][:row.size_in_bytes]. Returns (index, computed), or (len(rows),
    0) where all hold. An entry too short for its header counts as invalid, computed 0. ValueError: an entry outside
    the buffer.
    """
    cdef Py_ssize_t count = 0 if rows is None else rows.shape[0]
    cdef const uint8_t* data = &buffer[0] if buffer.shape[0] else NULL
    cdef Py_ssize_t i
    cdef int64_t start, size, covered
    cdef uint32_t computed
    for i in range(count):
        start = rows[i].position - position
        size = rows[i].size_in_bytes
        if start < 0 or size < 0 or size > buffer.shape[0] - start:
            raise ValueError(f"entry {i} at {start}, {size} bytes, is outside the buffer of {buffer.shape[0]} bytes")
        if rows[i].magic >= 2:
            if size < RECORD_BATCH_OVERHEAD:
                return i, 0
            covered = start + BATCH_CRC_FROM
            if start + size - covered <= summed_here:
                computed = crc32c_by_instruction(data + covered, <size_t> (start + size - covered))
            else:
                computed = crc32c(PyMemoryView_FromMemory(<char*> data + covered, start + size - covered, PyBUF_READ))
        else:
            covered = start + MESSAGE_CRC_FROM
            computed = crc32(PyMemoryView_FromMemory(<char*> data + covered, start + size - covered, PyBUF_READ))
        if computed != rows[i].checksum:
            return i, computed
    return count, 0
