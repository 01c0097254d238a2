"""The shapes of the JSON that all commands print. Their schema is docs/schema/kafkalog-2.json.

    record       offset timestamp timestamp_type key value headers [{key, value}]       names of `Record`
                 producer_id producer_epoch sequence        if its batch has a producer id
                 transaction_state                          if it is part of a transaction
    batch        path position size_in_bytes magic base_offset last_offset ...          names of `RecordBatch`
    segment      base_offset end_offset size_in_bytes batches records ...
    partition    topic partition log_start_offset log_end_offset size_in_bytes ...      names of `Log`
    finding      severity code path message position ...                                names of `Finding`

An absent or unknown value is null; Kafka and the Python objects have -1. Bytes that are UTF-8 are a string; others are
base64, and a field beside them says so: "value_encoding": "base64". Times are ms since the epoch.

`version` rises when a field is removed or changes its meaning. New fields, and new codes of findings, do not raise it.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kafkalog.cli.output import LARGE_BYTES, PIECE_BYTES, is_text, path_text, rfc3339, texts
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.findings import Summary as Check
from kafkalog.storage.file_names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from kafkalog import Record
    from kafkalog.cli.log_source import BatchFacts, Located
    from kafkalog.scan.summary import SegmentSummary

JSON_VERSION = 2
# The fields of a batch, in this order.
BATCH_FIELDS = (
    "path", "position", "size_in_bytes", "magic", "base_offset", "last_offset", "records_count", "compression_type",
    "timestamp_type", "base_timestamp", "max_timestamp", "delete_horizon_ms", "partition_leader_epoch", "producer_id",
    "producer_epoch", "base_sequence", "last_sequence", "is_transactional", "is_control", "checksum", "is_valid",
    "control", "error",
)  # fmt: skip


class LargeText:
    """The text of so many bytes that it is encoded in pieces. Iterating gives them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.is_text = is_text(data)

    def __iter__(self) -> Iterator[bytes]:
        import msgspec

        yield b'"'
        if self.is_text:
            for text in texts(self._data):
                yield msgspec.json.encode(text)[1:-1]
        else:
            for start in range(0, len(self._data), PIECE_BYTES):
                yield b64encode(self._data[start : start + PIECE_BYTES])
        yield b'"'


def pieces_of(document: object) -> Iterator[bytes]:
    """Encode one document, which may have `LargeText`, in pieces."""
    import msgspec

    match document:
        case dict():
            yield b"{"
            for i, (name, value) in enumerate(document.items()):
                yield (b"," if i else b"") + msgspec.json.encode(name) + b":"
                yield from pieces_of(value)
            yield b"}"
        case list():
            yield b"["
            for i, value in enumerate(document):
                yield b"," if i else b""
                yield from pieces_of(value)
            yield b"]"
        case LargeText():
            yield from document
        case _:
            yield msgspec.json.encode(document)


def text_of(document: object, indent: int = 0) -> str:
    """Encode one document: as one line without `indent`, else indented by so many spaces."""
    import msgspec

    encoded = msgspec.json.encode(document)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode("utf-8")


def known(value: int | None) -> int | None:
    """Return a value from Kafka, or None for -1, which means none."""
    return None if value == -1 else value


def of_bytes(name: str, data: bytes | None) -> dict[str, Any]:
    """Return the field `name` with the data and, if the data is not UTF-8, the field that names its encoding.

    Large data is a `LargeText`.
    """
    if data is None:
        return {name: None}
    if len(data) > LARGE_BYTES:
        large = LargeText(data)
        return {name: large} if large.is_text else {name: large, f"{name}_encoding": "base64"}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: b64encode(data).decode("ascii"), f"{name}_encoding": "base64"}


def of_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    """Return the headers of a record."""
    return [{"key": key, **of_bytes("value", value)} for key, value in headers]


def of_record(record: Record) -> dict[str, Any]:
    """Return the fields of a record."""
    return {
        "offset": record.offset,
        "timestamp": known(record.timestamp),
        "timestamp_type": record.timestamp_type.label,
        **of_bytes("key", record.key),
        **of_bytes("value", record.value),
        "headers": of_headers(record.headers),
    }


def of_producer(producer_id: int, producer_epoch: int, sequence: int, state: str) -> dict[str, Any]:
    """Return the fields of a record about its producer and transaction, if its batch has a producer id."""
    if producer_id < 0:
        return {}
    known_fields = {"producer_id": producer_id, "producer_epoch": known(producer_epoch), "sequence": known(sequence)}
    return {**known_fields, "transaction_state": state} if state else known_fields


