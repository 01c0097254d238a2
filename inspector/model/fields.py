"""The fields of a segment's bytes as the hex view shows them: those of the library, with their values as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kafkalog.attributes import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    codec_name,
)
from kafkalog.record import fields
from kafkalog.record.control import ControlRecordType
from kafkalog.record.fields import EntryFields, Kind
from kafkalog.record.layout import CODEC_MASK

from .. import text
from .types import BatchRow, Field

if TYPE_CHECKING:
    from .segment import SegmentReader

_VALUE_CHARACTERS = 120
_REST_BYTES = 64


def every_field(reader: SegmentReader, row: BatchRow) -> Iterator[Field]:
    """Iterate over all fields of a batch: `SegmentReader.every_field`."""
    if row.magic is None:
        return iter((_no_batch(row),))
    # It is iterated over while others ask for the fields of other bytes.
    fields_now = EntryFields(reader.read_bytes, row.position, row.size)
    return (_shown(each, row) for each in fields_now.every())


def field_at(reader: SegmentReader, row: BatchRow, position: int) -> Field:
    """Return the field that a byte belongs to: `SegmentReader.field_at`."""
    return _no_batch(row) if row.magic is None else _shown(reader.entry_fields(row).at(position), row)


def position_of_record(reader: SegmentReader, row: BatchRow, number: int) -> int | None:
    """Return where a record of a batch begins; None if it is compressed, or damaged before that record."""
    return None if row.magic is None else reader.entry_fields(row).position_of_record(number)


def _no_batch(row: BatchRow) -> Field:
    return Field("no batch", row.position, row.size, "", row.problem or "", (_name(row),))


def _name(row: BatchRow) -> str:
    return f"batch {row.row}"


def _shown(field: fields.Field, row: BatchRow) -> Field:
    # A record says which batch it is of where its own fields are shown; one by itself does not.
    path = field.path if field.kind == "unknown" and field.path else (_name(row), *field.path)
    return Field(field.name, field.start, field.length, _value(field), field.meaning, path)


def _value(field: fields.Field) -> str:
    if isinstance(field.value, bytes):
        is_rest = field.kind == "rest"
        return field.value[:_REST_BYTES].hex(" ") if is_rest else text.printable(field.value, _VALUE_CHARACTERS)
    if field.value is None:
        return f"{field.length} bytes" if field.kind == "content" else ""
    if field.total is not None:
        total = _timestamp(field.total) if field.kind == "timestamp delta" else str(field.total)
        return f"{field.value} ({total})"
    return _NUMBERS.get(field.kind, str)(field.value)


def _timestamp(value: int) -> str:
    return f"{value} (none)" if value < 0 else f"{value} ({text.time(value)})"


def _batch_attributes(value: int) -> str:
    flags = (
        (TRANSACTIONAL_BIT, "transactional"),
        (CONTROL_BIT, "control"),
        (DELETE_HORIZON_BIT, "delete horizon set"),
    )
    parts = [_codec(value, CompressionType.ZSTD), *(name for bit, name in flags if value & bit)]
    return f"{value:#06x} ({', '.join(parts)})"


def _message_attributes(value: int) -> str:
    return f"{value:#04x} ({_codec(value, CompressionType.LZ4)})"


def _codec(attributes: int, last: CompressionType) -> str:
    codec = attributes & CODEC_MASK
    name = codec_name(codec) if codec <= last else f"unknown codec {codec}"
    return f"{name}, {'LogAppendTime' if attributes & LOG_APPEND_TIME_BIT else 'CreateTime'}"


def _control_type(value: int) -> str:
    kind = ControlRecordType(value)
    return f"{value} ({'unknown' if kind is ControlRecordType.UNKNOWN else kind.name})"


_NUMBERS: dict[Kind, Callable[[int], str]] = {
    "nullable": lambda value: f"{value} (none)" if value == -1 else str(value),
    "length": lambda value: f"{value} (null)" if value < 0 else str(value),
    "checksum": lambda value: f"{value:#010x}",
    "timestamp": _timestamp,
    "batch attributes": _batch_attributes,
    "message attributes": _message_attributes,
    "record attributes": lambda value: f"{value:#04x}",
    "control type": _control_type,
}
