"""The fields of an entry, with their position, value and meaning.

    v2 batch        base offset | length | leader epoch | magic | crc | attributes | ... | records
      record        length | attributes | timestamp delta | offset delta | key | value | headers       varints
    v0, v1 message  offset | size | crc | magic | attributes | (v1) timestamp | key | value

The header is parsed by a table of fields, and uncompressed records one after the other. Lengths are not trusted: a
field that exceeds its entry, or its record, ends the list.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from kafkalog.attributes import CONTROL_BIT, codec_name
from kafkalog.record.control import ControlRecordType
from kafkalog.record.layout import CODEC_MASK, MAGIC_AT, MESSAGE_KEY_AT, RECORD_BATCH_OVERHEAD

# The position of every 64th record is cached, so that parsing can continue from there.
_NOTED_EVERY = 64
_CHUNK_BYTES = 64 << 10
_LONGEST_VARINT = 10
# The largest number of bytes of a key or value in a field.
VALUE_BYTES = 480

# The kind of the value of a field, for callers that show it: a "nullable" of -1 means none, a "length" of -1 null. A
# "content" has other fields inside, unless it is compressed.
Kind: TypeAlias = Literal[
    "number", "nullable", "length", "checksum", "timestamp", "timestamp delta", "offset delta",
    "batch attributes", "message attributes", "record attributes", "control type",
    "bytes", "content", "rest", "unknown",
]  # fmt: skip


class Field(NamedTuple):
    """A field of an entry.

    Attributes:
        name: The name in the protocol, as words.
        start: The position of its first byte in the file.
        length: The length, bytes.
        kind: The kind of `value`.
        value: A number, or the first bytes of a key or value; None: it has no value of its own.
        meaning: The meaning, in words.
        path: The parts of the entry that it belongs to: ("record 0", "header 1").
        total: The offset or the timestamp that a delta leads to; None for other fields.
    """

    name: str
    start: int
    length: int
    kind: Kind
    value: int | bytes | None
    meaning: str
    path: tuple[str, ...] = ()
    total: int | None = None

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.start + self.length


class _Fixed(NamedTuple):
    """A field of a header, which begins where the one before it ends; `code` is its format for `struct`."""

    name: str
    code: str
    meaning: str
    kind: Kind = "number"


_BATCH = (
    _Fixed("base offset", ">q", "offset of the first record; the checksum does not cover it"),
    _Fixed("length", ">i", "bytes of the batch after this field"),
    _Fixed("partition leader epoch", ">i", "epoch of the leader that appended the batch; not under the checksum",
           "nullable"),
    _Fixed("magic", ">b", "format of the batch: 2"),
    _Fixed("crc", ">I", "CRC-32C of all from the attributes to the end of the batch", "checksum"),
    _Fixed("attributes", ">h", "bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon",
           "batch attributes"),
    _Fixed("last offset delta", ">i", "last offset less base offset; compaction leaves it as it was"),
    _Fixed("base timestamp", ">q", "ms that timestamps of records count from, or the delete horizon", "timestamp"),
    _Fixed("max timestamp", ">q", "largest timestamp of the records, ms; the append time with LogAppendTime",
           "timestamp"),
    _Fixed("producer id", ">q", "id of the idempotent producer", "nullable"),
    _Fixed("producer epoch", ">h", "epoch of that producer; a newer one fences it", "nullable"),
    _Fixed("base sequence", ">i", "sequence of the first record, by which repetitions are known", "nullable"),
    _Fixed("records count", ">i", "how many records follow; compaction makes it less than the range of offsets"),
)  # fmt: skip
_MESSAGE_V0 = (
    _Fixed("offset", ">q", "offset of the message; of a compressed one that of the last message inside"),
    _Fixed("size", ">i", "bytes of the message after this field"),
    _Fixed("crc", ">I", "CRC-32 of all from the magic to the end of the message", "checksum"),
    _Fixed("magic", ">b", "format of the message: 0 or 1"),
    _Fixed("attributes", ">b", "bits 0-2 codec, 3 timestamp type (format 1)", "message attributes"),
)
_MESSAGE_V1 = (
    *_MESSAGE_V0,
    _Fixed("timestamp", ">q", "ms; of a compressed message the largest of those inside", "timestamp"),
)


class EntryFields:
    """The fields of one entry. Positions of parsed records are cached."""

    def __init__(self, read: Callable[[int, int], bytes], position: int, size: int) -> None:
        """Parse the header.

        Args:
            read: Called with position and length; returns bytes of the file, fewer at its end.
            position: The position of the entry.
            size: The size of the entry, bytes.
        """
        self._bytes = _Bytes(read, position + size)
        self._position = position
        self._end = position + size
        self._starts = [position + RECORD_BATCH_OVERHEAD]
        self._header = list(self._header_fields())
        values = {field.name: field.value for field in self._header}
        attributes = _number(values.get("attributes"))
        self._is_batch = _number(values.get("magic")) >= 2
        self._codec = attributes & CODEC_MASK
        self._is_control = self._is_batch and bool(attributes & CONTROL_BIT)
        self._base_offset = _number(values.get("base offset"))
        self._base_timestamp = _number(values.get("base timestamp"))
        self._count = max(0, _number(values.get("records count"))) if self._is_batch and not self._codec else 0
        self._body = list(self._body_fields())

    def listed(self, records: int | None = None) -> Iterator[Field]:
        """Yield the fields of the header, then those of records.

        Args:
            records: The number of records; None: all.
        """
        yield from self._header
        yield from self._body
        for record in islice(self._records(0, self._starts[0]), records):
            yield from self._fields_of(record)

    def every(self) -> Iterator[Field]:
        """Yield fields such that each byte of the entry is in exactly one; other bytes are in "unknown" fields."""
        end = self._position
        for field in self.listed():
            if self._is_leaf(field):
                yield from _unknown(end, field.start)
                yield field
                end = field.end
        yield from _unknown(end, self._end)

    def at(self, position: int) -> Field:
        """Return the field that a byte of the entry belongs to."""
        for field in (*self._header, *self._body):
            if field.start <= position < field.end and self._is_leaf(field):
                return field
        number = max(0, bisect_right(self._starts, position) - 1)
        for record in self._records(number * _NOTED_EVERY, self._starts[number]):
            if position < record.end:
                inside = (each for each in self._fields_of(record) if each.start <= position < each.end)
                meaning = "no field of the record is here"
                return next(inside, Field("unknown", position, 1, "unknown", None, meaning, record.path))
        return next(_unknown(position, position + 1))

    def position_of_record(self, number: int) -> int | None:
        """Return the position of a record; None: it is compressed, or damage precedes it."""
        if self._codec:
            return None
        if not self._is_batch:
            return self._position
        noted = min(max(0, number) // _NOTED_EVERY, len(self._starts) - 1)
        for record in self._records(noted * _NOTED_EVERY, self._starts[noted]):
            if record.number == number:
                return record.start
        return None

    def _is_leaf(self, field: Field) -> bool:
        """Return whether a field has no other fields inside."""
        return field.kind != "content" or bool(self._codec)

    # --- header and body

    def _header_fields(self) -> Iterator[Field]:
        with suppress(IndexError):
            magic = self._bytes.integer(self._position + MAGIC_AT, ">b")
            at = self._position
            for each in _BATCH if magic >= 2 else _MESSAGE_V0 if magic == 0 else _MESSAGE_V1:
                length = struct.calcsize(each.code)
                yield Field(each.name, at, length, each.kind, self._bytes.integer(at, each.code), each.meaning)
                at += length

    def _body_fields(self) -> Iterator[Field]:
        with suppress(IndexError):
            if not self._is_batch:
                yield from self._message_fields()
            elif self._starts[0] < self._end:
                meaning = "the records, one after the other"
                if self._codec:
                    codec = codec_name(self._codec)
                    meaning = f"the records, compressed together with {codec}; their fields have no place in the file"
                yield Field("records", self._starts[0], self._end - self._starts[0], "content", None, meaning)

    def _message_fields(self) -> Iterator[Field]:
        magic = self._bytes.integer(self._position + MAGIC_AT, ">b")
        at = self._position + MESSAGE_KEY_AT[max(0, min(magic, 1))]
        inside = "the messages inside, compressed together" if self._codec else "the message's value"
        for name, meaning in (("key", "the message's key"), ("value", inside)):
            length = self._bytes.integer(at, ">i")
            yield Field(f"{name} length", at, 4, "length", length, f"bytes of the {name}; -1 is null")
            at += 4
            if length > 0:
                is_content = bool(self._codec) and name == "value"
                value = None if is_content else self._bytes.take(at, min(length, VALUE_BYTES))
                kind: Kind = "content" if is_content else "bytes"
                yield Field(name, at, min(length, max(0, self._end - at)), kind, value, meaning)
                at += length

    # --- records

    def _records(self, number: int, at: int) -> "Iterator[_Record]":
        """Yield the records from `number` on, by their lengths.

        Args:
            number: The number of the first record.
            at: The position of the first record.
        """
        for i in range(number, self._count):
            try:
                length, prefix = self._bytes.varint(at)
            except IndexError:
                return
            end = at + prefix + length
            if length < 0 or end > self._end:
                return
            if i == len(self._starts) * _NOTED_EVERY:
                self._starts.append(at)
            yield _Record(self._bytes, i, at, end)
            at = end

    def _fields_of(self, record: "_Record") -> list[Field]:
        """Return all fields of a record, up to one that exceeds it."""
        found: list[Field] = []
        with suppress(IndexError):
            found.extend(record.fields(self._base_timestamp, self._base_offset, is_control=self._is_control))
        return [each for each in found if each.end <= record.end]


class _Record:
    """A record of an uncompressed batch, and the parser of its fields."""

    def __init__(self, data: "_Bytes", number: int, start: int, end: int) -> None:
        """Prepare to parse a record.

        Args:
            data: The bytes of the file.
            number: The number of the record in its batch.
            start: The position of its first byte.
            end: The position after its last byte.
        """
        self._bytes = data
        self.number = number
        self.start = start
        self.end = end
        self.path = (f"record {number}",)
        self._at = start
        self._header: tuple[str, ...] = ()
        self._control: ControlRecordType | None = None

    def fields(self, base_timestamp: int, base_offset: int, *, is_control: bool) -> Iterator[Field]:
        """Yield the fields in the order of their positions.

        Args:
            base_timestamp: The base timestamp of the batch, ms.
            base_offset: The base offset of the batch.
            is_control: Whether it is a control record.

        Raises:
            IndexError: A field exceeds the record or the entry.
        """
        self._at = self.start
        yield self._varint("length", "bytes of the record after this field; varint")
        value = self._bytes.take(self._at, 1)[0]
        yield self._field("attributes", 1, "record attributes", value, "no bit of a record's attributes is in use")
        delta = self._varint("timestamp delta", "timestamp less the batch's base timestamp, ms; varint")
        yield delta._replace(kind="timestamp delta", total=base_timestamp + _number(delta.value))
        delta = self._varint("offset delta", "offset less the batch's base offset; varint")
        yield delta._replace(kind="offset delta", total=base_offset + _number(delta.value))
        for name in ("key", "value"):
            yield from self._control_part(name) if is_control else self._part(name, f"the record's {name}")
        yield from self._headers()

    def _field(self, name: str, length: int, kind: Kind, value: int | bytes | None, meaning: str) -> Field:
        field = Field(name, self._at, length, kind, value, meaning, (*self.path, *self._header))
        self._at += length
        return field

    def _varint(self, name: str, meaning: str, kind: Kind = "number") -> Field:
        value, length = self._bytes.varint(self._at)
        return self._field(name, length, kind, value, meaning)

    def _length(self, name: str) -> Field:
        return self._varint(f"{name} length", f"bytes of the {name}, -1 is null; varint", "length")

    def _part(self, name: str, meaning: str) -> Iterator[Field]:
        field = self._length(name)
        yield field
        length = _number(field.value)
        if length > 0:
            if self._at + length > self.end:
                raise IndexError(self._at)
            yield self._field(name, length, "bytes", self._bytes.take(self._at, min(length, VALUE_BYTES)), meaning)

    def _control_part(self, name: str) -> Iterator[Field]:
        field = self._length(name)
        yield field
        length = _number(field.value)
        end = self._at + max(0, length)
        if name == "key" and length >= 4:
            yield self._short("version", "version of the control record's key")
            field = self._short("type", "what the control record says", "control type")
            self._control = ControlRecordType(_number(field.value))
            yield field
        elif name == "value" and length >= 2:
            yield self._short("version", "version of the control record's value")
            if self._control in (ControlRecordType.COMMIT, ControlRecordType.ABORT) and length >= 6:
                epoch = self._bytes.integer(self._at, ">i")
                yield self._field("coordinator epoch", 4, "number", epoch, "epoch of the coordinator that ended it")
        if self._at < end:
            left = end - self._at
            data = self._bytes.take(self._at, min(left, VALUE_BYTES))
            yield self._field(name, left, "rest", data, f"the rest of the {name}")

    def _short(self, name: str, meaning: str, kind: Kind = "number") -> Field:
        return self._field(name, 2, kind, self._bytes.integer(self._at, ">h"), meaning)

    def _headers(self) -> Iterator[Field]:
        field = self._varint("headers count", "how many headers follow; varint")
        yield field
        for number in range(max(0, _number(field.value))):
            self._header = (f"header {number}",)
            yield from self._part("header key", "the header's name, UTF-8")
            yield from self._part("header value", "the header's value")


class _Bytes:
    """Bytes of a file up to `end`, read in chunks. Methods raise IndexError for bytes that do not exist."""

    def __init__(self, read: Callable[[int, int], bytes], end: int) -> None:
        self._read = read
        self._end = end
        self._start = 0
        self._data = b""

    def take(self, position: int, length: int) -> bytes:
        if position < 0 or length < 0 or position + length > self._end:
            raise IndexError(position)
        if not self._start <= position <= position + length <= self._start + len(self._data):
            self._start = position
            self._data = self._read(position, min(max(length, _CHUNK_BYTES), self._end - position))
        data = self._data[position - self._start : position - self._start + length]
        if len(data) < length:
            raise IndexError(position)
        return data

    def integer(self, position: int, code: str) -> int:
        (value,) = struct.unpack(code, self.take(position, struct.calcsize(code)))
        return int(value)

    def varint(self, position: int) -> tuple[int, int]:
        """Return a zigzag varint and its length in bytes."""
        value = 0
        for i, byte in enumerate(self.take(position, min(_LONGEST_VARINT, self._end - position))):
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return value >> 1 ^ -(value & 1), i + 1
        raise IndexError(position)


def _number(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _unknown(start: int, end: int) -> Iterator[Field]:
    if start < end:
        yield Field("unknown", start, end - start, "unknown", None, "no field of the format is here")
