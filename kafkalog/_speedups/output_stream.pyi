from typing import SupportsIndex, final

from _typeshed import ReadableBuffer, SupportsWrite, WriteableBuffer
from typing_extensions import disjoint_base

@disjoint_base
class _Output:
    """The methods that a stream and a reservation share."""

    @property
    def segment_size(self) -> int: ...
    def write(self, data: ReadableBuffer, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """Write data[offset:offset + length] of any object with a contiguous buffer; length None: to its end.

        Raises:
            IndexError: `data` does not contain the range.
        """
    def write_byte(self, value: SupportsIndex) -> None:
        """Write one byte, -128..255. OverflowError: outside of that."""
    def write_short(self, value: SupportsIndex) -> None:
        """Write two bytes, signed or unsigned. OverflowError: out of range."""
    def write_int(self, value: SupportsIndex) -> None:
        """Write four bytes, signed or unsigned. OverflowError: out of range."""
    def write_long(self, value: SupportsIndex) -> None:
        """Write eight bytes, signed. OverflowError: out of range."""
    def write_varint(self, value: SupportsIndex) -> None:
        """Write a signed 32-bit integer in one to five bytes. OverflowError: out of range."""
    def write_varlong(self, value: SupportsIndex) -> None:
        """Write a signed 64-bit integer in one to ten bytes. OverflowError: out of range."""

class BufferingOutputStream(_Output):
    """A stream of bytes in segments of one size.

    Attributes:
        segment_size: The size of the segments, bytes.

    Raises:
        ValueError: segment_size is less than 1.
    """

    def __init__(self, segment_size: int) -> None: ...
    @property
    def size(self) -> int:
        """The number of bytes written."""
    def skip(self, length: SupportsIndex) -> None:
        """Write `length` zeros. IndexError: `length` is negative."""
    def reserve(self, length: SupportsIndex) -> ReservedOutput:
        """Write `length` zeros and return a `ReservedOutput` that overwrites them. IndexError: `length` is negative."""
    def pieces(self, start: SupportsIndex = 0) -> list[memoryview]:
        """Return the bytes from `start` on as read-only memoryviews, one for each segment; they stay valid.

        Raises:
            IndexError: `start` is negative or greater than `size`.
        """
    def to_bytes(self) -> bytes:
        """Return a copy of all bytes written."""
    def write_to(self, target: WriteableBuffer | SupportsWrite[bytes | memoryview]) -> int:
        """Copy all bytes to the start of a writable buffer, or write them to a binary file. Return their number.

        Raises:
            IndexError: The buffer is shorter; nothing is written.
            BlockingIOError: The file accepts no more; `characters_written` is the number of bytes it accepted.
            OSError: Writing to the file failed.
        """
    def __len__(self) -> int: ...

@final
class ReservedOutput(_Output):
    """Reserved bytes of a stream, to be filled in order.

    Attributes:
        remaining: The number of bytes that are not filled yet.
        segment_size: The size of the segments of the stream, bytes.

    Raises:
        IndexError: More than `remaining` bytes are written; none of them is.
    """

    @property
    def remaining(self) -> int: ...

def count_taken(target: object, answer: int | None, length: int) -> int: ...
