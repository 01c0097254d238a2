"""Records and batches that were read, in the form of what Kafka or the encoder says is in the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kafkalog import ByteBufferMessageSet, FileMessageSet, Record, RecordBatch, RecordColumns, TimestampType
from kafkalog.errors import KafkaLogError
from kafkalog.record.message_set import MessageSet

Fields: TypeAlias = tuple[Any, ...]
Open: TypeAlias = Callable[[bytes], MessageSet]

TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@dataclass(frozen=True)
class Outcome:
    """The records that were read, and the error that ended reading."""

    records: list[Record]
    error: KafkaLogError | None

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]


def outcome(records: Iterable[Record]) -> Outcome:
    """Read to the end or to the first error."""
    found: list[Record] = []
    try:
        found.extend(records)
    except KafkaLogError as error:
        return Outcome(found, error)
    return Outcome(found, None)


def column_records(columns: Iterable[RecordColumns]) -> Iterator[Record]:
    """Yield the records of all columns, each made of the arrays alone; columns have no sequences."""
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
    """Return a function that writes bytes to `path` and opens it."""

    def opened(data: bytes) -> MessageSet:
        path.write_bytes(data)
        return FileMessageSet(path)

    return opened


def batch_fields(batch: RecordBatch) -> dict[str, Any]:
    """Return the batch in the form of the expectations, without the records."""
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
    """Return an expected batch without the records."""
    fields = {name: value for name, value in batch.items() if name != "records"}
    return fields | {"timestamp_type": TIMESTAMP_TYPES[batch["timestamp_type"]]}


def record_fields(record: Record) -> Fields:
    """Return the record in the form of the expectations."""
    return record.offset, record.timestamp, record.sequence, record.key, record.value, record.headers


def without_sequence(fields: Iterable[Fields]) -> list[Fields]:
    """Return the fields of records without the sequence, which columns do not have."""
    return [(*record[:2], *record[3:]) for record in fields]


def data_records(batches: Iterable[dict[str, Any]]) -> list[Fields]:
    """Return the records that a consumer gets: all but control records."""
    return [record for batch in batches if not batch["control"] for record in batch["records"]]


def batch_timestamp_types(batches: Iterable[dict[str, Any]]) -> list[TimestampType]:
    """Return the timestamp type of each of those records."""
    return [TIMESTAMP_TYPES[b["timestamp_type"]] for b in batches if not b["control"] for _ in b["records"]]
