"""Search for the next batch among bytes whose framing is lost.

    ... sound batch | zeros, garbage, a wrong size field ...... | sound batch ...
                                                                ^ the next position with a plausible header and a
                                                                valid checksum

All positions of a window are tested at once. Comparisons of a few single bytes exclude nearly all of them, the size and
the fixed fields exclude nearly all of the rest, and the checksum decides. The search of a file takes time linear in its
size, whatever its bytes are.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CompressionType
from kafkalog.fsck.range_checksums import CRC32, CRC32C, CRC_FUNCTIONS, RangeChecksums
from kafkalog.record import layout

WINDOW_BYTES = 256 * 1024
_LONGEST_HEADER = 64
_PIECE_BYTES = 1 << 20
# Converting the whole window first is cheaper if more than one position in so many is a candidate.
_DENSE = 8
# The distance in bytes from the last search from which a search computes checksums from its own start.
_FAR = 8 << 20

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Viewed(Protocol):
    """A file that is read in chunks."""

    def view(self, position: int, length: int) -> memoryview:
        """Return the bytes [position, position + length)."""


class _Window(NamedTuple):
    """The positions of the sound entries that begin in [start, end)."""

    start: int
    end: int
    found: Places


class SoundEntries:
    """The entries of a file, up to `end`, with a plausible header and a valid checksum, at any position."""

    def __init__(self, file: Viewed, end: int) -> None:
        self._file = file
        self._end = end
        self._window = _Window(0, 0, np.empty(0, np.int64))
        self._ranges: dict[int, RangeChecksums] = {}

    def first(self, start: int, stop: int) -> int | None:
        """Return the position of the first entry that begins in [start, stop), or None.

        Calls with rising `start` read each byte of the file once.
        """
        while start < stop:
            if not self._window.start <= start < self._window.end:
                self._window = self._window_at(start)
            i = int(np.searchsorted(self._window.found, start))
            if i < len(self._window.found):
                place = int(self._window.found[i])
                return place if place < stop else None
            start = self._window.end
        return None

    def checksum(self, row: np.void) -> int:
        """Compute the checksum of a row's entry in bounded memory; `first_invalid` is cheaper for entries in memory."""
        start, size = int(row["position"]), int(row["size_in_bytes"])
        polynomial, _, skipped = crc_field(row["magic"])
        return self.range_checksum(start + skipped, start + size, polynomial)

    def range_checksum(self, start: int, end: int, polynomial: int) -> int:
        """Compute the checksum of the bytes [start, end)."""
        ranges = self._ranges.get(polynomial)
        # Before the first search no byte is read twice, so cached checksums would not pay.
        if ranges is None or start < ranges.origin:
            return self._stream(start, end, polynomial)
        return int(ranges.of(np.array([start]), np.array([end]))[0])

    def _stream(self, start: int, end: int, polynomial: int) -> int:
        crc, value = CRC_FUNCTIONS[polynomial], 0
        for at in range(start, end, _PIECE_BYTES):
            value = crc(self._file.view(at, min(_PIECE_BYTES, end - at)), value)
        return value

    def _window_at(self, start: int) -> _Window:
        length = min(WINDOW_BYTES, self._end - start)
        held = np.frombuffer(self._file.view(start, min(length + _LONGEST_HEADER, self._end - start)), np.uint8)
        # One repeated byte is never a header: its size would be 0, negative or that of its own key.
        if (held == held[0]).all():
            return _Window(start, start + length, np.empty(0, np.int64))
        data = np.concatenate([held, np.zeros(length + _LONGEST_HEADER - len(held), np.uint8)])
        places = _plausible(data, length, self._end - start)
        magics = data[places + layout.MAGIC_AT]
        batches = self._with_right_checksum(_batches(data, places[magics == 2]), data, start, 2)
        messages = self._with_right_checksum(_messages(data, places[magics < 2]), data, start, 1)
        return _Window(start, start + length, np.sort(np.concatenate([batches, messages])) + start)

    def _with_right_checksum(self, places: Places, data: NDArray[np.uint8], start: int, magic: int) -> Places:
        """Return those of `places` whose checksum holds; data[0] is at position `start`."""
        polynomial, crc_at, crc_from = crc_field(magic)
        ranges = self._ranges_from(start, polynomial)
        if not len(places):
            return places
        ends = places + layout.LOG_OVERHEAD + _int32(data, places + layout.SIZE_AT)
        stored = _int32(data, places + crc_at) & 0xFFFFFFFF
        holds: Flags = ranges.of(places + crc_from + start, ends + start) == stored.astype(np.uint64)
        return places[holds]

    def _ranges_from(self, start: int, polynomial: int) -> RangeChecksums:
        ranges = self._ranges.get(polynomial)
        if ranges is None or start < ranges.origin or start > ranges.reached + _FAR:
            ranges = RangeChecksums(self._file.view, start, self._end, polynomial)
            self._ranges[polynomial] = ranges
        return ranges


