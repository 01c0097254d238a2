"""`WritableLog`: a partition that is appended to, as its leader, as a follower, or by a program that embeds it.

    log start          last stable offset         high watermark          log end
        |  decided, replicated  |  undecided, replicated  |  not replicated  |

    log start <= last stable offset <= high watermark <= log end, always; recovery point <= log end

An append looks at all of what it is given before a byte is written. One lock orders those who change the log; readers
take it only where they look for the place of an offset for the first time.
Source: storage/.../internals/log/UnifiedLog.java.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Self

from kafkalog._speedups.arguments import INT16_MAX, INT32_MAX, INT64_MAX, member, whole
from kafkalog._speedups.record import Record
from kafkalog.attributes import CompressionType, TimestampType
from kafkalog.errors import (
    KafkaLogError,
    LogStateError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.record.validation import AppendOrigin, ValidationResult, validate_messages_and_assign_offsets
from kafkalog.storage import fetching, retention
from kafkalog.storage.append import (
    NO_CHANGES,
    AppendRules,
    Incoming,
    ProducerChanges,
    analyze,
    check_offsets_are_new,
    in_memory,
    producer_changes,
    trimmed,
)
from kafkalog.storage.appending import sync_file
from kafkalog.storage.atomic import make_directory
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.config import LogConfig, config_or_default
from kafkalog.storage.embedded import EmbeddedAppender
from kafkalog.storage.leader_epoch import LeaderEpochCache
from kafkalog.storage.local_log import LocalLog
from kafkalog.storage.log import Log
from kafkalog.storage.offset_metadata import LogOffsetMetadata
from kafkalog.storage.owning import own
from kafkalog.storage.partition_metadata import PartitionMetadata, read_partition_metadata, write_partition_metadata
from kafkalog.storage.paths import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, TopicPartition, parse_partition_dir
from kafkalog.storage.producer_rebuild import rebuild_producer_state
from kafkalog.storage.producer_state import CompletedTxn, ProducerStateManager
from kafkalog.storage.recovery import LoadRequest, load_log
from kafkalog.storage.results import LogAppendInfo
from kafkalog.storage.scheduler import BackgroundScheduler, Scheduler
from kafkalog.storage.segment import BatchSpan, LogSegment, RollParams
from kafkalog.storage.segments import LogSegments
from kafkalog.storage.splitting import SegmentHome, delete_producer_snapshots

_log = logging.getLogger(__name__)
_LARGEST_RELATIVE_OFFSET = 2**31 - 1
Progress = Callable[[int, int], None]


class Ending(Enum):
    """What became of a log: closed in order, given up as it was, or deleted."""

    CLOSED = "closed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Opening:
    """How a directory is taken over: what the data directory's checkpoints say of it, and who keeps time.

    had_clean_shutdown: whoever wrote it last closed it; else segments from the recovery point on are read again.
    progress: called with bytes done and bytes to do while they are. scheduler: None = one of the log's own.
    topic_id: what partition.metadata says, or is to say where there is none; None = whatever it says. at_truncation:
    called when log start or recovery point have gone back, before records are cut off; must write them into the
    checkpoints. at_end: called once, when the log has been closed, given up or deleted. at_loss: called in its place
    when the log was forgotten; see `owning.own`.
    """

    had_clean_shutdown: bool = False
    log_start_offset: int = 0
    recovery_point: int = 0
    topic_id: str | None = None
    clock: Clock = wall_clock_ms
    scheduler: Scheduler | None = None
    progress: Progress | None = None
    at_truncation: Callable[["WritableLog"], None] = field(default=lambda _: None)
    at_end: Callable[["WritableLog", Ending], None] = field(default=lambda *_: None)
    at_loss: Callable[[], None] = field(default=lambda: None)


class WritableLog(Log):
    """The log of one partition, to read and to append to. Safe for many threads; one process at a time.

    What `append` returning means: the records are in the page cache of the system, seen by every reader; they
    survive the death of this process, not that of the machine. With `flush_messages=1` in the config, and after
    `flush()`, they are on the disk. It must be closed: `close` flushes, and leaves the directory as a broker does
    that was shut down. One that is forgotten is given up as by `abandon` once it is collected, with a ResourceWarning.
    A forked child may read what its parent had open, and gets LogStateError for all else.
    """

    def __init__(
        self,
        local: LocalLog,
        log_start_offset: int,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        opening: Opening,
    ) -> None:
        """Use `WritableLog.load`, or `kafkalog.open(path, "a")`."""
        self._attach(local.directory, local.home.config)
        self._local = local
        self._embedded = EmbeddedAppender(self)
        self._producers = producers
        self._epochs = epochs
        self._clock = opening.clock
        self._scheduler = local.home.scheduler
        self._owns_scheduler = opening.scheduler is None
        self._at_truncation = opening.at_truncation
        self._at_end = opening.at_end
        self._lock = threading.RLock()
        self._closed = self._forked = False
        self._high_watermark_at = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self._log_start_offset = log_start_offset
        self._metadata = self._load_metadata(opening.topic_id)
        self._update_log_start(log_start_offset)
        self._log_start_offset = max(log_start_offset, local.segments.base_offsets[0])
        self._update_first_unstable()
        give_up = partial(_give_up, local, self._scheduler if self._owns_scheduler else None, opening.at_loss)
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
        path, config, opening = Path(directory).absolute(), config_or_default(config), opening or Opening()
        partition = _partition_of(path)
        make_directory(path)
        home = SegmentHome(
            directory=path,
            config=config,
            scheduler=opening.scheduler or BackgroundScheduler(f"kafkalog {path.name}"),
            clock=opening.clock,
        )
        with ExitStack() as on_error:
            if opening.scheduler is None:
                on_error.callback(home.scheduler.shutdown)
            log = cls._loaded(home, partition, opening, on_error)
            on_error.pop_all()
            return log

    @classmethod
    def _loaded(cls, home: SegmentHome, partition: TopicPartition, opening: Opening, on_error: ExitStack) -> Self:
        producers = ProducerStateManager(home.directory, partition, clock=opening.clock)
        epochs = LeaderEpochCache(home.directory / LEADER_EPOCH_CHECKPOINT, scheduler=home.scheduler)
        loaded = load_log(
            LoadRequest(
                **vars(home),
                had_clean_shutdown=opening.had_clean_shutdown,
                log_start_offset_checkpoint=opening.log_start_offset,
                recovery_point_checkpoint=opening.recovery_point,
                producer_state=producers,
                leader_epochs=epochs,
                progress=opening.progress,
            )
        )
        local = LocalLog(loaded.segments, loaded.next_offset, loaded.recovery_point, home)
        on_error.callback(local.release)
        return cls(local, loaded.log_start_offset, producers, epochs, opening)

    def now(self) -> int:
        """The time that the log goes by, ms."""
        return self._clock()

    # --- offsets

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment."""
        bases = self._local.segments.base_offsets
        # None is left where the log is about to be deleted.
        return bases[0] if bases else self._log_start_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset a consumer gets."""
        return self._log_start_offset

    @property
    def closed(self) -> bool:
        """Whether the log has been closed, given up or deleted."""
        return self._closed

    @property
    def recovery_point(self) -> int:
        """All before this offset is on the disk."""
        return min(self._local.recovery_point, self.log_end_offset)

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Which leader epoch began at which offset."""
        return self._epochs

    @property
    def producer_state(self) -> ProducerStateManager:
        """What is known of the idempotent producers."""
        return self._producers

    @property
    def topic_id(self) -> str | None:
        """The id in `partition.metadata`, 22 characters; None where there is none."""
        return None if self._metadata is None else self._metadata.topic_id

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or not replicated to its end."""
        unstable = self._first_unstable
        return None if unstable is None else max(unstable.message_offset, self._log_start_offset)

    @property
    def high_watermark(self) -> int:
        """The offset up to which all replicas have the log."""
        return max(self._mark, self._log_start_offset)

    @property
    def _mark(self) -> int:
        """The high watermark as it was placed: at its batch's base, be that before the log's start."""
        return self._high_watermark_at.message_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided; at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def _segments_now(self) -> LogSegments:
        return self._local.segments

    def _log_end(self) -> LogOffsetMetadata:
        return self._local.log_end

    def _high_watermark(self) -> LogOffsetMetadata:
        """With its place, looked up where it is not known yet."""
        if not self._forked:
            self._check_open()
        found = self._high_watermark_at
        if not found.message_offset_only:
            return found
        with self._lock:
            found = self._placed(self._mark)
            self._set_high_watermark(found)
            return found

    def _last_stable(self) -> LogOffsetMetadata:
        high_watermark, unstable = self._high_watermark(), self._first_unstable
        if unstable is None or unstable.message_offset >= high_watermark.message_offset:
            return high_watermark
        if unstable.message_offset_only:
            with self._lock:
                unstable = self._first_unstable = self._placed(unstable.message_offset)
        return unstable

    def _placed(self, offset: int) -> LogOffsetMetadata:
        """The offset with its place, or without where it is not in the log."""
        try:
            return fetching.offset_metadata(self._local.segments, self._local.log_end, offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, brought into [log start, log end]; returns what it is then. It may go back."""
        given = _watermark(high_watermark)
        with self._lock:
            self._check_usable()
            if given.message_offset < self._log_start_offset:
                given = LogOffsetMetadata(self._log_start_offset)
            elif given.message_offset >= self.log_end_offset:
                given = self._local.log_end
            self._set_high_watermark(given)
            return given.message_offset

    def maybe_update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int | None:
        """As `update_high_watermark`; None where that changed nothing."""
        with self._lock:
            self._check_usable()
            before = self._mark
            after = self.update_high_watermark(high_watermark)
            return None if after == before else after

    def maybe_increment_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Move the high watermark forward, or to a newer segment at the same offset; returns the one before.

        None: it stays. ValueError: it would be after the log's end.
        """
        given = _watermark(high_watermark)
        with self._lock:
            self._check_usable()
            if given.message_offset > self.log_end_offset:
                raise ValueError(f"high watermark {given} is after the log's end {self._local.log_end}")
            before = self._high_watermark()
            if before.message_offset < given.message_offset or (
                before.message_offset == given.message_offset and before.on_older_segment(given)
            ):
                self._set_high_watermark(given)
                return before
            return None

    def _set_high_watermark(self, high_watermark: LogOffsetMetadata) -> None:
        if high_watermark.message_offset < 0:
            raise ValueError(f"the high watermark is {high_watermark.message_offset}, less than 0")
        if high_watermark.message_offset < self._mark:
            _log.warning("%s: the high watermark goes back to %s", self.directory, high_watermark)
        self._high_watermark_at = high_watermark
        self._producers.on_high_watermark_updated(high_watermark.message_offset)
        self._update_first_unstable()

    def _high_watermark_follows_end(self) -> None:
        """It is not after the log's end; and where it is there, it is in the active segment."""
        if self._mark >= self.log_end_offset:
            self._set_high_watermark(self._local.log_end)

    def _update_first_unstable(self) -> None:
        unstable = self._producers.first_unstable_offset
        if unstable is not None and (unstable.message_offset_only or unstable.message_offset < self._log_start_offset):
            unstable = self._placed(max(unstable.message_offset, self._log_start_offset))
        self._first_unstable = unstable

    def _update_log_start(self, offset: int) -> None:
        self._log_start_offset = offset
        if self._mark < offset:
            self.update_high_watermark(offset)
        self._local.recovery_point = max(self._local.recovery_point, offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Let the log begin at a later offset; no bytes move. Returns whether it did.

        OffsetOutOfRangeError: it would be after the high watermark.
        """
        offset = whole("offset", offset, -INT64_MAX - 1, INT64_MAX)
        with self._lock, self._local.uninterrupted():
            self._check_usable()
            if offset > self._mark:
                message = "the log cannot begin after the high watermark"
                expected = f"at most {self._mark}"
                raise OffsetOutOfRangeError(message, str(self.directory), None, expected, offset)
            if offset <= self._log_start_offset:
                return False
            self._update_log_start(offset)
            self._epochs.truncate_from_start(offset)
            self._producers.on_log_start_offset_incremented(offset)
            self._update_first_unstable()
            return True

    def delete_records(self, before_offset: int) -> bool:
        """Delete the records before an offset (-1: before the high watermark); returns whether there may be any.

        The log begins there from now on. Their bytes go when retention next deletes old segments, as far as a segment
        holds nothing else.
        OffsetOutOfRangeError: the offset is after the high watermark.
        """
        before_offset = whole("before_offset", before_offset, -1, INT64_MAX)
        with self._lock:
            self._check_usable()
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
        with self._lock:
            self._check_usable()
            return self._embedded.append(records, compression_type, max_batch_bytes) or self._info(Incoming())

    def replicated_to_end(self) -> None:
        """All replicas have the log: the high watermark is its end."""
        self._set_high_watermark(self._local.log_end)

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
        origin, leader_epoch = member("origin", origin, AppendOrigin), whole("leader_epoch", leader_epoch, 0, INT32_MAX)
        transaction_version = whole("transaction_version", transaction_version, -1, INT16_MAX)
        assign, limit = origin is not AppendOrigin.RAFT_LEADER, self.config.max_message_bytes
        return self._append(message_set, _Appending(origin, leader_epoch, assign, limit, transaction_version))

    def append_as_follower(self, message_set: MessageSet, leader_epoch: int = INT32_MAX) -> LogAppendInfo:
        """Append what a leader sent, byte for byte: the `message_set` that its `read` gave, for one.

        Batches of a leader epoch later than leader_epoch, and all after them, are left out. The high watermark stays.

        UnexpectedAppendOffsetError: they begin before the log's end; a gap is fine. ValueError: a batch of format 2 has
        no leader epoch (-1). OffsetsOutOfOrderError, InvalidRecordError: offsets that do not rise, or are too few for
        the records. CorruptRecordError, RecordBatchTooLargeError, OSError: as `append_as_leader`.
        """
        leader_epoch = whole("leader_epoch", leader_epoch, -1, INT32_MAX)
        return self._append(message_set, _Appending(AppendOrigin.REPLICATION, leader_epoch, False, None, -1))

    def _append(self, message_set: MessageSet, how: "_Appending") -> LogAppendInfo:
        rules = AppendRules(str(self.directory), how.origin, how.leader_epoch, how.max_message_bytes, not how.assign)
        messages = in_memory(message_set)
        incoming = analyze(messages, rules)
        if incoming.valid_bytes <= 0:
            return self._info(incoming)
        messages = trimmed(messages, incoming.valid_bytes)
        with self._lock:
            self._check_usable()
            if how.assign:
                messages = self._assign_offsets(messages, incoming, how)
            else:
                check_offsets_are_new(incoming, messages, self.log_end_offset, str(self.directory))
            self._note_epochs(incoming)
            self._check_segment_holds(messages)
            segment = self._roll_for(messages.size_in_bytes, incoming)
            changes = self._producer_changes(messages, incoming, how, segment)
            if changes.duplicate is not None:
                return self._info_of_duplicate(incoming, changes)
            self._write(messages, incoming, changes)
            return self._info(incoming)

    def _assign_offsets(
        self, messages: ByteBufferMessageSet, incoming: Incoming, how: "_Appending"
    ) -> ByteBufferMessageSet:
        config, now = self.config, self._clock()
        try:
            result = validate_messages_and_assign_offsets(
                messages,
                first_offset=self.log_end_offset,
                now=now,
                target_compression=config.compression,
                compression_level=config.compression_level,
                compacted=config.compact,
                timestamp_type=config.message_timestamp_type,
                before_max_ms=config.message_timestamp_before_max_ms,
                after_max_ms=config.message_timestamp_after_max_ms,
                partition_leader_epoch=how.leader_epoch,
                origin=how.origin,
            )
        except KafkaLogError as error:
            raise error.at(str(self.directory)) from error
        self._take_over(result, incoming, now)
        return result.message_set

    def _take_over(self, result: ValidationResult, incoming: Incoming, now: int) -> None:
        """What validation has made of the batches is what is appended."""
        rules = AppendRules(str(self.directory), AppendOrigin.COORDINATOR, -1, None, False)
        source, first = incoming.source_compression, self.log_end_offset
        changed = analyze(result.message_set, rules)
        if result.message_size_maybe_changed:
            self._check_batches(changed)
        incoming.headers = changed.headers
        incoming.first_offset = incoming.first_or_last_offset = first
        incoming.last_offset = first + result.records_count - 1
        incoming.max_timestamp = result.max_timestamp
        incoming.source_compression = source
        if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            incoming.log_append_time = now

    def _check_batches(self, incoming: Incoming) -> None:
        limit = self.config.max_message_bytes
        for header in incoming.headers:
            if header.size_in_bytes > limit:
                message = "a batch is larger than max.message.bytes once it is converted"
                raise RecordTooLargeError(message, str(self.directory), None, limit, header.size_in_bytes)

    def _check_segment_holds(self, messages: ByteBufferMessageSet) -> None:
        limit = self.config.segment_bytes
        if messages.size_in_bytes > limit:
            message = "the batches of one append are larger than segment.bytes"
            raise RecordBatchTooLargeError(message, str(self.directory), None, limit, messages.size_in_bytes)

    def _note_epochs(self, incoming: Incoming) -> None:
        for header in incoming.headers:
            if header.magic >= 2:
                self.note_epoch(header.partition_leader_epoch, header.base_offset)
            elif not self._epochs.is_empty:
                _log.warning("%s: leader epochs are forgotten, for a message of an older format", self.directory)
                self._epochs.clear_and_flush()

    def note_epoch(self, epoch: int, offset: int) -> None:
        """A batch of this leader epoch is appended at `offset`. ValueError: the epoch is negative."""
        latest = self._epochs.latest_entry
        # An append that was refused later may have left a later start.
        if latest is None or epoch != latest.epoch or offset < latest.start_offset:
            self._epochs.assign(epoch, offset)

    def _producer_changes(
        self, messages: ByteBufferMessageSet, incoming: Incoming, how: "_Appending", segment: LogSegment
    ) -> ProducerChanges:
        if not incoming.has_producers:
            return NO_CHANGES
        place = LogOffsetMetadata(incoming.first_or_last_offset, segment.base_offset, segment.size)
        return producer_changes(self._producers, messages.batches(), how.origin, place, how.transaction_version)

    def _write(self, messages: ByteBufferMessageSet, incoming: Incoming, changes: ProducerChanges) -> None:
        """The batches to the active segment, and all that follows from it.

        The log's end moves first: should the transaction index fail, the last stable offset stays until the log is
        recovered.
        """
        with self._local.uninterrupted():
            self._local.append(incoming.last_offset, messages, incoming.spans)
            self._high_watermark_follows_end()
            for info in changes.updated:
                self._producers.update(info)
            for completed in changes.completed:
                self._complete(completed)
            self._producers.update_map_end_offset(incoming.last_offset + 1)
            self._update_first_unstable()
        self._flush_if_due()

    def put(self, data: bytes | bytearray, span: BatchSpan) -> None:
        """Write a batch without a producer, whose offsets follow the log's end, to the active segment."""
        self._local.append_batch(data, span)
        self._producers.update_map_end_offset(span.last_offset + 1)
        self._flush_if_due()

    def _flush_if_due(self) -> None:
        if self._local.unflushed_messages >= self.config.flush_messages:
            self.flush()

    def _complete(self, completed: CompletedTxn) -> None:
        stable = self._producers.last_stable_offset(completed)
        with self._local.whole():
            self._local.active_segment.update_txn_index(completed, stable)
        self._producers.complete_txn(completed)

    def _info(self, incoming: Incoming) -> LogAppendInfo:
        return LogAppendInfo(
            first_offset=incoming.first_offset,
            last_offset=incoming.last_offset,
            last_leader_epoch=incoming.last_leader_epoch,
            max_timestamp=incoming.max_timestamp,
            log_append_time=incoming.log_append_time,
            log_start_offset=self._log_start_offset,
            source_compression=incoming.source_compression,
            valid_bytes=incoming.valid_bytes,
        )

    def _info_of_duplicate(self, incoming: Incoming, changes: ProducerChanges) -> LogAppendInfo:
        found = changes.duplicate
        assert found is not None
        return self._info(incoming)._replace(
            first_offset=found.first_offset,
            last_offset=found.last_offset,
            log_append_time=found.timestamp,
            is_duplicate=True,
        )

    # --- segments

    def _roll_for(self, size: int, incoming: Incoming) -> LogSegment:
        config = self.config
        latest, last = incoming.max_timestamp, incoming.last_offset
        params = RollParams(config.max_segment_ms, config.segment_bytes, latest, last, size, self._clock())
        # The first offset of a v0/v1 wrapper is inside: the new segment begins as low as its index can count from.
        known = incoming.first_offset >= 0
        return self.roll_if_needed(params, incoming.first_offset if known else last - _LARGEST_RELATIVE_OFFSET)

    def roll_if_needed(self, params: RollParams, first_offset: int) -> LogSegment:
        """The segment to append to: a new one from first_offset on, where the active one is full, or too old."""
        segment = self._local.active_segment
        return self._roll_at(first_offset) if segment.should_roll(params) else segment

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Begin a new segment at the log's end, which is expected_next_offset or after it.

        The old one is flushed in the background. ValueError: expected_next_offset is negative, or after the log's end.
        LogStateError: as `LocalLog.roll`.
        """
        with self._lock:
            self._check_usable()
            return self._roll_at(whole("expected_next_offset", expected_next_offset, 0, self.log_end_offset))

    def _roll_at(self, expected_next_offset: int) -> LogSegment:
        """A new segment at the log's end, or where a follower's next batch begins that is appended at once."""
        with self._lock, self._local.uninterrupted():
            self._check_usable()
            segment = self._local.roll(expected_next_offset)
            self._producers.update_map_end_offset(segment.base_offset)
            snapshot = self._producers.take_snapshot(sync=False)
            self._high_watermark_follows_end()
            self._scheduler.schedule("flush-log", lambda: self._flush_rolled(snapshot, segment.base_offset))
            return segment

    def _flush_rolled(self, snapshot: Path | None, base: int) -> None:
        if self._closed:
            return
        if snapshot is not None and snapshot.exists():
            sync_file(snapshot)
        self._flush_until(base, base)

    def delete_old_segments(self) -> int:
        """Delete what retention lets go; returns how many segments went. Never beyond the high watermark."""
        with self._lock:
            self._check_usable()
            return retention.delete_old_segments(self)

    def delete_segments(self, going: list[LogSegment]) -> int:
        """Take the oldest segments out of the log; a new one is rolled if all go. Returns how many."""
        with self._lock, self._local.uninterrupted():
            self._check_usable()
            count, leaving = len(going), list(going)
            if count == len(self._local.segments):
                rolled = self.roll()
                if leaving[-1].base_offset == rolled.base_offset:
                    leaving.pop()
            if leaving:
                survivor = self._local.segments.higher(leaving[-1].base_offset)
                assert survivor is not None
                self.maybe_increment_log_start_offset(survivor.base_offset)
                self._local.remove_and_delete(leaving)
            self._delete_snapshots_of(leaving)
            return count

    def _delete_snapshots_of(self, segments: list[LogSegment]) -> None:
        delete_producer_snapshots(segments, self._producers, self._local.home)

    def truncate_to(self, offset: int) -> bool:
        """Cut off all records from `offset` on, as a follower does; returns whether there were any.

        A batch that goes on beyond it goes whole; the log ends at `offset` all the same, until it is opened again: then
        it ends after the last batch that is left. An offset before the log's start becomes its start. The high
        watermark is at most the end. ValueError: offset is negative.
        """
        offset = whole("offset", offset, 0, INT64_MAX)
        with self._lock, self._local.whole():
            self._check_usable()
            if offset >= self.log_end_offset:
                self._epochs.truncate_from_end(self.log_end_offset)
                return False
            if offset < self._local.segments.base_offsets[0]:
                self.truncate_fully_and_start_at(offset)
                return True
            if offset < self._mark:
                _log.warning("%s is truncated to %d, below the high watermark", self.directory, offset)
            self._lower_checkpoints(offset)
            self._lower_high_watermark(offset)
            self._delete_snapshots_of(self._local.truncate_to(offset))
            self._epochs.truncate_from_end(offset)
            self._log_start_offset = min(offset, self._log_start_offset)
            self._rebuild_producers(offset)
            if self._mark >= self.log_end_offset:
                self.update_high_watermark(self._local.log_end)
            return True

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
        with self._lock, self._local.whole():
            self._check_usable()
            self._lower_checkpoints(offset)
            self._lower_high_watermark(offset)
            self._local.truncate_fully_and_start_at(offset)
            self._epochs.clear_and_flush()
            self._producers.truncate_fully_and_start_at(offset)
            self._log_start_offset = start
            self._rebuild_producers(offset)
            self.update_high_watermark(self._local.log_end)

    def _lower_checkpoints(self, end: int) -> None:
        """Let log start and recovery point be `end` at most, in the checkpoints too, before the log is cut there.

        After a crash what is appended then would not be recovered, were it before a recovery point from earlier, and
        would be dropped, were it before a log start from earlier.
        """
        start = self._log_start_offset
        if end >= max(start, self._local.recovery_point):
            return
        self._local.recovery_point = min(end, self._local.recovery_point)
        self._log_start_offset = min(end, start)
        try:
            self._at_truncation(self)
        except BaseException:
            self._log_start_offset = start
            raise

    def _lower_high_watermark(self, end: int) -> None:
        """Before the log is cut, so that readers do not look for what goes; whoever has cut it sets it once more."""
        if self._mark > end:
            self._high_watermark_at = LogOffsetMetadata(end)

    def _rebuild_producers(self, end: int) -> None:
        start = self._log_start_offset
        rebuild_producer_state(self._producers, self._local.segments, start, end, self._clock())

    def take_producer_snapshot(self) -> Path | None:
        """Write down the producers' state at the log's end; None where that has been done."""
        with self._lock:
            self._check_usable()
            return self._producers.take_snapshot()

    def remove_expired_producers(self) -> None:
        """Forget the producers that were not heard of for long enough."""
        with self._lock:
            self._check_usable()
            self._producers.remove_expired_producers(self._clock())

    # --- on the disk

    @property
    def last_flush_ms(self) -> int:
        """When something was last flushed, or the log opened; ms."""
        return self._local.last_flush_ms

    def flush(self, *, force_active: bool = False) -> None:
        """Have the system put on the disk what was appended. force_active: the active segment, be it empty.

        OSError: it failed. Then what was appended since the last flush may be lost, in any part, and the log takes no
        more appends: open it again.
        """
        end = self.log_end_offset
        self._flush_until(end + 1 if force_active else end, end)

    def _flush_until(self, offset: int, recovery_point: int) -> None:
        if offset <= self._local.recovery_point:
            return
        self._check_open()
        self._check_whole()
        truncations = self._local.truncations
        self._local.flush(offset)
        with self._lock:
            # What was truncated since has perhaps been replaced by records that are not on the disk.
            if self._local.truncations == truncations:
                # A segment that begins after a gap is flushed up to its base before anything is in it.
                last = max(self.log_end_offset, self._local.active_segment.base_offset)
                self._local.mark_flushed(min(recovery_point, last))

    def close(self) -> None:
        """Flush, write down the producers' state, and close. Closing twice does nothing.

        OSError: it failed; the files are closed all the same, and the next opening recovers the log. LogStateError: an
        earlier flush had failed.
        """
        self._stop_scheduler(run_pending=True)
        with self._lock:
            if self._closed:
                return
            ending = Ending.ABANDONED
            try:
                with self._lock:
                    self._check_usable()
                    self._close_in_order()
                ending = Ending.CLOSED
            finally:
                self._end(ending)

    def __reduce_ex__(self, _: object) -> tuple[object, ...]:
        raise TypeError(f"{self.directory} is written to: one object alone may do that")

    def __exit__(self, *exception: object) -> None:
        """As `close`; what was interrupted half-way is left to the next opening, and does not hide the interruption."""
        if isinstance(self._local.failure, InterruptedError) and any(exception):
            self.abandon()
        else:
            self.close()

    def _close_in_order(self) -> None:
        self._local.cut_back()
        self.flush(force_active=True)
        self._producers.take_snapshot()
        self._epochs.close()
        self._local.close()

    def abandon(self) -> None:
        """Give up the files as they are, as a crash would: the next opening recovers the log."""
        self._stop_scheduler(run_pending=False)
        with self._lock:
            if not self._closed:
                self._end(Ending.ABANDONED)

    def wait_until_closed(self) -> None:
        """Wait for a thread that is about to close the log, or to delete it."""
        with self._lock:
            return

    def delete(self) -> None:
        """Delete the partition: its files, then its directory. OSError: one cannot be; what is left can be opened."""
        self._stop_scheduler(run_pending=False)
        with self._lock:
            self._check_usable()
            ending = Ending.ABANDONED
            try:
                # What is written in the background would be in the way.
                self._epochs.retire()
                self._local.delete_all()
                _remove_directory(self.directory)
                ending = Ending.DELETED
            finally:
                self._end(ending)

    def _stop_scheduler(self, *, run_pending: bool) -> None:
        """Not under the lock, which a task may wait for."""
        if self._owns_scheduler and isinstance(self._scheduler, BackgroundScheduler):
            self._scheduler.shutdown(run_pending=run_pending)

    def _end(self, ending: Ending) -> None:
        self._closed = True
        self._when_lost.detach()
        self._epochs.retire()
        try:
            self._local.release()
        finally:
            self._at_end(self, ending)

    def _check_usable(self) -> None:
        self._check_open()
        self._check_whole()

    def _check_whole(self) -> None:
        if self._local.failure is not None:
            message = "the log could not be flushed or changed, and takes nothing more until it is opened again"
            raise LogStateError(message, str(self.directory), found=self._local.failure)

    def _disown(self) -> None:
        """In a forked child: as `owning.Owner`."""
        self._closed = self._forked = True
        self._lock = threading.RLock()

    def _check_open(self) -> None:
        if self._forked:
            message = "the log belongs to the process that opened it: a forked child opens its own, once it is closed"
            raise LogStateError(message, str(self.directory))
        if self._closed:
            raise LogStateError("the log has been closed", str(self.directory))

    # --- partition.metadata

    def _load_metadata(self, topic_id: str | None) -> PartitionMetadata | None:
        found = read_partition_metadata(self.directory / PARTITION_METADATA)
        if topic_id is not None:
            write_partition_metadata(self.directory / PARTITION_METADATA, topic_id)
        return PartitionMetadata(0, topic_id) if found is None and topic_id is not None else found


@dataclass(frozen=True, slots=True)
class _Appending:
    """Who appends, as of which epoch, whether offsets are assigned, and a marker's transaction version.

    max_message_bytes: None = whatever the leader took is taken.
    """

    origin: AppendOrigin
    leader_epoch: int
    assign: bool
    max_message_bytes: int | None
    transaction_version: int


def _watermark(given: int | LogOffsetMetadata) -> LogOffsetMetadata:
    if isinstance(given, LogOffsetMetadata):
        return given
    return LogOffsetMetadata(whole("high_watermark", given, -INT64_MAX - 1, INT64_MAX))


def _partition_of(path: Path) -> TopicPartition:
    name = path.resolve().name
    partition = parse_partition_dir(name)
    if partition is None:
        raise ValueError(f"{name!r} is not the name of a partition: <topic>-<number>")
    return partition


def _give_up(local: LocalLog, scheduler: Scheduler | None, at_loss: Callable[[], None]) -> None:
    """Let go of the files of a log that was forgotten, as a crash would."""
    with ExitStack() as last:
        last.callback(at_loss)
        last.callback(local.release)
        if isinstance(scheduler, BackgroundScheduler):
            scheduler.shutdown(run_pending=False, wait=False)


def _remove_directory(directory: Path) -> None:
    for path in list(directory.iterdir()):
        # Segments that retention let go of are deleted in the background.
        path.unlink(missing_ok=True)
    directory.rmdir()
