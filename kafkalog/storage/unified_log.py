"""`WritableLog`: a partition that is appended to, as its leader, as a follower, or by a program that embeds it.

    log start          last stable offset         high watermark          log end
        |  decided, replicated  |  undecided, replicated  |  not replicated  |

    log start <= last stable offset <= high watermark <= log end, always; recovery point <= log end

Three objects stand behind it: `LogState`, `Watermarks` and the appenders; rolling, retention and truncation are
functions of the first two (local_log/).
One lock orders those who change the log; readers take it only where they look for the place of an offset for the
first time. Source: storage/.../internals/log/UnifiedLog.java.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX, whole
from kafkalog._speedups.record import Record
from kafkalog.attributes import CompressionType
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.append.append_batches import BatchAppender
from kafkalog.storage.append.append_records import RecordAppender
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.fetch_data_info import LogAppendInfo
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.owning import own
from kafkalog.storage.local_log.retention import delete_old_segments
from kafkalog.storage.local_log.roll import roll
from kafkalog.storage.local_log.truncate import truncate_fully_and_start_at, truncate_to
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.recovery.load_log_state import Ending, Loaded, Opening, Progress, load
from kafkalog.storage.scheduler import BackgroundScheduler
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

__all__ = ["Ending", "Opening", "Progress", "WritableLog"]


class WritableLog(Log):
    """The log of one partition, to read and to append to. Safe for many threads; one process at a time.

    What `append` returning means: the records are in the page cache of the system, seen by every reader; they
    survive the death of this process, not that of the machine. With `flush_messages=1` in the config, and after
    `flush()`, they are on the disk. It must be closed: `close` flushes, and leaves the directory as a broker does
    that was shut down. One that is forgotten is given up as by `abandon` once it is collected, with a ResourceWarning.
    A forked child may read what its parent had open, and gets LogStateError for all else.
    """

    def __init__(self, loaded: Loaded, opening: Opening) -> None:
        """Use `WritableLog.load`, or `kafkalog.open(path, "a")`."""
        state = self._state = loaded.state
        self._attach(state.directory, state.config)
        self._topic_id = loaded.topic_id
        self._watermarks = Watermarks(state, loaded.log_start_offset)
        self._batch_appender = BatchAppender(state, self._watermarks)
        self._record_appender = RecordAppender(state, self._watermarks, self._batch_appender)
        self._write_checkpoints = partial(opening.at_truncation, self)
        self._own_scheduler = None
        if opening.scheduler is None and isinstance(state.scheduler, BackgroundScheduler):
            self._own_scheduler = state.scheduler
        self._at_end = opening.at_end
        give_up = partial(_give_up, state, self._own_scheduler, opening.at_loss)
        self._when_lost = own(self, str(self.directory), give_up)

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], config: LogConfig | None = None, opening: Opening | None = None
    ) -> Self:
        """The log in `directory`, created if it is missing, recovered if it was not closed.

        Nothing is locked: that is for `LogManager` and `kafkalog.open`. ValueError: the directory is not named as a
        partition. InconsistentTopicIdError: it belongs to another topic. OSError: it cannot be read or written.
        Whatever is raised, no file is left open.
        """
        opening = opening or Opening()
        with ExitStack() as on_error:
            log = cls(load(directory, config, opening, on_error), opening)
            on_error.pop_all()
            return log

    # --- offsets

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment."""
        bases = self._state.local.segments.base_offsets
        # None is left of a log that is deleted.
        return bases[0] if bases else self.log_start_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset a consumer gets."""
        return self._watermarks.log_start_offset

    @property
    def closed(self) -> bool:
        """Whether the log has been closed, given up or deleted."""
        return self._state.closed

    @property
    def recovery_point(self) -> int:
        """All before this offset is on the disk."""
        return min(self._state.local.recovery_point, self.log_end_offset)

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Which leader epoch began at which offset."""
        return self._state.epochs

    @property
    def producer_state(self) -> ProducerStateManager:
        """What is known of the idempotent producers."""
        return self._state.producers

    @property
    def topic_id(self) -> str | None:
        """The id in `partition.metadata`, 22 characters; None where there is none."""
        return self._topic_id

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or not replicated to its end."""
        return self._watermarks.first_unstable_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log."""
        return self._watermarks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided; at most the high watermark."""
        return self._watermarks.last_stable_offset

    def _segments_now(self) -> LogSegments:
        segments = self._state.local.segments
        if not segments.values:
            # Only a log that is deleted has none.
            self._state.check_open()
        return segments

    def _log_end(self) -> LogOffsetMetadata:
        return self._state.local.log_end

    def _high_watermark(self) -> LogOffsetMetadata:
        return self._watermarks.high_watermark_metadata()

    def _last_stable(self) -> LogOffsetMetadata:
        return self._watermarks.last_stable_metadata()

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, brought into [log start, log end]; returns what it is then. It may go back."""
        return self._watermarks.update(high_watermark)

    def maybe_update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int | None:
        """As `update_high_watermark`; None where that changed nothing."""
        return self._watermarks.maybe_update(high_watermark)

    def maybe_increment_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Move the high watermark forward, or to a newer segment at the same offset; returns the one before.

        None: it stays. ValueError: it would be after the log's end.
        """
        return self._watermarks.maybe_increment(high_watermark)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Let the log begin at a later offset; no bytes move. Returns whether it did.

        OffsetOutOfRangeError: it would be after the high watermark.
        """
        return self._watermarks.maybe_increment_log_start_offset(whole("offset", offset, -INT64_MAX - 1, INT64_MAX))

    def delete_records(self, before_offset: int) -> bool:
        """Delete the records before an offset (-1: before the high watermark); returns whether there may be any.

        The log begins there from now on. Their bytes go when retention next deletes old segments, as far as a segment
        holds nothing else.
        OffsetOutOfRangeError: the offset is after the high watermark.
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
        compression_type: CompressionType | None = None,
        max_batch_bytes: int | None = None,
    ) -> LogAppendInfo:
        """Append records, as a leader without followers: the high watermark moves to the log's end.

        A record without a timestamp gets the time of now; an offset that it has is not looked at. The records become
        one batch, or as many as it takes for none to exceed max_batch_bytes (None, and at most: max.message.bytes).
        compression_type: the codec, of a topic that leaves it to its producers; one that has a codec of its own
        (`LogConfig.compression_type`) gets that.

        Each batch is whole in the log or not there. Whatever is raised, also by an iterator that gives the records:
        batches before it stay, and the error's attribute `appended` is the range of their offsets, which a note tells
        of as well; records that had not filled a batch yet are not in the log.

        RecordTooLargeError, RecordBatchTooLargeError: a record larger than a batch, or a segment, may be.
        RecordValidationError: a record without a key for a compacted topic, or with a timestamp that the topic does not
        take. ValueError, TypeError: not records. LogStateError: the log has been closed, could not be written to, or
        was changed by whoever gives the records while they were taken. OSError: the disk is full, or refuses.
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
        """Append what a client or a coordinator sent: checked, offsets assigned from the log's end on.

        The high watermark stays until `update_high_watermark` moves it: readers who see no further than that do not
        see the records yet. Batches of a Raft leader keep their offsets, which must not begin before the log's end.
        A batch of an idempotent producer that is in the log already is not written again. A torn tail is left out.
        transaction_version: under which rules a coordinator has written a marker (see
        `record.control.end_transaction_marker`): 0 or 1: its producer's epoch is the transaction's, or later; 2: it is
        later.

        Everything that `analyze`, `validate_messages_and_assign_offsets` and `producer_changes` raise, before a byte
        is written; RecordTooLargeError, RecordBatchTooLargeError: larger than a batch, or a segment, may be.
        ValueError: leader_epoch is negative; a marker's transaction version is. OSError: the disk is full, or refuses;
        nothing is in the log then.
        """
        return self._batch_appender.append_as_leader(message_set, leader_epoch, origin, transaction_version)

    def append_as_follower(self, message_set: MessageSet, leader_epoch: int = INT32_MAX) -> LogAppendInfo:
        """Append what a leader sent, byte for byte: the `message_set` that its `read` gave, for one.

        Batches of a leader epoch later than leader_epoch, and all after them, are left out. The high watermark stays.

        UnexpectedAppendOffsetError: they begin before the log's end; a gap is fine. ValueError: a batch of format 2 has
        no leader epoch (-1). OffsetsOutOfOrderError, InvalidRecordError: offsets that do not rise, or are too few for
        the records. CorruptRecordError, RecordBatchTooLargeError, OSError: as `append_as_leader`.
        """
        return self._batch_appender.append_as_follower(message_set, leader_epoch)

    # --- segments

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Begin a new segment at the log's end, which is expected_next_offset or after it.

        The old one is flushed in the background. ValueError: expected_next_offset is negative, or after the log's end.
        LogStateError: as `LocalLog.roll`.
        """
        with self._state.lock:
            self._state.check_usable()
            at = whole("expected_next_offset", expected_next_offset, 0, self.log_end_offset)
            return roll(self._state, self._watermarks, at)

    def delete_old_segments(self) -> int:
        """Delete what retention lets go; returns how many segments went. Never beyond the high watermark."""
        return delete_old_segments(self._state, self._watermarks)

    def truncate_to(self, offset: int) -> bool:
        """Cut off all records from `offset` on, as a follower does; returns whether there were any.

        A batch that goes on beyond it goes whole; the log ends at `offset` all the same, until it is opened again: then
        it ends after the last batch that is left. An offset before the log's start becomes its start. The high
        watermark is at most the end. ValueError: offset is negative.
        """
        offset = whole("offset", offset, 0, INT64_MAX)
        return truncate_to(self._state, self._watermarks, offset, self._write_checkpoints)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Delete all records; the next one gets `offset`, the log starts at log_start_offset (None: there too).

        ValueError: one is negative or the largest there is, or the log would start behind its end. TypeError: no
        whole number.
        """
        # The largest offset could not be followed by another.
        offset = whole("offset", offset, 0, INT64_MAX - 1)
        start = offset if log_start_offset is None else whole("log_start_offset", log_start_offset, 0, INT64_MAX - 1)
        if not 0 <= start <= offset:
            raise ValueError(f"a log that ends at {offset} cannot start at {start}")
        truncate_fully_and_start_at(self._state, self._watermarks, offset, start, self._write_checkpoints)

    def take_producer_snapshot(self) -> Path | None:
        """Write down the producers' state at the log's end; None where that has been done."""
        with self._state.lock:
            self._state.check_usable()
            return self._state.producers.take_snapshot()

    def remove_expired_producers(self) -> None:
        """Forget the producers that were not heard of for long enough."""
        with self._state.lock:
            self._state.check_usable()
            self._state.producers.remove_expired_producers(self._state.clock())

    # --- on the disk

    @property
    def last_flush_ms(self) -> int:
        """When something was last flushed, or the log opened; ms."""
        return self._state.local.last_flush_ms

    def flush(self, *, force_active: bool = False) -> None:
        """Have the system put on the disk what was appended. force_active: the active segment, be it empty.

        OSError: it failed. Then what was appended since the last flush may be lost, in any part, and the log takes no
        more appends: open it again.
        """
        self._state.flush(force_active=force_active)

    def close(self) -> None:
        """Flush, write down the producers' state, and close. Closing twice does nothing.

        OSError: it failed; the files are closed all the same, and the next opening recovers the log. LogStateError: an
        earlier flush had failed.
        """
        self._stop_scheduler(run_pending=True)
        with self._state.lock:
            if self._state.closed:
                return
            ending = Ending.ABANDONED
            try:
                with self._state.lock:
                    self._state.check_usable()
                    self._close_in_order()
                ending = Ending.CLOSED
            finally:
                self._end(ending)

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        raise TypeError(f"{self.directory} is written to: one object alone may do that")

    def __exit__(self, *exception: object) -> None:
        """As `close`; what was interrupted half-way is left to the next opening, and does not hide the interruption."""
        if isinstance(self._state.local.failure, InterruptedError) and any(exception):
            self.abandon()
        else:
            self.close()

    def _close_in_order(self) -> None:
        self.flush(force_active=True)
        self._state.producers.take_snapshot()
        self._state.epochs.close()
        self._state.local.close()

    def abandon(self) -> None:
        """Give up the files as they are, as a crash would: the next opening recovers the log."""
        self._stop_scheduler(run_pending=False)
        with self._state.lock:
            if not self._state.closed:
                self._end(Ending.ABANDONED)

    def wait_until_closed(self) -> None:
        """Wait for a thread that is about to close the log, or to delete it."""
        with self._state.lock:
            return

    def delete(self) -> None:
        """Delete the partition: its files, then its directory. OSError: one cannot be; what is left can be opened."""
        self._stop_scheduler(run_pending=False)
        with self._state.lock:
            self._state.check_usable()
            # Before a segment goes: those who flush or read without the lock are told that it is closed.
            self._state.closed = True
            ending = Ending.ABANDONED
            try:
                # What is written in the background would be in the way.
                self._state.epochs.retire()
                self._state.local.delete_all()
                _remove_directory(self.directory)
                ending = Ending.DELETED
            finally:
                self._end(ending)

    def _stop_scheduler(self, *, run_pending: bool) -> None:
        """Not under the lock, which a task may wait for."""
        if self._own_scheduler is not None:
            self._own_scheduler.shutdown(run_pending=run_pending)

    def _end(self, ending: Ending) -> None:
        self._state.closed = True
        self._state.epochs.retire()
        try:
            self._state.local.release()
        finally:
            self._at_end(self, ending)
            # Last: should a signal end this, what is locked is let go once the log is forgotten.
            self._when_lost.detach()

    def _disown(self) -> None:
        """In a forked child: as `owning.Owner`."""
        self._state.disown()


def _give_up(state: LogState, scheduler: BackgroundScheduler | None, at_loss: Callable[[], None]) -> None:
    """Let go of the files of a log that was forgotten, as a crash would."""
    state.closed = True
    with ExitStack() as last:
        last.callback(at_loss)
        last.callback(state.local.release)
        if scheduler is not None:
            scheduler.shutdown(run_pending=False, wait=False)


def _remove_directory(directory: Path) -> None:
    for path in list(directory.iterdir()):
        # Segments that retention let go of are deleted in the background.
        path.unlink(missing_ok=True)
    directory.rmdir()
