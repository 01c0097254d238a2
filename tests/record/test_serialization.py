"""Keys and values to bytes and back, and both ways through the log from end to end."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, Record, TimestampType
from kafkalog.errors import SerializationError
from kafkalog.record import serialization
from kafkalog.record.log_validator import validate_messages_and_assign_offsets
from kafkalog.record.serialization import (
    DecodedRecord,
    Deserializer,
    Encodable,
    decode,
    deserialize_bytes,
    deserialize_int32,
    deserialize_int64,
    deserialize_json,
    deserialize_none,
    deserialize_text,
    encode,
    serialize_bytes,
    serialize_int32,
    serialize_int64,
    serialize_json,
    serialize_none,
    serialize_text,
)
from tests.helpers.reading import inside
from tests.helpers.strategies import CHARACTERS

KINDS = ["bytes", "text", "json", "int32", "int64", "none"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(CHARACTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_null_on_both_sides(kind: str) -> None:
    assert getattr(serialization, f"serialize_{kind}")(None) is None
    assert getattr(serialization, f"deserialize_{kind}")(None) is None


@pytest.mark.parametrize(
    ("serialized", "expected"),
    [
        pytest.param(serialize_text("grüße"), b"gr\xc3\xbc\xc3\x9fe", id="text"),
        pytest.param(serialize_text(""), b"", id="empty text"),
        pytest.param(serialize_int32(-2), b"\xff\xff\xff\xfe", id="int32"),
        pytest.param(serialize_int32(2**31 - 1), b"\x7f\xff\xff\xff", id="largest int32"),
        pytest.param(serialize_int64(258), b"\0\0\0\0\0\0\1\2", id="int64"),
        pytest.param(serialize_json({"a": [1, None, "ü"]}), '{"a":[1,null,"ü"]}'.encode(), id="json"),
        pytest.param(serialize_bytes(bytearray(b"\0\xff")), b"\0\xff", id="bytes"),
    ],
)
def test_the_bytes_are_those_of_kafkas_serializers(serialized: bytes, expected: bytes) -> None:
    assert serialized == expected
    assert type(serialized) is bytes


@given(st.text(CHARACTERS), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.binary(), JSON)
def test_serialized_values_are_deserialized_alike(text: str, small: int, large: int, data: bytes, value: Any) -> None:
    assert deserialize_text(serialize_text(text)) == text
    assert deserialize_int32(serialize_int32(small)) == small
    assert deserialize_int64(serialize_int64(large)) == large
    assert deserialize_bytes(serialize_bytes(data)) == data
    assert deserialize_json(serialize_json(value)) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", b"bytes"),
        ("text", "\ud800"),
        ("bytes", "text"),
        ("int32", 2**31),
        ("int32", -(2**31) - 1),
        ("int32", True),
        ("int32", 1.0),
        ("int64", 2**63),
        ("int64", "1"),
        ("json", {1, 2}),
        ("json", float("nan")),
        ("json", "\ud800"),
        ("none", b""),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: str, value: object) -> None:
    with pytest.raises(SerializationError):
        getattr(serialization, f"serialize_{kind}")(value)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text", b"\xff"),
        ("json", b""),
        ("json", b"{"),
        ("json", b"NaN"),
        ("json", b"\xff"),
        ("json", b"[" * 100_000),
        ("int32", b""),
        ("int32", bytes(5)),
        ("int64", bytes(4)),
    ],
)
def test_bytes_of_another_kind_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(SerializationError):
        getattr(serialization, f"deserialize_{kind}")(data)


def test_deserialize_none_ignores_the_bytes() -> None:
    deserialize: Deserializer[object] = deserialize_none
    assert deserialize(b"anything") is None
    assert list(encode([(None, "v")], serialize_none, serialize_text)) == [Record(b"v", None)]


def test_the_error_names_the_record_and_the_ones_before_it_come_first() -> None:
    records = [Record(b"1", offset=40), Record(b"x" * 1000, offset=41)]
    decoded = decode(records, deserialize_none, deserialize_json)
    assert next(decoded).value == 1
    with pytest.raises(SerializationError, match="offset 41") as error:
        next(decoded)
    assert len(str(error.value)) < 300


def test_any_callable_serializes_and_deserializes() -> None:
    (record,) = encode([(1, "a")], lambda key: b"k%d" % key, str.encode)
    (decoded,) = decode([record], lambda key: key, lambda value: len(value or b""))
    assert (decoded.key, decoded.value) == (b"k1", 1)


def test_a_decoded_record_has_the_fields_of_a_record_in_the_same_order() -> None:
    record = Record(b"v", b"k", [("h", None)], 7, offset=8, timestamp_type=TimestampType.LOG_APPEND_TIME, sequence=9)
    (decoded,) = decode([record], deserialize_text, deserialize_text)
    fields = list(inspect.signature(Record).parameters)
    assert list(inspect.signature(DecodedRecord).parameters) == fields
    assert [getattr(decoded, name) for name in fields] == ["v", "k", *(getattr(record, name) for name in fields[2:])]
    assert pickle.loads(pickle.dumps(decoded)) == decoded


def test_fields_of_decoded_records_have_names_and_no_positions() -> None:
    with pytest.raises(TypeError, match="positional"):
        DecodedRecord("k", "v")  # type: ignore[call-arg]
    decoded = DecodedRecord(value="v", key="k")
    assert list(encode([decoded], serialize_text, serialize_text)) == [Record(b"v", b"k")]
    with pytest.raises(TypeError, match="unpack"):
        _key, _value, *_ = decoded  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        decoded.key = "other"  # type: ignore[misc]


# --- the two ways, from end to end


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
def test_records_survive_a_wrapper_of_messages(magic: int, codec: CompressionType) -> None:
    """Values, messages, a compressed message around them; then outer message, nested set, check, values."""
    meant: list[tuple[str | None, Any]] = [("a", {"n": 1}), ("b", [1, 2]), ("c", None)]
    records = encode(meant, serialize_text, serialize_json, timestamp=1000)
    stored = ByteBufferMessageSet.from_records(records, magic=magic, compression_type=codec, base_offset=40)

    (outer,) = stored.batches()
    outer.ensure_valid()
    nested = inside(outer).check_magic(magic).check_keys()
    assert [(each.key, each.value) for each in decode(nested, deserialize_text, deserialize_json)] == meant

    whole = list(decode(stored, deserialize_text, deserialize_json))
    assert [(each.key, each.value) for each in whole] == meant
    assert [each.offset for each in whole] == [40, 41, 42]
    assert [each.timestamp for each in whole] == [1000 if magic else -1] * 3


@pytest.mark.parametrize("codec", CompressionType)
def test_records_survive_validation_by_a_leader(codec: CompressionType) -> None:
    """Values, a batch, what a leader makes of it; then the values again, with its offsets and its time."""
    meant: list[tuple[int | None, str | None]] = [(1, "one"), (2, None), (-3, "")]
    sent = ByteBufferMessageSet.from_records(encode(meant, serialize_int64, serialize_text), compression_type=codec)
    stored = validate_messages_and_assign_offsets(
        sent, first_offset=500, now=7000, compacted=True, timestamp_type=TimestampType.LOG_APPEND_TIME
    ).message_set
    found = list(decode(stored, deserialize_int64, deserialize_text))
    assert [(each.key, each.value) for each in found] == meant
    assert [(each.offset, each.timestamp) for each in found] == [(500, 7000), (501, 7000), (502, 7000)]
    assert {each.timestamp_type for each in found} == {TimestampType.LOG_APPEND_TIME}


# --- which record, and which of its fields


def test_headers_and_timestamps_are_encoded_with_key_and_value() -> None:
    headers = (("h", b"x"),)
    given: list[Encodable[int | None, str | None]] = [(1, "a"), (2, "b", headers), (3, "c", headers, 7)]
    records = list(encode(given, serialize_int32, serialize_text, timestamp=5))
    assert [(each.headers, each.timestamp) for each in records] == [((), 5), (headers, 5), (headers, 7)]
    again = encode(decode(records, deserialize_int32, deserialize_text), serialize_int32, serialize_text)
    assert list(again) == records


def test_an_item_that_cannot_be_encoded_is_named_with_the_field() -> None:
    wrong: list[tuple[Any, str]] = [((1, 5), "value"), (("k", "v"), "key")]
    for item, what in wrong:
        with pytest.raises(SerializationError, match=f"item 1: the {what}: ") as error:
            list(encode([(1, "a"), item], serialize_int32, serialize_text))
        assert error.value.found in ("5", "'k'")


def test_a_record_that_cannot_be_decoded_is_named_with_the_field() -> None:
    for record, what in ((Record(b"\xff", b"1234", offset=8), "value"), (Record(b"v", b"123", offset=8), "key")):
        with pytest.raises(SerializationError, match=f"record at offset 8: the {what}: "):
            list(decode([record], deserialize_int32, deserialize_text))
    with pytest.raises(TypeError, match="a record is a Record, not bytes"):
        list(decode([b"v"], deserialize_int32, deserialize_text))  # type: ignore[list-item]


def test_another_error_of_a_deserializer_names_the_record_in_a_note() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        list(decode([Record(b"", b"k", offset=8)], lambda key: key, lambda value: 1 // len(value or b"")))
    assert error.value.__notes__ == ["record at offset 8: the value b''"]


def test_a_number_too_large_for_a_float_is_no_json() -> None:
    with pytest.raises(SerializationError):
        deserialize_json(b"1e999")
