"""`LogSegment`: one segment of a partition, with the entries from its base offset on and their indexes.

    00000000000000000040.log        batch | batch | batch | ...      offsets 40 ..
    00000000000000000040.index      offset -> position               one batch per index interval
    00000000000000000040.timeindex  largest timestamp so far -> offset
    00000000000000000040.txnindex   aborted transactions             only if there are any

    offset 57 -> .index: 50 at 8192 -> scan headers from there -> the batch of 55 .. 59 at 9130
    time      -> .timeindex: latest up to offset 50 -> .index -> headers -> the first record that is as late

An entry of the offset index is a hint, used if it leads to a batch at or before the offset; otherwise the file is
scanned from its start. A writer trusts the time index, since recovery has rebuilt it or it was closed cleanly. A
reader checks the batch that an entry refers to.

Kafka: `LogSegment`.
"""

import logging
from collections.abc import Callable, Sequence
from errno import ENOENT
from pathlib import Path
from typing import TypeAlias

from kafkalog._speedups import decompress
from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import CorruptRecordError, KafkaLogError, SegmentOffsetOverflowError
from kafkalog.record.decoding import Entries
from kafkalog.record.framing import Header
from kafkalog.record.records_builder import BuiltBatch
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.fetch_data_info import NO_MESSAGES, FetchDataInfo
from kafkalog.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkalog.storage.files.appendable_file import MAX_BYTES, Piece
from kafkalog.storage.index.abstract_index import MAX_INT
from kafkalog.storage.index.time_index import TimestampEntry
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.remote_path import RemotePath
from kafkalog.storage.segment.file_message_set import FileMessageSet, OffsetPosition, TimestampAndOffset
from kafkalog.storage.segment.segment_files import DEFAULTS, SegmentFiles

_log = logging.getLogger(__name__)


# The values of a batch that an append needs.
BatchHeader: TypeAlias = Header | BuiltBatch


