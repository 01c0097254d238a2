"""One interface to the records of a partition and of a single file, and facts about their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from kafkalog._speedups.record import Record
from kafkalog.attributes import codec_name
from kafkalog.cli.positions import Range
from kafkalog.errors import KafkaLogError
from kafkalog.record.framing import EndKind, EndOfData
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns, between
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from kafkalog.storage.file_names import TopicPartition, parse_partition_dir, real_path, segment_base_offset
from kafkalog.storage.log import Log
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import to_path
from kafkalog.storage.segment.file_message_set import FileMessageSet

# Offsets are Java longs.
NO_END = 2**63 - 1


class Located(NamedTuple):
    """A batch, and the path of the file that has it."""

    path: Path
    batch: RecordBatch


@dataclass
class BatchFacts:
    """Facts about a batch that are shown with its header.

    Attributes:
        codec: The name of the codec; None if the format is unknown.
        base_offset: The first offset; None if only decompression would tell, and it failed.
        control: The records of a control batch.
        error: The reason why the batch is invalid; None if it is valid.
    """

    codec: str | None
    base_offset: int | None = None
    control: list[Record] = field(default_factory=list)
    error: KafkaLogError | None = None


def facts_of(batch: RecordBatch) -> BatchFacts:
    """Return the facts about a batch. Damage is part of them, not raised."""
    facts = BatchFacts(_codec(batch))
    try:
        facts.base_offset = batch.base_offset if batch.magic >= 2 or not batch.is_compressed else None
        batch.ensure_valid()
        facts.base_offset = batch.base_offset
        facts.control = list(batch) if batch.is_control else []
    except KafkaLogError as error:
        facts.error = error
    return facts


def _codec(batch: RecordBatch) -> str | None:
    try:
        return codec_name(batch.compression_type) if 0 <= batch.magic <= 2 else None
    except KafkaLogError as error:
        return f"codec {error.found}"


class Source:
    """The records of one partition or one file, by offset. All members raise the errors of the library."""

    def __init__(self, place: PartitionDir | LogFile) -> None:
        """Open the log or the file.

        Raises:
            OSError: It was not opened.
            NotALogError: It is not a log.
        """
        self._log: Log | FileMessageSet
        self.path = place.path
        self.topic_partition: TopicPartition | None
        if isinstance(place, LogFile):
            self._log = FileMessageSet(place.path)
            self.name = str(place.path)
            self.topic_partition = partition_of_file(place.path)
        else:
            self._log = ReadOnlyLog(place.path)
            self.name = place.name
            self.topic_partition = self._log.topic_partition

    @property
    def files(self) -> list[FileMessageSet]:
        """The files, in the order of their offsets."""
        return [segment.log for segment in self._log.segments] if isinstance(self._log, Log) else [self._log]

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        if isinstance(self._log, Log):
            return self._log.log_start_offset
        batch = next(iter(self._log.batches()), None)
        return self._base_offset if batch is None else batch.base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last complete batch before any damage."""
        if isinstance(self._log, Log):
            return self._log.log_end_offset
        last = self._log.last_offset()
        return self._base_offset if last is None else last + 1

    @property
    def _base_offset(self) -> int:
        assert isinstance(self._log, FileMessageSet)
        return segment_base_offset(to_path(self._log.path).name) or 0

    def columns(self, wanted: Range) -> Iterator[RecordColumns]:
        """Yield the records of a range, as arrays."""
        first = self._first_to_read(wanted)
        if first is None:
            return
        for part in self._parts(first, NO_END if wanted.stop is None else wanted.stop):
            shown = wanted.of_times(part) if wanted.is_timed else part
            if len(shown):
                yield shown

    def _parts(self, first: int, stop: int) -> Iterator[RecordColumns]:
        """Return the records with first <= offset < stop."""
        if isinstance(self._log, Log):
            return self._log.columns(first, stop)
        file = self._log.starting_at(first) if first else self._log
        return between(file.columns(), first, stop)

    def batches(self, wanted: Range) -> Iterator[Located]:
        """Yield the batches whose offsets overlap a range, and whose timestamps may be in it.

        After compaction a batch may have none of the records any more.
        """
        first = self._first_to_read(wanted)
        if first is None:
            return
        stop = NO_END if wanted.stop is None else wanted.stop
        for each in self._overlapping(first, stop):
            if not wanted.is_timed or wanted.touches_times_of(each.batch):
                yield each

    def _overlapping(self, first: int, stop: int) -> Iterator[Located]:
        for path, batch in self._all_batches(first):
            # The header of a compressed message of formats 0 and 1 does not have its first offset.
            if stop <= first or (batch.magic >= 2 and batch.base_offset >= stop):
                return
            yield Located(path, batch)
            if batch.last_offset >= stop - 1:
                return

    def _all_batches(self, first: int) -> Iterator[Located]:
        """Yield the batches from the one that holds the offset `first` on."""
        for file in self.files:
            for batch in (file.starting_at(first) if first else file).batches():
                yield Located(to_path(file.path), batch)

    def _first_to_read(self, wanted: Range) -> int | None:
        """Return the first offset for which a batch must be read; None: no batch must be read."""
        first = max(self._log.log_start_offset if isinstance(self._log, Log) else 0, wanted.first or 0)
        late = first if wanted.since is None else self._first_offset_since(wanted.since)
        return None if late is None else max(first, late)

    def _first_offset_since(self, timestamp: int) -> int | None:
        """Return an offset before which, by the headers, all records are earlier than a timestamp.

        Args:
            timestamp: The timestamp, ms.

        Returns:
            The offset; None if all records of the log are earlier.
        """
        before = 0
        for file in self.files:
            for run in file.header_runs():
                late = run["max_timestamp"] >= timestamp
                if late.any():
                    i = int(late.argmax())
                    return int(run["last_offset"][i - 1]) + 1 if i else before
                before = int(run["last_offset"][-1]) + 1
        return None

    @property
    def torn(self) -> EndOfData | None:
        """The position of the incomplete batch at the end of the last file; None if there is none."""
        end = self.files[-1].end_of_data if self.files else None
        return end if end is not None and end.kind is EndKind.TORN else None

    @property
    def active_path(self) -> str:
        """The path of the active file."""
        return self.files[-1].path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def partition_of_file(path: Path) -> TopicPartition | None:
    """Return the partition of a segment file, by the names of file and directory; None if they do not give it."""
    return parse_partition_dir(real_path(path).parent.name) if segment_base_offset(path.name) is not None else None


def places(place: DataDir | PartitionDir | LogFile) -> tuple[PartitionDir | LogFile, ...]:
    """Return the partitions of a data directory; any other place by itself."""
    return place.partitions if isinstance(place, DataDir) else (place,)
