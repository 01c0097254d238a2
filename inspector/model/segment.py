"""`SegmentReader`: the batches and records of one segment, a window of each at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkalog.errors import KafkaLogError
from kafkalog.record.fields import EntryFields
from kafkalog.scan.progress import Progress
from kafkalog.scan.summary import SegmentSummary
from kafkalog.storage.index.transaction_index import AbortedTxn

from . import batches as batch_rows
from . import fields, segment_map
from . import records as reading
from .batches import Held
from .headers import flags_of
from .segment_file import SegmentFile
from .segment_index import Windows
from .types import BatchRow, Cell, Field, Place, RecordDetail, RecordRow
from .window import CORRUPT, DATA, Window

# What a step does at most, so that whoever waits for the worker waits no longer.
STEP_SECONDS = 0.01
# A place that was in the file a moment ago is beyond its end.
CHANGED = "the file has changed while it was looked at"
_HELD_WINDOWS = 32


class SegmentReader:
    """One segment file, in windows. Nothing here raises for what is on disk; calls of several threads take turns.

    path: of the file. base_offset: its name's, None where that is none. later_aborted: returns the aborted transactions
    in the indexes of later segments.
    """

    def __init__(
        self,
        path: Path,
        base_offset: int | None = None,
        later_aborted: Callable[[], Iterable[AbortedTxn]] = tuple,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        # The log start offset: records below it are deleted, though they are still there.
        self.log_start = 0
        self.problem: str | None = None
        self._later_aborted = later_aborted
        self._file: SegmentFile | None = None
        self._windows: Windows | None = None
        # A window may have grown since.
        self._held = lru_cache(maxsize=_HELD_WINDOWS)(lambda window, end: batch_rows.read(self.raw, window))  # noqa: ARG005
        self.decoded = reading.Decoded()
        # Those of the batch that was asked for last, with the places of records that have been parsed.
        self._entry_fields = lru_cache(maxsize=1)(self._fields_of)
        self._open()

    def _open(self) -> None:
        try:
            self._file = SegmentFile(self.path)
            self._windows = Windows(self._file, self.log_start)
            self.problem = None
        except (OSError, KafkaLogError) as error:
            self._file = self._windows = None
            self.problem = str(error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = self._windows = None
        self._forget()

    def _forget(self) -> None:
        self._held.cache_clear()
        self.decoded.clear()
        self._entry_fields.cache_clear()

    # --- reading it through

    def index_more(self, max_bytes: int = 8 << 20, seconds: float = STEP_SECONDS) -> Progress:
        """Read on: first all headers, then all checksums; `is_done` when there is no more for now.

        Called again when the file has grown it goes on; when the file was cut or replaced it begins again. max_bytes,
        seconds: of one step, roughly.
        """
        if self._file is None or self._file.is_replaced:
            self._open_again()
        windows = self._windows
        if windows is None:
            return Progress(0, 0)
        try:
            generation, windows.log_start = windows.generation, self.log_start
            windows.follow()
            done = windows.step(max_bytes, seconds)
            if windows.generation != generation:
                self._forget()
            if windows.is_walked and not windows.is_decided:
                windows.decide(self._later_aborted())
        except (OSError, KafkaLogError, ValueError) as error:
            self.problem = f"{self.path.name}: {CHANGED}" if isinstance(error, ValueError) else str(error)
            return Progress(windows.size, windows.size)
        if self._file is not None and not self._file.is_gone:
            self.problem = None
        return done

    def _open_again(self) -> None:
        file = self._file
        if file is not None and file.is_gone:
            # What was opened can be read on.
            self.problem = f"{self.path}: the file has been deleted"
            return
        self.close()
        self._open()

    @property
    def size(self) -> int:
        """Bytes of the file when it was last looked at."""
        return self._windows.size if self._windows is not None else 0

    @property
    def indexed_bytes(self) -> int:
        """Bytes whose batches are known."""
        return self._windows.indexed_bytes if self._windows is not None else 0

    @property
    def checked_bytes(self) -> int:
        """Bytes whose batches have had their checksums looked at."""
        return self._windows.checked_bytes if self._windows is not None else 0

    @property
    def is_walked(self) -> bool:
        """Whether all headers have been read; checksums may not have been."""
        return self._windows is None or self._windows.is_walked

    @property
    def batches(self) -> int:
        """Batches known so far; bytes among which there is none count as one."""
        return self._windows.batches if self._windows is not None else 0

    @property
    def records(self) -> int:
        """Records known so far, control records too; a batch that cannot be read stands for one at least."""
        return self._windows.records if self._windows is not None else 0

    @property
    def end_offset(self) -> int | None:
        """The offset after the last batch known; None where there is none."""
        last = self._windows.all[-1].last_offset if self._windows is not None and self._windows.all else -1
        return last + 1 if last >= 0 else None

    @property
    def summary(self) -> SegmentSummary:
        """What the headers known so far tell, lost bytes left out."""
        return SegmentSummary() if self._windows is None else self._windows.summary

    # --- batches

    def batch(self, i: int) -> BatchRow | None:
        """Return batch i; None if there is none (yet)."""
        found = self.batch_rows(i, 1)
        return found[0] if found else None

    def batch_rows(self, first: int, count: int) -> list[BatchRow]:
        """Return the batches first .. first + count, as far as they are known."""
        rows: list[BatchRow] = []
        if not 0 <= first < self.batches or count <= 0:
            return rows
        number = self.raw.number_at(lambda window: window.first_row, first)
        for window in self.raw.from_number(number):
            if window.first_row >= first + count:
                break
            held = self.held(window)
            start, stop = max(first - window.first_row, 0), min(first + count - window.first_row, window.rows)
            rows += [batch_rows.row_of(self, window, held, i) for i in range(start, stop)]
        return rows

    def held(self, window: Window) -> Held:
        """Return a window's batches, read from the file unless they were a moment ago."""
        return self._held(window, window.end)

    # --- finding

    def batch_at(self, *, position: int | None = None, offset: int | None = None) -> int | None:
        """Return the number of the batch that a position is in, or that has an offset or the first after it.

        None where there is none, or it is not known yet.
        """
        windows = self._windows
        if windows is None or not windows.batches:
            return None
        if position is None:
            return None if offset is None else self._batch_with(windows, offset)
        number = windows.number_at(lambda window: window.position, position)
        if number < 0 or position >= windows.all[-1].end:
            return None
        window = windows.all[number]
        rows = self.held(window).rows
        within = 0 if rows is None else int(np.searchsorted(rows["position"], position, "right")) - 1
        return window.first_row + within

    def _batch_with(self, windows: Windows, offset: int) -> int | None:
        """Return the first batch whose last offset is `offset` or more."""
        for window in windows.from_number(windows.number_at(lambda each: each.last_offset, offset - 1) + 1):
            rows = self.held(window).rows
            if rows is not None and len(found := np.flatnonzero(rows["last_offset"] >= offset)):
                return window.first_row + int(found[0])
        return None

    @property
    def generation(self) -> int:
        """How often all rows have begun again."""
        return self._windows.generation if self._windows is not None else 0

    def batch_of(self, place: Place) -> int | None:
        """Return the number of the batch at a place: the one it was found by, else the one at its position."""
        if place.row is not None and place.generation == self.generation:
            return place.row
        return self.batch_at(position=place.position)

    def batch_over(self, position: int) -> BatchRow | None:
        """Return the batch that a position is in; None: none is known there."""
        number = self.batch_at(position=position)
        return None if number is None else self.batch(number)

    def next_damage(self, row: int, forwards: bool = True) -> int | None:
        """Return the next damaged batch after (or before) a row; None if none is known."""

        def damaged(window: Window, held: Held) -> list[int]:
            if held.rows is None:
                return [] if window.zeroed else list(range(window.rows))
            return sorted(held.bad)

        return self._next(row, forwards, damaged, CORRUPT)

    def first_damage(self) -> str | None:
        """Return the problem of the first batch known to be damaged; None: no damage is known."""
        number = self.next_damage(-1)
        batch = None if number is None else self.batch(number)
        return None if batch is None else batch.problem

    def next_transaction(self, row: int, forwards: bool = True, producer: int | None = None) -> int | None:
        """Return the next batch of another transaction, or marker, after (or before) a row; None: none known.

        producer: whose transaction is the one that is left, where the row does not tell.
        """
        own = self.producer_at(row) if producer is None else producer

        def of_others(_: Window, held: Held) -> list[int]:
            if held.rows is None:
                return []
            flags = flags_of(held.rows)
            other = (held.rows["producer_id"] != (-1 if own is None else own)) | (flags & CONTROL_BIT != 0)
            return np.flatnonzero((flags & TRANSACTIONAL_BIT != 0) & other).tolist()

        return self._next(row, forwards, of_others, DATA + 1)

    def producer_at(self, row: int) -> int | None:
        """Return whose transaction a batch is of; None if it is of none."""
        here = self.batch(row)
        return here.producer_id if here is not None and here.is_transactional else None

    def _next(self, row: int, forwards: bool, wanted: Callable[[Window, Held], list[int]], least: int) -> int | None:
        """Return the next row that `wanted` selects among those of a window; only in windows with such a kind."""
        if not self.batches:
            return None
        number = max(0, self.raw.number_at(lambda window: window.first_row, row))
        for each in self.raw.all[number:] if forwards else self.raw.all[number::-1]:
            if each.worst >= least:
                rows = [each.first_row + i for i in wanted(each, self.held(each))]
                beyond = [found for found in rows if (found > row if forwards else found < row)]
                if beyond:
                    return beyond[0 if forwards else -1]
        return None

    def strip(self, width: int) -> list[Cell]:
        """Return the segment as `width` cells of equally many bytes, each of the worst kind in it."""
        return segment_map.strip(self, width) if self._windows is not None and width > 0 else []

    # --- records

    def record_rows(self, first: int, count: int) -> list[RecordRow]:
        """Return the records first .. first + count, as far as they are known."""
        return list(reading.rows(self, first, count))

    def record(self, i: int) -> RecordDetail | None:
        """Return record i whole; None if there is none (yet)."""
        return reading.detail(self, i)

    def record_at(self, offset: int) -> int | None:
        """Return the number of the record with that offset, or of the first after it; None: not known (yet)."""
        number = self.batch_at(offset=offset)
        if number is None:
            return None
        begin = self.first_record_of(number)
        _, held, i = self._window_of(number)
        if begin is None or held.rows is None:
            return begin
        offsets = self.decoded.of(self, held, i).columns.offset
        found = begin + int(np.searchsorted(offsets, offset)) if len(offsets) else begin
        return found if found < self.records else None

    def record_of(self, place: Place) -> int | None:
        """Return the number of the record at a place, or of the first record of its batch; None: not known (yet)."""
        if place.offset is not None:
            return self.record_at(place.offset)
        batch = self.batch_of(place)
        return None if batch is None else self.first_record_of(batch)

    def first_record_of(self, batch: int) -> int | None:
        """Return the number of a batch's first record (of the next one's, if it has none); None: none."""
        if not 0 <= batch < self.batches:
            return None
        window, held, i = self._window_of(batch)
        before = int(held.counts[:i].sum()) if held.rows is not None else 0
        number = window.first_record + before
        return number if number < self.records else None

    def _window_of(self, batch: int) -> tuple[Window, Held, int]:
        """Return the window that a batch is in, its batches, and which of them it is."""
        window = self.raw.all[max(0, self.raw.number_at(lambda each: each.first_row, batch))]
        return window, self.held(window), batch - window.first_row

    def position_of(self, record: int) -> int | None:
        """Return where a record begins in the file, by its number; that of its batch if it is compressed."""
        found = self.record_rows(record, 1)
        row = self.batch(found[0].batch) if found else None
        first = None if row is None else self.first_record_of(row.row)
        if row is None or first is None:
            return None
        position = None if row.magic is None else self._entry_fields(row).position_of_record(record - first)
        return row.position if position is None else position

    # --- bytes

    def read_bytes(self, position: int, length: int) -> bytes:
        """Return the bytes from a position on, fewer if the file ends before."""
        if self._file is None or position < 0:
            return b""
        try:
            return self._file.read(position, length)
        except (OSError, KafkaLogError, ValueError):
            return b""

    def _fields_of(self, row: BatchRow) -> EntryFields:
        return EntryFields(self.read_bytes, row.position, row.size)

    def every_field(self, batch_row: int) -> Iterator[Field]:
        """Iterate over all fields of a batch and its records; what is none is "unknown". Each byte is in one."""
        row = self.batch(batch_row)
        if row is not None and row.magic is None:
            yield fields.no_batch(row)
        elif row is not None:
            # It is iterated over while others ask for the fields of other bytes.
            yield from (fields.shown(each, row) for each in self._fields_of(row).every())

    def field_at(self, position: int) -> Field | None:
        """Return the field that a byte belongs to; None if no batch is known there."""
        row = self.batch_over(position)
        if row is None or row.magic is None:
            return None if row is None else fields.no_batch(row)
        return fields.shown(self._entry_fields(row).at(position), row)

    @property
    def raw(self) -> Windows:
        """The sparse index itself, for the parts of this package, once there are batches."""
        assert self._windows is not None
        return self._windows
