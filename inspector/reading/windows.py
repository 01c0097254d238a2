"""The sparse index of a segment: where every so many batches begin, and what is in between, in a sum.

    file      batch batch batch ... | batch batch ... | lost bytes | batch ... | torn tail
    windows   0 ................... | 1 ............. | 2          | 3 ....... | 4

A window is at most `WINDOW_ROWS` batches or `WINDOW_BYTES` long (one batch may be longer), so that a segment of 1 GiB
has some thousands, whatever is in it. What a table shows of single batches is read again from the file, a window at a
time. Bytes among which no batch can be read are a window of their own, and count as one batch.

The headers come first, then the checksums: a walk over headers alone tells at once how many batches and records there
are. Where it meets damage the checksums say which batch was the last sound one, and from there on the next sound one
is searched for.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inspector.reading.answers import Progress
from inspector.reading.files import SegmentFile
from kafkalog import ByteBufferMessageSet, CompressionType, EndKind, RecordBatch
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck import SoundEntries
from kafkalog.record.control import ControlRecordType, control_type

Rows: TypeAlias = NDArray[np.void]
AbortedRange: TypeAlias = tuple[int, int, int]

WINDOW_ROWS = 1024
WINDOW_BYTES = 256 << 10
# Of the last batch known, by which it is told from another in its place: its header, at most.
PRINT_BYTES = 61
# Searched for a sound batch, or checked, at a time.
PIECE_BYTES = 1 << 20
# An entry that is longer has its checksum computed piece by piece.
LARGE_BYTES = 4 << 20
# A longer one is not decoded: of a damaged batch the size may be anything.
MOST_BYTES = 64 << 20
DATA, TRANSACTIONAL, CONTROL, ABORTED, CORRUPT = range(5)
_TRANSACTIONAL_BIT, _CONTROL_BIT = 0x10, 0x20
_SHORTEST = (26, 34, 61)
# Control batches are this short: type of the first record's key at 68 where the usual bytes are before it.
_MARKER_KEY_AT = 66
_NONE = -(2**63)


@dataclass(slots=True)
class Window:
    """Some batches one after the other. previous, last_offset: the largest offset before them, and up to their end.

    worst: the worst kind seen in it. checked: its checksums have been looked at. lost: what is wrong with bytes among
    which there is no batch. tail: they reach to the end of the file, and may become a batch yet.
    """

    position: int
    end: int
    first_row: int
    rows: int
    first_record: int
    records: int
    previous: int
    last_offset: int
    max_timestamp: int = -1
    worst: int = DATA
    has_transactional: bool = False
    checked: bool = False
    lost: str | None = None
    tail: bool = False
    zeroed: bool = False


@dataclass(slots=True)
class _Open:
    """A producer's transaction under way: its first offset here, and the windows that it has batches in."""

    first_offset: int
    windows: list[int] = field(default_factory=list)


