"""The fields of a segment's bytes as the hex view shows them: those of the library, with their values as text."""

from __future__ import annotations

from collections.abc import Callable

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
from kafkalog.record.fields import Kind
from kafkalog.record.layout import CODEC_MASK

from .. import text
from .types import BatchRow, Field

_VALUE_CHARACTERS = 120
_REST_BYTES = 64


def no_batch(row: BatchRow) -> Field:
    """Return bytes among which there is no batch as one field."""
    return Field("no batch", row.position, row.size, "", row.problem or "", (_name(row),))


def shown(field: fields.Field, row: BatchRow) -> Field:
    """Return a field of a batch, with its value as text."""
    # A record says which batch it is of where its own fields are shown; one by itself does not.
    path = field.path if field.kind == "unknown" and field.path else (_name(row), *field.path)
    return Field(field.name, field.start, field.length, _value(field), field.meaning, path)


def _name(row: BatchRow) -> str:
    return f"batch {row.row}"


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
