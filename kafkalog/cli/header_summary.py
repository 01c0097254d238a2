"""What the headers of a log tell without a record being read: how many, from where to where, from when to when.

How many records: exactly, in format 2 (its headers count what compaction has left) and for single messages of formats
0 and 1. A compressed message of those says only its last offset: at least one record is in it, and at most as many as
there are offsets since the message before.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, CompressionType, codec_name
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.record.layout import RECORD_BATCH_OVERHEAD
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.segment.file_message_set import FileMessageSet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.void]

NO_TIMESTAMP = -1


@dataclass
class Summary:
    """Of a file, or of several added up.

    start_offset, end_offset (the offset after the last): None = unknown, or no batch. records_max: None = no bound.
    first_timestamp, last_timestamp: ms, -1 = none. tail: "end", "torn", "zeroed", "damaged" or "unreadable", with
    tail_size bytes after the last whole batch. errors: what was met.
    """

    segments: int = 0
    size_in_bytes: int = 0
    batches: int = 0
    control_batches: int = 0
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
    def records_exact(self) -> bool:
        """Whether the number of records is known."""
        return self.records_min == self.records_max

    def add(self, later: "Summary") -> None:
        """Take in what comes after this."""
        self.segments += later.segments
        self.size_in_bytes += later.size_in_bytes
        self.batches += later.batches
        self.control_batches += later.control_batches
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

    def add_rows(self, rows: "Rows", previous_offset: int | None) -> None:
        """Take in entries that follow the one with last offset `previous_offset` (None: unknown)."""
        import numpy as np

        batch = rows["magic"] >= 2
        control = batch & (rows["attributes"] & CONTROL_BIT != 0)
        wrapper = ~batch & (rows["compression_type"] > 0)
        self.batches += len(rows)
        self.control_batches += int(control.sum())
        counted = int(np.clip(rows["records_count"][batch & ~control], 0, None).sum(dtype=np.int64))
        counted += int((~batch & ~wrapper).sum())
        self.records_min += counted + int(wrapper.sum())
        self._add_most(counted, rows["last_offset"], wrapper, previous_offset)
        self.end_offset = int(rows["last_offset"][-1]) + 1
        self._add_times(*_times(rows, batch))
        codecs, numbers = np.unique(rows["compression_type"], return_counts=True)
        self.codecs.update(dict(zip(map(codec_name, codecs.tolist()), numbers.tolist(), strict=True)))
        self.magics.update(np.unique(rows["magic"]).tolist())

    def _add_most(
        self, counted: int, last: "NDArray[np.int64]", wrapper: "NDArray[np.bool_]", previous: int | None
    ) -> None:
        import numpy as np

        if self.records_max is None or (wrapper[0] and previous is None):
            self.records_max = None
            return
        offsets_each = np.diff(last, prepend=last[0] - 1 if previous is None else previous)
        self.records_max += counted + int(np.maximum(1, offsets_each[wrapper]).sum())


def _times(rows: "Rows", batch: "NDArray[np.bool_]") -> tuple[int, int]:
    """The first and the last timestamp. A base timestamp is none of a record's where it is the delete horizon."""
    import numpy as np

    horizon = rows["attributes"] & DELETE_HORIZON_BIT != 0
    own = batch & ~horizon & (rows["timestamp_type"] == 0)
    first = np.where(own, rows["base_timestamp"], rows["max_timestamp"])
    first = first[(first >= 0) & (rows["max_timestamp"] >= 0)]
    return (int(first.min()) if len(first) else NO_TIMESTAMP), max(NO_TIMESTAMP, int(rows["max_timestamp"].max()))


