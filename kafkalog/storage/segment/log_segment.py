"""`LogSegment`: one segment of a partition, with the entries from its base offset on and their indexes.

    00000000000000000040.log        batch | batch | batch | ...      offsets 40 ..
    00000000000000000040.index      offset -> position               one batch per index interval
    00000000000000000040.timeindex  largest timestamp so far -> offset
    00000000000000000040.txnindex   aborted transactions             only if there are any

For reading see `segment_reader`.

Kafka: `LogSegment`.
"""

import logging
from collections.abc import Callable, Sequence
from errno import ENOENT
from pathlib import Path
from typing import Protocol

from kafkalog.errors import KafkaLogError, SegmentOffsetOverflowError
from kafkalog.record import decompress
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.file_names import INDEX_SUFFIX
from kafkalog.storage.files.appendable_file import Piece
from kafkalog.storage.index.abstract_index import MAX_INT
from kafkalog.storage.index.time_index import TimestampEntry
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.segment.segment_files import DEFAULTS
from kafkalog.storage.segment.segment_reader import ReadableSegment

_log = logging.getLogger(__name__)


class BatchHeader(Protocol):
    """The values of a batch that an append needs, as a `Header` or a `BuiltBatch` has them."""

    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def size_in_bytes(self) -> int: ...


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
        writable: bool = False,
        config: LogConfig = DEFAULTS,
        clock: Clock = wall_clock_ms,
        decompression_limit: int = decompress.DEFAULT_LIMIT,
    ) -> None:
        super().__init__(
            base_offset,
            path,
            sealed=sealed,
            writable=writable,
            config=config,
            decompression_limit=decompression_limit,
        )
        self.roll_jitter_ms = config.random_segment_jitter()
        self.created = clock()
        self._clock = clock
        self._max_segment_ms = config.max_segment_ms
        # Bytes written before this object was created do not count, as in Kafka.
        self._bytes_since_entry = 0
        # Whether the indexes are known not to be full; checked again after each entry.
        self._indexes_have_room = False

    # --- appending and rolling

    def append(self, data: Piece, headers: Sequence[BatchHeader]) -> int:
        """Append whole batches, and an index entry every `index_interval_bytes`; return the new end position.

        If this fails, `cut_back` undoes the part that was done.

        Args:
            data: The batches.
            headers: The header of each batch.

        Raises:
            SegmentOffsetOverflowError: An offset is too far from the base offset; nothing was written.
            OSError, CorruptRecordError: As `FileMessageSet.append`.
            InvalidOffsetError: The offsets do not rise.
        """
        if not 0 <= headers[-1].last_offset - self.base_offset <= MAX_INT:
            allowed, found = f"{self.base_offset}..{self.base_offset + MAX_INT}", headers[-1].last_offset
            raise SegmentOffsetOverflowError("an offset the indexes cannot hold", str(self.path), None, allowed, found)
        log = self._writer or self.open_writer()
        # Open the indexes first, so that a failure to open them occurs before a byte is written.
        offset_index, time_index, largest = self.offset_index, self.time_index, self.max_timestamp_and_offset_so_far
        since, first = self._bytes_since_entry, self._first_timestamp
        position = log.append_pieces((data,), len(data)) - len(data)
        for header in headers:
            if not position and first is None:
                first = header.max_timestamp
            if header.max_timestamp > largest.timestamp:
                largest = TimestampEntry(header.max_timestamp, header.last_offset)
            if since > self.config.index_interval_bytes:
                offset_index.append(header.last_offset, position)
                time_index.maybe_append(largest.timestamp, largest.offset)
                self._indexes_have_room = False
                since = 0
            position += header.size_in_bytes
            since += header.size_in_bytes
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
            log = self.open_writer()
            self.offset_index.truncate_to(next_offset)
            self.time_index.truncate_to(next_offset)
            log.truncate_to(position)
            if not position:
                self._first_timestamp = None
            if self.max_timestamp_and_offset_so_far.timestamp >= 0:
                self._largest = self._largest_after_truncation()

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now: int) -> bool:
        """Return whether a new segment is needed for batches to append.

        Args:
            size: Their size, bytes.
            last_offset: Their last offset.
            max_timestamp: Their largest timestamp, ms; -1 = none.
            now: The current time, ms.
        """
        present = self.size_in_bytes
        return (
            present > self.config.segment_bytes - size
            or (
                present > 0
                and self.time_waited_for_roll(now, max_timestamp) > self._max_segment_ms - self.roll_jitter_ms
            )
            or not (self._indexes_have_room or self._look_for_room())
            or not 0 <= last_offset - self.base_offset <= MAX_INT
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
                self.open_writer().truncate_to(valid_bytes)
            self._finish_indexes(largest)
            return truncated

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset`, with its index entries, and return the number of bytes removed.

        Afterwards the segment is appendable, with indexes of full size.
        """
        with self._lock:
            self.unseal()
            log = self.open_writer()
            found = self.translate_offset(offset)
            for index in (self.offset_index, self.time_index, self.txn_index):
                index.truncate_to(offset)
            self.resize_indexes(self.config.max_index_size)
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
                # Errors do not prevent the segment from being closed.
                try:
                    self._time_index.maybe_append(*self._largest, skip_full_check=True)
                except (KafkaLogError, OSError, ValueError):
                    _log.warning("%s: the largest timestamp is not in the time index", self.path, exc_info=True)
            super().close()

    def __repr__(self) -> str:
        return f"<LogSegment {self.base_offset} {'sealed' if self.sealed else 'active'} {self.path}>"
