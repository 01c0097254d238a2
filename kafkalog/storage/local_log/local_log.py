"""`LocalLog`: the segments of a partition that is written to, where they end, and what of them is on the disk.

    recovery point: all before is on the disk     log end: the offset the next record gets
                          v                                   v
    segment | segment | segment | active segment ..............

It knows files and offsets; who may write what is for others to say. Source: storage/.../internals/log/LocalLog.java.
"""

import logging
from collections.abc import Iterable, Sequence
from errno import EINTR

from kafkalog.errors import KafkaLogError, LogLockedError, LogStateError
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from kafkalog.storage.files.durable import sync_directory
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.log_segment import BatchSpan, LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from kafkalog.storage.segment.replace_segments import SegmentHome, delete_segment_files

_log = logging.getLogger(__name__)


class LocalLog:
    """The segments of one partition. One thread changes it at a time; any number may read what it holds meanwhile.

    Attributes: segments; log_end (LogOffsetMetadata of the next record); recovery_point (offset); last_flush_ms
    (when that last moved); truncations (how many there were); failure (what has left it unknown what is on the disk,
    or in the log: nothing may be changed any more then).
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

    def whole(self) -> "_Whole":
        """What is done in a `with` of it is done whole; an OSError on the way, or a signal, is the log's `failure`."""
        return _Whole(self, OSError)

    def uninterrupted(self) -> "_Whole":
        """As `whole`, where what raises an Exception has left the log in order."""
        return _Whole(self, ())

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log_end.message_offset

    @property
    def active_segment(self) -> LogSegment:
        """The segment that is appended to."""
        segments = self.segments.values
        if not segments:
            raise LogStateError("the log has no segment", str(self.directory))
        return segments[-1]

    @property
    def unflushed_messages(self) -> int:
        """How many offsets lie between the recovery point and the log's end."""
        return self.log_end.message_offset - self.recovery_point

    def append(self, last_offset: int, messages: ByteBufferMessageSet, spans: Iterable[BatchSpan]) -> None:
        """Append batches to the active segment, and move the log's end behind them; `take_back` undoes what fails."""
        segment = self.active_segment
        self._end_at(last_offset + 1, segment, segment.append(last_offset, messages, spans))

    def take_back(self, error: BaseException, end: LogOffsetMetadata) -> None:
        """Leave nothing of an append that has failed, or was ended by a signal: no bytes, no index entries.

        Else readers would find it, and another append give its offsets out again. Where that cannot be done, or the
        log's end has moved and not all that follows from it was done, the log takes nothing more.

        Args:
            error: what the append has failed with.
            end: the log's end before it.
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
        """Have the log take nothing more: it ended half-way through a change."""
        interrupted = InterruptedError(EINTR, f"{type(error).__name__} in the middle of a change")
        self.failure = error if isinstance(error, OSError) else interrupted

    def update_log_end(self, offset: int) -> None:
        """The log ends at this offset, in the active segment."""
        active = self.active_segment
        self._end_at(offset, active, active.size_in_bytes)

    def _end_at(self, offset: int, active: LogSegment, position: int) -> None:
        self.log_end = LogOffsetMetadata(offset, active.base_offset, position)
        self.recovery_point = min(self.recovery_point, offset)

    # --- on the disk

    def flush(self, offset: int) -> None:
        """Have the system put on the disk what lies before `offset`. OSError: it failed."""
        recovery_point = self.recovery_point
        if recovery_point > offset:
            return
        flushed = self.segments.between(recovery_point, offset)
        try:
            for segment in flushed:
                self._flush_segment(segment)
            # A segment's name is on the disk once its directory is.
            if any(segment.base_offset >= recovery_point for segment in flushed):
                self._sync_directory()
        except OSError as error:
            self.failure = error
            raise

    def _sync_directory(self) -> None:
        try:
            sync_directory(self.directory)
        except FileNotFoundError:
            # The log may have been deleted meanwhile.
            if not self.segments.is_empty:
                raise

    def _flush_segment(self, segment: LogSegment) -> None:
        try:
            segment.flush()
        except (FileNotFoundError, LogStateError):
            # Retention may have deleted it meanwhile.
            if self.segments.get(segment.base_offset) is segment:
                raise

    def mark_flushed(self, offset: int) -> None:
        """All before `offset` is on the disk."""
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_ms = self.home.clock()

    # --- segments come and go

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """A new active segment that begins at the log's end, or at expected_next_offset if that is later.

        LogStateError: there is a segment of that offset, or a later one.
        """
        base, active = max(expected_next_offset, self.log_end_offset), self.active_segment
        if base == active.base_offset and active.size == 0:
            with self.whole():
                segment = self._replace(active, base)
        elif base <= active.base_offset:
            message = "a segment of that offset cannot be begun, there is one already"
            raise LogStateError(message, str(self.directory), None, f"more than {active.base_offset}", base)
        else:
            self._clear_away(base)
            active.on_become_inactive_segment()
            self._flush_sealed(active)
            segment = self._open_segment(base)
        self.update_log_end(self.log_end_offset)
        return segment

    def _flush_sealed(self, segment: LogSegment) -> None:
        """Have a segment on the disk as it is now, trimmed, where recovery would take that for granted.

        All of it had been flushed before. With room that was preallocated it would look as if its end were lost, and
        what follows would be dropped.
        """
        if self.recovery_point >= self.log_end_offset:
            with self.whole():
                segment.flush()

    def _clear_away(self, base: int) -> None:
        """Files of a segment that is not in the log: left over, and in the way of a new one."""
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            path = offset_file(self.directory, base, suffix)
            if path.exists():
                _log.warning("%s was left over, and is deleted for the segment that begins there now", path)
                path.unlink()

    def _open_segment(self, base: int) -> LogSegment:
        segment = self.home.segment(base)
        self.segments.add(segment)
        return segment

    def _replace(self, segment: LogSegment, base: int) -> LogSegment:
        """A new segment in the place of `segment`, which it may have the name of, and which is deleted.

        Others find one of them at any time: without a segment a log has no end, and with both no order.
        """
        if base == segment.base_offset:
            segment.change_file_suffixes("", DELETED_SUFFIX)
        new = self.home.segment(base)
        self.segments.replace(segment, new)
        delete_segment_files([segment], self.home)
        return new

    def remove_and_delete(self, segments: Sequence[LogSegment]) -> None:
        """Take segments out of the log and have their files deleted."""
        for segment in segments:
            self.segments.remove(segment.base_offset)
        try:
            delete_segment_files(segments, self.home)
        except BaseException:
            for segment in segments:
                segment.release()
            raise

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Cut off all from `offset` on; returns the segments that went. A batch that goes on beyond it goes whole."""
        self.truncations += 1
        going = [segment for segment in self.segments.values if segment.base_offset > offset]
        if going:
            self.remove_and_delete(going)
            # Else they might be there again when the power comes back, behind what is appended now.
            sync_directory(self.directory)
        self.active_segment.truncate_to(offset)
        # What is cut off stays so: recovery points may be before the end, but not what a flush leaves out.
        self.active_segment.flush()
        self.update_log_end(offset)
        return going

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Delete all segments and begin an empty one at `offset`; returns those that went."""
        self.truncations += 1
        going = list(self.segments.values)
        self.remove_and_delete(going[:-1])
        self._replace(going[-1], offset)
        sync_directory(self.directory)
        self.update_log_end(offset)
        return going

    def close(self) -> None:
        """Close the segments: indexes get their last entry, files are flushed and trimmed."""
        self.segments.close()

    def release(self) -> None:
        """Give up the files as they are."""
        self.segments.release()

    def delete_all(self) -> None:
        """Take all segments out of the log and delete their files at once. OSError: one cannot be deleted."""
        for segment in self.segments.values:
            self.segments.remove(segment.base_offset)
            segment.delete_if_exists()

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments.values)


class _Whole:
    """Marks a log as failed where what is done to it ends half-way: by one of `errors`, or by a signal."""

    __slots__ = ("_errors", "_local")

    def __init__(self, local: LocalLog, errors: type[OSError] | tuple[()]) -> None:
        self._local = local
        self._errors = errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and (isinstance(error, self._errors) or not isinstance(error, Exception)):
            self._local._fail(error)
