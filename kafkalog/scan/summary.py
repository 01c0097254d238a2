"""Summaries of segments by their headers alone: number of records, range of offsets, range of timestamps.

    records    exact for format 2, whose headers count the records that compaction left, and for single messages of
               formats 0 and 1; a compressed message of these has at least one record, and at most as many as there are
               offsets since the message before
    times      of records; the base timestamp of a batch with a delete horizon is not the time of a record

`summarise` reads a file. It depends on `fsck` because it counts the surviving batches of a damaged file, as `records`
does.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.row_counts import count_rows
from kafkalog.attributes import CompressionType, codec_name
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.consequences import Severity
from kafkalog.fsck.header_checks import Rows
from kafkalog.fsck.verifying import scope_of
from kafkalog.record.batch_validity import ensure_readable, ensure_valid
from kafkalog.record.framing import end_of
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.scan.records import Damage, surviving
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.segment.file_message_set import FileMessageSet


@dataclass
class SegmentSummary:
    """The summary of a segment file, or the sum of several.

    Attributes:
        records_min: A lower bound for the number of records without control records.
        records_max: An upper bound for the same number; None: no bound.
        log_start: The log start offset; records below it are not in `records_min` and `records_max`.
        deleted_records: The number of records below the log start offset, at most, control records left out.
        control_records: The number of records in control batches, whatever their offset.
        start_offset: The first offset; None: unknown.
        end_offset: The offset after the last one; None: unknown, or no batch.
        first_timestamp: The smallest timestamp of a record, ms; -1: none.
        last_timestamp: The largest timestamp of a record, ms; -1: none.
        codecs: The number of batches by the name of their codec.
        tail: "end", "torn", "zeroed", "damaged" or "unreadable".
        tail_size: The number of bytes after the last batch; in a damaged file, of all bytes not in a counted batch.
        errors: The errors found.
    """

    log_start: int = 0
    deleted_records: int = 0
    segments: int = 0
    size_in_bytes: int = 0
    batches: int = 0
    control_batches: int = 0
    control_records: int = 0
    records_min: int = 0
    records_max: int | None = 0
    start_offset: int | None = None
    end_offset: int | None = None
    first_timestamp: int = NO_TIMESTAMP
    last_timestamp: int = NO_TIMESTAMP
    codecs: Counter[str] = field(default_factory=Counter)
    magics: set[int] = field(default_factory=set)
    tail: str = "end"
    tail_size: int = 0
    errors: list[Exception] = field(default_factory=list)

    @property
    def records(self) -> int | None:
        """The number of records without control records; None: only its bounds are known."""
        return self.records_min if self.records_min == self.records_max else None

    def add(self, later: "SegmentSummary") -> None:
        """Add the summary of a later segment."""
        self.segments += later.segments
        self.size_in_bytes += later.size_in_bytes
        self.batches += later.batches
        self.control_batches += later.control_batches
        self.control_records += later.control_records
        self.deleted_records += later.deleted_records
        self.records_min += later.records_min
        known = self.records_max is not None and later.records_max is not None
        self.records_max = (self.records_max or 0) + (later.records_max or 0) if known else None
        self.start_offset = later.start_offset if self.start_offset is None else self.start_offset
        self.end_offset = self.end_offset if later.end_offset is None else later.end_offset
        self._add_times(later.first_timestamp, later.last_timestamp)
        self.codecs.update(later.codecs)
        self.magics |= later.magics
        self.errors += later.errors
        if not self.errors or later.errors:
            self.tail, self.tail_size = later.tail, later.tail_size

    def _delete(self, least: int, most: int) -> None:
        self.records_min -= most
        self.records_max = None if self.records_max is None else self.records_max - least
        self.deleted_records += most

    def _add_times(self, first: int, last: int) -> None:
        if first != NO_TIMESTAMP and (self.first_timestamp == NO_TIMESTAMP or first < self.first_timestamp):
            self.first_timestamp = first
        self.last_timestamp = max(self.last_timestamp, last)

    def add_rows(self, rows: Rows, counts: NDArray[np.int64] | None = None, split: int = 0) -> None:
        """Add entries that follow those before.

        Args:
            rows: Rows of the header table, shape (n,), n > 0.
            counts: The number of records in each entry, shape (n,), if compressed messages of formats 0 and 1 were
                read; None: use the headers.
            split: The number of records below the log start offset in the entry that has records on both sides of it.
        """
        if self.log_start and (deleted := rows["last_offset"] < self.log_start).any():
            below = SegmentSummary(end_offset=self.end_offset, start_offset=self.start_offset)
            below.add_rows(rows[deleted], None if counts is None else counts[deleted])
            most = below.records_min if below.records_max is None else below.records_max
            self._delete(below.records_min, most)
        self._delete(split, split)
        if self.start_offset is None:
            # The header of a compressed message of formats 0 and 1 does not have its first offset.
            base = int(rows["base_offset"][0])
            self.start_offset = base if base >= 0 else None
        end = self.start_offset if self.end_offset is None else self.end_offset
        control_batches, control_records, records, more, first, last, codecs, magics = count_rows(
            rows, counts, -INT64_MAX - 1 if end is None else end - 1
        )
        self.batches += len(rows)
        self.control_batches += control_batches
        self.control_records += control_records
        self.records_min += records
        if self.records_max is not None:
            more = 0 if counts is not None else more
            self.records_max = None if more < 0 else self.records_max + records + more
        self.end_offset = int(rows["last_offset"][-1]) + 1
        self._add_times(first, last)
        for codec, number in enumerate(codecs):
            if number:
                self.codecs[codec_name(codec)] += number
        self.magics |= magics


def split_count(file: FileMessageSet, rows: Rows, log_start: int) -> int:
    """Return how many records below the log start offset are in the first entry that reaches it; 0 if it is damaged."""
    reaches = rows["last_offset"] >= log_start
    first = int(reaches.argmax())
    if not reaches[first] or rows["base_offset"][first] >= log_start:
        return 0
    try:
        batch = next(file.read(int(rows["position"][first]), int(rows["size_in_bytes"][first])).batches(), None)
        offsets = () if batch is None or batch.is_control else batch.columns().offset
    except KafkaLogError:
        return 0
    return int((np.asarray(offsets, np.int64) < log_start).sum())


def summarise(
    path: Path, *, sealed: bool = False, advance: Callable[[int], object] | None = None, log_start: int = 0
) -> SegmentSummary:
    """Summarise a segment file by its headers.

    A damaged size field that points beyond other batches is followed by a gap of offsets. So the checksums of batches
    before gaps are computed, and that of the last batch. In a damaged file the surviving batches are summarised.

    Args:
        path: The file.
        sealed: Whether it has a successor: a torn or zeroed tail is damage then.
        advance: Called with the number of bytes whose headers have been read since the last call.
        log_start: The log start offset; records below it are counted apart.

    Returns:
        The summary. `errors` has the first damage, or the error in reading the file.
    """
    summary = SegmentSummary(segments=1, start_offset=segment_base_offset(path.name), log_start=log_start)
    try:
        with FileMessageSet(path, sealed=sealed, mapped=False) as file:
            summary.size_in_bytes = file.size_in_bytes
            error = _read_headers(file, summary, advance or (lambda _: None))
        if error is not None:
            summary = _surviving(path, sealed, error, log_start)
    except (OSError, NotALogError) as problem:
        summary.tail = "unreadable"
        summary.errors.append(problem)
    if not summary.batches and not summary.errors:
        # The next offset to be assigned in an empty segment.
        summary.end_offset = summary.start_offset
    return summary


def _read_headers(
    file: FileMessageSet, summary: SegmentSummary, advance: Callable[[int], object]
) -> KafkaLogError | None:
    """Add all headers of a file to a summary. Return the first damage; the summary is not valid then."""
    last: Rows | None = None
    end = 0
    try:
        for rows in file.header_runs():
            ensure_readable(rows)
            behind = summary.end_offset
            # The base offset of a wrapper is not in its header: -1 is never greater.
            if last is not None and behind is not None and rows["base_offset"][0] > behind:
                ensure_valid(*file._entries(last))
            for group in _gaps(rows) if len(rows) > 1 else ():
                ensure_valid(*file._entries(rows[group[0] : group[-1] + 1]))
            is_before = behind is None or behind < summary.log_start
            summary.add_rows(rows, split=split_count(file, rows, summary.log_start) if is_before else 0)
            last = rows[-1:]
            begin, end = end, end_of(last)
            advance(end - begin)
        if last is not None:
            ensure_valid(*file._entries(last))
    except KafkaLogError as error:
        return error.at(file.path)
    summary.tail_size = max(0, summary.size_in_bytes - end)
    if summary.tail_size:
        summary.tail = file.read(end, summary.tail_size).end_of_data.kind.value
    return None


def _gaps(rows: Rows) -> list[NDArray[np.int64]]:
    """Return the rows before gaps of offsets, in groups of successive ones."""
    gaps = np.flatnonzero(rows["base_offset"][1:] > rows["last_offset"][:-1] + 1)
    return np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1) if len(gaps) else []


def _surviving(path: Path, sealed: bool, error: KafkaLogError, log_start: int) -> SegmentSummary:
    """Summarise the surviving batches of a damaged file. `error` is reported only if the scan finds no damage."""
    summary = SegmentSummary(segments=1, start_offset=segment_base_offset(path.name), tail="damaged")
    summary.log_start = log_start
    with closing(open_source(path)) as file:
        summary.size_in_bytes = summary.tail_size = file.size
        for part in surviving(file, replace(scope_of(path), sealed=sealed)):
            if isinstance(part, Damage):
                if part.finding is None or part.finding.severity is not Severity.INFO:
                    summary.errors = summary.errors or [part.error]
                continue
            rows = part.rows[part.rows["compression_type"] <= CompressionType.ZSTD]
            if len(rows):
                summary.add_rows(rows)
                summary.tail_size -= int(rows["size_in_bytes"].sum())
    summary.errors = summary.errors or [error]
    return summary
