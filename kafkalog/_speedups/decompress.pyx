"""Decompression of the records of batches into recycled memory, up to a limit.

    gzip     one or more gzip members
    snappy   xerial stream: 82 53 4E 41 50 50 59 00, version int32, compatible int32, then [length int32, raw block]...;
             or one raw block without any of that, as librdkafka writes it
    lz4      one LZ4 frame of independent blocks:
             04 22 4D 18 | flags | block size | content size int64, if flagged | header checksum |
             [length uint32, bit 31: stored as it is | block | block checksum uint32, if flagged]... | length 0 |
             content checksum uint32, if flagged. Like Kafka, this does not compare content size and checksum
             In format 0 the header checksum covers the first four bytes too, and is not compared. Linked blocks, which
             Java's clients refuse, are decompressed as well
    zstd     one or more frames, mostly without a content size

A length from the stream is never trusted: memory is bounded by the limit and by the size that the compressed bytes can
decompress to. The codecs' packages decompress each block, straight into the memory of `Output` where they can. Python
between their calls would take as long as some of them, and would keep other threads waiting for the GIL.
Source: clients/.../common/compress/*.java.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from kafkalog._speedups.buffer_pool cimport Block as Memory
from kafkalog._speedups.cursor cimport load_int
from kafkalog._speedups.header_table cimport Rows, open_rows, region_end, region_start
from kafkalog._speedups.layout cimport Header, MESSAGE_TIMESTAMP_AT

import re
import threading

import numpy as np

from kafkalog import codecs
from kafkalog._speedups.buffer_pool import Block
from kafkalog.attributes import CompressionType
from kafkalog.errors import DecompressedSizeError, InvalidRecordError, KafkaLogError

DEFAULT_LIMIT = 256 * 1024 * 1024

cdef enum:
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    # The most bytes that a library returns at a time, if it returns them as an object.
    BYTES_AT_A_TIME = 16 << 20
    # An output begins with four times the size of the compressed bytes, but at most so many bytes more than they have,
    # and with room for one block of zstd, or two of the usual LZ4 frame.
    MOST_GUESSED_BYTES = 4 << 20
    SPARE_BYTES = 128 << 10

    SMALLEST_GZIP_STEP = 256

    XERIAL_MAGIC_SIZE = 8
    XERIAL_HEADER_SIZE = 16
    # A copy element of three bytes yields at most 64 bytes, so a raw block never expands further.
    SNAPPY_MOST_EXPANSION = 64

    LZ4_FLAGS_AT = 4
    LZ4_BLOCK_SIZE_AT = 5
    LZ4_SMALLEST_HEADER = 7
    LZ4_VERSION_MASK = 0xC0
    LZ4_VERSION = 0x40
    LZ4_INDEPENDENT_BLOCKS = 0x20
    LZ4_BLOCK_CHECKSUMS = 0x10
    LZ4_CONTENT_SIZE = 0x08
    LZ4_CONTENT_CHECKSUM = 0x04
    LZ4_RESERVED_FLAGS = 0x03
    LZ4_DICTIONARY = 0x01
    # A byte of a compressed block stands for at most 255 bytes.
    LZ4_MOST_EXPANSION = 255

    ZSTD_MOST_PER_BLOCK = 128 << 10

cdef uint32_t LZ4_STORED = <uint32_t> 1 << 31
cdef uint32_t LZ4_MAGIC = 0x184D2204
cdef uint32_t ZSTD_SKIPPABLE = 0x184D2A50
cdef uint32_t ZSTD_SKIPPABLE_MASK = 0xFFFFFFF0
cdef const uint8_t* EMPTY = <const uint8_t*> b""
cdef bytes XERIAL_MAGIC = codecs.XERIAL_MAGIC

# zlib's Z_MEM_ERROR, and what LZ4 and zstd say.
cdef object OUT_OF_MEMORY = re.compile("Error -4 while|allocation|not enough memory", re.IGNORECASE)
cdef object of_thread = threading.local()


@cython.final
@cython.internal
@cython.auto_pickle(False)
@cython.freelist(8)
cdef class Window:
    """A part of a buffer, as the libraries take it: less work than a slice of a memoryview."""

    cdef object owner
    # The output that `at` points into: it cannot grow while a library uses the window. None: the input.
    cdef Memory output
    cdef const uint8_t* at
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.at, self.size, self.output is None, flags)
        if self.output is not None:
            self.output.views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        if self.output is not None:
            self.output.views -= 1

    cdef Window part(self, Py_ssize_t start, Py_ssize_t size):
        """Return the bytes [start, start + size), which are inside."""
        return window(self.owner, self.output, self.at + start, size)


cdef Window window(object owner, Memory output, const uint8_t* at, Py_ssize_t size):
    cdef Window made = Window.__new__(Window)
    made.owner, made.output, made.at, made.size = owner, output, at, size
    return made


cdef Window whole_of(const uint8_t[::1] buffer):
    """Return a window of all bytes; nothing is at EMPTY, because libraries take no null pointer."""
    return window(buffer, None, &buffer[0] if buffer.shape[0] else EMPTY, buffer.shape[0])


@cython.final
@cython.internal
@cython.auto_pickle(False)
cdef class Output:
    """Decompressed bytes of one batch after another, in recycled memory.

    Attributes:
        size: The number of bytes so far.
    """

    cdef Memory block
    cdef Py_ssize_t size
    # The size up to which bytes are allowed, and the limit of the batch that gives it.
    cdef Py_ssize_t end
    cdef int64_t limit

    def __cinit__(self, Py_ssize_t stored, Py_ssize_t most):
        self.block = Block(min(stored + min(3 * stored, MOST_GUESSED_BYTES), most) + SPARE_BYTES)

    cdef int allow(self, int64_t limit) noexcept:
        """Allow `limit` more bytes."""
        self.limit = limit
        # The sum of a size and some bytes never overflows.
        self.end = self.size + min(limit, INT64_MAX >> 1)
        return 0

    cdef Py_ssize_t left(self) noexcept:
        """Return the number of bytes that are still allowed."""
        return self.end - self.size

    cdef int reserve(self, Py_ssize_t size) except -1:
        """Make room for bytes that decompress to at most `size` bytes, or for one more than allowed."""
        size = min(size, self.left() + 1)
        if size > self.block.size - self.size:
            self.block.grow(self.size + size)
        return 0

    cdef Window room(self, Py_ssize_t least, Py_ssize_t most):
        """Return memory to write to, of at least `least` and at most `most` bytes."""
        if least > self.block.size - self.size:
            self.block.grow(self.size + max(least, min(self.size >> 1, most)))
        return window(self.block, self.block, <uint8_t*> self.block.memory + self.size,
                      max(least, min(self.block.size - self.size, most)))

    cdef int wrote(self, Py_ssize_t count) except -1:
        """Add the first `count` bytes of the room. Raise DecompressedSizeError if these are more than allowed."""
        self.size += count
        if self.size > self.end:
            raise self.too_large()
        return 0

    cdef int append(self, const uint8_t* data, Py_ssize_t count) except -1:
        """Append a copy of bytes. Raise DecompressedSizeError if these are more than allowed."""
        if count > self.left():
            raise self.too_large()
        memcpy(<void*> self.room(count, count).at, data, count)
        self.size += count
        return 0

    cdef object too_large(self):
        message = "the batch decompresses to more bytes than allowed"
        return DecompressedSizeError(message, expected=f"at most {self.limit}")

    cdef object view(self):
        """Return all bytes, read-only."""
        return memoryview(self.block)[:self.size].toreadonly()


def decompress(int codec, const uint8_t[::1] data not None, *, int64_t limit=DEFAULT_LIMIT, int magic=2):
    """Decompress `data` as Kafka's reader of format `magic` does.

    Args:
        codec: The number of the codec.
        data: The compressed bytes.
        limit: The number of bytes that they may decompress to.
        magic: The format of the batch.

    Returns:
        The decompressed bytes, a read-only memoryview.

    Raises:
        InvalidRecordError: An incomplete or damaged stream, or an unknown codec.
        DecompressedSizeError: The data decompresses to more than `limit` bytes.
        MemoryError: There is too little memory.
        ValueError: `limit` is negative.
    """
    cdef Output output = Output(data.shape[0], BYTES_AT_A_TIME)
    cdef Window whole = whole_of(data)
    decompress_into(output, codec, whole, limit, magic)
    return output.view()


def decompress_rows(const uint8_t[::1] buffer not None, rows, int64_t position, int64_t limit, Py_ssize_t enough):
    """Decompress the regions of entries, one after the other, up to the first damage or until there are enough bytes.

    A region that is not compressed is copied. That of a v2 batch whose header counts no records is empty, as Kafka
    does not decompress it. That of a wrapper is its value.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of the first byte of the buffer.
        limit: The number of bytes that one region may decompress to.
        enough: After at least so many decompressed bytes, no further region is decompressed.

    Returns:
        (data, bounds, error): the decompressed bytes, a read-only memoryview; where the regions begin and end in it,
        int64, shape (k + 1,), for the first k rows; the error of row k, an `InvalidRecordError` or
        `DecompressedSizeError` with the position of its entry, None if there is none.

    Raises:
        ValueError: A region is outside the buffer, or `limit` is negative.
        MemoryError: There is too little memory.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Window whole = whole_of(buffer)
    cdef Output output = Output(whole.size, enough)
    cdef object bounds_array = np.empty(table.count + 1, np.int64)
    cdef int64_t[::1] bounds = bounds_array
    cdef object error = None
    cdef Window region
    cdef Py_ssize_t i
    bounds[0] = 0
    for i in range(table.count):
        try:
            if not table.at[i].compression_type:
                region = stored_region(whole, &table.at[i], i, position)
                output.allow(region.size)
                output.append(region.at, region.size)
            elif table.at[i].records_count:
                region = compressed_region(whole, &table.at[i], i, position)
                decompress_into(output, table.at[i].compression_type, region, limit, table.at[i].magic)
        except KafkaLogError as damage:
            error = damage.at(None, table.at[i].position)
            break
        bounds[i + 1] = output.size
        if output.size >= enough:
            i += 1
            break
    else:
        i = table.count
    return output.view(), bounds_array[:i + 1], error


