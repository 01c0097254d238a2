"""Loads the segments of a partition directory for writing, after a clean shutdown or a crash.

    00000000000000000000.log  | 00000000000000000040.log  | 00000000000000000080.log        files
    trusted                   |     recovery point x      |                 x log end
                              | read, indexes and producer state rebuilt ... truncated after the last sound batch

After a clean shutdown all segments are trusted. After a crash those below the recovery point are, up to which the log
had been flushed. From the segment that holds the recovery point on, the checksum of every batch is computed, and the
first segment that has to be truncated ends the log. The content of batches is not checked.

All removed data is reported by a warning: the file, the position, the number of bytes, and the reason.

Source: storage/.../internals/log/LogLoader.java.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from kafkalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    InvalidOffsetError,
    LogStateError,
    NotALogError,
    SegmentOffsetOverflowError,
)
from kafkalog.record.framing import EndKind
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_names,
    meant_segment,
    segment_base_offset,
)
from kafkalog.storage.files.appendable_file import MAX_BYTES
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state, take_empty_snapshots
from kafkalog.storage.recovery.recover_segment import recover_segment
from kafkalog.storage.recovery.swap_files import settle_leftovers
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from kafkalog.storage.segment.replace_segments import (
    SegmentHome,
    delete_segment_files,
    split_overflowed_segment,
)

_log = logging.getLogger(__name__)
_GOING_AWAY = "-delete"
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_ALL_THAT_IS_NEEDED = {INDEX_SUFFIX, TIME_INDEX_SUFFIX}

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class LoadRequest(SegmentHome):
    """The directory to load, and the checkpoints of it.

    Attributes:
        had_clean_shutdown: Whether the last writer of the directory closed the log.
        log_start_offset_checkpoint: The log start; records before it are deleted.
        recovery_point_checkpoint: The recovery point; records before it were flushed.
        producer_state: The producer state, empty; loading brings it to the log's end.
        leader_epochs: The leader epochs of the checkpoint; loading brings them to the log's end.
        progress: Called with the bytes recovered and the bytes to recover, before the first segment and after each.
    """

    had_clean_shutdown: bool
    log_start_offset_checkpoint: int
    recovery_point_checkpoint: int
    producer_state: ProducerStateManager
    leader_epochs: LeaderEpochCache
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A loaded log: its start, recovery point and end, and its open segments."""

    log_start_offset: int
    recovery_point: int
    next_offset: LogOffsetMetadata
    segments: LogSegments


def load_log(request: LoadRequest) -> LoadedLog:
    """Load the segments of a partition directory, and recover those that need it.

    An error closes all files.

    Returns:
        The log, with at least one segment.

    Raises:
        OSError: A file cannot be read or written; no file is deleted because of that.
        CorruptRecordError: The framing is damaged although a clean shutdown or the recovery point implies that it is
            not, or it is damaged in a swap file; or a segment has an offset before its base offset.
        NotALogError: The name of a segment does not have 20 digits, or the file is larger than a segment can be.
        LogStateError: The producer state is not empty.
    """
    settle_leftovers(request.directory)
    loading = _Loading(request)
    try:
        return loading.run()
    except BaseException:
        loading.release()
        raise


