"""`Log`: a partition directory, all its segments as one run of offsets. Reading; nothing is written, created or locked.

log start offset          segment | segment | active segment          log end offset
(records before it have been deleted, their bytes perhaps not yet)    (the offset the next record will get)
"""

import errno
import operator
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Self

from kafkalog._speedups.record import Record
from kafkalog.errors import NotALogError
from kafkalog.record import compression
from kafkalog.record.batch import RecordBatch
from kafkalog.record.columns import RecordColumns
from kafkalog.storage.checkpoints import read_offset_checkpoint
from kafkalog.storage.file_message_set import FileMessageSet
from kafkalog.storage.paths import (
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
    parse_partition_dir,
    segment_files,
)
from kafkalog.storage.segment import LogSegment

# Offsets are Java longs.
NO_END = 2**63 - 1


class Log:
    """The log of one partition. Iterable: the records from the log start offset on, as a consumer sees them.

    Its segments are those found when it was opened; the last one is followed as it grows. Works beside a running
    broker.

    NotADirectoryError, FileNotFoundError: no such directory. NotALogError: it holds no segment and is not named as a
    partition.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, decompression_limit: int = compression.DEFAULT_LIMIT
    ) -> None:
        self.directory = Path(directory)
        if self.directory.is_file():
            what = "a partition directory is needed; a single file is read by FileMessageSet(path)"
            raise NotADirectoryError(errno.ENOTDIR, what, str(directory))
        files = segment_files(self.directory)
        self.topic_partition: TopicPartition | None = parse_partition_dir(self.directory.resolve().name)
        if not files and self.topic_partition is None:
            raise NotALogError(_what_is_missing(self.directory), str(directory))
        last = len(files) - 1
        self._segments = tuple(
            LogSegment(base, path, sealed=i < last, decompression_limit=decompression_limit)
            for i, (base, path) in enumerate(files)
        )

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, by base offset; the last one is the active one."""
        return self._segments

    @property
    def log_start_offset(self) -> int:
        """The first offset a consumer gets.

        It is the first segment's base, or what the data directory's checkpoint says if that is more.

        CorruptCheckpointError: the checkpoint does not follow its format.
        """
        first = self._segments[0].base_offset if self._segments else 0
        if self.topic_partition is None:
            return first
        checkpoint = read_offset_checkpoint(self.directory.resolve().parent / LOG_START_OFFSET_CHECKPOINT)
        return max(first, checkpoint.get(self.topic_partition, first))

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get.

        After the last whole batch of the active segment, up to damage if there is any.
        """
        if not self._segments:
            return self.log_start_offset
        active = self._segments[-1]
        last = active.log.last_offset()
        return max(self.log_start_offset, active.base_offset if last is None else last + 1)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_in_bytes for segment in self._segments)

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, start: int | None = None, end: int | None = None) -> Iterator[Record]:
        """The records with start <= offset < end (None: from the log start, to its end), control records left out.

        Damage ends it with an error, as in `MessageSet`; so does a sealed segment that does not end in a whole batch.
        """
        return chain.from_iterable(chain.from_iterable(part.record_lists() for part in self.columns(start, end)))

    def columns(
        self, start: int | None = None, end: int | None = None, *, threads: int = 1, check_crcs: bool = True
    ) -> Iterator[RecordColumns]:
        """The same records as arrays, some thousand at a time. ValueError: threads < 1."""
        first, stop = self._range(start, end)
        sets = self._message_sets(first, stop)
        parts = chain.from_iterable(each.columns(threads=threads, check_crcs=check_crcs) for each in sets)
        for part in parts:
            if first <= int(part.offset[0]) and int(part.offset[-1]) < stop:
                yield part
                continue
            wanted = part.between(first, stop)
            if len(wanted):
                yield wanted
            if int(part.offset[-1]) >= stop:
                return

    def batches(self, start: int | None = None, end: int | None = None) -> Iterator[RecordBatch]:
        """The batches that hold, or held, an offset in [start, end), control batches too; nothing is decompressed."""
        first, stop = self._range(start, end)
        for batch in chain.from_iterable(each.batches() for each in self._message_sets(first, stop)):
            if batch.last_offset < first:
                continue
            if batch.magic >= 2 and batch.base_offset >= stop:
                return
            yield batch
            if batch.last_offset >= stop - 1:
                return

    def _range(self, start: int | None, end: int | None) -> tuple[int, int]:
        log_start = self.log_start_offset
        first = log_start if start is None else max(log_start, operator.index(start))
        return first, NO_END if end is None else operator.index(end)

    def _message_sets(self, first: int, stop: int) -> Iterator[FileMessageSet]:
        """The files to read for [first, stop), the first of them from the batch that holds `first` on."""
        bases = [segment.base_offset for segment in self._segments]
        for i, segment in enumerate(self._segments):
            next_base = bases[i + 1] if i + 1 < len(bases) else NO_END
            if first >= stop or next_base <= first or segment.base_offset >= stop:
                continue
            yield segment.log.starting_at(first) if segment.base_offset < first else segment.log

    def close(self) -> None:
        """Close the files. Records, columns and batches given out before stay valid."""
        for segment in self._segments:
            segment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Log {self.directory} of {len(self._segments)} segments>"


def _what_is_missing(directory: Path) -> str:
    """Why a directory is no partition; a data directory, which holds some, is named as what it is."""
    inside = sorted(each.name for each in directory.iterdir() if parse_partition_dir(each.name) is not None)
    if inside:
        return f"a data directory, not a partition: open one of the {len(inside)} below it, such as {inside[0]}"
    return "no Kafka partition: no segment (<20 digits>.log) in it, and not named <topic>-<partition>"


def open_log(path: str | os.PathLike[str], mode: str = "r", *, decompression_limit: int | None = None) -> Log:
    """See `kafkalog.open`."""
    if mode != "r":
        raise ValueError(f"mode is {mode!r}; 'r' is the only one")
    limit = compression.DEFAULT_LIMIT if decompression_limit is None else decompression_limit
    return Log(path, decompression_limit=limit)
