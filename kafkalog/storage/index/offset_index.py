"""`OffsetIndex` and `TimeIndex`: where in a segment to begin looking for an offset, or for a time.

    .index      4 B  offset - base offset      4 B  position in the log file       both rise
    .timeindex  8 B  timestamp, ms             4 B  offset - base offset           the timestamp rises

Big-endian. Sparse: one entry for some thousand bytes of log. The files of the segment that is written to are made as
long as they may become (`max_size`) and zero filled, and cut to their entries when the segment is sealed or closed; an
index left by a crash is therefore full of zeros behind its entries. Nothing in the file says how many there are: a
writer takes every slot of a file it finds for an entry (and rebuilds the file after a crash), a reader of somebody
else's file ends where the entries stop rising.

The time index keeps its last slot for the entry that is made when the segment is sealed: it is full one entry earlier.

Source: storage/.../log/AbstractIndex.java, OffsetIndex.java, TimeIndex.java.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import CorruptIndexError, LogStateError
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.storage.index.abstract_index import MAX_INT, Index, OffsetEntry, TimestampEntry
from kafkalog.storage.index.index_file import Field, IndexFile

__all__ = ["MAX_INT", "OffsetEntry", "OffsetIndex", "TimeIndex", "TimestampEntry", "entries_near"]


class OffsetIndex(Index[OffsetEntry]):
    """Offset to position in the log file."""

    _LAYOUT = Struct(">ii")
    _ROW = np.dtype([("first", ">i4"), ("second", ">i4")])
    _OFFSET = Field(0, 8)
    _POSITION = Field(4, 8)

    def _empty(self) -> OffsetEntry:
        return OffsetEntry(self.base_offset, 0)

    def _entry(self, first: int, second: int) -> OffsetEntry:
        return OffsetEntry(self.base_offset + first, second)

    def _integers(self, entry: OffsetEntry) -> tuple[int, int]:
        return entry.offset - self.base_offset, entry.position

    def _offset_field(self) -> Field:
        return self._OFFSET

    def lookup(self, target_offset: int) -> OffsetEntry:
        """The last entry whose offset is at most the target; (base offset, 0) where there is none."""
        if not self._file.writable and target_offset > self._last.offset:
            self._follow()
        return self._floor(self._OFFSET, target_offset - self.base_offset) or self._empty()

    def fetch_upper_bound_offset(self, entry: OffsetEntry, fetch_size: int) -> OffsetEntry | None:
        """The first entry whose position is `fetch_size` bytes or more behind that of `entry`, if there is one.

        Its offset lies behind all that a read of so many bytes from there can give. Where that entry would be the very
        first of the index, and exactly so many bytes behind, it is the next one, as Kafka's search has it: readers
        are then told of the same aborted transactions.
        """
        end = entry.position + fetch_size
        with self._lock:
            n = self._file.count(self._POSITION, end - 1, self.entries) if self.entries else 0
            found = self._read(n) if n < self.entries else None
            if n == 0 and found is not None and found.position == end:
                found = self._read(1) if self.entries > 1 else None
        return found

    def rows(self) -> NDArray[np.int64]:
        """All entries, (offset, position), shape (n, 2)."""
        with self._lock:
            raw = self._file.read(0, self.entries * self._size)
        entries = np.frombuffer(raw, ">i4", len(raw) // self._size * 2).reshape(-1, 2).astype(np.int64)
        entries[:, 0] += self.base_offset
        return entries

    def append(self, offset: int, position: int) -> None:
        """Add the batch whose last offset is `offset` and which starts at `position` (bytes).

        ValueError: the index is full, or the position is not in 0..2**31 - 1. InvalidOffsetError: the offset is not
        larger than the last one. SegmentOffsetOverflowError: it is too far from the base offset. OSError: the disk is
        full. Whatever is raised, the index is as it was.
        """
        with self._lock:
            if self.entries >= self.max_entries:
                self._refuse_full()
            if self.entries and offset <= self._last.offset:
                self._refuse_offset(offset, f"more than {self._last.offset}")
            relative = self._relative(offset)
            if not 0 <= position <= MAX_INT:
                raise ValueError(f"position {position} is not in 0..{MAX_INT}")
            self._put(OffsetEntry(offset, position), self._LAYOUT.pack(relative, position))

    def append_all(self, offsets: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
        """Add many entries in less time. Raises as `append`, after those before the one that cannot be added."""
        with self._lock:
            relative = offsets - self.base_offset
            least = self._last.offset + 1 - self.base_offset if self.entries else 0
            fits = len(offsets) <= self.max_entries - self.entries and _rises(relative, least, strictly=True)
            if fits and _rises(positions, 0):
                self._put_all(relative, positions)
                return
            for offset, position in zip(offsets.tolist(), positions.tolist(), strict=True):
                self.append(offset, position)

    def sanity_check(self) -> None:
        """CorruptIndexError: the last offset is before the base, or the file is no whole number of entries."""
        with self._lock:
            self._check_last_offset()
            self._check_length()


def entries_near(path: Path, base_offset: int, positions: Iterable[int]) -> list[OffsetEntry]:
    """Return, of somebody else's offset index, the last entry at or before each of some positions, each of them once.

    An index of a segment of a gigabyte has megabytes: only what a binary search looks at is read of it. Whoever uses an
    entry looks at the batch.

    Args:
        path: The index, which need not be there.
        base_offset: Of the segment.
        positions: In the log file, rising.

    Raises:
        CorruptIndexError: It is no regular file.
    """
    layout, field = OffsetIndex._LAYOUT, OffsetIndex._POSITION
    file = IndexFile(path, writable=False, new_length=0)
    entries = file.length // layout.size
    if entries and not any(file.read((entries - 1) * layout.size, layout.size)):
        # Empty slots follow the entries, among which a search would get lost.
        entries = OffsetIndex(path, base_offset, writable=False).entries
    found: dict[int, OffsetEntry] = {}
    for position in positions:
        raw = file.floor(field, position, entries) if entries else b""
        if raw:
            relative, at = layout.unpack(raw)
            found[at] = OffsetEntry(base_offset + relative, at)
    return [found[at] for at in sorted(found)]


class TimeIndex(Index[TimestampEntry]):
    """Timestamp to offset. Where there is no entry, (-1, base offset) stands for the last one."""

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

    def _offset_field(self) -> Field:
        return self._OFFSET

    def lookup(self, timestamp: int) -> TimestampEntry:
        """The last entry whose timestamp (ms) is at most the given one; (-1, base offset) where there is none."""
        if not self._file.writable and timestamp > self._last.timestamp:
            self._follow()
        return self._floor(self._TIMESTAMP, timestamp) or self._empty()

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if its timestamp (ms) is larger than the last one; the same one again is left out.

        skip_full_check: use the slot that is kept for the last entry of a segment. ValueError: the index is full.
        InvalidOffsetError: the offset is before the last one. LogStateError: the timestamp is before the last one.
        SegmentOffsetOverflowError, OSError: as `OffsetIndex.append`. Whatever is raised, the index is as it was.
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
        """The same with many, in less time. Raises as `maybe_append`, after those before."""
        with self._lock:
            last = self._last
            new = timestamps > np.concatenate(([last.timestamp], timestamps[:-1]))
            relative = offsets - self.base_offset
            least = last.offset - self.base_offset if self.entries else 0
            rise = _rises(timestamps, last.timestamp, most=INT64_MAX) and _rises(relative, least)
            if rise and self.entries + int(new.sum()) < self.max_entries - self._KEPT:
                self._put_all(timestamps[new], relative[new])
                return
            for timestamp, offset in zip(timestamps.tolist(), offsets.tolist(), strict=True):
                self.maybe_append(timestamp, offset)

    def sanity_check(self) -> None:
        """CorruptIndexError: time or offset of the last entry is before the first, or entries are not whole."""
        with self._lock:
            first = self._read(0) if self.entries else None
            if first is not None and self._last.timestamp < first.timestamp:
                what, position = "the last timestamp is before the first", self.size_in_bytes - self._size
                found = self._last.timestamp
                raise CorruptIndexError(what, str(self.path), position, f"at least {first.timestamp}", found)
            self._check_last_offset()
            self._check_length()


def _rises(values: NDArray[np.int64], least: int, *, strictly: bool = False, most: int = MAX_INT) -> bool:
    if not len(values):
        return True
    steps = np.diff(values)
    rising = (steps > 0).all() if strictly else (steps >= 0).all()
    return bool(rising) and least <= int(values[0]) and int(values[-1]) <= most
