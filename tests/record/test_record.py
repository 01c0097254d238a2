"""A record: what a user holds, compares, keeps and sends elsewhere."""

from __future__ import annotations

import copy
import pickle
from enum import StrEnum
from typing import Any

import pytest

from kafkalog import ByteBufferMessageSet, Record, TimestampType

FIELDS: dict[str, Any] = {
    "value": b"value",
    "key": b"key",
    "headers": (("h", b"1"), ("h", None)),
    "timestamp": 1_700_000_000_000,
    "offset": 2**62,
    "timestamp_type": TimestampType.LOG_APPEND_TIME,
    "sequence": 2**31 - 1,
}
OTHERS: dict[str, Any] = {
    "value": None,
    "key": b"",
    "headers": (("h", b"1"), ("h", b"")),
    "timestamp": -1,
    "offset": -1,
    "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE,
    "sequence": -1,
}


def test_a_record_has_the_fields_it_was_given() -> None:
    record = Record(**FIELDS)
    assert {name: getattr(record, name) for name in FIELDS} == FIELDS


def test_a_record_of_nothing_has_nothing() -> None:
    record = Record()
    assert (record.value, record.key, record.headers) == (None, None, ())
    assert (record.timestamp, record.offset, record.sequence) == (-1, -1, -1)
    assert record.timestamp_type is TimestampType.CREATE_TIME


def test_value_key_headers_and_timestamp_are_given_in_that_order() -> None:
    assert Record(b"v", b"k", [("h", b"x")], 5) == Record(value=b"v", key=b"k", headers=(("h", b"x"),), timestamp=5)


def test_equal_records_are_equal_and_hash_alike() -> None:
    assert Record(**FIELDS) == Record(**FIELDS)
    assert hash(Record(**FIELDS)) == hash(Record(**FIELDS))
    assert Record() != "record"


@pytest.mark.parametrize("name", FIELDS)
def test_records_that_differ_in_any_field_differ(name: str) -> None:
    assert Record(**FIELDS) != Record(**(FIELDS | {name: OTHERS[name]}))


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_can_be_changed(name: str) -> None:
    record = Record(**FIELDS)
    with pytest.raises(AttributeError):
        setattr(record, name, OTHERS[name])
    with pytest.raises(AttributeError):
        record.other = 1  # type: ignore[attr-defined]


def test_null_is_not_empty() -> None:
    assert Record(None, None) != Record(b"", b"")
    assert Record(headers=[("h", None)]) != Record(headers=[("h", b"")])


def test_a_record_that_was_sent_elsewhere_is_the_same() -> None:
    record = Record(**FIELDS)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(record, protocol)) == record
    assert copy.deepcopy(record) == record


def test_a_record_shows_all_its_fields() -> None:
    text = repr(Record(**FIELDS))
    assert all(f"{name}=" in text for name in FIELDS)
    assert "b'value'" in text
    assert "LOG_APPEND_TIME" in text


def test_other_bytes_are_copied() -> None:
    mutable = bytearray(b"abc")
    record = Record(mutable, memoryview(mutable))
    mutable[0] = 0
    assert (record.value, record.key) == (b"abc", b"abc")


@pytest.mark.parametrize(
    "fields",
    [
        {"value": "text"},
        {"key": 5},
        {"headers": [(b"bytes", b"x")]},
        {"headers": [("h", "text")]},
        {"headers": 5},
        {"headers": [("h",)]},
        {"headers": ["ab"]},
        {"headers": {"h": b"x"}},
        {"timestamp": "now"},
        {"timestamp": 1.5},
        {"timestamp": True},
        {"offset": None},
    ],
)
def test_fields_of_another_kind_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Record(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": [("\ud800", b"")]},
        {"timestamp_type": 7},
        {"timestamp": 2**63},
        {"offset": -(2**63) - 1},
        {"sequence": 2**31},
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields)).rstrip("s").replace("_", ".")):
        Record(**fields)


class HeaderName(StrEnum):
    TRACE = "trace"
    CITY = "Zürich"


def test_header_keys_of_a_subclass_of_str_are_their_text() -> None:
    record = Record(b"value", headers=[(HeaderName.TRACE, b"1"), (HeaderName.CITY, None)])
    assert record.headers == (("trace", b"1"), ("Zürich", None))
    assert [type(key) for key, _ in record.headers] == [str, str]
    batch = ByteBufferMessageSet.from_records([record])
    assert [each.headers for each in batch] == [record.headers]
