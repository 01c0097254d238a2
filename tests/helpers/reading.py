"""What a reader made of some bytes, set beside what Kafka or the encoder says is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record, RecordBatch, RecordColumns, TimestampType
from kafkalog.errors import KafkaLogError
from kafkalog.record.message_set import MessageSet
from tests.reference.compression import decompressed

Fields: TypeAlias = tuple[Any, ...]
Open: TypeAlias = Callable[[bytes], MessageSet]

TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@dataclass(frozen=True)
class Outcome:
    """All that came out, and what ended it."""

    records: list[Record]
    error: KafkaLogError | None

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


def outcome(records: Iterable[Record]) -> Outcome:
    """Reads on until the end or a damage."""
    found: list[Record] = []
    try:
        found.extend(records)
    except KafkaLogError as error:
        return Outcome(found, error)
    return Outcome(found, None)


def inside(wrapper: RecordBatch) -> ByteBufferMessageSet:
    """The set of messages inside a v0/v1 wrapper that has no key."""
    value = bytes(wrapper._view[34 if wrapper.magic else 26 :])
    return ByteBufferMessageSet(decompressed(value, wrapper.compression_type, wrapper.magic))


def column_records(columns: Iterable[RecordColumns]) -> Iterator[Record]:
    """The records of all columns, one by one, each put together from the arrays alone but for its sequence."""
    for part in columns:
        for i in range(len(part)):
            yield Record(
                part.value(i),
                part.key(i),
                part.headers(i),
                int(part.timestamp[i]),
                offset=int(part.offset[i]),
                timestamp_type=int(part.batches["timestamp_type"][part.batch[i]]),
            )


def memory(data: bytes) -> MessageSet:
    return ByteBufferMessageSet(data)


def in_file(path: Path) -> Open:
    """Writes the bytes to `path` and opens that."""

    def opened(data: bytes) -> MessageSet:
        path.write_bytes(data)
        return FileMessageSet(path)

    return opened


def batch_fields(batch: RecordBatch) -> dict[str, Any]:
    """The batch as the oracle's lines have it, but for the records."""
    return {
        "position": batch.position,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.records_count,
        "codec": batch.compression_type.name.lower(),
        "timestamp_type": batch.timestamp_type,
        "max_timestamp": batch.max_timestamp,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "delete_horizon": batch.delete_horizon_ms,
        "crc": batch.checksum if batch.is_valid else "invalid",
    }


def expected_fields(batch: dict[str, Any]) -> dict[str, Any]:
    """One of the oracle's lines, but for the records."""
    fields = {name: value for name, value in batch.items() if name != "records"}
    return fields | {"timestamp_type": TIMESTAMP_TYPES[batch["timestamp_type"]]}


def record_fields(record: Record) -> Fields:
    """The record as the oracle's lines have it."""
    return record.offset, record.timestamp, record.sequence, record.key, record.value, record.headers


def without_sequence(fields: Iterable[Fields]) -> list[Fields]:
    """Columns keep no sequence."""
    return [(*record[:2], *record[3:]) for record in fields]


def data_records(batches: Iterable[dict[str, Any]]) -> list[Fields]:
    """What a consumer is given: all but control records."""
    return [record for batch in batches if not batch["control"] for record in batch["records"]]


def batch_timestamp_types(batches: Iterable[dict[str, Any]]) -> list[TimestampType]:
    """The timestamp type of each of those records."""
    return [TIMESTAMP_TYPES[b["timestamp_type"]] for b in batches if not b["control"] for _ in b["records"]]
