"""Loads a partition directory for writing: creates it if it is missing, and recovers it after a crash.

    00000000000000000000.log  | 00000000000000000040.log  | 00000000000000000080.log        files
    trusted                   |     recovery point x      |                 x log end
                              | read, indexes and producer state rebuilt ... truncated after the last sound batch

After a clean shutdown all segments are trusted. After a crash those below the recovery point are, up to which the log
had been flushed. From the segment that holds the recovery point on, the checksum of every batch is computed, and the
first segment that has to be truncated ends the log. The content of batches is not checked.

All removed data is reported by a warning: the file, the position, the number of bytes, and the reason.

Source: storage/.../internals/log/LogLoader.java, `UnifiedLog.create` in UnifiedLog.java.
"""

import logging
import os
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkalog._speedups.decompress import DEFAULT_LIMIT
from kafkalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    InvalidOffsetError,
    InvalidTxnStateError,
    NotALogError,
    SegmentOffsetOverflowError,
)
from kafkalog.record.framing import EndKind
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata, write_partition_metadata
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_names,
    meant_segment,
    parse_partition_dir,
    real_path,
    segment_base_offset,
)
from kafkalog.storage.files.appendable_file import MAX_BYTES
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state, take_empty_snapshots
from kafkalog.storage.recovery.recover_segment import recover_segment
from kafkalog.storage.recovery.swap_files import settle_leftovers
from kafkalog.storage.scheduler import BackgroundScheduler, Scheduler
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from kafkalog.storage.segment.replace_segments import SegmentHome, delete_segment_files, split_overflowed_segment

if TYPE_CHECKING:
    from kafkalog.storage.log import Log

_log = logging.getLogger(__name__)
_GOING_AWAY = "-delete"
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_ALL_THAT_IS_NEEDED = {INDEX_SUFFIX, TIME_INDEX_SUFFIX}

Result = TypeVar("Result")


Progress = Callable[[int, int], None]


_ADVICE_ON_SNAPSHOTS = (
    "; the log's snapshots of producers (*.snapshot) are lost, or do not fit it: put them back from a copy of the log,"
    " or copy its records to a new one (kafkalog dump -o jsonl | kafkalog append -f jsonl)"
)


class Ending(Enum):
    """Why a log was closed: regularly, abandoned after a failure, or deleted."""

    CLOSED = "closed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Opening:
    """How to open a partition directory.

    Attributes:
        had_clean_shutdown: Whether the last writer closed the log; else segments from the recovery point on are
            recovered.
        log_start_offset: The log start in the checkpoint of the data directory.
        recovery_point: The recovery point in the checkpoint of the data directory.
        topic_id: The expected topic id, which is written if partition.metadata is missing; None accepts any.
        clock: Returns the time, ms.
        scheduler: Runs background tasks; None gives the log its own.
        progress: Called during recovery with the number of bytes done and the total.
        decompression_limit: The number of bytes that one batch may decompress to.
        may_cut: Whether recovery may cut off what is not valid at the end of a segment; else that is an error.
        at_truncation: Called after log start or recovery point have decreased, before records are cut off. It must
            write them to the checkpoints.
        ensure_alone: Raises LogLockedError if the lock no longer excludes other writers.
        at_end: Called once, when the log has been closed, abandoned or deleted. A log that is garbage-collected without
            being closed is abandoned, perhaps in the middle of anything: then it must not wait for another thread.
    """

    had_clean_shutdown: bool = False
    log_start_offset: int = 0
    recovery_point: int = 0
    topic_id: str | None = None
    clock: Clock = wall_clock_ms
    scheduler: Scheduler | None = None
    progress: Progress | None = None
    decompression_limit: int = DEFAULT_LIMIT
    may_cut: bool = True
    at_truncation: Callable[["Log"], None] = field(default=lambda _: None)
    ensure_alone: Callable[[], None] = field(default=lambda: None)
    at_end: Callable[["Log", Ending], None] = field(default=lambda *_: None)


class Loaded(NamedTuple):
    """A log loaded from its directory; topic_id is None if partition.metadata has none."""

    state: LogState
    log_start_offset: int
    topic_id: str | None


