"""Conversion of records to Arrow. Keys, values and headers are copied; arrays of numbers are mostly shared.

offset          int64
timestamp       timestamp[ms, UTC]; null = none
timestamp_type  int8; -1 none, 0 CreateTime, 1 LogAppendTime
key, value      binary
headers         list<struct<key: string, value: binary>>

`to_arrow` converts one `RecordColumns`, some thousand records; `reader` joins those of a log to larger batches, and
`partitions_reader` those of many logs, with two columns before the others:

topic           string
partition       int32
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arrow_buffers import gather_headers
from kafkalog._speedups.decode import gather

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Arrow output needs pyarrow: pip install 'kafkalog[arrow]'") from error

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE), nullable=False),
    ]
)
"""The schema of records: `offset timestamp timestamp_type key value headers`."""

PARTITIONS_SCHEMA = pa.schema(
    [pa.field("topic", pa.string(), nullable=False), pa.field("partition", pa.int32(), nullable=False), *SCHEMA]
)
"""The schema of records of several partitions: `topic partition`, and the columns of `SCHEMA`."""

# A batch of a `reader` has fewer records, or about this many bytes: enough for a row group of Parquet.
BATCH_ROWS = 1 << 16
BATCH_BYTES = 16 << 20


class Columns(Protocol):
    """The part of `RecordColumns` used here: a protocol, because `record_columns` imports this module."""

    @property
    def buffer(self) -> memoryview: ...
    @property
    def offset(self) -> NDArray[np.int64]: ...
    @property
    def timestamp(self) -> NDArray[np.int64]: ...
    @property
    def timestamp_type(self) -> NDArray[np.int8]: ...
    @property
    def key_start(self) -> NDArray[np.int64]: ...
    @property
    def key_length(self) -> NDArray[np.int64]: ...
    @property
    def value_start(self) -> NDArray[np.int64]: ...
    @property
    def value_length(self) -> NDArray[np.int64]: ...
    @property
    def headers_start(self) -> NDArray[np.int64]: ...
    @property
    def headers_length(self) -> NDArray[np.int64]: ...
    def __len__(self) -> int: ...


_ARRAYS: dict[str, Callable[[Columns], pa.Array]] = {
    "offset": lambda columns: pa.array(columns.offset),
    "timestamp": lambda columns: pa.array(columns.timestamp, mask=columns.timestamp == -1).cast(
        pa.timestamp("ms", tz="UTC")
    ),
    "timestamp_type": lambda columns: pa.array(columns.timestamp_type),
    "key": lambda columns: binary_array(columns.buffer, columns.key_start, columns.key_length),
    "value": lambda columns: binary_array(columns.buffer, columns.value_start, columns.value_length),
    "headers": lambda columns: headers_array(columns, list(HEADER_TYPE)),
}


def to_arrow(columns: Columns, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Convert columns to a `pyarrow.RecordBatch`, one row per record.

    It shares no memory with the columns' buffer.

    Args:
        columns: The records.
        schema: Fields of `SCHEMA`.

    Raises:
        OverflowError: Keys or values have more than 2**31 - 1 bytes in total; slice the columns first.
    """
    return pa.RecordBatch.from_arrays([_ARRAYS[name](columns) for name in schema.names], schema=schema)


def schema_of(names: Sequence[str] | None, schema: pa.Schema = SCHEMA) -> pa.Schema:
    """Return the fields of `schema` with these names, in their order; all of them for None.

    Raises:
        ValueError: There is no such field, or one is named twice.
    """
    if names is None:
        return schema
    wanted = [names] if isinstance(names, str) else list(names)
    is_known = wanted and all(name in schema.names for name in wanted)
    if isinstance(names, str) or not is_known or len({*wanted}) < len(wanted):
        raise ValueError(f"columns are different names among {', '.join(schema.names)}; not {names!r}")
    return pa.schema([schema.field(name) for name in wanted])


def reader(parts: Iterable[Columns], schema: pa.Schema = SCHEMA) -> pa.RecordBatchReader:
    """Return a reader of the records of all parts, in batches of up to `BATCH_ROWS` rows or about `BATCH_BYTES`.

    The parts are taken when a batch is asked for, and errors in taking them are raised then. A larger part is a batch
    of its own.

    Args:
        parts: The records.
        schema: Fields of `SCHEMA`.
    """
    return pa.RecordBatchReader.from_batches(schema, _joined(parts, schema))


def partitions_reader(
    partitions: Iterable[tuple[str, int, Iterable[Columns]]], schema: pa.Schema = PARTITIONS_SCHEMA
) -> pa.RecordBatchReader:
    """Return a reader of the records of many partitions, as `reader` does for one.

    Args:
        partitions: Topic, number and records of each.
        schema: Fields of `PARTITIONS_SCHEMA`.
    """
    # Without a field of the records, their number would not be known.
    own = pa.schema([field for field in schema if field.name in SCHEMA.names]) or pa.schema([SCHEMA.field("offset")])

    def batches() -> Iterator[pa.RecordBatch]:
        for topic, number, parts in partitions:
            place = {"topic": pa.scalar(topic), "partition": pa.scalar(number, pa.int32())}
            for batch in _joined(parts, own):
                arrays = [
                    pa.repeat(place[name], batch.num_rows) if name in place else batch.column(name)
                    for name in schema.names
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _joined(parts: Iterable[Columns], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for part in parts:
        batch = to_arrow(part, schema)
        del part
        if waiting and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def binary_array(buffer: memoryview, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.Array:
    """Return a `binary` array of the values buffer[starts[i]:starts[i] + lengths[i]]; length -1 = null.

    Raises:
        OverflowError: The values have more than 2**31 - 1 bytes in total.
    """
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    ends, data = gather(buffer, starts, lengths)
    return _pieces(ends, data, lengths < 0)


def headers_array(columns: Columns, fields: list[pa.Field], *, none_is_null: bool = False) -> pa.Array:
    """Return a `list<struct<fields>>` array of the headers.

    Args:
        columns: The records.
        fields: The field of the key and the field of the value.
        none_is_null: Whether a record without headers has null instead of an empty list.

    Raises:
        OverflowError: Header keys or values have more than 2**31 - 1 bytes in total.
    """
    lengths = np.ascontiguousarray(columns.headers_length)
    ends, key_ends, keys, value_ends, values, present = gather_headers(
        columns.buffer, np.ascontiguousarray(columns.headers_start), lengths
    )
    pairs = pa.StructArray.from_arrays(
        [_header_keys(key_ends, keys), _pieces(value_ends, values, present == 0)], fields=fields
    )
    kind = pa.list_(pa.field("element" if none_is_null else "item", pairs.type))
    none = lengths <= 0 if none_is_null else np.zeros(0, np.bool_)
    return pa.Array.from_buffers(
        kind, len(columns), [_validity(none, int(np.count_nonzero(none))), pa.py_buffer(ends)], children=[pairs]
    )


def _header_keys(ends: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    """Return the keys as text; invalid UTF-8 is replaced, as in Java."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    keys = pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    return keys


def _pieces(ends: NDArray[np.int32], data: NDArray[np.uint8], null: NDArray[np.bool_]) -> pa.Array:
    nulls = int(np.count_nonzero(null))
    buffers = [_validity(null, nulls), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers, null_count=nulls)


def _validity(null: NDArray[np.bool_], nulls: int) -> pa.Buffer | None:
    """Return Arrow's validity bitmap; None if there are no nulls, as Arrow expects."""
    return pa.py_buffer(np.packbits(~null, bitorder="little")) if nulls else None
