"""`RecordsBuilder`: records to the bytes of one batch, with Kafka's rules for what a batch may say.

    v2                        header of 61 bytes | records, compressed or not
    v0/v1, not compressed     message | message | ...                 (each is an entry of its own)
    v0/v1, compressed         wrapper message, its value the compressed messages; its offset the last one's

Nothing is written for a batch without records. Uncompressed batches are byte for byte what Kafka's builder makes of
the same records. Source: clients/.../common/record/MemoryRecordsBuilder.java.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crc32c import crc32c

from kafkalog._speedups.checksum import crc32
from kafkalog._speedups.encoder import RecordsEncoder
from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from kafkalog.record.compressing import checked_level, compress
from kafkalog.record.layout import (
    BATCH_CRC_AT,
    BATCH_CRC_FROM,
    CODEC_MASK,
    LOG_OVERHEAD,
    MESSAGE_CRC_FROM,
    RECORD_BATCH_OVERHEAD,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# base offset, length, leader epoch, magic | crc | the rest, which the CRC covers with the records
_BEFORE_CRC = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_AFTER_CRC = struct.Struct(">hiqqqhii")
# offset, size, crc | magic, attributes, timestamp | key length (-1), value length
_WRAPPER_FRAME = struct.Struct(">qiI")
_WRAPPER_V0 = struct.Struct(">bBii")
_WRAPPER_V1 = struct.Struct(">bBqii")

# How careful Kafka is with its guess of what compressing will make of the records.
COMPRESSION_RATE_ESTIMATION_FACTOR = 1.05


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What a batch says besides its records; -1 = none, as in Kafka.

    log_append_time: ms, with timestamp_type LogAppendTime. delete_horizon_ms: None = not set. compression_level: None
    = the codec's default. ValueError: a combination that Kafka refuses.
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
        if not 0 <= self.magic <= 2:
            raise ValueError(f"magic is {self.magic}, not 0, 1 or 2")
        if self.magic < 2:
            self._refuse_below_magic_2()
        if self.magic > 0 and self.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
            raise ValueError("a timestamp type is needed from magic 1 on")
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME and self.log_append_time < 0:
            raise ValueError("timestamp type LogAppendTime needs a log_append_time of 0 ms or more")
        if self.base_offset < 0:
            raise ValueError(f"base_offset is {self.base_offset}, less than 0")
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
        """Whether the records lie in a v0/v1 wrapper message."""
        return self.magic < 2 and self.compression_type is not CompressionType.NONE

    @property
    def header_size(self) -> int:
        """Bytes before the (compressed) records."""
        if self.magic >= 2:
            return RECORD_BATCH_OVERHEAD
        if not self.is_wrapped:
            return 0
        return _WRAPPER_FRAME.size + (_WRAPPER_V0 if self.magic == 0 else _WRAPPER_V1).size

    @property
    def attributes(self) -> int:
        """The attributes of a v2 batch, or of a wrapper."""
        bits = int(self.compression_type)
        if self.magic > 0 and self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            bits |= LOG_APPEND_TIME_BIT
        bits |= TRANSACTIONAL_BIT if self.is_transactional else 0
        bits |= CONTROL_BIT if self.is_control else 0
        return bits | (DELETE_HORIZON_BIT if self.delete_horizon_ms is not None else 0)


class RecordsBuilder(RecordsEncoder):
    """Records appended one after the other, then `build()`: the bytes of the batch.

    max_size: bytes that the batch should not exceed, as far as that can be told before compressing; one record always
    fits. `append`, `extend`, `size`, `records_count`, `last_offset`, `max_timestamp`: see `RecordsEncoder`.

    One thread at a time may use it. Several at once harm nothing but the batch: offsets twice, or a header that counts
    other records than it has.
    """

    def __init__(self, settings: BatchSettings | None = None, *, max_size: int = 2**31 - 1) -> None:
        self.settings = settings = settings or BatchSettings()
        self.max_size = max_size
        self.estimated_compression_ratio = 1.0
        super().__init__(
            settings.magic,
            settings.base_offset,
            timestamp_type=int(settings.timestamp_type),
            log_append_time=settings.log_append_time,
            relative=settings.magic == 1 and settings.is_wrapped,
            base_timestamp=settings.delete_horizon_ms,
        )

    @property
    def estimated_size(self) -> int:
        """Bytes of the batch so far: exact where nothing is compressed, else by the ratio of earlier batches."""
        if self.settings.compression_type is CompressionType.NONE:
            return self.settings.header_size + self.size
        ratio = self.estimated_compression_ratio * COMPRESSION_RATE_ESTIMATION_FACTOR
        return self.settings.header_size + int(self.size * ratio)

    def has_room_for(
        self,
        value: "ReadableBuffer | None" = None,
        key: "ReadableBuffer | None" = None,
        headers: Iterable[tuple[str, "ReadableBuffer | None"]] = (),
        timestamp: int = -1,
    ) -> bool:
        """Whether one more record stays within `max_size`; the first always does."""
        if self.records_count == 0:
            return True
        return self.estimated_size + self.size_of(value, key, headers, timestamp) <= self.max_size

    def build(self) -> bytearray:
        """The batch; empty where no record was appended. More records may be appended and built again."""
        if self.records_count == 0:
            return bytearray()
        if self.magic >= 2:
            return self._build_batch()
        return self._build_wrapper() if self.settings.is_wrapped else self.take()

    def _build_batch(self) -> bytearray:
        settings = self.settings
        if settings.compression_type is CompressionType.NONE:
            batch = self.take(RECORD_BATCH_OVERHEAD)
        else:
            batch = bytearray(RECORD_BATCH_OVERHEAD)
            batch += self._compressed()
        log_append = settings.timestamp_type is TimestampType.LOG_APPEND_TIME
        _AFTER_CRC.pack_into(
            batch,
            BATCH_CRC_FROM,
            settings.attributes,
            self.last_offset - self.base_offset,
            self.base_timestamp,
            settings.log_append_time if log_append else self.max_timestamp,
            settings.producer_id,
            settings.producer_epoch,
            settings.base_sequence,
            self.records_count,
        )
        finish_batch(batch, self.base_offset, settings.partition_leader_epoch)
        return batch

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
        _WRAPPER_FRAME.pack_into(wrapper, 0, self.last_offset, len(wrapper) - LOG_OVERHEAD, checksum)
        return wrapper

    def _compressed(self) -> "ReadableBuffer":
        settings = self.settings
        compressed = compress(
            settings.compression_type, self.take(), level=settings.compression_level, magic=settings.magic
        )
        self.estimated_compression_ratio = memoryview(compressed).nbytes / self.size
        return compressed


def finish_batch(batch: bytearray, base_offset: int, partition_leader_epoch: int) -> None:
    """Fill in the fields of a v2 batch that its other bytes decide, or that its CRC leaves out."""
    _BEFORE_CRC.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD, partition_leader_epoch, 2)
    _CRC.pack_into(batch, BATCH_CRC_AT, crc32c(memoryview(batch)[BATCH_CRC_FROM:]))


def empty_batch(settings: BatchSettings, *, last_offset: int, max_timestamp: int = -1) -> bytearray:
    """A v2 batch of 61 bytes without records, which keeps an offset range and a producer's state after compaction.

    Kafka: DefaultRecordBatch.writeEmptyHeader. The codec and the delete horizon are lost. ValueError: magic below 2.
    """
    if settings.magic < 2:
        raise ValueError(f"magic {settings.magic} has no batch without records")
    batch = bytearray(RECORD_BATCH_OVERHEAD)
    _AFTER_CRC.pack_into(
        batch,
        BATCH_CRC_FROM,
        settings.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
        last_offset - settings.base_offset,
        -1,
        max_timestamp,
        settings.producer_id,
        settings.producer_epoch,
        settings.base_sequence,
        0,
    )
    finish_batch(batch, settings.base_offset, settings.partition_leader_epoch)
    return batch
