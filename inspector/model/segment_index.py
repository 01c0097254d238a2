"""The sparse index of a segment: where every so many batches begin, and what is in between, in a sum.

    file      batch batch batch ... | batch batch ... | lost bytes | batch ... | torn tail
    windows   0 ................... | 1 ............. | 2          | 3 ....... | 4

A window is at most `WINDOW_ROWS` batches or `WINDOW_BYTES` long (one batch may be longer), so that a segment of 1 GiB
has some thousands, whatever is in it. What a table shows of single batches is read again from the file, a window at a
time. Bytes among which no batch can be read are a window of their own, and count as one batch.

The headers come first, then the checksums: headers alone tell at once how many batches and records there are. Where
they lead nowhere, `kafkalog.fsck.walk` goes on; when a checksum does not hold it reads the file anew, from its start.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog import EndKind
from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck import Severity
from kafkalog.fsck.file_check import damaged_batch, lost_finding
from kafkalog.fsck.verifying import scope_of
from kafkalog.fsck.walk import Item, Run, readable, walk
from kafkalog.record.batch_validity import unreadable
from kafkalog.record.framing import end_of
from kafkalog.scan.progress import Progress
from kafkalog.scan.records import reason_of
from kafkalog.scan.summary import SegmentSummary, split_count
from kafkalog.scan.transaction_states import FileTransactions
from kafkalog.scan.transactions import transactional
from kafkalog.storage.index.transaction_index import AbortedTxn

from .headers import Rows, flags_of, record_counts
from .segment_file import SegmentFile
from .window import ABORTED, CONTROL, CORRUPT, DATA, TRANSACTIONAL, Window

WINDOW_ROWS = 1024
WINDOW_BYTES = 256 << 10
# Of the last batch known, by which it is told from another in its place: its header, at most.
PRINT_BYTES = 61
_NONE = -(2**63)


class Windows:
    """The windows of one segment file, as far as it has been read. One thread at a time."""

    def __init__(self, file: SegmentFile, log_start: int = 0) -> None:
        self.file = file
        self.log_start = log_start
        # How often all has begun again.
        self.generation = 0
        self.clear()

    def clear(self) -> None:
        """Forget all: the file is another, was cut, or is damaged."""
        self.generation += 1
        self.all: list[Window] = []
        self.batches = self.records = 0
        # Of what is no lost bytes.
        self.summary = SegmentSummary(log_start=self.log_start)
        self.size = self.file.size
        self._at = 0
        # The library's walk, from damage on; from the start once a checksum has told of damage.
        self._items: Iterator[Item] | None = None
        self._is_damaged = False
        self._checked = 0
        self._checked_bytes = 0
        self.transactions = FileTransactions(self.file.entries)
        # Whether later segments have been asked for the transactions that are open at the end of this one.
        self.is_decided = False
        self._scope = scope_of(self.file.path)
        self._print: tuple[int, bytes] | None = None
        # Whether the last window takes no more.
        self._full = False

    # --- walking

    @property
    def progress(self) -> Progress:
        """Headers and checksums, each byte counted once for both."""
        tail = self.size if self.is_walked else self._at
        return Progress((tail + self.checked_bytes) // 2 if self.size else 0, self.size)

    @property
    def checked_bytes(self) -> int:
        """Bytes whose batches have had their checksums looked at."""
        return self.size if self.is_walked and self._checked >= len(self.all) else self._checked_bytes

    @property
    def indexed_bytes(self) -> int:
        """Bytes whose batches are known."""
        return self.all[-1].end if self.all else 0

    @property
    def is_walked(self) -> bool:
        """Whether all batches that the file had when it was last looked at are known."""
        return self._at >= self.size

    def follow(self) -> None:
        """Begin again if the file was cut or written anew, and note how far it has grown."""
        size = self.file.size
        if self.log_start != self.summary.log_start or size < self.indexed_bytes or not self._is_same():
            self.clear()
        elif size != self.size:
            self.size = size
            self._items = None
            self._drop_tail()

    def _is_same(self) -> bool:
        """Return whether the last batch known is still where it was: what was cut may have grown again since."""
        return self._print is None or self.file.read(self._print[0], PRINT_BYTES) == self._print[1]

    def _drop_tail(self) -> None:
        if self.all and self.all[-1].tail:
            gone = self.all.pop()
            self.batches -= gone.rows
            self.records -= gone.records
            self._at = gone.position
            self._checked = min(self._checked, len(self.all))
            self._checked_bytes = min(self._checked_bytes, gone.position)

    def step(self, max_bytes: int, seconds: float) -> Progress:
        """Go on, for at most so many bytes and about so long. OSError: the file cannot be read."""
        start, until = self._work_done(), time.monotonic() + seconds
        while self._go_on() and self._work_done() - start < max_bytes and time.monotonic() < until:
            pass
        return self.progress

    def _work_done(self) -> int:
        return self._at + self._checked_bytes

    def _go_on(self) -> bool:
        if not self.is_walked:
            self._walk()
        elif self._checked < len(self.all):
            self._check()
        else:
            return False
        return True

    def _walk(self) -> None:
        """Read on, one run of headers or one item of the library's walk."""
        if self._items is not None:
            self._take(next(self._items, None))
            return
        part = self.file.part(self._at, self.size)
        try:
            rows = next(part.header_runs(), None)
            end = part.end_of_data if rows is None else None
        except KafkaLogError:
            self._walk_from(self._at)
            return
        if rows is not None:
            self._commit(rows)
        elif end is not None and end.kind is EndKind.END:
            self.size = self._at = end.position
        else:
            self._walk_from(self._at)

    def _walk_from(self, position: int) -> None:
        """Let the library go on past damage, up to the present end."""
        self._scope = scope_of(self.file.path)
        self._items = walk(self.file.source, self._scope.bounds, position)

    def _take(self, item: Item | None) -> None:
        if item is None:
            self._items = None
        elif isinstance(item, Run):
            first = 0
            for i in [*np.flatnonzero(~readable(item.rows)).tolist(), len(item.rows)]:
                self._commit(item.rows[first:i])
                for row in item.rows[i : i + 1]:
                    self._add_lost(self._at, self._at + int(row["size_in_bytes"]), reason_of(unreadable(row)))
                first = i + 1
        else:
            finding = lost_finding(self.file.source, item, self._scope)
            self._add_lost(item.start, item.end, reason_of(finding), zeroed=finding.severity is Severity.INFO)

    def _add_lost(self, start: int, end: int, cause: str, *, zeroed: bool = False) -> None:
        last = self.all[-1].last_offset if self.all else _NONE
        window = Window(start, end, self.batches, 1, self.records, 0 if zeroed else 1, last, last, lost=cause)
        window.worst = DATA if zeroed else CORRUPT
        window.checked, window.tail, window.zeroed = True, end >= self.size, zeroed
        self.all.append(window)
        self.batches += 1
        self.records += window.records
        self._at = end

    # --- committing rows to windows

    def _commit(self, rows: Rows) -> None:
        if not len(rows):
            return
        counts = record_counts(self.file, rows)
        ends = rows["position"] + rows["size_in_bytes"]
        first = 0
        while first < len(rows):
            window = self._window_for(int(rows["position"][first]))
            room = WINDOW_ROWS - window.rows
            stop = int(np.searchsorted(ends, window.position + WINDOW_BYTES, "right"))
            last = min(first + room, max(stop, first + (window.rows == 0)))
            if last == first:
                self._full = True
                continue
            self._extend(window, rows[first:last], counts[first:last])
            first = last
        self._at = int(ends[-1])
        last = int(rows["position"][-1])
        self._print = last, self.file.read(last, PRINT_BYTES)
        is_before = (self.summary.end_offset or 0) < self.log_start
        split = split_count(self.file.entries, rows, self.log_start) if is_before else 0
        self.summary.add_rows(rows, counts, split)

    def _window_for(self, position: int) -> Window:
        """Return the last window, if there is room, or a new one."""
        last = self.all[-1] if self.all else None
        if last is not None and last.lost is None and not self._full and last.end == position:
            return last
        self._full = False
        before = _NONE if last is None else last.last_offset
        window = Window(position, position, self.batches, 0, self.records, 0, before, before)
        self.all.append(window)
        return window

    def _extend(self, window: Window, rows: Rows, counts: NDArray[np.int64]) -> None:
        records = int(counts.sum())
        window.end = end_of(rows)
        window.rows += len(rows)
        window.records += records
        window.last_offset = max(window.last_offset, int(rows["last_offset"].max()))
        window.time = max(window.time, int(rows["max_timestamp"].max()))
        window.checked = False
        self._checked = min(self._checked, len(self.all) - 1)
        self._full = window.rows >= WINDOW_ROWS
        self.batches += len(rows)
        self.records += records
        if (flags_of(rows) & CONTROL_BIT).any():
            window.worsen(CONTROL)
        own = rows[transactional(rows)]
        if len(own):
            window.worsen(TRANSACTIONAL)
            data = own[own["attributes"] & CONTROL_BIT == 0]
            producers, firsts = np.unique(data["producer_id"], return_index=True)
            offsets = data["base_offset"][firsts].tolist()
            for producer, offset in zip(producers.tolist(), offsets, strict=True):
                window.producers.setdefault(producer, offset)
            self._mark(self.transactions.add(own))

    def decide(self, later: Iterable[AbortedTxn]) -> None:
        """Mark the windows of those aborted transactions of later segments that are open at the end of this one."""
        self.is_decided = True
        if self.transactions.open:
            self._mark(self.transactions.decide(later))

    def _mark(self, aborted: Iterable[AbortedTxn]) -> None:
        """Mark the windows that have batches of these transactions."""
        for each in aborted:
            for window in reversed(self.all):
                if window.last_offset < each.first_offset:
                    break
                if window.producers.get(each.producer_id, each.last_offset) < each.last_offset:
                    window.worsen(ABORTED)

    # --- checksums

    def _check(self) -> None:
        window = self.all[self._checked]
        if not window.checked:
            try:
                is_damaged = bool(self.bad_rows(self.rows(window)))
            except KafkaLogError:
                is_damaged = False
            if is_damaged and not self._is_damaged:
                # Its size field may be wrong, and with it all that the headers have told.
                self.clear()
                self._is_damaged = True
                self._walk_from(0)
                return
            if is_damaged:
                window.worst = CORRUPT
            window.checked = True
        self._checked += 1
        self._checked_bytes = window.end

    def rows(self, window: Window) -> Rows:
        """Return the header table of a window's batches. CorruptRecordError: the file has changed."""
        rows = self.file.part(window.position, window.end).headers()
        if len(rows) != window.rows:
            raise CorruptRecordError(
                "the file has changed", str(self.file.path), window.position, f"{window.rows} batches", len(rows)
            )
        return rows

    def bad_rows(self, rows: Rows) -> dict[int, str]:
        """Return which of successive rows are no sound batches, and why."""
        found: dict[int, str] = {}
        end = end_of(rows)
        for item in walk(self.file.source, self._scope.bounds, int(rows["position"][0]), end):
            if isinstance(item, Run):
                for i in np.flatnonzero(~item.valid).tolist():
                    found[int(item.rows["position"][i])] = reason_of(damaged_batch(item, i, self._scope.path))
            else:
                found[item.start] = reason_of(lost_finding(self.file.source, item, self._scope))
        # A row with a wrong size field may hold several of them.
        numbers = np.searchsorted(rows["position"], list(found), "right") - 1
        return dict(zip(numbers.tolist(), found.values(), strict=True))

    # --- finding

    def number_at(self, key: Callable[[Window], int], value: int) -> int:
        """Return the number of the last window whose key is at most `value`; -1: none. Keys rise."""
        return bisect_right(self.all, value, key=key) - 1

    def from_number(self, number: int) -> Iterator[Window]:
        """Yield the windows from a number on."""
        return iter(self.all[max(0, number) :])
