"""`Schemas`: values by the schemas of a schema registry, from files in a directory.

    7.avsc    Avro: the schema as JSON, with all types that it refers to
    9.desc    Protobuf: a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` and `buf build` write it

The content of a Protobuf frame begins with the place of the message's type in the last file of the set:
00 is the first type, 04 02 00 (two numbers: 1, 0) the first type within the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from .avro import AvroSchema, Input

# Longer values are not decoded: as objects they may take a hundred times as much memory.
MOST_BYTES: Final = 1 << 20
# Types within types.
_MOST_NESTED: Final = 32


class Schema(Protocol):
    """A schema that was read from a file."""

    def decode(self, content: bytes) -> bytes:
        """Return a value as JSON; ValueError: the bytes are not one of this schema."""
        ...


class Schemas:
    """The schemas in a directory; each file is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read = cache(_read)

    def path(self, number: int) -> Path | None:
        """Return the file of a schema; None if there is none."""
        return next((path for kind in _KINDS if (path := self._directory / f"{number}{kind}").exists()), None)

    def decode(self, number: int, content: bytes) -> bytes:
        """Return the content of a frame as JSON.

        Args:
            number: The id of the schema.
            content: What follows the id.

        Raises:
            ValueError: No file has the schema, it is damaged, or the bytes are not of the schema. Names the file.
        """
        path = self.path(number)
        if path is None:
            names = " or ".join(f"{number}{kind}" for kind in _KINDS)
            raise ValueError(f"no {names} in {self._directory}")
        schema = self._read(path)
        if isinstance(schema, str):
            raise ValueError(f"{path.name}: {schema}")  # noqa: TRY004 - it tells why the file was not read
        if len(content) > MOST_BYTES:
            raise ValueError(f"{len(content):,} bytes: values of more than {MOST_BYTES:,} are not decoded")
        try:
            return schema.decode(content)
        except (ValueError, OverflowError, ArithmeticError, msgspec.MsgspecError) as error:
            raise ValueError(f"not a value of {path.name}: {error}") from None
        except RecursionError:
            raise ValueError(f"not a value of {path.name}: it is nested too deeply") from None


def _read(path: Path) -> Schema | str:
    """Return the schema in a file, or why there is none."""
    try:
        return _KINDS[path.suffix](path.read_bytes())
    except ModuleNotFoundError:
        return "Protobuf needs the extra 'schemas': pip install 'kafkalog[schemas]'"
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:  # noqa: BLE001 - the libraries raise what they like, and a file may hold anything
        return f"no {'Avro schema' if path.suffix == '.avsc' else 'descriptor set'}: {error}"


class ProtobufSchema:
    """The message types of a file."""

    def __init__(self, content: bytes) -> None:
        """Read a set of files.

        Raises:
            ValueError: It is empty.
            Exception: What protobuf raises if it is damaged or not complete.
        """
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool

        self._pool = DescriptorPool()
        files = FileDescriptorSet.FromString(content).file
        if not files:
            raise ValueError("it has no file")
        for file in files:
            self._pool.Add(file)
        self._file = files[-1]

    def decode(self, content: bytes) -> bytes:
        """Return a message as JSON.

        Raises:
            ValueError: The bytes are not a message of this file.
        """
        from google.protobuf.json_format import Error, MessageToJson
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        data = Input(content)
        kind = self._type([data.long() for _ in range(data.index(_MOST_NESTED))] or [0])
        try:
            message = GetMessageClass(kind).FromString(data.take(data.left))
            known = message.ByteSize()
            message.DiscardUnknownFields()
            if message.ByteSize() != known:
                raise ValueError(f"{known - message.ByteSize():,} bytes are of fields that {kind.full_name} has not")
            json: str = MessageToJson(
                message, indent=None, preserving_proto_field_name=True, descriptor_pool=self._pool
            )
        except (DecodeError, Error, TypeError) as error:
            raise ValueError(f"{kind.full_name}: {error}") from None
        return json.encode()

    def _type(self, path: list[int]) -> Any:
        """Return a type by its place in the file."""
        name: str = self._file.package
        types: Sequence[Any] = self._file.message_type
        for i in path:
            # As in Confluent's serializers for Java, which do not count the types that protoc makes for maps.
            types = [each for each in types if not each.options.map_entry]
            if not 0 <= i < len(types):
                raise ValueError(f"{self._file.name} has no message type at {path}")
            name, types = f"{name}.{types[i].name}".lstrip("."), types[i].nested_type
        return self._pool.FindMessageTypeByName(name)


_KINDS: Final[dict[str, Callable[[bytes], Schema]]] = {".avsc": AvroSchema, ".desc": ProtobufSchema}
