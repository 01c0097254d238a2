"""Appending records as a program does that embeds a log: it is leader, replica and producer in one.

    records -> batches of at most so many bytes, offsets and leader epoch in them -> active segment -> high watermark

What is built here need not be looked at again: only where the topic asks something of each record is a batch handed
to the leader's way, which checks all. Both ways leave the same bytes.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NoReturn

from kafkalog._speedups.arguments import BYTES, INT32_MAX, INT64_MAX, whole
from kafkalog._speedups.encoder import RecordsEncoder
from kafkalog._speedups.record import Record
from kafkalog.attributes import CompressionType, TimestampType
from kafkalog.errors import LogStateError, RecordBatchTooLargeError, RecordTooLargeError
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.record.records_builder import BatchSettings, BuiltBatch, built_batches, encoder_for, plain_batches
from kafkalog.storage.append.analyze import Incoming, check_next_offset
from kafkalog.storage.append.append_batches import BatchAppender
from kafkalog.storage.fetch_data_info import LogAppendInfo
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import roll
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.segment.log_segment import RollParams

# What a leader of a log without epochs writes into its batches.
FIRST_LEADER_EPOCH = 0
# An encoder keeps the room that its largest batch took, and there may be thousands of logs.
_KEPT_BYTES = 1 << 16
# A NamedTuple of all its fields in a third of the time that its class takes.
_new_tuple = tuple.__new__
# No append has so many records.
_FEW_OFFSETS_LEFT = INT64_MAX - (1 << 48)
_NONE = CompressionType.NONE


class RecordAppender:
    """Appends records to a log. Called under the log's lock."""

    def __init__(self, state: LogState, watermarks: Watermarks, appender: BatchAppender) -> None:
        self._state = state
        self._local = state.local
        self._watermarks = watermarks
        self._appender = appender
        config = self._config = state.config
        # Of a topic that takes nothing, each record is refused for its size.
        self._most = max(1, min(config.max_message_bytes, config.segment_bytes))
        self._latest_ms = config.message_timestamp_after_max_ms
        self._needs_no_look = asks_nothing_of_records(config)
        self._settings: dict[tuple[CompressionType | None, int], BatchSettings] = {}
        # For batches without a codec; None while it is in use, as whoever gives the records may append, too.
        self._encoder: RecordsEncoder | None = None

    def append(
        self, records: Iterable[Record] | Record, codec: CompressionType | None, max_batch_bytes: int | None
    ) -> LogAppendInfo:
        """Append the records; what `WritableLog.append` says."""
        if isinstance(records, Record):
            raise TypeError("records is a Record: an iterable of them is needed, such as [record]")
        latest = self._state.epochs.latest_entry
        epoch = FIRST_LEADER_EPOCH if latest is None else latest.epoch
        settings = self._settings.get((codec, epoch)) or self._new_settings(codec, epoch)
        most = self._most
        if max_batch_bytes is not None:
            most = min(most, whole("max_batch_bytes", max_batch_bytes, 1, INT32_MAX, BYTES))
        now, start = self._state.clock(), self._local.log_end.message_offset
        if start > _FEW_OFFSETS_LEFT:
            records = _with_offsets_left(records, start, str(self._state.directory))
        if settings.compression_type is _NONE:
            encoder, self._encoder = self._encoder, None
            if encoder is None:
                encoder = encoder_for(settings)
            batches = plain_batches(records, settings, encoder, offset=start, max_size=most, default_timestamp=now)
        else:
            encoder = self._encoder
            batches = built_batches(records, settings, max_size=most, default_timestamp=now, base_offset=start)
        info = self._append_each(batches, settings, now)
        if info.valid_bytes <= _KEPT_BYTES:
            self._encoder = encoder
        return info

    def _append_each(self, batches: Iterator[BuiltBatch], settings: BatchSettings, now: int) -> LogAppendInfo:
        local, info = self._local, None
        end: LogOffsetMetadata | None = local.log_end
        start = local.log_end.message_offset
        try:
            for batch in batches:
                if local.log_end is not end or self._state.closed:
                    self._refuse_change()
                end = None
                if len(batch.data) > self._most:
                    self._check_size(batch)
                if self._needs_no_look and batch.max_timestamp - now <= self._latest_ms:
                    added = self._append_built(batch, settings, now)
                else:
                    added = self._append_as_client(batch, settings)
                info = added if info is None else _together(info, added)
                end = local.log_end
        except BaseException as error:
            # While records are taken, whoever gives them may append, too.
            there = range(start, (end or local.log_end).message_offset)
            _tell_of_those_before(error, there)
            if there:
                self._watermarks.replicated_to_end()
            raise
        return info or Incoming().info(self._watermarks.log_start_offset)

    def _append_built(self, batch: BuiltBatch, settings: BatchSettings, now: int) -> LogAppendInfo:
        """To the segment at once; the steps are those of `BatchAppender`."""
        local, watermarks, config = self._local, self._watermarks, self._config
        data, first, last, latest, _ = batch
        size, epoch = len(data), settings.partition_leader_epoch
        self._state.epochs.note(epoch, first)
        segment = local.cut_back()
        limits = config.max_segment_ms, config.segment_bytes
        if segment.should_roll(_new_tuple(RollParams, (*limits, latest, last, size, now))):
            segment = roll(self._state, self._watermarks, first)
        local.append_batch(segment, data, last, latest)
        self._state.producers.update_map_end_offset(last + 1)
        self._state.flush_if_due()
        watermarks.replicated_to_end()
        codec, log_start = settings.compression_type, watermarks.log_start_offset
        return _new_tuple(LogAppendInfo, (first, last, epoch, latest, -1, log_start, codec, size, False))

    def _append_as_client(self, batch: BuiltBatch, settings: BatchSettings) -> LogAppendInfo:
        """As a producer would send it: offsets from 0 on, which no checksum covers."""
        batch.data[:8] = bytes(8)
        messages, epoch = ByteBufferMessageSet(batch.data), settings.partition_leader_epoch
        info = self._appender.append_as_leader(messages, epoch, AppendOrigin.CLIENT, 0)
        self._watermarks.replicated_to_end()
        return info

    def _refuse_change(self) -> NoReturn:
        """Offsets and epoch of a batch are those of the log as it was before its records were taken."""
        message = "while an append took its records, whoever gives them changed the log, or closed it"
        raise LogStateError(message, str(self._state.directory))

    def _check_size(self, batch: BuiltBatch) -> None:
        """Only a single record can be too large."""
        size, limit = len(batch.data), self._config.max_message_bytes
        if size > limit:
            message = "a batch is larger than max.message.bytes"
            raise RecordTooLargeError(message, str(self._state.directory), None, f"at most {limit}", size)
        if size > self._config.segment_bytes:
            message = "a batch is larger than segment.bytes"
            limit = self._config.segment_bytes
            raise RecordBatchTooLargeError(message, str(self._state.directory), None, f"at most {limit}", size)

    def _new_settings(self, codec: CompressionType | None, epoch: int) -> BatchSettings:
        """Those of a codec and a leader epoch, for all batches to come."""
        topics = self._config.compression
        wanted = _NONE if codec is None else CompressionType(codec)
        settings = BatchSettings(
            compression_type=wanted if topics is None else topics,
            compression_level=None if topics is None else self._config.compression_level,
            partition_leader_epoch=epoch,
        )
        # One entry for each codec that is used, in the epoch of now.
        self._settings = {key: value for key, value in self._settings.items() if key[1] == epoch}
        self._settings[codec, epoch] = settings
        return settings


