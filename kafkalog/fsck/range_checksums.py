"""Checksums of arbitrary ranges of a file, each in about the same time, however long the range is.

    block   block   block   block       the checksum of [origin, block) for each block border, computed once and cached
    |-------|--[----|--)----|
               start   end              crc(start, end) = crc(origin, end) xor moved(crc(origin, start), end - start)

A search through damaged bytes finds headers that claim any size. Reading the bytes of each claim would take quadratic
time on a file made for that; with cached checksums a file is read once. A CRC is a polynomial over GF(2) modulo another
one. Moving it over n zero bytes multiplies it by x to the power 8n (as zlib's crc32_combine does).
"""

from array import array
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kafkalog._speedups.checksum import crc32

BLOCK_BYTES = 16 * 1024
_READ_BYTES = 64 * BLOCK_BYTES
# Polynomials in zlib's bit order: the lowest bit is the highest power.
CRC32C = 0x82F63B78
CRC32 = 0xEDB88320
_ONE = 0x80000000
_BYTE_POWER = _ONE >> 8
_DIGIT_BITS = 11
_FEW = 16

Read = Callable[[int, int], memoryview]


# Functions (bytes, checksum of the bytes before) -> checksum.
CRC_FUNCTIONS: dict[int, Callable[[memoryview, int], int]] = {CRC32C: crc32c, CRC32: crc32}


class _Piece(NamedTuple):
    start: int
    data: memoryview


class RangeChecksums:
    """Checksums of ranges within [origin, end) of a file, which is read by calls of `read(position, length)`."""

    def __init__(self, read: Read, origin: int, end: int, polynomial: int) -> None:
        self.origin = origin
        self._read = read
        self._end = end
        self._polynomial = polynomial
        self._crc = CRC_FUNCTIONS[polynomial]
        self._marks = array("Q", [0])

    @property
    def reached(self) -> int:
        """The position up to which checksums are cached."""
        return self.origin + (len(self._marks) - 1) * BLOCK_BYTES

    def of(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the checksums of the ranges [starts[i], ends[i]), all within [origin, end)."""
        positions, places = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        prefixes: NDArray[np.uint64] = self._prefixes(positions)[places]
        before, whole = prefixes[: len(starts)], prefixes[len(starts) :]
        lengths = ends - starts
        if len(starts) > _FEW:
            moved: NDArray[np.uint64] = self._moved(before, lengths.astype(np.uint64))
        else:
            pairs = zip(before.tolist(), lengths.tolist(), strict=True)
            moved = np.array([self._moved(crc, length) for crc, length in pairs], np.uint64)
        return np.bitwise_xor(whole, moved)

    def _prefixes(self, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the checksums of [origin, position) for rising positions."""
        crcs = np.empty(len(positions), np.uint64)
        piece, at, crc = _Piece(-1, memoryview(b"")), -1, 0
        for i, position in enumerate(positions.tolist()):
            block = (position - self.origin) // BLOCK_BYTES
            start = self.origin + block * BLOCK_BYTES
            if start != piece.start:
                self._extend(block)
                piece = _Piece(start, self._read(start, min(BLOCK_BYTES, self._end - start)))
                at, crc = start, self._marks[block]
            crc = self._crc(piece.data[at - start : position - start], crc)
            at = position
            crcs[i] = crc
        return crcs

    def _extend(self, block: int) -> None:
        """Cache the checksums of [origin, border) for the borders up to the start of `block`."""
        while len(self._marks) <= block:
            start = self.reached
            wanted = (block + 1 - len(self._marks)) * BLOCK_BYTES
            piece = self._read(start, min(_READ_BYTES, wanted))
            for at in range(0, len(piece), BLOCK_BYTES):
                self._marks.append(self._crc(piece[at : at + BLOCK_BYTES], self._marks[-1]))

    def _moved(self, crc: Any, length: Any) -> Any:
        """Return `crc` moved over `length` zero bytes; both are integers, or both are arrays."""
        for digit, powers in enumerate(_powers(self._polynomial)):
            place = (length >> (digit * _DIGIT_BITS)) & ((1 << _DIGIT_BITS) - 1)
            factor = powers[place]
            crc = _times(crc, factor if isinstance(crc, np.ndarray) else int(factor), self._polynomial)
        return crc


def _times(a: Any, b: Any, polynomial: int) -> Any:
    """Return the product of two polynomials modulo a third; integers below 2**32, or uint64 arrays of them."""
    product = a & 0
    for bit in range(31, -1, -1):
        product = product ^ (b * ((a >> bit) & 1))
        b = (b >> 1) ^ (polynomial * (b & 1))
    return product


@cache
def _powers(polynomial: int) -> tuple[NDArray[np.uint64], ...]:
    """Return x to the power 8 * d * 2**(11 * place) for each digit d, base 2**11, of a length below 2**33.

    Returns:
        One array per place, shape (2**11,), indexed by the digit.
    """
    tables = []
    power = _BYTE_POWER
    for _ in range(3):
        table = np.array([_ONE], np.uint64)
        for _ in range(_DIGIT_BITS):
            table = np.concatenate([table, _times(table, np.full_like(table, power), polynomial)])
            power = _times(power, power, polynomial)
        tables.append(table)
    return tuple(tables)