def of_control(record: Record) -> dict[str, Any]:
    """Return the fields of a control record; if it does not follow the format, `error` says what is wrong."""
    from kafkalog.record.control import control_type, decode_control

    try:
        kind, type_id = control_type(record.key)
        content = asdict(decode_control(record))
    except KafkaLogError as error:
        return {"type": None, "error": str(error)}
    content.pop("type", None)
    return {"type": kind.name, "type_id": type_id, **content}


def of_batch(located: Located, facts: BatchFacts) -> dict[str, Any]:
    """Return the fields of a batch."""
    batch = located.batch
    values = (
        path_text(located.path), batch.position, batch.size_in_bytes, batch.magic, facts.base_offset, batch.last_offset,
        batch.records_count, facts.codec, batch.timestamp_type.label, known(batch.base_timestamp),
        known(batch.max_timestamp), batch.delete_horizon_ms, known(batch.partition_leader_epoch),
        known(batch.producer_id), known(batch.producer_epoch), known(batch.base_sequence), known(batch.last_sequence),
        batch.is_transactional, batch.is_control, batch.checksum, facts.error is None,
        [{"offset": record.offset, **of_control(record)} for record in facts.control] if batch.is_control else None,
        None if facts.error is None else path_text(str(facts.error)),
    )  # fmt: skip
    return dict(zip(BATCH_FIELDS, values, strict=True))


def of_ranges(ranges: Iterable[tuple[int | None, int | None]]) -> list[dict[str, int | None]]:
    """Return ranges of offsets, given the first and the last one of each."""
    return [{"first_offset": first, "last_offset": last} for first, last in ranges]


def of_place(path: str | PathLike[str], partition: TopicPartition | None) -> dict[str, Any]:
    """Return the path of a partition, a segment or a file, and the partition that it belongs to."""
    return {
        "path": path_text(path),
        "topic": None if partition is None else path_text(partition.topic),
        "partition": None if partition is None else partition.partition,
    }


def of_counts(summary: SegmentSummary) -> dict[str, Any]:
    """Return the counts and times from the headers of a partition, a segment or a file."""
    return {
        "batches": summary.batches,
        "control_batches": summary.control_batches,
        "control_records": summary.control_records,
        "deleted_records": summary.deleted_records,
        "records": summary.records,
        "records_exact": summary.records is not None,
        "records_min": summary.records_min,
        "records_max": summary.records_max,
        "first_timestamp": known(summary.first_timestamp),
        "first_time": rfc3339(summary.first_timestamp),
        "last_timestamp": known(summary.last_timestamp),
        "last_time": rfc3339(summary.last_timestamp),
        "compression_types": dict(summary.codecs),
        "magics": sorted(summary.magics),
    }


def of_summary(summary: SegmentSummary, kind: str) -> dict[str, Any]:
    """Return the JSON fields of a partition, a segment or a file in the output of `ls`.

    Args:
        summary: Its summary.
        kind: "partition", "segment" or "file".
    """
    start, end = ("log_start_offset", "log_end_offset") if kind == "partition" else ("base_offset", "end_offset")
    return {
        "segments": summary.segments,
        "size_in_bytes": summary.size_in_bytes,
        start: summary.start_offset,
        end: summary.end_offset,
        **of_counts(summary),
        "tail": summary.tail,
        "tail_bytes": summary.tail_size,
        "errors": [path_text(str(error)) for error in summary.errors],
    }


def of_finding(finding: Finding) -> dict[str, Any]:
    """Return the fields of a finding."""
    return _named(finding.as_dict())


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields whose texts may contain names of files, with these as text for JSON."""
    return {name: path_text(value) if isinstance(value, str) else value for name, value in fields.items()}


def of_check(check: Check, *, deep: bool) -> dict[str, Any]:
    """Return the counts of a check; only a `deep` check counts records."""
    counts = check.as_dict()
    verdicts = [_named(verdict) for verdict in counts["verdicts"]]
    return {"deep": deep, **counts, "verdicts": verdicts, **({} if deep else {"records": None})}


def of_appended(directory: str | PathLike[str], first: int, end: int) -> dict[str, Any]:
    """Return the report of a command that appended the records first <= offset < end."""
    return {
        "version": JSON_VERSION,
        "path": path_text(directory),
        "records": end - first,
        "first_offset": first if first < end else None,
        "last_offset": end - 1 if first < end else None,
    }
