"""`BatchAppender`: appends batches as sent by a producer, a coordinator or a leader.

    analyze -> offsets and epoch, or none before the log's end -> leader epochs -> roll -> producers -> write
                                                                      ^ batches built by `RecordAppender` enter here

All checks run before a byte is written. Writing moves the log's end; a failed write is rolled back.
Source: `append` in storage/.../internals/log/UnifiedLog.java.
"""

import logging
from collections.abc import Sequence

from kafkalog._speedups.arguments import INT16_MAX, INT32_MAX, member, whole
from kafkalog.attributes import TimestampType
from kafkalog.errors import KafkaLogError
from kafkalog.record.decoding import Entries
from kafkalog.record.framing import Header, headers_of
from kafkalog.record.log_validator import AppendOrigin, Rules, validate
from kafkalog.record.message_set import MessageSet
from kafkalog.record.record_batch import batches_of
from kafkalog.storage.append.analyze import (
    NO_CHANGES,
    AppendRules,
    Incoming,
    ProducerChanges,
    analyze,
    check_message_size,
    check_next_offset,
    check_offsets_are_new,
    in_memory,
    producer_changes,
)
from kafkalog.storage.fetch_data_info import LogAppendInfo
from kafkalog.storage.files.appendable_file import Piece
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import roll_if_needed
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import BatchMetadata
from kafkalog.storage.segment.log_segment import BatchHeader, LogSegment

_log = logging.getLogger(__name__)


