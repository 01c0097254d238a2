"""`WritableLog`: a partition opened for appending, as its leader, as a follower, or by a program that embeds it.

    log start          last stable offset         high watermark          log end
        |  completed, replicated  |  open, replicated    |  not replicated  |

    log start <= last stable offset <= high watermark <= log end, always; recovery point <= log end

The log delegates to `LogState`, `Watermarks` and the appenders; rolling, retention and truncation are functions of the
first two (local_log/). One lock serializes all changes; readers take it only for the first lookup of an offset's
position. Source: storage/.../internals/log/UnifiedLog.java.
"""

import os
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX, whole
from kafkalog._speedups.record import Record
from kafkalog.attributes import CodecName, CompressionType
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.append.append_batches import BatchAppender
from kafkalog.storage.append.append_records import RecordAppender
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.data_dir.session import Checkpoints
from kafkalog.storage.fetch_data_info import LogAppendInfo
from kafkalog.storage.file_names import parse_partition_dir, position_file, real_path
from kafkalog.storage.local_log.log_state import owned
from kafkalog.storage.local_log.retention import delete_old_segments
from kafkalog.storage.local_log.roll import roll
from kafkalog.storage.local_log.truncate import truncate_fully_and_start_at, truncate_to
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.recovery.log_loader import Ending, Loaded, Opening, Progress, load
from kafkalog.storage.scheduler import BackgroundScheduler
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

__all__ = ["Ending", "Opening", "Progress", "WritableLog"]


