"""Where to cut a segment: positions of batches, about evenly apart, out of its offset index.

    .index      offset - base int32 | position int32     an entry in 4 KiB of log or so; empty slots at the end are zero

An index is searched, and read as a whole only where many of its entries are wanted: entries lie about as evenly in it
as their batches in the log, so that the first place looked at is mostly good enough. What it says is a hint; whoever
cuts looks at the batch.
"""

import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kafkalog.storage.index.offset_index import OffsetEntry

ENTRY_BYTES = 8
_ENTRY = struct.Struct(">ii")
# How far from where it should be a cut may lie, as a share of the distance between two.
_TOLERANCE = 8
# Where one entry in so many is wanted, all of them are read at once.
_DENSE = 32
# Bytes of the shortest batch: a segment has no more entries than batches, whatever follows them in the file.
_SHORTEST = 26

NO_ENTRIES = np.empty((0, 2), np.int64)

# What is at a position of an index file: so many bytes, or fewer at its end.
ReadIndex = Callable[[int, int], bytes]


class SparseIndex:
    """An offset index of `size` bytes, looked at here and there."""

    def __init__(self, read: ReadIndex, size: int, base_offset: int) -> None:
        self._read = read
        self._base = base_offset
        self._count = size // ENTRY_BYTES

    def cuts(self, start: int, end: int, target: int) -> list[OffsetEntry]:
        """Entries with rising positions in (start, end), about `target` bytes apart: all of them, if need be."""
        pieces = -(-(end - start) // target)
        if pieces * _DENSE > min(self._count, end // _SHORTEST + 1):
            return self._of_all(start, end, pieces)
        found: list[OffsetEntry] = []
        for k in range(1, pieces):
            step = (end - start) / pieces
            entry = self._near(start + k * step, end, step / _TOLERANCE)
            if entry is not None and (found[-1].position if found else start) < entry.position < end:
                found.append(entry)
        return found

    def _of_all(self, start: int, end: int, pieces: int) -> list[OffsetEntry]:
        """The first entry in each of so many stretches of equal length that has one, but the first of them."""
        entries = self.rising(end)
        entries = entries[(entries[:, 1] > start) & (entries[:, 1] < end)]
        stretches = (entries[:, 1] - start) * pieces // (end - start)
        entries, stretches = entries[stretches > 0], stretches[stretches > 0]
        _, first = np.unique(stretches, return_index=True)
        return [OffsetEntry(*entry) for entry in entries[first].tolist()]

    def rising(self, end: int) -> NDArray[np.int64]:
        """(Offset, position) of the entries of a segment of `end` bytes, shape (n, 2), but those that do not rise."""
        raw = self._read(0, min(self._count, end // _SHORTEST + 1) * ENTRY_BYTES)
        entries = np.frombuffer(raw, ">i4", len(raw) // ENTRY_BYTES * 2).reshape(-1, 2).astype(np.int64)
        entries = entries[(entries >= 0).all(axis=1)]
        highest = np.maximum.accumulate(entries, axis=0)
        rises = np.ones(len(entries), bool)
        rises[1:] = (entries[1:] > highest[:-1]).all(axis=1)
        found: NDArray[np.int64] = entries[rises] + np.array([self._base, 0])
        return found

    def _near(self, goal: float, end: int, tolerance: float) -> OffsetEntry | None:
        """The entry whose position is nearest to the goal, or near enough."""
        low, high, best = 0, self._count, None
        middle = int(self._count * goal / end)
        while low < high:
            entry = self._entry(min(max(middle, low), high - 1))
            at = min(max(middle, low), high - 1)
            if entry is None:
                high = at
            else:
                if best is None or abs(entry.position - goal) < abs(best.position - goal):
                    best = entry
                if abs(entry.position - goal) <= tolerance:
                    return entry
                low, high = (at + 1, high) if entry.position < goal else (low, at)
            middle = (low + high) // 2
        return best

    def _entry(self, n: int) -> OffsetEntry | None:
        """None: an empty slot, or what cannot be an entry."""
        raw = self._read(n * ENTRY_BYTES, ENTRY_BYTES)
        if len(raw) < ENTRY_BYTES:
            return None
        relative, position = _ENTRY.unpack(raw)
        if relative < 0 or position < 0 or (n > 0 and not position):
            return None
        return OffsetEntry(self._base + relative, position)