cdef Window stored_region(Window buffer, const Header* row, Py_ssize_t i, int64_t position):
    """Return the records of a v2 batch or a whole v0/v1 entry. Raise ValueError if it is outside the buffer."""
    cdef int64_t start = region_start(row, position)
    cdef int64_t end = region_end(row, position)
    if not 0 <= start <= end <= buffer.size:
        raise ValueError(f"region {i} [{start}, {end}) is outside the buffer of {buffer.size} bytes")
    return buffer.part(start, end - start)


cdef Window compressed_region(Window buffer, const Header* row, Py_ssize_t i, int64_t position):
    """Return the compressed bytes of an entry. Raise ValueError, and InvalidRecordError if a wrapper has none."""
    cdef Window region = stored_region(buffer, row, i, position)
    return wrapper_value(region, row.magic) if row.magic < 2 else region


cdef int decompress_into(Output output, int codec, Window data, int64_t limit, int magic) except -1:
    """Append the decompressed bytes to `output`, which is unchanged after an error."""
    cdef Py_ssize_t start = output.size
    if limit < 0:
        raise ValueError(f"a limit of {limit} bytes")
    output.allow(limit)
    try:
        if codec == GZIP:
            decompress_gzip(data, output)
        elif codec == SNAPPY:
            decompress_snappy(data, output)
        elif codec == LZ4:
            decompress_lz4(data, output, magic)
        elif codec == ZSTD:
            decompress_zstd(data, output, magic)
        elif codec == NONE:
            output.append(data.at, data.size)
        else:
            raise InvalidRecordError("unknown codec", expected="0..4", found=codec)
    except BaseException:
        output.size = start
        raise
    return 0


