"""Analysis of batches before any byte of them is appended.

    batch | batch | batch | torn tail
    ^ framing, order of offsets, size, checksum    ^ ignored: valid_bytes end here

Once the position in the log is known, `producer_changes` checks the batches against the state of their producers.

Source: storage/.../internals/log/UnifiedLog.java (`analyzeAndValidateRecords`, `analyzeAndValidateProducerState`).
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import INT64_MAX, instance
from kafkalog.attributes import CompressionType
from kafkalog.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from kafkalog.record.batch_validity import check_entries, codec_of
from kafkalog.record.framing import EndKind, EndOfData, Header, headers_of
from kafkalog.record.layout import LOG_OVERHEAD
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.message_set import ByteBufferMessageSet, MessageSet
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.fetch_data_info import NOTHING_APPENDED, LogAppendInfo
from kafkalog.storage.log_offset_metadata import UNKNOWN_OFFSET, LogOffsetMetadata
from kafkalog.storage.producer.producer_append_info import ProducerAppendInfo
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, CompletedTxn, ProducerStateEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The origin and leader epoch of an append, and the limits of the log.

    Attributes:
        path: The log, for error messages.
        origin: The kind of sender.
        leader_epoch: The leader epoch of the append; -1 = none.
        max_message_bytes: The largest allowed batch, bytes; None = no limit, for batches that a leader has accepted.
        offsets_given: The batches carry their final offsets.
        transaction_version: The transaction version of a marker; -1 = unknown.
    """

    path: str
    origin: AppendOrigin
    leader_epoch: int
    max_message_bytes: int | None
    offsets_given: bool
    transaction_version: int


class Incoming(NamedTuple):
    """Whole batches to append.

    Attributes:
        messages: Their bytes.
        rows: Their rows of the header table.
        headers: The same values as Python objects.
        info: The result reported to the caller. The first offset of a v0/v1 message is unknown (-1), since it may be a
            wrapper.
    """

    messages: ByteBufferMessageSet
    rows: NDArray[np.void]
    headers: list[Header]
    info: LogAppendInfo


def in_memory(messages: MessageSet) -> ByteBufferMessageSet:
    """Return the messages as a buffer in memory; messages of a file are read.

    Raises:
        TypeError: `messages` is not a message set.
    """
    if isinstance(messages, ByteBufferMessageSet):
        return messages
    instance("message_set", messages, MessageSet, ", such as ByteBufferMessageSet(data)")
    data = messages._view(messages._start, messages.size_in_bytes)
    return ByteBufferMessageSet(data, decompression_limit=messages._reading.decompression_limit)


def analyze(messages: ByteBufferMessageSet, rules: AppendRules) -> Incoming:
    """Check each whole batch without decompressing it.

    Batches after the first one of a later leader epoch, and a torn tail, are left out.

    Raises:
        CorruptRecordError: The framing is damaged, or a checksum is wrong.
        InvalidRecordError: The origin may not send this offset or epoch; or, if offsets are given, a batch spans fewer
            offsets than it has records.
        OffsetsOutOfOrderError: Offsets are given and do not rise.
        RecordTooLargeError: A batch is larger than max_message_bytes.
    """
    rows, stop = messages._scan(0, rows=-1, span=-1)
    bad, problem, *_ = check_entries(rows, messages.buffer)
    headers, codec = headers_of(rows), CompressionType.NONE
    for i, header in enumerate(headers):
        _check_origin(header, rules)
        # A follower's fetch may contain batches of a newer leader than the one that it fetched from.
        if rules.origin is AppendOrigin.REPLICATION and header.partition_leader_epoch > rules.leader_epoch:
            _log.info(
                "%s: batches from offset %d on are of a later leader, and skipped", rules.path, header.base_offset
            )
            return _incoming(messages, rows[:i], headers[:i], codec)
        if rules.max_message_bytes is not None:
            check_message_size(header.size_in_bytes, rules.max_message_bytes, rules.path, header.position)
        if i == bad and problem is not None:
            raise problem.at(rules.path)
        codec = codec_of(header.compression_type, rules.path, header.position) or codec
        if rules.offsets_given:
            if not _rises(header, headers[i - 1].last_offset if i else -1):
                message = "batches to append whose offsets do not rise"
                raise OffsetsOutOfOrderError(message, rules.path, header.position, "rising offsets", _offsets(rows))
            _check_span(header, rules)
    _check_tail(stop.end(rules.path), messages, rules)
    return _incoming(messages, rows, headers, codec)


def _incoming(
    messages: ByteBufferMessageSet, rows: NDArray[np.void], headers: list[Header], codec: CompressionType
) -> Incoming:
    """Return the batches of `headers`, with the append info computed from them."""
    if not headers:
        return Incoming(messages, rows, headers, NOTHING_APPENDED)
    first, last = headers[0], headers[-1]
    size = last.position + last.size_in_bytes
    if size < messages.size_in_bytes:
        messages = messages._like(messages.buffer[:size])
    info = LogAppendInfo(
        first_offset=first.base_offset if first.magic >= 2 else UNKNOWN_OFFSET,
        last_offset=last.last_offset,
        last_leader_epoch=last.partition_leader_epoch,
        max_timestamp=max(-1, *(header.max_timestamp for header in headers)),
        source_compression=codec,
        valid_bytes=size,
    )
    return Incoming(messages, rows, headers, info)


def _rises(header: Header, last_before: int) -> bool:
    """Return whether a batch ends and, if its base offset is known, begins after `last_before`."""
    return header.last_offset > last_before and (header.magic < 2 or header.base_offset > last_before)


