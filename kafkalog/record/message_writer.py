"""`MessageWriter`: a stream for messages of formats 0 and 1, with checksum and length filled in afterwards.

    crc uint32 (reserved) | magic int8 | attributes int8 | v1: timestamp int64 | key length int32, key |
    value length int32 (reserved) | value, written by the caller

Source: core/.../message/MessageWriter.scala (0.10).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, cast, overload

from kafkalog._speedups.arguments import EPOCH_MS, INT64_MAX, member, whole
from kafkalog._speedups.checksum import crc32
from kafkalog._speedups.output_stream import BufferingOutputStream
from kafkalog.attributes import CodecName, CompressionType, TimestampType
from kafkalog.record.records_builder import BatchSettings

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class MessageWriter(BufferingOutputStream):
    """MessageWriter(segment_size): a `BufferingOutputStream` that writes messages.

    Raises:
        ValueError: `segment_size` is less than 1.
    """

    @contextmanager
    def with_crc32_prefix(self) -> Iterator[None]:
        """Reserve four bytes and set them to the CRC-32 of the bytes written in the `with` block. It may be nested."""
        checksum = self.reserve(4)
        start = self.size
        yield
        value = 0
        for piece in self.pieces(start):
            value = crc32(piece, value)
        checksum.write_int(value)

    @contextmanager
    def with_length_prefix(self) -> Iterator[None]:
        """Reserve four bytes and set them to the number of bytes written in the `with` block. It may be nested.

        Raises:
            OverflowError: 2**31 bytes or more were written in the block.
        """
        length = self.reserve(4)
        start = self.size
        yield
        length.write_int(_int32(self.size - start))

    @overload
    def write(self, data: "ReadableBuffer", offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None: ...
    @overload
    def write(
        self,
        *,
        key: "ReadableBuffer | None" = None,
        compression_type: CompressionType | CodecName = CompressionType.NONE,
        timestamp: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        magic: int = 1,
        payload: "ReadableBuffer | Callable[[MessageWriter], object] | None" = None,
    ) -> None: ...
    def write(
        self,
        data: "ReadableBuffer | None" = None,
        offset: SupportsIndex = 0,
        length: SupportsIndex | None = None,
        **message: Any,
    ) -> None:
        """Write data[offset:offset + length] or, given only keyword arguments, a message without its offset and size.

        After an error nothing has been written, with one exception: a payload that raises leaves a message with zeros
        for its length and checksum, and the stream must not be used any more.

        Args:
            data: Bytes to write.
            offset: The first byte of `data` to write.
            length: The number of bytes to write; None = all.
            **message: The fields of a message. `key`: bytes, None = null. `compression_type`: the codec with which
                `payload` is already compressed; nothing is compressed here. `timestamp`: ms, -1 = none.
                `timestamp_type`: its origin. `magic`: 0 or 1; format 0 ignores timestamp and type. `payload`: the
                value, None = null, or a callable that writes it to this stream and whose result is ignored.

        Raises:
            IndexError: `data` does not contain the range.
            TypeError: Both data and a message, or neither, or not bytes.
            ValueError: The magic is not 0 or 1, the timestamp is less than -1, or the magic does not have the codec or
                timestamp type.
            OverflowError: A key or value of 2**31 bytes or more.
        """
        if message:
            if data is not None or length is not None or index(offset):
                raise TypeError("write takes either bytes or the keyword arguments of a message, not both")
            self._write_message(**message)
        else:
            super().write(cast("ReadableBuffer", data), offset, length)

    def _write_message(
        self,
        *,
        key: "ReadableBuffer | None" = None,
        compression_type: CompressionType | CodecName = CompressionType.NONE,
        timestamp: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        magic: int = 1,
        payload: "ReadableBuffer | Callable[[MessageWriter], object] | None" = None,
    ) -> None:
        magic = whole("magic", magic, 0, 1)
        timestamp = whole("timestamp", timestamp, -1, INT64_MAX, EPOCH_MS)
        compression_type = member("compression_type", compression_type, CompressionType)
        timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
        settings = BatchSettings(magic, compression_type, timestamp_type=timestamp_type, log_append_time=0)
        key = _bytes(key)
        value = None if callable(payload) else _bytes(payload)
        with self.with_crc32_prefix():
            self.write_byte(magic)
            self.write_byte(settings.attributes)
            if magic > 0:
                self.write_long(timestamp)
            self._write_sized(key)
            if not callable(payload):
                self._write_sized(value)
                return
            with self.with_length_prefix():
                payload(self)

    def _write_sized(self, data: memoryview | None) -> None:
        if data is None:
            self.write_int(-1)
            return
        self.write_int(len(data))
        super().write(data)


def _bytes(data: "ReadableBuffer | None") -> memoryview | None:
    """Return the bytes as a view, after checking that their length fits into a message."""
    if data is None:
        return None
    view = memoryview(data).cast("B")
    _int32(len(view))
    return view


def _int32(length: int) -> int:
    if length >= 2**31:
        raise OverflowError(f"{length} bytes exceed the largest length field, 2**31 - 1")
    return length
