"""What each byte of a batch is: its fields with place, value and meaning.

    v2 batch        base offset | length | leader epoch | magic | crc | attributes | ... | records
      record        length | attributes | timestamp delta | offset delta | key | value | headers       varints
    v0, v1 message  offset | size | crc | magic | attributes | (v1) timestamp | key | value

The header lies in a table; records are stepped through where they are not compressed. Nothing is trusted: a field that
leaves its batch ends the list.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from inspector import text
from inspector.reading.answers import BatchRow, Field
from kafkalog import CompressionType
from kafkalog.record.control import ControlRecordType

if TYPE_CHECKING:
    from inspector.reading.batches import SegmentReader

# Records of one batch whose fields are listed; `field_at` finds those of any.
LISTED_RECORDS = 100
_MARKED_EVERY = 64
_CHUNK_BYTES = 64 << 10
_VALUE_CHARACTERS = 120
_LONGEST_VARINT = 10
_TRANSACTIONAL, _CONTROL, _HORIZON, _APPEND_TIME = 0x10, 0x20, 0x40, 0x08


class _Fixed(NamedTuple):
    """A field of a header: where it lies in its batch, as what, and what it means."""

    name: str
    at: int
    code: str
    meaning: str
    show: Callable[[int], str] = str


def _hexadecimal(value: int) -> str:
    return f"{value:#010x}"


def _or_none(value: int) -> str:
    return f"{value} (none)" if value == -1 else str(value)


def _timestamp(value: int) -> str:
    return f"{value} (none)" if value < 0 else f"{value} ({text.time(value)})"


def _attributes(value: int) -> str:
    codec = value & 7
    parts = [CompressionType(codec).name.lower() if codec <= CompressionType.ZSTD else f"unknown codec {codec}"]
    parts.append("LogAppendTime" if value & _APPEND_TIME else "CreateTime")
    flags = ((_TRANSACTIONAL, "transactional"), (_CONTROL, "control"), (_HORIZON, "delete horizon set"))
    parts += [name for bit, name in flags if value & bit]
    return f"{value:#06x} ({', '.join(parts)})"


def _message_attributes(value: int) -> str:
    codec = value & 7
    name = CompressionType(codec).name.lower() if codec <= CompressionType.LZ4 else f"unknown codec {codec}"
    return f"{value:#04x} ({name}, {'LogAppendTime' if value & _APPEND_TIME else 'CreateTime'})"


_BATCH = (
    _Fixed("base offset", 0, ">q", "offset of the first record; the checksum does not cover it"),
    _Fixed("length", 8, ">i", "bytes of the batch after this field"),
    _Fixed("partition leader epoch", 12, ">i", "epoch of the leader that appended the batch; not under the checksum",
           _or_none),
    _Fixed("magic", 16, ">b", "format of the batch: 2"),
    _Fixed("crc", 17, ">I", "CRC-32C of all from the attributes to the end of the batch", _hexadecimal),
    _Fixed("attributes", 21, ">h", "bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon",
           _attributes),
    _Fixed("last offset delta", 23, ">i", "last offset less base offset; compaction leaves it as it was"),
    _Fixed("base timestamp", 27, ">q", "ms that timestamps of records count from, or the delete horizon", _timestamp),
    _Fixed("max timestamp", 35, ">q", "largest timestamp of the records, ms; the append time with LogAppendTime",
           _timestamp),
    _Fixed("producer id", 43, ">q", "id of the idempotent producer", _or_none),
    _Fixed("producer epoch", 51, ">h", "epoch of that producer; a newer one fences it", _or_none),
    _Fixed("base sequence", 53, ">i", "sequence of the first record, by which repetitions are known", _or_none),
    _Fixed("records count", 57, ">i", "how many records follow; compaction makes it less than the range of offsets"),
)  # fmt: skip
_MESSAGE = (
    _Fixed("offset", 0, ">q", "offset of the message; of a compressed one that of the last message inside"),
    _Fixed("size", 8, ">i", "bytes of the message after this field"),
    _Fixed("crc", 12, ">I", "CRC-32 of all from the magic to the end of the message", _hexadecimal),
    _Fixed("magic", 16, ">b", "format of the message: 0 or 1"),
    _Fixed("attributes", 17, ">b", "bits 0-2 codec, 3 timestamp type (format 1)", _message_attributes),
)
_MESSAGE_TIMESTAMP = _Fixed(
    "timestamp", 18, ">q", "ms; of a compressed message the largest of those inside", _timestamp
)
_BATCH_HEADER_BYTES = 61


class _Chunks:
    """Bytes of the file [.., end), taken in pieces."""

    def __init__(self, reader: SegmentReader, end: int) -> None:
        self._reader = reader
        self.end = end
        self._start = 0
        self._data = b""

    def take(self, position: int, length: int) -> bytes:
        """The bytes there; IndexError: the batch has none."""
        if position < 0 or length < 0 or position + length > self.end:
            raise IndexError(position)
        if not self._start <= position <= position + length <= self._start + len(self._data):
            self._start = position
            self._data = self._reader.read_bytes(position, min(max(length, _CHUNK_BYTES), self.end - position))
        data = self._data[position - self._start : position - self._start + length]
        if len(data) < length:
            raise IndexError(position)
        return data

    def varint(self, position: int) -> tuple[int, int]:
        """A zigzag varint, and how many bytes it takes."""
        value = 0
        for i, byte in enumerate(self.take(position, min(_LONGEST_VARINT, self.end - position))):
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return value >> 1 ^ -(value & 1), i + 1
        raise IndexError(position)


class Walked:
    """Where every so many records of one batch begin: that which was stepped through last, to go on from there."""

    def __init__(self) -> None:
        self._batch: BatchRow | None = None
        self._starts: list[int] = []

    def clear(self) -> None:
        """Other bytes are there now."""
        self._batch = None

    def before(self, row: BatchRow, position: int) -> tuple[int, int]:
        """The number of a record, and where it begins: none known lies nearer before `position`."""
        starts = self._of(row)
        i = max(0, bisect_right(starts, position) - 1)
        return i * _MARKED_EVERY, starts[i]

    def before_number(self, row: BatchRow, number: int) -> tuple[int, int]:
        """The same, before a record by its number."""
        starts = self._of(row)
        i = min(max(0, number) // _MARKED_EVERY, len(starts) - 1)
        return i * _MARKED_EVERY, starts[i]

    def _of(self, row: BatchRow) -> list[int]:
        if row != self._batch:
            self._batch, self._starts = row, [row.position + _BATCH_HEADER_BYTES]
        return self._starts

    def passed(self, record: _Record) -> None:
        """A record has been stepped through."""
        if record.number == len(self._starts) * _MARKED_EVERY:
            self._starts.append(record.start)


def fields_of(reader: SegmentReader, row: BatchRow) -> tuple[Field, ...]:
    """See `SegmentReader.fields`."""
    return tuple(_fields(reader, row, LISTED_RECORDS))


def every_field(reader: SegmentReader, row: BatchRow) -> Iterator[Field]:
    """See `SegmentReader.every_field`."""
    end = row.position
    for field in _fields(reader, row, None):
        if _is_whole(field, row):
            yield from _unknown(end, field.start, row)
            yield field
            end = field.end
    yield from _unknown(end, row.position + row.size, row)


def _unknown(start: int, end: int, row: BatchRow) -> Iterator[Field]:
    if start < end:
        yield Field("unknown", start, end - start, "", "no field of the format is here", (_name(row),))


def _fields(reader: SegmentReader, row: BatchRow, most: int | None) -> Iterator[Field]:
    """The header's, then those of the first records."""
    chunks = _Chunks(reader, row.position + row.size)
    yield from _header(chunks, row)
    if row.magic is not None and row.magic >= 2:
        for record in islice(_records(chunks, row, 0, row.position + _BATCH_HEADER_BYTES), most):
            yield from record.fields(chunks, row)


