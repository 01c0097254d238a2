"""`LocalLog`: the segments of a writable partition, the log's end, and the recovery point.

    recovery point: all before is on the disk     log end: the offset the next record gets
                          v                                   v
    segment | segment | segment | active segment ..............

It manages files and offsets; callers decide who may write. Source: storage/.../internals/log/LocalLog.java.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EINTR, EMFILE, ENFILE

from kafkalog.errors import KafkaLogError, LogLockedError, LogStateError
from kafkalog.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from kafkalog.storage.files.appendable_file import Piece
from kafkalog.storage.files.durable import sync_directory
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.log_segment import BatchHeader, LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from kafkalog.storage.segment.replace_segments import SegmentHome, delete_segment_files

_log = logging.getLogger(__name__)


class LocalLog:
    """The segments of one partition. One thread at a time may change it; any number may read concurrently.

    Attributes:
        segments: The segments.
        log_end: The offset and position of the next record.
        recovery_point: Everything before this offset is synced to disk.
        home: The directory of the segments and the settings for new ones.
        directory: The directory of the partition.
        last_flush_ms: When the recovery point last moved.
        truncations: How often the log was truncated.
        failure: The error after which the content of the disk or the log is unknown; the log must not be changed then.
    """

    def __init__(
        self,
        segments: LogSegments,
        log_end: LogOffsetMetadata,
        recovery_point: int,
        home: SegmentHome,
    ) -> None:
        self.segments = segments
        self.log_end = log_end
        self.recovery_point = recovery_point
        self.home = home
        self.directory = home.directory
        self.last_flush_ms = home.clock()
        self.truncations = 0
        self.failure: OSError | LogLockedError | None = None

    @contextmanager
    def whole(self, *errors: type[Exception]) -> Iterator[None]:
        """Take the log offline if the `with` block, which must be complete, ends in one of `errors` or a signal."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, errors) or not isinstance(error, Exception):
                self._fail(error)
            raise

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.log_end.message_offset

    @property
    def active_segment(self) -> LogSegment:
        """The segment that is appended to; an open log always has one."""
        return self.segments.active

    def append(self, segment: LogSegment, data: Piece, headers: Sequence[BatchHeader]) -> None:
        """Append batches to `segment`, the active one, and advance the log's end; `take_back` rolls back a failure."""
        position = segment.append(data, headers)
        self.log_end = LogOffsetMetadata(headers[-1].last_offset + 1, segment.base_offset, position)

    def take_back(self, error: BaseException, end: LogOffsetMetadata) -> None:
        """Remove all bytes and index entries of an append that failed or was interrupted by a signal.

        Otherwise readers would see them, and the next append would assign their offsets again. If they cannot be
        removed, or the log's end has already moved, the log is marked as failed.

        Args:
            error: The error of the append.
            end: The log's end before it.
        """
        self._fail(error)
        if self.log_end is not end:
            return
        try:
            segment, position = self.active_segment, end.relative_position_in_segment
            if segment.size_in_bytes != position:
                segment.cut_back(position, end.message_offset)
            self.failure = None
        except (OSError, ValueError, KafkaLogError) as second:
            error.add_note(f"{self.directory}: what was written could not be cut off: {second}")

    def _fail(self, error: BaseException) -> None:
        """Mark the log as failed because a change is incomplete."""
        interrupted = InterruptedError(EINTR, f"{type(error).__name__} in the middle of a change")
        self.failure = error if isinstance(error, OSError) else interrupted

    def update_log_end(self, offset: int) -> None:
        """Set the log's end to this offset, at the end of the active segment."""
        active = self.active_segment
        self.log_end = LogOffsetMetadata(offset, active.base_offset, active.size_in_bytes)
        self.recovery_point = min(self.recovery_point, offset)

    # --- flushing

    def flush(self, offset: int) -> None:
        """Sync everything before `offset` to disk.

        Raises:
            OSError: The sync failed.
        """
        recovery_point = self.recovery_point
        if recovery_point > offset:
            return
        flushed = self.segments.between(recovery_point, offset)
        try:
            for segment in flushed:
                self._flush_segment(segment)
            # The directory entry of a new segment must be synced too.
            if any(segment.base_offset >= recovery_point for segment in flushed):
                self._sync_directory()
        except OSError as error:
            self._note_failed_sync(error)
            raise

    def _note_failed_sync(self, error: OSError) -> None:
        """Mark the log as failed, unless no descriptor was left to sync with: then the system has lost nothing."""
        if error.errno not in (EMFILE, ENFILE):
            self.failure = error

    def _sync_directory(self) -> None:
        try:
            sync_directory(self.directory)
        except FileNotFoundError:
            # The log may have been deleted concurrently.
            if not self.segments.is_empty:
                raise

    def _flush_segment(self, segment: LogSegment) -> None:
        try:
            segment.flush()
        except (FileNotFoundError, LogStateError):
            # Retention may have deleted it concurrently.
            if self.segments.get(segment.base_offset) is segment:
                raise

    def mark_flushed(self, offset: int) -> None:
        """Record that everything before `offset` is synced to disk."""
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_ms = self.home.clock()

    # --- creating and deleting segments

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Create a new active segment at the log's end, or at expected_next_offset if that is larger.

        Raises:
            LogStateError: A segment with that or a larger base offset exists.
        """
        base, active = max(expected_next_offset, self.log_end_offset), self.active_segment
        if base == active.base_offset and active.size == 0:
            with self.whole(OSError):
                segment = self._replace(active, base)
        elif base <= active.base_offset:
            message = "a segment of that offset cannot be begun, there is one already"
            raise LogStateError(message, str(self.directory), None, f"more than {active.base_offset}", base)
        else:
            self._clear_away(base)
            active.on_become_inactive_segment()
            self._flush_sealed(active)
            segment = self.home.segment(base)
            self.segments.add(segment)
        self.update_log_end(self.log_end_offset)
        return segment

    def _flush_sealed(self, segment: LogSegment) -> None:
        """Sync a sealed segment in its trimmed form if everything in it had been flushed already.

        Recovery assumes that flushed segments are complete. A preallocated tail would look like a lost end, and all
        following segments would be dropped.
        """
        if self.recovery_point >= self.log_end_offset:
            try:
                segment.flush()
            except OSError as error:
                self._note_failed_sync(error)
                raise

    def _clear_away(self, base: int) -> None:
        """Remove leftover files that would conflict with a new segment of this base offset."""
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            path = offset_file(self.directory, base, suffix)
            if path.exists():
                _log.warning("%s was left over, and is deleted for the segment that begins there now", path)
                path.unlink()

    def _replace(self, segment: LogSegment, base: int) -> LogSegment:
        """Replace `segment` by a new one, possibly of the same name, and delete it.

        Concurrent readers always see exactly one of them: without a segment the log has no end, and with both the order
        of offsets is violated.
        """
        if base == segment.base_offset:
            segment.change_file_suffixes("", DELETED_SUFFIX)
        new = self.home.segment(base)
        self.segments.replace(segment, new)
        delete_segment_files([segment], self.home)
        return new

    def remove_and_delete(self, segments: Sequence[LogSegment]) -> None:
        """Remove segments from the log and schedule the deletion of their files.

        If a file cannot be renamed, the log fails: segments that it does not have any more would be back when it is
        opened again, before or behind a gap left by others.
        """
        for segment in segments:
            self.segments.remove(segment.base_offset)
        try:
            with self.whole(OSError):
                delete_segment_files(segments, self.home)
        except BaseException:
            for segment in segments:
                segment.release()
            raise

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Remove everything from `offset` on, with the whole batch that contains it; return the removed segments."""
        self.truncations += 1
        # The newest first, so that an error or a crash on the way leaves no gap.
        going = [segment for segment in reversed(self.segments.values) if segment.base_offset > offset]
        if going:
            self.remove_and_delete(going)
            # Otherwise a power failure could restore them after newly appended data.
            sync_directory(self.directory)
        self.active_segment.truncate_to(offset)
        # Make the truncation durable: later flushes only cover data after the recovery point.
        self.active_segment.flush()
        self.update_log_end(offset)
        return going

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Delete all segments, create an empty one at `offset`, and return the deleted ones."""
        self.truncations += 1
        going = list(self.segments.values)
        self.remove_and_delete(going[:-1])
        self._replace(going[-1], offset)
        sync_directory(self.directory)
        self.update_log_end(offset)
        return going

    def delete_all(self) -> None:
        """Remove all segments from the log and delete their files immediately.

        Raises:
            OSError: A file cannot be deleted.
        """
        for segment in self.segments.values:
            self.segments.remove(segment.base_offset)
            segment.delete_if_exists()