def _with_offsets_left(records: Iterable[Record], start: int, path: str) -> Iterator[Record]:
    """The records, which get the offsets from `start` on. InvalidRecordError: there is none left for the next one."""
    for offset, record in enumerate(records, start):
        check_next_offset(offset, path)
        yield record


def _together(first: LogAppendInfo, then: LogAppendInfo) -> LogAppendInfo:
    """What was appended, of two batches that follow one another."""
    return then._replace(
        first_offset=first.first_offset,
        max_timestamp=max(first.max_timestamp, then.max_timestamp),
        valid_bytes=first.valid_bytes + then.valid_bytes,
    )


def _tell_of_those_before(error: BaseException, offsets: range) -> None:
    """An append that fails may have put batches into the log, which the caller must not append again."""
    with suppress(AttributeError):
        error.appended = offsets  # type: ignore[attr-defined]
    if offsets:
        error.add_note(f"appended before that, and in the log: offsets {offsets[0]} to {offsets[-1]}")


def asks_nothing_of_records(config: LogConfig) -> bool:
    """Whether a topic takes every record as it is, but for one from the future."""
    return (
        not config.compact
        and config.message_timestamp_type is TimestampType.CREATE_TIME
        and config.message_timestamp_before_max_ms == INT64_MAX
    )
