"""Avro: bytes by a schema, in JSON's types. Not with fastavro, which damaged bytes crash: it bounds no depth, no count.

    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": "string"}]}
    22 06 62 6f 62                                                                      {"id": 17, "to": "bob"}

A union is shown as its value alone, a decimal as text; other logical types are shown as they are stored.
Source: Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from struct import Struct
from typing import Any, Final, TypeAlias

import msgspec

# Of arrays, maps and records together, so that few bytes take neither much memory nor much time.
MOST_ELEMENTS: Final = 200_000
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")


class Input:
    """A cursor over the bytes of a value. Each method raises ValueError for bytes that cannot be what is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._elements = MOST_ELEMENTS

    @property
    def left(self) -> int:
        """The number of bytes that were not read."""
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= length <= self.left:
            raise ValueError(f"{length:,} bytes are expected at {self._at:,}, {self.left:,} are left")
        self._at += length
        return self._data[self._at - length : self._at]

    def long(self) -> int:
        """Return a zigzag varint of at most ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
        raise ValueError(f"the number before {self._at:,} has more than ten bytes")

    def index(self, count: int) -> int:
        """Return the index of one of `count` branches or symbols."""
        at, index = self._at, self.long()
        if not 0 <= index < count:
            raise ValueError(f"an index below {count} is expected at {at:,}, {index:,} is found")
        return index

    def spend(self, elements: int) -> None:
        """Count elements."""
        self._elements -= elements
        if self._elements < 0:
            raise ValueError(f"more than {MOST_ELEMENTS:,} elements")

    def blocks(self) -> Iterator[int]:
        """Yield the elements of an array or map, of which only the counts are read here."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            self.spend(count)
            yield from range(count)


Reader: TypeAlias = Callable[[Input], Any]


def _text(data: Input) -> str:
    return data.take(data.long()).decode()


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


_PRIMITIVES: Final[dict[str, Reader]] = {
    "null": lambda _: None,
    "boolean": lambda data: data.take(1) != b"\0",
    "int": Input.long,
    "long": Input.long,
    "float": lambda data: _number(*_FLOAT.unpack(data.take(4))),
    "double": lambda data: _number(*_DOUBLE.unpack(data.take(8))),
    "bytes": lambda data: data.take(data.long()),
    "string": _text,
}


class AvroSchema:
    """A schema, whose types may refer to one another."""

    def __init__(self, content: bytes) -> None:
        """Read a schema.

        Raises:
            ValueError: It is no schema.
        """
        self._named: dict[str, Reader] = {}
        self._reader = self._of(msgspec.json.decode(content), "")

    def decode(self, content: bytes) -> bytes:
        """Return a value as JSON.

        Raises:
            ValueError: The bytes are not a value of this schema.
        """
        data = Input(content)
        value = self._reader(data)
        if data.left:
            raise ValueError(f"{data.left:,} bytes are left")
        return msgspec.json.encode(value)

    def _of(self, schema: Any, space: str) -> Reader:
        if isinstance(schema, list):
            branches = [self._of(each, space) for each in schema]
            return lambda data: branches[data.index(len(branches))](data)
        if isinstance(schema, str):
            name = _full_name(schema, space)
            if schema not in _PRIMITIVES and name not in self._named:
                raise ValueError(f"the type {name!r} is not defined before it is used")
            return _PRIMITIVES.get(schema) or self._named[name]
        if not isinstance(schema, dict) or "type" not in schema:
            raise ValueError(f"expected a type, found {schema!r:.60}")
        kind = schema["type"]
        if kind == "array":
            item = self._of(schema["items"], space)
            return lambda data: [item(data) for _ in data.blocks()]
        if kind == "map":
            value = self._of(schema["values"], space)
            return lambda data: {_text(data): value(data) for _ in data.blocks()}
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_named(schema, kind, space)
        return _as_decimal(self._of(kind, space), schema)

    def _of_named(self, schema: dict[str, Any], kind: str, space: str) -> Reader:
        name = _full_name(schema["name"], schema.get("namespace", space))
        if kind == "enum":
            symbols = list(map(str, schema["symbols"]))
            self._named[name] = lambda data: symbols[data.index(len(symbols))]
        elif kind == "fixed":
            size = int(schema["size"])
            self._named[name] = _as_decimal(lambda data: data.take(size), schema)
        else:
            fields: list[tuple[str, Reader]] = []
            # Known before its fields, which may refer to it.
            self._named[name] = lambda data: _record(data, fields)
            space = name.rpartition(".")[0]
            fields += [(str(field["name"]), self._of(field["type"], space)) for field in schema["fields"]]
        return self._named[name]


def _record(data: Input, fields: list[tuple[str, Reader]]) -> dict[str, Any]:
    data.spend(len(fields))
    return {name: read(data) for name, read in fields}


def _as_decimal(reader: Reader, schema: dict[str, Any]) -> Reader:
    if schema.get("logicalType") != "decimal":
        return reader
    scale = int(schema.get("scale", 0))
    return lambda data: Decimal(f"{int.from_bytes(reader(data), 'big', signed=True)}e-{scale}")


def _full_name(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name
