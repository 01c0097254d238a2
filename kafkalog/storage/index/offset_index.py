"""`OffsetIndex`: maps an offset to the position in the segment at which to start scanning for it.

    .index      4 B  offset - base offset      4 B  position in the log file       both rise

Big-endian. Sparse: one entry for some thousand bytes of log. The indexes of the active segment are created with their
maximum size (`max_size`), zero filled, and cut after their entries when the segment is sealed or closed; an index left
by a crash is therefore full of zeros after its entries. The file does not store the number of entries: a writer counts
every slot of an existing file as an entry (and rebuilds the file after a crash), while a reader of another process's
file stops where the entries stop rising.

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
    """Maps offsets to positions in the log file."""

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

    def lookup(self, target_offset: int) -> OffsetEntry:
        """Return the last entry whose offset is at most the target; (base offset, 0) if there is none."""
        if not self.writable and target_offset > self._last.offset:
            self._follow()
        return self._floor(self._OFFSET, target_offset - self.base_offset) or self._empty()

    def fetch_upper_bound_offset(self, entry: OffsetEntry, fetch_size: int) -> OffsetEntry | None:
        """Return the first entry whose position is at least `fetch_size` bytes after that of `entry`, if there is one.

        No read of that many bytes from `entry` on reaches its offset. If that entry is the very first of the index, at
        exactly that distance, the next entry is returned, as by Kafka's search: readers then get the same aborted
        transactions.
        """
        end = entry.position + fetch_size
        with self._lock:
            n, _ = self.search(self._POSITION, end - 1, self.entries) if self.entries else (0, b"")
            found = self._read(n) if n < self.entries else None
            if n == 0 and found is not None and found.position == end:
                found = self._read(1) if self.entries > 1 else None
        return found

    def rows(self) -> NDArray[np.int64]:
        """Return all entries, (offset, position), as an array of shape (n, 2)."""
        entries = self.slots()[: self.entries]
        entries[:, 0] += self.base_offset
        return entries

    def append(self, offset: int, position: int) -> None:
        """Add an entry for the batch whose last offset is `offset` and whose position is `position` (bytes).

        After any error the index is unchanged.

        Raises:
            ValueError: The index is full, or the position is not in 0..2**31 - 1.
            InvalidOffsetError: The offset is not larger than the last one.
            SegmentOffsetOverflowError: The offset is too far from the base offset.
            OSError: The disk is full.
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
        """Add many entries at once. Raises: as `append`; the entries before the invalid one are added."""
        with self._lock:
            relative = offsets - self.base_offset
            least = self._last.offset + 1 - self.base_offset if self.entries else 0
            fits = len(offsets) <= self.max_entries - self.entries and is_rising(relative, least, strictly=True)
            if fits and is_rising(positions, 0):
                self._put_all(relative, positions)
                return
            for offset, position in zip(offsets.tolist(), positions.tolist(), strict=True):
                self.append(offset, position)


def entries_near(path: Path, base_offset: int, positions: Iterable[int]) -> list[OffsetEntry]:
    """Return the last index entry at or before each of some positions, without duplicates.

    The index may belong to another process, so that callers must check the batch an entry refers to. An index of a
    gigabyte segment has megabytes; only the parts that a binary search visits are read.

    Args:
        path: The index; it may be missing.
        base_offset: The base offset of the segment.
        positions: Positions in the log file, rising.

    Raises:
        CorruptIndexError: The path is not a regular file.
    """
    layout, field = OffsetIndex._LAYOUT, OffsetIndex._POSITION
    file = IndexFile(path, writable=False)
    entries = file.length // layout.size
    if entries and not any(file.read((entries - 1) * layout.size, layout.size)):
        # Count the entries first, because empty slots after them would mislead a binary search.
        entries = OffsetIndex(path, base_offset, writable=False).entries
    found: dict[int, OffsetEntry] = {}
    for position in positions:
        _, raw = file.search(field, position, entries) if entries else (0, b"")
        if raw:
            relative, at = layout.unpack(raw)
            found[at] = OffsetEntry(base_offset + relative, at)
    return [found[at] for at in sorted(found)]
