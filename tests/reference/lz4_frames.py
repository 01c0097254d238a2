"""LZ4 frames with other settings than those of Kafka's Java client, and frames that it refuses.

magic | flags | block size | content size, if flagged | header checksum |
[length, bit 31: stored | block | block checksum, if flagged]... | 0 | content checksum, if flagged
"""

from __future__ import annotations

from typing import Any

import cramjam
import lz4.frame

from tests.reference.compression import lz4_checksum

FLAGS_AT, HEADER_BYTES = 4, 7
STORED = 1 << 31


def sound_frames(data: bytes) -> dict[str, bytes]:
    """Return frames of `data` that Kafka reads."""
    with_checksum = _frame(data, content_checksum=True)
    parts = [data[:9000], *(data[at : at + 60_000] for at in range(9000, len(data), 60_000))]
    blocks = b"".join(_block(part, stored=not i) for i, part in enumerate(parts) if part)
    return {
        "the usual settings": _frame(data),
        "block checksums": _frame(data, block_checksum=True),
        "a content size": _frame(data, store_size=True),
        "a wrong content size": _with_size(_frame(data, store_size=True), len(data) + 1),
        "a content checksum": with_checksum,
        "a wrong content checksum": with_checksum[:-1] + bytes([with_checksum[-1] ^ 1]),
        "blocks of 4 MiB": _frame(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        "a block that is stored": _usual(blocks),
        "an end that claims to be stored": _frame(data)[:-1] + b"\x80",
    }


def damaged_frames(data: bytes) -> dict[str, bytes]:
    """Return frames of `data`, some thousand bytes at most, that Kafka refuses."""
    plain, checked = _frame(data), _frame(data, block_checksum=True)
    flags = [(0x61, 0x40), (0x62, 0x40), (0xA0, 0x40), (0x60, 0x30), (0x60, 0x41), (0x60, 0xC0)]
    return {
        "a wrong block checksum": checked[:-5] + bytes([checked[-5] ^ 1]) + checked[-4:],
        "a content checksum that is missing": _frame(data, content_checksum=True)[:-4],
        "a wrong header checksum": plain[:6] + bytes([plain[6] ^ 1]) + plain[7:],
        "a block longer than its frame allows": _usual(_block(bytes(1 << 17), stored=True)),
        "a block that decompresses to more than its frame allows": _usual(_block(bytes(1 << 17), stored=False)),
        "a block that ends after the frame": plain[:HEADER_BYTES] + b"\xff\xff\0\0" + plain[11:],
        **{f"flags {first:#04x} {second:#04x}": _with_flags(plain, first, second) for first, second in flags},
    }


def _frame(data: bytes, **settings: Any) -> bytes:
    usual = {"block_size": lz4.frame.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}
    return bytes(lz4.frame.compress(data, **usual | settings))


def _usual(blocks: bytes) -> bytes:
    """Return a frame of blocks, with the header of the usual settings."""
    return _frame(b"")[:HEADER_BYTES] + blocks + bytes(4)


def _block(data: bytes, *, stored: bool) -> bytes:
    block = data if stored else bytes(cramjam.lz4.compress_block(data, store_size=False))
    return (len(block) | (STORED if stored else 0)).to_bytes(4, "little") + block


def _with_flags(frame: bytes, first: int, second: int) -> bytes:
    """Return a frame with other flags, and the header checksum that fits them."""
    flags = bytes([first, second])
    return frame[:FLAGS_AT] + flags + bytes([lz4_checksum(flags)]) + frame[HEADER_BYTES:]


def _with_size(frame: bytes, size: int) -> bytes:
    """Return a frame with another content size, and the header checksum that fits it."""
    header = frame[FLAGS_AT:6] + size.to_bytes(8, "little")
    return frame[:FLAGS_AT] + header + bytes([lz4_checksum(header)]) + frame[15:]
