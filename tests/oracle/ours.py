"""What kafkalog reads, in the shape of Kafka's answers (`kafka.py`), so that the two can be laid side by side."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from kafkalog.errors import KafkaLogError
from kafkalog.record.message_set import MessageSet
from kafkalog.record.record_batch import RecordBatch

Answer = dict[str, Any]

FIELDS: dict[str, Callable[[RecordBatch], Any]] = {
    "size": lambda batch: batch.size_in_bytes,
    "magic": lambda batch: batch.magic,
    "base_offset": lambda batch: batch.base_offset,
    "last_offset": lambda batch: batch.last_offset,
    "count": lambda batch: batch.records_count,
    "codec": lambda batch: batch.compression_type.name.lower(),
    "timestamp_type": lambda batch: batch.timestamp_type.label,
    "max_timestamp": lambda batch: batch.max_timestamp,
    "leader_epoch": lambda batch: batch.partition_leader_epoch,
    "producer_id": lambda batch: batch.producer_id,
    "producer_epoch": lambda batch: batch.producer_epoch,
    "base_sequence": lambda batch: batch.base_sequence,
    "last_sequence": lambda batch: batch.last_sequence,
    "transactional": lambda batch: batch.is_transactional,
    "control": lambda batch: batch.is_control,
    "delete_horizon": lambda batch: batch.delete_horizon_ms,
    "crc": lambda batch: batch.checksum,
    "valid": lambda batch: batch.ensure_valid(),
}


def answer(message_set: MessageSet) -> Answer:
    """Everything in a message set, batch by batch."""
    batches, error = _until_error(map(_batch, message_set.batches()))
    return {"batches": batches, "error": error}


def records_of_columns(message_set: MessageSet, threads: int) -> tuple[list[Any], Answer | None]:
    """The records of a message set by its columns, and what ended them."""
    return _until_error(_plain(record) for part in message_set.columns(threads=threads) for record in part)


def records_of_objects(message_set: MessageSet) -> tuple[list[Any], Answer | None]:
    """The records of a message set by iterating, and what ended them."""
    return _until_error(map(_plain, message_set))


def _batch(batch: RecordBatch) -> Answer:
    fields = {name: _field(read, batch) for name, read in FIELDS.items()}
    records, error = _until_error(map(_plain, batch))
    return {"position": batch.position, **fields, "records": records, "error": error}


def _field(read: Callable[[RecordBatch], Any], batch: RecordBatch) -> Any:
    try:
        return read(batch)
    except KafkaLogError as problem:
        return _error(problem)


def _until_error(items: Iterable[Any]) -> tuple[list[Any], Answer | None]:
    found: list[Any] = []
    try:
        for item in items:
            found.append(item)  # noqa: PERF402 - extend would keep nothing of what comes before an error
    except KafkaLogError as problem:
        return found, _error(problem)
    return found, None


def _error(problem: KafkaLogError) -> Answer:
    return {"error": type(problem).__name__, "message": str(problem)}


def _plain(record: Any) -> list[Any]:
    headers = [[_base64(key.encode()), _base64(value)] for key, value in record.headers]
    return [record.offset, record.timestamp, record.sequence, _base64(record.key), _base64(record.value), headers]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
