"""`FileMessageSet`: log entries in a file, the whole of it or a slice.

    ... entry | entry | entry | torn or zeroed tail
        ^ start                                    ^ end

Kafka: `FileRecords` (before 0.11 `FileMessageSet`).
"""

import os
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.framing import scan_file_headers
from kafkalog.errors import CorruptRecordError
from kafkalog.record import compression
from kafkalog.record.batch import RecordBatch, batches_of
from kafkalog.record.decoding import Reading
from kafkalog.record.framing import EndKind, Stop
from kafkalog.record.message_set import RUN_ROWS, MessageSet
from kafkalog.storage.mapped import ReadableFile


class OffsetPosition(NamedTuple):
    """A batch in a file: its base offset, where it begins (bytes) and its size in bytes."""

    offset: int
    position: int
    size: int


class TimestampAndOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and its batch's leader epoch (None where it has none)."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class FileMessageSet(MessageSet):
    """The log entries of a file from `start` to `end` (bytes; None: wherever the file ends when it is read).

    As Kafka's reader of files: the magic is not looked at before a batch is read; an entry that the file does not
    hold whole is the end of the data. Positions of batches count from the start of the file.

    sealed: the file has a successor and is not written to any more. It is then mapped, and a torn or zeroed tail is
    damage. decompression_limit: bytes that one batch may decompress to.

    OSError: the file cannot be opened. ValueError: start or end negative, or start > end.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        start: int = 0,
        end: int | None = None,
        sealed: bool = False,
        decompression_limit: int = compression.DEFAULT_LIMIT,
    ) -> None:
        super().__init__(Reading(decompression_limit=decompression_limit, path=os.fspath(path)))
        if start < 0 or (end is not None and end < start):
            raise ValueError(f"[{start}, {end}) is not a range of a file")
        self._file = ReadableFile(path, mapped=sealed)
        self._first = start
        self._end = end
        self.sealed = sealed

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return str(self._file.path)

    @property
    def _start(self) -> int:
        return self._first

    @property
    def size_in_bytes(self) -> int:
        """Bytes from start to end as the file is now, a torn or zeroed tail included."""
        return max(0, self._stop() - self._first)

    def read(self, position: int, length: int) -> "FileMessageSet":
        """The slice of `length` bytes at `position`, counted from this set's start; less where this set ends before.

        The slice shares the open file. ValueError: position or length negative, or position after the end.
        """
        size = self.size_in_bytes
        if position < 0 or length < 0 or position > size:
            raise ValueError(f"a slice of {length} bytes at {position} is outside the {size} bytes of {self.path}")
        first = self._first + position
        return self._slice(first, first + min(length, size - position), sealed=False)

    def starting_at(self, offset: int) -> "FileMessageSet":
        """This set without the batches before the first whose last offset is `offset` or more."""
        found = self.search(offset)
        return self._slice(self._stop() if found is None else found.position, self._end, sealed=self.sealed)

    def last_offset(self) -> int | None:
        """The last offset of the last whole batch, before damage if there is any; None where there is no batch."""
        last, position, more = None, self._first, True
        while more:
            rows, stop = self._scan(position, rows=RUN_ROWS, span=-1)
            last = int(rows["last_offset"][-1]) if len(rows) else last
            position, more = stop.position, stop.more
        return last

    def _slice(self, first: int, end: int | None, *, sealed: bool) -> "FileMessageSet":
        part = FileMessageSet.__new__(FileMessageSet)
        MessageSet.__init__(part, self._reading)
        part._file = self._file
        part._first = first
        part._end = end
        part.sealed = sealed
        return part

    def batches(self, start: int = 0, *, max_message_size: int | None = None) -> Iterator[RecordBatch]:
        """The entries from position `start` (bytes from this set's start) on; nothing is decompressed, no CRC computed.

        CorruptRecordError: damage in the framing, or a size field greater than `max_message_size`.
        """
        limit = -1 if max_message_size is None else max_message_size
        runs = self._runs(self._first + start, max_size=limit)
        return chain.from_iterable(batches_of(self._entries(run), self._reading) for run in runs)

    def search(self, offset: int, start: int = 0) -> OffsetPosition | None:
        """The first batch from position `start` on whose last offset is `offset` or more; None where there is none."""
        for run in self._runs(self._first + start):
            reached = run["last_offset"] >= offset
            if reached.any():
                i = int(reached.argmax())
                (batch,) = batches_of(self._entries(run[i : i + 1]), self._reading)
                return OffsetPosition(batch.base_offset, batch.position, batch.size_in_bytes)
        return None

    def search_timestamp(self, timestamp: int, start: int = 0, starting_offset: int = 0) -> TimestampAndOffset | None:
        """The first record from position `start` and `starting_offset` on whose timestamp (ms) is `timestamp` or more.

        None where there is none; format 0 has no timestamps. CorruptRecordError, InvalidRecordError: a batch to look
        into is damaged.
        """
        for run in self._runs(self._first + start):
            candidates = run[(run["max_timestamp"] >= timestamp) & (run["last_offset"] >= starting_offset)]
            for i in range(len(candidates)):
                (batch,) = batches_of(self._entries(candidates[i : i + 1]), self._reading)
                columns = batch.columns()
                found = (columns.timestamp >= timestamp) & (columns.offset >= starting_offset)
                if batch.magic > 0 and found.any():
                    first = int(found.argmax())
                    epoch = batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None
                    return TimestampAndOffset(int(columns.timestamp[first]), int(columns.offset[first]), epoch)
        return None

    def close(self) -> None:
        """Close the file, for slices of it too. Records, columns and batches given out before stay valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> int:
        return self._file.size if self._end is None else min(self._end, self._file.size)

    def _scan(self, start: int, *, rows: int, span: int, max_size: int = -1) -> tuple[NDArray[np.void], Stop]:
        end = max(start, self._stop())
        try:
            found, *stop = scan_file_headers(self._file.fileno(), start, end, rows, span, max_size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None
        return found, Stop(*stop)

    def _check_end(self, stop: Stop) -> None:
        kind, position = stop.end(self._reading.path)
        if self.sealed and kind is not EndKind.END:
            raise CorruptRecordError(
                f"a segment that has a successor ends in a {kind.value} tail",
                self._reading.path,
                position,
                "the end of the file",
                f"{self._stop() - position} bytes more",
            )

    def _view(self, position: int, length: int) -> memoryview:
        return self._file.view(position, length)

    def __repr__(self) -> str:
        return f"<FileMessageSet {self.path} [{self._first}, {'end' if self._end is None else self._end})>"