def load(directory: str | os.PathLike[str], config: LogConfig | None, opening: Opening, on_error: ExitStack) -> Loaded:
    """Load the log in a directory.

    Args:
        directory: The partition directory.
        config: The settings; None = the defaults.
        opening: How to open it.
        on_error: Receives the callbacks that release the log if the caller fails later.

    Raises:
        Exception: The errors of `WritableLog.load`.
    """
    path = Path(directory).absolute()
    config, name = config_or_default(config), real_path(path).name
    partition = parse_partition_dir(name)
    if partition is None:
        raise ValueError(f"{name!r} is not the name of a partition: <topic>-<number>")
    make_directory(path)
    scheduler = opening.scheduler or BackgroundScheduler(f"kafkalog {path.name}")
    if opening.scheduler is None:
        on_error.callback(scheduler.shutdown)
    home = SegmentHome(
        directory=path,
        config=config,
        scheduler=scheduler,
        clock=opening.clock,
        decompression_limit=opening.decompression_limit,
    )
    producers = ProducerStateManager(path, partition, producer_id_expiration_ms=config.producer_id_expiration_ms)
    epochs = LeaderEpochCache(path / LEADER_EPOCH_CHECKPOINT, scheduler=scheduler)
    try:
        local, log_start_offset = load_log(home, opening, producers, epochs)
    except InvalidTxnStateError as error:
        error.message += _ADVICE_ON_SNAPSHOTS
        raise error.at(str(path)) from None
    on_error.callback(local.segments.release)
    topic_id = _topic_id(path / PARTITION_METADATA, opening.topic_id)
    return Loaded(LogState(local, producers, epochs, opening.ensure_alone), log_start_offset, topic_id)


def _topic_id(path: Path, wanted: str | None) -> str | None:
    """Return the topic id of partition.metadata, after writing or checking the wanted one."""
    found = read_partition_metadata(path)
    if wanted is not None:
        write_partition_metadata(path, wanted)
    return wanted if found is None else found.topic_id


def load_log(
    home: SegmentHome, opening: Opening, producers: ProducerStateManager, epochs: LeaderEpochCache
) -> tuple[LocalLog, int]:
    """Load the segments of a partition directory, and recover those that need it.

    An error closes all files.

    Args:
        home: The context of the segments.
        opening: How to open the directory.
        producers: The producer state, empty; loading brings it to the log's end.
        epochs: The leader epochs of the checkpoint; loading brings them to the log's end.

    Returns:
        The log, with at least one segment, and its start.

    Raises:
        OSError: A file cannot be read or written; no file is deleted because of that.
        CorruptRecordError: The framing is damaged although a clean shutdown or the recovery point implies that it is
            not, or it is damaged in a swap file; or a segment has an offset before its base offset.
        NotALogError: The name of a segment does not have 20 digits, or the file is larger than a segment can be.
    """
    settle_leftovers(home.directory)
    loading = _Loading(home, opening, producers, epochs)
    try:
        return loading.run()
    except BaseException:
        loading.segments.release()
        raise


