"""The codec libraries, each imported at its first use, and the framing that `compress` and `decompress` share.

gzip     isal, which inflates more than twice as fast as zlib; zlib where isal has no wheel
snappy   cramjam; the raw blocks in xerial's stream: 82 53 4E 41 50 50 59 00, version int32, compatible int32,
         then [length int32, raw block]...
lz4      lz4
zstd     zstandard
"""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

XERIAL_MAGIC = b"\x82SNAPPY\x00"


@cache
def gzip_library() -> ModuleType:
    """Import `isal_zlib`, or `zlib` if isal is not installed; both have the same functions."""
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return zlib
    library: ModuleType = isal_zlib
    return library


@cache
def lz4_library() -> ModuleType:
    """Import `lz4.frame`."""
    from lz4 import frame

    library: ModuleType = frame
    return library


@cache
def snappy_library() -> ModuleType:
    """Import `cramjam`."""
    import cramjam

    return cramjam


@cache
def zstd_library() -> ModuleType:
    """Import `zstandard`."""
    import zstandard

    return zstandard


def with_lz4_checksum(frame: "ReadableBuffer", at: int, covered: "ReadableBuffer") -> bytes:
    """Copy an LZ4 frame with another header checksum.

    Args:
        frame: The frame.
        at: The index of the checksum byte.
        covered: The bytes that the checksum is computed over.
    """
    from xxhash import xxh32_intdigest

    checksum = (xxh32_intdigest(covered) >> 8) & 0xFF
    view = memoryview(frame)
    return b"".join((view[:at], bytes([checksum]), view[at + 1 :]))
