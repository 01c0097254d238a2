"""Frames of a schema registry by the schemas in a directory; fastavro and protobuf have written them."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.inspector import headless
from kafkalog.inspector.model.avro import MOST_ELEMENTS, AvroSchema
from kafkalog.inspector.model.decoders import Formats
from kafkalog.inspector.model.schemas import MOST_BYTES, Schemas

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "to", "type": ["null", {"type": "record", "name": "Address", "fields": [
            {"name": "street", "type": "string"}, {"name": "second", "type": ["null", "Address"]}]}]},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "weight", "type": "float"},
        {"name": "size", "type": "double"},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "last", "type": "shop.State"},
    ],
}  # fmt: skip
VALUE = {
    "id": -(2**62), "paid": True, "state": "SENT",
    "to": {"street": "Nürnberger Straße", "second": {"street": "b", "second": None}},
    "items": [{"a": 1, "b": -2}, {}], "total": Decimal("-12.50"), "weight": 0.5, "size": float("inf"),
    "raw": b"\0\xff", "last": "NEW",
}  # fmt: skip
SHOWN = {**VALUE, "total": "-12.50", "size": "inf", "raw": "AP8="}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


def frame(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def avro(schema: Any, value: Any) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.fixture
def formats(tmp_path: Path) -> Formats:
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    return Formats("orders", Schemas(tmp_path))


def content(formats: Formats, data: bytes) -> Any:
    found = formats.decoded("value", None, data)
    assert found is not None, formats.note(data)
    return json.loads(found.json)


# Avro.


def test_avro_that_fastavro_has_written_is_json(formats: Formats) -> None:
    data = frame(7, avro(ORDER, VALUE))
    assert content(formats, data) == SHOWN
    found = formats.decoded("key", data, None)
    assert (found and found.kind) == "schema 7"


@pytest.mark.slow
@given(value=st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))  # fmt: skip
def test_whatever_fastavro_writes_is_read_back(value: Any) -> None:
    inner = [{"type": "array", "items": "N"}, {"type": "map", "values": "N"}]
    kinds = ["null", "boolean", "long", "string", *inner]
    node = {"type": "record", "name": "N", "fields": [{"name": "v", "type": kinds}]}

    def wrapped(value: Any) -> Any:
        if isinstance(value, list):
            return {"v": [wrapped(each) for each in value]}
        return {"v": {name: wrapped(each) for name, each in value.items()} if isinstance(value, dict) else value}

    schema = AvroSchema(json.dumps(node).encode())
    assert json.loads(schema.decode(avro(node, wrapped(value)))) == wrapped(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_garbage_is_not_decoded_and_the_note_names_schema_and_file(formats: Formats, data: bytes) -> None:
    found = formats.decoded("value", None, frame(7, data))
    if found is None and data:
        assert "schema 7: not a value of 7.avsc: " in formats.note(frame(7, data))
    elif found is not None:
        json.loads(found.json)


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": "null"}, HUGE),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, HUGE),
        ({"type": "array", "items": "null"}, HUGE[:-1] + b"\1\0" * 40),
        ({"type": "map", "values": "null"}, HUGE),
        ("string", HUGE),
        ("bytes", b"\x09abc"),
        ({"type": "fixed", "name": "F", "size": 1 << 50}, b"abc"),
        (LIST, b"\x02" * 1_000_000),
        ({"type": "record", "name": "S", "fields": [{"name": "s", "type": "S"}]}, b""),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2}, b"\x80\x89\x7a" + b"\x7f" * 1_000_000),
        ("long", b"\xff" * 11),
        ({"type": "array", "items": "boolean"}, b"\x80\xea\x30" + b"\1" * 400_000),
    ],
)
def test_lengths_counts_and_depths_of_damaged_avro_cost_nothing(schema: Any, data: bytes) -> None:
    reader = AvroSchema(json.dumps(schema).encode())
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises((ValueError, RecursionError)):
        reader.decode(data)
    assert time.monotonic() - began < 2
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()


def test_as_many_elements_as_allowed_are_read() -> None:
    schema = {"type": "array", "items": "boolean"}
    found = AvroSchema(json.dumps(schema).encode()).decode(avro(schema, [True] * MOST_ELEMENTS))
    assert len(json.loads(found)) == MOST_ELEMENTS


@pytest.mark.parametrize(
    "schema", [b"", b"7", b"{}", b'"nosuch"', b'{"type": "record"}', b'["null"', b"\xff", b"[" * 9999]
)
def test_a_file_that_is_no_avro_schema_is_named(tmp_path: Path, schema: bytes) -> None:
    (tmp_path / "9.avsc").write_bytes(schema)
    formats = Formats("t", Schemas(tmp_path))
    assert formats.decoded("value", None, frame(9, b"\2")) is None
    assert "schema 9: 9.avsc: no Avro schema" in formats.note(frame(9, b"\2"))


# Protobuf.


def described(**files: str) -> bytes:
    """What protoc writes for `name = "Message ..."`: a type for each word, each with the fields id, name and inner."""
    pb = pytest.importorskip("google.protobuf.descriptor_pb2")
    found = pb.FileDescriptorSet()
    for name, kinds in files.items():
        file = found.file.add(name=f"{name}.proto", package="shop", syntax="proto3")
        for each in kinds.split():
            outer, *inner = each.split(".")
            kind = file.message_type.add(name=outer)
            # What protoc makes for a map, before the types that are written in the file.
            entry = kind.nested_type.add(name="TagsEntry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=9, label=1)
            entry.field.add(name="value", number=2, type=5, label=1)
            kind.field.add(name="tags", number=4, type=11, label=3, type_name=f".shop.{outer}.TagsEntry")
            for at in (kind, *(kind.nested_type.add(name=nested) for nested in inner)):
                at.field.add(name="order_id", number=1, type=3, label=1, json_name="orderId")
                at.field.add(name="name", number=2, type=9, label=1)
                at.field.add(name="inner", number=3, type=11, label=3, type_name=f".shop.{outer}")
    content: bytes = found.SerializeToString()
    return content


def message(descriptors: bytes, kind: str, /, **fields: Any) -> bytes:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    written: bytes = message_factory.GetMessageClass(pool.FindMessageTypeByName(kind))(**fields).SerializeToString()
    return written


@pytest.fixture
def by_protobuf(tmp_path: Path) -> tuple[Formats, bytes]:
    descriptors = described(base="Base", orders="Order Line.Part.Bolt")
    (tmp_path / "9.desc").write_bytes(descriptors)
    return Formats("orders", Schemas(tmp_path)), descriptors


@pytest.mark.parametrize(
    ("index", "name"),
    [(b"\0", "Order"), (b"\2\0", "Order"), (b"\2\2", "Line"), (b"\4\2\0", "Line.Part"), (b"\4\2\2", "Line.Bolt")],
)
def test_protobuf_is_json_of_the_type_that_the_frame_names(
    by_protobuf: tuple[Formats, bytes], index: bytes, name: str
) -> None:
    formats, descriptors = by_protobuf
    written = message(descriptors, f"shop.{name}", order_id=17, name="bob")
    assert content(formats, frame(9, index + written)) == {"order_id": "17", "name": "bob"}


def test_protobuf_with_fields_that_the_type_has_not_is_not_decoded(by_protobuf: tuple[Formats, bytes]) -> None:
    formats, descriptors = by_protobuf
    data = frame(9, b"\0" + message(descriptors, "shop.Order", order_id=1, name="a") + b"\x78\x01")
    assert formats.decoded("value", None, data) is None
    assert "2 bytes are of fields that shop.Order has not" in formats.note(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\2\x08", "no message type at [4]"), (b"\1", "below 32"), (HUGE, "below 32"), (b"\4\2\6", "at [1, 3]"),
     (b"\0\x1a\xff\xff\xff\xff\x07a", "shop.Order: "), (b"\0" + b"\x1a\x7f" * 500_000, "shop.Order: ")],
)  # fmt: skip
def test_damaged_protobuf_is_told(by_protobuf: tuple[Formats, bytes], data: bytes, said: str) -> None:
    formats, _ = by_protobuf
    assert formats.decoded("value", None, frame(9, data)) is None
    assert said in formats.note(frame(9, data))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=100))
def test_no_bytes_of_protobuf_raise_an_error(by_protobuf: tuple[Formats, bytes], data: bytes) -> None:
    found = by_protobuf[0].decoded("value", None, frame(9, b"\0" + data))
    assert found is None or json.loads(found.json) is not None


@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda _: b"", lambda _: b"\xff" * 50])
def test_a_damaged_descriptor_set_is_named(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    (tmp_path / "9.desc").write_bytes(change(described(orders="Order")))
    note = Formats("t", Schemas(tmp_path)).note(frame(9, b"\0"))
    assert "schema 9: 9.desc: no descriptor set: " in note


def test_protobuf_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "9.desc").write_bytes(b"\n\0")
    monkeypatch.setitem(__import__("sys").modules, "google.protobuf.descriptor_pb2", None)
    assert "pip install 'kafkalog[schemas]'" in Formats("t", Schemas(tmp_path)).note(frame(9, b"\0"))


# Both.


def test_a_schema_without_a_file_is_told_with_the_files_that_it_may_have(formats: Formats, tmp_path: Path) -> None:
    assert formats.note(frame(8, b"\2")) == f"perhaps a frame of schema 8: no 8.avsc or 8.desc in {tmp_path}"
    assert content(formats, frame(8, b'{"a":1}')) == {"a": 1}


def test_a_schema_that_comes_later_is_found(formats: Formats, tmp_path: Path) -> None:
    assert formats.decoded("value", None, frame(8, b"\2")) is None
    (tmp_path / "8.avsc").write_text('"int"')
    assert content(formats, frame(8, b"\2")) == 1


def test_a_value_that_is_too_long_is_not_decoded(formats: Formats, tmp_path: Path) -> None:
    (tmp_path / "8.avsc").write_text('"bytes"')
    assert "are not decoded" in formats.note(frame(8, avro("bytes", bytes(MOST_BYTES))))


def test_headless_record_has_the_decoded_content(
    formats: Formats, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "orders-0"
    log.mkdir()
    records = [Record(frame(7, avro(ORDER, VALUE)), b"k"), Record(frame(8, b"\2"), b'{"a": 1}')]
    (log / f"{0:020}.log").write_bytes(bytes(ByteBufferMessageSet.from_records(records).buffer))
    assert headless.show(log, "record", "jsonl", schemas=formats.schemas) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["value_format"], first["value_content"], "key_format" in first) == ("schema 7", SHOWN, False)
    assert "8.avsc" in second["value_note"]
    assert headless.show(log, "record", "text", schemas=formats.schemas) == 0
    assert '{"id":-4611686018427387904,"paid":true' in capsys.readouterr().out
