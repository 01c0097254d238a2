"""One file from its first byte to its last: `FileCheck`.

    run of entries -> which checksums hold -> which of the others can still be stepped over -> headers, order, records
                                               none: search on for the next sound entry; what lies between is lost

An entry with a wrong checksum is stepped over by its size field when what follows shows that field to be right: a sound
entry soon after, or the end of the data. Otherwise the framing is lost from there on.

Files are read and never mapped: a page that a failing disk cannot give is an error here, and the end of a process that
has mapped it.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkalog._speedups import framing
from kafkalog._speedups.checksum import first_invalid
from kafkalog._speedups.framing import scan_file_headers
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck.batch_search import SoundEntries
from kafkalog.fsck.content_checks import RecordCheck, hexadecimal
from kafkalog.fsck.findings import Finding, Severity, Summary
from kafkalog.fsck.header_checks import Bounds, Flags, Longs, OrderCheck, Rows, about, field_findings
from kafkalog.fsck.range_checksums import CRC32, CRC32C
from kafkalog.record import decompress
from kafkalog.record.decoding import Entries, Reading
from kafkalog.record.framing import Stop
from kafkalog.record.layout import RECORD_BATCH_OVERHEAD
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.files.readable_file import ReadableFile

RUN_ROWS = 8192
RUN_BYTES = 2 << 20
# After lost framing runs are short at first: what they read beyond the next damage is read again.
_CAREFUL_BYTES = 16 * 1024
# So many well-formed size fields that lead to each other are no accident.
_LINKS = 16
_LOG_OVERHEAD = 12
# An entry of each format with nothing in it.
_SHORTEST = (26, 34, RECORD_BATCH_OVERHEAD)
_HEADER_PEEK = 23
# Offsets are Java longs.
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What to check and how.

    path: named in findings. sealed: the segment has a successor. deep: decompress and parse every record. limit: bytes
    that a batch may decompress to. progress: told how many bytes more have been checked.
    """

    path: str
    bounds: Bounds
    sealed: bool = False
    deep: bool = False
    limit: int = decompress.DEFAULT_LIMIT
    progress: Callable[[int], object] | None = None


class _Run(NamedTuple):
    """Entries that follow each other, up to `end`. sound: their checksum holds; computed: those of the others."""

    rows: Rows
    sound: Flags
    computed: dict[int, int]
    end: int


class _Cause(NamedTuple):
    """Why the framing is lost at a place."""

    message: str
    expected: int | str | None = None
    found: int | str | None = None

    def behind(self, message: str) -> "_Cause":
        return self._replace(message=f"{message}: {self.message}")