cdef Window wrapper_value(Window entry, int magic):
    """Return the compressed bytes of a v0/v1 wrapper: its value. Raise InvalidRecordError if there is none."""
    cdef int64_t key_at = MESSAGE_TIMESTAMP_AT + (8 if magic else 0)
    cdef int64_t value_at = key_at + 4
    cdef int64_t size = -1
    if value_at <= entry.size:
        value_at += max(0, load_int(entry.at + key_at))
    if value_at + 4 <= entry.size:
        size = load_int(entry.at + value_at)
        if size < 0:
            raise InvalidRecordError("a compressed message has no value", expected="at least 0 bytes", found="null")
    value_at += 4
    if value_at + max(0, size) > entry.size:
        raise InvalidRecordError("the value of a compressed message overruns it",
                                 expected=f"{value_at + max(0, size)} bytes", found=entry.size)
    return entry.part(value_at, size)


cdef inline uint32_t little_endian(const uint8_t* at) noexcept:
    return <uint32_t> at[3] << 24 | <uint32_t> at[2] << 16 | <uint32_t> at[1] << 8 | at[0]


cdef object damaged(int codec, object why):
    return InvalidRecordError(f"the {CompressionType(codec).name.lower()} data is damaged: {why}")


cdef object failed(int codec, error):
    """Return the error for a library's: too little memory is no damage, but libraries raise the same class for it."""
    if OUT_OF_MEMORY.search(str(error)):
        return MemoryError(f"no memory to decompress {CompressionType(codec).name.lower()} data: {error}")
    return damaged(codec, error)