class _Overflow(Exception):
    """A segment has offsets that are too far apart for its indexes."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(str(segment.path))
        self.segment = segment


class _Loading:
    """The state of one load: the segments found so far, and whether the clean shutdown is trusted."""

    def __init__(self, request: LoadRequest) -> None:
        self._request = request
        self._segments = LogSegments()
        self._trusted = request.had_clean_shutdown
        # The producer state during recovery. The state of the log is loaded at the end, from the snapshots that
        # recovery writes.
        self._recovering: ProducerStateManager | None = None

    def run(self) -> LoadedLog:
        request = self._request
        self._splitting(self._load_segments)
        if request.directory.name.endswith(_GOING_AWAY):
            self._have_a_segment(0)
            recovery_point = end_offset = 0
        else:
            recovery_point, end_offset = self._splitting(self._recover)
            self._active.resize_indexes(request.config.max_index_size)
        request.leader_epochs.truncate_from_end(end_offset)
        # Its first entry may not have been written before a crash.
        request.leader_epochs.truncate_from_start(request.log_start_offset_checkpoint)
        log_start_offset = max(request.log_start_offset_checkpoint, self._segments.base_offsets[0])
        self._load_producers(log_start_offset, end_offset)
        metadata = LogOffsetMetadata(end_offset, self._active.base_offset, self._active.size_in_bytes)
        # Records before the start never need recovery again.
        return LoadedLog(log_start_offset, max(recovery_point, log_start_offset), metadata, self._segments)

    def release(self) -> None:
        """Close all files without flushing them."""
        self._segments.release()

    @property
    def _active(self) -> LogSegment:
        return self._segments.active

    def _splitting(self, action: Callable[[], Result]) -> Result:
        """Run `action`, and run it again each time after a segment had to be split."""
        while True:
            try:
                return action()
            except _Overflow as overflow:
                self._split(overflow.segment)

    def _split(self, segment: LogSegment) -> None:
        try:
            split = split_overflowed_segment(segment, self._segments, self._request)
        finally:
            segment.release()
        self._settle_snapshots()
        request = self._request
        request.producer_state.delete_snapshots(split.deleted, request.scheduler, request.config.file_delete_delay_ms)

    # --- the segments

    def _load_segments(self) -> None:
        """Open all segments of the directory in order; recover those with missing or corrupt indexes."""
        self._segments.close()
        self._segments.clear()
        names = file_names(self._request.directory)
        present = set(names)
        for name in names:
            if name.endswith(_INDEX_SUFFIXES):
                self._delete_if_orphaned(name, present)
            elif name.endswith(LOG_SUFFIX):
                self._load_segment(name, present)

    def _delete_if_orphaned(self, name: str, present: set[str]) -> None:
        directory, number = self._request.directory, name.partition(".")[0]
        if not (number.isascii() and number.isdecimal()):
            _log.warning("%s: ignored: not the name of an index", directory / name)
        elif f"{int(number):020d}{LOG_SUFFIX}" not in present:
            _log.warning("%s: deleted: an index without a segment", directory / name)
            (directory / name).unlink(missing_ok=True)

    def _load_segment(self, name: str, present: set[str]) -> None:
        request, base_offset = self._request, segment_base_offset(name)
        if base_offset is None and (meant := meant_segment(name)) is not None:
            # A broker would ignore it and begin an empty segment.
            what = "the name of a segment has 20 digits; rename the file, or move it away"
            raise NotALogError(what, str(request.directory / name), None, meant, name)
        if base_offset is None:
            _log.warning("%s: ignored: not the name of a segment", request.directory / name)
            return
        self._check_size(name)
        segment = request.segment(base_offset, file_already_exists=True)
        try:
            self._check_indexes(segment, _indexes_of(name, present))
        except _Overflow:
            raise
        except BaseException:
            segment.release()
            raise
        self._segments.add(segment)

    def _check_size(self, name: str) -> None:
        """Check that all positions in a segment fit into an int32, as in its indexes; no broker opens a longer one."""
        path = self._request.directory / name
        if (size := path.stat().st_size) > MAX_BYTES:
            raise NotALogError("more bytes than a segment can have", str(path), None, MAX_BYTES, size)

    def _check_indexes(self, segment: LogSegment, there: set[str]) -> None:
        if there == _ALL_THAT_IS_NEEDED:
            return  # the fast path for most of thousands of segments
        try:
            segment.sanity_check(time_index_newly_created=TIME_INDEX_SUFFIX not in there)
        except FileNotFoundError as error:
            _log.warning("%s: an index is missing; rebuilding all indexes: %s", segment.path, error)
        except CorruptIndexError as error:
            _log.warning("%s: an index is corrupt; rebuilding all indexes: %s", segment.path, error)
        else:
            return
        if not self._is_recovered_later(segment):
            self._recover_segment(segment)

    def _is_recovered_later(self, segment: LogSegment) -> bool:
        """Return whether `_recover` will recover the segment: after a crash, if it is not below the recovery point.

        Segments before it may be torn, and must be recovered first.
        """
        request = self._request
        return not request.had_clean_shutdown and segment.base_offset >= request.recovery_point_checkpoint

    def _recover_segment(self, segment: LogSegment) -> int:
        """Rebuild the indexes of a segment, and truncate it after its last sound batch.

        Returns:
            The number of bytes cut off.
        """
        request = self._request
        state = self._empty_producer_state()
        rebuild_producer_state(
            state, self._segments, request.log_start_offset_checkpoint, segment.base_offset, request.clock()
        )
        try:
            cut = recover_segment(segment, state, request.leader_epochs)
        except SegmentOffsetOverflowError as error:
            if not segment.has_overflow:
                # No broker can load it either. The file was probably copied or renamed, so it must not be truncated.
                what = "an offset that is not of this segment, which cannot be split"
                raise CorruptRecordError(what, error.path, error.position, error.expected, error.found) from error
            raise _Overflow(segment) from error
        # With the snapshot, the recovery of the next segment need not read this one again.
        state.take_snapshot()
        if cut:
            _log.warning(
                "%s: truncated at position %d, after its last sound batch: %d bytes removed",
                segment.path,
                segment.size_in_bytes,
                cut,
            )
        return cut

    def _empty_producer_state(self) -> ProducerStateManager:
        """Return a producer state that knows only the snapshots, which are listed once for thousands of segments."""
        if self._recovering is None:
            self._recovering = self._request.producer_state.empty_copy()
            self._recovering.reload_snapshots()
        else:
            self._recovering = self._recovering.empty_copy()
        return self._recovering

    def _settle_snapshots(self) -> None:
        """Delete the snapshots that recovery found out of place and did not write again."""
        if self._recovering is not None:
            self._recovering.delete_unwanted_snapshots()
            self._recovering = None

    # --- the log

    def _recover(self) -> tuple[int, int]:
        """Recover the segments that were not flushed; return the new recovery point and the log end."""
        request = self._request
        if self._trusted and not self._segments.is_empty:
            self._distrust_a_broken_end()
        if not self._trusted:
            self._recover_unflushed()
        end_offset = self._end_offset()
        if end_offset is None:
            self._have_a_segment(request.log_start_offset_checkpoint)
            end_offset = self._active.read_next_offset()
        elif self._trusted:
            return end_offset, end_offset
        # The recovery point increases only with a flush: recovered records may not be on the disk.
        return min(request.recovery_point_checkpoint, end_offset), end_offset

    def _distrust_a_broken_end(self) -> None:
        what = _what_no_clean_stop_leaves(self._active)
        if what is not None:
            _log.warning("%s: recovering as after a crash: no clean shutdown leaves %s", self._active.path, what)
            self._trusted = False

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.values_from(self._unflushed_from())
        done, all_bytes = 0, sum(segment.size_in_bytes for segment in unflushed)
        self._report(done, all_bytes)
        for i, segment in enumerate(unflushed):
            done += segment.size_in_bytes
            if self._recover_or_empty(segment):
                self._delete_segments(unflushed[i + 1 :], f"the log ends in {segment.path}, which was truncated")
                self._report(all_bytes, all_bytes)
                return
            self._report(done, all_bytes)

    def _unflushed_from(self) -> int:
        """Return the offset at which recovery begins; after a doubtful clean shutdown, the last base offset."""
        if self._request.had_clean_shutdown:
            return self._active.base_offset
        return self._request.recovery_point_checkpoint

    def _recover_or_empty(self, segment: LogSegment) -> int:
        try:
            return self._recover_segment(segment)
        except InvalidOffsetError as error:
            size = segment.size_in_bytes
            cut = segment.truncate_to(segment.base_offset)
            _log.warning("%s: all its %d bytes removed: its offsets do not rise: %s", segment.path, size, error)
            return cut

    def _end_offset(self) -> int | None:
        """Return the log end; None if there is no segment, or after deleting segments that end before the log start."""
        request = self._request
        if self._segments.is_empty:
            return None
        end_offset, start = self._active.read_next_offset(), request.log_start_offset_checkpoint
        if end_offset >= start:
            return end_offset
        self._delete_segments(self._segments.values, f"the log ends at {end_offset}, before its start at {start}")
        request.leader_epochs.clear_and_flush()
        request.producer_state.truncate_fully_and_start_at(start)
        return None

    def _have_a_segment(self, base_offset: int) -> None:
        request = self._request
        if self._segments.is_empty:
            self._segments.add(request.segment(base_offset))

    def _delete_segments(self, segments: Iterable[LogSegment], why: str) -> None:
        doomed = tuple(segments)
        self._settle_snapshots()
        for segment in doomed:
            _log.warning("%s: deleted with all its %d bytes: %s", segment.path, segment.size_in_bytes, why)
            self._segments.remove(segment.base_offset)
        delete_segment_files(doomed, self._request)
        request = self._request
        request.producer_state.delete_snapshots(doomed, request.scheduler, request.config.file_delete_delay_ms)
        for segment in doomed:
            # No reader uses them yet, and the scheduler may never run the deletion.
            segment.release()

    def _load_producers(self, log_start_offset: int, end_offset: int) -> None:
        state = self._request.producer_state
        if not state.is_empty:
            raise LogStateError("the producer state is not empty before it is loaded", str(self._request.directory))
        self._settle_snapshots()
        # Recovery has written and deleted snapshots with its own state.
        state.remove_stray_snapshots(self._segments.base_offsets)
        if self._request.had_clean_shutdown and state.latest_snapshot_offset is None:
            take_empty_snapshots(state, self._segments, end_offset)
        else:
            rebuild_producer_state(state, self._segments, log_start_offset, end_offset, self._request.clock())

    def _report(self, done: int, all_bytes: int) -> None:
        if self._request.progress is not None and all_bytes:
            self._request.progress(done, all_bytes)


def _what_no_clean_stop_leaves(active: LogSegment) -> str | None:
    """Return the first sign that the active segment was not closed cleanly; None if there is none.

    A clean shutdown leaves only complete batches and trimmed indexes. Records appended after anything else would not be
    found.
    """
    index, log = active.offset_index, active.log
    position = index.last_entry.position
    if index.entries and not position:
        return "an index that is not trimmed"  # the first batch has no entry
    try:
        end = log.read(position, max(0, log.size_in_bytes - position)).end_of_data
    except (CorruptRecordError, ValueError) as error:
        return f"damage at the position of the last index entry: {error}"
    return None if end.kind is EndKind.END else f"a {end.kind.value} tail, at position {end.position}"


def _indexes_of(log_name: str, present: set[str]) -> set[str]:
    stem = log_name.removesuffix(LOG_SUFFIX)
    return {suffix for suffix in _INDEX_SUFFIXES if stem + suffix in present}
