"""The check of one file from its first byte to its last: `FileCheck`.

    walk -> Run: the damaged batches, then headers, order and records of the sound ones
            Lost, Tail: the lost bytes, and the offsets that may have been in them

Files are read and never mapped: a page that a failing disk cannot read raises an error here, but kills a process that
has mapped it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from kafkalog._speedups import decompress, framing
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck.content_checks import RecordCheck, hexadecimal
from kafkalog.fsck.findings import Finding, Summary
from kafkalog.fsck.header_checks import Bounds, Longs, OrderCheck, Rows, about, field_findings, is_wrapper
from kafkalog.fsck.walk import SHORTEST, Item, Lost, Run, Source, Tail, header_at, walk
from kafkalog.record.decoding import Reading
from kafkalog.record.framing import TOO_SHORT, WRONG_CHECKSUM, EndKind, Stop, chosen
from kafkalog.record.record_batch import RecordBatch

# At most so many bytes, or one batch of any size, are decoded together, which bounds the memory.
PIECE_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Scope:
    """The file to check, and how to check it.

    Attributes:
        path: The file, as named in findings.
        bounds: The offsets that the segment may hold.
        sealed: Whether the segment has a successor.
        stopped: Whether its broker stopped cleanly.
        synced: Whether it ends before the recovery point, so that no broker recovers it.
        deep: Whether to decompress and parse every record.
        wrappers: Whether to do so at least with wrappers, whose first offset is only inside.
        limit: The number of bytes that one batch may decompress to.
        progress: Called with the number of bytes checked since the last call.
    """

    path: str
    bounds: Bounds
    sealed: bool = False
    stopped: bool = False
    synced: bool = False
    deep: bool = False
    wrappers: bool = False
    limit: int = decompress.DEFAULT_LIMIT
    progress: Callable[[int], object] | None = None

    @property
    def situation(self) -> str:
        """The situation of findings about the file."""
        if self.sealed:
            return "synced" if self.synced else "sealed"
        return "stopped" if self.stopped else ""


class Watcher(Protocol):
    """A further check, which sees the batches of a file while they are in memory."""

    def see(self, item: Item, file: Source) -> None:
        """Take note of the next batches, or of lost bytes."""


class FileCheck:
    """The check of one open file up to its present end. It adds to `summary` while it runs, and tells `watchers`."""

    def __init__(self, file: Source, scope: Scope, summary: Summary, watchers: Sequence[Watcher] = ()) -> None:
        self._file = file
        self._scope = scope
        self._path = scope.path
        self._summary = summary
        self._watchers = watchers
        self._end = file.size
        self._done = 0
        self._order = OrderCheck(scope.path, scope.bounds)
        self._records = RecordCheck(scope.path, scope.limit)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, nearly in the order of their positions.

        Raises:
            OSError: Reading the file fails.
        """
        try:
            for item in walk(self._file, self._scope.bounds):
                yield from sorted(self._findings(item))
                for watcher in self._watchers:
                    watcher.see(item, self._file)
                self._advance(item.end)
        except CorruptRecordError as error:
            yield Finding("file-changed", self._path, error.message, error.position)
        yield from self._order.end()
        self._advance(self._end)

    def _advance(self, position: int) -> None:
        step = max(0, position - self._done)
        self._done += step
        self._summary.bytes += step
        if step and self._scope.progress is not None:
            self._scope.progress(step)

    def _findings(self, item: Item) -> Iterator[Finding]:
        if not isinstance(item, Run):
            yield lost_finding(self._file, item, self._scope)
            return
        for i in np.flatnonzero(~item.valid).tolist():
            yield replace(damaged_batch(item, i, self._path), situation=self._scope.situation)
        sound = chosen(item.rows, item.valid)
        if not len(sound):
            return
        self._summary.batches += len(sound)
        before = self._order.before(sound)
        yield from field_findings(sound, self._path)
        yield from self._order.findings(sound)
        if self._scope.deep:
            yield from self._deep(item, sound, before)
        elif self._scope.wrappers and (wrappers := is_wrapper(sound)).any():
            yield from self._deep(item, sound[wrappers], before[wrappers])

    def _deep(self, run: Run, rows: Rows, before: Longs) -> Iterator[Finding]:
        entries = run.entries(self._file)
        ends = rows["position"] + rows["size_in_bytes"]
        first = 0
        while first < len(rows):
            stop = max(first + 1, int(np.searchsorted(ends, rows["position"][first] + PIECE_BYTES, "right")))
            yield from self._records.findings(entries._replace(rows=rows[first:stop]), before[first:stop])
            first = stop
        self._summary.records += self._records.records
        self._records.records = 0


