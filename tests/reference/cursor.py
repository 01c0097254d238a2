"""A place in a buffer and the end it must not pass.

All fixed-width integers are big-endian two's complement. A varint is zigzag LEB128: seven bits a byte, the lowest
first, bit 7 set on every byte but the last; at most 5 bytes for 32 bits and 10 for 64. The last byte of the longest
form carries more bits than fit: Kafka drops them, so do we.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.codes import DamageError, FaultCode

INT32_BYTES, INT64_BYTES = 4, 8


def wrap(number: int, bits: int) -> int:
    """`number` as a signed integer of `bits` bits, as Java's arithmetic leaves it."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def zigzag_decoded(number: int, bits: int) -> int:
    """The signed value of an unsigned zigzag `number`, bits beyond the width dropped."""
    number &= (1 << bits) - 1
    return (number >> 1) ^ -(number & 1)


class Cursor:
    """Reads `buffer[at:end]` from the front; every read checks that it stays inside."""

    def __init__(self, buffer: Sequence[int], at: int, end: int) -> None:
        self.buffer, self.at, self.end = buffer, at, end

    @property
    def left(self) -> int:
        return self.end - self.at

    def skip(self, length: int) -> int:
        """Steps over `length` bytes and answers where they start."""
        if length > self.left:
            raise DamageError(FaultCode.UNDERRUN, self.at, length, self.left)
        start = self.at
        self.at += length
        return start

    def _fixed(self, length: int) -> int:
        start = self.skip(length)
        return int.from_bytes(bytes(self.buffer[start : start + length]), "big", signed=True)

    def int8(self) -> int:
        return self._fixed(1)

    def int32(self) -> int:
        return self._fixed(INT32_BYTES)

    def int64(self) -> int:
        return self._fixed(INT64_BYTES)

    def varint(self) -> int:
        return zigzag_decoded(self._leb128(most_bytes=5), bits=32)

    def varlong(self) -> int:
        return zigzag_decoded(self._leb128(most_bytes=10), bits=64)

    def _leb128(self, most_bytes: int) -> int:
        start, left = self.at, self.left
        number = 0
        for place in range(most_bytes):
            if place == left:
                raise DamageError(FaultCode.UNDERRUN, start, left + 1, left)
            byte = self.buffer[self.skip(1)]
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return number
        raise DamageError(FaultCode.VARINT_TOO_LONG, start, most_bytes, most_bytes + 1)
