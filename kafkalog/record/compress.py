"""Compression of the records of a batch, framed as by Kafka's Java client (see `decompress` for the formats).

    codec    default level                                              levels
    gzip     -1: ISA-L's level 2                                        -1..9
    snappy   none                                                       none
    lz4      9: the fast compressor, as in Kafka; others: LZ4 HC        1..17
    zstd     3                                                          -131072..22

Two libraries rarely compress to the same bytes, but Kafka reads the output of all of them.
"""

import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkalog import codecs
from kafkalog._speedups.arguments import whole
from kafkalog.attributes import CompressionType

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEFAULT_LEVELS: Mapping[CompressionType, int] = {
    CompressionType.GZIP: -1,
    CompressionType.LZ4: 9,
    CompressionType.ZSTD: 3,
}
LEVELS: Mapping[CompressionType, range] = {
    CompressionType.GZIP: range(-1, 10),
    CompressionType.LZ4: range(1, 18),
    CompressionType.ZSTD: range(-131072, 23),
}

SNAPPY_BLOCK_BYTES = 32 * 1024
# ISA-L counts levels in its own way; this one compresses JSON nearly as well as zlib's 6 in a fraction of the time.
ISAL_LEVEL = 2


def checked_level(codec: CompressionType, level: int | None) -> int:
    """Return the level to use: `level`, or the default for None.

    Raises:
        ValueError: The codec has no such level.
        TypeError: `level` is not a whole number.
    """
    if codec not in LEVELS:
        if level is not None:
            raise ValueError(f"{codec.name.lower()} has no levels")
        return 0
    if level is None:
        return DEFAULT_LEVELS[codec]
    return whole(f"the compression level of {codec.name.lower()}", level, LEVELS[codec][0], LEVELS[codec][-1])


def compress(
    codec: CompressionType, data: "ReadableBuffer", *, level: int | None = None, magic: int = 2
) -> "ReadableBuffer":
    """Compress `data` as Kafka's reader of format `magic` expects it.

    Raises:
        ValueError: zstd below magic 2, or an invalid level.
    """
    if codec is CompressionType.ZSTD and magic < 2:
        raise ValueError(f"ZStandard compression is not supported for magic {magic}")
    return _CODECS[codec](memoryview(data).cast("B"), checked_level(codec, level), magic)


def _nothing(data: memoryview, _level: int, _magic: int) -> "ReadableBuffer":
    return data


def _gzip(data: memoryview, level: int, _magic: int) -> "ReadableBuffer":
    library = codecs.gzip_library()
    if level == DEFAULT_LEVELS[CompressionType.GZIP] and library is not zlib:
        stream = library.compressobj(ISAL_LEVEL, library.DEFLATED, 31)
    else:
        stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    return b"".join((stream.compress(data), stream.flush()))


def _snappy(data: memoryview, _level: int, _magic: int) -> "ReadableBuffer":
    compress_raw = codecs.library("cramjam").snappy.compress_raw
    parts: list[ReadableBuffer] = [codecs.XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), SNAPPY_BLOCK_BYTES):
        block = compress_raw(data[start : start + SNAPPY_BLOCK_BYTES])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _lz4(data: memoryview, level: int, magic: int) -> "ReadableBuffer":
    library = codecs.library("lz4.frame")
    frame: bytes = library.compress(
        data,
        compression_level=0 if level == DEFAULT_LEVELS[CompressionType.LZ4] else level,
        block_size=library.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    # The frame has a header of 7 bytes; in format 0 its checksum covers the frame's magic too.
    return codecs.with_lz4_checksum(frame, 6, frame[:6]) if magic == 0 else frame


def _zstd(data: memoryview, level: int, _magic: int) -> "ReadableBuffer":
    compressors = _of_thread.__dict__.setdefault("zstd", {})
    if level not in compressors:
        compressors[level] = codecs.library("zstandard").ZstdCompressor(level=level, write_content_size=False)
    compressed: bytes = compressors[level].compress(data)
    return compressed


# Creating a zstd compressor takes longer than compressing a small batch, and it is not thread-safe.
_of_thread: Any = threading.local()

_CODECS: dict[CompressionType, Callable[[memoryview, int, int], "ReadableBuffer"]] = {
    CompressionType.NONE: _nothing,
    CompressionType.GZIP: _gzip,
    CompressionType.SNAPPY: _snappy,
    CompressionType.LZ4: _lz4,
    CompressionType.ZSTD: _zstd,
}
