"""The columns: those of Spark's own Kafka source, and additional ones.

    key value topic partition offset timestamp timestampType        always
    headers                                                         includeHeaders; null if a record has none
    producerId producerEpoch sequence leaderEpoch isControl file position       includeMetadata
    _corrupt                                                        onCorrupt=permissive: a damage message, or null

Timestamps are in microseconds, Spark's unit. A record without one (format 0) has -1 ms, as in Spark's source.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.spark.read.options import OnCorrupt, ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

CORRUPT = "_corrupt"
HEADERS = "headers"

# The type of each column, by the name that Spark gives it.
_HEADERS = "array<struct<key:string,value:binary>>"
KAFKA_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
METADATA_COLUMNS = {
    "producerId": "bigint",
    "producerEpoch": "int",
    "sequence": "int",
    "leaderEpoch": "int",
    "isControl": "boolean",
    "file": "string",
    "position": "bigint",
}
_ALL = {**KAFKA_COLUMNS, HEADERS: _HEADERS, **METADATA_COLUMNS, CORRUPT: "string"}
_BY_LOWER_CASE = {name.lower(): name for name in _ALL}


@dataclass(frozen=True, slots=True)
class Column:
    """A requested column: the column it is read from, its name in the result, and whether it may be null."""

    source: str
    name: str
    nullable: bool = True


def column_names(options: ReadOptions) -> list[str]:
    """Return the columns of a read without `.schema(...)`."""
    names = [*KAFKA_COLUMNS]
    if options.include_headers:
        names.append(HEADERS)
    if options.include_metadata:
        names.extend(METADATA_COLUMNS)
    if options.on_corrupt is OnCorrupt.PERMISSIVE:
        names.append(CORRUPT)
    return names


def ddl(options: ReadOptions) -> str:
    """Return these columns as Spark's DDL."""
    return ", ".join(f"{name} {_ALL[name]}" for name in column_names(options))


def chosen_columns(fields: Iterable[tuple[str, str, bool]]) -> tuple[Column, ...]:
    """Return the columns of the user's schema. All columns may be chosen, in any order and with any options.

    Args:
        fields: For each column its name, Spark's `simpleString` of its type, and whether it may be null.

    Raises:
        ValueError: A column does not exist, has another type, or occurs more than once.
    """
    columns = []
    for name, found, nullable in fields:
        columns.append(column := _named((name, nullable)))
        expected = _ALL[column.source]
        if found.replace(" ", "").lower() != expected:
            raise ValueError(f"schema: column {name} is {expected}, not {found}")
    if not columns:
        raise ValueError("schema: there are no columns")
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"schema: column {name!r} occurs more than once")
    return tuple(columns)


def columns_of(wanted: "Sequence[Column | str | tuple[str, bool]] | None", options: ReadOptions) -> tuple[Column, ...]:
    """Return columns given by name, or by name and nullability; None: the default columns, all nullable."""
    given = column_names(options) if wanted is None else wanted
    return tuple(each if isinstance(each, Column) else _named(each) for each in given)


def _named(wanted: str | tuple[str, bool]) -> Column:
    """Return a column given by name.

    Raises:
        ValueError: The column does not exist.
    """
    name, nullable = (wanted, True) if isinstance(wanted, str) else wanted
    source = name if name in _ALL else _BY_LOWER_CASE.get(name.lower(), name)
    if source not in _ALL:
        raise ValueError(f"schema: there is no column {name!r}; there are {', '.join(_ALL)}")
    return Column(source, name, nullable)


def columns_of_struct(schema: "StructType") -> tuple[Column, ...]:
    """Return the columns of Spark's schema.

    Raises:
        ValueError: A column does not exist or has another type.
    """
    return chosen_columns((field.name, _type_name(field.dataType), field.nullable) for field in schema.fields)


def _type_name(data_type: "DataType") -> str:
    """Return Spark's name of a type, with a note if elements or fields may not be null.

    `simpleString` does not say whether they may.
    """
    name = data_type.simpleString()
    strict = any(f'"{word}":false' in data_type.json() for word in ("containsNull", "nullable"))
    return f"{name} whose elements or fields may not be null" if strict else name


def arrow_schema(columns: Sequence[Column]) -> "pa.Schema":
    """Return the Arrow schema of the columns.

    Raises:
        ImportError: pyarrow is missing.
    """
    import pyarrow as pa

    types = _arrow_types()
    return pa.schema([pa.field(each.name, types[_ALL[each.source]], each.nullable) for each in columns])


def _arrow_types() -> "dict[str, pa.DataType]":
    """Return the Arrow types by Spark's names."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError("reading for Spark needs pyarrow: pip install 'kafkalog[spark]'") from error
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        _HEADERS: pa.list_(pa.field("element", header)),
    }