class Windows:
    """The windows of one segment file, as far as it has been read. One thread at a time."""

    def __init__(self, file: SegmentFile, base_offset: int | None) -> None:
        self.file = file
        self.base_offset = base_offset
        self.clear()

    def clear(self) -> None:
        """Forget all: the file is another, or was cut."""
        self.all: list[Window] = []
        self.batches = self.records = 0
        self.codecs: Counter[str] = Counter()
        self.first_timestamp = self.last_timestamp = -1
        self.size = self.file.size
        self._at = 0
        self._seek: int | None = None
        self._cause = ""
        self._checked = 0
        self._checked_bytes = 0
        self._open: dict[int, _Open] = {}
        self._aborted: dict[int, tuple[array[int], array[int]]] = {}
        self._print: tuple[int, bytes] | None = None
        self._sound: tuple[int, SoundEntries] | None = None
        # Whether the last window takes no more.
        self._full = False

    # --- walking

    @property
    def progress(self) -> Progress:
        """Headers and checksums, each byte counted once for both."""
        tail = self.size if self.is_walked else self._at
        checked = self.size if self.is_walked and self._checked >= len(self.all) else self._checked_bytes
        return Progress((tail + checked) // 2 if self.size else 0, self.size)

    @property
    def indexed_bytes(self) -> int:
        """Bytes whose batches are known."""
        return self.all[-1].end if self.all else 0

    @property
    def is_walked(self) -> bool:
        """Whether all batches that the file had when it was last looked at are known."""
        return self._at >= self.size or (bool(self.all) and self.all[-1].tail and self.all[-1].end >= self.size)

    @property
    def open_producers(self) -> frozenset[int]:
        """Producers with a transaction that has no end in this segment, as far as it is known."""
        return frozenset(self._open)

    def follow(self) -> bool:
        """See whether the file has grown, or was cut or written anew: then all begins again. Returns whether it has."""
        size = self.file.size
        if size < self.indexed_bytes or not self._is_same():
            self.clear()
            return True
        if size != self.size:
            self.size = size
            self._sound = None
            self._seek = None
            self._drop_tail()
        return False

    def _is_same(self) -> bool:
        """Whether the last batch known is still where it was: what was cut may have grown again since."""
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
        return (self._seek or self._at) + self._checked_bytes

    def _go_on(self) -> bool:
        if self._seek is not None:
            self._search(self._seek)
        elif not self.is_walked:
            self._walk()
        elif self._checked < len(self.all):
            self._check()
        else:
            return False
        return True

    def _walk(self) -> None:
        """One run of headers more."""
        try:
            part = self.file.part(self._at, self.size)
            rows = next(part.header_runs(), None)
            if rows is None:
                self._end_at(part.end_of_data)
                return
        except KafkaLogError as error:
            self._begin_search(self._at, self._said(error))
            return
        end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
        if end < self.size and not self._follows(end):
            sound = self._without_bad_end(rows)
            if sound < len(rows):
                self._commit(rows[:sound])
                cause = "no batch follows where the size field of this one says, and its checksum does not hold"
                self._begin_search(int(rows["position"][sound]), cause)
                return
        self._commit(rows)

    def _said(self, error: KafkaLogError) -> str:
        details = [f"{name} {value}" for name, value in (("expected", error.expected), ("found", error.found)) if value]
        return error.message + (f" ({', '.join(details)})" if details else "")

    def _end_at(self, end: Any) -> None:
        if end.kind is EndKind.ZEROED:
            self._add_lost(
                self._at, self.size, "nothing but zeros up to the end: reserved, or never written", zeroed=True
            )
        elif end.kind is EndKind.TORN:
            self._begin_search(self._at, "the last batch is not there whole")
        else:
            self.size = self._at = end.position

    def _follows(self, position: int) -> bool:
        """Whether an entry of the file begins here, or may."""
        try:
            return self.file.entries.first_entry(position) is not None
        except (KafkaLogError, ValueError):
            return False

    def _without_bad_end(self, rows: Rows) -> int:
        """How many rows there are up to the last whose checksum holds."""
        bad = self.bad_rows(rows)
        count = len(rows)
        while count and count - 1 in bad:
            count -= 1
        return count

    # --- searching behind damage

    def _begin_search(self, position: int, cause: str) -> None:
        self._at, self._seek, self._cause = position, position + 1, cause

    def _search(self, start: int) -> None:
        sound = self._sound_entries()
        stop = min(start + PIECE_BYTES, self.size)
        try:
            found = self._own(sound, start, stop)
        except (KafkaLogError, OSError):
            found = None
        if found is None and stop < self.size:
            self._seek = stop
            return
        self._seek = None
        self._add_lost(self._at, self.size if found is None else found, self._cause)
        self._at = self.size if found is None else found

    def _own(self, sound: SoundEntries, start: int, stop: int) -> int | None:
        """The first sound entry in [start, stop) that can be of this log: a wrapper's messages are sound as well."""
        last = self.all[-1].last_offset if self.all else _NONE
        while (place := sound.first(start, stop)) is not None:
            entry = self.file.entries.first_entry(place)
            if entry is not None and (entry.magic >= 2 or entry.last_offset > max(last, (self.base_offset or 0) - 1)):
                return place
            start = place + 1
        return None

    def _sound_entries(self) -> SoundEntries:
        if self._sound is None or self._sound[0] != self.size:
            self._sound = self.size, SoundEntries(self.file, self.size)
        return self._sound[1]

    def _add_lost(self, start: int, end: int, cause: str, *, zeroed: bool = False) -> None:
        last = self.all[-1].last_offset if self.all else _NONE
        window = Window(start, end, self.batches, 1, self.records, 0 if zeroed else 1, last, last, lost=cause)
        window.worst = DATA if zeroed else CORRUPT
        window.checked, window.tail, window.zeroed = True, end >= self.size, zeroed
        self.all.append(window)
        self.batches += 1
        self.records += window.records

    # --- committing rows to windows

    def _commit(self, rows: Rows) -> None:
        if not len(rows):
            return
        counts = self.record_counts(rows)
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
        self._count(rows)

    def _window_for(self, position: int) -> Window:
        """The last window, where there is room, or a new one."""
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
        window.end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
        window.rows += len(rows)
        window.records += records
        window.last_offset = max(window.last_offset, int(rows["last_offset"].max()))
        window.max_timestamp = max(window.max_timestamp, int(rows["max_timestamp"].max()))
        window.checked = False
        self._checked = min(self._checked, len(self.all) - 1)
        self._full = window.rows >= WINDOW_ROWS
        self.batches += len(rows)
        self.records += records
        self._note_transactions(window, rows)

    def record_counts(self, rows: Rows) -> NDArray[np.int64]:
        """How many records each row stands for in tables: one at least where its header makes no sense."""
        most = rows["last_offset"] - rows["base_offset"] + 1
        counts = np.where(rows["magic"] >= 2, rows["records_count"], 1).astype(np.int64)
        senseless = (rows["magic"] >= 2) & ((counts < 0) | (most < 1) | (counts > most))
        counts[senseless] = 1
        wrappers = (rows["magic"] < 2) & (rows["compression_type"] > 0)
        for i in np.flatnonzero(wrappers).tolist():
            counts[i] = max(1, len(self.decoded_offsets(rows[i])))
        return counts

    def decoded_offsets(self, row: np.void) -> NDArray[np.int64]:
        """The offsets inside a wrapper; none where it cannot be read."""
        try:
            batch = self.batch(row)
            return np.empty(0, np.int64) if batch is None else batch.columns(check_crcs=False).offset
        except KafkaLogError:
            return np.empty(0, np.int64)

    def batch(self, row: np.void) -> RecordBatch | None:
        """The batch of a row. None: it is not there any more. CorruptRecordError: it is too large to be held."""
        start = int(row["position"])
        if row["size_in_bytes"] > MOST_BYTES:
            what = "the batch is too large to be looked into here"
            raise CorruptRecordError(
                what, str(self.file.path), start, f"at most {MOST_BYTES} bytes", int(row["size_in_bytes"])
            )
        return next(self.file.part(start, start + int(row["size_in_bytes"])).batches(), None)

    def _count(self, rows: Rows) -> None:
        for codec, count in zip(*np.unique(rows["compression_type"], return_counts=True), strict=True):
            self.codecs[codec_name(int(codec))] += int(count)
        times = rows["max_timestamp"]
        if self.first_timestamp < 0:
            known = np.flatnonzero(times >= 0)
            if len(known):
                row = rows[int(known[0])]
                self.first_timestamp = int(row["base_timestamp"] if row["magic"] >= 2 else row["max_timestamp"])
        self.last_timestamp = max(self.last_timestamp, int(times.max()))

    # --- transactions

    def _note_transactions(self, window: Window, rows: Rows) -> None:
        flags = np.where(rows["magic"] >= 2, rows["attributes"], 0)
        if flags.any() and (flags & _CONTROL_BIT).any():
            window.worst = max(window.worst, CONTROL)
        own = np.flatnonzero(flags & _TRANSACTIONAL_BIT)
        if not len(own):
            return
        window.has_transactional = True
        window.worst = max(window.worst, TRANSACTIONAL)
        number = len(self.all) - 1
        markers = _Markers(self, rows) if (flags[own] & _CONTROL_BIT).any() else None
        columns = zip(
            own.tolist(), rows["producer_id"][own].tolist(), rows["base_offset"][own].tolist(),
            (flags[own] & _CONTROL_BIT != 0).tolist(), strict=True,
        )  # fmt: skip
        for i, producer, offset, control in columns:
            if control:
                self._ended(producer, offset, markers is not None and markers.is_abort(i))
                continue
            known = self._open.get(producer)
            if known is None:
                known = self._open[producer] = _Open(offset)
            if not known.windows or known.windows[-1] != number:
                known.windows.append(number)

    def _ended(self, producer: int, offset: int, aborted: bool) -> None:
        known = self._open.pop(producer, None)
        if not aborted:
            return
        # Without batches here the transaction began before this segment, or is empty.
        first = offset if known is None else known.first_offset
        self.add_aborted(producer, first, offset)
        for number in known.windows if known is not None else ():
            self.all[number].worst = max(self.all[number].worst, ABORTED)

    def add_aborted(self, producer: int, first: int, last: int) -> None:
        """A transaction was aborted: its batches lie in [first, last]."""
        firsts, lasts = self._aborted.setdefault(producer, (array("q"), array("q")))
        if not lasts or last > lasts[-1]:
            firsts.append(first)
            lasts.append(last)

    def decide(self, aborted: Iterable[AbortedRange]) -> None:
        """What later segments say of transactions that are open at this one's end: producer, first and last offset."""
        for producer, first, last in aborted:
            known = self._open.get(producer)
            if known is not None and first <= known.first_offset <= last:
                self.add_aborted(producer, known.first_offset, last)
                for number in known.windows:
                    self.all[number].worst = max(self.all[number].worst, ABORTED)

    def is_aborted(self, producer: int, offset: int) -> bool:
        """Whether a transactional batch of that producer and offset belongs to an aborted transaction."""
        found = self._aborted.get(producer)
        if found is None:
            return False
        i = bisect_right(found[0], offset) - 1
        return i >= 0 and offset <= found[1][i]

    # --- checksums

    def _check(self) -> None:
        window = self.all[self._checked]
        if not window.checked:
            try:
                if self.bad_rows(self.rows(window)):
                    window.worst = CORRUPT
            except KafkaLogError:
                pass
            window.checked = True
        self._checked += 1
        self._checked_bytes = window.end

    def rows(self, window: Window) -> Rows:
        """The header table of a window's batches. CorruptRecordError: the file has changed."""
        rows = self.file.part(window.position, window.end).headers()
        if len(rows) != window.rows:
            raise CorruptRecordError(
                "the file has changed", str(self.file.path), window.position, f"{window.rows} batches", len(rows)
            )
        return rows

    def bad_rows(self, rows: Rows) -> dict[int, str]:
        """Of rows one after the other, which are no sound batches, and why."""
        bad: dict[int, str] = {}
        first = 0
        sizes = rows["size_in_bytes"]
        for large in [*np.flatnonzero(sizes > LARGE_BYTES).tolist(), len(rows)]:
            self._check_run(rows, first, large, bad)
            if large < len(rows):
                self._check_large(rows, large, bad)
            first = large + 1
        return bad

    def _check_run(self, rows: Rows, first: int, stop: int, bad: dict[int, str]) -> None:
        while first < stop:
            start = int(rows["position"][first])
            ends = rows["position"][first:stop] + rows["size_in_bytes"][first:stop]
            last = first + max(1, int(np.searchsorted(ends, start + LARGE_BYTES, "right")))
            end = int(ends[last - first - 1])
            data = memoryview(self.file.read(start, end - start))
            self._check_bytes(rows[first:last], first, data, bad)
            first = last

    def _check_bytes(self, rows: Rows, number: int, data: memoryview, bad: dict[int, str]) -> None:
        start, first = int(rows["position"][0]), 0
        while first < len(rows):
            at = int(rows["position"][first]) - start
            try:
                ByteBufferMessageSet(data[at:]).ensure_valid()
            except KafkaLogError as error:
                wrong = max(
                    first, int(np.searchsorted(rows["position"], start + at + (error.position or 0), "right")) - 1
                )
                bad[number + wrong] = self._said(error)
                first = wrong + 1
            else:
                return

    def _check_large(self, rows: Rows, i: int, bad: dict[int, str]) -> None:
        computed, stored = self._sound_entries().checksum(rows[i]), int(rows["checksum"][i])
        if not 0 <= rows["magic"][i] <= 2:
            bad[i] = f"the magic is none of 0, 1, 2 (expected 0..2, found {int(rows['magic'][i])})"
        elif computed != stored:
            bad[i] = f"the checksum does not hold (expected {stored:#010x}, found {computed:#010x})"

    # --- finding

    def number_at(self, key: Callable[[Window], int], value: int) -> int:
        """The number of the last window whose key is at most `value`; -1: none is. Keys rise."""
        return bisect_right(self.all, value, key=key) - 1

    def from_number(self, number: int) -> Iterator[Window]:
        """The windows from one on."""
        return iter(self.all[max(0, number) :])


class _Markers:
    """What the control batches among some rows say; their bytes are read together."""

    def __init__(self, windows: Windows, rows: Rows) -> None:
        self._windows = windows
        self._rows = rows
        self._start = int(rows["position"][0])
        end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
        self._data = windows.file.read(self._start, end - self._start) if end - self._start <= LARGE_BYTES else b""

    def is_abort(self, i: int) -> bool:
        at = int(self._rows["position"][i]) - self._start
        record = self._data[at + 61 : at + _MARKER_KEY_AT + 4]
        if len(record) == 9 and record[1:5] == b"\0\0\0\x08" and record[0] < 0x80:
            return record[5:] == b"\0\0\0\0"
        return control_of(self._windows.batch(self._rows[i])) == "ABORT"


def control_of(batch: RecordBatch | None) -> str | None:
    """What the first record of a control batch is, by its name; None where it cannot be read."""
    try:
        record = next(iter(batch.columns(check_crcs=False)), None) if batch is not None else None
        if record is None:
            return None
        kind, number = control_type(record.key)
    except KafkaLogError:
        return None
    return f"UNKNOWN {number}" if kind is ControlRecordType.UNKNOWN else kind.name


def codec_name(codec: int) -> str:
    """Kafka's name of a codec."""
    return CompressionType(codec).name.lower() if codec <= CompressionType.ZSTD else f"codec {codec}"