def damaged_batch(run: Run, i: int, path: str) -> Finding:
    """Return the finding about row i of a batch range, an invalid batch."""
    row = run.rows[i]
    magic, size = int(row["magic"]), int(row["size_in_bytes"])
    if not 0 <= magic <= 2:
        return about(row, path, "unknown-magic", "the magic is none of 0, 1, 2",
                     first_offset=None, last_offset=None, expected="0..2", found=magic)  # fmt: skip
    if size < SHORTEST[magic]:
        return about(row, path, "batch-too-short", "the batch is shorter than its header",
                     expected=f"at least {SHORTEST[magic]}", found=size)  # fmt: skip
    return about(row, path, "crc-mismatch", "the checksum does not hold",
                 expected=hexadecimal(row["checksum"]), found=hexadecimal(run.computed[i]))  # fmt: skip


def lost_finding(source: Source, item: Lost | Tail, scope: Scope) -> Finding:
    """Return the finding about bytes that hold no readable batch, with the offsets that may have been in them."""
    is_last, sealed, size = isinstance(item, Tail) or not item.followed, scope.sealed, item.end - item.start
    if isinstance(item, Tail) and item.kind is EndKind.ZEROED and not sealed:
        message = "only zeros up to the end of the file: preallocated, or not written back; recovery cuts them off"
        return Finding("preallocated-tail", scope.path, message, item.start, size, situation=scope.situation)
    code, message, expected, found = _loss(item, scope, is_last=is_last)
    last = item.previous_offset
    first = scope.bounds.base if last is None else last + 1
    following = None
    if not is_last:
        following = _first_offset(source, item.end, scope) - 1
    elif sealed and scope.bounds.following is not None:
        following = scope.bounds.following - 1
    if following is not None and following < (first or 0):
        first = following = None
    return Finding(code, scope.path, message, item.start, size, first, following, expected, found, scope.situation)


_Figure = int | str | None


def _loss(item: Lost | Tail, scope: Scope, *, is_last: bool) -> tuple[str, str, _Figure, _Figure]:
    """Return code, message, and the expected and the found value."""
    cause, expected, found = _cause(item.why)
    if isinstance(item, Tail):
        if item.kind is EndKind.ZEROED:
            message = "only zeros up to the end of the file, though the segment has a successor"
            return "zeroed-tail", message, None, None
        why = "recovery cuts it off"
        if scope.sealed:
            why = "though the segment has a successor"
        elif scope.stopped:
            why = "though the last writer stopped cleanly"
        return "torn-tail", f"the last batch is incomplete, {why}: {cause}", expected, found
    if item.sizes is not None:
        message = "only the size field is wrong: with the size expected, the checksum holds"
        return "wrong-size", message, *item.sizes
    until = "up to the end" if is_last else "up to the next batch"
    return "lost-bytes", f"no batch can be read {until}: {cause}", expected, found


def _cause(why: Stop) -> tuple[str, _Figure, _Figure]:
    """Return why no batch can be read at a position, and the expected and the found value."""
    if why.status == framing.TORN:
        return f"a batch of {why.expected} bytes begins here, but only {why.found} bytes are left", None, None
    if why.status == framing.BAD_MAGIC:
        return "the magic is none of 0, 1, 2, and no batch follows", "0..2", why.found
    if why.status == TOO_SHORT:
        return "the batch is shorter than its header, and no batch follows", None, why.found
    if why.status == WRONG_CHECKSUM:
        message = "the checksum does not hold, and no batch follows where the size field says"
        return message, hexadecimal(why.expected), hexadecimal(why.found)
    return "the size field is less than the smallest record's", f"at least {why.expected}", why.found


def _first_offset(source: Source, position: int, scope: Scope) -> int:
    """Return the first offset of the sound batch at a position."""
    rows = header_at(source, position)
    row = rows[0]
    if row["magic"] >= 2 or not row["compression_type"]:
        return int(row["base_offset"])
    view = source.view(position, int(row["size_in_bytes"]))
    try:
        return RecordBatch(rows, view, Reading(decompression_limit=scope.limit)).base_offset
    except KafkaLogError:
        return int(row["last_offset"])
