from typing import SupportsIndex, final

from _typeshed import ReadableBuffer, SupportsWrite, WriteableBuffer
from typing_extensions import disjoint_base

@disjoint_base
class _Output:
    """The base class of `BufferingOutputStream` and `ReservedOutput`."""

    @property
    def segment_size(self) -> int: ...
    def write(self, data: ReadableBuffer, offset: SupportsIndex = 0, length: SupportsIndex | None = None) -> None:
        """Write data[offset:offset + length].

        Args:
            data: An object with a contiguous buffer.
            offset: The index of the first byte.
            length: The number of bytes; None: all bytes from `offset` on.

        Raises:
            IndexError: The range is not inside `data`.
        """
    def write_byte(self, value: SupportsIndex) -> None:
        """Write an 8-bit integer, signed or unsigned.

        Args:
            value: The integer, -128..255.

        Raises:
            OverflowError: The integer is out of range.
        """
    def write_short(self, value: SupportsIndex) -> None:
        """Write a 16-bit integer, signed or unsigned.

        Args:
            value: The integer, -2**15..2**16 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
    def write_int(self, value: SupportsIndex) -> None:
        """Write a 32-bit integer, signed or unsigned.

        Args:
            value: The integer, -2**31..2**32 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
    def write_long(self, value: SupportsIndex) -> None:
        """Write a signed 64-bit integer.

        Args:
            value: The integer, -2**63..2**63 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
    def write_varint(self, value: SupportsIndex) -> None:
        """Write a signed 32-bit integer as a varint of one to five bytes.

        Args:
            value: The integer, -2**31..2**31 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
    def write_varlong(self, value: SupportsIndex) -> None:
        """Write a signed 64-bit integer as a varint of one to ten bytes.

        Args:
            value: The integer, -2**63..2**63 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """

class BufferingOutputStream(_Output):
    """A stream of bytes in memory, in segments of a fixed size.

    Args:
        segment_size: The size of a segment, bytes.

    Attributes:
        segment_size: The size of a segment, bytes.

    Raises:
        ValueError: `segment_size` is less than 1.
    """

    def __init__(self, segment_size: int) -> None: ...
    @property
    def size(self) -> int:
        """The number of bytes written."""
    def skip(self, length: SupportsIndex) -> None:
        """Write zero bytes.

        Args:
            length: Their number.

        Raises:
            IndexError: `length` is negative.
        """
    def reserve(self, length: SupportsIndex) -> ReservedOutput:
        """Write zero bytes and return a `ReservedOutput` that overwrites them.

        Args:
            length: Their number.

        Raises:
            IndexError: `length` is negative.
        """
    def pieces(self, start: SupportsIndex = 0) -> list[memoryview]:
        """Return the bytes from `start` on without copying them.

        Args:
            start: The number of bytes to leave out.

        Returns:
            A read-only memoryview of each segment. It stays valid, and shows bytes that are overwritten later.

        Raises:
            IndexError: `start` is negative or greater than `size`.
        """
    def to_bytes(self) -> bytes:
        """Return a copy of all bytes written."""
    def write_to(self, target: WriteableBuffer | SupportsWrite[bytes | memoryview]) -> int:
        """Copy all bytes to a buffer or a file.

        Args:
            target: A writable buffer, whose first bytes are overwritten, or a binary file.

        Returns:
            The number of bytes.

        Raises:
            IndexError: The buffer is too small; nothing is written.
            BlockingIOError: The file accepts no more; `characters_written` is the number of bytes it accepted.
            OSError: Writing to the file failed.
        """
    def __len__(self) -> int: ...

@final
class ReservedOutput(_Output):
    """Reserved bytes of a `BufferingOutputStream`, which are overwritten in order.

    A method that writes raises IndexError, and writes nothing, if its bytes are more than `remaining`.

    Attributes:
        remaining: The number of reserved bytes that have not been overwritten.
        segment_size: The size of a segment of the stream, bytes.
    """

    @property
    def remaining(self) -> int: ...

def count_taken(target: object, answer: int | None, length: int) -> int:
    """Return the number of bytes that a file or socket has accepted, from the result of its `write` or `send`.

    Args:
        target: The file or socket.
        answer: The result. None means that a non-blocking raw file has accepted nothing, and that any other object,
            which does not return a number, has accepted all bytes.
        length: The number of bytes that were passed.

    Raises:
        OSError: The result is negative, or larger than `length`.
    """
