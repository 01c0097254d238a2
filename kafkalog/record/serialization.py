"""Keys and values: what a program means, to bytes and back.

    text      UTF-8
    JSON      UTF-8 text of one JSON value, without spaces
    int32     4 bytes, big-endian
    int64     8 bytes, big-endian
    bytes     themselves

As Kafka's serializers of these names have them. A serializer is any callable from a value to bytes or None, a
deserializer any callable back; null (None) is null on both sides. Source: clients/.../common/serialization/*.java.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from kafkalog._speedups.record import Record
from kafkalog.attributes import TimestampType
from kafkalog.errors import SerializationError

Key = TypeVar("Key")
Value = TypeVar("Value")
Meant = TypeVar("Meant")

Serializer = Callable[[Meant], bytes | None]
Deserializer = Callable[[bytes | None], Meant]

Headers = tuple[tuple[str, bytes | None], ...]


class DecodedRecord(NamedTuple, Generic[Key, Value]):
    """A record whose key and value have been deserialized; the other fields as in `Record`."""

    key: Key
    value: Value
    headers: Headers
    timestamp: int
    offset: int
    timestamp_type: TimestampType


# --- one key or value


def serialize_bytes(meant: bytes | bytearray | memoryview | None) -> bytes | None:
    """Bytes as they are. SerializationError: something else."""
    if meant is None or isinstance(meant, bytes | bytearray | memoryview):
        return None if meant is None else bytes(meant)
    raise _refused("bytes", meant)


def deserialize_bytes(data: bytes | None) -> bytes | None:
    """Bytes as they are."""
    return data


def serialize_text(meant: str | None) -> bytes | None:
    """Text as UTF-8. SerializationError: no text, or a half of a surrogate pair in it."""
    if meant is None:
        return None
    if not isinstance(meant, str):
        raise _refused("text", meant)
    try:
        return meant.encode()
    except UnicodeEncodeError as error:
        raise _refused("text that UTF-8 can hold", meant) from error


def deserialize_text(data: bytes | None) -> str | None:
    """UTF-8 as text. SerializationError: it is none."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise _refused("UTF-8", data) from error


def serialize_json(meant: Any) -> bytes | None:
    """A JSON value as UTF-8; None is null, not the text `null`. SerializationError: JSON has no such value."""
    if meant is None:
        return None
    try:
        return json.dumps(meant, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused("a JSON value", meant) from error


def deserialize_json(data: bytes | None) -> Any:
    """UTF-8 of one JSON value. SerializationError: it is none, or NaN or Infinity, which JSON does not have."""
    try:
        return None if data is None else json.loads(data.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refused("JSON", data) from error


def serialize_int32(meant: int | None) -> bytes | None:
    """A whole number in 4 bytes, big-endian. SerializationError: no whole number, or out of range."""
    return _serialized_int(meant, 4)


def deserialize_int32(data: bytes | None) -> int | None:
    """4 bytes, big-endian. SerializationError: not 4 bytes."""
    return _deserialized_int(data, 4)


def serialize_int64(meant: int | None) -> bytes | None:
    """A whole number in 8 bytes, big-endian. SerializationError: no whole number, or out of range."""
    return _serialized_int(meant, 8)


def deserialize_int64(data: bytes | None) -> int | None:
    """8 bytes, big-endian. SerializationError: not 8 bytes."""
    return _deserialized_int(data, 8)


def serialize_none(meant: None) -> None:
    """Null. SerializationError: there is something."""
    if meant is not None:
        raise _refused("nothing", meant)


def deserialize_none(data: bytes | None) -> None:
    """Nothing, whatever the bytes: for keys or values that do not matter."""


def _serialized_int(meant: object, size: int) -> bytes | None:
    if meant is None:
        return None
    if not isinstance(meant, int) or isinstance(meant, bool):
        raise _refused("a whole number", meant)
    try:
        return meant.to_bytes(size, "big", signed=True)
    except OverflowError as error:
        raise _refused(f"a number of {8 * size} bits", meant) from error


def _deserialized_int(data: bytes | None, size: int) -> int | None:
    if data is None:
        return None
    if len(data) != size:
        raise SerializationError("the data is no whole number", expected=f"{size} bytes", found=f"{len(data)} bytes")
    return int.from_bytes(data, "big", signed=True)


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _refused(wanted: str, given: object) -> SerializationError:
    shown = repr(given)
    return SerializationError(f"not {wanted}", expected=wanted, found=shown if len(shown) <= 80 else shown[:77] + "...")


# --- records


def encode(
    pairs: Iterable[tuple[Key, Value]],
    key_serializer: Serializer[Key],
    value_serializer: Serializer[Value],
    *,
    timestamp: int = -1,
) -> Iterator[Record]:
    """A record for each (key, value), all with the timestamp given. SerializationError: what a serializer refuses."""
    for key, value in pairs:
        yield Record(value_serializer(value), key_serializer(key), timestamp=timestamp)


def decode(
    records: Iterable[Record],
    key_deserializer: Deserializer[Key],
    value_deserializer: Deserializer[Value],
) -> Iterator[DecodedRecord[Key, Value]]:
    """The records with key and value deserialized. SerializationError: at the first that cannot be; it says which."""
    for record in records:
        try:
            key, value = key_deserializer(record.key), value_deserializer(record.value)
        except SerializationError as error:
            message = f"record at offset {record.offset}: {error.message}"
            raise SerializationError(message, expected=error.expected, found=error.found) from error
        yield DecodedRecord(key, value, record.headers, record.timestamp, record.offset, record.timestamp_type)
