"""Splits a segment into parts with a limited number of records, for `maxRecordsPerPartition`.

    index entries     4 @0     9 @100    14 @200                    at most 10 records a part: split at 200
    headers           0-4 @0 | 5-9 @100 | 10-14 @200 | 2^32 @300    and at 300; offsets without a batch give no part

Parts are byte ranges of whole batches. The index gives the positions to split at; where its entries are further apart
than the limit, the headers between them are scanned once. So there are no more parts than batches, however far apart
their offsets are. Only a batch with more records than the limit is divided among several parts, by offset; the first of
them reports its damage.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FIELDS = ("position", "base_offset", "last_offset", "size_in_bytes", "records_count", "magic")

Walk = Callable[[int, int], Iterable[NDArray[np.void]]]


class Part(NamedTuple):
    """The batches that begin at positions in [start, end), and of their records those with first <= offset <= last.

    Attributes:
        shared: Whether the batch at `start` also belongs to the previous part.
    """

    start: int
    end: int
    first: int
    last: int
    shared: bool = False


def parts_of(whole: Part, most: int, entries: NDArray[np.int64], walk: Walk) -> Iterator[Part]:
    """Yield parts of `whole` with at most `most` records.

    Args:
        whole: The range to split.
        most: The most records of a part.
        entries: (last offset, position) of some batches, in ascending order; int64, shape (n, 2).
        walk: Returns the header tables of the batches that begin between two positions.
    """
    return _Parts(whole, most, entries, walk).parts()


class _Parts:
    """The state of a split.

    `_at` is the start of the next part, `_first` the lowest offset from there on, and `_reached` the position up to
    which headers have been scanned.
    """

    def __init__(self, whole: Part, most: int, entries: NDArray[np.int64], walk: Walk) -> None:
        self._whole = whole
        self._most = most
        self._walk = walk
        inside = (entries[:, 1] > whole.start) & (entries[:, 1] < whole.end)
        self._offsets, self._positions = entries[inside, 0], entries[inside, 1]
        self._at = self._reached = whole.start
        self._first = whole.first

    def parts(self) -> Iterator[Part]:
        """Yield the parts."""
        whole = self._whole
        while whole.last - self._first >= self._most and self._reached < whole.end:
            if not self._is_in_reach():
                yield from self._walked()
                continue
            known = self._entry()
            yield self._until(int(self._positions[known]))
            if known:
                self._first = max(self._first, int(self._offsets[known - 1]) + 1)
        if self._at < whole.end:
            yield self._until(whole.end)

    def _entry(self) -> int:
        """Return the last index entry with at most the allowed number of offsets before it; -1 if there is none."""
        return int(np.searchsorted(self._offsets, self._first + self._most, "right")) - 1

    def _is_in_reach(self) -> bool:
        """Return whether to split at that entry: the part then has at least half of the allowed records."""
        known = self._entry()
        if known < 0 or self._positions[known] <= self._at or self._positions[known] < self._reached:
            return False
        surely = int(self._offsets[known - 1]) + 1 - self._first if known else 0
        return 2 * surely >= self._most

    def _until(self, end: int) -> Part:
        """Return the part from the current start to `end`, and move the start to `end`."""
        made = self._whole._replace(start=self._at, end=end)
        self._at, self._reached = end, max(self._reached, end)
        return made

    def _walked(self) -> Iterator[Part]:
        """Scan the headers up to the next index entry, and yield the parts that end before it."""
        following = int(np.searchsorted(self._positions, self._reached, "right"))
        end = int(self._positions[following]) if following < len(self._positions) else self._whole.end
        before = self._first - 1
        for rows in self._walk(self._reached, end):
            for row in zip(*(rows[name].tolist() for name in _FIELDS), strict=True):
                batch = self._batch(row, before)
                if batch is not None:
                    yield from self._with(batch)
                    before = batch.last
        self._reached = max(self._reached, end)

    def _batch(self, row: tuple[int, ...], before: int) -> "_Batch | None":
        """Return the batch of a header; None if none of its offsets are wanted."""
        position, base, last, size, count, magic = row
        # The base offset of a wrapper is not in its header.
        base = max(before + 1, 0) if base < 0 else base
        if last < self._whole.first or base > self._whole.last:
            return None
        base, last = max(base, self._whole.first), min(last, self._whole.last)
        records = min(last - base + 1, count) if magic >= 2 else last - base + 1
        return _Batch(position, min(position + size, self._whole.end), base, last, records)

    def _with(self, batch: "_Batch") -> Iterator[Part]:
        """Yield the parts that end where this batch begins, or with it."""
        if batch.start > self._at and (batch.last - self._first >= self._most or batch.base < self._first):
            yield self._until(batch.start)
        if batch.start == self._at:
            self._first = batch.base
        if batch.records > self._most and batch.start == self._at:
            yield from self._shared(batch)
            self._at = self._reached = batch.end
            self._first = batch.last + 1

    def _shared(self, batch: "_Batch") -> Iterator[Part]:
        """Yield parts of one batch, at most as many as it has bytes, whatever offsets its header claims."""
        span = batch.last - batch.base + 1
        count = min(-(-span // self._most), batch.end - batch.start)
        edges = [batch.base + span * k // count for k in range(count + 1)]
        edges[0], edges[-1] = self._whole.first, self._whole.last + 1
        for k in range(count):
            yield Part(batch.start, batch.end, edges[k], edges[k + 1] - 1, k > 0)


class _Batch(NamedTuple):
    """A batch as described by its header: bytes [start, end), offsets base..last, and the most records in them."""

    start: int
    end: int
    base: int
    last: int
    records: int
