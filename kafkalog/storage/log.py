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
from kafkalog.errors import CorruptRecordError, NotALogError
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

        Damage ends it with an error, as in `MessageSet`; so does a sealed segment that does not end in a whole batch,
        or that holds an offset which is not its own. FileNotFoundError: retention deleted a segment before it was
        reached.
        """
        return chain.from_iterable(chain.from_iterable(part.record_lists() for part in self.columns(start, end)))

    def columns(
        self, start: int | None = None, end: int | None = None, *, threads: int = 1, check_crcs: bool = True
    ) -> Iterator[RecordColumns]:
        """The same records as arrays, some thousand at a time. ValueError: threads < 1."""
        first, stop = self._range(start, end)
        for segment, message_set in self._message_sets(first, stop):
            for part in message_set.columns(threads=threads, check_crcs=check_crcs):
                own = self._of_segment(segment, part)
                wanted = part[:own].between(first, stop)
                if len(wanted):
                    yield wanted
                if own < len(part):
                    raise self._foreign_offset(segment, part, own)
                if int(part.offset[-1]) >= stop:
                    return

    def batches(self, start: int | None = None, end: int | None = None) -> Iterator[RecordBatch]:
        """The batches that hold, or held, an offset in [start, end), control batches too; nothing is decompressed."""
        first, stop = self._range(start, end)
        for _, message_set in self._message_sets(first, stop):
            for batch in message_set.batches():
                if batch.magic >= 2 and batch.base_offset >= stop:
                    return
                if batch.last_offset >= first:
                    yield batch
                if batch.last_offset >= stop - 1:
                    return

    def _range(self, start: int | None, end: int | None) -> tuple[int, int]:
        log_start = self.log_start_offset
        first = log_start if start is None else max(log_start, operator.index(start))
        return first, NO_END if end is None else operator.index(end)

    def _next_base(self, i: int) -> int:
        return self._segments[i + 1].base_offset if i + 1 < len(self._segments) else NO_END

    def _message_sets(self, first: int, stop: int) -> Iterator[tuple[int, FileMessageSet]]:
        """The segments to read for [first, stop) and their files, the first of them from the batch with `first` on.

        One file is open at a time: a partition may have more segments than a process may have open files.
        """
        for i, segment in enumerate(self._segments):
            if first >= stop or self._next_base(i) <= first or segment.base_offset >= stop:
                continue
            with segment.opened() as message_set:
                yield i, message_set.starting_at(first) if segment.base_offset < first else message_set

    def _of_segment(self, i: int, part: RecordColumns) -> int:
        """How many records come before the first whose offset cannot be in segment i: no checksum covers offsets."""
        base, following = self._segments[i].base_offset, self._next_base(i)
        if base <= int(part.offset.min()) and int(part.offset.max()) < following:
            return len(part)
        return int(((part.offset < base) | (part.offset >= following)).argmax())

    def _foreign_offset(self, i: int, part: RecordColumns, wrong: int) -> CorruptRecordError:
        return CorruptRecordError(
            "an offset that is not of this segment",
            str(self._segments[i].path),
            int(part.batches["position"][part.batch[wrong]]),
            f"{self._segments[i].base_offset}..{self._next_base(i) - 1}",
            int(part.offset[wrong]),
        )

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
