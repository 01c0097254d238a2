"""What the headers of a segment tell without a record being read: how many, from where to where, from when to when.

    records    exactly in format 2, whose headers count what compaction has left, and for single messages of formats 0
               and 1; a compressed message of those holds one at least, and at most as many as there are offsets since
               the message before
    times      of records: where a batch has a delete horizon, its base timestamp is none of a record's

`summarise` reads a file; it stands above `fsck` because of a damaged one it counts what survives, as `records` does.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.header_table import first_unreadable
from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, CompressionType, codec_name
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.findings import Severity
from kafkalog.fsck.header_checks import Rows
from kafkalog.fsck.verifying import scope_of
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.scan.records import Damage, surviving
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.segment.file_message_set import FileMessageSet


@dataclass
class SegmentSummary:
    """Of a segment file, or of several added up.

    Attributes:
        records_min: Records without control records, at least.
        records_max: The same at most; None: no bound.
        control_records: Records of control batches.
        start_offset: The first offset; None: unknown.
        end_offset: The offset after the last; None: unknown, or no batch.
        first_timestamp: The first time of a record, ms; -1: none.
        last_timestamp: The largest, ms; -1: none.
        codecs: Batches by the name of their codec.
        tail: "end", "torn", "zeroed", "damaged" or "unreadable".
        tail_size: Bytes after the last batch, or, where there is damage, all that are not counted.
        errors: What was met.
    """

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
        """Add the summary of what comes after this."""
        self.segments += later.segments
        self.size_in_bytes += later.size_in_bytes
        self.batches += later.batches
        self.control_batches += later.control_batches
        self.control_records += later.control_records
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

    def _add_times(self, first: int, last: int) -> None:
        if first != NO_TIMESTAMP and (self.first_timestamp == NO_TIMESTAMP or first < self.first_timestamp):
            self.first_timestamp = first
        self.last_timestamp = max(self.last_timestamp, last)

    def add_rows(self, rows: Rows, counts: NDArray[np.int64] | None = None) -> None:
        """Add entries that follow those before.

        Args:
            rows: Of the header table, shape (n,), n > 0.
            counts: The records in each, shape (n,), where compressed messages of formats 0 and 1 have been read; None:
                as the headers tell.
        """
        if self.start_offset is None:
            # A compressed message of formats 0 and 1 does not say where it begins.
            base = int(rows["base_offset"][0])
            self.start_offset = base if base >= 0 else None
        is_batch = rows["magic"] >= 2
        control = is_batch & (rows["attributes"] & CONTROL_BIT != 0)
        control_batches = int(np.count_nonzero(control))
        self.batches += len(rows)
        each = np.where(is_batch, np.maximum(rows["records_count"], 0), 1) if counts is None else counts
        control_records = int(each[control].sum()) if control_batches else 0
        self.control_batches += control_batches
        self.control_records += control_records
        least = int(each.sum()) - control_records
        self.records_min += least
        if self.records_max is not None:
            wrapper = ~is_batch & (rows["compression_type"] > 0)
            more = self._more_than_one(rows["last_offset"], wrapper) if counts is None and wrapper.any() else 0
            self.records_max = None if more is None else self.records_max + least + more
        self.end_offset = int(rows["last_offset"][-1]) + 1
        self._add_times(*_times(rows, is_batch))
        for codec, number in enumerate(np.bincount(rows["compression_type"]).tolist()):
            if number:
                self.codecs[codec_name(codec)] += number
        self.magics.update(set(rows["magic"].tolist()))

    def _more_than_one(self, last: NDArray[np.int64], wrapper: NDArray[np.bool_]) -> int | None:
        """Return how many records beyond one each the wrappers can hold at most; None: no bound."""
        end = self.start_offset if self.end_offset is None else self.end_offset
        if end is None and wrapper[0]:
            return None
        spans = np.diff(last, prepend=last[0] - 1 if end is None else end - 1)
        return int(np.maximum(0, spans[wrapper] - 1).sum())


def _times(rows: Rows, is_batch: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first and the last timestamp of records, ms; -1: none."""
    largest = rows["max_timestamp"]
    is_own = is_batch & (rows["attributes"] & DELETE_HORIZON_BIT == 0) & (rows["timestamp_type"] == 0)
    first = np.where(is_own, rows["base_timestamp"], largest)
    first = first[(first >= 0) & (largest >= 0)]
    return (int(first.min()) if len(first) else NO_TIMESTAMP), max(NO_TIMESTAMP, int(largest.max()))