def _is_whole(field: Field, row: BatchRow) -> bool:
    """Whether no other fields lie in this one."""
    return field.name != "records" or row.codec != "none"


def field_at(reader: SegmentReader, row: BatchRow, position: int) -> Field | None:
    """See `SegmentReader.field_at`."""
    chunks = _Chunks(reader, row.position + row.size)
    for field in _header(chunks, row):
        if field.start <= position < field.end and _is_whole(field, row):
            return field
    if row.magic is None or row.magic < 2:
        return next(_unknown(position, position + 1, row))
    for record in _records(chunks, row, *reader.walked.before(row, position)):
        reader.walked.passed(record)
        if position < record.end:
            inside = (each for each in record.fields(chunks, row) if each.start <= position < each.end)
            return next(inside, record.unknown(position))
    return next(_unknown(position, position + 1, row))


def position_of_record(reader: SegmentReader, row: BatchRow, number: int) -> int | None:
    """Where record `number` of a batch begins; None where it is compressed, or its batch is damaged before it."""
    if row.magic is None or row.codec != "none":
        return None
    if row.magic < 2:
        return row.position
    chunks = _Chunks(reader, row.position + row.size)
    for record in _records(chunks, row, *reader.walked.before_number(row, number)):
        reader.walked.passed(record)
        if record.number == number:
            return record.start
    return None