def summarise(path: Path, *, sealed: bool = False, advance: Callable[[int], None] | None = None) -> Summary:
    """Summarise what the headers of one file tell.

    A size field that leads beyond other batches shows itself by offsets that are missing behind it: the checksums of
    such batches are computed, and that of the last one. Where there is damage, what survives it is summarised; what is
    wrong first, or why the file cannot be read, is in `errors`.
    """
    advance = advance or (lambda _: None)
    summary = Summary(segments=1, start_offset=segment_base_offset(path.name))
    try:
        with FileMessageSet(path, sealed=sealed) as file, closing(ReadableFile(path)) as source:
            summary.size_in_bytes = file.size_in_bytes
            error = _read_headers(file, source, summary, advance)
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
    file: FileMessageSet, source: ReadableFile, summary: Summary, advance: Callable[[int], None]
) -> KafkaLogError | None:
    """Take in all headers of a file. Return what is wrong; then the summary is of no use."""
    before: Rows | None = None
    try:
        for rows in file.header_runs():
            _ensure_known(file, rows)
            _ensure_nothing_hidden(source, rows if before is None else _joined(before, rows))
            _add_run(summary, rows)
            advance(int(rows["size_in_bytes"].sum()))
            before = rows[-1:]
        if before is not None:
            _ensure_valid(source, before)
    except KafkaLogError as error:
        return error
    end = 0 if before is None else int(before["position"][0]) + int(before["size_in_bytes"][0])
    summary.tail_size = max(0, summary.size_in_bytes - end)
    if summary.tail_size:
        summary.tail = file.read(end, summary.tail_size).end_of_data.kind.value
    return None


def _surviving(path: Path, sealed: bool, error: KafkaLogError) -> Summary:
    """Summarise what survives in a damaged file; what its headers have shown first is an error of batches that do."""
    from kafkalog.fsck.findings import Severity
    from kafkalog.fsck.verifying import scope_of
    from kafkalog.scan.records import Damage, surviving

    summary = Summary(segments=1, start_offset=segment_base_offset(path.name), tail="damaged")
    with closing(ReadableFile(path)) as file:
        summary.size_in_bytes = summary.tail_size = file.size
        for part in surviving(file, replace(scope_of(path), sealed=sealed)):
            if isinstance(part, Damage):
                if part.finding is None or part.finding.severity is not Severity.INFO:
                    summary.errors = summary.errors or [part.error]
                continue
            rows = part.rows[part.rows["compression_type"] <= CompressionType.ZSTD]
            if len(rows):
                _add_run(summary, rows)
                summary.tail_size -= int(rows["size_in_bytes"].sum())
    summary.errors = summary.errors or [error]
    return summary


def _add_run(summary: Summary, rows: "Rows") -> None:
    if summary.start_offset is None:
        # A compressed message of formats 0 and 1 does not say where it begins.
        base = int(rows["base_offset"][0])
        summary.start_offset = base if base >= 0 else None
    previous = summary.end_offset if summary.end_offset is not None else summary.start_offset
    summary.add_rows(rows, None if previous is None else previous - 1)


def _ensure_known(file: FileMessageSet, rows: "Rows") -> None:
    """KafkaLogError: no reader can make sense of a batch."""
    magic = rows["magic"]
    bad = (magic < 0) | (magic > 2) | ((magic == 2) & (rows["size_in_bytes"] < RECORD_BATCH_OVERHEAD))
    bad |= rows["compression_type"] > CompressionType.ZSTD
    if bad.any():
        batch = next(file.batches(int(rows["position"][bad][0])))
        _ = batch.compression_type
        batch.ensure_valid()


def _ensure_nothing_hidden(source: ReadableFile, rows: "Rows") -> None:
    """CorruptRecordError: offsets are missing behind a batch whose checksum does not hold."""
    # The base offset of a wrapper is not in its header: -1 is never greater.
    _ensure_valid(source, rows[:-1][rows["base_offset"][1:] > rows["last_offset"][:-1] + 1])


def _ensure_valid(source: ReadableFile, rows: "Rows") -> None:
    """CorruptRecordError: a checksum does not hold."""
    from kafkalog._speedups.checksum import first_invalid
    from kafkalog.record.batch_validity import wrong_checksum

    if len(rows):
        start = int(rows["position"][0])
        end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
        bad, computed = first_invalid(source.view(start, end - start), rows, start)
        if bad < len(rows):
            raise wrong_checksum(rows[bad], computed).at(str(source.path))


def _joined(before: "Rows", rows: "Rows") -> "Rows":
    import numpy as np

    both = np.empty(len(before) + len(rows), rows.dtype)
    both[: len(before)], both[len(before) :] = before, rows
    return both
