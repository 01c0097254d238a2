"""`SegmentReader`: the batches and records of one segment, a window of each at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from kafkalog.errors import KafkaLogError
from kafkalog.record.fields import EntryFields
from kafkalog.scan.progress import Progress
from kafkalog.scan.summary import SegmentSummary
from kafkalog.storage.index.transaction_index import AbortedTxn

from . import batches as batch_rows
from . import fields as naming
from . import find_batch as finding
from . import records as reading
from . import segment_map as mapping
from .batches import Held
from .headers import Rows
from .segment_file import SegmentFile
from .segment_index import Windows
from .types import BatchRow, Cell, Field, Place, RecordDetail, RecordRow
from .window import Window

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
        later_aborted: Callable[[], Iterable[AbortedTxn]] | None = None,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        # The log start offset: records below it are deleted, though they are still there.
        self.log_start = 0
        self.problem: str | None = None
        self._later_aborted = later_aborted
        self._asked_later = False
        self._file: SegmentFile | None = None
        self._windows: Windows | None = None
        self._held: OrderedDict[tuple[int, int], Held] = OrderedDict()
        self.decoded = reading.Decoded()
        # Those of the batch that was asked for last, with the places of records that have been parsed.
        self.entry_fields = lru_cache(maxsize=1)(self._entry_fields)
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
        self._held.clear()
        self.decoded.clear()
        self.entry_fields.cache_clear()

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
                self._asked_later = False
            if windows.is_walked and not self._asked_later:
                self._ask_later(windows)
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
        if file is not None:
            file.close()
        self._forget()
        self._asked_later = False
        self._open()

    def _ask_later(self, windows: Windows) -> None:
        self._asked_later = True
        if self._later_aborted is not None and windows.transactions.open:
            windows.decide(self._later_aborted())

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
        key = window.position, window.end
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
            return found
        found = self._held[key] = batch_rows.read(self.raw, window)
        while len(self._held) > _HELD_WINDOWS:
            self._held.popitem(last=False)
        return found

    def header_rows(self, window: Window) -> Rows | None:
        """Return the header table of a window; None if it cannot be read."""
        if window.lost is not None or self._windows is None:
            return None
        held = self._held.get((window.position, window.end))
        try:
            return held.rows if held is not None else self._windows.rows(window)
        except (OSError, KafkaLogError, ValueError):
            return None

    # --- finding

    def batch_at(self, *, position: int | None = None, offset: int | None = None) -> int | None:
        """Return the number of the batch that a position is in, or that has an offset or the first after it.

        None where there is none, or it is not known yet.
        """
        return finding.batch_at(self, position=position, offset=offset)

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
        return finding.next_damage(self, row, forwards)

    def first_damage(self) -> str | None:
        """Return the problem of the first batch known to be damaged; None: no damage is known."""
        number = finding.next_damage(self, -1, forwards=True)
        batch = None if number is None else self.batch(number)
        return None if batch is None else batch.problem

    def next_transaction(self, row: int, forwards: bool = True, producer: int | None = None) -> int | None:
        """Return the next batch of another transaction, or marker, after (or before) a row; None: none known.

        producer: whose transaction is the one that is left, where the row does not tell.
        """
        return finding.next_transaction(self, row, forwards, producer)

    def producer_at(self, row: int) -> int | None:
        """Return whose transaction a batch is of; None if it is of none."""
        return finding.producer_at(self, row)

    def strip(self, width: int) -> list[Cell]:
        """Return the segment as `width` cells of equally many bytes, each of the worst kind in it."""
        return mapping.strip(self, width) if self._windows is not None and width > 0 else []

    # --- records

    def record_rows(self, first: int, count: int) -> list[RecordRow]:
        """Return the records first .. first + count, as far as they are known."""
        return list(reading.rows(self, first, count))

    def record(self, i: int) -> RecordDetail | None:
        """Return record i whole; None if there is none (yet)."""
        return reading.detail(self, i)

    def record_at(self, offset: int) -> int | None:
        """Return the number of the record with that offset, or of the first after it; None: not known (yet)."""
        return reading.record_at(self, offset)

    def first_record_of(self, batch: int) -> int | None:
        """Return the number of a batch's first record (of the next one's, if it has none); None: none."""
        return reading.first_record_of(self, batch)

    def position_of(self, record: int) -> int | None:
        """Return where a record begins in the file, by its number; that of its batch if it is compressed."""
        found = self.record_rows(record, 1)
        row = self.batch(found[0].batch) if found else None
        first = None if row is None else self.first_record_of(row.row)
        if row is None or first is None:
            return None
        position = naming.position_of_record(self, row, record - first)
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

    def _entry_fields(self, row: BatchRow) -> EntryFields:
        return EntryFields(self.read_bytes, row.position, row.size)

    def every_field(self, batch_row: int) -> Iterator[Field]:
        """Iterate over all fields of a batch and its records; what is none is "unknown". Each byte is in one."""
        row = self.batch(batch_row)
        return iter(()) if row is None else naming.every_field(self, row)

    def field_at(self, position: int) -> Field | None:
        """Return the field that a byte belongs to; None if no batch is known there."""
        row = self.batch_over(position)
        return None if row is None else naming.field_at(self, row, position)

    @property
    def raw(self) -> Windows:
        """The sparse index itself, for the parts of this package, once there are batches."""
        assert self._windows is not None
        return self._windows
