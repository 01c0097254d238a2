"""Compressed bytes made plain, with no limit and no mercy: for tests that start from whole entries.

gzip     one member after another
snappy   82 'SNAPPY' 00, int32 version, int32 compatible version, then [int32 length][raw block] again and again;
         or one raw block
lz4      an LZ4 frame. In v0 its header checksum covers the four magic bytes too: wrong, and what Kafka writes there
zstd     a zstandard frame, the content's size usually missing
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import lz4.frame
import xxhash
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_LENGTH = struct.Struct(">i")
LZ4_CHECKSUM_PLACE = 6


def decompressed(data: bytes, codec: int, magic: int) -> bytes:
    """`data` decompressed; whatever the codec's library raises where it cannot be."""
    if codec == GZIP:
        return _gunzipped(data)
    if codec == SNAPPY:
        return _unsnapped(data)
    if codec == LZ4:
        return bytes(lz4.frame.decompress(with_right_lz4_checksum(data) if magic == 0 else data))
    if codec == ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    raise ValueError(f"no such codec: {codec}")


def _gunzipped(data: bytes) -> bytes:
    out = b""
    while data:
        member = zlib.decompressobj(wbits=31)
        out += member.decompress(data)
        if not member.eof:
            raise ValueError("a gzip member is cut off")
        data = member.unused_data
    return out


def _unsnapped(data: bytes) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, at = b"", len(XERIAL_HEADER)
    while at < len(data):
        (length,) = XERIAL_LENGTH.unpack_from(data, at)
        at += XERIAL_LENGTH.size
        out += bytes(cramjam.snappy.decompress_raw(data[at : at + length]))
        at += length
    return out


def lz4_checksum(covered: bytes) -> int:
    """The one byte by which an LZ4 frame's header is checked."""
    return xxhash.xxh32_intdigest(covered) >> 8 & 0xFF


def with_right_lz4_checksum(frame: bytes) -> bytes:
    place = LZ4_CHECKSUM_PLACE
    return frame[:place] + bytes([lz4_checksum(frame[4:place])]) + frame[place + 1 :]


def with_v0_lz4_checksum(frame: bytes) -> bytes:
    place = LZ4_CHECKSUM_PLACE
    return frame[:place] + bytes([lz4_checksum(frame[:place])]) + frame[place + 1 :]
