"""Reading of the records of a log or a file, past damage.

    walk -> Entries: valid batches with offsets of their segment          -> decoded: RecordColumns
            Damage: invalid batches, lost bytes, a torn or zeroed tail                Damage: content out of the format

`surviving` and `decoded` are the two steps for one file, between any two positions. `records` and `batches` apply them
to the files of a log. All callers see the same surviving records: those of batches with a valid checksum, up to the
first record of a batch that cannot be decoded or has an offset of another segment.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkalog._speedups import framing
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck.content_checks import row_of
from kafkalog.fsck.file_check import Scope, damaged_batch, lost_finding
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.verifying import scope_of
from kafkalog.fsck.walk import Lost, Run, Source, Tail, readable, walk
from kafkalog.record.batch_validity import unreadable, wrong_checksum
from kafkalog.record.decoding import Entries, Reading, pieces, read_columns
from kafkalog.record.record_batch import RecordBatch, batches_of
from kafkalog.record.record_columns import RecordColumns, between
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.log import Log
from kafkalog.storage.read.log_scan import NO_END
from kafkalog.storage.remote_path import to_path
from kafkalog.storage.segment.file_message_set import FileMessageSet


class LeftOut(NamedTuple):
    """The counts of what readers leave out of a file. Lost bytes count as no batch; offsets may have had no record."""

    batches: int = 0
    bytes: int = 0
    offsets: int = 0

    def plus(self, other: "LeftOut") -> "LeftOut":
        """Return the sums."""
        return LeftOut(self.batches + other.batches, self.bytes + other.bytes, self.offsets + other.offsets)

    def __str__(self) -> str:
        """Return the counts in words."""
        return f"batches {self.batches}, bytes {self.bytes}, offsets {self.offsets}"


class Damage(NamedTuple):
    """A damaged batch, or lost bytes.

    Attributes:
        path: The file.
        position: The position of the batch, or of the first lost byte.
        offset: The first offset of the batch, or its last one if its header has no other; None for lost bytes.
        error: The error that describes the damage.
        finding: The finding that `verify` reports, if it is about framing or checksums.
        is_tail: Whether the data ends there.
        left_out: The counts of what is left out.
    """

    path: str
    position: int
    offset: int | None
    error: KafkaLogError
    finding: Finding | None = None
    is_tail: bool = False
    left_out: LeftOut = LeftOut()

    @property
    def message(self) -> str:
        """The text of the error, with file and position."""
        return str(self.error)


Report = Callable[[Damage], object]


def reason_of(what: Finding | KafkaLogError) -> str:
    """Return what is wrong, without the place."""
    details = [
        f"{name} {value}" for name, value in (("expected", what.expected), ("found", what.found)) if value is not None
    ]
    return what.message + (f" ({', '.join(details)})" if details else "")


def records(
    log: Log | FileMessageSet, start: int = 0, stop: int = NO_END, *, report: Report, control: bool = False
) -> Iterator[RecordColumns]:
    """Yield the records with start <= offset < stop, past damage.

    Args:
        log: A log, or one file.
        start: The first offset. Damage is reported if it is after the last batch that ends before this offset.
        stop: The offset after the last one.
        report: Called for each damage, before the records after it are yielded.
        control: Whether to read control records too.

    Yields:
        The records, some thousand at a time.

    Raises:
        CorruptRecordError: A file became shorter.
        OSError: A file was not read.
    """
    return between(_records(log, start, report, control), start, stop)


def _records(log: Log | FileMessageSet, start: int, report: Report, control: bool) -> Iterator[RecordColumns]:
    for file, scope in _files(log, start):
        reading = Reading(check_crcs=False, control=control, path=scope.path)
        for entries in from_offset(start, surviving(file, scope), report):
            for rows in pieces(entries.rows):
                for part in decoded(entries._replace(rows=rows), reading, scope.bounds):
                    if isinstance(part, Damage):
                        report(part)
                    else:
                        yield part
                    del part


def batches(log: Log | FileMessageSet, start: int = 0, *, report: Report) -> Iterator[tuple[Path, RecordBatch]]:
    """Yield the batches from the one that holds offset `start` on, with the paths of their files.

    Damaged batches that can be skipped are yielded too, and not reported.

    Args:
        log: A log, or one file.
        start: The first offset. Damage is reported if it is after the last batch that ends before this offset.
        report: Called for each damage, before the batches after it are yielded.

    Raises:
        CorruptRecordError: A file became shorter.
        OSError: A file was not read.
    """
    for file, scope in _files(log, start):
        for entries in from_offset(start, surviving(file, scope, keep_damaged=True), report):
            for batch in batches_of(entries, Reading(path=scope.path)):
                yield to_path(scope.path), batch


def last_offset(file: FileMessageSet) -> int | None:
    """Return the last offset of the last surviving batch of a file; None if there is none."""
    last = None
    for source, scope in _files(file, 0):
        for each in surviving(source, scope):
            if isinstance(each, Entries):
                last = int(each.rows["last_offset"][-1])
    return last


def _files(log: Log | FileMessageSet, start: int) -> Iterator[tuple[ByteSource, Scope]]:
    """Yield the files that may hold offset `start` or later, each open until the next one."""
    paths = [segment.path for segment in log.segments] if isinstance(log, Log) else [to_path(log.path)]
    following = [segment_base_offset(path.name) for path in paths[1:]]
    for path, next_base in zip(paths, [*following, None], strict=True):
        if next_base is None or next_base > start:
            with closing(open_source(path)) as file:
                yield file, scope_of(path)


def from_offset(start: int, items: "Iterable[Entries | Damage]", report: Report) -> Iterator[Entries]:
    """Yield the entries from the one that holds offset `start` on; report damage directly before them and after.

    Entries before that one are yielded without rows, for callers that tell the progress of the scan.
    """
    passed: list[Damage] = []
    reached = False
    for item in items:
        if isinstance(item, Damage):
            report(item) if reached else passed.append(item)
        elif reached:
            yield item
        else:
            holds = item.rows["last_offset"] >= start
            reached = bool(holds.any())
            if reached:
                _report_all(passed, report)
                yield item._replace(rows=item.rows[int(holds.argmax()) :])
            else:
                yield item._replace(rows=item.rows[:0])
            passed.clear()
    _report_all(passed, report)


def _report_all(passed: list[Damage], report: Report) -> None:
    for each in passed:
        report(each)


# --- one file


def surviving(
    source: Source, scope: Scope, start: int = 0, end: int | None = None, *, keep_damaged: bool = False
) -> Iterator[Entries | Damage]:
    """Read the batches that begin in [start, end) of a file, past damage.

    Args:
        source: The file.
        scope: Its path, as named in errors, the offsets that it may hold, and whether it has a successor.
        start: The position in bytes where a batch begins.
        end: The position in bytes where the scan ends; None is the end of the file.
        keep_damaged: Whether to yield damaged batches that can be skipped as entries, not as damage.

    Yields:
        Batch ranges and damage, in the order of their positions.

    Raises:
        CorruptRecordError: The file became shorter.
        OSError: The file was not read.
    """
    for item in walk(source, scope.bounds, start, end):
        if not isinstance(item, Run):
            yield _lost(item, source, scope)
        elif keep_damaged:
            yield item.entries(source)
        else:
            yield from _surviving_in(item, source, scope)


def surviving_backwards(source: Source, scope: Scope, end: int | None = None) -> Iterator[Entries | Damage]:
    """Read the batches that begin before `end` as `surviving` does, from the last one to the first.

    Each `Entries` holds neighbouring batches in the order of the file; the one with the last batches comes first. The
    file is read twice, because only a scan from its start finds the batches of a damaged file.
    """
    found = [
        (item.position, item.end) if isinstance(item, Run) else _lost(item, source, scope)
        for item in walk(source, scope.bounds, 0, end)
    ]
    for item in reversed(found):
        if isinstance(item, Damage):
            yield item
        else:
            yield from reversed(list(surviving(source, scope, *item)))


def _surviving_in(run: Run, source: Source, scope: Scope) -> Iterator[Entries | Damage]:
    survives = run.valid & scope.bounds.inside(run.rows)
    if not survives.any():
        yield from (_damaged(run, i, scope) for i in range(len(run.rows)))
        return
    entries, first = run.entries(source), 0
    for i in [*np.flatnonzero(~survives).tolist(), len(run.rows)]:
        if first < i:
            yield entries._replace(rows=entries.rows[first:i])
        if i < len(run.rows):
            yield _damaged(run, i, scope)
        first = i + 1


def _lost(item: Lost | Tail, source: Source, scope: Scope) -> Damage:
    finding = lost_finding(source, item, scope)
    first, last = finding.first_offset, finding.last_offset
    offsets = 0 if first is None or last is None else last - first + 1
    left_out = LeftOut(0, item.end - item.start, offsets)
    return Damage(scope.path, item.start, None, _loss(item, scope), finding, isinstance(item, Tail), left_out)


def _damaged(run: Run, i: int, scope: Scope) -> Damage:
    row, finding = run.rows[i], None
    error: KafkaLogError
    if run.valid[i]:
        error = _foreign(int(row["position"]), max(int(row["base_offset"]), int(row["last_offset"])), scope.bounds)
    else:
        finding = damaged_batch(run, i, scope.path)
        is_readable = readable(run.rows[i : i + 1])[0]
        error = wrong_checksum(row, run.computed[i]) if is_readable else unreadable(row)
    return _about(row, error.at(scope.path), scope.path)._replace(finding=finding)


def _about(row: np.void, error: KafkaLogError, path: str, given_to: int = -1) -> Damage:
    """Return the damage of a batch, whose records up to offset `given_to` are not left out."""
    # The header of a wrapper does not have its base offset.
    offset = int(row["base_offset"]) if row["base_offset"] >= 0 else int(row["last_offset"])
    offsets = max(0, int(row["last_offset"]) - max(offset, given_to + 1) + 1)
    left_out = LeftOut(1, int(row["size_in_bytes"]), offsets)
    return Damage(path, int(row["position"]), offset, error, left_out=left_out)


def _foreign(position: int, offset: int, bounds: Bounds) -> CorruptRecordError:
    least, largest = bounds.span
    return CorruptRecordError("an offset that is not of this segment", None, position, f"{least}..{largest}", offset)


def _loss(item: Lost | Tail, scope: Scope) -> KafkaLogError:
    """Return the error that a reader raises at lost bytes if it does not read past damage."""
    if item.why.status not in {framing.TORN, framing.ZEROED}:
        return item.why.damage(scope.path)
    what = f"{'a segment that has a successor' if scope.sealed else 'the segment'} ends in a "
    what += "torn tail, or a length in it is damaged" if item.why.status == framing.TORN else "zeroed tail"
    return CorruptRecordError(what, scope.path, item.start, "a batch", f"{item.end - item.start} bytes")


def decoded(entries: Entries, reading: Reading, bounds: Bounds) -> Iterator[RecordColumns | Damage]:
    """Decode the records of surviving entries, past content that does not follow the format.

    Args:
        entries: Entries to be decoded at once; `pieces` cuts them to size.
        reading: How to decode them.
        bounds: The offsets that the segment may hold.

    Yields:
        Records and damage, in the order of the entries.
    """
    rows, path, given_to = entries.rows, reading.path or "", -1
    while len(rows):
        here = entries._replace(rows=rows)
        try:
            for columns in read_columns(here, reading):
                own = _own(columns, bounds)
                if own:
                    given_to = int(columns.offset[own - 1])
                    yield columns[:own] if own < len(columns) else columns
                if own < len(columns):
                    position = int(columns.batches["position"][columns.batch[own]])
                    raise _foreign(position, int(columns.offset[own]), bounds).at(path)
                del columns
        except KafkaLogError as error:
            bad = row_of(error, here, reading)
            yield _about(rows[bad], error, path, given_to)
            rows = rows[bad + 1 :]
        else:
            return


def _own(columns: RecordColumns, bounds: Bounds) -> int:
    """Count the records before the first one with an offset of another segment; no checksum covers offsets."""
    least, largest = bounds.span
    offset = columns.offset
    if least <= int(offset.min()) and int(offset.max()) <= largest:
        return len(columns)
    return int(((offset < least) | (offset > largest)).argmax())
