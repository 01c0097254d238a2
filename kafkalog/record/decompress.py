"""Decompression of the records of a batch, up to a limit.

    gzip     one or more gzip members
    snappy   xerial stream: 82 53 4E 41 50 50 59 00, version int32, compatible int32, then [length int32, raw block]...;
             or one raw block without any of that, as librdkafka writes it
    lz4      one LZ4 frame of independent blocks. In format 0 the frame header's checksum is wrong by design: it
             covers the frame's magic too. Linked blocks, which Java's clients refuse, are decompressed as well
    zstd     one or more frames, mostly without a content size

A length from the stream is never trusted: output buffers are bounded by the limit and by the size that the compressed
bytes can decompress to.
Source: clients/.../common/compress/*.java.
"""

import re
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kafkalog._speedups.buffer_pool import Block
from kafkalog.attributes import CompressionType
from kafkalog.errors import DecompressedSizeError, InvalidRecordError
from kafkalog.record import codecs
from kafkalog.record.batch_validity import codec_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEFAULT_LIMIT = 256 * 1024 * 1024

# Libraries return at most so many bytes at a time, if there may be more to follow.
BYTES_AT_A_TIME = 16 << 20

XERIAL_HEADER_SIZE = 16
# A copy element of three bytes yields at most 64 bytes, so a raw block never expands further.
SNAPPY_MOST_EXPANSION = 64

ZSTD_MOST_PER_BLOCK = 128 * 1024

ZSTD_SKIPPABLE = b"\x2a\x4d\x18"

SMALLEST_GZIP_STEP = 256
# zlib's Z_MEM_ERROR, and what LZ4 and zstd say.
_OUT_OF_MEMORY = re.compile("Error -4 while|allocation|not enough memory", re.IGNORECASE)
GZIP_MAGIC = b"\x1f\x8b"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLAGS_AT = 4
LZ4_INDEPENDENT_BLOCKS = 0x20


def decompress(codec: int, data: memoryview, *, limit: int = DEFAULT_LIMIT, magic: int = 2) -> "ReadableBuffer":
    """Decompress `data` as Kafka's reader of format `magic` does.

    Raises:
        InvalidRecordError: An incomplete or damaged stream, or an unknown codec.
        DecompressedSizeError: The data decompresses to more than `limit` bytes.
        MemoryError: There is too little memory.
    """
    # Without `codec_of`, which takes a microsecond, for a codec that there is.
    return _CODECS[codec if codec in _CODECS else codec_of(codec)](data, limit, magic)


def _too_large(limit: int) -> DecompressedSizeError:
    return DecompressedSizeError("the batch decompresses to more bytes than allowed", expected=f"at most {limit}")


def _damaged(codec: CompressionType, why: object) -> InvalidRecordError:
    return InvalidRecordError(f"the {codec.name.lower()} data is damaged: {why}")


def _failed(codec: CompressionType, error: Exception) -> Exception:
    """Return the error for a library's: too little memory is no damage, but libraries raise the same class for it."""
    if _OUT_OF_MEMORY.search(str(error)):
        return MemoryError(f"no memory to decompress {codec.name.lower()} data: {error}")
    return _damaged(codec, error)


def _appended(output: bytes | bytearray, piece: bytes, limit: int) -> bytes | bytearray:
    """Append to the output, in place if possible: joining pieces at the end would take their memory twice.

    Raises:
        DecompressedSizeError: There are more than `limit` bytes.
    """
    if len(output) + len(piece) > limit:
        raise _too_large(limit)
    if not output:
        return piece
    if isinstance(output, bytes):
        output = bytearray(output)
    output += piece
    return output


def _nothing(data: memoryview, limit: int, _magic: int) -> "ReadableBuffer":
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _gzip(data: memoryview, limit: int, _magic: int) -> "ReadableBuffer":
    """Decompress all members. Bytes after the last one are ignored, as by Java's reader."""
    output: bytes | bytearray | None = None
    step = len(data)
    while output is None or data[:2] == GZIP_MAGIC:
        output, size = _gzip_member(data, limit, step, output or b"")
        data, step = data[size:], SMALLEST_GZIP_STEP
    return output


