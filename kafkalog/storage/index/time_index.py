"""`TimeIndex`: maps a timestamp to the offset at which to start scanning for it.

    .timeindex  8 B  timestamp, ms             4 B  offset - base offset           the timestamp rises

Big-endian, with the file layout of the offset index (`offset_index`). The last slot is reserved for the entry written
when the segment is sealed; the index is full one entry earlier.

Source: storage/.../log/TimeIndex.java.
"""

from struct import Struct

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import LogStateError
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.storage.index.abstract_index import Index, TimestampEntry, is_rising
from kafkalog.storage.index.index_file import Field

__all__ = ["TimeIndex", "TimestampEntry"]


class TimeIndex(Index[TimestampEntry]):
    """Maps timestamps to offsets. The placeholder for the last entry of an empty index is (-1, base offset)."""

    _LAYOUT = Struct(">qi")
    _ROW = np.dtype([("first", ">i8"), ("second", ">i4")])
    _KEPT = 1
    _TIMESTAMP = Field(0, 12, wide=True)
    _OFFSET = Field(8, 12)

    def _empty(self) -> TimestampEntry:
        return TimestampEntry(NO_TIMESTAMP, self.base_offset)

    def _entry(self, first: int, second: int) -> TimestampEntry:
        return TimestampEntry(first, self.base_offset + second)

    def _integers(self, entry: TimestampEntry) -> tuple[int, int]:
        return entry.timestamp, entry.offset - self.base_offset

    def lookup(self, timestamp: int) -> TimestampEntry:
        """Return the last entry whose timestamp (ms) is at most the given one; (-1, base offset) if there is none."""
        if not self.writable and timestamp > self._last.timestamp:
            self._follow()
        return self._floor(self._TIMESTAMP, timestamp) or self._empty()

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if its timestamp (ms) is larger than the last one; an equal one is skipped.

        After any error the index is unchanged.

        Args:
            timestamp: The timestamp, ms.
            offset: The offset of the record or batch that has it.
            skip_full_check: Allow use of the slot reserved for the last entry of a segment.

        Raises:
            ValueError: The index is full.
            InvalidOffsetError: The offset is before the last one.
            LogStateError: The timestamp is before the last one.
            SegmentOffsetOverflowError, OSError: As `OffsetIndex.append`.
        """
        with self._lock:
            if not skip_full_check and self.is_full:
                self._refuse_full()
            last = self._last
            if self.entries and offset < last.offset:
                self._refuse_offset(offset, f"at least {last.offset}")
            if self.entries and timestamp < last.timestamp:
                what = "the timestamp is before the last one of the index"
                raise LogStateError(what, str(self.path), self.size_in_bytes, f"at least {last.timestamp}", timestamp)
            if timestamp > last.timestamp:
                if self.entries >= self.max_entries:
                    self._refuse_full()
                raw = self._LAYOUT.pack(timestamp, self._relative(offset))
                self._put(TimestampEntry(timestamp, offset), raw)

    def maybe_append_all(self, timestamps: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        """Add many entries at once. Raises: as `maybe_append`; the entries before the invalid one are added."""
        with self._lock:
            last = self._last
            new = timestamps > np.concatenate(([last.timestamp], timestamps[:-1]))
            relative = offsets - self.base_offset
            least = last.offset - self.base_offset if self.entries else 0
            rise = is_rising(timestamps, last.timestamp, most=INT64_MAX) and is_rising(relative, least)
            if rise and self.entries + int(new.sum()) < self.max_entries - self._KEPT:
                self._put_all(timestamps[new], relative[new])
                return
            for timestamp, offset in zip(timestamps.tolist(), offsets.tolist(), strict=True):
                self.maybe_append(timestamp, offset)