# --- gzip


cdef int decompress_gzip(Window data, Output output) except -1:
    """Decompress all members. Bytes after the last one are ignored, as by Java's reader."""
    cdef Py_ssize_t at = gzip_member(data, output, data.size)
    while data.size - at >= 2 and data.at[at] == 0x1F and data.at[at + 1] == 0x8B:
        at += gzip_member(data.part(at, data.size - at), output, SMALLEST_GZIP_STEP)
    return 0


cdef Py_ssize_t gzip_member(Window data, Output output, Py_ssize_t step) except -1:
    """Decompress the first member of `data`, and return its size.

    The library copies the input after the member's end. So it gets `step` bytes, then twice as many and so on: with all
    the input at once, a thousand small members would be copied a thousand times.
    """
    cdef object zlib = codecs.gzip_library()
    cdef object stream = zlib.decompressobj(wbits=31)
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size
    cdef bytes piece
    cdef object source
    try:
        while not stream.eof:
            source = stream.unconsumed_tail
            if not source:
                if at == data.size:
                    raise damaged(GZIP, "it ends before the stream does")
                size = min(step, data.size - at)
                source = data.part(at, size)
                at, step = at + size, 2 * step
            piece = stream.decompress(source, min(output.left() + 1, <Py_ssize_t> BYTES_AT_A_TIME))
            output.append(<const uint8_t*> <const char*> piece, len(piece))
    except zlib.error as error:
        raise failed(GZIP, error) from None
    return at - len(stream.unused_data)


# --- snappy


cdef int decompress_snappy(Window data, Output output) except -1:
    cdef object cramjam = codecs.library("cramjam")
    cdef object decompress_block = cramjam.snappy.decompress_raw_into
    cdef object length_of = cramjam.snappy.decompress_raw_len
    cdef int64_t together = 0
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size
    cdef Window block
    try:
        while (block := next_raw_block(data, &at)) is not None:
            size = length_of(block)
            if size > SNAPPY_MOST_EXPANSION * block.size:
                raise damaged(SNAPPY, f"a block of {block.size} bytes claims to decompress to {size} bytes")
            together += size
            if together > output.left():
                raise output.too_large()
        output.reserve(together)
        at = 0
        while (block := next_raw_block(data, &at)) is not None:
            size = length_of(block)
            output.wrote(decompress_block(block, output.room(size, size)))
    except cramjam.DecompressionError as error:
        raise failed(SNAPPY, error) from None
    return 0