def crc_field(magic: int) -> tuple[int, int, int]:
    """Return the polynomial of a format's checksum, its position in an entry, and that of the first byte it covers."""
    if magic >= 2:
        return CRC32C, layout.BATCH_CRC_AT, layout.BATCH_CRC_FROM
    return CRC32, layout.MESSAGE_CRC_AT, layout.MESSAGE_CRC_FROM


def _plausible(data: NDArray[np.uint8], length: int, left: int) -> Places:
    """Return the indexes in data[:length] with plausible magic, attributes and size of an entry.

    Args:
        data: The bytes.
        length: The number of positions to test.
        left: The number of bytes up to the end of the file, which the entry must not exceed.
    """

    def byte(at: int) -> NDArray[np.uint8]:
        return data[at : at + length]

    magic = byte(layout.MAGIC_AT)
    batch = (magic == 2) & (byte(layout.BATCH_ATTRIBUTES_AT) == 0) & (byte(layout.BATCH_ATTRIBUTES_AT + 1) < 0x80)
    message = (magic < 2) & (byte(layout.MESSAGE_ATTRIBUTES_AT) < 0x10)
    places: Places = np.flatnonzero((batch | message) & (byte(layout.SIZE_AT) <= min(left >> 24, 0x7F)))
    sizes = _int32(data, places + layout.SIZE_AT)
    return places[(sizes >= layout.RECORD_OVERHEAD_V0) & (places + layout.LOG_OVERHEAD + sizes <= left)]


def _batches(data: NDArray[np.uint8], places: Places) -> Places:
    """Return those of `places` with plausible fixed fields of a v2 batch."""
    delta = _int32(data, places + layout.BATCH_LAST_OFFSET_DELTA_AT)
    count = _int32(data, places + layout.BATCH_RECORDS_COUNT_AT)
    codec = data[places + layout.BATCH_ATTRIBUTES_AT + 1] & layout.CODEC_MASK
    size = layout.LOG_OVERHEAD + _int32(data, places + layout.SIZE_AT)
    sensible = (codec <= CompressionType.ZSTD) & (delta >= 0) & (count >= 0) & (count <= delta + 1)
    return places[sensible & (size >= layout.RECORD_BATCH_OVERHEAD)]


def _messages(data: NDArray[np.uint8], places: Places) -> Places:
    """Return those of `places` where key and value fill a v0/v1 message exactly, as far as `data` shows."""
    magic = data[places + layout.MAGIC_AT]
    key_at = places + np.array(layout.MESSAGE_KEY_AT)[magic]
    # The bytes of key and value, without the two fields of their lengths.
    sizes = places + layout.LOG_OVERHEAD + _int32(data, places + layout.SIZE_AT) - key_at - 8
    key = _int32(data, np.minimum(key_at, len(data) - 4))
    codec = data[places + layout.MESSAGE_ATTRIBUTES_AT] & layout.CODEC_MASK
    fits = (codec <= CompressionType.LZ4) & (sizes >= 0) & (key >= -1) & (key <= sizes)
    places, sizes, key_at, key = places[fits], sizes[fits], key_at[fits], np.maximum(key[fits], 0)
    value_at = key_at + 4 + key
    seen = value_at <= len(data) - 4
    value = _int32(data, np.where(seen, value_at, 0))
    filled: Flags = ~seen | ((value >= -1) & (np.maximum(value, 0) == sizes - key))
    whole: Places = places[filled]
    return whole


def _int32(data: NDArray[np.uint8], places: Places) -> Places:
    """Return the big-endian int32 at each of `places`."""
    everywhere: NDArray[Any] = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))
    if len(places) > len(data) // _DENSE:
        everywhere = everywhere.astype(np.int32)
    values: Places = everywhere[places].astype(np.int64)
    return values
