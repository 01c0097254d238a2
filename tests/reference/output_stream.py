"""`BufferingOutputStream` again: segments of one size, linked, each with a cursor that says how much of it is written.

    segment [written....|free] -> segment [written....|free] -> ...

All is reduced to writing single bytes. Whatever cannot be written whole raises before its first byte.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Segment:
    """Bytes, of which the first `written` are taken, and what follows."""

    bytes: bytearray
    written: int = 0
    next: Segment | None = None

    @property
    def free_space(self) -> int:
        return len(self.bytes) - self.written


class Output:
    """The writes that a stream and a reservation share."""

    def put(self, data: bytes) -> None:
        raise NotImplementedError

    def write(self, data: bytes, offset: int = 0, length: int | None = None) -> None:
        wanted = len(data) - offset if length is None else length
        if not (0 <= offset <= len(data) and wanted >= 0 and offset + wanted <= len(data)):
            raise IndexError
        self.put(bytes(data[offset : offset + wanted]))

    def write_byte(self, value: int) -> None:
        self.put(big_endian(value, 1))

    def write_short(self, value: int) -> None:
        self.put(big_endian(value, 2))

    def write_int(self, value: int) -> None:
        self.put(big_endian(value, 4))

    def write_long(self, value: int) -> None:
        self.put(value.to_bytes(8, "big", signed=True))

    def write_varint(self, value: int) -> None:
        self.put(varint(value, bits=32))

    def write_varlong(self, value: int) -> None:
        self.put(varint(value, bits=64))


class BufferingOutputStream(Output):
    """A stream of linked segments of `segment_size` bytes each."""

    def __init__(self, segment_size: int) -> None:
        if segment_size < 1:
            raise ValueError
        self.segment_size = segment_size
        self.size = 0
        self._first = self._last = Segment(bytearray(segment_size))

    def put(self, data: bytes) -> None:
        for byte in data:
            self._take_byte(byte)

    def _take_byte(self, byte: int) -> None:
        if not self._last.free_space:
            self._last.next = Segment(bytearray(self.segment_size))
            self._last = self._last.next
        self._last.bytes[self._last.written] = byte
        self._last.written += 1
        self.size += 1

    def skip(self, length: int) -> None:
        if length < 0:
            raise IndexError
        self.put(bytes(length))

    def reserve(self, length: int) -> ReservedOutput:
        segment, at = self._last, self._last.written
        self.skip(length)
        return ReservedOutput(segment, at, length)

    def pieces(self, start: int = 0) -> list[bytes]:
        """What each segment holds of the bytes from `start` on."""
        if not 0 <= start <= self.size:
            raise IndexError
        found = []
        segment: Segment | None = self._first
        while segment is not None:
            found.append(bytes(segment.bytes[min(start, segment.written) : segment.written]))
            start = max(0, start - segment.written)
            segment = segment.next
        return [piece for piece in found if piece]

    def to_bytes(self) -> bytes:
        return b"".join(self.pieces())


class ReservedOutput(Output):
    """Bytes that were stepped over, to be filled in order; they may lie in more than one segment."""

    def __init__(self, segment: Segment, at: int, length: int) -> None:
        self._segment = segment
        self._at = at
        self.remaining = length

    def put(self, data: bytes) -> None:
        if len(data) > self.remaining:
            raise IndexError
        for byte in data:
            self._fill_byte(byte)

    def _fill_byte(self, byte: int) -> None:
        if self._at == len(self._segment.bytes):
            assert self._segment.next is not None
            self._segment, self._at = self._segment.next, 0
        self._segment.bytes[self._at] = byte
        self._at += 1
        self.remaining -= 1


def big_endian(value: int, size: int) -> bytes:
    """`value` in `size` bytes, whether it is meant with a sign or without."""
    return value.to_bytes(size, "big", signed=value < 0)


def varint(value: int, bits: int) -> bytes:
    """Zig-zag LEB128: small numbers of either sign are short."""
    value.to_bytes(bits // 8, "big", signed=True)
    rest = (value << 1) ^ (value >> (bits - 1))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])
