"""One interface to the records of a partition and of a single file, and facts about their batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple, Self

from kafkalog._speedups.record import Record
from kafkalog.attributes import codec_name
from kafkalog.cli.offset_steps import OffsetSteps
from kafkalog.cli.positions import Range
from kafkalog.errors import CorruptCheckpointError, KafkaLogError
from kafkalog.fsck.health import dangling_links, start_beyond_end
from kafkalog.record.framing import EndKind, EndOfData
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns, between
from kafkalog.scan.transaction_states import TransactionStates
from kafkalog.storage.data_dir.discover import LogFile, PartitionDir
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.log import Log
from kafkalog.storage.read.log_scan import NO_END
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import RemotePath, to_path
from kafkalog.storage.segment.file_message_set import FileMessageSet


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


def open_unhidden(path: Path) -> tuple[ReadOnlyLog, list[KafkaLogError]]:
    """Open a partition. A checkpoint with a log start offset beyond the log's end, or a damaged one, hides no records.

    Returns:
        The log, and for an operator the errors of such a checkpoint, and of segments that are links to nothing.
    """
    log = ReadOnlyLog(path)
    missing: list[KafkaLogError] = [*dangling_links(path)]
    try:
        _ = log.log_start_offset
        hidden, follows = start_beyond_end(log), "consumers get none of these records"
    except CorruptCheckpointError as error:
        hidden, follows = error, "the log start is not known, all records are shown"
    if hidden is None:
        return log, missing
    log.close()
    warning = CorruptCheckpointError(f"{hidden.message}: {follows}", hidden.path, None, hidden.expected, hidden.found)
    return ReadOnlyLog(path, from_first_segment=True), [warning.at(str(path)), *missing]


class Source:
    """The records of one partition or one file, by offset. All members raise the errors of the library.

    Attributes:
        path: The path of the partition or the file.
        topic_partition: The partition; None if it is unknown.
        name: How it is named in messages.
        problems: The errors of a checkpoint that hides records or the log start, and of links to nothing.
        states: The states of the transactions.
    """

    def __init__(self, place: PartitionDir | LogFile) -> None:
        """Open the log or the file.

        Raises:
            OSError: It was not opened.
            NotALogError: It is not a log.
        """
        self._log: Log | FileMessageSet
        self.path, self.topic_partition = place.path, place.topic_partition
        if isinstance(place, LogFile):
            self._log, self.name = FileMessageSet(place.path), str(place.path)
            self.problems: list[KafkaLogError] = []
        else:
            (self._log, self.problems), self.name = open_unhidden(place.path), place.name
        self.states = TransactionStates(self._log)

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
        return self._first_base_offset if batch is None else batch.base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last complete batch before any damage."""
        if isinstance(self._log, Log):
            return self._log.log_end_offset
        last = self._log.last_offset()
        return self._first_base_offset if last is None else last + 1

    @property
    def last_stable_offset(self) -> int:
        """The offset before which a consumer of committed records reads; of a file the largest offset."""
        return self._log.last_stable_offset if isinstance(self._log, Log) else NO_END

    @property
    def _first_base_offset(self) -> int:
        """The offset in the name of the first file; 0 if it has none."""
        return segment_base_offset(to_path(self.files[0].path).name) or 0

    def columns(self, wanted: Range) -> Iterator[RecordColumns]:
        """Yield the records of a range, as arrays."""
        first = self._first_to_read(wanted)
        if first is None:
            return
        for part in self._parts(first, NO_END if wanted.stop is None else wanted.stop):
            shown = wanted.of(part)
            if len(shown):
                yield shown
            del part, shown

    def _parts(self, first: int, stop: int) -> Iterator[RecordColumns]:
        """Return the records with first <= offset < stop."""
        if isinstance(self._log, Log):
            return self._log.columns(first, stop, on_out_of_range="latest")
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
        for file in self._from(first):
            for batch in file.batches():
                yield Located(to_path(file.path), batch)

    def _from(self, first: int) -> Iterator[FileMessageSet]:
        """Yield the batches of each file from the batch on that holds an offset, found by the index."""
        if not isinstance(self._log, Log):
            yield self._log.starting_at(first) if first else self._log
            return
        first, segments = max(first, self._log.log_start_offset), self._log.segments
        for segment, following in zip_longest(segments, segments[1:]):
            if first <= segment.base_offset:
                yield segment.log
            elif following is None or following.base_offset > first:
                yield segment.entries_from(first)

    def steps(self, wanted: Range) -> OffsetSteps:
        """Return where the offsets of batches from `wanted.first` to `wanted.stop` do not follow each other.

        A log in a store, where headers cost as much as records, is not read for it.
        """
        steps, stop = OffsetSteps(), NO_END if wanted.stop is None else wanted.stop
        files = () if isinstance(self.path, RemotePath) else self._from(wanted.first or 0)
        # Damage here is outside of the range: else reading its records has failed.
        with suppress(KafkaLogError):
            for rows in chain.from_iterable(file.header_runs() for file in files):
                shown = rows[rows["last_offset"] < stop]
                if len(shown):
                    steps.add_rows(shown)
                if len(shown) < len(rows):
                    break
        return steps

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