cdef bint starts_xerial(Window data, Py_ssize_t at) noexcept:
    """Return whether the header of a xerial stream begins at `at`."""
    return (data.size - at >= XERIAL_MAGIC_SIZE
            and memcmp(data.at + at, <const char*> XERIAL_MAGIC, XERIAL_MAGIC_SIZE) == 0)


cdef Window next_raw_block(Window data, Py_ssize_t* at):
    """Return the raw block at `at`, and set `at` to its end; None after the last one.

    The blocks are those of one or more concatenated xerial streams, or all bytes are one block.
    """
    cdef Py_ssize_t start = at[0]
    cdef int64_t size
    if not starts_xerial(data, 0):
        at[0] = data.size + 1
        return None if start else data
    while starts_xerial(data, start):
        start += XERIAL_HEADER_SIZE
        if start > data.size:
            raise damaged(SNAPPY, "it ends within the stream's header")
    if start == data.size:
        return None
    if data.size - start < 4:
        raise damaged(SNAPPY, "it ends within the length of a block")
    size = load_int(data.at + start)
    start += 4
    if not 0 < size <= data.size - start:
        raise damaged(SNAPPY, f"a block claims {size} bytes, but {data.size - start} bytes are left")
    at[0] = start + size
    return data.part(start, size)


# --- lz4


cdef int decompress_lz4(Window data, Output output, int magic) except -1:
    """Decompress the blocks of a frame. Bytes after it are ignored, as by Java's reader."""
    cdef Py_ssize_t at, most, after
    cdef uint32_t word, size
    if has_linked_blocks(data):
        return decompress_linked_lz4(data, output, magic)
    at = lz4_header_size(data, magic)
    # The code of the block size is 4 to 7: 64 KiB, 256 KiB, 1 MiB or 4 MiB.
    most = 256 << 2 * (data.at[LZ4_BLOCK_SIZE_AT] >> 4)
    after = 4 if data.at[LZ4_FLAGS_AT] & LZ4_BLOCK_CHECKSUMS else 0
    output.reserve(most_of_lz4_blocks(data, at, most, after))
    while True:
        if data.size - at < 4:
            raise damaged(LZ4, "it ends before the frame does")
        word = little_endian(data.at + at)
        size = word & ~LZ4_STORED
        at += 4
        if not size:
            if data.at[LZ4_FLAGS_AT] & LZ4_CONTENT_CHECKSUM and data.size - at < 4:
                raise damaged(LZ4, "it ends before the checksum of its content")
            return 0
        if size > most:
            raise damaged(LZ4, f"a block claims {size} bytes, but its frame allows {most} bytes")
        if size + after > data.size - at:
            raise damaged(LZ4, f"a block claims {size} bytes, but {max(0, data.size - at - after)} bytes are left")
        if after and codecs.xxh32(data.part(at, size)) != little_endian(data.at + at + size):
            raise damaged(LZ4, "the checksum of a block does not hold")
        if word & LZ4_STORED:
            output.append(data.at + at, size)
        else:
            lz4_block(data.part(at, size), output, most)
        at += size + after


cdef Py_ssize_t most_of_lz4_blocks(Window data, Py_ssize_t at, Py_ssize_t most, Py_ssize_t after) noexcept:
    """Return the most bytes that the blocks from `at` on decompress to."""
    cdef Py_ssize_t together = 0
    cdef Py_ssize_t size
    while data.size - at >= 4:
        size = little_endian(data.at + at) & ~LZ4_STORED
        if not size or size > most:
            break
        together += min(most, LZ4_MOST_EXPANSION * size)
        at += 4 + size + after
    return together


cdef int lz4_block(Window block, Output output, Py_ssize_t most) except -1:
    """Decompress a block to at most `most` bytes.

    When it fails, cramjam takes the first four bytes of the block for a size and tries again: it might make something
    of a damaged block. A block for which they could be a size is decompressed by lz4, which copies the bytes.
    """
    cdef object cramjam = codecs.library("cramjam")
    cdef object lz4
    cdef bytes piece
    if block.size < 4 or little_endian(block.at) > most:
        try:
            output.wrote(cramjam.lz4.decompress_block_into(
                block, output.room(min(most, LZ4_MOST_EXPANSION * block.size), most), 0))
        except cramjam.DecompressionError as error:
            raise failed(LZ4, error) from None
        return 0
    lz4 = codecs.library("lz4.block")
    try:
        piece = lz4.decompress(block, uncompressed_size=most)
    except lz4.LZ4BlockError as error:
        raise failed(LZ4, error) from None
    output.append(<const uint8_t*> <const char*> piece, len(piece))
    return 0


