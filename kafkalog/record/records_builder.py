"""`RecordsBuilder`: records to the bytes of one batch, with Kafka's rules for valid batches.

    v2                        header of 61 bytes | records, compressed or not
    v0/v1, not compressed     message | message | ...                 (each is an entry of its own)
    v0/v1, compressed         wrapper message with the compressed messages as value and the offset of the last one

A batch without records is empty. Uncompressed batches are byte for byte equal to those of Kafka's builder for the same
records. Source: clients/.../common/record/MemoryRecordsBuilder.java.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from kafkalog._speedups.arguments import EPOCH_MS, INT16_MAX, INT32_MAX, INT64_MAX, check_fields, instance
from kafkalog._speedups.checksum import crc32
from kafkalog._speedups.encoder import RecordsEncoder
from kafkalog._speedups.record import Record
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from kafkalog.record.compress import checked_level, compress
from kafkalog.record.layout import (
    LOG_OVERHEAD,
    MESSAGE_CRC_FROM,
    RECORD_BATCH_OVERHEAD,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from kafkalog._speedups.arguments import Rule

# base offset, length, leader epoch, magic | crc | the rest of the header, which the CRC covers with the records
_BEFORE_CRC = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_AFTER_CRC = struct.Struct(">hiqqqhii")
# offset, size, crc | magic, attributes, timestamp | key length (-1), value length
_WRAPPER_FRAME = struct.Struct(">qiI")
_WRAPPER_V0 = struct.Struct(">bBii")
_WRAPPER_V1 = struct.Struct(">bBqii")

# Kafka's estimate of how much worse the next records compress than those of the batches before.
COMPRESSION_RATE_ESTIMATION_FACTOR = 1.05
# Looking up a member of an enum takes as long as encoding a record.
_NONE, _LOG_APPEND_TIME = CompressionType.NONE, TimestampType.LOG_APPEND_TIME


def empty_batch(base_offset: int, last_offset: int, partition_leader_epoch: int) -> bytes:
    """Return a v2 batch whose records are all removed: as Kafka's cleaner leaves one, but of no producer.

    Source: `DefaultRecordBatch.writeEmptyHeader`.
    """
    covered = _AFTER_CRC.pack(0, last_offset - base_offset, -1, -1, -1, -1, -1, 0)
    size = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD
    return _BEFORE_CRC.pack(base_offset, size, partition_leader_epoch, 2) + _CRC.pack(crc32c(covered)) + covered


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The header of a batch, except the fields that depend on its records; -1 = none, as in Kafka.

    Attributes:
        magic: The format: 0, 1 or 2.
        compression_type: The codec.
        compression_level: The level; None = the default of the codec.
        timestamp_type: Who sets the timestamps.
        log_append_time: The append time for timestamp_type LogAppendTime, ms since the epoch.
        base_offset: The offset of the first record.
        producer_id: The producer, if it is idempotent or transactional.
        producer_epoch: The producer's epoch.
        base_sequence: The sequence of the first record.
        is_transactional: Whether the batch is part of a transaction.
        is_control: Whether the batch has a control record, such as a marker at the end of a transaction.
        partition_leader_epoch: The epoch of the leader that appends it.
        delete_horizon_ms: The delete horizon, ms since the epoch; None = not set.

    Raises:
        ValueError: A number is out of range, or Kafka refuses the combination of fields.
        TypeError: A field has another type.
    """

    magic: int = 2
    compression_type: CompressionType = CompressionType.NONE
    compression_level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    log_append_time: int = -1
    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    partition_leader_epoch: int = -1
    delete_horizon_ms: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, _FIELDS)
        if self.magic < 2:
            self._refuse_below_magic_2()
        if self.magic > 0 and self.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
            raise ValueError("a timestamp type is needed from magic 1 on")
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME and self.log_append_time < 0:
            raise ValueError("timestamp type LogAppendTime needs a log_append_time of 0 ms or more")
        self._check_producer()
        checked_level(self.compression_type, self.compression_level)

    def _refuse_below_magic_2(self) -> None:
        refused = {
            "transactional records": self.is_transactional,
            "control records": self.is_control,
            "ZStandard compression": self.compression_type is CompressionType.ZSTD,
            "a delete horizon": self.delete_horizon_ms is not None,
            "an idempotent producer": self.producer_id != -1,
        }
        for what, asked in refused.items():
            if asked:
                raise ValueError(f"magic {self.magic} does not support {what}")

    def _check_producer(self) -> None:
        if self.is_transactional and self.producer_id == -1:
            raise ValueError("transactional records need a producer id")
        if self.producer_id != -1 and self.producer_epoch < 0:
            raise ValueError(f"producer id {self.producer_id} needs an epoch of 0 or more, not {self.producer_epoch}")
        if self.producer_id != -1 and self.base_sequence < 0 and not self.is_control:
            raise ValueError(
                f"producer id {self.producer_id} needs a base sequence of 0 or more, not {self.base_sequence}"
            )

    @property
    def is_wrapped(self) -> bool:
        """Whether the records are in a v0/v1 wrapper message."""
        return self.magic < 2 and self.compression_type is not CompressionType.NONE

    @property
    def header_size(self) -> int:
        """The number of bytes before the (compressed) records."""
        if self.magic >= 2:
            return RECORD_BATCH_OVERHEAD
        if not self.is_wrapped:
            return 0
        return _WRAPPER_FRAME.size + (_WRAPPER_V0 if self.magic == 0 else _WRAPPER_V1).size

    @property
    def header(self) -> bytes:
        """The header of a v2 batch, without the fields that depend on its records."""
        producer = self.producer_id, self.producer_epoch, self.base_sequence
        before = _BEFORE_CRC.pack(self.base_offset, 0, self.partition_leader_epoch, self.magic)
        return before + _CRC.pack(0) + _AFTER_CRC.pack(self.attributes, 0, -1, -1, *producer, 0)

    @property
    def attributes(self) -> int:
        """The attributes of a v2 batch, or of a wrapper."""
        bits = int(self.compression_type)
        if self.magic > 0 and self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            bits |= LOG_APPEND_TIME_BIT
        bits |= TRANSACTIONAL_BIT if self.is_transactional else 0
        bits |= CONTROL_BIT if self.is_control else 0
        return bits | (DELETE_HORIZON_BIT if self.delete_horizon_ms is not None else 0)


