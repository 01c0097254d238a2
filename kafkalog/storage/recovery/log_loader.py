"""Loading a partition directory to write to it, after a clean stop or a crash.

    00000000000000000000.log  | 00000000000000000040.log  | 00000000000000000080.log        files
    trusted                   |     recovery point x      |                 x log end
                              | read through, indexes and producer state built anew ... cut behind the last sound batch

After a clean stop everything is trusted. After a crash everything is below the recovery point, up to which the log had
been flushed; from the segment that holds it on, every batch's checksum is computed, and the first segment that has to
be cut ends the log. What is inside a batch is not looked at.

Nothing goes without a warning in the log of the process: which file, from which position on, how many bytes, and why.

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
    """What is to be loaded, and what checkpoints say about it.

    had_clean_shutdown: whoever wrote the directory last has closed it. log_start_offset_checkpoint: records before it
    are deleted. recovery_point_checkpoint: records before it had been flushed. producer_state, leader_epochs: of the
    directory, still empty or as the checkpoint has it; loading brings them up to the log's end. progress: called with
    the bytes recovered and the bytes to recover, before the first segment and after each.
    """

    had_clean_shutdown: bool
    log_start_offset_checkpoint: int
    recovery_point_checkpoint: int
    producer_state: ProducerStateManager
    leader_epochs: LeaderEpochCache
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A log as it was loaded: where it begins and ends, up to where it has been flushed, and its segments, open."""

    log_start_offset: int
    recovery_point: int
    next_offset: LogOffsetMetadata
    segments: LogSegments


def load_log(request: LoadRequest) -> LoadedLog:
    """Load the segments of a partition directory, and recover them where that is needed; at least one is there then.

    OSError: the disk refuses; nothing is deleted for that. CorruptRecordError: the framing is damaged in a place that
    a clean stop or the recovery point says is sound, or in a segment that was to replace others; or a segment holds an
    offset before its own. NotALogError: a segment's name has more than 20 digits. LogStateError: the producer state is
    not empty. Whatever is raised, no file is left open.
    """
    settle_leftovers(request.directory)
    loading = _Loading(request)
    try:
        return loading.run()
    except BaseException:
        loading.release()
        raise