def summarise(path: Path, *, sealed: bool = False, advance: Callable[[int], object] | None = None) -> SegmentSummary:
    """Summarise what the headers of a segment file tell.

    A size field that leads beyond other batches shows itself by offsets that are missing behind it: the checksums of
    such batches are computed, and that of the last one. Where there is damage, what survives it is summarised.

    Args:
        path: The file.
        sealed: Whether it has a successor: a torn or zeroed tail is damage then.
        advance: Called with the number of bytes whose headers have been read.

    Returns:
        The summary; what is wrong first, or why the file cannot be read, is in `errors`.
    """
    summary = SegmentSummary(segments=1, start_offset=segment_base_offset(path.name))
    try:
        with FileMessageSet(path, sealed=sealed, mapped=False) as file:
            summary.size_in_bytes = file.size_in_bytes
            error = _read_headers(file, summary, advance or (lambda _: None))
        if error is not None:
            summary = _surviving(path, sealed, error)
    except (OSError, NotALogError) as problem:
        summary.tail = "unreadable"
        summary.errors.append(problem)
    if not summary.batches and not summary.errors:
        # Where the next offset goes.
        summary.end_offset = summary.start_offset
    return summary


def _read_headers(
    file: FileMessageSet, summary: SegmentSummary, advance: Callable[[int], object]
) -> KafkaLogError | None:
    """Take in all headers of a file. Return what is wrong; then the summary is of no use."""
    last: np.void | None = None
    end = 0
    try:
        for rows in file.header_runs():
            _ensure_known(file, rows)
            behind = summary.end_offset
            # The base offset of a wrapper is not in its header: -1 is never greater.
            if last is not None and behind is not None and rows["base_offset"][0] > behind:
                _ensure_valid(file, last, last)
            gaps = np.flatnonzero(rows["base_offset"][1:] > rows["last_offset"][:-1] + 1)
            for group in np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1) if len(gaps) else ():
                _ensure_valid(file, rows[group[0]], rows[group[-1]])
            summary.add_rows(rows)
            last = rows[-1]
            begin, end = end, int(last["position"]) + int(last["size_in_bytes"])
            advance(end - begin)
        if last is not None:
            _ensure_valid(file, last, last)
    except KafkaLogError as error:
        return error
    summary.tail_size = max(0, summary.size_in_bytes - end)
    if summary.tail_size:
        summary.tail = file.read(end, summary.tail_size).end_of_data.kind.value
    return None


def _ensure_known(file: FileMessageSet, rows: Rows) -> None:
    """Raise KafkaLogError for the first batch that no reader can make sense of."""
    bad = first_unreadable(rows)
    if rows["compression_type"].max() > CompressionType.ZSTD:
        bad = min(bad, int((rows["compression_type"] > CompressionType.ZSTD).argmax()))
    if bad < len(rows):
        batch = next(file.batches(int(rows["position"][bad])))
        _ = batch.compression_type
        batch.ensure_valid()


def _ensure_valid(file: FileMessageSet, first: np.void, last: np.void) -> None:
    """Raise CorruptRecordError where the checksum of a batch does not hold, from one batch to another."""
    start = int(first["position"])
    file.read(start, int(last["position"]) + int(last["size_in_bytes"]) - start).ensure_valid()


def _surviving(path: Path, sealed: bool, error: KafkaLogError) -> SegmentSummary:
    """Summarise what survives in a damaged file; what its headers have shown first is an error of batches that do."""
    summary = SegmentSummary(segments=1, start_offset=segment_base_offset(path.name), tail="damaged")
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