class WritableLog(Log):
    """The log of one partition, for reading and appending. Thread-safe; for one process at a time.

    When `append` returns, the records are in the page cache and visible to every reader: they survive a crash of this
    process, but not of the machine. With `flush_messages=1` in the config, or after `flush()`, they are synced to disk.

    The log must be closed: `close` flushes it and leaves the directory as after a clean shutdown of a broker. A log
    that is garbage collected without `close` is abandoned as by `abandon`, with a ResourceWarning. In a forked child,
    operations other than reads from the open files raise LogStateError.
    """

    def __init__(self, loaded: Loaded, opening: Opening) -> None:
        """Create the log; use `WritableLog.load` or `kafkalog.open(path, "a")`."""
        state = self._state = loaded.state
        self._attach(state.directory, state.config)
        self._topic_id = loaded.topic_id
        self._watermarks = Watermarks(state, loaded.log_start_offset)
        self._batch_appender = BatchAppender(state, self._watermarks)
        self._record_appender = RecordAppender(state, self._watermarks, self._batch_appender)
        self._at_truncation = opening.at_truncation
        self._own_scheduler = None
        if opening.scheduler is None and isinstance(state.scheduler, BackgroundScheduler):
            self._own_scheduler = state.scheduler
        self._at_end = opening.at_end
        owned.add(state)

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], config: LogConfig | None = None, opening: Opening | None = None
    ) -> Self:
        """Open the log in `directory`; create it if it is missing, recover it if it was not closed.

        This does not lock the directory; `LogManager` and `kafkalog.open` do. After an error no file is left open.

        Raises:
            ValueError: The directory is not named like a partition.
            InconsistentTopicIdError: The directory belongs to another topic.
            OSError: The log cannot be read or written.
        """
        opening = opening or Opening()
        with ExitStack() as on_error:
            log = cls(load(directory, config, opening, on_error), opening)
            on_error.pop_all()
            return log

    @classmethod
    def load_checkpointed(
        cls, directory: str | os.PathLike[str], config: LogConfig | None, opening: Opening, known: Checkpoints
    ) -> Self:
        """Open the log as `load`, with the offsets that the checkpoints of its data directory have for it."""
        partition = parse_partition_dir(real_path(Path(directory)).name)
        assert partition is not None
        start, point = known.log_starts.get(partition, 0), known.recovery_points.get(partition, 0)
        log = cls.load(directory, config, replace(opening, log_start_offset=start, recovery_point=point))
        log.update_high_watermark(known.high_watermarks.get(partition, log.log_end_offset))
        return log

    # --- offsets

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment."""
        bases = self._state.local.segments.base_offsets
        # A deleted log has no segment.
        return bases[0] if bases else self.log_start_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset available to consumers."""
        return self._watermarks.log_start_offset

    @property
    def closed(self) -> bool:
        """Whether the log has been closed, abandoned or deleted."""
        return self._state.closed

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is synced to disk."""
        return min(self._state.local.recovery_point, self.log_end_offset)

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The leader epochs and their start offsets."""
        return self._state.epochs

    def _position_file(self, name: str) -> Path:
        return position_file(self.directory, name)

    @property
    def producer_state(self) -> ProducerStateManager:
        """The state of the idempotent producers."""
        return self._state.producers

    @property
    def topic_id(self) -> str | None:
        """The topic id in `partition.metadata`, 22 characters; None if there is none."""
        return self._topic_id

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open or not fully replicated; None if there is none."""
        return self._watermarks.first_unstable_offset

    @property
    def high_watermark(self) -> int:
        """The offset before which all replicas have the log."""
        return self._watermarks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset before which every transaction is completed; at most the high watermark."""
        return self._watermarks.last_stable_offset

    def _segments_now(self) -> LogSegments:
        segments = self._state.local.segments
        if not segments.values:
            # Only a deleted log has none.
            self._state.check_open()
        return segments

    def _log_end(self) -> LogOffsetMetadata:
        return self._state.local.log_end

    def _end_to_reach(self) -> LogOffsetMetadata | None:
        # A failed truncation may have removed what is before the end.
        return None if self._state.local.failure else self._log_end()

    def _high_watermark(self) -> LogOffsetMetadata:
        return self._watermarks.high_watermark_metadata()

    def _last_stable(self) -> LogOffsetMetadata:
        return self._watermarks.last_stable_metadata()

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, limited to [log start, log end], and return it. It may decrease."""
        return self._watermarks.update(high_watermark)

    def maybe_increment_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Advance the high watermark, or move it to a newer segment at the same offset.

        Returns:
            The previous high watermark, or None if it is unchanged.

        Raises:
            ValueError: The new high watermark is after the log's end.
        """
        return self._watermarks.maybe_increment(high_watermark)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Advance the log start offset, without deleting data, and return whether it changed.

        Raises:
            OffsetOutOfRangeError: The offset is after the high watermark.
        """
        return self._watermarks.maybe_increment_log_start_offset(whole("offset", offset, -INT64_MAX - 1, INT64_MAX))

    def delete_records(self, before_offset: int) -> bool:
        """Delete the records before an offset (-1: the high watermark) and return whether the log start offset moved.

        Retention deletes the data later, in segments that contain nothing else.

        Raises:
            OffsetOutOfRangeError: The offset is after the high watermark.
        """
        before_offset = whole("before_offset", before_offset, -1, INT64_MAX)
        with self._state.lock:
            self._state.check_usable()
            return self.maybe_increment_log_start_offset(self.high_watermark if before_offset == -1 else before_offset)

    # --- appending

    def append(
        self,
        records: Iterable[Record],
        *,
        compression_type: CompressionType | CodecName | None = None,
        max_batch_bytes: int | None = None,
    ) -> LogAppendInfo:
        """Append records as a leader without followers: the high watermark moves to the log's end.

        The log is locked until the iterator of records ends: other threads that append or close the log wait for it. A
        record without a timestamp gets the current time; the offset of a record is ignored. Each batch is written
        completely or not at all.

        After any error, including one raised by the iterator of records, the batches already written stay in the log,
        and records of an incomplete batch are not written. The error's attribute `appended` is the range of offsets
        written, which a note shows as well.

        Args:
            records: The records to append.
            compression_type: The codec, for topics that leave the choice to producers; a codec configured for the topic
                (`LogConfig.compression_type`) takes precedence.
            max_batch_bytes: The maximum size of a batch; None, and at most: max.message.bytes. Records are split into
                as many batches as needed.

        Raises:
            RecordTooLargeError, RecordBatchTooLargeError: A record is larger than a batch, or than a segment, may be.
            RecordValidationError: A record for a compacted topic has no key, or the topic does not allow its timestamp.
            ValueError, TypeError: `records` does not contain valid records.
            LogStateError: The log is closed, had a failed write, or was changed by the iterator of records.
            OSError: The disk is full, or the write failed.
        """
        with self._state.lock:
            self._state.check_usable()
            return self._record_appender.append(records, compression_type, max_batch_bytes)

    def append_as_leader(
        self,
        message_set: MessageSet,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Validate batches of a client or a coordinator, assign offsets from the log's end on, and append them.

        The high watermark stays until `update_high_watermark` is called; until then readers limited to it do not see
        the records. Batches of a Raft leader keep their offsets, which must not begin before the log's end. A duplicate
        batch of an idempotent producer is not written again. A torn tail is left out.

        Args:
            message_set: The batches.
            leader_epoch: The current leader epoch.
            origin: The kind of sender.
            transaction_version: The rules by which a coordinator wrote a marker (see
                `record.control.end_transaction_marker`). 0 or 1: the producer epoch is the transaction's, or later; 2:
                it is later.

        Raises:
            KafkaLogError: Any error of `analyze`, `validate_messages_and_assign_offsets` or `producer_changes`; nothing
                was written.
            RecordTooLargeError, RecordBatchTooLargeError: A batch is larger than the topic, or a segment, allows.
            ValueError: leader_epoch, or the transaction version of a marker, is negative.
            OSError: The disk is full, or the write failed; nothing was appended.
        """
        return self._batch_appender.append_as_leader(message_set, leader_epoch, origin, transaction_version)

    def append_as_follower(self, message_set: MessageSet, leader_epoch: int = INT32_MAX) -> LogAppendInfo:
        """Append batches of a leader byte for byte, such as the `message_set` of its `read`. The high watermark stays.

        Batches of a leader epoch later than leader_epoch, and all batches after them, are left out.

        Raises:
            UnexpectedAppendOffsetError: The batches begin before the log's end; a gap is allowed.
            ValueError: A batch of format 2 has no leader epoch (-1).
            OffsetsOutOfOrderError: The offsets do not rise.
            InvalidRecordError: A batch has fewer offsets than records.
            CorruptRecordError, RecordBatchTooLargeError, OSError: As `append_as_leader`.
        """
        return self._batch_appender.append_as_follower(message_set, leader_epoch)

    # --- segments

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Create a new segment at the log's end, and flush the old one in the background.

        Args:
            expected_next_offset: A lower bound that the caller expects for the log's end.

        Raises:
            ValueError: expected_next_offset is negative, or after the log's end.
            LogStateError: As `LocalLog.roll`.
        """
        with self._state.lock:
            self._state.check_usable()
            at = whole("expected_next_offset", expected_next_offset, 0, self.log_end_offset)
            return roll(self._state, self._watermarks, at)

    def delete_old_segments(self) -> int:
        """Delete the segments that retention allows, up to the high watermark, and return their number."""
        return delete_old_segments(self._state, self._watermarks)

    def truncate_to(self, offset: int) -> bool:
        """Remove all records from `offset` on, as a follower does, and return whether there were any.

        A batch that contains `offset` is removed whole. The log still ends at `offset`; when it is opened again, it
        ends after the last remaining batch. An offset before the log's start becomes its start. The high watermark is
        limited to the end.

        Raises:
            ValueError: `offset` is negative.
        """
        offset = whole("offset", offset, 0, INT64_MAX)
        return truncate_to(self._state, self._watermarks, offset, self._write_checkpoints)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Delete all records and restart the log.

        Args:
            offset: The offset of the next record.
            log_start_offset: The new log start offset (None: `offset`).

        Raises:
            ValueError: An offset is negative or the largest one, or the log would start after its end.
            TypeError: An offset is not an integer.
        """
        # No offset could follow the largest one.
        offset = whole("offset", offset, 0, INT64_MAX - 1)
        start = offset if log_start_offset is None else whole("log_start_offset", log_start_offset, 0, INT64_MAX - 1)
        if not 0 <= start <= offset:
            raise ValueError(f"a log that ends at {offset} cannot start at {start}")
        truncate_fully_and_start_at(self._state, self._watermarks, offset, start, self._write_checkpoints)

    def _write_checkpoints(self) -> None:
        self._at_truncation(self)

    def remove_expired_producers(self) -> None:
        """Remove the state of producers that have been inactive longer than configured."""
        with self._state.lock:
            self._state.check_usable()
            self._state.producers.remove_expired_producers(self._state.clock())

    # --- flushing and closing

    @property
    def last_flush_ms(self) -> int:
        """When the log was opened or last flushed, ms."""
        return self._state.local.last_flush_ms

    def _ensure_durable(self, offset: int) -> None:
        if self.recovery_point < offset:
            self.flush()

    def flush(self, *, force_active: bool = False) -> None:
        """Sync appended data to disk.

        Args:
            force_active: Sync the active segment even if it is empty.

        Raises:
            LogStateError: The log is closed, or an earlier flush has failed.
            OSError: The sync failed. Any part of the data appended since the last flush may be lost, and the log
                rejects further appends until it is opened again.
        """
        self._state.check_open()
        self._state.flush(force_active=force_active)

    def close(self) -> None:
        """Flush the log, write a snapshot of the producer state, and close it. Closing twice does nothing.

        Raises:
            OSError: The flush failed; the files are closed anyway, and the log is recovered when it is opened next.
            LogStateError: An earlier flush had failed.
        """
        self._stop_scheduler(run_pending=True)
        with self._state.lock:
            if self._state.closed:
                return
            ending = Ending.ABANDONED
            try:
                self._state.check_usable()
                self.flush(force_active=True)
                self._state.producers.take_snapshot()
                self._state.epochs.close()
                self._state.local.segments.close()
                ending = Ending.CLOSED
            finally:
                self._end(ending)

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        raise TypeError(f"{self.directory} is written to: one object alone may do that")

    def __exit__(self, *exception: object) -> None:
        """Close the log; abandon it if a change was interrupted, so that closing does not hide the interruption."""
        if isinstance(self._state.local.failure, InterruptedError) and any(exception):
            self.abandon()
        else:
            self.close()

    def abandon(self) -> None:
        """Close the files as they are, as a crash would: the log is recovered when it is opened next."""
        self._stop_scheduler(run_pending=False)
        with self._state.lock:
            if not self._state.closed:
                self._end(Ending.ABANDONED)

    def wait_until_closed(self) -> None:
        """Wait for a thread that is closing or deleting the log."""
        with self._state.lock:
            return

    def delete(self) -> None:
        """Delete the partition: its files, then its directory.

        Raises:
            OSError: A file cannot be deleted; the rest of the log can still be opened.
        """
        self._stop_scheduler(run_pending=False)
        with self._state.lock:
            self._state.check_usable()
            # Set before segments are deleted, so that flushes and reads without the lock report a closed log.
            self._state.closed = True
            ending = Ending.ABANDONED
            try:
                # Stop background writes, which could create files again.
                self._state.epochs.retire()
                self._state.local.delete_all()
                _remove_directory(self.directory)
                ending = Ending.DELETED
            finally:
                self._end(ending)

    def _stop_scheduler(self, *, run_pending: bool) -> None:
        """Stop the scheduler; the caller must not hold the lock, because a task may wait for it."""
        if self._own_scheduler is not None:
            self._own_scheduler.shutdown(run_pending=run_pending)

    def _end(self, ending: Ending) -> None:
        self._state.epochs.retire()
        self._release(ending)

    def _release(self, ending: Ending) -> None:
        self._state.closed = True
        owned.discard(self._state)
        try:
            self._state.local.segments.release()
        finally:
            self._at_end(self, ending)

    def __del__(self) -> None:
        """Abandon a log that was not closed. This runs wherever garbage is collected: all locks here are reentrant."""
        if self._state in owned:
            if self._own_scheduler is not None:
                self._own_scheduler.shutdown(run_pending=False, wait=False)
            self._release(Ending.ABANDONED)
            warn_of_unclosed(self.directory)


def warn_of_unclosed(directory: Path) -> None:
    """Warn that something was opened for writing and garbage-collected without being closed."""
    warnings.warn(f"{directory} was opened to be written to, and not closed", ResourceWarning, stacklevel=3)


def _remove_directory(directory: Path) -> None:
    for path in list(directory.iterdir()):
        # Segments removed by retention may be deleted concurrently in the background.
        path.unlink(missing_ok=True)
    directory.rmdir()
