"""The codec libraries, each imported at its first use, and the framing that `compress` and `decompress` share.

gzip     isal, which inflates more than twice as fast as zlib; zlib where isal has no wheel
snappy   cramjam; the raw blocks in xerial's stream: 82 53 4E 41 50 50 59 00, version int32, compatible int32,
         then [length int32, raw block]...
lz4      cramjam for the blocks of a frame, lz4 for linked blocks and to compress
zstd     zstandard
"""

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

XERIAL_MAGIC = b"\x82SNAPPY\x00"


# Imports a library by its name.
library = cache(import_module)


@cache
def gzip_library() -> ModuleType:
    """Import `isal_zlib`, or `zlib` if isal is not installed; both have the same functions."""
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return import_module("zlib")


def with_lz4_checksum(frame: "ReadableBuffer", at: int, covered: "ReadableBuffer") -> bytes:
    """Copy an LZ4 frame with another header checksum.

    Args:
        frame: The frame.
        at: The index of the checksum byte.
        covered: The bytes that the checksum is computed over.
    """
    view = memoryview(frame)
    return b"".join((view[:at], bytes([lz4_checksum(covered)]), view[at + 1 :]))


def lz4_checksum(covered: "ReadableBuffer") -> int:
    """Return the checksum byte of an LZ4 frame's header."""
    return xxh32(covered) >> 8 & 0xFF


def xxh32(data: "ReadableBuffer") -> int:
    """Return the xxHash of 32 bits, by which LZ4 checks headers and blocks."""
    checksum: int = library("xxhash").xxh32_intdigest(data)
    return checksum