class FileCheck:
    """The check of one open file, as long as it is now. `summary` grows with it."""

    def __init__(self, file: ReadableFile, scope: Scope, summary: Summary) -> None:
        self._file = file
        self._scope = scope
        self._path = scope.path
        self._summary = summary
        self._end = file.size
        self._done = 0
        self._span = RUN_BYTES
        self._sound = SoundEntries(file, self._end)
        self._order = OrderCheck(scope.path, scope.bounds)
        self._records = RecordCheck(scope.path, scope.limit)

    def findings(self) -> Iterator[Finding]:
        """All findings, nearly in the order of their positions. OSError: the file cannot be read on."""
        try:
            yield from self._walk()
        except CorruptRecordError as error:
            yield Finding(Severity.WARNING, "file-changed", self._path, error.message, error.position)
        self._advance(self._end)

    def _walk(self) -> Iterator[Finding]:
        at: int | None = 0
        while at is not None:
            rows, stop = self._scan(at, RUN_ROWS, self._span)
            run, lost = self._judge(rows, stop)
            yield from sorted(self._run_findings(run))
            self._advance(run.end)
            if lost is not None:
                at = yield from self._skip(run.end, lost)
            elif stop.more:
                at = run.end
                self._span = min(2 * self._span, RUN_BYTES)
            else:
                at = yield from self._stopped(stop)

    def _advance(self, position: int) -> None:
        step = max(0, position - self._done)
        self._done += step
        self._summary.bytes += step
        if step and self._scope.progress is not None:
            self._scope.progress(step)

    def _scan(self, start: int, rows: int, span: int = -1) -> tuple[Rows, Stop]:
        try:
            found, *stop = scan_file_headers(self._file.fileno(), start, self._end, rows, span)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        return found, Stop(*stop)

    # --- which entries are sound, and which of the others can be stepped over

    def _judge(self, rows: Rows, stop: Stop) -> tuple[_Run, _Cause | None]:
        """The entries up to where the framing is lost (None: it is not) or the scan stopped."""
        if not len(rows):
            return _Run(rows, np.empty(0, np.bool_), {}, stop.position), None
        computed = self._wrong_checksums(rows)
        sound = readable(rows)
        sound[list(computed)] = False
        for i in np.flatnonzero(~sound).tolist():
            if not self._linked(rows, sound, i, stop) or self._swallowed(rows[i]):
                return _Run(rows[:i], sound[:i], computed, int(rows["position"][i])), self._cause(
                    rows[i], computed.get(i)
                )
        return _Run(rows, sound, computed, stop.position), None

    def _wrong_checksums(self, rows: Rows) -> dict[int, int]:
        """Of the rows whose checksum does not hold, index -> the checksum computed."""
        wrong: dict[int, int] = {}
        whole = len(rows)
        # A run ends with the first entry that makes it long enough; that one alone can be of any size.
        if int(rows["size_in_bytes"][-1]) > self._span:
            whole -= 1
            value = self._sound.checksum(rows[whole])
            if value != int(rows["checksum"][whole]):
                wrong[whole] = value
        start = int(rows["position"][0])
        end = start if not whole else int(rows["position"][whole - 1]) + int(rows["size_in_bytes"][whole - 1])
        view, i = self._file.view(start, end - start), 0
        while i < whole:
            bad, value = first_invalid(view, rows[i:whole], start)
            if i + bad < whole:
                wrong[i + bad] = value
            i += bad + 1
        return wrong

    def _linked(self, rows: Rows, sound: Flags, i: int, stop: Stop) -> bool:
        """Whether what follows entry i shows that its size field is right."""
        following = sound[i + 1 : i + 1 + _LINKS]
        if following.any() or len(following) == _LINKS:
            return True
        more = rows[:0]
        if stop.more:
            more, stop = self._scan(stop.position, _LINKS)
        if len(more) == _LINKS or any(map(self._is_sound, more)):
            return True
        if stop.status == framing.ZEROED:
            # A size field that is too small leaves behind it the end of the batch, which may well be zeros.
            return self._right_size(int(rows["position"][i]), self._end) is None
        return stop.status == framing.END

    def _is_sound(self, row: np.void) -> bool:
        magic, size = int(row["magic"]), int(row["size_in_bytes"])
        known = 0 <= magic <= 2 and size >= _SHORTEST[magic]
        return known and self._sound.checksum(row) == int(row["checksum"])

    def _swallowed(self, row: np.void) -> bool:
        """Whether sound entries fill the end of this damaged one: then it has swallowed them, its size is too large."""
        start, end = int(row["position"]) + 1, int(row["position"]) + int(row["size_in_bytes"])
        while (place := self._sound.first(start, end)) is not None:
            while place < end and self._sound.first(place, place + 1) is not None:
                start = place + 1
                place += int(self._scan(place, 1)[0]["size_in_bytes"][0])
            if place == end:
                return True
        return False

    def _cause(self, row: np.void, computed: int | None) -> _Cause:
        if not 0 <= row["magic"] <= 2:
            return _Cause("the magic is none of 0, 1, 2, and no batch follows", "0..2", int(row["magic"]))
        if computed is None:
            return _Cause("the batch is shorter than its header, and no batch follows", None, int(row["size_in_bytes"]))
        message = "the checksum does not hold, and no batch follows where the size field says"
        return _Cause(message, hexadecimal(row["checksum"]), hexadecimal(computed))

    # --- what there is to say about a run

    def _run_findings(self, run: _Run) -> Iterator[Finding]:
        for i in np.flatnonzero(~run.sound).tolist():
            yield self._damaged(run.rows[i], run.computed.get(i))
        rows = run.rows[run.sound]
        if not len(rows):
            return
        self._summary.batches += len(rows)
        before = self._order.before(rows)
        yield from field_findings(rows, self._path)
        yield from self._order.findings(rows, lambda: self._scan(run.end, 1)[0])
        if self._scope.deep:
            yield from self._deep(rows, before)

    def _damaged(self, row: np.void, computed: int | None) -> Finding:
        magic, size = int(row["magic"]), int(row["size_in_bytes"])
        if not 0 <= magic <= 2:
            return about(row, self._path, Severity.ERROR, "unknown-magic", "the magic is none of 0, 1, 2",
                         first_offset=None, last_offset=None, expected="0..2", found=magic)  # fmt: skip
        if size < _SHORTEST[magic]:
            return about(row, self._path, Severity.ERROR, "batch-too-short", "the batch is shorter than its header",
                         expected=f"at least {_SHORTEST[magic]}", found=size)  # fmt: skip
        return about(row, self._path, Severity.ERROR, "crc-mismatch", "the checksum does not hold",
                     expected=hexadecimal(row["checksum"]), found=hexadecimal(computed or 0))  # fmt: skip

    def _deep(self, rows: Rows, before: Longs) -> Iterator[Finding]:
        # The bytes are asked for again, piece by piece, so that one entry of any size stands alone in memory.
        ends = rows["position"] + rows["size_in_bytes"]
        first = 0
        while first < len(rows):
            start = int(rows["position"][first])
            stop = max(first + 1, int(np.searchsorted(ends, start + RUN_BYTES, "right")))
            view = self._file.view(start, int(ends[stop - 1]) - start)
            yield from self._records.findings(Entries(rows[first:stop], view, start), before[first:stop])
            first = stop
        self._summary.records += self._records.records
        self._records.records = 0

    # --- where no entry follows

    def _stopped(self, stop: Stop) -> Generator[Finding, None, int | None]:
        """What the end of a scan means; returns where to go on, or None at the end of the file."""
        if stop.status == framing.END:
            return None
        if stop.status == framing.ZEROED:
            yield self._zeroed_tail(stop.position)
            return None
        if stop.status == framing.TORN:
            message = f"a batch of {stop.expected} bytes would begin here, {stop.found} are left"
            return (yield from self._skip(stop.position, _Cause(message), torn=True))
        message = "the size field is less than the smallest record's"
        return (yield from self._skip(stop.position, _Cause(message, f"at least {stop.expected}", stop.found)))

    def _skip(self, start: int, cause: _Cause, *, torn: bool = False) -> Generator[Finding, None, int | None]:
        """Go on at the next sound entry, if there is one."""
        self._span = _CAREFUL_BYTES
        place = self._next_sound(start + 1)
        end = self._end if place is None else place
        size = self._right_size(start, end)
        if size is not None:
            message = "only the size field is wrong: with the size expected, the checksum holds"
            yield self._lost("wrong-size", start, place, _Cause(message, *size))
        elif place is None and torn and self._may_be_torn(start):
            severity = Severity.ERROR if self._scope.sealed else Severity.WARNING
            message = "the last batch is not there whole"
            message += ", though the segment has a successor" if self._scope.sealed else "; recovery cuts it off"
            yield self._lost("torn-tail", start, None, cause.behind(message), severity=severity)
        else:
            until = "up to the end" if place is None else "up to the next batch"
            yield self._lost("lost-bytes", start, place, cause.behind(f"no batch can be read {until}"))
        self._advance(end)
        return place

    def _next_sound(self, start: int) -> int | None:
        """The next sound entry that may be one of the log's own.

        A damaged wrapper whose content did not compress shows its inner messages, as sound as the log's; those of
        format 1 have offsets that count from 0.
        """
        last, most = self._order.last_offset, self._scope.bounds.last()
        least = (self._scope.bounds.base or 0) if last is None else last + 1
        while (place := self._sound.first(start, self._end)) is not None:
            row = self._scan(place, 1)[0][0]
            if row["magic"] >= 2 or least <= int(row["last_offset"]) <= (_MOST if most is None else most):
                break
            start = place + 1
        return place

    def _lost(
        self, code: str, start: int, place: int | None, cause: _Cause, *, severity: Severity = Severity.ERROR
    ) -> Finding:
        """A finding about the bytes up to the sound entry at `place`, or the end; and about the offsets in them."""
        last = self._order.last_offset
        first = self._scope.bounds.base if last is None else last + 1
        following = None if self._scope.bounds.following is None else self._scope.bounds.following - 1
        if place is not None:
            following = self._offset_at(place) - 1
        elif not self._scope.sealed:
            following = None
        if following is not None and following < (first or 0):
            first = following = None
        return Finding(
            severity, code, self._path, cause.message, start, (self._end if place is None else place) - start,
            first, following, cause.expected, cause.found,
        )  # fmt: skip

    def _offset_at(self, place: int) -> int:
        """The first offset of the sound entry at `place`."""
        rows, _ = self._scan(place, 1)
        row = rows[0]
        if row["magic"] >= 2 or not row["compression_type"]:
            return int(row["base_offset"])
        view = self._file.view(place, int(row["size_in_bytes"]))
        try:
            return RecordBatch(rows, view, Reading(decompression_limit=self._scope.limit)).base_offset
        except KafkaLogError:
            return int(row["last_offset"])

    def _right_size(self, start: int, end: int) -> tuple[int, int] | None:
        """The size that makes the checksum of an entry over [start, end) hold, and the one found; None: it does not."""
        head = self._file.view(start, min(_HEADER_PEEK, end - start))
        if len(head) < _HEADER_PEEK or head[16] > 2:
            return None
        found, size = int.from_bytes(head[8:12], "big", signed=True), end - start - _LOG_OVERHEAD
        if size == found or size >= 2**31:
            return None
        polynomial, crc_at, crc_from = (CRC32C, 17, 21) if head[16] == 2 else (CRC32, 12, 16)
        stored = int.from_bytes(head[crc_at : crc_at + 4], "big")
        holds = end - start > crc_from and self._sound.range_checksum(start + crc_from, end, polynomial) == stored
        return (size, found) if holds else None

    def _may_be_torn(self, start: int) -> bool:
        """Whether the bytes from `start` on may be the beginning of the batch that was to follow."""
        head = self._file.view(start, min(_HEADER_PEEK, self._end - start))
        if len(head) >= 8:
            offset, last = int.from_bytes(head[:8], "big", signed=True), self._order.last_offset
            least, most = self._scope.bounds.base if last is None else last + 1, self._scope.bounds.last()
            if not max(0, least or 0) <= offset <= (_MOST if most is None else most):
                return False
        if len(head) >= 12 and int.from_bytes(head[8:12], "big", signed=True) < _SHORTEST[0] - _LOG_OVERHEAD:
            return False
        return len(head) < 17 or head[16] <= 2

    def _zeroed_tail(self, start: int) -> Finding:
        if self._scope.sealed:
            message = "nothing but zeros up to the end, though the segment has a successor"
            return self._lost("zeroed-tail", start, None, _Cause(message))
        message = "nothing but zeros up to the end: preallocated, or not written back; recovery cuts it off"
        return Finding(Severity.INFO, "preallocated-tail", self._path, message, start, self._end - start)


def readable(rows: Rows) -> Flags:
    """Which of `rows` are of a known format and not shorter than its header."""
    magic, size = rows["magic"], rows["size_in_bytes"]
    flags: Flags = (magic >= 0) & (magic <= 2) & (size >= np.array(_SHORTEST)[np.clip(magic, 0, 2)])
    return flags