def _gzip_member(data: memoryview, limit: int, step: int, output: bytes | bytearray) -> tuple[bytes | bytearray, int]:
    """Decompress the first member of `data`.

    The library copies the input after the member's end. So it gets `step` bytes, then twice as many and so on: with all
    the input at once, a thousand small members would be copied a thousand times.

    Returns:
        `output` with the decompressed bytes, and the size of the member in `data`.
    """
    zlib = codecs.gzip_library()
    stream = zlib.decompressobj(wbits=31)
    at = 0
    try:
        while not stream.eof and (at < len(data) or stream.unconsumed_tail):
            source = stream.unconsumed_tail
            if not source:
                source = data[at : at + step]
                at, step = min(at + step, len(data)), 2 * step
            room = min(limit + 1 - len(output), BYTES_AT_A_TIME)
            output = _appended(output, stream.decompress(source, room), limit)
    except zlib.error as error:
        raise _failed(CompressionType.GZIP, error) from None
    if not stream.eof:
        raise _damaged(CompressionType.GZIP, "it ends before the stream does")
    return output, at - len(stream.unused_data)


def _snappy(data: memoryview, limit: int, _magic: int) -> "ReadableBuffer":
    cramjam = codecs.library("cramjam")
    snappy = cramjam.snappy
    blocks = list(_xerial_blocks(data)) if data[:8] == codecs.XERIAL_MAGIC else [data]
    try:
        sizes = [snappy.decompress_raw_len(block) for block in blocks]
        for block, size in zip(blocks, sizes, strict=True):
            if size > SNAPPY_MOST_EXPANSION * len(block):
                raise _damaged(
                    CompressionType.SNAPPY, f"a block of {len(block)} bytes claims to decompress to {size} bytes"
                )
        if sum(sizes) > limit:
            raise _too_large(limit)
        output = memoryview(Block(sum(sizes)))
        at = 0
        for block, size in zip(blocks, sizes, strict=True):
            at += snappy.decompress_raw_into(block, output[at : at + size])
    except cramjam.DecompressionError as error:
        raise _failed(CompressionType.SNAPPY, error) from None
    return output


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks of one or more concatenated xerial streams."""
    at = 0
    while at < len(data):
        if data[at : at + 8] == codecs.XERIAL_MAGIC:
            at += XERIAL_HEADER_SIZE
            if at > len(data):
                raise _damaged(CompressionType.SNAPPY, "it ends within the stream's header")
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not 0 <= size <= len(data) - at - 4:
            raise _damaged(
                CompressionType.SNAPPY, f"a block claims {size} bytes, but {len(data) - at - 4} bytes are left"
            )
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _lz4(data: memoryview, limit: int, magic: int) -> "ReadableBuffer":
    frame = codecs.library("lz4.frame")
    # After an error, or in the middle of a frame, a context is of no use for the next one.
    context = _of_thread.__dict__.pop("lz4", None) or frame.create_decompression_context()
    output: bytes | bytearray = b""
    ended = False
    try:
        source = memoryview(_mend_lz4_header(data)) if magic == 0 else data
        while not ended:
            # The library allocates max_length bytes at once; mostly one chunk of this size is enough.
            room = min(limit + 1 - len(output), max(65536, 5 * len(data)), BYTES_AT_A_TIME)
            piece, size, ended = frame.decompress_chunk(context, source, max_length=room)
            if not piece and not ended:
                raise _damaged(CompressionType.LZ4, "it ends before the frame does")
            output, source = _appended(output, piece, limit), source[size:]
    except (RuntimeError, EOFError) as error:
        raise _failed(CompressionType.LZ4, error) from None
    _of_thread.lz4 = context
    return output


def has_linked_lz4_blocks(frame: memoryview) -> bool:
    """Return whether the blocks of an LZ4 frame refer to earlier ones: Kafka's Java clients do not read that."""
    return len(frame) > LZ4_FLAGS_AT and not frame[LZ4_FLAGS_AT] & LZ4_INDEPENDENT_BLOCKS


def _mend_lz4_header(data: memoryview) -> bytes:
    """Copy a frame of format 0 with the header checksum of the LZ4 specification; Kafka ignores the stored one."""
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        return bytes(data)
    size = 6 + (8 if data[4] & 0x08 else 0) + (4 if data[4] & 0x01 else 0)
    return codecs.with_lz4_checksum(data, size, data[4:size])


