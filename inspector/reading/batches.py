"""`SegmentReader`: the batches and records of one segment, a window of each at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inspector.reading import fields as naming
from inspector.reading import records as reading
from inspector.reading import strip as mapping
from inspector.reading.answers import (
    BatchKind,
    BatchRow,
    Cell,
    Field,
    Progress,
    RecordDetail,
    RecordRow,
)
from inspector.reading.files import SegmentFile
from inspector.reading.locking import locked
from inspector.reading.windows import (
    ABORTED,
    CONTROL,
    CORRUPT,
    DATA,
    TRANSACTIONAL,
    AbortedRange,
    Rows,
    Window,
    Windows,
    codec_name,
    control_of,
)
from kafkalog import TimestampType
from kafkalog.errors import KafkaLogError

# What a step does at most, so that whoever waits for the worker waits no longer.
STEP_SECONDS = 0.01
_HELD_WINDOWS = 32
_TRANSACTIONAL_BIT, _CONTROL_BIT = 0x10, 0x20


class Held(NamedTuple):
    """A window's batches as read again. bad: row in the window -> what is wrong; empty for lost bytes."""

    rows: Rows | None
    bad: dict[int, str]
    counts: NDArray[np.int64]


_NO_COUNTS = np.zeros(1, np.int64)


class SegmentReader:
    """One segment file, in windows. Nothing here raises for what is on disk; calls of several threads take turns.

    path: of the file. base_offset: its name's, None where that is none. later_aborted: what later segments say of
    transactions that were aborted: producer, first and last offset.
    """

    def __init__(
        self,
        path: Path,
        base_offset: int | None = None,
        later_aborted: Callable[[], Iterable[AbortedRange]] | None = None,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.problem: str | None = None
        self.lock = RLock()
        self._later_aborted = later_aborted
        self._asked_later = False
        self._file: SegmentFile | None = None
        self._windows: Windows | None = None
        self._held: OrderedDict[tuple[int, int], Held] = OrderedDict()
        self.decoded = reading.Decoded()
        self.walked = naming.Walked()
        self._open()

    def _open(self) -> None:
        try:
            self._file = SegmentFile(self.path)
            self._windows = Windows(self._file, self.base_offset)
            self.problem = None
        except (OSError, KafkaLogError) as error:
            self._file = self._windows = None
            self.problem = str(error)

    @locked
    def close(self) -> None:
        """Give up the file."""
        if self._file is not None:
            self._file.close()
        self._file = self._windows = None
        self._forget()

    def _forget(self) -> None:
        self._held.clear()
        self.decoded.clear()
        self.walked.clear()

    # --- reading it through

    @locked
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
            if windows.follow():
                self._forget()
                self._asked_later = False
            done = windows.step(max_bytes, seconds)
            if windows.is_walked and not self._asked_later:
                self._ask_later(windows)
        except (OSError, KafkaLogError, ValueError) as error:
            self.problem = str(error)
            return Progress(windows.size, windows.size)
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
        if self._later_aborted is not None and windows.open_producers:
            windows.decide(self._later_aborted())

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows known so far, for what reads a whole segment through."""
        return tuple(self._windows.all) if self._windows is not None else ()

    @property
    def size(self) -> int:
        """Bytes of the file when it was last looked at."""
        return self._windows.size if self._windows is not None else 0

    @property
    def indexed_bytes(self) -> int:
        """Bytes whose batches are known."""
        return self._windows.indexed_bytes if self._windows is not None else 0

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
    def codecs(self) -> tuple[tuple[str, int], ...]:
        """Name of the codec, and how many batches have it, the most first."""
        return tuple(self._windows.codecs.most_common()) if self._windows is not None else ()

    @property
    def first_timestamp(self) -> int | None:
        """Of the first record that has one, ms."""
        return _time(self._windows.first_timestamp) if self._windows is not None else None

    @property
    def last_timestamp(self) -> int | None:
        """The largest, ms."""
        return _time(self._windows.last_timestamp) if self._windows is not None else None

    # --- batches

    def batch(self, i: int) -> BatchRow | None:
        """Batch i; None where there is none (yet)."""
        found = self.batch_rows(i, 1)
        return found[0] if found else None

    @locked
    def batch_rows(self, first: int, count: int) -> list[BatchRow]:
        """The batches first .. first + count, as far as they are known."""
        rows: list[BatchRow] = []
        if self._windows is None or first < 0 or count <= 0:
            return rows
        number = self._windows.number_at(lambda window: window.first_row, first)
        for window in self._windows.from_number(number):
            if window.first_row >= first + count:
                break
            held = self.held(window)
            start, stop = max(first - window.first_row, 0), min(first + count - window.first_row, window.rows)
            rows += [self.row_of(window, held, i) for i in range(start, stop)]
        return rows

    @locked
    def held(self, window: Window) -> Held:
        """A window's batches, read from the file unless they were a moment ago."""
        key = window.position, window.end
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
            return found
        found = self._read(window)
        self._held[key] = found
        while len(self._held) > _HELD_WINDOWS:
            self._held.popitem(last=False)
        return found

    def _read(self, window: Window) -> Held:
        assert self._windows is not None
        if window.lost is not None:
            return Held(None, {}, _NO_COUNTS)
        try:
            rows = self._windows.rows(window)
            bad = self._windows.bad_rows(rows)
            counts = self._windows.record_counts(rows)
        except (OSError, KafkaLogError, ValueError) as error:
            return Held(None, {0: str(error)}, _NO_COUNTS)
        if bad:
            window.worst = CORRUPT
        return Held(rows, bad, counts)

    def header_rows(self, window: Window) -> Rows | None:
        """The header table of a window; None where it cannot be read."""
        if window.lost is not None or self._windows is None:
            return None
        held = self._held.get((window.position, window.end))
        try:
            return held.rows if held is not None else self._windows.rows(window)
        except (OSError, KafkaLogError, ValueError):
            return None

    def ranks(self, window: Window, rows: Rows) -> list[int]:
        """The kind of each batch of a window, as its place in `KINDS`; the checksums are those already looked at."""
        assert self._windows is not None
        flags = np.where(rows["magic"] >= 2, rows["attributes"], 0)
        ranks = np.where(flags & _CONTROL_BIT, CONTROL, np.where(flags & _TRANSACTIONAL_BIT, TRANSACTIONAL, DATA))
        if window.worst >= ABORTED:
            for i in np.flatnonzero(ranks == TRANSACTIONAL).tolist():
                if self._windows.is_aborted(int(rows["producer_id"][i]), int(rows["base_offset"][i])):
                    ranks[i] = ABORTED
        if window.worst == CORRUPT:
            ranks[list(self.held(window).bad)] = CORRUPT
        found: list[int] = ranks.tolist()
        return found

    def row_of(self, window: Window, held: Held, i: int) -> BatchRow:
        """Row i of a window."""
        number = window.first_row + i
        if held.rows is None:
            problem = window.lost or held.bad.get(0)
            kind: BatchKind = "data" if window.zeroed else "corrupt"
            problem = self._placed(problem, window.position)
            return BatchRow(number, window.position, window.end - window.position, kind, problem=problem)
        return self._batch_row(number, held, i, window)

    def _batch_row(self, number: int, held: Held, i: int, window: Window) -> BatchRow:
        assert held.rows is not None
        assert self._windows is not None
        row = held.rows[i]
        magic, base, last = int(row["magic"]), int(row["base_offset"]), int(row["last_offset"])
        is_v2, problem = magic >= 2, held.bad.get(i)
        flags = int(row["attributes"]) if is_v2 else 0
        records: int | None = int(row["records_count"]) if is_v2 else 1
        if not is_v2 and row["compression_type"]:
            offsets = self._windows.decoded_offsets(row)
            base, records = (int(offsets[0]), len(offsets)) if len(offsets) else (last, None)
        before = int(held.rows["last_offset"][:i].max()) if i else window.previous
        before = max(before, window.previous)
        if problem is None and before >= 0 and base <= before:
            problem = f"it begins no later than the batch before (expected at least {before + 1}, found {base})"
        return BatchRow(
            number,
            int(row["position"]),
            int(row["size_in_bytes"]),
            self._kind(row, flags, i in held.bad),
            base,
            last,
            records,
            codec_name(int(row["compression_type"])),
            magic,
            _known(row["producer_id"]) if is_v2 else None,
            _known(row["producer_epoch"]) if is_v2 else None,
            _known(row["base_sequence"]) if is_v2 else None,
            _known(row["partition_leader_epoch"]) if is_v2 else None,
            _time(int(row["base_timestamp"] if is_v2 else row["max_timestamp"])),
            _time(int(row["max_timestamp"])),
            _timestamp_type(int(row["timestamp_type"])),
            bool(flags & _TRANSACTIONAL_BIT),
            control_of(self._windows.batch(row)) if flags & _CONTROL_BIT else None,
            int(row["checksum"]),
            max(0, base - before - 1) if before >= 0 else self._gap_at_start(base),
            self._placed(problem, int(row["position"])),
        )

    def _placed(self, problem: str | None, position: int) -> str | None:
        """With the file and the place in it."""
        return None if problem is None else f"{self.path.name}: position {position}: {problem}"

    def _gap_at_start(self, base: int) -> int:
        return max(0, base - self.base_offset) if self.base_offset is not None else 0

    def _kind(self, row: np.void, flags: int, bad: bool) -> BatchKind:
        assert self._windows is not None
        if bad:
            return "corrupt"
        if flags & _CONTROL_BIT:
            return "control"
        if not flags & _TRANSACTIONAL_BIT:
            return "data"
        aborted = self._windows.is_aborted(int(row["producer_id"]), int(row["base_offset"]))
        return "aborted" if aborted else "transactional"

    # --- finding

    @locked
    def batch_at(
        self, *, position: int | None = None, offset: int | None = None, timestamp: int | None = None
    ) -> int | None:
        """The number of the batch that a position is in, or that holds an offset or a time (ms) or the first after it.

        None where there is none, or it is not known yet.
        """
        if self._windows is None:
            return None
        if position is not None:
            return self._row_at_position(self._windows, position)
        if offset is not None:
            return self._first_row(self._windows, "last_offset", offset)
        if timestamp is not None:
            return self._first_row(self._windows, "max_timestamp", timestamp)
        raise ValueError("a position, an offset or a timestamp is needed")

    def _row_at_position(self, windows: Windows, position: int) -> int | None:
        number = windows.number_at(lambda window: window.position, position)
        if number < 0 or position >= windows.all[-1].end:
            return None
        window = windows.all[number]
        rows = self.held(window).rows
        if rows is None:
            return window.first_row
        return window.first_row + int(np.searchsorted(rows["position"], position, "right")) - 1

    def _first_row(self, windows: Windows, name: str, value: int) -> int | None:
        """The first batch whose `name` is `value` or more."""
        if name == "last_offset":
            candidates = windows.from_number(windows.number_at(lambda window: window.last_offset, value - 1) + 1)
        else:
            candidates = (window for window in windows.all if window.max_timestamp >= value)
        for window in candidates:
            rows = self.held(window).rows
            if rows is None:
                continue
            found = np.flatnonzero(rows[name] >= value)
            if len(found):
                return window.first_row + int(found[0])
        return None

    @locked
    def next_damage(self, row: int, forwards: bool = True) -> int | None:
        """The next damaged batch after (or before) a row; None where none is known."""
        return self._next(row, forwards, lambda each: each.kind == "corrupt", lambda window: window.worst == CORRUPT)

    @locked
    def next_transaction(self, row: int, forwards: bool = True) -> int | None:
        """The next batch of another transaction, or marker, after (or before) a row; None where none is known."""
        here = self.batch(row)
        producer = here.producer_id if here is not None and here.is_transactional else None

        def wanted(each: BatchRow) -> bool:
            other = each.producer_id != producer or each.control is not None
            return each.is_transactional and other

        return self._next(row, forwards, wanted, lambda window: window.has_transactional)

    def _next(
        self, row: int, forwards: bool, wanted: Callable[[BatchRow], bool], in_window: Callable[[Window], bool]
    ) -> int | None:
        if self._windows is None or not self._windows.all:
            return None
        number = max(0, self._windows.number_at(lambda window: window.first_row, row))
        numbers = range(number, len(self._windows.all)) if forwards else range(number, -1, -1)
        for each in numbers:
            window = self._windows.all[each]
            if not in_window(window):
                continue
            held = self.held(window)
            places = range(window.rows) if forwards else range(window.rows - 1, -1, -1)
            for i in places:
                beyond = window.first_row + i > row if forwards else window.first_row + i < row
                if beyond and wanted(self.row_of(window, held, i)):
                    return window.first_row + i
        return None

    @locked
    def strip(self, width: int) -> list[Cell]:
        """The segment as `width` cells of equally many bytes, each of the worst kind in it."""
        return mapping.strip(self, width) if self._windows is not None and width > 0 else []

    # --- records

    @locked
    def record_rows(self, first: int, count: int) -> list[RecordRow]:
        """The records first .. first + count, as far as they are known."""
        return list(reading.rows(self, first, count))

    @locked
    def record(self, i: int) -> RecordDetail | None:
        """Record i whole; None where there is none (yet)."""
        return reading.detail(self, i)

    @locked
    def record_at(self, offset: int) -> int | None:
        """The number of the record with that offset, or of the first behind it; None where it is not known (yet)."""
        return reading.record_at(self, offset)

    @locked
    def first_record_of(self, batch: int) -> int | None:
        """The number of a batch's first record (of the next one's, where it has none); None where there is none."""
        return reading.first_record_of(self, batch)

    @locked
    def position_of(self, record: int) -> int | None:
        """Where a record begins in the file, by its number; that of its batch where it is compressed."""
        found = self.record_rows(record, 1)
        row = self.batch(found[0].batch) if found else None
        first = None if row is None else self.first_record_of(row.row)
        if row is None or first is None:
            return None
        position = naming.position_of_record(self, row, record - first)
        return row.position if position is None else position

    # --- bytes

    @locked
    def read_bytes(self, position: int, length: int) -> bytes:
        """The bytes from a position on, fewer where the file ends before."""
        if self._file is None or position < 0:
            return b""
        try:
            return self._file.read(position, length)
        except (OSError, KafkaLogError, ValueError):
            return b""

    @locked
    def fields(self, batch_row: int) -> tuple[Field, ...]:
        """The fields of a batch's header and, where they are not compressed, of its first records."""
        row = self.batch(batch_row)
        return () if row is None else naming.fields_of(self, row)

    def every_field(self, batch_row: int) -> Iterator[Field]:
        """All fields of a batch, of all its records too; what is none is a field "unknown". Each byte is in one."""
        row = self.batch(batch_row)
        return iter(()) if row is None else naming.every_field(self, row)

    @locked
    def field_at(self, position: int) -> Field | None:
        """The field that a byte belongs to; None where no batch is known there."""
        number = self.batch_at(position=position)
        row = None if number is None else self.batch(number)
        return None if row is None else naming.field_at(self, row, position)

    @property
    def raw(self) -> Windows | None:
        """The sparse index itself, for the parts of this package."""
        return self._windows


def _known(value: np.generic) -> int | None:
    number = int(value)
    return None if number == -1 else number


def _time(value: int) -> int | None:
    return value if value >= 0 else None


def _timestamp_type(value: int) -> str:
    return TimestampType(value).label