class LogSegment(SegmentFiles):
    """A segment to read and write. One thread at a time may write; any number may read concurrently.

    Attributes:
        base_offset, path, sealed, writable: See `SegmentFiles`.
        created: When this object was created or the segment last emptied, ms.
        roll_jitter_ms: The random time by which the segment is rolled earlier than configured.
        clock: Returns the current time, ms.
    """

    # Computed on first use; None until then.
    _largest: TimestampEntry | None = None
    _first_timestamp: int | None = None

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
            base_offset, path, sealed=sealed, writable=writable, config=config, decompression_limit=decompression_limit
        )
        self.roll_jitter_ms = config.random_segment_jitter()
        self.created = clock()
        self._clock = clock
        self._max_segment_ms = config.max_segment_ms
        # Bytes written before this object was created do not count, as in Kafka.
        self._bytes_since_entry = 0
        # Whether the indexes are known not to be full; checked again after each entry.
        self._indexes_have_room = False

    @property
    def size(self) -> int:
        """The same as `size_in_bytes`."""
        return self.size_in_bytes

    # --- times

    @property
    def max_timestamp_and_offset_so_far(self) -> TimestampEntry:
        """The largest timestamp and the last offset of the first batch that has it; (-1, base offset) if there is none.

        For a writable segment, the content before it was opened is represented by the last entry of the time index.
        Otherwise the batches from that entry on are scanned.
        """
        largest = self._largest
        if largest is not None:
            return largest
        if not self.writable:
            return self._largest_found()
        with self._lock:
            if self._largest is None:
                self._largest = self.time_index.last_entry
            return self._largest

    @property
    def largest_record_timestamp(self) -> int | None:
        """The largest timestamp, ms; None if no batch has one."""
        largest = self.max_timestamp_and_offset_so_far.timestamp
        return largest if largest >= 0 else None

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp or, if no batch has one, the mtime of the file; ms."""
        largest = self.max_timestamp_and_offset_so_far.timestamp
        return largest if largest >= 0 else self.path.stat().st_mtime_ns // 1_000_000

    @property
    def first_batch_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, ms; None if there is no batch or it has no timestamp."""
        first = self._first_batch_timestamp()
        return first if first >= 0 else None

    def _first_batch_timestamp(self) -> int:
        if self._first_timestamp is not None:
            return self._first_timestamp
        first = self.log.first_entry() if self.size_in_bytes else None
        if first is None:
            return -1
        self._first_timestamp = first.max_timestamp
        return first.max_timestamp

    def _largest_found(self) -> TimestampEntry:
        """Return the largest timestamp of a segment whose indexes another process writes."""
        entry = self.time_index.last_entry
        if self.sealed and entry.timestamp >= 0 and isinstance(self.path, RemotePath):
            # Verifying the entry would take requests for each segment.
            return entry
        start = self._place_of(entry)
        behind = self.log.found_at(start or 0).largest_timestamp()
        if start is None or behind[0] > entry.timestamp:
            entry = TimestampEntry(*behind) if behind[0] >= 0 else TimestampEntry(-1, self.base_offset)
        if self.sealed:
            self._largest = entry
        return entry

    def _place_of(self, entry: TimestampEntry) -> int | None:
        """Return the position of the batch that an entry of the time index refers to; None if there is none."""
        if entry.timestamp < 0:
            return None
        near = self.offset_index.lookup(entry.offset)
        batch = self.log.first_entry(near.position, entry.offset, hint=near.offset)
        return batch.position if batch is not None and batch.max_timestamp == entry.timestamp else None

    # --- reading

    def entries_from(self, offset: int) -> FileMessageSet:
        """Return the entries from the first batch on whose last offset is `offset` or more.

        Raises:
            CorruptRecordError: The framing before that batch is damaged.
        """
        entry = self.offset_index.lookup(offset)
        return self.log.starting_at(offset, entry.position, hint=entry.offset)

    def load_entry(self, offset: int) -> Entries | None:
        """Return the first batch whose last offset is `offset` or more, with its bytes; None if there is none.

        Raises:
            CorruptRecordError: As `entries_from`.
        """
        entry = self.offset_index.lookup(offset)
        return self.log.load_entry(entry.position, offset, hint=entry.offset)

    def translate_offset(self, offset: int) -> OffsetPosition | None:
        """Return the first batch whose last offset is `offset` or more; None if there is none.

        Raises:
            CorruptRecordError: The framing before that batch is damaged.
        """
        entry = self.offset_index.lookup(offset)
        return self.log.search(offset, entry.position, hint=entry.offset)

    def read(
        self, start_offset: int, max_size: int, max_position: int | None = MAX_BYTES, *, min_one_message: bool = False
    ) -> FetchDataInfo | None:
        """Return the batches from the one that contains `start_offset` on, or from the next one if none contains it.

        Args:
            start_offset: The first offset wanted.
            max_size: The maximum number of bytes; the last batch may be cut.
            max_position: The position in the file at which to stop, bytes; None: return no batches.
            min_one_message: Return the whole first batch even if it is larger than max_size.

        Returns:
            The batches, or None if no batch reaches start_offset.

        Raises:
            ValueError: max_size is negative.
            CorruptRecordError: The framing before the batches is damaged.
        """
        if max_size < 0:
            raise ValueError(f"max_size is {max_size}: 0 at least is needed")
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        metadata = LogOffsetMetadata(found.offset, self.base_offset, found.position)
        size = max(max_size, found.size) if min_one_message else max_size
        if not size or max_position is None:
            return FetchDataInfo(metadata, NO_MESSAGES)
        part = self.log.found_at(found.position, max(0, min(size, max_position - found.position)))
        return FetchDataInfo(metadata, part, first_entry_incomplete=size < found.size)

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int | None = None) -> TimestampAndOffset | None:
        """Return the first record from starting_offset (None: all) on whose timestamp (ms) is `timestamp` or more.

        Returns:
            The record, or None if there is none.

        Raises:
            CorruptRecordError, InvalidRecordError: A batch that may contain the record is damaged.
        """
        first = self.base_offset if starting_offset is None else starting_offset
        earlier = self.time_index.lookup(timestamp)
        if not self.writable and self._place_of(earlier) is None:
            earlier = TimestampEntry(-1, self.base_offset)
        entry = self.offset_index.lookup(max(earlier.offset, first))
        return self.log.search_timestamp(timestamp, entry.position, first, hint=entry.offset)

    def read_next_offset(self) -> int:
        """Return the offset after the last batch; the base offset if there is no batch.

        Raises:
            CorruptRecordError: The segment is writable, and damaged after the last entry of the offset index, or its
                last offset is the largest that there is.
        """
        found = self.translate_offset(self.offset_index.last_offset)
        # None if the file is empty, or was truncated without its index.
        rest = self.log.found_at(0 if found is None else found.position, MAX_BYTES)
        if self.writable:
            # Raises an error for damage: batches appended after it would be unreadable.
            _ = rest.end_of_data
        last = rest.last_offset() if self.writable else rest.last_offset(self.base_offset)
        if last is None:
            return self.base_offset
        if self.writable and last == INT64_MAX:
            what = f"at most {INT64_MAX - 1}"
            raise CorruptRecordError("no offset is left for the next record", str(self.path), None, what, last)
        return last + 1

    @property
    def has_overflow(self) -> bool:
        """Return whether the last offset is too far from the base offset for the indexes."""
        return self.read_next_offset() - 1 - self.base_offset > MAX_INT

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
            self._look_for_largest_again()

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
            self.resize_indexes(self.config.segment_index_bytes)
            truncated = 0 if found is None else log.truncate_to(found.position)
            if not log.size_in_bytes:
                self.created = self._clock()
                self._first_timestamp = None
            self._bytes_since_entry = 0
            self._look_for_largest_again()
            return truncated

    def _look_for_largest_again(self) -> None:
        """Update the largest timestamp after a truncation."""
        if self.max_timestamp_and_offset_so_far.timestamp >= 0:
            entry = self.time_index.last_entry
            behind = self.log.largest_timestamp(self.offset_index.lookup(entry.offset).position)
            self._largest = TimestampEntry(*behind) if behind[0] > entry.timestamp else entry

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
            self.index_path(TIME_INDEX_SUFFIX).touch()
        self.txn_index.sanity_check()

    # --- closing

    def close(self) -> None:
        """Close the files for good; writable ones are completed, trimmed and flushed.

        Data read from them stays valid. Closing twice does nothing.
        """
        with self._lock:
            if self.writable and not self.sealed and self._largest is not None and TIME_INDEX_SUFFIX in self._indexes:
                # Errors do not prevent the segment from being closed.
                try:
                    self.time_index.maybe_append(*self._largest, skip_full_check=True)
                except (KafkaLogError, OSError, ValueError):
                    _log.warning("%s: the largest timestamp is not in the time index", self.path, exc_info=True)
            super().close()

    def __repr__(self) -> str:
        return f"<LogSegment {self.base_offset} {'sealed' if self.sealed else 'active'} {self.path}>"