def _zstd(data: memoryview, limit: int, magic: int) -> "ReadableBuffer":
    if magic < 2:
        raise InvalidRecordError("zstd exists only in format 2", expected="magic 2", found=f"magic {magic}")
    zstandard = codecs.library("zstandard")
    output: bytes | bytearray | None = None
    left = limit
    size = most = 0
    try:
        while data or output is None:
            if data[1:4] == ZSTD_SKIPPABLE and data[0] & 0xF0 == 0x50:
                data = data[_skippable_size(data) :]
                continue
            size, most, exact = _zstd_frame(zstandard, data)
            if exact and most > left:
                raise _too_large(limit)
            room = max(1, min(most, left))
            if (room > BYTES_AT_A_TIME and size < len(data)) or output:
                output = _zstd_read(zstandard, data[:size], output or b"", limit)
            else:
                output = _zstd_decompressor().decompress(data[:size], max_output_size=room)
            left = limit - len(output)
            data = data[size:]
    except zstandard.ZstdError as error:
        if most > left and _zstd_exceeds(zstandard, data[:size], left):
            raise _too_large(limit) from None
        raise _failed(CompressionType.ZSTD, error) from None
    return output


def _zstd_read(zstandard: ModuleType, frame: memoryview, output: bytes | bytearray, limit: int) -> bytes | bytearray:
    """Decompress one of several frames, and return `output` with its bytes."""
    stream = zstandard.ZstdDecompressor().stream_reader(frame)
    while piece := stream.read(BYTES_AT_A_TIME):
        output = _appended(output, piece, limit)
    return output


def _skippable_size(data: memoryview) -> int:
    """Return the size of a skippable frame: magic | size int32 little-endian | so many bytes."""
    size = 8 + int.from_bytes(data[4:8], "little")
    if size > len(data):
        raise _damaged(CompressionType.ZSTD, "it ends before a skippable frame does")
    return size


def _zstd_frame(zstandard: ModuleType, data: memoryview) -> tuple[int, int, bool]:
    """Return the sizes of the first frame.

    block header   3 bytes, little-endian: bit 0 last block | bits 1-2 type: 0 raw, 1 one byte repeated,
                   2 compressed | the rest size

    Returns:
        The size of the frame in `data`, the largest size that it decompresses to, and whether that is the content size
        given in its header.
    """
    parameters = zstandard.get_frame_parameters(data)
    at = zstandard.frame_header_size(data)
    most = 0
    last = False
    while not last:
        if at + 3 > len(data):
            raise _damaged(CompressionType.ZSTD, "it ends before the frame does")
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3 + (1 if kind == 1 else size)
        most += size if kind < 2 else ZSTD_MOST_PER_BLOCK
    at += 4 if parameters.has_checksum else 0
    if at > len(data):
        raise _damaged(CompressionType.ZSTD, "it ends before the frame does")
    if parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN:
        return at, most, False
    if parameters.content_size > most:
        raise _damaged(
            CompressionType.ZSTD,
            f"it claims {parameters.content_size} bytes, but its blocks decompress to {most} bytes at most",
        )
    return at, parameters.content_size, True


def _zstd_exceeds(zstandard: ModuleType, frame: memoryview, limit: int) -> bool:
    """Return whether a frame that failed to decompress into `limit` bytes is sound up to there, but too large."""
    room = bytearray(ZSTD_MOST_PER_BLOCK)
    stream = zstandard.ZstdDecompressor().stream_reader(frame)
    try:
        while limit >= 0 and (count := stream.readinto(room)):
            limit -= count
    except zstandard.ZstdError:
        return False
    return limit < 0


def _zstd_decompressor() -> Any:
    """Return this thread's decompressor: creating one costs as much as a small batch, and it is not thread-safe."""
    if not hasattr(_of_thread, "zstd"):
        _of_thread.zstd = codecs.library("zstandard").ZstdDecompressor()
    return _of_thread.zstd


_of_thread = threading.local()

_CODECS: dict[int, Callable[[memoryview, int, int], "ReadableBuffer"]] = {
    CompressionType.NONE: _nothing,
    CompressionType.GZIP: _gzip,
    CompressionType.SNAPPY: _snappy,
    CompressionType.LZ4: _lz4,
    CompressionType.ZSTD: _zstd,
}
