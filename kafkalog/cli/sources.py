"""A PATH as runs of records: each partition, or a file by itself, seen in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kafkalog.record.batch import RecordBatch
from kafkalog.record.columns import RecordColumns
from kafkalog.record.framing import EndKind, EndOfData
from kafkalog.storage.data_dir import DataDir, LogFile, PartitionDir
from kafkalog.storage.file_message_set import FileMessageSet
from kafkalog.storage.log import Log
from kafkalog.storage.paths import TopicPartition, segment_base_offset


class Located(NamedTuple):
    """A batch, and the file that its position counts in."""

    path: Path
    batch: RecordBatch


class Source:
    """The records of one partition or one file, by offset. Everything raises what the library raises."""

    def __init__(self, log: Log | FileMessageSet, name: str, topic_partition: TopicPartition | None) -> None:
        self._log = log
        self.name = name
        self.topic_partition = topic_partition

    @property
    def files(self) -> list[FileMessageSet]:
        """The files it is made of, in order of their offsets."""
        return [segment.log for segment in self._log.segments] if isinstance(self._log, Log) else [self._log]

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        if isinstance(self._log, Log):
            return self._log.log_start_offset
        batch = next(iter(self._log.batches()), None)
        return 0 if batch is None else batch.base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last whole batch, up to damage if there is any."""
        if isinstance(self._log, Log):
            return self._log.log_end_offset
        last = self._log.last_offset()
        return (segment_base_offset(Path(self._log.path).name) or 0) if last is None else last + 1

    def offset_at(self, timestamp: int) -> int | None:
        """The offset of the first record at this time (ms) or later."""
        start = self.start_offset
        for file in self.files:
            if (found := file.search_timestamp(timestamp, starting_offset=start)) is not None:
                return found.offset
        return None

    def columns(self, start: int | None, end: int | None) -> Iterator[RecordColumns]:
        """The records with start <= offset < end, as arrays."""
        if isinstance(self._log, Log):
            return self._log.columns(start, end)
        return _between(self._log if start is None else self._log.starting_at(start), start, end)

    def batches(self, start: int | None, end: int | None) -> Iterator[Located]:
        """The batches that hold, or held, an offset in [start, end)."""
        first = max(self._first_readable, start or 0)
        for file in self.files:
            for batch in (file.starting_at(first) if first else file).batches():
                # Where a compressed message of formats 0 and 1 begins, only decompressing it would tell.
                if end is not None and (end <= first or (batch.magic >= 2 and batch.base_offset >= end)):
                    return
                yield Located(Path(file.path), batch)
                if end is not None and batch.last_offset >= end - 1:
                    return

    @property
    def _first_readable(self) -> int:
        return self._log.log_start_offset if isinstance(self._log, Log) else 0

    @property
    def torn(self) -> EndOfData | None:
        """Where the last file ends in part of a batch; None where it does not."""
        end = self.files[-1].end_of_data if self.files else None
        return end if end is not None and end.kind is EndKind.TORN else None

    @property
    def active_path(self) -> str:
        """The file that may still be written to."""
        return self.files[-1].path


def _between(file: FileMessageSet, start: int | None, end: int | None) -> Iterator[RecordColumns]:
    for part in file.columns():
        first, last = int(part.offset[0]), int(part.offset[-1])
        low, high = first if start is None else start, last + 1 if end is None else end
        wanted = part if low <= first and last < high else part.between(low, high)
        if len(wanted):
            yield wanted
        if last >= high:
            return


@contextmanager
def opened(place: PartitionDir | LogFile) -> Iterator[Source]:
    """The source that `place` is. OSError, NotALogError: it cannot be opened."""
    if isinstance(place, LogFile):
        with FileMessageSet(place.path) as file:
            yield Source(file, str(place.path), None)
    else:
        with Log(place.path) as log:
            yield Source(log, place.name, log.topic_partition)


def places(place: DataDir | PartitionDir | LogFile) -> tuple[PartitionDir | LogFile, ...]:
    """What is in a data directory, or the place itself."""
    return place.partitions if isinstance(place, DataDir) else (place,)