class _Overflow(Exception):
    """A segment has offsets that are too far apart for its indexes."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(str(segment.path))
        self.segment = segment


class _Loading:
    """The state of one load: the segments found so far, and whether the clean shutdown is trusted."""

    def __init__(
        self, home: SegmentHome, opening: Opening, producers: ProducerStateManager, epochs: LeaderEpochCache
    ) -> None:
        self._home = home
        self._opening = opening
        self._producers = producers
        self._epochs = epochs
        self.segments = LogSegments()
        # Segments that are not among `segments` yet.
        self._loaded: list[LogSegment] = []
        self._trusted = opening.had_clean_shutdown
        # The producer state during recovery. The state of the log is loaded at the end, from the snapshots that
        # recovery writes.
        self._recovering: ProducerStateManager | None = None

    def run(self) -> tuple[LocalLog, int]:
        self._splitting(self._load_segments)
        if self._home.directory.name.endswith(_GOING_AWAY):
            self._have_a_segment(0)
            recovery_point = end_offset = 0
        else:
            recovery_point, end_offset = self._splitting(self._recover)
            self._active.resize_indexes(self._home.config.segment_index_bytes)
        self._epochs.truncate_from_end(end_offset)
        # Its first entry may not have been written before a crash.
        self._epochs.truncate_from_start(self._opening.log_start_offset)
        log_start_offset = max(self._opening.log_start_offset, self.segments.base_offsets[0])
        self._load_producers(log_start_offset, end_offset)
        log_end = LogOffsetMetadata(end_offset, self._active.base_offset, self._active.size_in_bytes)
        # Records before the start never need recovery again.
        return LocalLog(self.segments, log_end, max(recovery_point, log_start_offset), self._home), log_start_offset

    @property
    def _active(self) -> LogSegment:
        return self.segments.active

    def _splitting(self, action: Callable[[], Result]) -> Result:
        """Run `action`, and run it again each time after a segment had to be split."""
        while True:
            try:
                return action()
            except _Overflow as overflow:
                self._split(overflow.segment)

    def _split(self, segment: LogSegment) -> None:
        try:
            gone = split_overflowed_segment(segment, self.segments, self._home)
        finally:
            segment.release()
        self._delete_snapshots(gone)

    # --- the segments

    def _load_segments(self) -> None:
        """Open all segments of the directory in order; recover those with missing or corrupt indexes."""
        self.segments.close()
        self.segments = LogSegments()
        names = file_names(self._home.directory)
        present = set(names)
        try:
            for name in names:
                if name.endswith(_INDEX_SUFFIXES):
                    self._delete_if_orphaned(name, present)
                elif name.endswith(LOG_SUFFIX):
                    # One after the other: what recovery reads, and which snapshots it leaves, depends on the segments
                    # loaded before.
                    self._load_segment(name, present)
        finally:
            self._add_loaded()

    def _add_loaded(self) -> None:
        self.segments.add_all(self._loaded)
        self._loaded.clear()

    def _delete_if_orphaned(self, name: str, present: set[str]) -> None:
        directory, number = self._home.directory, name.partition(".")[0]
        if not (number.isascii() and number.isdecimal()):
            _log.warning("%s: ignored: not the name of an index", directory / name)
        elif f"{int(number):020d}{LOG_SUFFIX}" not in present:
            _log.warning("%s: deleted: an index without a segment", directory / name)
            (directory / name).unlink(missing_ok=True)

    def _load_segment(self, name: str, present: set[str]) -> None:
        home, base_offset = self._home, segment_base_offset(name)
        if base_offset is None and (meant := meant_segment(name)) is not None:
            # A broker would ignore it and begin an empty segment.
            what = "the name of a segment has 20 digits; rename the file, or move it away"
            raise NotALogError(what, str(home.directory / name), None, meant, name)
        if base_offset is None:
            _log.warning("%s: ignored: not the name of a segment", home.directory / name)
            return
        path = home.directory / name
        if (size := path.stat().st_size) > MAX_BYTES:
            # Positions in a segment are int32, as in its indexes; no broker opens a longer one.
            raise NotALogError("more bytes than a segment can have", str(path), None, MAX_BYTES, size)
        segment = home.segment(base_offset, file_already_exists=True)
        try:
            stem = name.removesuffix(LOG_SUFFIX)
            self._check_indexes(segment, {suffix for suffix in _INDEX_SUFFIXES if stem + suffix in present})
        except _Overflow:
            raise
        except BaseException:
            segment.release()
            raise
        self._loaded.append(segment)

    def _check_indexes(self, segment: LogSegment, there: set[str]) -> None:
        if there == _ALL_THAT_IS_NEEDED:
            return  # the fast path for most of thousands of segments
        try:
            segment.sanity_check(time_index_newly_created=TIME_INDEX_SUFFIX not in there)
        except FileNotFoundError as error:
            _log.warning("%s: the index is missing; rebuilding all indexes of its segment", error.filename)
        except CorruptIndexError as error:
            _log.warning("%s; rebuilding all indexes of its segment", error)
        else:
            return
        if not self._is_recovered_later(segment):
            self._add_loaded()
            self._recover_segment(segment)

    def _is_recovered_later(self, segment: LogSegment) -> bool:
        """Return whether `_recover` will recover the segment: after a crash, if it is not below the recovery point.

        Segments before it may be torn, and must be recovered first.
        """
        return not self._opening.had_clean_shutdown and segment.base_offset >= self._opening.recovery_point

    def _recover_segment(self, segment: LogSegment) -> int:
        """Rebuild the indexes of a segment, and truncate it after its last sound batch.

        Returns:
            The number of bytes cut off.
        """
        state, start = self._empty_producer_state(), self._opening.log_start_offset
        rebuild_producer_state(state, self.segments, start, segment.base_offset, self._home.clock())
        try:
            cut = recover_segment(segment, state, self._epochs, may_cut=self._opening.may_cut)
        except SegmentOffsetOverflowError as error:
            if not segment.has_overflow:
                # No broker can load it either. The file was probably copied or renamed, so it must not be truncated.
                what = "an offset that is not of this segment, which cannot be split"
                raise CorruptRecordError(what, error.path, error.position, error.expected, error.found) from error
            raise _Overflow(segment) from error
        # With the snapshot, the recovery of the next segment need not read this one again. If it is lost in a crash of
        # the system, it is written again.
        state.take_snapshot(sync=False)
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
            self._recovering = self._producers.empty_copy()
            self._recovering.reload_snapshots()
        else:
            self._recovering.forget_producers()
        return self._recovering

    def _settle_snapshots(self) -> None:
        """Delete the snapshots that recovery found out of place and did not write again."""
        if self._recovering is not None:
            self._recovering.delete_unwanted_snapshots()
            self._recovering = None

    # --- the log

    def _recover(self) -> tuple[int, int]:
        """Recover the segments that were not flushed; return the new recovery point and the log end."""
        if self._trusted and not self.segments.is_empty and (what := _what_no_clean_stop_leaves(self._active)):
            _log.warning("%s: recovering as after a crash: no clean shutdown leaves %s", self._active.path, what)
            self._trusted = False
        if not self._trusted:
            self._recover_unflushed()
        end_offset = self._end_offset()
        if end_offset is None:
            self._have_a_segment(self._opening.log_start_offset)
            end_offset = self._active.read_next_offset()
        elif self._trusted:
            return end_offset, end_offset
        # The recovery point increases only with a flush: recovered records may not be on the disk.
        return min(self._opening.recovery_point, end_offset), end_offset

    def _recover_unflushed(self) -> None:
        # After a doubtful clean shutdown, only the last segment is read again.
        clean = self._opening.had_clean_shutdown
        unflushed = self.segments.from_floor(self._active.base_offset if clean else self._opening.recovery_point)
        done, all_bytes = 0, sum(segment.size_in_bytes for segment in unflushed)
        self._report(done, all_bytes)
        for i, segment in enumerate(unflushed):
            done += segment.size_in_bytes
            if self._recover_or_empty(segment):
                self._delete_segments(unflushed[i + 1 :], f"the log ends in {segment.path}, which was truncated")
                self._report(all_bytes, all_bytes)
                return
            self._report(done, all_bytes)

    def _recover_or_empty(self, segment: LogSegment) -> int:
        try:
            return self._recover_segment(segment)
        except InvalidOffsetError as error:
            if not self._opening.may_cut:
                raise
            size = segment.size_in_bytes
            cut = segment.truncate_to(segment.base_offset)
            _log.warning("%s: all its %d bytes removed: its offsets do not rise: %s", segment.path, size, error)
            return cut

    def _end_offset(self) -> int | None:
        """Return the log end; None if there is no segment, or after deleting segments that end before the log start.

        Raises:
            CorruptRecordError: The last batch ends before its segment begins. Kafka deletes the log.
        """
        if self.segments.is_empty:
            return None
        end_offset, start = self._active.read_next_offset(), self._opening.log_start_offset
        if end_offset < self._active.base_offset:
            what, expected = "the last batch ends before its segment begins", f"{self._active.base_offset} or more"
            raise CorruptRecordError(what, str(self._active.path), None, expected, end_offset - 1)
        if end_offset >= start:
            return end_offset
        self._delete_segments(self.segments.values, f"the log ends at {end_offset}, before its start at {start}")
        self._epochs.clear_and_flush()
        self._producers.truncate_fully_and_start_at(start)
        return None

    def _have_a_segment(self, base_offset: int) -> None:
        if self.segments.is_empty:
            self.segments.add(self._home.segment(base_offset))

    def _delete_segments(self, segments: Collection[LogSegment], why: str) -> None:
        for segment in segments:
            _log.warning("%s: deleted with all its %d bytes: %s", segment.path, segment.size_in_bytes, why)
            self.segments.remove(segment.base_offset)
        delete_segment_files(segments, self._home)
        self._delete_snapshots(segments)
        for segment in segments:
            # No reader uses them yet, and the scheduler may never run the deletion.
            segment.release()

    def _delete_snapshots(self, segments: Collection[LogSegment]) -> None:
        self._settle_snapshots()
        self._producers.delete_snapshots(segments, self._home.scheduler, self._home.config.file_delete_delay_ms)

    def _load_producers(self, log_start_offset: int, end_offset: int) -> None:
        state = self._producers
        self._settle_snapshots()
        # Recovery has written and deleted snapshots with its own state.
        state.remove_stray_snapshots(self.segments.base_offsets)
        if self._opening.had_clean_shutdown and state.latest_snapshot_offset is None:
            take_empty_snapshots(state, self.segments, end_offset)
        else:
            rebuild_producer_state(state, self.segments, log_start_offset, end_offset, self._home.clock())

    def _report(self, done: int, all_bytes: int) -> None:
        if self._opening.progress is not None and all_bytes:
            self._opening.progress(done, all_bytes)


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
