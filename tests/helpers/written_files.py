"""Entries to be appended to a file, and the offsets in it."""

from __future__ import annotations

from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet
from kafkalog.record.builder import BatchSettings, RecordsBuilder


def batch(offset: int, *values: bytes, magic: int = 2, codec: int = 0) -> ByteBufferMessageSet:
    """Return an entry of records with these values, or b"v"; a timestamp is ten times the offset."""
    builder = RecordsBuilder(BatchSettings(magic=magic, compression_type=CompressionType(codec), base_offset=offset))
    for i, value in enumerate(values or (b"v",)):
        builder.append(value, b"k", timestamp=10 * (offset + i))
    return ByteBufferMessageSet(bytes(builder.build()))


def sized_batch(offset: int, size: int = 100) -> ByteBufferMessageSet:
    """Return an entry of one record with a value of `size` bytes."""
    return batch(offset, bytes([offset % 251 + 1]) * size)


def offsets(messages: FileMessageSet) -> list[int]:
    return [record.offset for record in messages]
