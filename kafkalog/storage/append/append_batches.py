"""`BatchAppender`: batches as a producer, a coordinator or a leader sends them, into the log.

    analyze -> offsets and epoch, or none before the log's end -> leader epochs -> roll -> producers -> active segment
    -> high watermark not after the end, transactions completed, flushed if due

All that can be refused is refused before a byte is written. Source: `append` in
storage/.../internals/log/UnifiedLog.java.
"""

import logging
from dataclasses import dataclass

from kafkalog._speedups.arguments import INT16_MAX, INT32_MAX, member, whole
from kafkalog.attributes import TimestampType
from kafkalog.errors import KafkaLogError, RecordBatchTooLargeError, RecordTooLargeError
from kafkalog.record.log_validator import AppendOrigin, ValidationResult, validate_messages_and_assign_offsets
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.storage.append.analyze import (
    NO_CHANGES,
    AppendRules,
    Incoming,
    ProducerChanges,
    analyze,
    check_next_offset,
    check_offsets_are_new,
    in_memory,
    producer_changes,
    trimmed,
)
from kafkalog.storage.fetch_data_info import LogAppendInfo
from kafkalog.storage.index.offset_index import MAX_INT
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import roll_if_needed
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_manager import CompletedTxn
from kafkalog.storage.segment.log_segment import LogSegment, RollParams

_log = logging.getLogger(__name__)


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


