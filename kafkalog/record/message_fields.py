"""`MessageFields`: a cursor over the fields of a message in Kafka's encoding, as in the values of its own topics.

                string                          array                            null   at the end of a structure
    plain       length int16, UTF-8             count int32, elements            -1     nothing
    flexible    length + 1 varint, UTF-8        count + 1 varint, elements       0      number of tagged fields varint,
                                                                                        then of each: tag, size, content
Numbers are big-endian, a UUID is 16 bytes. Varints are unsigned here, not zigzag.
Source: clients/.../common/protocol/ByteBufferAccessor.java and the generated message classes.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Self, TypeVar

from kafkalog.errors import InvalidRecordError

Present = TypeVar("Present", int, str)

UUID_BYTES = 16
_INT16_BYTES, _INT32_BYTES = 2, 4


class MessageFields:
    """A cursor over bytes. Each method raises InvalidRecordError if the bytes that it needs are not there.

    Attributes:
        is_flexible: Whether lengths are varints.
    """

    def __init__(self, data: bytes, *, is_flexible: bool = True) -> None:
        self.is_flexible = is_flexible
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """The number of bytes that were not read."""
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= length <= self.left:
            expected = f"{self._at + length} bytes" if length >= 0 else "a length of 0 or more"
            found = len(self._data) if length >= 0 else length
            raise InvalidRecordError("a message ends too early", expected=expected, found=found)
        self._at += length
        return self._data[self._at - length : self._at]

    def integer(self, size: int, *, signed: bool = True) -> int:
        """Return an integer of `size` bytes."""
        return int.from_bytes(self.take(size), "big", signed=signed)

    def varint(self) -> int:
        """Return an unsigned varint of at most 5 bytes."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise InvalidRecordError("a varint of a message is too long", expected="at most 5 bytes")

    def count(self) -> int | None:
        """Return the number of elements of an array, or the length of bytes; None for null."""
        return self._length(_INT32_BYTES)

    def string(self) -> str | None:
        """Return a string, as Java with a replacement for what is not UTF-8; None for null."""
        length = self._length(_INT16_BYTES)
        return None if length is None else self.take(length).decode(errors="replace")

    def uuid(self) -> str:
        """Return a UUID as Kafka writes it: base64url without padding."""
        return urlsafe_b64encode(self.take(UUID_BYTES)).rstrip(b"=").decode()

    def tagged(self) -> Iterator[tuple[int, Self]]:
        """Yield the tag and the content of each tagged field at the end of a flexible structure."""
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            yield tag, type(self)(self.take(size))

    def _length(self, size: int) -> int | None:
        length = self.varint() - 1 if self.is_flexible else self.integer(size)
        return None if length < 0 else length


def present(found: Present | None) -> Present:
    """Return a string, or the count of an array, that must not be null.

    Raises:
        InvalidRecordError: It is null.
    """
    if found is None:
        raise InvalidRecordError("a message has null instead of a list or a string")
    return found