cdef Py_ssize_t lz4_header_size(Window data, int magic) except -1:
    """Check the header of a frame, and return its size."""
    if data.size < LZ4_SMALLEST_HEADER or little_endian(data.at) != LZ4_MAGIC:
        raise damaged(LZ4, "it does not begin with the header of a frame")
    cdef uint8_t flags = data.at[LZ4_FLAGS_AT]
    cdef uint8_t block_size = data.at[LZ4_BLOCK_SIZE_AT]
    if (flags & LZ4_VERSION_MASK != LZ4_VERSION or flags & LZ4_RESERVED_FLAGS
            or block_size & 0x0F or not 4 <= block_size >> 4 <= 7):
        raise damaged(LZ4, f"the header of its frame has unknown flags, {flags:#04x} {block_size:#04x}")
    cdef Py_ssize_t end = 14 if flags & LZ4_CONTENT_SIZE else 6
    if end >= data.size:
        raise damaged(LZ4, "it ends within the frame's header")
    if magic and data.at[end] != codecs.lz4_checksum(data.part(LZ4_FLAGS_AT, end - LZ4_FLAGS_AT)):
        raise damaged(LZ4, "the checksum of the frame's header does not hold")
    return end + 1


cdef int decompress_linked_lz4(Window data, Output output, int magic) except -1:
    """Decompress a frame whose blocks refer to earlier ones."""
    cdef object stream = codecs.library("lz4.frame").LZ4FrameDecompressor()
    cdef object source = with_right_checksum(data) if magic == 0 else data
    cdef bytes piece
    try:
        while not stream.eof:
            piece = stream.decompress(source, max_length=min(output.left() + 1, <Py_ssize_t> BYTES_AT_A_TIME))
            if not piece and not stream.eof:
                raise damaged(LZ4, "it ends before the frame does")
            output.append(<const uint8_t*> <const char*> piece, len(piece))
            source = b""
    except (RuntimeError, EOFError) as error:
        raise failed(LZ4, error) from None
    return 0


cdef object with_right_checksum(Window data):
    """Copy a frame of format 0 with the header checksum of the LZ4 specification; Kafka ignores the stored one."""
    cdef Py_ssize_t end = 6
    end += 8 if data.at[LZ4_FLAGS_AT] & LZ4_CONTENT_SIZE else 0
    end += 4 if data.at[LZ4_FLAGS_AT] & LZ4_DICTIONARY else 0
    if end >= data.size:
        return data
    return codecs.with_lz4_checksum(data, end, data.part(LZ4_FLAGS_AT, end - LZ4_FLAGS_AT))


cdef inline bint has_linked_blocks(Window data) noexcept:
    """Return whether an LZ4 frame begins, whose blocks refer to earlier ones."""
    return (data.size >= LZ4_SMALLEST_HEADER and little_endian(data.at) == LZ4_MAGIC
            and not data.at[LZ4_FLAGS_AT] & LZ4_INDEPENDENT_BLOCKS)


def linked_lz4_rows(const uint8_t[::1] buffer not None, rows, int64_t position):
    """Find the entries whose LZ4 blocks refer to earlier ones, which Kafka's Java clients do not read.

    Args:
        buffer: The bytes of the entries.
        rows: The rows of the entries, `HEADER_DTYPE`, shape (n,).
        position: The file position of the first byte of the buffer.

    Returns:
        The indexes of their rows. Damaged wrappers, which no reader decompresses, are left out.

    Raises:
        ValueError: An entry is outside the buffer.
    """
    cdef Rows table
    rows = open_rows(rows, &table)
    cdef Window whole = whole_of(buffer)
    cdef list found = []
    cdef Py_ssize_t i
    for i in range(table.count):
        if table.at[i].compression_type == LZ4 and table.at[i].records_count:
            try:
                if has_linked_blocks(compressed_region(whole, &table.at[i], i, position)):
                    found.append(i)
            except InvalidRecordError:
                pass
    return found


