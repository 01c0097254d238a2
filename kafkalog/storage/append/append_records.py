"""Append records for a program that embeds a log and acts as leader, replica and producer at once.

    records -> batches of limited size, with offsets and leader epoch -> `BatchAppender` -> high watermark

Batches built here skip analysis and offset assignment. Their records are checked only where the topic restricts
records.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NoReturn

from kafkalog._speedups.arguments import BYTES, INT32_MAX, INT64_MAX, member, whole
from kafkalog._speedups.record import Record
from kafkalog.attributes import CodecName, CompressionType, TimestampType
from kafkalog.errors import LogStateError, RecordValidationError
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.record.record_checks import TimestampRange, check_records
from kafkalog.record.records_builder import BatchSettings, BuiltBatch, RecordsBuilder
from kafkalog.storage.append.analyze import check_message_size, check_next_offset
from kafkalog.storage.append.append_batches import BatchAppender
from kafkalog.storage.fetch_data_info import NOTHING_APPENDED, LogAppendInfo
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import roll_if_needed
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata

# The leader epoch of batches in a log without leader epochs.
FIRST_LEADER_EPOCH = 0
# A builder keeps a buffer as large as its largest batch, and there may be thousands of logs.
_KEPT_BYTES = 1 << 16
# Offsets from here on are checked one by one; no single append has 2**48 records.
_FEW_OFFSETS_LEFT = INT64_MAX - (1 << 48)
_NONE = CompressionType.NONE


class RecordAppender:
    """Appends records to a log. The caller holds the log's lock."""

    def __init__(self, state: LogState, watermarks: Watermarks, appender: BatchAppender) -> None:
        self._state = state
        self._local = state.local
        self._path = str(state.directory)
        self._watermarks = watermarks
        self._appender = appender
        config = self._config = state.config
        # At least 1: if the limit is 0, every record fails the size check. Only a batch of one record is larger.
        self._most = max(1, min(config.max_message_bytes, config.segment_bytes))
        self._is_stamped = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        # With log append time the timestamps of the records are ignored, hence not limited.
        self._latest_ms = INT64_MAX if self._is_stamped else config.message_timestamp_after_max_ms
        self._checks_records = config.compact or not (
            self._is_stamped or config.message_timestamp_before_max_ms == INT64_MAX
        )
        # By codec and leader epoch; builders in use are removed, because the iterator of records may append as well.
        self._builders: dict[tuple[CompressionType | CodecName | None, int], RecordsBuilder] = {}

    def append(
        self,
        records: Iterable[Record] | Record,
        codec: CompressionType | CodecName | None,
        max_batch_bytes: int | None,
    ) -> LogAppendInfo:
        """Append the records; see `WritableLog.append`."""
        if isinstance(records, Record):
            raise TypeError("records is a Record: an iterable of them is needed, such as [record]")
        latest = self._state.epochs.latest_entry
        epoch = FIRST_LEADER_EPOCH if latest is None else latest.epoch
        most = self._most
        if max_batch_bytes is not None:
            most = min(most, whole("max_batch_bytes", max_batch_bytes, 1, INT32_MAX, BYTES))
        now, start = self._state.clock(), self._local.log_end.message_offset
        builder = self._builders.pop((codec, epoch), None) or self._new_builder(codec, epoch, now)
        if start > _FEW_OFFSETS_LEFT:
            records = _with_offsets_left(records, start, self._path)
        batches = builder.batches_of(records, start, max_size=most, default_timestamp=now)
        info = self._append_each(batches, builder.settings, now)
        if info.valid_bytes <= _KEPT_BYTES and not self._is_stamped:
            self._builders[codec, epoch] = builder
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
                check_message_size(batch.size_in_bytes, self._config.max_message_bytes, self._path)
                if self._checks_records or batch.max_timestamp - now > self._latest_ms:
                    self._check_records(batch, now)
                added = self._append_built(batch, settings, now)
                info = added if info is None else _together(info, added)
                end = local.log_end
        except BaseException as error:
            # The iterator of records may append as well.
            there = range(start, (end or local.log_end).message_offset)
            _attach_appended(error, there)
            if there:
                self._watermarks.replicated_to_end()
            raise
        return info or NOTHING_APPENDED._replace(log_start_offset=self._watermarks.log_start_offset)

    def _append_built(self, batch: BuiltBatch, settings: BatchSettings, now: int) -> LogAppendInfo:
        data, first, last, latest, size = batch
        epoch = settings.partition_leader_epoch
        segment = roll_if_needed(
            self._state, self._watermarks, first=first, last=last, max_timestamp=latest, size=size, now=now
        )
        self._state.epochs.note(epoch, first)
        self._appender.write(segment, data, (batch,))
        self._watermarks.replicated_to_end()
        return LogAppendInfo(
            first,
            last,
            epoch,
            latest,
            settings.log_append_time,
            self._watermarks.log_start_offset,
            settings.compression_type,
            size,
        )

    def _check_records(self, batch: BuiltBatch, now: int) -> None:
        """Raise RecordValidationError if the topic does not allow a record of the batch."""
        config, messages = self._config, ByteBufferMessageSet(batch.data)
        earliest = INT64_MAX if self._is_stamped else config.message_timestamp_before_max_ms
        taken = TimestampRange(now, earliest, self._latest_ms)
        entry, reading = messages._whole(), messages._reading
        try:
            check_records(entry, reading, TimestampType.CREATE_TIME, taken, compacted=config.compact)
        except RecordValidationError as error:
            error.at(self._path)
            raise

    def _refuse_change(self) -> NoReturn:
        """Raise LogStateError because the log changed during iteration: offsets and epoch of the batch are outdated."""
        message = "while an append took its records, whoever gives them changed the log, or closed it"
        raise LogStateError(message, self._path)

    def _new_builder(self, codec: CompressionType | CodecName | None, epoch: int, now: int) -> RecordsBuilder:
        topics = self._config.compression
        wanted = _NONE if codec is None else member("compression_type", codec, CompressionType)
        # Keep one builder per codec, all of the current epoch.
        self._builders = {key: value for key, value in self._builders.items() if key[1] == epoch}
        settings = BatchSettings(
            compression_type=wanted if topics is None else topics,
            compression_level=None if topics is None else self._config.compression_level,
            timestamp_type=self._config.timestamp_type,
            log_append_time=now if self._is_stamped else -1,
            partition_leader_epoch=epoch,
        )
        return RecordsBuilder(settings)


def _with_offsets_left(records: Iterable[Record], start: int, path: str) -> Iterator[Record]:
    """Yield the records, which get offsets from `start` on.

    Raises:
        InvalidRecordError: No offset is left for a record.
    """
    for offset, record in enumerate(records, start):
        check_next_offset(offset, path)
        yield record


def _together(first: LogAppendInfo, then: LogAppendInfo) -> LogAppendInfo:
    """Return the append info of two consecutive appends."""
    return then._replace(
        first_offset=first.first_offset,
        max_timestamp=max(first.max_timestamp, then.max_timestamp),
        valid_bytes=first.valid_bytes + then.valid_bytes,
    )


def _attach_appended(error: BaseException, offsets: range) -> None:
    """Attach to an error the offsets that were appended before it: the caller must not append them again."""
    with suppress(AttributeError):
        error.appended = offsets  # type: ignore[attr-defined]
    if offsets:
        error.add_note(f"appended before that, and in the log: offsets {offsets[0]} to {offsets[-1]}")
