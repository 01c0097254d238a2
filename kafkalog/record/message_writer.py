"""`MessageWriter`: messages of formats 0 and 1 written as they come, checksum and length filled in afterwards.

    crc uint32 (reserved) | magic int8 | attributes int8 | v1: timestamp int64 | key length int32, key |
    value length int32 (reserved) | value, written by whoever has it

Source: core/.../message/MessageWriter.scala (0.10).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from kafkalog._speedups.checksum import crc32
from kafkalog._speedups.output_stream import BufferingOutputStream
from kafkalog.attributes import LOG_APPEND_TIME_BIT, CompressionType, TimestampType

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class MessageWriter(BufferingOutputStream):
    """A stream of linked segments of `segment_size` bytes that knows how a message begins.

    ValueError: segment_size < 1.
    """

    @contextmanager
    def with_crc32_prefix(self) -> Iterator[None]:
        """Four bytes that hold the CRC-32 of everything written inside the block. May be nested."""
        checksum = self.reserve(4)
        start = self.size
        yield
        value = 0
        for piece in self.pieces(start):
            value = crc32(piece, value)
        checksum.write_int(value)

    @contextmanager
    def with_length_prefix(self) -> Iterator[None]:
        """Four bytes that hold how many are written inside the block. May be nested."""
        length = self.reserve(4)
        start = self.size
        yield
        length.write_int(self.size - start)

    @overload
    def write(self, data: "ReadableBuffer", offset: int = 0, length: int | None = None) -> None: ...
    @overload
    def write(
        self,
        *,
        key: "ReadableBuffer | None" = None,
        compression_type: CompressionType = CompressionType.NONE,
        timestamp: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        magic: int = 1,
        payload: "ReadableBuffer | Callable[[MessageWriter], object] | None" = None,
    ) -> None: ...
    def write(
        self, data: "ReadableBuffer | None" = None, offset: int = 0, length: int | None = None, **message: Any
    ) -> None:
        """Bytes, data[offset:offset + length]; or, by keywords alone, one message without its offset and size.

        key: bytes or None. timestamp: ms. payload: the value, None = null, or a callable that writes it to this stream.
        IndexError: a range that `data` does not hold. ValueError: a magic other than 0 and 1, a timestamp less than
        -1, zstd. A payload that raises leaves a message with zeros for its length and checksum: the stream is then of
        no more use.
        """
        if data is not None:
            super().write(data, offset, length)
            return
        self._write_message(**message)

    def _write_message(
        self,
        *,
        key: "ReadableBuffer | None" = None,
        compression_type: CompressionType = CompressionType.NONE,
        timestamp: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        magic: int = 1,
        payload: "ReadableBuffer | Callable[[MessageWriter], object] | None" = None,
    ) -> None:
        _check(magic, compression_type, timestamp)
        with self.with_crc32_prefix():
            self.write_byte(magic)
            self.write_byte(_attributes(magic, compression_type, timestamp_type))
            if magic > 0:
                self.write_long(timestamp)
            self._write_sized(key)
            if not callable(payload):
                self._write_sized(payload)
                return
            with self.with_length_prefix():
                payload(self)

    def _write_sized(self, data: "ReadableBuffer | None") -> None:
        if data is None:
            self.write_int(-1)
            return
        view = memoryview(data).cast("B")
        self.write_int(len(view))
        super().write(view)


def _check(magic: int, compression_type: CompressionType, timestamp: int) -> None:
    if magic not in (0, 1):
        raise ValueError(f"a message has magic 0 or 1, not {magic}")
    if timestamp < -1:
        raise ValueError(f"the timestamp is {timestamp}; at least 0, or -1 for none")
    if compression_type is CompressionType.ZSTD:
        raise ValueError(f"magic {magic} does not support ZStandard compression")


def _attributes(magic: int, compression_type: CompressionType, timestamp_type: TimestampType) -> int:
    log_append = magic > 0 and timestamp_type is TimestampType.LOG_APPEND_TIME
    return int(compression_type) | (LOG_APPEND_TIME_BIT if log_append else 0)