def _check_span(header: Header, rules: AppendRules) -> None:
    """Check that a batch has an offset for each record, and that another offset follows it.

    The checksum does not cover the base offset, and it does not protect against a faulty sender.

    Raises:
        InvalidRecordError: The batch spans too few offsets, or ends at the largest offset.
    """
    offsets = header.last_offset - header.base_offset + 1
    if header.magic >= 2 and offsets < max(1, header.records_count):
        message = "the last offset of a batch is too small for its records"
        expected = f"at least {header.base_offset + max(1, header.records_count) - 1}"
        raise InvalidRecordError(message, rules.path, header.position, expected, header.last_offset)
    check_next_offset(header.last_offset, rules.path, header.position)


def check_next_offset(offset: int, path: str, position: int | None = None) -> None:
    """Raise InvalidRecordError if no offset follows `offset`: the log end offset would overflow."""
    if offset >= INT64_MAX:
        message = "the log is full: there is no offset for the next record"
        raise InvalidRecordError(message, path, position, f"less than {INT64_MAX}", offset)


def _check_tail(end: EndOfData, messages: ByteBufferMessageSet, rules: AppendRules) -> None:
    """Raise CorruptRecordError for zero bytes instead of a batch; a tail too short for a size field counts as torn."""
    if end.kind is EndKind.ZEROED and messages.size_in_bytes - end.position >= LOG_OVERHEAD:
        raise CorruptRecordError("zero bytes instead of a batch", rules.path, end.position)


def _check_origin(header: Header, rules: AppendRules) -> None:
    epoch = header.partition_leader_epoch
    if rules.origin is AppendOrigin.RAFT_LEADER and epoch != rules.leader_epoch:
        message = "a batch of the Raft leader has another epoch"
        raise InvalidRecordError(message, rules.path, header.position, rules.leader_epoch, epoch)
    if rules.origin is AppendOrigin.CLIENT and header.magic >= 2 and header.base_offset != 0:
        message = "the base offset of a client's batch is not 0"
        raise InvalidRecordError(message, rules.path, header.position, 0, header.base_offset)


def check_message_size(size: int, limit: int, path: str, position: int | None = None, when: str = "") -> None:
    """Raise RecordTooLargeError if a batch of `size` bytes is larger than max.message.bytes."""
    if size > limit:
        message = f"a batch is larger than max.message.bytes{when}"
        raise RecordTooLargeError(message, path, position, f"at most {limit}", size)


def _offsets(rows: NDArray[np.void]) -> str:
    shown = ", ".join(map(str, rows["last_offset"][:10].tolist()))
    return f"{shown}{', ...' if len(rows) > 10 else ''}"


def check_offsets_are_new(incoming: Incoming, log_end_offset: int, path: str) -> None:
    """Check that the batches begin at or after the log's end.

    Raises:
        UnexpectedAppendOffsetError: They begin before it.
        CorruptRecordError, InvalidRecordError: They begin before it, and the first one is a wrapper with damaged
            content.
    """
    header = incoming.headers[0]
    # The header of a wrapper holds only the last offset.
    if (header.base_offset if header.magic >= 2 else header.last_offset) < log_end_offset:
        # A follower with an empty log starts at this offset, which for a wrapper is stored in its content.
        first = next(incoming.messages.batches()).base_offset
        raise UnexpectedAppendOffsetError.of(path, first, incoming.info.last_offset, log_end_offset)


# --- producers


@dataclass(frozen=True, slots=True)
class ProducerChanges:
    """The changes to the producer state that an append causes once written, or the stored batch that it duplicates."""

    updated: list[ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None


NO_CHANGES = ProducerChanges([], [])


def producer_changes(
    manager: ProducerStateManager,
    batches: Iterable[RecordBatch],
    origin: AppendOrigin,
    place: LogOffsetMetadata,
    transaction_version: int = -1,
) -> ProducerChanges:
    """Compute how the batches would change the producer state; nothing is modified yet.

    Args:
        manager: The producer state of the log.
        batches: The batches to append.
        origin: The kind of sender.
        place: The position at which the batches will be appended.
        transaction_version: The transaction version of a marker; -1 = unknown.

    Raises:
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError, TransactionCoordinatorFencedError: The
            producer or the coordinator may not send a batch in the current state.
    """
    changes: dict[int, ProducerAppendInfo] = {}
    completed: list[CompletedTxn] = []
    position = place.relative_position_in_segment
    for batch in batches:
        if batch.producer_id >= 0:
            entry = manager.last_entry(batch.producer_id)
            if entry is not None and origin is AppendOrigin.CLIENT and (sent := entry.find_duplicate_batch(batch)):
                return ProducerChanges(list(changes.values()), completed, sent)
            if entry is not None and origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
                _check_producer_is_current(entry, batch)
            info = changes.get(batch.producer_id)
            if info is None:
                info = changes[batch.producer_id] = manager.prepare_update(batch.producer_id, origin)
            first = LogOffsetMetadata(batch.base_offset, place.segment_base_offset, position)
            done = info.append(batch, first if batch.is_transactional else None, transaction_version)
            if done is not None:
                completed.append(done)
        position += batch.size_in_bytes
    return ProducerChanges(list(changes.values()), completed)


def _check_producer_is_current(entry: ProducerStateEntry, batch: RecordBatch) -> None:
    """Raise InvalidProducerEpochError if the producer has been fenced; this check precedes all others of the batch."""
    if batch.is_transactional and batch.producer_epoch < entry.producer_epoch:
        message = f"producer {batch.producer_id} has been replaced by a newer one"
        raise InvalidProducerEpochError(message, None, None, entry.producer_epoch, batch.producer_epoch)