_FIELDS: "tuple[Rule, ...]" = (
    ("magic", (0, 2, ""), False),
    ("compression_type", CompressionType, False),
    ("timestamp_type", TimestampType, False),
    ("log_append_time", (-1, INT64_MAX, EPOCH_MS), False),
    ("base_offset", (0, INT64_MAX, ""), False),
    # Producer fields from a damaged log are written again unchanged.
    ("producer_id", (-INT64_MAX - 1, INT64_MAX, ""), False),
    ("producer_epoch", (-INT16_MAX - 1, INT16_MAX, ""), False),
    ("base_sequence", (-INT32_MAX - 1, INT32_MAX, ""), False),
    ("is_transactional", bool, False),
    ("is_control", bool, False),
    ("partition_leader_epoch", (-INT32_MAX - 1, INT32_MAX, ""), False),
    ("delete_horizon_ms", (-INT64_MAX - 1, INT64_MAX, EPOCH_MS), True),
)

_DEFAULTS = BatchSettings()


class BuiltBatch(NamedTuple):
    """A batch (v0/v1: a wrapper, or messages) and fields of its header, as in a `Header`."""

    data: bytearray
    base_offset: int
    last_offset: int
    max_timestamp: int
    size_in_bytes: int


class RecordsBuilder(RecordsEncoder):
    """Appends records one after the other; `build()` returns the bytes of the batch.

    `append(value, key, headers, timestamp, offset=)` adds one record, and `extend(records)` adds `Record` objects. A
    refused record leaves no bytes; the records before it stay.

    Use it from one thread at a time. Concurrent use damages only the batch: duplicate offsets, or a wrong count.

    Args:
        settings: The settings of the batch.

    Attributes:
        size: The bytes of the records so far, before compression.
        magic: The format of the batch.
        records_count: The number of records so far.
        base_offset: The offset that those of the records count from.
        last_offset: The offset of the last record; -1 = none.
        base_timestamp: The timestamp that those of v2 records count from, ms; -1 = none.
        max_timestamp: The largest timestamp so far, ms; -1 = none.
        offset_of_max_timestamp: The offset of the first record that has it; -1 = none.
    """

    def __init__(self, settings: BatchSettings | None = None) -> None:
        self.settings = settings = _DEFAULTS if settings is None else instance("settings", settings, BatchSettings)
        self.estimated_compression_ratio = 1.0
        self._base_sequence = settings.base_sequence
        self._header = settings.header
        super().__init__(
            settings.magic,
            settings.base_offset,
            timestamp_type=int(settings.timestamp_type),
            log_append_time=settings.log_append_time,
            relative=settings.magic == 1 and settings.is_wrapped,
            base_timestamp=settings.delete_horizon_ms,
        )

    def build(self) -> bytearray:
        """Return the batch; empty if no record was appended. More records may be appended and built again.

        `ByteBufferMessageSet(builder.build())` can be read, validated and appended to a file.

        Raises:
            ValueError: The batch has more than 2**31 - 1 bytes.
        """
        if self.records_count == 0:
            return bytearray()
        if self.magic >= 2:
            compressed = None if self.settings.compression_type is _NONE else self._compressed()
            return self.to_batch(self._header, self._base_sequence, compressed)
        return self._build_wrapper() if self.settings.is_wrapped else self.take()

    def _build_wrapper(self) -> bytearray:
        settings = self.settings
        compressed = memoryview(self._compressed())
        wrapper = bytearray(settings.header_size)
        wrapper += compressed
        log_append = settings.timestamp_type is TimestampType.LOG_APPEND_TIME
        timestamp = settings.log_append_time if log_append else self.max_timestamp
        if self.magic == 0:
            _WRAPPER_V0.pack_into(wrapper, MESSAGE_CRC_FROM, 0, settings.attributes, -1, compressed.nbytes)
        else:
            _WRAPPER_V1.pack_into(wrapper, MESSAGE_CRC_FROM, 1, settings.attributes, timestamp, -1, compressed.nbytes)
        checksum = crc32(memoryview(wrapper)[MESSAGE_CRC_FROM:])
        _WRAPPER_FRAME.pack_into(wrapper, 0, self.last_offset, _size_field(wrapper), checksum)
        return wrapper

    def follow(self, base_offset: int, base_sequence: int) -> None:
        """Begin another batch with the same settings except base offset and base sequence."""
        self.restart(base_offset)
        self._base_sequence = base_sequence

    def batches_of(
        self, records: Iterable[Record], base_offset: int, *, max_size: int, default_timestamp: int = -1
    ) -> Iterator[BuiltBatch]:
        """Write records to batches of at most `max_size` bytes. Records appended before are lost.

        Other callers must not use the builder until the iterator ends; then it can be used again.

        Args:
            records: The records.
            base_offset: The offset of the first record; offsets and sequences continue from batch to batch.
            max_size: The largest size of a batch, bytes; a larger record gets a batch of its own.
            default_timestamp: The timestamp for records without one, ms.

        Raises:
            ValueError, TypeError: As `extend`.
        """
        settings = self.settings
        room, waiting, left, ratio = max_size - settings.header_size, iter(records), None, 1.0
        # The records of a compressed batch are stored, because it may have to be divided into halves.
        taken: list[Record] | None = None if settings.compression_type is _NONE else []
        self.restart(base_offset)
        self._base_sequence, self.estimated_compression_ratio = settings.base_sequence, 1.0
        while True:
            expected = self.estimated_compression_ratio
            if taken is not None:
                taken, ratio = [], expected * COMPRESSION_RATE_ESTIMATION_FACTOR
            left = self.fill(waiting, room, first=left, ratio=ratio, taken=taken, default_timestamp=default_timestamp)
            count = self.records_count
            if not count:
                return
            if taken is None:
                yield self._built(self.build())
            else:
                yield from self._within(taken, max_size, default_timestamp)
                self.estimated_compression_ratio = _next_ratio(expected, self.estimated_compression_ratio)
            if left is None:
                return
            self.follow(self.last_offset + 1, _following_sequence(self._base_sequence, count))

    def _within(self, records: list[Record], max_size: int, default_timestamp: int) -> Iterator[BuiltBatch]:
        """Yield the batch or, if it did not compress well enough, its halves."""
        batch = self.build()
        if len(batch) <= max_size or len(records) == 1:
            yield self._built(batch)
            return
        half = len(records) // 2
        for start, part in ((0, records[:half]), (half, records[half:])):
            smaller = RecordsBuilder(self.settings)
            smaller.follow(self.base_offset + start, _following_sequence(self._base_sequence, start))
            smaller.extend(part, default_timestamp=default_timestamp)
            yield from smaller._within(part, max_size, default_timestamp)

    def _built(self, batch: bytearray) -> BuiltBatch:
        settings, latest = self.settings, self.max_timestamp
        if settings.timestamp_type is _LOG_APPEND_TIME and settings.magic > 0:
            latest = settings.log_append_time
        return BuiltBatch(batch, self.base_offset, self.last_offset, latest, len(batch))

    def _compressed(self) -> "ReadableBuffer":
        settings = self.settings
        compressed = compress(
            settings.compression_type, self.take(), level=settings.compression_level, magic=settings.magic
        )
        self.estimated_compression_ratio = memoryview(compressed).nbytes / self.size
        return compressed


def _size_field(entry: bytearray) -> int:
    if len(entry) > INT32_MAX:
        raise ValueError(f"a batch of {len(entry)} bytes; at most 2**31 - 1")
    return len(entry) - LOG_OVERHEAD


def _next_ratio(expected: float, found: float) -> float:
    """Return the compression ratio expected of the next batch; it rises quickly and falls slowly, as in Kafka."""
    return max(expected + 0.05, found) if found > expected else max(expected - 0.005, found)


def _following_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` records after `sequence`; 0 follows 2**31 - 1, and -1 (none) stays -1."""
    return (sequence + count) % (INT32_MAX + 1) if sequence >= 0 else sequence
