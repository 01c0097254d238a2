"""What becomes of the transactions in a segment, batch by batch in the order of the log.

    offset     10   11   12   13   14   15             producers A and B
    batch      A    A    B    A    x    B              x: A's marker, ABORT
    then       A 10..14 is aborted: the windows with its batches have something aborted in them; B is open

A marker in a later segment decides what is open at the end of this one (`decide`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from inspector.reading.files import SegmentFile
from inspector.reading.headers import Rows, batch_of, control_of, flags_of
from inspector.reading.window import ABORTED, TRANSACTIONAL, Window
from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT

AbortedRange: TypeAlias = tuple[int, int, int]

# Control batches are this short: type of the first record's key at 68 where the usual bytes are before it.
_MARKER_KEY_AT = 66
# In more bytes than these the markers are read one by one.
_LARGE_BYTES = 4 << 20


@dataclass(slots=True)
class _Open:
    """A producer's transaction under way: its first offset here, and the windows that it has batches in."""

    first_offset: int
    windows: list[Window] = field(default_factory=list)

    def was_aborted(self) -> None:
        for window in self.windows:
            window.worsen(ABORTED)


class Fates:
    """Of the transactions of one segment, as far as its headers have been read."""

    def __init__(self, file: SegmentFile) -> None:
        self._file = file
        self._open: dict[int, _Open] = {}
        self._aborted: dict[int, tuple[array[int], array[int]]] = {}

    @property
    def open_producers(self) -> frozenset[int]:
        """Producers with a transaction that has no end in this segment, as far as it is known."""
        return frozenset(self._open)

    def note(self, window: Window, rows: Rows) -> None:
        """The next rows of the log, which are in `window`."""
        flags = flags_of(rows)
        own = np.flatnonzero(flags & TRANSACTIONAL_BIT)
        if not len(own):
            return
        window.has_transactional = True
        window.worsen(TRANSACTIONAL)
        is_control = flags[own] & CONTROL_BIT != 0
        markers = _Markers(self._file, rows) if is_control.any() else None
        columns = (own, rows["producer_id"][own], rows["base_offset"][own], is_control)
        for i, producer, offset, control in zip(*(column.tolist() for column in columns), strict=True):
            if control:
                self._ended(producer, offset, markers is not None and markers.is_abort(i))
            else:
                self._went_on(producer, offset, window)

    def _went_on(self, producer: int, offset: int, window: Window) -> None:
        known = self._open.get(producer)
        if known is None:
            known = self._open[producer] = _Open(offset)
        if not known.windows or known.windows[-1] is not window:
            known.windows.append(window)

    def _ended(self, producer: int, offset: int, aborted: bool) -> None:
        known = self._open.pop(producer, None)
        if not aborted:
            return
        # Without batches here the transaction began before this segment, or is empty.
        self._add_aborted(producer, offset if known is None else known.first_offset, offset)
        if known is not None:
            known.was_aborted()

    def _add_aborted(self, producer: int, first: int, last: int) -> None:
        firsts, lasts = self._aborted.setdefault(producer, (array("q"), array("q")))
        if not lasts or last > lasts[-1]:
            firsts.append(first)
            lasts.append(last)

    def decide(self, aborted: Iterable[AbortedRange]) -> None:
        """What later segments say of transactions that are open at this one's end: producer, first and last offset."""
        for producer, first, last in aborted:
            known = self._open.get(producer)
            if known is not None and first <= known.first_offset <= last:
                self._add_aborted(producer, known.first_offset, last)
                known.was_aborted()

    def is_aborted(self, producer: int, offset: int) -> bool:
        """Whether a transactional batch of that producer and offset belongs to an aborted transaction."""
        found = self._aborted.get(producer)
        if found is None:
            return False
        i = bisect_right(found[0], offset) - 1
        return i >= 0 and offset <= found[1][i]


class _Markers:
    """What the control batches among some rows say; their bytes are read together."""

    def __init__(self, file: SegmentFile, rows: Rows) -> None:
        self._file = file
        self._rows = rows
        self._start = int(rows["position"][0])
        end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
        self._data = file.read(self._start, end - self._start) if end - self._start <= _LARGE_BYTES else b""

    def is_abort(self, i: int) -> bool:
        at = int(self._rows["position"][i]) - self._start
        record = self._data[at + 61 : at + _MARKER_KEY_AT + 4]
        if len(record) == 9 and record[1:5] == b"\0\0\0\x08" and record[0] < 0x80:
            return record[5:] == b"\0\0\0\0"
        return control_of(batch_of(self._file, self._rows[i])) == "ABORT"