def _name(row: BatchRow) -> str:
    return f"batch {row.row}"


def _header(chunks: _Chunks, row: BatchRow) -> Iterator[Field]:
    if row.magic is None:
        yield Field("no batch", row.position, row.size, "", row.problem or "", (_name(row),))
        return
    fixed = _BATCH if row.magic >= 2 else _MESSAGE if row.magic == 0 else (*_MESSAGE, _MESSAGE_TIMESTAMP)
    try:
        for each in fixed:
            yield _fixed_field(chunks, each, row)
        if row.magic < 2:
            yield from _message_body(chunks, row)
        elif row.position + _BATCH_HEADER_BYTES < chunks.end:
            yield _records_field(row)
    except IndexError:
        return


def _fixed_field(chunks: _Chunks, each: _Fixed, row: BatchRow) -> Field:
    length = struct.calcsize(each.code)
    (value,) = struct.unpack(each.code, chunks.take(row.position + each.at, length))
    return Field(each.name, row.position + each.at, length, each.show(value), each.meaning, (_name(row),))


def _records_field(row: BatchRow) -> Field:
    start = row.position + _BATCH_HEADER_BYTES
    length = row.position + row.size - start
    if row.codec == "none":
        return Field("records", start, length, f"{length} bytes", "the records, one after the other", (_name(row),))
    meaning = f"the records, compressed together with {row.codec}; their fields have no place in the file"
    return Field("records", start, length, f"{length} bytes", meaning, (_name(row),))


def _message_body(chunks: _Chunks, row: BatchRow) -> Iterator[Field]:
    at = row.position + (18 if row.magic == 0 else 26)
    compressed = row.codec != "none"
    meaning = "the messages inside, compressed together" if compressed else "the message's value"
    for name, what in (("key", "the message's key"), ("value", meaning)):
        length = int.from_bytes(chunks.take(at, 4), "big", signed=True)
        shown = f"{length} (null)" if length < 0 else str(length)
        yield Field(f"{name} length", at, 4, shown, f"bytes of the {name}; -1 is null", (_name(row),))
        at += 4
        if length > 0:
            value = f"{length} bytes" if compressed and name == "value" else _bytes(chunks, at, length)
            yield Field(name, at, min(length, max(0, chunks.end - at)), value, what, (_name(row),))
            at += length


def _bytes(chunks: _Chunks, position: int, length: int) -> str:
    return text.printable(chunks.take(position, min(length, 4 * _VALUE_CHARACTERS)), _VALUE_CHARACTERS)


class _Record(NamedTuple):
    """A record of a batch that is not compressed: its number, where it begins and ends, and its length's varint."""

    number: int
    start: int
    end: int
    length: int
    prefix: int

    def unknown(self, position: int) -> Field:
        """A byte of the record that is none of its fields."""
        return Field("unknown", position, 1, "", "no field of the record is here", (f"record {self.number}",))

    def fields(self, chunks: _Chunks, row: BatchRow) -> list[Field]:
        """All fields, up to one that leaves the record."""
        found: list[Field] = []
        with suppress(IndexError):
            found.extend(_Walk(chunks, row, self).fields())
        return [each for each in found if each.end <= self.end]


def _records(chunks: _Chunks, row: BatchRow, first: int, at: int) -> Iterator[_Record]:
    """Where each record is, as their lengths say, from one on that begins at `at`."""
    if row.codec != "none":
        return
    for number in range(first, max(0, row.records or 0)):
        try:
            length, prefix = chunks.varint(at)
        except IndexError:
            return
        end = at + prefix + length
        if length < 0 or end > chunks.end:
            return
        yield _Record(number, at, end, length, prefix)
        at = end


