"""Serializers and deserializers of keys and values.

    text      UTF-8
    JSON      UTF-8 text of one JSON value, without spaces
    int32     4 bytes, big-endian
    int64     8 bytes, big-endian
    bytes     unchanged

The bytes are those of Kafka's serializers of these names. A serializer is any callable from a value to bytes or None, a
deserializer any callable in the other direction. Null (None) stays null in both directions.
Source: `clients/.../common/serialization/*.java`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kafkalog._speedups.arguments import instance
from kafkalog._speedups.record import Record
from kafkalog.attributes import TimestampType
from kafkalog.errors import SerializationError

Key = TypeVar("Key")
Value = TypeVar("Value")
Meant = TypeVar("Meant")
Given = TypeVar("Given")
Turned = TypeVar("Turned")

Serializer = Callable[[Meant], bytes | None]
Deserializer = Callable[[bytes | None], Meant]

Headers = tuple[tuple[str, bytes | None], ...]


class DecodedRecord(msgspec.Struct, Generic[Key, Value], frozen=True, kw_only=True):
    """A `Record` with deserialized key and value. Immutable, picklable.

    It has the fields of `Record`, in the same order. It is made with keywords only, and is no tuple.

    Attributes:
        value: The result of the deserializer of values.
        key: The result of the deserializer of keys.
        headers: A tuple of pairs: the key as text, the value as bytes or None.
        timestamp: Milliseconds since the epoch; -1 = none.
        offset: The offset in the partition; -1 = not yet in a log.
        timestamp_type: Who set the timestamp.
        sequence: The sequence of an idempotent producer; -1 = none.
    """

    value: Value
    key: Key
    headers: Headers = ()
    timestamp: int = -1
    offset: int = -1
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    sequence: int = -1


Encodable: TypeAlias = (
    tuple[Key, Value]
    | tuple[Key, Value, Iterable[tuple[str, bytes | None]]]
    | tuple[Key, Value, Iterable[tuple[str, bytes | None]], int]
    | DecodedRecord[Key, Value]
)


# --- one key or value


def serialize_bytes(meant: bytes | bytearray | memoryview | None) -> bytes | None:
    """Return the bytes unchanged.

    Raises:
        SerializationError: `meant` is not bytes, bytearray or memoryview.
    """
    if meant is None or isinstance(meant, bytes | bytearray | memoryview):
        return None if meant is None else bytes(meant)
    raise _conversion_error("bytes", meant)


def deserialize_bytes(data: bytes | None) -> bytes | None:
    """Return the bytes unchanged."""
    return data


def serialize_text(meant: str | None) -> bytes | None:
    """Encode text as UTF-8.

    Raises:
        SerializationError: `meant` is not text, or contains a half of a surrogate pair.
    """
    if meant is None:
        return None
    if not isinstance(meant, str):
        raise _conversion_error("text", meant)
    try:
        return meant.encode()
    except UnicodeEncodeError as error:
        raise _conversion_error("UTF-8 text", meant) from error


def deserialize_text(data: bytes | None) -> str | None:
    """Decode UTF-8 text.

    Raises:
        SerializationError: The bytes are not UTF-8.
    """
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise _conversion_error("UTF-8 text", data) from error


def serialize_json(meant: Any) -> bytes | None:
    """Encode a JSON value as UTF-8; None is null, not the text `null`.

    Raises:
        SerializationError: JSON has no such value.
    """
    if meant is None:
        return None
    try:
        return json.dumps(meant, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _conversion_error("a JSON value", meant) from error


def deserialize_json(data: bytes | None) -> Any:
    """Decode a JSON value from UTF-8.

    Raises:
        SerializationError: The bytes are not JSON; NaN and Infinity are not JSON either.
    """
    try:
        return None if data is None else json.loads(data.decode(), parse_constant=_reject_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _conversion_error("a JSON value", data) from error


def serialize_int32(meant: int | None) -> bytes | None:
    """Encode a whole number in 4 bytes, big-endian.

    Raises:
        SerializationError: `meant` is not a whole number, or is out of range.
    """
    return _serialized_int(meant, 4)


def deserialize_int32(data: bytes | None) -> int | None:
    """Decode a whole number from 4 bytes, big-endian.

    Raises:
        SerializationError: There are not 4 bytes.
    """
    return _deserialized_int(data, 4)


def serialize_int64(meant: int | None) -> bytes | None:
    """Encode a whole number in 8 bytes, big-endian.

    Raises:
        SerializationError: `meant` is not a whole number, or is out of range.
    """
    return _serialized_int(meant, 8)


def deserialize_int64(data: bytes | None) -> int | None:
    """Decode a whole number from 8 bytes, big-endian.

    Raises:
        SerializationError: There are not 8 bytes.
    """
    return _deserialized_int(data, 8)


def serialize_none(meant: None) -> None:
    """Return None.

    Raises:
        SerializationError: `meant` is not None.
    """
    if meant is not None:
        raise _conversion_error("null", meant)


def deserialize_none(data: bytes | None) -> None:
    """Return None, whatever the bytes are; for keys or values that are not needed."""


def _serialized_int(meant: object, size: int) -> bytes | None:
    if meant is None:
        return None
    if not isinstance(meant, int) or isinstance(meant, bool):
        raise _conversion_error("a whole number", meant)
    try:
        return meant.to_bytes(size, "big", signed=True)
    except OverflowError as error:
        raise _conversion_error(f"a whole number of {8 * size} bits", meant) from error


def _deserialized_int(data: bytes | None, size: int) -> int | None:
    if data is None:
        return None
    if len(data) != size:
        message = "cannot convert bytes to a whole number"
        raise SerializationError(message, expected=f"{size} bytes", found=f"{len(data)} bytes")
    return int.from_bytes(data, "big", signed=True)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is out of the range of a float")
    return number


def _reject_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _conversion_error(wanted: str, given: object) -> SerializationError:
    shown = repr(given)
    found = shown if len(shown) <= 80 else shown[:77] + "..."
    return SerializationError(f"cannot convert {type(given).__name__} to {wanted}", expected=wanted, found=found)


# --- records


def encode(
    items: Iterable[Encodable[Key, Value]],
    key_serializer: Serializer[Key],
    value_serializer: Serializer[Value],
    *,
    timestamp: int = -1,
) -> Iterator[Record]:
    """Serialize keys and values, and yield a record per item.

    Args:
        items: Tuples (key, value), (key, value, headers) or (key, value, headers, timestamp), or `DecodedRecord`s.
        key_serializer: Called with each key.
        value_serializer: Called with each value.
        timestamp: The timestamp, ms, of items without one.

    Raises:
        SerializationError: A serializer refuses a key or value. The message names the item, counted from 0, and whether
            it is the key or the value. Other errors of a serializer get a note with the same information.
    """
    for number, item in enumerate(items):
        parts = (item.key, item.value, item.headers, item.timestamp) if isinstance(item, DecodedRecord) else item
        key = _converted(key_serializer, parts[0], "item", number, "key")
        value = _converted(value_serializer, parts[1], "item", number, "value")
        headers = parts[2] if len(parts) > 2 else ()
        yield Record(value, key, headers, parts[3] if len(parts) > 3 else timestamp)


def _converted(turn: Callable[[Given], Turned], given: Given, where: str, number: int, what: str) -> Turned:
    """Return turn(given), adding place and field to errors."""
    try:
        return turn(given)
    except SerializationError as error:
        message = f"{where} {number}: the {what}: {error.message}"
        raise SerializationError(message, expected=error.expected, found=error.found) from error
    except Exception as error:
        error.add_note(f"{where} {number}: the {what} {given!r:.80}")
        raise


def decode(
    records: Iterable[Record],
    key_deserializer: Deserializer[Key],
    value_deserializer: Deserializer[Value],
) -> Iterator[DecodedRecord[Key, Value]]:
    """Deserialize keys and values, and yield a `DecodedRecord` per record.

    Raises:
        SerializationError: A deserializer refuses a key or value. The message names the offset, and whether it is the
            key or the value. Other errors of a deserializer get a note with the same information.
    """
    for record in records:
        instance("a record", record, Record)
        offset = record.offset
        yield DecodedRecord(
            key=_converted(key_deserializer, record.key, "record at offset", offset, "key"),
            value=_converted(value_deserializer, record.value, "record at offset", offset, "value"),
            headers=record.headers,
            timestamp=record.timestamp,
            offset=offset,
            timestamp_type=record.timestamp_type,
            sequence=record.sequence,
        )
