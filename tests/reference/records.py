"""The records of a v2 batch, found where they lie.

varint   length of the rest, to be used up exactly
int8     attributes; Kafka gives them no meaning and does not check them
varlong  timestamp, less the batch's base timestamp
varint   offset, less the batch's base offset
varint   key length, any negative number = null;    then the key
varint   value length, any negative number = null;  then the value
varint   number of headers, each: varint key length, key, varint value length (negative = null), value
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.reference.codes import DamageError, FaultCode
from tests.reference.cursor import Cursor, wrap

LOG_APPEND_TIME = 1
MOST_HEADERS = 2**18


class Place(NamedTuple):
    """Where one record's parts lie: a column of `decode_batches`' block."""

    offset: int
    timestamp: int
    key_start: int
    key_length: int
    value_start: int
    value_length: int
    headers_start: int
    headers_length: int


def decode_v2(places: list[Place], buffer: bytes, row: Any, start: int, end: int) -> None:
    """Appends the records of `buffer[start:end]` to `places`; those before a damage stay there."""
    count = int(row["records_count"])
    if count == 0:
        # Compaction empties a batch and leaves the header; Kafka does not look behind it, whatever is there.
        return
    if count < 0:
        raise DamageError(FaultCode.RECORDS_COUNT, start, 0, count)
    region = Cursor(buffer, start, end)
    for _ in range(count):
        places.append(_record(_body(region), row))
    if region.left:
        raise DamageError(FaultCode.TRAILING_BYTES, region.at, 0, region.left)


def _body(region: Cursor) -> Cursor:
    """The bytes of the next record, which no field of it may leave."""
    at = region.at
    length = region.varint()
    if length < 0:
        raise DamageError(FaultCode.NEGATIVE_LENGTH, at, 0, length)
    start = region.skip(length)
    return Cursor(region.buffer, start, start + length)


def _record(body: Cursor, row: Any) -> Place:
    length = body.left
    body.int8()
    timestamp = wrap(int(row["base_timestamp"]) + body.varlong(), 64)
    if row["timestamp_type"] == LOG_APPEND_TIME:
        timestamp = int(row["max_timestamp"])
    offset = wrap(int(row["base_offset"]) + body.varint(), 64)
    key, value = _nullable(body), _nullable(body)
    headers = _headers(body)
    if body.left:
        raise DamageError(FaultCode.RECORD_LENGTH, body.at, length, length - body.left)
    return Place(offset, timestamp, *key, *value, *headers)


def _nullable(body: Cursor) -> tuple[int, int]:
    """Start and length of a key or value, -1 for null."""
    length = body.varint()
    if length < 0:
        return body.at, -1
    return body.skip(length), length


def _headers(body: Cursor) -> tuple[int, int]:
    at = body.at
    count = body.varint()
    if not 0 <= count <= body.left:
        raise DamageError(FaultCode.HEADER_COUNT, at, body.left, count)
    if count > MOST_HEADERS:
        raise DamageError(FaultCode.TOO_MANY_HEADERS, at, MOST_HEADERS, count)
    start = body.at
    for _ in range(count):
        _header_key(body)
        _nullable(body)
    return start, body.at - start


def _header_key(body: Cursor) -> None:
    at = body.at
    length = body.varint()
    if length < 0:
        raise DamageError(FaultCode.HEADER_KEY_LENGTH, at, 0, length)
    body.skip(length)