class _Walk:
    """Through the fields of one record."""

    def __init__(self, chunks: _Chunks, row: BatchRow, record: _Record) -> None:
        self._chunks = chunks
        self._row = row
        self._record = record
        self._at = record.start
        self._path: tuple[str, ...] = (_name(row), f"record {record.number}")

    def fields(self) -> Iterator[Field]:
        """In the order in which they lie."""
        yield self._integer("length", "bytes of the record after this field")[1]
        yield self._attributes()
        for name, base, show, meaning in (
            ("timestamp delta", self._base_timestamp(), _timestamp, "timestamp less the batch's base timestamp, ms"),
            ("offset delta", self._row.base_offset or 0, str, "offset less the batch's base offset"),
        ):
            value, field = self._integer(name, meaning)
            yield _with_value(field, f"{value} ({show(base + value)})")
        is_control = self._row.kind == "control" or self._row.control is not None
        yield from self._control_part("key") if is_control else self._part("key", "the record's key")
        yield from self._control_part("value") if is_control else self._part("value", "the record's value")
        yield from self._headers()

    def _base_timestamp(self) -> int:
        return int.from_bytes(self._chunks.take(self._row.position + 27, 8), "big", signed=True)

    def _field(self, name: str, length: int, value: str, meaning: str) -> Field:
        field = Field(name, self._at, length, value, meaning, self._path)
        self._at += length
        return field

    def _integer(self, name: str, meaning: str) -> tuple[int, Field]:
        value, length = self._chunks.varint(self._at)
        return value, self._field(name, length, str(value), f"{meaning}; varint")

    def _attributes(self) -> Field:
        value = self._chunks.take(self._at, 1)[0]
        return self._field("attributes", 1, f"{value:#04x}", "no bit of a record's attributes is in use")

    def _length(self, name: str) -> tuple[int, Field]:
        length, field = self._integer(f"{name} length", f"bytes of the {name}, -1 is null")
        return length, _with_value(field, f"{length} (null)") if length < 0 else field

    def _part(self, name: str, meaning: str) -> Iterator[Field]:
        length, field = self._length(name)
        yield field
        if length > 0:
            if self._at + length > self._record.end:
                raise IndexError(self._at)
            yield self._field(name, length, _bytes(self._chunks, self._at, length), meaning)

    def _control_part(self, name: str) -> Iterator[Field]:
        length, field = self._length(name)
        yield field
        end = self._at + max(0, length)
        if name == "key" and length >= 4:
            yield self._short("version", "version of the control record's key")
            yield self._control_type()
        elif name == "value" and length >= 2:
            yield self._short("version", "version of the control record's value")
            if self._row.control in ("COMMIT", "ABORT") and length >= 6:
                epoch = int.from_bytes(self._chunks.take(self._at, 4), "big", signed=True)
                yield self._field("coordinator epoch", 4, str(epoch), "epoch of the coordinator that ended it")
        if self._at < end:
            left = end - self._at
            yield self._field(
                name, left, self._chunks.take(self._at, min(left, 64)).hex(" "), f"the rest of the {name}"
            )

    def _short(self, name: str, meaning: str) -> Field:
        value = int.from_bytes(self._chunks.take(self._at, 2), "big", signed=True)
        return self._field(name, 2, str(value), meaning)

    def _control_type(self) -> Field:
        value = int.from_bytes(self._chunks.take(self._at, 2), "big", signed=True)
        known = value in {each.value for each in ControlRecordType} and value >= 0
        name = ControlRecordType(value).name if known else "unknown"
        return self._field("type", 2, f"{value} ({name})", "what the control record says")

    def _headers(self) -> Iterator[Field]:
        count, field = self._integer("headers count", "how many headers follow")
        yield field
        path = self._path
        for number in range(max(0, count)):
            self._path = (*path, f"header {number}")
            yield from self._part("header key", "the header's name, UTF-8")
            yield from self._part("header value", "the header's value")
        self._path = path


def _with_value(field: Field, value: str) -> Field:
    return Field(field.name, field.start, field.length, value, field.explanation, field.path)