class _Overflow(Exception):
    """A segment holds offsets too far apart for its indexes."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(str(segment.path))
        self.segment = segment


class _Loading:
    """One load: the segments found so far, and whether what the last writer left is still trusted."""

    def __init__(self, request: LoadRequest) -> None:
        self._request = request
        self._segments = LogSegments()
        self._trusted = request.had_clean_shutdown
        # What is known of the producers while segments are recovered. The log's own state is loaded at the end, from
        # the snapshots that are written on the way.
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
        # What is before the start need not be recovered ever again.
        return LoadedLog(log_start_offset, max(recovery_point, log_start_offset), metadata, self._segments)

    def release(self) -> None:
        """Close all files as they are."""
        self._segments.release()

    @property
    def _active(self) -> LogSegment:
        return self._segments.active

    def _splitting(self, action: Callable[[], Result]) -> Result:
        """Do it again whenever a segment had to be split."""
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
        """Open every segment of the directory, in order; recover those whose indexes are missing or no such."""
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
            _log.warning("%s: no segment's index; left alone", directory / name)
        elif f"{int(number):020d}{LOG_SUFFIX}" not in present:
            _log.warning("%s: deleted, an index without its segment", directory / name)
            (directory / name).unlink(missing_ok=True)

    def _load_segment(self, name: str, present: set[str]) -> None:
        request, base_offset = self._request, segment_base_offset(name)
        if base_offset is None and (meant := meant_segment(name)) is not None:
            # A broker would go on beside it, in an empty segment.
            what = "a segment's name has 20 digits; rename the file, or move it away"
            raise NotALogError(what, str(request.directory / name), None, meant, name)
        if base_offset is None:
            _log.warning("%s: no segment's name; left alone", request.directory / name)
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
        """Positions in a segment are int32: a longer one no index describes, and no broker opens."""
        path = self._request.directory / name
        if (size := path.stat().st_size) > MAX_BYTES:
            raise NotALogError("more bytes than a segment can have", str(path), None, MAX_BYTES, size)

    def _check_indexes(self, segment: LogSegment, there: set[str]) -> None:
        if there == _ALL_THAT_IS_NEEDED:
            return  # of thousands of segments, most
        try:
            segment.sanity_check(time_index_newly_created=TIME_INDEX_SUFFIX not in there)
        except FileNotFoundError as error:
            _log.warning("%s: its index is missing, all of them are built anew: %s", segment.path, error)
        except CorruptIndexError as error:
            _log.warning("%s: an index is corrupt, all of them are built anew: %s", segment.path, error)
        else:
            return
        if not self._is_recovered_later(segment):
            self._recover_segment(segment)

    def _is_recovered_later(self, segment: LogSegment) -> bool:
        """After a crash, one that had not been flushed: those before it, which may be torn, have their turn first."""
        request = self._request
        return not request.had_clean_shutdown and segment.base_offset >= request.recovery_point_checkpoint

    def _recover_segment(self, segment: LogSegment) -> int:
        """Read the segment through, build its indexes anew and cut it behind its last sound batch; bytes cut."""
        request = self._request
        state = self._empty_producer_state()
        rebuild_producer_state(
            state, self._segments, request.log_start_offset_checkpoint, segment.base_offset, request.clock()
        )
        try:
            cut = recover_segment(segment, state, request.leader_epochs)
        except SegmentOffsetOverflowError as error:
            if not segment.has_overflow:
                # No broker can load it either. It is a copy, or was renamed, and is not for us to cut.
                what = "an offset that is not of this segment, which cannot be split"
                raise CorruptRecordError(what, error.path, error.position, error.expected, error.found) from error
            raise _Overflow(segment) from error
        # So that recovering the next segment need not read this one again.
        state.take_snapshot()
        if cut:
            _log.warning(
                "%s: cut at position %d, after its last sound batch: %d bytes are gone",
                segment.path,
                segment.size_in_bytes,
                cut,
            )
        return cut

    def _empty_producer_state(self) -> ProducerStateManager:
        """One that knows the directory's snapshots; they are listed once, not for each of thousands of segments."""
        if self._recovering is None:
            self._recovering = self._request.producer_state.empty_copy()
            self._recovering.reload_snapshots()
        else:
            self._recovering = self._recovering.empty_copy()
        return self._recovering

    def _settle_snapshots(self) -> None:
        """Delete the snapshots that recovery has found out of place and not written again."""
        if self._recovering is not None:
            self._recovering.delete_unwanted_snapshots()
            self._recovering = None

    # --- the log

    def _recover(self) -> tuple[int, int]:
        """Recover what had not been flushed; the new recovery point, and where the log ends."""
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
        # It moves only when the log is flushed: what was recovered need not be on the disk.
        return min(request.recovery_point_checkpoint, end_offset), end_offset

    def _distrust_a_broken_end(self) -> None:
        what = _what_no_clean_stop_leaves(self._active)
        if what is not None:
            _log.warning("%s: no clean stop leaves %s; recovered as after a crash", self._active.path, what)
            self._trusted = False

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.values_from(self._unflushed_from())
        done, all_bytes = 0, sum(segment.size_in_bytes for segment in unflushed)
        self._report(done, all_bytes)
        for i, segment in enumerate(unflushed):
            done += segment.size_in_bytes
            if self._recover_or_empty(segment):
                self._delete_segments(unflushed[i + 1 :], f"the log ends in {segment.path}, which was cut")
                self._report(all_bytes, all_bytes)
                return
            self._report(done, all_bytes)

    def _unflushed_from(self) -> int:
        """Where recovery begins: of a log whose clean stop is in doubt, in its last segment."""
        if self._request.had_clean_shutdown:
            return self._active.base_offset
        return self._request.recovery_point_checkpoint

    def _recover_or_empty(self, segment: LogSegment) -> int:
        try:
            return self._recover_segment(segment)
        except InvalidOffsetError as error:
            size = segment.size_in_bytes
            cut = segment.truncate_to(segment.base_offset)
            _log.warning("%s: all its %d bytes are cut, its offsets do not rise: %s", segment.path, size, error)
            return cut

    def _end_offset(self) -> int | None:
        """Where the log ends; None if there is no segment, or none but before the log's start, which are deleted."""
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
            # Nobody reads them yet, and the scheduler may never come to delete them.
            segment.release()

    def _load_producers(self, log_start_offset: int, end_offset: int) -> None:
        state = self._request.producer_state
        if not state.is_empty:
            raise LogStateError("the producer state is not empty before it is loaded", str(self._request.directory))
        self._settle_snapshots()
        # Recovery has written and deleted snapshots that this state does not know of.
        state.remove_stray_snapshots(self._segments.base_offsets)
        if self._request.had_clean_shutdown and state.latest_snapshot_offset is None:
            take_empty_snapshots(state, self._segments, end_offset)
        else:
            rebuild_producer_state(state, self._segments, log_start_offset, end_offset, self._request.clock())

    def _report(self, done: int, all_bytes: int) -> None:
        if self._request.progress is not None and all_bytes:
            self._request.progress(done, all_bytes)


def _what_no_clean_stop_leaves(active: LogSegment) -> str | None:
    """Whole batches and trimmed indexes are what it leaves. Behind anything else, nothing appended would be found."""
    index, log = active.offset_index, active.log
    position = index.last_entry.position
    if index.entries and not position:
        return "an index with room in it"  # the first batch has no entry
    try:
        end = log.read(position, max(0, log.size_in_bytes - position)).end_of_data
    except (CorruptRecordError, ValueError) as error:
        return f"what the index leads to: {error}"
    return None if end.kind is EndKind.END else f"a {end.kind.value} tail, at position {end.position}"


def _indexes_of(log_name: str, present: set[str]) -> set[str]:
    stem = log_name.removesuffix(LOG_SUFFIX)
    return {suffix for suffix in _INDEX_SUFFIXES if stem + suffix in present}
