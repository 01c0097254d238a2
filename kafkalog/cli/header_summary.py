"""What the headers of a log tell without a record being read: how many, from where to where, from when to when.

How many records: exactly, in format 2 (its headers count what compaction has left) and for single messages of formats
0 and 1. A compressed message of those says only its last offset: at least one record is in it, and at most as many as
there are offsets since the message before.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, CompressionType
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.segment.file_message_set import FileMessageSet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.void]

SHORTEST_BATCH = 61
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


def codec_name(number: int) -> str:
    """As the producer's configuration names it."""
    return CompressionType(number).name.lower() if number <= CompressionType.ZSTD else f"codec {number}"


def summarise(path: Path, *, sealed: bool = False, advance: Callable[[int], None] | None = None) -> Summary:
    """What the headers of one file tell; damage, or why the file cannot be read, is in `errors`."""
    summary = Summary(segments=1, start_offset=segment_base_offset(path.name))
    try:
        with FileMessageSet(path, sealed=sealed) as file:
            summary.size_in_bytes = file.size_in_bytes
            _read_headers(file, summary, advance or (lambda _: None))
    except (OSError, NotALogError) as error:
        summary.tail = "unreadable"
        summary.errors.append(error)
    return summary


def _read_headers(file: FileMessageSet, summary: Summary, advance: Callable[[int], None]) -> None:
    end = 0
    try:
        for run in file.header_runs():
            rows, error = _sound(file, run)
            if len(rows):
                _add_run(summary, rows)
                advance(-end)
                end = int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])
                advance(end)
            if error is not None:
                raise error
    except KafkaLogError as error:
        summary.errors.append(error)
        summary.tail = "damaged"
    summary.tail_size = max(0, summary.size_in_bytes - end)
    if summary.tail_size and not summary.errors:
        summary.tail = file.read(end, summary.tail_size).end_of_data.kind.value
    if not summary.batches and not summary.errors:
        # Where the next offset goes.
        summary.end_offset = summary.start_offset


def _add_run(summary: Summary, rows: "Rows") -> None:
    if summary.start_offset is None:
        # A compressed message of formats 0 and 1 does not say where it begins.
        base = int(rows["base_offset"][0])
        summary.start_offset = base if base >= 0 else None
    previous = summary.end_offset if summary.end_offset is not None else summary.start_offset
    summary.add_rows(rows, None if previous is None else previous - 1)


def _sound(file: FileMessageSet, rows: "Rows") -> tuple["Rows", KafkaLogError | None]:
    """The rows before the first that no reader can make sense of, and what is wrong with that one."""
    import numpy as np

    magic = rows["magic"]
    bad = (magic < 0) | (magic > 2) | ((magic == 2) & (rows["size_in_bytes"] < SHORTEST_BATCH))
    bad |= rows["compression_type"] > CompressionType.ZSTD
    if not bad.any():
        return rows, None
    first = int(np.argmax(bad))
    batch = next(iter(file.batches(int(rows["position"][first]))))
    try:
        _ = batch.compression_type
        batch.ensure_valid()
    except KafkaLogError as error:
        return rows[:first], error
    return rows, None
