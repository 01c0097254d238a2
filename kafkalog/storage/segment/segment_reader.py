"""`ReadableSegment`: lookups and reads of a segment's batches, by offset or by time.

    offset 57 -> .index: 50 at 8192 -> scan headers from there -> the batch of 55 .. 59 at 9130
    time      -> .timeindex: latest up to offset 50 -> .index -> headers -> the first record that is as late

An entry of the offset index is a hint, used if it leads to a batch at or before the offset; otherwise the file is
scanned from its start. A writer trusts the time index, since recovery has rebuilt it or it was closed cleanly. A
reader checks the batch that an entry refers to.

Kafka: `LogSegment`.
"""

from kafkalog.storage.fetch_data_info import NO_MESSAGES, FetchDataInfo
from kafkalog.storage.files.appendable_file import MAX_BYTES
from kafkalog.storage.index.abstract_index import MAX_INT
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.index.time_index import TimestampEntry
from kafkalog.storage.index.transaction_index import TxnIndexSearchResult
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.remote_path import RemotePath
from kafkalog.storage.segment.file_message_set import FileMessageSet, OffsetPosition, TimestampAndOffset
from kafkalog.storage.segment.segment_files import SegmentFiles


class ReadableSegment(SegmentFiles):
    """The read operations of a segment. Thread-safe, also while another thread writes to it."""

    # Computed on first use; None until then.
    _largest: TimestampEntry | None = None
    _first_timestamp: int | None = None

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
        return largest if largest >= 0 else self.last_modified

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
        found = self.translate_offset(entry.offset) if entry.timestamp >= 0 else None
        if found is None:
            return None
        batch = self.log.found_at(found.position).first_entry()
        return found.position if batch is not None and batch.max_timestamp == entry.timestamp else None

    # --- reading

    def entries_from(self, offset: int, *, loaded: bool = False) -> FileMessageSet:
        """Return the entries from the first batch on whose last offset is `offset` or more.

        Args:
            offset: The first offset wanted.
            loaded: As for `FileMessageSet.starting_at`.

        Raises:
            CorruptRecordError: The framing before that batch is damaged.
        """
        entry = self.offset_index.lookup(offset)
        return self.log.starting_at(offset, entry.position, hint=entry.offset, loaded=loaded)

    def translate_offset(self, offset: int, start: int = 0) -> OffsetPosition | None:
        """Return the first batch whose last offset is `offset` or more; None if there is none.

        Args:
            offset: The offset to find.
            start: A known position of a batch at or before it, bytes.

        Raises:
            CorruptRecordError: The framing before that batch is damaged.
        """
        entry = self.offset_index.lookup(offset)
        if start > entry.position:
            return self.log.found_at(start).search(offset)
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

    def fetch_upper_bound_offset(self, start: OffsetEntry, fetch_size: int) -> int | None:
        """Return an offset past all batches in `fetch_size` bytes from `start` on; None if the index has none."""
        entry = self.offset_index.fetch_upper_bound_offset(start, fetch_size)
        return None if entry is None else entry.offset

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
            CorruptRecordError: The segment is writable and damaged after the last entry of the offset index.
        """
        found = self.translate_offset(self.offset_index.last_offset)
        # None if the file is empty, or was truncated without its index.
        rest = self.log.found_at(0 if found is None else found.position, MAX_BYTES)
        if self.writable:
            # Raises an error for damage: batches appended after it would be unreadable.
            _ = rest.end_of_data
        last = rest.last_offset()
        return self.base_offset if last is None else last + 1

    @property
    def has_overflow(self) -> bool:
        """Return whether the last offset is too far from the base offset for the indexes."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self._fits(next_offset - 1)

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """Return the aborted transactions that have records in [fetch_offset, upper_bound_offset)."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    def _fits(self, offset: int) -> bool:
        """Return whether an index can store the offset."""
        return 0 <= offset - self.base_offset <= MAX_INT