# --- zstd


cdef int decompress_zstd(Window data, Output output, int magic) except -1:
    """Decompress all frames. A stream without a frame is incomplete."""
    if magic < 2:
        raise InvalidRecordError("zstd exists only in format 2", expected="magic 2", found=f"magic {magic}")
    cdef object zstandard = codecs.library("zstandard")
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size
    cdef int frames = 0
    try:
        while at < data.size or not frames:
            if data.size - at >= 4 and little_endian(data.at + at) & ZSTD_SKIPPABLE_MASK == ZSTD_SKIPPABLE:
                at += skippable_size(data, at)
                continue
            size = zstd_frame_size(zstandard, data.part(at, data.size - at), output)
            zstd_frame(data.part(at, size), output)
            at += size
            frames += 1
    except zstandard.ZstdError as error:
        raise failed(ZSTD, error) from None
    return 0


cdef int zstd_frame(Window frame, Output output) except -1:
    """Decompress one frame, which is complete."""
    cdef object stream = zstd_decompressor().stream_reader(frame)
    cdef Window room
    cdef Py_ssize_t count, size
    while True:
        room = output.room(1, output.left() + 1)
        size = room.size
        count = stream.readinto(room)
        output.wrote(count)
        if count < size:
            return 0


cdef object zstd_decompressor():
    """Return this thread's decompressor: creating one costs as much as a small batch, and it is not thread-safe."""
    cdef object found = getattr(of_thread, "zstd", None)
    if found is None:
        found = of_thread.zstd = codecs.library("zstandard").ZstdDecompressor()
    return found


cdef Py_ssize_t skippable_size(Window data, Py_ssize_t at) except -1:
    """Return the size of the skippable frame at `at`: magic | size int32 little-endian | so many bytes."""
    cdef int64_t left = data.size - at - 8
    cdef int64_t size = little_endian(data.at + at + 4) if left >= 0 else 0
    if size > left:
        raise damaged(ZSTD, "it ends before a skippable frame does")
    return 8 + size


cdef Py_ssize_t zstd_frame_size(zstandard, Window data, Output output) except -1:
    """Return the size of the first frame; check that it is complete, and make room for its content.

    block header   3 bytes, little-endian: bit 0 last block | bits 1-2 type: 0 raw, 1 one byte repeated,
                   2 compressed | the rest size
    """
    cdef object parameters = zstandard.get_frame_parameters(data)
    cdef int64_t at = zstandard.frame_header_size(data)
    cdef int64_t most = 0
    cdef uint32_t header = 0
    while not header & 1:
        if at + 3 > data.size:
            raise damaged(ZSTD, "it ends before the frame does")
        header = data.at[at] | <uint32_t> data.at[at + 1] << 8 | <uint32_t> data.at[at + 2] << 16
        if header >> 3 > ZSTD_MOST_PER_BLOCK or (header >> 1 & 3 == 2 and not header >> 3):
            raise damaged(ZSTD, f"a block claims {header >> 3} bytes")
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        most += header >> 3 if header >> 1 & 3 < 2 else ZSTD_MOST_PER_BLOCK
    at += 4 if parameters.has_checksum else 0
    if at > data.size:
        raise damaged(ZSTD, "it ends before the frame does")
    cdef object claimed = parameters.content_size
    if claimed != zstandard.CONTENTSIZE_UNKNOWN:
        if claimed > most:
            raise damaged(ZSTD, f"it claims {claimed} bytes, but its blocks decompress to {most} bytes at most")
        if claimed > output.left():
            raise output.too_large()
        most = claimed
    # One byte more, so that the end of the frame is seen.
    output.reserve(most + 1)
    return at
