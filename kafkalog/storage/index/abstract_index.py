"""`Index`: the common part of the offset and the time index: slots in a file, their number, and binary search.

    entry | entry | ... | entry | empty slots, zero filled .....
                                ^ entries                      ^ max_entries

An entry is a pair of integers, each rising from entry to entry; for their meaning see `offset_index`.

Source: storage/.../log/AbstractIndex.java.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import starmap
from struct import Struct
from typing import ClassVar, Generic, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.errors import InvalidOffsetError, SegmentOffsetOverflowError
from kafkalog.storage.index.index_file import Field, IndexFile

MAX_INT = INT32_MAX
# The number of entries per read when all entries are read.
_AT_ONCE = 8192


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and the position of that batch in the log file (bytes)."""

    offset: int
    position: int


class TimestampEntry(NamedTuple):
    """The largest timestamp (ms) of the segment so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


Entry = TypeVar("Entry", OffsetEntry, TimestampEntry)


class Index(IndexFile, ABC, Generic[Entry]):
    """The common part of both indexes. Thread-safe.

    A writable index is created `max_size` bytes long (rounded down to whole entries) if its file is missing; in an
    existing file every slot counts as an entry. A read-only index never changes or creates a file. Its entries end
    where they stop rising (none if the file is missing), and entries appended later are found on demand.

    Args:
        path: The file.
        base_offset: The base offset of the segment.
        max_size: The size of a new file, bytes.
        writable: Only this process writes the file.

    Attributes:
        entries: The number of entries.
        max_entries: The number of slots in the file.
        length: The size of the file in bytes.

    Raises:
        OSError: The file cannot be opened or created, or the disk is full.
        CorruptIndexError: The path is not a regular file.
        ValueError: The file is missing and max_size is too small for an entry.
        LogStateError: The index is used after it was closed.
        io.UnsupportedOperation: A read-only index is changed; it is an OSError and a ValueError.
    """

    _LAYOUT: ClassVar[Struct]
    _ROW: ClassVar[np.dtype[np.void]]
    # The location of the relative offset in an entry.
    _OFFSET: ClassVar[Field]
    # The number of slots reserved for the entry that is written when the segment is sealed.
    _KEPT: ClassVar[int] = 0

    def __init__(
        self, path: str | os.PathLike[str], base_offset: int, *, max_size: int = -1, writable: bool = True
    ) -> None:
        self.base_offset = base_offset
        self.max_size = max_size
        self.entries = 0
        self._size = self._LAYOUT.size
        super().__init__(path, writable=writable)
        created = writable and not self.path.exists()
        if created:
            self.create(self._rounded(max_size))
        self.max_entries = self.length // self._size
        self._last: Entry = self._empty()
        if not writable:
            self._find_entries()
        elif not created:
            self._keep(self.max_entries)

    @abstractmethod
    def _empty(self) -> Entry:
        """Return the placeholder for the last entry of an empty index."""

    @abstractmethod
    def _entry(self, first: int, second: int) -> Entry:
        """Return the entry for the two integers of a slot."""

    def _rounded(self, size: int) -> int:
        return max(size, 0) // self._size * self._size

    @property
    def size_in_bytes(self) -> int:
        """The size of the entries in bytes."""
        return self.entries * self._size

    @property
    def is_full(self) -> bool:
        """Whether all slots are used, apart from those reserved for the last entry of a segment."""
        return self.room <= 0

    @property
    def room(self) -> int:
        """The number of entries that can still be appended; less than 1 if the index is full."""
        return self.max_entries - self._KEPT - self.entries

    @property
    def last_entry(self) -> Entry:
        """The last entry, or a placeholder if there is none."""
        return self._last

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if there is none."""
        return self._last.offset

    def __iter__(self) -> Iterator[Entry]:
        with self._lock:
            raw = self.read(0, self.size_in_bytes)
        return starmap(self._entry, self._LAYOUT.iter_unpack(raw[: len(raw) // self._size * self._size]))

    def slots(self) -> NDArray[np.int64]:
        """Return the two integers of every slot, also of those after the entries, as an array of shape (n, 2)."""
        with self._lock:
            raw = self.read(0, self.max_entries * self._size)
        rows = np.frombuffer(raw, self._ROW, len(raw) // self._size)
        return np.stack([rows["first"].astype(np.int64), rows["second"].astype(np.int64)], axis=1)

    def _read(self, n: int) -> Entry | None:
        raw = self.read(n * self._size, self._size)
        return self._entry(*self._LAYOUT.unpack(raw)) if len(raw) == self._size else None

    def _floor(self, field: Field, target: int) -> Entry | None:
        """Return the last entry whose field is at most `target`; None if there is none."""
        with self._lock:
            _, raw = self.search(field, target, self.entries) if self.entries else (0, b"")
        return self._entry(*self._LAYOUT.unpack(raw)) if raw else None

    def _put(self, entry: Entry, raw: bytes) -> None:
        self.write(self.entries * self._size, raw)
        self.entries += 1
        self._last = entry

    def _put_all(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        if not len(first):
            return
        rows = np.empty(len(first), self._ROW)
        rows["first"], rows["second"] = first, second
        self.write(self.entries * self._size, rows.tobytes())
        self.entries += len(first)
        self._last = self._entry(int(first[-1]), int(second[-1]))

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_INT:
            raise SegmentOffsetOverflowError(
                "the offset is too far from the base offset for an index",
                str(self.path),
                None,
                f"{self.base_offset}..{self.base_offset + MAX_INT}",
                offset,
            )
        return relative

    def _refuse_full(self) -> NoReturn:
        self.check_writable("append to")
        raise ValueError(f"{self.path} is full: it has slots for {self.max_entries} entries and holds {self.entries}")

    def _refuse_offset(self, offset: int, expected: str) -> NoReturn:
        what = "the offset does not follow the last one of the index"
        raise InvalidOffsetError(what, str(self.path), self.size_in_bytes, expected, offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose offset is `offset` or more."""
        with self._lock:
            self.check_writable("truncate")
            if self.entries:
                before, _ = self.search(self._OFFSET, offset - self.base_offset - 1, self.entries)
                self._keep(before)

    def _keep(self, entries: int) -> None:
        last = self._read(entries - 1) if entries else None
        self.entries = entries
        self._last = self._empty() if last is None else last

    def reset(self) -> None:
        """Remove all entries and resize the file to `max_size` bytes.

        Raises:
            OSError: As `resize`.
        """
        with self._lock:
            self.check_writable("reset")
            self._keep(0)
            self.resize(self.max_size)

    def resize(self, new_size: int) -> bool:
        """Resize the file to `new_size` bytes, rounded down to whole entries; return whether its size changed.

        Raises:
            ValueError: The entries need more than that.
            OSError: The file cannot be resized; it is unchanged.
        """
        with self._lock:
            self.check_writable("resize")
            size = self._rounded(new_size)
            if size == self.length:
                return False
            if size < self.size_in_bytes:
                raise ValueError(f"{self.path} has {self.size_in_bytes} bytes of entries and cannot have {size} bytes")
            self._set_length(size)
            self.max_entries = size // self._size
            return True

    def trim_to_valid_size(self) -> None:
        """Cut the file after its entries; appending then requires `resize`.

        Raises:
            OSError: As `resize`.
        """
        with self._lock:
            if not self.closed:
                self.resize(self.size_in_bytes)

    def close(self) -> None:
        """Trim and close the index. Closing twice does nothing.

        Raises:
            OSError: Trimming failed; the index is closed anyway.
        """
        with self._lock:
            try:
                if self.writable:
                    self.trim_to_valid_size()
            finally:
                self.release()

    def _find_entries(self) -> None:
        """Count the rising entries that follow the known ones."""
        with self._lock:
            self.measure()
            self.max_entries = self.length // self._size
            while True:
                raw = self.read(self.entries * self._size, _AT_ONCE * self._size)
                rows = np.frombuffer(raw, self._ROW, len(raw) // self._size)
                rising = self._rising(rows)
                if rising:
                    self.entries += rising
                    self._last = self._entry(*rows[rising - 1].tolist())
                if rising < _AT_ONCE:
                    break
            if self.entries == 1 < self.max_entries and self._integers(self._last) == (0, 0):
                # A zero entry followed by other slots is the first empty slot; as the only slot of the file it would be
                # an entry.
                self._keep(0)

    def _follow(self) -> None:
        """Find the entries appended to the file since the last read."""
        with self._lock:
            after = self._read(self.entries)
            if after is not None and after > self._last:
                self._find_entries()

    def _rising(self, rows: NDArray[np.void]) -> int:
        """Return how many rows rise, starting after the last known entry."""
        first, second = rows["first"].astype(np.int64), rows["second"].astype(np.int64)
        known = self._integers(self._last) if self.entries else (-1, 0)
        rises = (first > preceding(first, known[0])) & (first >= 0) & (second >= preceding(second, known[1]))
        return len(rows) if rises.all() else int(np.argmin(rises))

    @abstractmethod
    def _integers(self, entry: Entry) -> tuple[int, int]:
        """Return the two integers stored for an entry."""


def preceding(values: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return the value before each of the values; `first` before the first one. A difference could overflow."""
    return np.concatenate([[first], values[:-1]])


def is_rising(values: NDArray[np.int64], least: int, *, strictly: bool = False, most: int = MAX_INT) -> bool:
    """Return whether the values rise from one to the next, within least..most."""
    if not len(values):
        return True
    before, after = values[:-1], values[1:]
    rising = (after > before).all() if strictly else (after >= before).all()
    return bool(rising) and least <= int(values[0]) and int(values[-1]) <= most