class BatchAppender:
    """Appends batches that others have made to a log."""

    def __init__(self, state: LogState, watermarks: Watermarks) -> None:
        self._state = state
        self._local = state.local
        self._config = state.config
        self._path = str(state.directory)
        self._watermarks = watermarks

    def append_as_leader(
        self, message_set: MessageSet, leader_epoch: int, origin: AppendOrigin, transaction_version: int
    ) -> LogAppendInfo:
        """What `WritableLog.append_as_leader` says."""
        origin, leader_epoch = member("origin", origin, AppendOrigin), whole("leader_epoch", leader_epoch, 0, INT32_MAX)
        transaction_version = whole("transaction_version", transaction_version, -1, INT16_MAX)
        assign, limit = origin is not AppendOrigin.RAFT_LEADER, self._config.max_message_bytes
        return self._append(message_set, _Appending(origin, leader_epoch, assign, limit, transaction_version))

    def append_as_follower(self, message_set: MessageSet, leader_epoch: int) -> LogAppendInfo:
        """What `WritableLog.append_as_follower` says."""
        leader_epoch = whole("leader_epoch", leader_epoch, -1, INT32_MAX)
        return self._append(message_set, _Appending(AppendOrigin.REPLICATION, leader_epoch, False, None, -1))

    def _append(self, message_set: MessageSet, how: _Appending) -> LogAppendInfo:
        rules = AppendRules(self._path, how.origin, how.leader_epoch, how.max_message_bytes, not how.assign)
        messages = in_memory(message_set)
        incoming = analyze(messages, rules)
        if incoming.valid_bytes <= 0:
            return incoming.info(self._watermarks.log_start_offset)
        messages = trimmed(messages, incoming.valid_bytes)
        with self._state.lock:
            self._state.check_usable()
            if how.assign:
                messages = self._assign_offsets(messages, incoming, how)
            else:
                check_offsets_are_new(incoming, messages, self._local.log_end_offset, self._path)
            self._note_epochs(incoming)
            self._check_segment_holds(messages)
            segment = self._roll_for(messages.size_in_bytes, incoming)
            changes = self._producer_changes(messages, incoming, how, segment)
            if changes.duplicate is None:
                self._write(messages, incoming, changes)
            return _outcome(incoming, changes, self._watermarks.log_start_offset)

    # --- before a byte is written

    def _assign_offsets(
        self, messages: ByteBufferMessageSet, incoming: Incoming, how: _Appending
    ) -> ByteBufferMessageSet:
        config, now = self._config, self._state.clock()
        try:
            result = validate_messages_and_assign_offsets(
                messages,
                first_offset=self._local.log_end_offset,
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
            error.at(self._path)
            raise
        self._take_over(result, incoming, now)
        return result.message_set

    def _take_over(self, result: ValidationResult, incoming: Incoming, now: int) -> None:
        """What validation has made of the batches is what is appended."""
        rules = AppendRules(self._path, AppendOrigin.COORDINATOR, -1, None, False)
        source, first = incoming.source_compression, self._local.log_end_offset
        check_next_offset(first + result.records_count - 1, self._path)
        changed = analyze(result.message_set, rules)
        if result.message_size_maybe_changed:
            self._check_batches(changed)
        incoming.headers = changed.headers
        incoming.first_offset = incoming.first_or_last_offset = first
        incoming.last_offset = first + result.records_count - 1
        incoming.max_timestamp = result.max_timestamp
        incoming.source_compression = source
        if self._config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            incoming.log_append_time = now

    def _check_batches(self, incoming: Incoming) -> None:
        limit = self._config.max_message_bytes
        for header in incoming.headers:
            if header.size_in_bytes > limit:
                message = "a batch is larger than max.message.bytes once it is converted"
                raise RecordTooLargeError(message, self._path, None, limit, header.size_in_bytes)

    def _check_segment_holds(self, messages: ByteBufferMessageSet) -> None:
        limit = self._config.segment_bytes
        if messages.size_in_bytes > limit:
            message = "the batches of one append are larger than segment.bytes"
            raise RecordBatchTooLargeError(message, self._path, None, limit, messages.size_in_bytes)

    def _note_epochs(self, incoming: Incoming) -> None:
        epochs = self._state.epochs
        for header in incoming.headers:
            if header.magic >= 2:
                epochs.note(header.partition_leader_epoch, header.base_offset)
            elif not epochs.is_empty:
                _log.warning("%s: leader epochs are forgotten, for a message of an older format", self._path)
                epochs.clear_and_flush()

    def _roll_for(self, size: int, incoming: Incoming) -> LogSegment:
        config = self._config
        latest, last = incoming.max_timestamp, incoming.last_offset
        params = RollParams(config.max_segment_ms, config.segment_bytes, latest, last, size, self._state.clock())
        # The first offset of a v0/v1 wrapper is inside: the new segment begins as low as its index can count from.
        known = incoming.first_offset >= 0
        first_offset = incoming.first_offset if known else last - MAX_INT
        return roll_if_needed(self._state, self._watermarks, params, first_offset)

    def _producer_changes(
        self, messages: ByteBufferMessageSet, incoming: Incoming, how: _Appending, segment: LogSegment
    ) -> ProducerChanges:
        if not incoming.has_producers:
            return NO_CHANGES
        place = LogOffsetMetadata(incoming.first_or_last_offset, segment.base_offset, segment.size)
        return producer_changes(self._state.producers, messages.batches(), how.origin, place, how.transaction_version)

    # --- writing

    def _write(self, messages: ByteBufferMessageSet, incoming: Incoming, changes: ProducerChanges) -> None:
        """The batches to the active segment, and all that follows from it.

        The log's end moves first: should the transaction index fail, the last stable offset stays until the log is
        recovered.
        """
        producers = self._state.producers
        with self._local.uninterrupted():
            self._local.append(incoming.last_offset, messages, incoming.spans)
            self._watermarks.follow_end()
            for info in changes.updated:
                producers.update(info)
            for completed in changes.completed:
                self._complete(completed)
            producers.update_map_end_offset(incoming.last_offset + 1)
            self._watermarks.update_first_unstable()
        self._state.flush_if_due()

    def _complete(self, completed: CompletedTxn) -> None:
        producers = self._state.producers
        stable = producers.last_stable_offset(completed)
        if completed.is_aborted:
            with self._local.whole():
                self._local.active_segment.txn_index.append(completed.aborted_txn(stable))
        producers.complete_txn(completed)


def _outcome(incoming: Incoming, changes: ProducerChanges, log_start_offset: int) -> LogAppendInfo:
    info, duplicate = incoming.info(log_start_offset), changes.duplicate
    if duplicate is None:
        return info
    return info._replace(
        first_offset=duplicate.first_offset,
        last_offset=duplicate.last_offset,
        log_append_time=duplicate.timestamp,
        is_duplicate=True,
    )