class BatchAppender:
    """Appends batches to a log."""

    def __init__(self, state: LogState, watermarks: Watermarks) -> None:
        self._state = state
        self._local = state.local
        self._config = state.config
        self._path = str(state.directory)
        self._watermarks = watermarks

    def append_as_leader(
        self, message_set: MessageSet, leader_epoch: int, origin: AppendOrigin, transaction_version: int
    ) -> LogAppendInfo:
        """Append batches as `WritableLog.append_as_leader` does."""
        origin, leader_epoch = member("origin", origin, AppendOrigin), whole("leader_epoch", leader_epoch, 0, INT32_MAX)
        transaction_version = whole("transaction_version", transaction_version, -1, INT16_MAX)
        given, limit = origin is AppendOrigin.RAFT_LEADER, self._config.max_message_bytes
        return self._append(
            message_set, AppendRules(self._path, origin, leader_epoch, limit, given, transaction_version)
        )

    def append_as_follower(self, message_set: MessageSet, leader_epoch: int) -> LogAppendInfo:
        """Append batches as `WritableLog.append_as_follower` does."""
        leader_epoch = whole("leader_epoch", leader_epoch, -1, INT32_MAX)
        return self._append(
            message_set, AppendRules(self._path, AppendOrigin.REPLICATION, leader_epoch, None, True, -1)
        )

    def _append(self, message_set: MessageSet, rules: AppendRules) -> LogAppendInfo:
        incoming = analyze(in_memory(message_set), rules)
        if incoming.info.valid_bytes <= 0:
            return self._told(incoming.info)
        with self._state.lock:
            self._state.check_usable()
            if rules.offsets_given:
                check_offsets_are_new(incoming, self._local.log_end_offset, self._path)
            else:
                incoming = self._assign_offsets(incoming, rules)
            messages, _, headers, info = incoming
            self._note_epochs(headers)
            segment = roll_if_needed(
                self._state,
                self._watermarks,
                first=info.first_offset,
                last=info.last_offset,
                max_timestamp=info.max_timestamp,
                size=messages.size_in_bytes,
                now=self._state.clock(),
            )
            changes = self._producer_changes(incoming, rules, segment)
            if changes.duplicate is not None:
                return self._told(_of_duplicate(info, changes.duplicate))
            self.write(segment, messages.buffer, headers, changes)
            return self._told(info)

    def _told(self, info: LogAppendInfo) -> LogAppendInfo:
        return info._replace(log_start_offset=self._watermarks.log_start_offset)

    # --- validation

    def _assign_offsets(self, incoming: Incoming, given: AppendRules) -> Incoming:
        """Validate the batches and assign the next offsets to them."""
        config, now, first = self._config, self._state.clock(), self._local.log_end_offset
        rules = Rules(
            first_offset=first,
            now=now,
            target_compression=config.compression,
            compression_level=config.compression_level,
            compacted=config.compact,
            magic=2,
            timestamp_type=config.timestamp_type,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            partition_leader_epoch=given.leader_epoch,
            origin=given.origin,
        )
        messages, rows, _, info = incoming
        try:
            result = validate(Entries(rows, messages.buffer, 0), messages._reading, rules)
        except KafkaLogError as error:
            error.at(self._path)
            raise
        check_next_offset(first + result.records_count - 1, self._path)
        if result.message_size_maybe_changed:
            largest = int(result.headers["size_in_bytes"].max())
            check_message_size(largest, config.max_message_bytes, self._path, when=" once it is converted")
        is_stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        assigned = info._replace(
            first_offset=first,
            last_offset=first + result.records_count - 1,
            max_timestamp=result.max_timestamp,
            log_append_time=now if is_stamped else -1,
        )
        return Incoming(result.message_set, result.headers, headers_of(result.headers), assigned)

    def _note_epochs(self, headers: list[Header]) -> None:
        epochs = self._state.epochs
        for header in headers:
            if header.magic >= 2:
                epochs.note(header.partition_leader_epoch, header.base_offset)
            elif not epochs.is_empty:
                _log.warning("%s: leader epochs are forgotten, for a message of an older format", self._path)
                epochs.clear_and_flush()

    def _producer_changes(self, incoming: Incoming, rules: AppendRules, segment: LogSegment) -> ProducerChanges:
        messages, rows, headers, _ = incoming
        if all(each.producer_id < 0 for each in headers):
            return NO_CHANGES
        place = LogOffsetMetadata(headers[0].base_offset, segment.base_offset, segment.size)
        batches = batches_of(Entries(rows, messages.buffer, 0), messages._reading)
        return producer_changes(self._state.producers, batches, rules.origin, place, rules.transaction_version)

    # --- writing

    def write(
        self,
        segment: LogSegment,
        data: Piece,
        headers: Sequence[BatchHeader],
        changes: ProducerChanges | None = None,
    ) -> None:
        """Write batches and update all dependent state; roll back on failure.

        The log's end moves before the producer state: if the transaction index fails, the last stable offset stays
        until the log is recovered.

        Args:
            segment: The active segment, from `roll_if_needed`.
            data: The batches.
            headers: The header of each batch.
            changes: The changes to the producer state. None: the caller moves the high watermark to the log's end.
        """
        end = self._local.log_end
        try:
            self._local.append(segment, data, headers)
            if changes is not None:
                self._change_producers(changes)
            self._state.producers.update_map_end_offset(headers[-1].last_offset + 1)
        except BaseException as error:
            self._local.take_back(error, end)
            raise
        self._state.flush_if_due()

    def _change_producers(self, changes: ProducerChanges) -> None:
        producers = self._state.producers
        self._watermarks.follow_end()
        for info in changes.updated:
            producers.update(info)
        for completed in changes.completed:
            stable = producers.last_stable_offset(completed)
            if completed.is_aborted:
                self._local.active_segment.txn_index.append(completed.aborted_txn(stable))
            producers.complete_txn(completed)
        # Needed after every append, since an earlier truncation may have ended a transaction.
        self._watermarks.update_first_unstable()


def _of_duplicate(info: LogAppendInfo, duplicate: BatchMetadata) -> LogAppendInfo:
    """Return the append info of a batch that the log already contains."""
    return info._replace(
        first_offset=duplicate.first_offset,
        last_offset=duplicate.last_offset,
        log_append_time=duplicate.timestamp,
        is_duplicate=True,
    )
