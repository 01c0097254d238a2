"""`OffsetIndex`: where in a segment to begin looking for an offset.

    .index      4 B  offset - base offset      4 B  position in the log file       both rise

Big-endian. Sparse: one entry for some thousand bytes of log. The files of the segment that is written to are made as
long as they may become (`max_size`) and zero filled, and cut to their entries when the segment is sealed or closed; an
index left by a crash is therefore full of zeros behind its entries. Nothing in the file says how many there are: a
writer takes every slot of a file it finds for an entry (and rebuilds the file after a crash), a reader of somebody
else's file ends where the entries stop rising.

Source: storage/.../log/AbstractIndex.java, OffsetIndex.java.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from kafkalog.storage.index.abstract_index import MAX_INT, Index, OffsetEntry, is_rising
from kafkalog.storage.index.index_file import Field, IndexFile

__all__ = ["OffsetEntry", "OffsetIndex", "entries_near"]


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
            fits = len(offsets) <= self.max_entries - self.entries and is_rising(relative, least, strictly=True)
            if fits and is_rising(positions, 0):
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
