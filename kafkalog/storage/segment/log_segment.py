"""`LogSegment`: one segment of a partition, with the entries from its base offset on and their indexes.

    00000000000000000040.log        batch | batch | batch | ...      offsets 40 ..
    00000000000000000040.index      offset -> position               one batch per index interval
    00000000000000000040.timeindex  largest timestamp so far -> offset
    00000000000000000040.txnindex   aborted transactions             only if there are any

For reading see `segment_reader`.

Kafka: `LogSegment`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from errno import ENOENT
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError, SegmentOffsetOverflowError
from kafkalog.record import decompress
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, offset_file
from kafkalog.storage.index.abstract_index import MAX_INT
from kafkalog.storage.index.time_index import TimeIndex, TimestampEntry
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment.segment_reader import ReadableSegment

_log = logging.getLogger(__name__)
_DEFAULTS = LogConfig()


class BatchSpan(NamedTuple):
    """The values of a batch that an append needs: last offset, largest timestamp (ms, -1 = none), size (bytes)."""

    last_offset: int
    max_timestamp: int
    size: int


def spans_of(rows: NDArray[np.void]) -> Iterator[BatchSpan]:
    """Return the spans for rows of the header table."""
    columns = (rows[name].tolist() for name in ("last_offset", "max_timestamp", "size_in_bytes"))
    return map(BatchSpan, *columns)


class LogSegment(ReadableSegment):
    """A segment to read and write. One thread at a time may write; any number may read concurrently.

    Attributes:
        base_offset, path, sealed, writable: See `SegmentFiles`.
        created: When this object was created or the segment last emptied, ms.
        roll_jitter_ms: The random time by which the segment is rolled earlier than configured.
        clock: Returns the current time, ms.
    """

    def __init__(
        self,
        base_offset: int,
        path: Path,
        *,
        sealed: bool,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
        writable: bool = False,
        config: LogConfig | None = None,
        clock: Clock = wall_clock_ms,
    ) -> None:
        config = config or _DEFAULTS
        super().__init__(
            base_offset,
            path,
            sealed=sealed,
            writable=writable,
            max_index_size=config.max_index_size,
            preallocate_bytes=config.init_file_size,
            decompression_limit=decompression_limit,
        )
        self.roll_jitter_ms = config.random_segment_jitter()
        self.created = clock()
        self._clock = clock
        self.index_interval_bytes = config.index_interval_bytes
        # Bytes written before this object was created do not count, as in Kafka.
        self._bytes_since_entry = 0
        # Whether the indexes are known not to be full; checked again after each entry.
        self._indexes_have_room = False

    @classmethod
    def open(
        cls,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        clock: Clock = wall_clock_ms,
        writable: bool = True,
        sealed: bool = False,
        file_already_exists: bool = False,
        suffix: str = "",
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> Self:
        """Open the segment with that base offset; the `.log` file of a writable segment is created if it is missing.

        A new file is preallocated if `config` requires it.

        Args:
            directory: The directory of the partition.
            base_offset: The base offset.
            config: The configuration of the log.
            clock: Returns the current time, ms.
            writable: As for `SegmentFiles`.
            sealed: As for `SegmentFiles`.
            file_already_exists: The file exists; open no file before it is needed.
            suffix: Added to every file name, such as `.cleaned`.
            decompression_limit: The maximum size of a decompressed batch, bytes.

        Raises:
            OSError: The file cannot be created.
        """
        segment = cls(
            base_offset,
            offset_file(directory, base_offset, LOG_SUFFIX + suffix),
            sealed=sealed,
            decompression_limit=decompression_limit,
            writable=writable,
            config=config,
            clock=clock,
        )
        if writable and not file_already_exists:
            segment._open_writer()
        return segment

    # --- appending and rolling

    def append(self, largest_offset: int, message_set: MessageSet, spans: Iterable[BatchSpan]) -> int:
        """Append whole batches, and an index entry every `index_interval_bytes`; return the new end position.

        If this fails, `cut_back` undoes the part that was done.

        Args:
            largest_offset: The largest offset of all batches.
            message_set: The batches.
            spans: One span per batch.

        Raises:
            SegmentOffsetOverflowError: An offset is too far from the base offset; nothing was written.
            OSError, CorruptRecordError: As `FileMessageSet.append`.
            InvalidOffsetError: The offsets do not rise.
        """
        if not message_set.size_in_bytes:
            return self.size_in_bytes
        if not 0 <= largest_offset - self.base_offset <= MAX_INT:
            raise self._overflow(largest_offset)
        log = self._writer if self._writer is not None else self._open_writer()
        # Open the indexes first, so that a failure to open them occurs before a byte is written.
        offset_index, time_index, largest = self.offset_index, self.time_index, self.max_timestamp_and_offset_so_far
        position, since, first = log.size_in_bytes, self._bytes_since_entry, self._first_timestamp
        log.append(message_set, is_whole=True)
        for last_offset, timestamp, size in spans:
            if not position and first is None:
                first = timestamp
            if timestamp > largest[0]:
                largest = TimestampEntry(timestamp, last_offset)
            if since > self.index_interval_bytes:
                offset_index.append(last_offset, position)
                time_index.maybe_append(largest.timestamp, largest.offset)
                self._indexes_have_room = False
                since = 0
            position += size
            since += size
        # Set last, so that a failed append leaves them unchanged.
        self._largest, self._bytes_since_entry, self._first_timestamp = largest, since, first
        return position

    def cut_back(self, position: int, next_offset: int) -> None:
        """Cut off the batches from a position on, and their index entries.

        Args:
            position: The new end of the file, bytes.
            next_offset: The offset of the first batch removed.

        Raises:
            ValueError: The file is shorter than `position`.
        """
        with self._lock:
            log = self._open_writer()
            self.offset_index.truncate_to(next_offset)
            self.time_index.truncate_to(next_offset)
            log.truncate_to(position)
            if not position:
                self._first_timestamp = None
            if self.max_timestamp_and_offset_so_far.timestamp >= 0:
                self._largest = self._largest_after_truncation()

    def should_roll(
        self,
        *,
        max_segment_ms: int,
        max_segment_bytes: int,
        max_timestamp_in_messages: int,
        max_offset_in_messages: int,
        messages_size: int,
        now: int,
    ) -> bool:
        """Return whether a new segment is needed for the messages to append. Times in ms, sizes in bytes."""
        size = self.size_in_bytes
        return (
            size > max_segment_bytes - messages_size
            or (
                size > 0
                and self.time_waited_for_roll(now, max_timestamp_in_messages) > max_segment_ms - self.roll_jitter_ms
            )
            or not (self._indexes_have_room or self._look_for_room())
            or not 0 <= max_offset_in_messages - self.base_offset <= MAX_INT
        )

    def _look_for_room(self) -> bool:
        self._indexes_have_room = not (self.offset_index.is_full or self.time_index.is_full)
        return self._indexes_have_room

    def time_waited_for_roll(self, now: int, message_timestamp: int) -> int:
        """Return `message_timestamp` minus the first batch's timestamp or, without one, `now` minus `created`; ms."""
        first = self._first_timestamp
        if first is None:
            first = self._first_batch_timestamp()
        return message_timestamp - first if first >= 0 else now - self.created

    def _overflow(self, offset: int) -> SegmentOffsetOverflowError:
        allowed = f"{self.base_offset}..{self.base_offset + MAX_INT}"
        return SegmentOffsetOverflowError("an offset the indexes cannot hold", str(self.path), None, allowed, offset)

    def on_become_inactive_segment(self) -> None:
        """Write the last entry of the time index and trim all files, before a new segment follows.

        The files stay open, because they still have to be flushed.
        """
        with self._lock:
            self._finish_indexes(self.max_timestamp_and_offset_so_far)
            if self._writer is not None:
                self._writer.trim()
            self.seal()

    def _finish_indexes(self, largest: TimestampEntry) -> None:
        """Write the last entry of the time index, which retention uses, and trim the indexes."""
        self._largest, self._indexes_have_room = largest, False
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()

    # --- recovering and truncating

    def rebuild(self, read_batches: Callable[[], tuple[int, TimestampEntry]]) -> int:
        """Empty the indexes, fill them again, and cut the file after its last valid batch.

        Args:
            read_batches: Fills the indexes; returns the number of valid bytes in the file and the largest timestamp.

        Returns:
            The number of bytes removed.
        """
        with self._lock:
            sealed = self.sealed
            self.unseal()
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.reset()
            self.sealed = sealed
            self._size, self._largest, self._first_timestamp = None, None, None
            valid_bytes, largest = read_batches()
            truncated = self.size_in_bytes - valid_bytes
            if truncated:
                self._open_writer().truncate_to(valid_bytes)
            self._finish_indexes(largest)
            return truncated

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset`, with its index entries, and return the number of bytes removed.

        Afterwards the segment is appendable, with indexes of full size.
        """
        with self._lock:
            self.unseal()
            log = self._open_writer()
            found = self.translate_offset(offset)
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.truncate_to(offset)
            self.resize_indexes(self._max_index_size)
            truncated = 0 if found is None else log.truncate_to(found.position)
            if not log.size_in_bytes:
                self.created = self._clock()
                self._first_timestamp = None
            self._bytes_since_entry = 0
            if self.max_timestamp_and_offset_so_far.timestamp >= 0:
                self._largest = self._largest_after_truncation()
            return truncated

    def _largest_after_truncation(self) -> TimestampEntry:
        entry = self.time_index.last_entry
        behind = self.log.largest_timestamp(self.offset_index.lookup(entry.offset).position)
        return TimestampEntry(*behind) if behind[0] > entry.timestamp else entry

    def resize_indexes(self, size: int) -> None:
        """Give both indexes room for `size` bytes, or for their entries if these need more.

        Indexes written with a smaller configured size may be full.
        """
        self._indexes_have_room = False
        for index in (self.offset_index, self.time_index):
            index.resize(max(size, index.size_in_bytes))

    def sanity_check(self, *, time_index_newly_created: bool) -> None:
        """Check that the offset index exists and the transaction index is valid, and nothing else.

        Args:
            time_index_newly_created: The time index was missing; create an empty one.

        Raises:
            FileNotFoundError: The offset index is missing.
            CorruptIndexError: The transaction index is damaged, see `TransactionIndex.sanity_check`.
        """
        path = self.index_path(INDEX_SUFFIX)
        if not path.exists():
            raise FileNotFoundError(ENOENT, "an offset index is needed", str(path))
        if time_index_newly_created and self.writable:
            self._indexes_have_room = False
            self.time_index.resize(0)
        self.txn_index.sanity_check()

    # --- closing

    def close(self) -> None:
        """Close the files for good; writable ones are completed, trimmed and flushed.

        Data read from them stays valid. Closing twice does nothing.
        """
        with self._lock:
            if self.writable and not self.sealed and self._largest is not None and self._time_index is not None:
                self._complete(self._time_index)
            super().close()

    def _complete(self, time_index: TimeIndex) -> None:
        """Write the last entry of the time index; errors do not prevent the segment from being closed."""
        assert self._largest is not None
        try:
            time_index.maybe_append(*self._largest, skip_full_check=True)
        except (KafkaLogError, OSError, ValueError):
            _log.warning("%s: the largest timestamp is not in the time index", self.path, exc_info=True)

    def __repr__(self) -> str:
        return f"<LogSegment {self.base_offset} {'sealed' if self.sealed else 'active'} {self.path}>"
